/** The path of a service from a provider to a consumer, and reports on it. Pure. */
import type { Cluster, Provider, Service } from "./contract";
import type { Health } from "./health";
import { clock, parsed } from "./time";

const REACH: Record<string, string> = {
  "node-ports": "node ports",
  "node-ports=external": "external node ports",
  "load-balancer": "load balancer",
  "cluster-ip": "ClusterIP",
};

function network(cluster: Cluster | undefined): string {
  return cluster?.network ? `network ${cluster.network}` : "the unnamed network";
}

/**
 * Names the networks and the way. Clusters of one network reach each other's pods; another network enters by the way that the service or
 * the provider's Cluster declares.
 */
export function pathOf(provider: Provider, clusters: ReadonlyMap<string, Cluster>, consumer: string): string {
  const from = clusters.get(provider.cluster);
  const to = clusters.get(consumer);
  if (!from || !to) return "";
  if (from.network === to.network) return from.network ? `pods of network ${from.network}` : "pods of one network";
  const way = provider.reach ? `by ${REACH[provider.reach] ?? provider.reach}` : "without a declared way";
  return `${network(to)} to ${network(from)}, ${way}`;
}

/** Report of causeway-agent in a consumer on the path to the endpoints of a provider. */
export interface Reported {
  id: string;
  provider: string;
  consumer: string;
  /** `good`, `bad`, or `unknown` without a report that holds. */
  path: string;
  /** RFC 3339. */
  since?: string;
}

/** The report of a consumer on the path to a provider; absent where the consumer reports no paths. */
export function reportedPath(provider: string, consumer: string, clusters: ReadonlyMap<string, Cluster>): Reported | undefined {
  const paths = clusters.get(consumer)?.paths;
  if (!paths || provider === consumer) return undefined;
  const found = paths.find((one) => one.cluster === provider);
  const path = found?.path === "good" || found?.path === "bad" ? found.path : "unknown";
  return { id: `${provider}\n${consumer}`, provider, consumer, path, since: found?.since };
}

/** The reports on the paths of services, once each; bad ones come first. */
export function reportedPaths(services: Service[], clusters: ReadonlyMap<string, Cluster>): Reported[] {
  const found = new Map<string, Reported>();
  for (const { providers, consumers } of services) {
    for (const provider of providers) {
      for (const consumer of consumers) {
        const one = reportedPath(provider.cluster, consumer.cluster, clusters);
        if (one) found.set(one.id, one);
      }
    }
  }
  return sorted(found.values());
}

const ORDER = ["bad", "unknown", "good"];

/** Reports with bad ones first, then in the order of their names. */
export function sorted(reports: Iterable<Reported>): Reported[] {
  const rank = ({ path }: Reported): number => ORDER.indexOf(path);
  return [...reports].sort((a, b) => rank(a) - rank(b) || a.id.localeCompare(b.id, "en", { numeric: true }));
}

/** Health of a reported path. */
export function reportHealth({ path }: Reported): Health {
  return path === "good" ? "ok" : path === "bad" ? "bad" : "disconnected";
}

/** `reported bad since 09:12:40`, or the number of reports of each kind; empty without one. */
export function reportsText(reports: Reported[]): string {
  const [only] = reports;
  if (!only) return "";
  if (reports.length > 1) {
    const counts = ORDER.map((path) => [reports.filter((one) => one.path === path).length, path] as const);
    return `reported ${counts.filter(([count]) => count > 0).map(([count, path]) => `${count} ${path}`).join(", ")}`;
  }
  const at = parsed(only.since);
  return `reported ${only.path}${at ? ` since ${clock(at)}` : ""}`;
}
