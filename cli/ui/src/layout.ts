/** Where the nodes of the map are: regions on an ellipse, the clusters of each beside one another. Pure, the same for the same input. */
import type { Arc, GraphNode } from "./graph";

export interface Box {
  x: number;
  y: number;
  width: number;
  height: number;
}

export interface Group extends Box {
  region: string;
}

export interface Bounds {
  left: number;
  top: number;
  right: number;
  bottom: number;
}

export interface Layout {
  /** The centre and the size of each node, by its id. */
  nodes: ReadonlyMap<string, Box>;
  /** The frames of regions whose clusters are shown. */
  groups: Group[];
  bounds: Bounds;
}

const NODE_HEIGHT = 38;
const GAP = 14;
/** From this many nodes on each is smaller. */
const DENSE_FROM = 40;
const DENSE_HEIGHT = 30;
const DENSE_GAP = 8;
/** Between few clusters there is space for the arcs from one to the other. */
const WIDE_GAP = 34;
const FEW = 4;
const HEADER = 30;
/** Clusters without a region stand alone up to this many; more are shown in blocks. */
const ALONE_AT_MOST = 16;
const ARC_AROUND = 40;
const BLOCK = 10;

interface Placed extends Box {
  region: string;
  framed: boolean;
  nodes: GraphNode[];
  columns: number;
  gap: number;
  high: number;
}

/** As wide as the longest name needs, within bounds. */
export function nodeWidth(nodes: GraphNode[]): number {
  const longest = Math.max(0, ...nodes.map((node) => node.label.length));
  const around = nodes.length >= DENSE_FROM ? 62 : 84;
  return Math.min(220, Math.max(100, Math.round(longest * 8.8) + around));
}

function blocks(nodes: GraphNode[]): { region: string; framed: boolean; nodes: GraphNode[] }[] {
  const regions = new Map<string, GraphNode[]>();
  const without: GraphNode[] = [];
  const all: { region: string; framed: boolean; nodes: GraphNode[] }[] = [];
  for (const node of nodes) {
    if (node.isRegion) all.push({ region: node.region, framed: false, nodes: [node] });
    else if (node.region === "") without.push(node);
    else regions.set(node.region, [...(regions.get(node.region) ?? []), node]);
  }
  for (const [region, own] of regions) all.push({ region, framed: true, nodes: own });
  all.sort((a, b) => a.region.localeCompare(b.region, "en", { numeric: true }));
  const size = without.length <= ALONE_AT_MOST ? 1 : BLOCK;
  for (let at = 0; at < without.length; at += size) {
    all.push({ region: "", framed: false, nodes: without.slice(at, at + size) });
  }
  return all;
}

function sized(nodes: GraphNode[], width: number, narrow: boolean): Placed[] {
  const dense = nodes.length >= DENSE_FROM;
  const high = dense ? DENSE_HEIGHT : NODE_HEIGHT;
  return blocks(nodes).map((block) => {
    const count = block.nodes.length;
    const gap = dense ? DENSE_GAP : count <= FEW ? WIDE_GAP : GAP;
    const columns = narrow || count <= FEW ? 1 : Math.min(3, Math.ceil(Math.sqrt(count / 2.5)));
    const rows = Math.ceil(count / columns);
    const frame = block.framed ? GAP : 0;
    return {
      ...block,
      x: 0,
      y: 0,
      columns,
      gap,
      high,
      width: columns * (width + GAP) - GAP + 2 * frame,
      height: rows * (high + gap) - gap + 2 * frame + (block.framed ? HEADER - GAP / 2 : 0),
    };
  });
}

function overlap(a: Box, b: Box, space: number): boolean {
  return Math.abs(a.x - b.x) < (a.width + b.width) / 2 + space && Math.abs(a.y - b.y) < (a.height + b.height) / 2 + space;
}

/** The window that the map is in, in pixels. */
export interface Window {
  width: number;
  height: number;
}

/** Puts the blocks on an ellipse that fills the window; on a larger one where they would touch one another. */
function onEllipse(placed: Placed[], { width, height }: Window): void {
  const widest = Math.max(...placed.map((one) => one.width));
  const highest = Math.max(...placed.map((one) => one.height));
  const across = Math.max(60, (width - widest) / 2 - 48);
  const down = Math.max(60, (height - highest) / 2 - 48);
  // Two stand where there is more space between them.
  const begin = placed.length === 2 && height > width ? -Math.PI / 2 : Math.PI;
  for (let factor = 1; factor < 100; factor *= 1.04) {
    placed.forEach((one, at) => {
      const angle = begin + (2 * Math.PI * at) / placed.length;
      one.x = Math.cos(angle) * across * factor;
      one.y = Math.sin(angle) * down * factor;
    });
    const free = placed.every((a, at) => placed.slice(at + 1).every((b) => !overlap(a, b, 34)));
    if (free) return;
  }
}

/** The cells around a grid, clockwise from its upper left. */
function rim(columns: number, rows: number): [number, number][] {
  const cells: [number, number][] = [];
  for (let column = 0; column < columns; column += 1) cells.push([column, 0]);
  for (let row = 1; row < rows; row += 1) cells.push([columns - 1, row]);
  if (rows > 1) for (let column = columns - 2; column >= 0; column -= 1) cells.push([column, rows - 1]);
  if (columns > 1) for (let row = rows - 2; row > 0; row -= 1) cells.push([0, row]);
  return cells;
}

/** Where rows or columns of these sizes have their middles, about 0. */
function middles(sizes: number[], gap: number): number[] {
  const all = sizes.reduce((sum, one) => sum + one, 0) + gap * (sizes.length - 1);
  let begin = -all / 2;
  return sizes.map((size) => {
    const middle = begin + size / 2;
    begin += size + gap;
    return middle;
  });
}

/** Puts the blocks around a grid of this many columns, with the middle left to the arcs. */
function onRim(placed: Placed[], columns: number, rows: number): void {
  const cells = rim(columns, rows);
  const widths = new Array<number>(columns).fill(0);
  const heights = new Array<number>(rows).fill(0);
  const own = placed.map((one, at) => {
    const [column, row] = cells[Math.floor((at * cells.length) / placed.length)] ?? [0, 0];
    widths[column] = Math.max(widths[column] ?? 0, one.width);
    heights[row] = Math.max(heights[row] ?? 0, one.height);
    return { one, column, row };
  });
  const [across, down] = [middles(widths, 64), middles(heights, 44)];
  for (const { one, column, row } of own) {
    one.x = across[column] ?? 0;
    one.y = down[row] ?? 0;
  }
}

/** How large the blocks can be shown in the window. */
function scale(placed: Placed[], { width, height }: Window): number {
  const right = Math.max(...placed.map((one) => Math.abs(one.x) + one.width / 2));
  const bottom = Math.max(...placed.map((one) => Math.abs(one.y) + one.height / 2));
  return Math.min(1, width / 2 / right, height / 2 / bottom);
}

/** An ellipse where they are few, else around the grid on which they are largest. */
function arrange(placed: Placed[], window: Window): void {
  if (placed.length < 2) return;
  onEllipse(placed, window);
  const count = placed.length;
  let best: [number, number] | undefined;
  let largest = scale(placed, window) * 1.08;
  for (let rows = 2; rows <= count; rows += 1) {
    const columns = Math.max(1, Math.ceil((count + 4) / 2) - rows);
    onRim(placed, columns, rows);
    const reached = scale(placed, window);
    if (reached > largest) [largest, best] = [reached, [columns, rows]];
  }
  if (best) onRim(placed, ...best);
  else onEllipse(placed, window);
}

export function layout(nodes: GraphNode[], window: Window): Layout {
  const width = nodeWidth(nodes);
  const placed = sized(nodes, width, window.width < 500);
  arrange(placed, window);
  const at = new Map<string, Box>();
  const groups: Group[] = [];
  const bounds = { left: -80, top: -60, right: 80, bottom: 60 };
  for (const block of placed) {
    const frame = block.framed ? GAP : 0;
    const left = block.x - block.width / 2 + frame;
    const top = block.y - block.height / 2 + frame + (block.framed ? HEADER - GAP / 2 : 0);
    block.nodes.forEach((node, index) => {
      const column = index % block.columns;
      const row = Math.floor(index / block.columns);
      at.set(node.id, {
        x: left + column * (width + GAP) + width / 2,
        y: top + row * (block.high + block.gap) + block.high / 2,
        width,
        height: block.high,
      });
    });
    // Arcs between clusters one above the other go around them.
    const around = block.columns === 1 && block.nodes.length > 1 ? ARC_AROUND : 0;
    if (block.framed) groups.push({ region: block.region, x: block.x, y: block.y, width: block.width, height: block.height });
    bounds.left = Math.min(bounds.left, block.x - block.width / 2 - around);
    bounds.right = Math.max(bounds.right, block.x + block.width / 2 + around);
    bounds.top = Math.min(bounds.top, block.y - block.height / 2);
    bounds.bottom = Math.max(bounds.bottom, block.y + block.height / 2);
  }
  return { nodes: at, groups, bounds };
}

/** A quadratic curve. */
export interface Curve {
  x0: number;
  y0: number;
  cx: number;
  cy: number;
  x1: number;
  y1: number;
}

/** How far arcs side by side are from one another, at their middles. */
const LANE = 26;

/** The way of an arc: towards the middle of the map, and to its own right hand, so that there and back are two ways. */
export function curve(arc: Arc, at: Layout["nodes"]): Curve | undefined {
  const from = at.get(arc.from.id);
  const to = at.get(arc.to.id);
  if (!from || !to) return undefined;
  const dx = to.x - from.x;
  const dy = to.y - from.y;
  const length = Math.hypot(dx, dy) || 1;
  // One above the other: the arc goes around what is between them.
  const around = Math.abs(dx) < from.width * 0.7 && arc.from.region === arc.to.region && arc.from.region !== "";
  const side = (around ? from.width * 1.1 : Math.min(60, 16 + length * 0.07)) + arc.lane * LANE;
  const pull = around ? 1 : 0.55;
  const cx = ((from.x + to.x) / 2) * pull - (dy / length) * side;
  const cy = ((from.y + to.y) / 2) * pull + (dx / length) * side;
  return { x0: from.x, y0: from.y, cx, cy, x1: to.x, y1: to.y };
}

export function pointOf({ x0, y0, cx, cy, x1, y1 }: Curve, t: number): [number, number] {
  const u = 1 - t;
  return [u * u * x0 + 2 * u * t * cx + t * t * x1, u * u * y0 + 2 * u * t * cy + t * t * y1];
}

/** How wide arcs are: more endpoints are wider; the more arcs there are, the less wide is the widest. */
export function widths(arcs: Arc[]): (endpoints: number) => number {
  const most = Math.max(16, ...arcs.map((arc) => arc.endpoints));
  const widest = arcs.length <= 50 ? 8 : arcs.length <= 150 ? 6 : 3.5;
  return (endpoints) => 1.25 + (widest - 1.25) * Math.sqrt(Math.min(1, endpoints / most));
}
