/** What is chosen on the map, and how it is grouped: parameters of the page's place. */
import { COLLAPSE_FROM, type Arc, type Collapsed, type Graph } from "./graph";
import { decoded, setParams } from "./route";

/** What is chosen on the map. */
export interface Choice {
  /** A node's id. */
  node: string;
  /** The arc from `node` to this one, if an arc is chosen. */
  to: string;
}

export function choose(node: string, to = ""): void {
  setParams({ sel: node, to });
}

/** The regions that are shown cluster by cluster, of a parameter. */
function opened(params: URLSearchParams): Set<string> {
  const text = params.get("open") ?? "";
  return new Set(text.split(",").filter((one) => one !== "").map(decoded));
}

function setOpened(regions: Iterable<string>): void {
  setParams({ open: [...regions].map(encodeURIComponent).join(",") });
}

/** Which regions are one node: as the address says, or all of them where there are many clusters. */
export function grouping(params: URLSearchParams, count: number): { collapsed: Collapsed; byRegion: boolean } {
  const group = params.get("group");
  const byRegion = group === null ? count >= COLLAPSE_FROM : group === "regions";
  const open = opened(params);
  return { byRegion, collapsed: (region) => byRegion && !open.has(region) };
}

export function toggleRegion(params: URLSearchParams, region: string): void {
  const open = opened(params);
  if (!open.delete(region)) open.add(region);
  setOpened(open);
}

/** The arcs that are chosen: one between two nodes, or all of a node. */
export function chosenArcs({ arcs }: Graph, { node, to }: Choice): Arc[] {
  if (node === "") return [];
  if (to !== "") return arcs.filter((arc) => arc.from.id === node && arc.to.id === to);
  return arcs.filter((arc) => arc.from.id === node || arc.to.id === node);
}
