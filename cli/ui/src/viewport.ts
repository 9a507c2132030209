/** Which part of the map is seen: moved by dragging, wheel, pinch and keys. It changes one transform; what is drawn anew waits. */

import type { Bounds } from "./layout";

export interface Camera {
  /** How many pixels of the screen one of the map is. */
  scale: number;
  /** Where the middle of the map is on the screen. */
  x: number;
  y: number;
}

/** How much more than the window is drawn on each side, as a part of it: so far it can be dragged before arcs are drawn again. */
export const MARGIN = 0.35;
const LEAST = 0.12;
const ZOOM_HEIGHT = 40;
const MOST = 3;
/** Pixels of the screen that an arrow key moves. */
const STEP = 60;
/** How long nothing moves until the arcs are drawn sharp again. */
const SETTLE_MS = 90;
/** A pointer that moved less has clicked. */
const CLICK = 4;

export class Viewport {
  camera: Camera = { scale: 1, x: 0, y: 0 };
  /** Whether a person has moved it: then it is no longer fitted by itself. */
  moved = false;
  /** Whether the pointer that was just lifted had dragged. */
  dragged = false;
  private readonly pointers = new Map<number, { x: number; y: number }>();
  private timer: number | undefined;
  private drawnAt: Camera = { scale: 1, x: 0, y: 0 };
  private travelled = 0;

  /**
   * @param frame the window onto the map
   * @param plane what is moved
   * @param settled called when it has come to rest
   */
  constructor(
    private readonly frame: HTMLElement,
    private readonly plane: HTMLElement,
    private readonly settled: () => void,
  ) {
    frame.addEventListener("pointerdown", this.down);
    frame.addEventListener("pointermove", this.move);
    frame.addEventListener("pointerup", this.up);
    frame.addEventListener("pointercancel", this.up);
    frame.addEventListener("wheel", this.wheel, { passive: false });
  }

  end(): void {
    window.clearTimeout(this.timer);
    this.frame.removeEventListener("pointerdown", this.down);
    this.frame.removeEventListener("pointermove", this.move);
    this.frame.removeEventListener("pointerup", this.up);
    this.frame.removeEventListener("pointercancel", this.up);
    this.frame.removeEventListener("wheel", this.wheel);
  }

  /** Shows all of it, as large as it may be. */
  fit(bounds: Bounds): void {
    const { clientWidth: width, clientHeight: height } = this.frame;
    if (width === 0 || height === 0) return;
    const space = width < 500 ? 12 : 28;
    // What zooms lies upon the lower edge.
    const free = height - ZOOM_HEIGHT;
    const wide = (width - 2 * space) / (bounds.right - bounds.left);
    const high = (free - 2 * space) / (bounds.bottom - bounds.top);
    const scale = Math.min(1.15, Math.max(LEAST, Math.min(wide, high)));
    const x = width / 2 - ((bounds.left + bounds.right) / 2) * scale;
    const y = (free + space) / 2 - ((bounds.top + bounds.bottom) / 2) * scale;
    this.moved = false;
    this.set({ scale, x, y });
  }

  /** Zooms about the middle of the window. */
  zoom(factor: number): void {
    const { clientWidth, clientHeight } = this.frame;
    this.zoomAt(factor, clientWidth / 2, clientHeight / 2);
  }

  /** Moves so that a box of the map is in the window. */
  reveal(box: { x: number; y: number; width: number; height: number }): void {
    const { scale, x, y } = this.camera;
    const { clientWidth, clientHeight } = this.frame;
    const left = (box.x - box.width / 2) * scale + x;
    const top = (box.y - box.height / 2) * scale + y;
    const overX = left < 8 ? 8 - left : Math.min(0, clientWidth - 8 - (left + box.width * scale));
    const overY = top < 8 ? 8 - top : Math.min(0, clientHeight - 8 - (top + box.height * scale));
    if (overX !== 0 || overY !== 0) this.set({ scale, x: x + overX, y: y + overY });
  }

  /** What a key does; whether it does anything. */
  key(key: string): boolean {
    const { scale, x, y } = this.camera;
    const steps: Record<string, [number, number]> = {
      ArrowLeft: [STEP, 0], ArrowRight: [-STEP, 0], ArrowUp: [0, STEP], ArrowDown: [0, -STEP],
    };
    const step = steps[key];
    if (step) {
      this.moved = true;
      this.set({ scale, x: x + step[0], y: y + step[1] });
    } else if (key === "+" || key === "=") this.zoom(1.25);
    else if (key === "-") this.zoom(0.8);
    else return false;
    return true;
  }

  /** The point of the map that is at a point of the screen. */
  toMap(clientX: number, clientY: number): [number, number] {
    const { left, top } = this.frame.getBoundingClientRect();
    const { scale, x, y } = this.camera;
    return [(clientX - left - x) / scale, (clientY - top - y) / scale];
  }

  private set(camera: Camera): void {
    this.camera = camera;
    this.plane.style.transform = `translate(${camera.x}px, ${camera.y}px) scale(${camera.scale})`;
    window.clearTimeout(this.timer);
    if (this.isFar()) this.drawAgain();
    else this.timer = window.setTimeout(this.rest, SETTLE_MS);
  }

  private readonly rest = (): void => {
    // What is held still may move on: the arcs are drawn again when it is let go.
    if (this.pointers.size > 0) return;
    this.drawAgain();
  };

  private drawAgain(): void {
    this.drawnAt = this.camera;
    this.settled();
  }

  /** Whether so much came into the window since the arcs were drawn that their edge may show. */
  private isFar(): boolean {
    const { clientWidth, clientHeight } = this.frame;
    const { x, y } = this.camera;
    return Math.abs(x - this.drawnAt.x) > clientWidth * MARGIN * 0.9 || Math.abs(y - this.drawnAt.y) > clientHeight * MARGIN * 0.9;
  }

  private zoomAt(factor: number, px: number, py: number): void {
    const { scale, x, y } = this.camera;
    const next = Math.min(MOST, Math.max(LEAST, scale * factor));
    const by = next / scale;
    this.moved = true;
    this.set({ scale: next, x: px - (px - x) * by, y: py - (py - y) * by });
  }

  private readonly down = (event: PointerEvent): void => {
    if (event.button !== 0) return;
    this.pointers.set(event.pointerId, { x: event.clientX, y: event.clientY });
    this.travelled = 0;
    this.dragged = false;
  };

  private readonly move = (event: PointerEvent): void => {
    const was = this.pointers.get(event.pointerId);
    if (!was) return;
    const now = { x: event.clientX, y: event.clientY };
    const other = [...this.pointers].find(([id]) => id !== event.pointerId)?.[1];
    this.pointers.set(event.pointerId, now);
    this.travelled += Math.hypot(now.x - was.x, now.y - was.y);
    if (this.travelled < CLICK) return;
    if (!this.dragged) {
      this.dragged = true;
      // From here on the pointer is the map's, wherever it goes: a node below it is not clicked.
      this.frame.setPointerCapture(event.pointerId);
      this.plane.classList.add("moving");
    }
    this.moved = true;
    const { scale, x, y } = this.camera;
    if (other) {
      const { left, top } = this.frame.getBoundingClientRect();
      const before = Math.hypot(was.x - other.x, was.y - other.y) || 1;
      const after = Math.hypot(now.x - other.x, now.y - other.y);
      this.zoomAt(after / before, (now.x + other.x) / 2 - left, (now.y + other.y) / 2 - top);
    } else {
      this.set({ scale, x: x + now.x - was.x, y: y + now.y - was.y });
    }
  };

  private readonly up = (event: PointerEvent): void => {
    this.pointers.delete(event.pointerId);
    if (this.pointers.size > 0) return;
    this.plane.classList.remove("moving");
    this.rest();
  };

  private readonly wheel = (event: WheelEvent): void => {
    event.preventDefault();
    const { left, top } = this.frame.getBoundingClientRect();
    const pixels = event.deltaMode === WheelEvent.DOM_DELTA_LINE ? event.deltaY * 16 : event.deltaY;
    this.zoomAt(Math.exp(-pixels * 0.0015), event.clientX - left, event.clientY - top);
  };
}
