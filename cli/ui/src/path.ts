/** The path of a service from a provider to a consumer. Pure. */
import type { Cluster, Provider } from "./contract";

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
