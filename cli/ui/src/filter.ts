/** Which services are shown: by namespace, name and state, as the place of the page says. */
import type { Cluster, Service } from "./contract";
import { clusterHealth, serviceHealth } from "./health";

export interface Filter {
  namespace: string;
  /** What was typed. */
  typed: string;
  /** A part of a name, in lower case. */
  query: string;
  /** `ready`, `not-ready`, or empty for all. */
  state: string;
}

export function filterOf(params: URLSearchParams): Filter {
  const typed = params.get("q") ?? "";
  return {
    namespace: params.get("ns") ?? "",
    typed,
    query: typed.trim().toLowerCase(),
    state: params.get("state") ?? "",
  };
}

export function isSet({ namespace, query, state }: Filter): boolean {
  return namespace !== "" || query !== "" || state !== "";
}

function matchesState(state: string, ready: boolean): boolean {
  return state === "" || (state === "ready") === ready;
}

/** A query finds a service by its name, by its namespace, and by the clusters that give or take it. */
export function matches(service: Service, { namespace, query, state }: Filter): boolean {
  if (namespace !== "" && service.namespace !== namespace) return false;
  if (!matchesState(state, serviceHealth(service) === "ok")) return false;
  if (query === "" || `${service.namespace}/${service.name}`.toLowerCase().includes(query)) return true;
  const has = (one: { cluster: string }): boolean => one.cluster.toLowerCase().includes(query);
  return service.providers.some(has) || service.consumers.some(has);
}

export function clusterMatches(cluster: Cluster, { query, state }: Filter): boolean {
  if (!matchesState(state, clusterHealth(cluster) === "ok")) return false;
  return query === "" || cluster.name.toLowerCase().includes(query) || (cluster.region ?? "").toLowerCase().includes(query);
}

export function namespaces(services: Iterable<Service>): string[] {
  const names = new Set<string>();
  for (const one of services) names.add(one.namespace);
  return [...names].sort();
}
