/** The picture of the map: nodes are buttons, arcs are drawn below them. What it shows is in the list and the details too. */
import type { RefObject } from "preact";
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { choose, chosenArcs, toggleRegion, type Choice } from "./choice";
import { arcAt, colors, drawn, Picture, type Colors, type Drawn } from "./draw";
import type { Arc, Graph, GraphNode } from "./graph";
import { WORDS } from "./health";
import { layout, type Box, type Group, type Layout, type Window } from "./layout";
import { Mark, plural } from "./parts";
import { reportsText } from "./path";
import { Viewport } from "./viewport";

/** How near to an arc the pointer has to be, in pixels. */
const NEAR = 9;

export function arcText({ from, to, services, endpoints, ready, health, paths, reports }: Arc): string {
  const [only] = services;
  const what = services.length === 1 && only ? `${only.namespace}/${only.name}` : plural(services.length, "service");
  const [path, ...more] = paths;
  const way = path === undefined ? "" : `, ${path}${more.length > 0 ? ` and ${plural(more.length, "other path")}` : ""}`;
  const reported = reportsText([...reports.values()]);
  return `${from.label} \u2192 ${to.label}: ${what}, ${ready} of ${plural(endpoints, "endpoint")} ready${way}${reported === "" ? "" : `, ${reported}`}${health === "ok" ? "" : `. ${WORDS[health]}`}`;
}

/** The size of the window, and the same in steps, so that a small change of it moves no node. */
function useWindow(frame: RefObject<HTMLElement | null>): [Window, string] {
  const [[size, exact], set] = useState<[Window, string]>([{ width: 900, height: 600 }, ""]);
  useLayoutEffect(() => {
    const element = frame.current;
    if (!element) return;
    const measure = (): void => {
      const { clientWidth: width, clientHeight: height } = element;
      const step = (pixels: number): number => Math.max(1, Math.round(pixels / 60)) * 60;
      if (width === 0 || height === 0) return;
      const next = { width: step(width), height: step(height) };
      set(([was]) => [was.width === next.width && was.height === next.height ? was : next, `${width} ${height}`]);
    };
    measure();
    const observer = new ResizeObserver(measure);
    observer.observe(element);
    return () => observer.disconnect();
  }, []);
  return [size, exact];
}

/** The colours of the arcs, read again when the theme changes. */
function usePalette(frame: RefObject<HTMLElement | null>): Colors | undefined {
  const [palette, set] = useState<Colors>();
  useLayoutEffect(() => {
    const read = (): void => {
      if (frame.current) set(colors(frame.current));
    };
    read();
    const media = matchMedia("(prefers-color-scheme: dark)");
    media.addEventListener("change", read);
    window.addEventListener("themechange", read);
    return () => {
      media.removeEventListener("change", read);
      window.removeEventListener("themechange", read);
    };
  }, []);
  return palette;
}

/** What is pointed at: ids, since what they stand for is another with each change. */
interface Hover {
  node: string;
  arc: string;
}

function Node({ node, box, chosen, dim, hover }: {
  node: GraphNode;
  box: Box;
  chosen: boolean;
  dim: boolean;
  hover: (id: string, box: Box | undefined) => void;
}) {
  const style = { width: `${box.width}px`, height: `${box.height}px`, transform: `translate(${box.x - box.width / 2}px, ${box.y - box.height / 2}px)` };
  return (
    <li style={style} class={dim ? "dim" : undefined}>
      <button
        type="button"
        class={`node ${node.health}${node.isRegion ? " region" : ""}`}
        data-id={node.id}
        aria-pressed={chosen}
        onClick={() => choose(chosen ? "" : node.id)}
        onPointerEnter={() => hover(node.id, undefined)}
        onPointerLeave={() => hover("", undefined)}
        onFocus={() => hover(node.id, box)}
        onBlur={() => hover("", undefined)}
      >
        <Mark health={node.health} />
        <span class="hidden">{node.isRegion ? "Region " : "Cluster "}</span>
        <span class="name" title={node.label}>{node.label}</span>
        {node.isRegion && <span class="load">{node.ready < node.clusters.length && `${node.ready} of `}{node.clusters.length}<span class="hidden"> clusters ready</span></span>}
        <span class="hidden">: {WORDS[node.health]}, provides {plural(node.provides, "service")}, consumes {node.consumes}</span>
      </button>
    </li>
  );
}

function Frame({ group, params }: { group: Group; params: URLSearchParams }) {
  const style = {
    width: `${group.width}px`,
    height: `${group.height}px`,
    left: `${group.x - group.width / 2}px`,
    top: `${group.y - group.height / 2}px`,
  };
  const collapsible = params.get("open");
  return (
    <div class="group" style={style}>
      <span title={group.region}>{group.region}</span>
      {collapsible && (
        <button type="button" class="quiet" aria-label={`Collapse region ${group.region}`} onClick={() => toggleRegion(params, group.region)}>Collapse</button>
      )}
    </div>
  );
}

/** Both canvases: all arcs, and above them those that are pointed at. */
function usePictures(
  refs: { frame: RefObject<HTMLDivElement | null>; plane: RefObject<HTMLDivElement | null>; base: RefObject<HTMLCanvasElement | null>; top: RefObject<HTMLCanvasElement | null> },
  viewport: RefObject<Viewport | null>,
  { at, all, lit, palette, shape }: { at: Layout; all: Drawn[]; lit: Drawn[]; palette: Colors | undefined; shape: string },
): void {
  const pictures = useRef<[Picture, Picture]>(null);
  const redraw = useRef((_parts: "all" | "top") => {});
  redraw.current = (parts) => {
    const frame = refs.frame.current;
    const [base, top] = pictures.current ?? [];
    if (!frame || !base || !top || !palette || !viewport.current) return;
    const { camera } = viewport.current;
    if (parts === "all") base.draw(camera, frame, at, palette, false);
    top.draw(camera, frame, at, palette, true);
  };
  useLayoutEffect(() => {
    const { frame, plane, base, top } = refs;
    if (!frame.current || !plane.current || !base.current || !top.current) return;
    pictures.current = [new Picture(base.current), new Picture(top.current)];
    const own = new Viewport(frame.current, plane.current, () => redraw.current("all"));
    viewport.current = own;
    return () => own.end();
  }, []);
  useLayoutEffect(() => {
    if (viewport.current && !viewport.current.moved) viewport.current.fit(at.bounds);
  }, [at, shape]);
  useLayoutEffect(() => {
    pictures.current?.[0].set(all);
    redraw.current("all");
  }, [at, all, palette, shape]);
  useLayoutEffect(() => {
    pictures.current?.[1].set(lit);
    redraw.current("top");
  }, [lit]);
}

function Zoom({ viewport, bounds }: { viewport: RefObject<Viewport | null>; bounds: Layout["bounds"] }) {
  return (
    <div class="zoom" role="group" aria-label="Zoom">
      <button type="button" aria-label="Zoom in" onClick={() => viewport.current?.zoom(1.25)}>+</button>
      <button type="button" aria-label="Zoom out" onClick={() => viewport.current?.zoom(0.8)}>{"\u2212"}</button>
      <button type="button" aria-label="Fit the map into the window" onClick={() => viewport.current?.fit(bounds)}>Fit</button>
    </div>
  );
}

function Tip({ text, at }: { text: string; at: [number, number] }) {
  return <div class="tip" aria-hidden="true" style={{ transform: `translate(${at[0]}px, ${at[1]}px)` }}>{text}</div>;
}

/** Names of nodes are at least this many pixels high on the screen, or the whole name is shown beside the node. */
const LEGIBLE = 12;

/** The whole name of a node that is pointed at or has the focus, in the size of the page, where the map shows it smaller or cut. */
function NodeTip({ node, box, frame, viewport }: { node: GraphNode; box: Box; frame: HTMLElement; viewport: Viewport }) {
  const { scale, x, y } = viewport.camera;
  const name = frame.querySelector<HTMLElement>(`.node[data-id="${CSS.escape(node.id)}"] .name`);
  if (!name) return null;
  const size = parseFloat(getComputedStyle(name).fontSize) * scale;
  if (size >= LEGIBLE && name.scrollWidth <= name.clientWidth) return null;
  const left = Math.min(Math.max(8, (box.x - box.width / 2) * scale + x), Math.max(8, frame.clientWidth - 300));
  const below = (box.y + box.height / 2) * scale + y + 6;
  return <Tip text={`${node.label}${node.health === "ok" ? "" : `. ${WORDS[node.health]}`}`} at={[left, Math.min(below, frame.clientHeight - 34)]} />;
}

/** What the pointer is over, looked up once a frame. */
function useHover(frame: RefObject<HTMLDivElement | null>, viewport: RefObject<Viewport | null>, all: Drawn[]) {
  const [hover, set] = useState<Hover>({ node: "", arc: "" });
  const [tip, place] = useState<[number, number]>([0, 0]);
  const latest = useRef(all);
  latest.current = all;
  useEffect(() => {
    const element = frame.current;
    if (!element) return;
    let event: PointerEvent | undefined;
    let request = 0;
    const look = (): void => {
      request = 0;
      const view = viewport.current;
      if (!event || !view || event.buttons !== 0) return;
      const over = event.target instanceof Element && event.target.closest("button");
      const arc = over ? undefined : arcAt(latest.current, view.toMap(event.clientX, event.clientY), NEAR / view.camera.scale);
      const { left, top, width } = element.getBoundingClientRect();
      place([Math.min(event.clientX - left + 12, Math.max(8, width - 300)), event.clientY - top + 16]);
      const id = arc?.arc.id ?? "";
      set((was) => (was.arc === id ? was : { ...was, arc: id }));
    };
    const moved = (next: PointerEvent): void => {
      event = next;
      if (next.buttons === 0) request ||= requestAnimationFrame(look);
    };
    const left = (): void => set((was) => ({ ...was, arc: "" }));
    element.addEventListener("pointermove", moved);
    element.addEventListener("pointerleave", left);
    return () => {
      cancelAnimationFrame(request);
      element.removeEventListener("pointermove", moved);
      element.removeEventListener("pointerleave", left);
    };
  }, []);
  return { hover, set, tip };
}

export function Plane({ graph, choice, params, filtered }: { graph: Graph; choice: Choice; params: URLSearchParams; filtered: boolean }) {
  const refs = {
    frame: useRef<HTMLDivElement>(null),
    plane: useRef<HTMLDivElement>(null),
    base: useRef<HTMLCanvasElement>(null),
    top: useRef<HTMLCanvasElement>(null),
  };
  const [size, shape] = useWindow(refs.frame);
  const palette = usePalette(refs.frame);
  const ids = graph.nodes.map((node) => `${node.id} ${node.region}`).join("\n");
  const at = useMemo(() => layout(graph.nodes, size), [ids, size]);
  const all = useMemo(() => drawn(graph.arcs, at), [graph, at]);
  const viewport = useRef<Viewport>(null);
  const { hover, set, tip } = useHover(refs.frame, viewport, all);
  const over = hover.arc === "" ? undefined : all.find((one) => one.arc.id === hover.arc)?.arc;
  const pointed = hover.node !== "" ? chosenArcs(graph, { node: hover.node, to: "" }) : over ? [over] : chosenArcs(graph, choice);
  const known = graph.nodes.some((node) => node.id === (hover.node || choice.node));
  const active = known || over !== undefined;
  const litKey = pointed.map((arc) => arc.id).join();
  const lit = useMemo(() => {
    const arcs = new Set(pointed);
    return active ? all.filter((one) => arcs.has(one.arc)) : [];
  }, [all, litKey, active]);
  // Another grouping is another map: it is shown whole, whatever was looked at before.
  const grouping = `${params.get("group")} ${params.get("open")}`;
  useLayoutEffect(() => {
    if (viewport.current) viewport.current.moved = false;
    set({ node: "", arc: "" });
  }, [grouping]);
  usePictures(refs, viewport, { at, all, lit, palette, shape });
  const ends = new Set(lit.flatMap(({ arc }) => [arc.from.id, arc.to.id]));
  const focus = hover.node || choice.node;
  const idle = (node: GraphNode): boolean => filtered && node.provides + node.consumes === 0;
  const enter = (id: string, box: Box | undefined): void => {
    set({ node: id, arc: "" });
    if (box) viewport.current?.reveal(box);
  };
  const click = (event: MouseEvent): void => {
    if (viewport.current?.dragged || (event.target instanceof Element && event.target.closest("button"))) return;
    const arc = viewport.current && arcAt(all, viewport.current.toMap(event.clientX, event.clientY), NEAR / viewport.current.camera.scale)?.arc;
    choose(arc?.from.id ?? "", arc?.to.id ?? "");
  };
  const key = (event: KeyboardEvent): void => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "Escape") choose("");
    else if (event.key === "0") viewport.current?.fit(at.bounds);
    else if (!viewport.current?.key(event.key)) return;
    event.preventDefault();
  };
  const named = graph.nodes.find((node) => node.id === hover.node);
  const namedBox = at.nodes.get(hover.node);
  const label = `Map of ${plural(graph.nodes.length, "node")}. Arrow keys move it, plus and minus zoom, 0 fits it. The list has the same as a table.`;
  return (
    <div class={`frame${active ? " active" : ""}${over ? " over" : ""}`} ref={refs.frame} role="group" aria-label={label} onKeyDown={key} onClick={click}>
      <a class="skip" href="#details" onClick={(event) => { event.preventDefault(); document.getElementById("details")?.focus(); }}>Skip the nodes</a>
      <div class="plane" ref={refs.plane}>
        {at.groups.map((group) => <Frame key={group.region} group={group} params={params} />)}
        <canvas class="base" ref={refs.base} aria-hidden="true" />
        <canvas class="top" ref={refs.top} aria-hidden="true" />
        <ul aria-label="Clusters">
          {graph.nodes.map((node) => {
            const box = at.nodes.get(node.id);
            const dim = active ? !ends.has(node.id) && node.id !== focus : idle(node);
            return box && <Node key={node.id} node={node} box={box} chosen={choice.node === node.id && choice.to === ""} dim={dim} hover={enter} />;
          })}
        </ul>
      </div>
      <Zoom viewport={viewport} bounds={at.bounds} />
      {over && <Tip text={arcText(over)} at={tip} />}
      {named && namedBox && refs.frame.current && viewport.current && <NodeTip node={named} box={namedBox} frame={refs.frame.current} viewport={viewport.current} />}
    </div>
  );
}
