/** What the map shows: clusters or whole regions as nodes, and what goes from one to another as arcs. Pure. */
import type { Cluster, Service } from "./contract";
import { arcHealth, clusterHealth, worst, type Health } from "./health";
import { pathOf, reportedPath, type Reported } from "./path";

export interface GraphNode {
  /** `cluster/member1` or `region/eu`. */
  id: string;
  label: string;
  region: string;
  clusters: string[];
  /** Whether it stands for all clusters of its region. */
  isRegion: boolean;
  health: Health;
  /** How many of its clusters are ready. */
  ready: number;
  provides: number;
  consumes: number;
}

export interface Arc {
  id: string;
  from: GraphNode;
  to: GraphNode;
  services: Service[];
  endpoints: number;
  ready: number;
  /** The worst of what goes along it. */
  health: Health;
  /** Networks and ways of what goes along it. */
  paths: Set<string>;
  /** Reports of the consumers on its paths, by provider and consumer. */
  reports: Map<string, Reported>;
  /** How many endpoints of each health go along it; one at least of what is there without any. */
  shares: Record<Health, number>;
  /** Which of the arcs between its two nodes it is. */
  lane: number;
}

export interface Graph {
  nodes: GraphNode[];
  arcs: Arc[];
  /** Whether each arc is one service; else it is all that goes from one node to another. */
  single: boolean;
}

/** As many arcs as can be told apart one by one. */
const SINGLE_AT_MOST = 48;
/** From this many clusters on, regions are shown as one node each until somebody opens them. */
export const COLLAPSE_FROM = 25;

/** Which regions are shown as one node. */
export type Collapsed = (region: string) => boolean;

function nodesOf(clusters: Iterable<Cluster>, services: Service[], collapsed: Collapsed): Map<string, GraphNode> {
  const byCluster = new Map<string, GraphNode>();
  const regions = new Map<string, GraphNode>();
  const add = (name: string, region: string, health: Health): void => {
    if (region !== "" && collapsed(region)) {
      const node = regions.get(region) ?? {
        id: `region/${region}`, label: region, region, clusters: [], isRegion: true, health, ready: 0, provides: 0, consumes: 0,
      };
      node.clusters.push(name);
      node.ready += health === "ok" ? 1 : 0;
      // What is so of some of them is not so of the region.
      if (node.health !== health) node.health = "partial";
      regions.set(region, node);
      byCluster.set(name, node);
      return;
    }
    byCluster.set(name, {
      id: `cluster/${name}`, label: name, region, clusters: [name], isRegion: false, health, ready: health === "ok" ? 1 : 0, provides: 0, consumes: 0,
    });
  };
  for (const one of clusters) add(one.name, one.region ?? "", clusterHealth(one));
  // A service may name a cluster that has not joined.
  for (const service of services) {
    for (const { cluster } of [...service.providers, ...service.consumers]) {
      if (!byCluster.has(cluster)) add(cluster, "", "bad");
    }
  }
  return byCluster;
}

function count(services: Service[], nodes: Map<string, GraphNode>): void {
  for (const service of services) {
    const distinct = (all: { cluster: string }[]): Set<GraphNode | undefined> => new Set(all.map((one) => nodes.get(one.cluster)));
    for (const node of distinct(service.providers)) if (node) node.provides += 1;
    for (const node of distinct(service.consumers)) if (node) node.consumes += 1;
  }
}

interface Flow {
  service: Service;
  from: GraphNode;
  to: GraphNode;
  endpoints: number;
  ready: number;
  health: Health;
  paths: Set<string>;
  reports: Map<string, Reported>;
}

/** Arcs from each provider to each consumer, summed over services. */
function flows(services: Service[], nodes: Map<string, GraphNode>, clusters: ReadonlyMap<string, Cluster>): Flow[] {
  const all: Flow[] = [];
  for (const service of services) {
    const found = new Map<string, Flow>();
    for (const provider of service.providers) {
      const from = nodes.get(provider.cluster);
      // Its endpoints count once for each node that consumes them, however many clusters of it do.
      const counted = new Set<GraphNode>();
      for (const consumer of service.consumers) {
        const to = nodes.get(consumer.cluster);
        if (!from || !to || from === to) continue;
        const id = `${from.id}\n${to.id}`;
        const flow = found.get(id) ?? { service, from, to, endpoints: 0, ready: 0, health: "ok", paths: new Set(), reports: new Map() };
        if (!counted.has(to)) {
          flow.endpoints += provider.endpoints;
          flow.ready += provider.ready;
          counted.add(to);
        }
        flow.health = worst(flow.health, arcHealth(service, provider, consumer, clusters));
        const path = pathOf(provider, clusters, consumer.cluster);
        if (path !== "") flow.paths.add(path);
        const report = reportedPath(provider.cluster, consumer.cluster, clusters);
        if (report) flow.reports.set(report.id, report);
        if (report?.path === "bad") flow.health = "bad";
        found.set(id, flow);
      }
    }
    all.push(...found.values());
  }
  return all;
}

function bundled(all: Flow[], single: boolean): Arc[] {
  const arcs = new Map<string, Arc>();
  for (const { service, from, to, endpoints, ready, health, paths, reports } of all) {
    const pair = `${from.id}\n${to.id}`;
    const id = single ? `${pair}\n${service.key}` : pair;
    const arc: Arc = arcs.get(id) ?? {
      id, from, to, services: [], endpoints: 0, ready: 0, health, paths: new Set(), reports: new Map(), lane: 0,
      shares: { ok: 0, partial: 0, disconnected: 0, bad: 0 },
    };
    arc.services.push(service);
    arc.endpoints += endpoints;
    arc.ready += ready;
    arc.health = worst(arc.health, health);
    arc.shares[health] += Math.max(1, endpoints);
    for (const path of paths) arc.paths.add(path);
    for (const [id, report] of reports) arc.reports.set(id, report);
    arcs.set(id, arc);
  }
  return [...arcs.values()];
}

function lanes(arcs: Arc[]): void {
  const pairs = new Map<string, Arc[]>();
  for (const arc of arcs) {
    const pair = `${arc.from.id}\n${arc.to.id}`;
    pairs.set(pair, [...(pairs.get(pair) ?? []), arc]);
  }
  for (const pair of pairs.values()) {
    pair.forEach((arc, lane) => {
      arc.lane = lane;
    });
  }
}

/** The graph of these services. Nodes come in the order of their regions and names, so that they stay where they are. */
export function graph(clusters: ReadonlyMap<string, Cluster>, services: Service[], collapsed: Collapsed): Graph {
  const byCluster = nodesOf(clusters.values(), services, collapsed);
  count(services, byCluster);
  const all = flows(services, byCluster, clusters);
  const single = all.length <= SINGLE_AT_MOST;
  const arcs = bundled(all, single);
  lanes(arcs);
  const nodes = [...new Set(byCluster.values())];
  const order = (node: GraphNode): string => `${node.region === "" ? "1" : "0"}${node.region}\n${node.label}`;
  nodes.sort((a, b) => order(a).localeCompare(order(b), "en", { numeric: true }));
  return { nodes, arcs, single };
}
