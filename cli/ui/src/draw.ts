/** The arcs, on a canvas: thousands of them are drawn in a moment, and moved as one picture while the map is dragged. */
import type { Arc } from "./graph";
import { HEALTHS, type Health } from "./health";
import { curve, pointOf, widths, type Box, type Curve, type Layout } from "./layout";
import { MARGIN, type Camera } from "./viewport";

export interface Drawn {
  arc: Arc;
  curve: Curve;
  width: number;
  /** The arc again for each health that a part of it has, as wide as that part. */
  strands: [Health, number][];
}

export type Colors = Record<Health, string>;

/** Of more arcs the directions are not shown all at once, but when one is pointed at. */
const HEADS_AT_MOST = 260;

/** The colours as the style has them now; a canvas knows no variables. */
export function colors(element: HTMLElement): Colors {
  const probe = document.createElement("span");
  element.append(probe);
  const all = HEALTHS.map((health) => {
    probe.className = `arc-${health}`;
    return [health, getComputedStyle(probe).color] as const;
  });
  probe.remove();
  return Object.fromEntries(all) as Colors;
}

export function drawn(arcs: Arc[], layout: Layout): Drawn[] {
  const width = widths(arcs);
  const all: Drawn[] = [];
  for (const arc of arcs) {
    const way = curve(arc, layout.nodes);
    if (!way) continue;
    // What is well is as wide as all of it, with what is not upon it.
    const strands = HEALTHS.filter((health) => arc.shares[health] > 0).map((health, at): [Health, number] => {
      return [health, width(at === 0 ? arc.endpoints : arc.shares[health])];
    });
    all.push({ arc, curve: way, width: width(arc.endpoints), strands });
  }
  // What is wrong lies on top.
  return all.sort((a, b) => HEALTHS.indexOf(a.arc.health) - HEALTHS.indexOf(b.arc.health));
}

/** How strong arcs are: the more there are, the less each. */
function strength(count: number, health: Health): number {
  const base = Math.min(0.8, Math.max(0.13, 4.5 / Math.sqrt(count + 1)));
  return health === "ok" ? base : Math.min(0.95, base + 0.3);
}

function inside(box: Box, [x, y]: [number, number]): boolean {
  return Math.abs(x - box.x) <= box.width / 2 + 3 && Math.abs(y - box.y) <= box.height / 2 + 3;
}

/** A triangle where an arc meets the node that it leads to. */
function head(context: CanvasRenderingContext2D, { curve: way, width }: Drawn, box: Box): void {
  let t = 1;
  while (t > 0.5 && inside(box, pointOf(way, t))) t -= 0.01;
  const [x, y] = pointOf(way, t);
  const [bx, by] = pointOf(way, t - 0.03);
  const angle = Math.atan2(y - by, x - bx);
  const size = 6 + width * 0.9;
  context.beginPath();
  context.moveTo(x, y);
  for (const side of [-0.42, 0.42]) context.lineTo(x - size * Math.cos(angle + side), y - size * Math.sin(angle + side));
  context.closePath();
  context.fill();
}

/** Arcs of one health and about one width, as one path. */
function bundles(all: Drawn[]): Map<string, { health: Health; width: number; path: Path2D }> {
  const found = new Map<string, { health: Health; width: number; path: Path2D }>();
  for (const { curve: way, strands } of all) {
    for (const [health, width] of strands) {
      const rounded = Math.round(width * 2) / 2;
      const id = `${HEALTHS.indexOf(health)} ${rounded}`;
      const bundle = found.get(id) ?? { health, width: rounded, path: new Path2D() };
      bundle.path.moveTo(way.x0, way.y0);
      bundle.path.quadraticCurveTo(way.cx, way.cy, way.x1, way.y1);
      found.set(id, bundle);
    }
  }
  return found;
}

/** One canvas of arcs, kept where it belongs on the map. */
export class Picture {
  private all: Drawn[] = [];
  private paths = bundles([]);

  constructor(readonly canvas: HTMLCanvasElement) {}

  set(all: Drawn[]): void {
    this.all = all;
    this.paths = bundles(all);
  }

  /** Draws what the camera sees, and some more around it. */
  draw(camera: Camera, frame: HTMLElement, layout: Layout, palette: Colors, strong: boolean): void {
    const { clientWidth: width, clientHeight: height } = frame;
    const { canvas } = this;
    canvas.hidden = this.all.length === 0;
    if (canvas.hidden) return;
    const ratio = Math.min(2, window.devicePixelRatio || 1);
    const [marginX, marginY] = [width * MARGIN, height * MARGIN];
    const [wide, high] = [Math.round((width + 2 * marginX) * ratio), Math.round((height + 2 * marginY) * ratio)];
    if (canvas.width !== wide || canvas.height !== high) {
      canvas.width = wide;
      canvas.height = high;
    }
    const context = canvas.getContext("2d");
    if (!context) return;
    canvas.style.width = `${width + 2 * marginX}px`;
    canvas.style.height = `${height + 2 * marginY}px`;
    const back = 1 / camera.scale;
    canvas.style.transform = `translate(${(-camera.x - marginX) * back}px, ${(-camera.y - marginY) * back}px) scale(${back})`;
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.clearRect(0, 0, wide, high);
    const scale = camera.scale * ratio;
    context.setTransform(scale, 0, 0, scale, (camera.x + marginX) * ratio, (camera.y + marginY) * ratio);
    this.paint(context, layout, palette, strong, back);
  }

  private paint(context: CanvasRenderingContext2D, layout: Layout, palette: Colors, strong: boolean, pixel: number): void {
    const count = this.all.length;
    context.lineCap = "round";
    const ordered = [...this.paths].sort(([a], [b]) => (a < b ? -1 : 1));
    for (const [, { health, width, path }] of ordered) {
      context.globalAlpha = strong ? 0.95 : strength(count, health);
      context.strokeStyle = palette[health];
      context.lineWidth = Math.max(width, pixel);
      context.setLineDash(health === "disconnected" ? [7, 6] : []);
      context.stroke(path);
    }
    context.setLineDash([]);
    if (count > HEADS_AT_MOST) return;
    for (const one of this.all) {
      const box = layout.nodes.get(one.arc.to.id);
      if (!box) continue;
      context.globalAlpha = strong ? 1 : Math.min(1, strength(count, one.arc.health) + 0.15);
      context.fillStyle = palette[one.strands[0]?.[0] ?? one.arc.health];
      head(context, one, box);
    }
  }
}

/** The arc at a point of the map, if one is as near as that. */
export function arcAt(all: Drawn[], [x, y]: [number, number], near: number): Drawn | undefined {
  let best: Drawn | undefined;
  let least = near;
  for (const one of all) {
    const { x0, y0, cx, cy, x1, y1 } = one.curve;
    const reach = near + one.width / 2;
    if (x < Math.min(x0, cx, x1) - reach || x > Math.max(x0, cx, x1) + reach) continue;
    if (y < Math.min(y0, cy, y1) - reach || y > Math.max(y0, cy, y1) + reach) continue;
    for (let step = 1; step < 40; step += 1) {
      const [px, py] = pointOf(one.curve, step / 40);
      const distance = Math.max(0, Math.hypot(px - x, py - y) - one.width / 2 - 3);
      if (distance < least) {
        least = distance;
        best = one;
      }
    }
  }
  return best;
}
