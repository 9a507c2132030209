/** How well something is, in four steps that have a word, a shape and a colour each. */
import type { Cluster, Consumer, Provider, Service } from "./contract";

/** From good to bad. */
export const HEALTHS = ["ok", "partial", "disconnected", "bad"] as const;
export type Health = (typeof HEALTHS)[number];

export const WORDS: Record<Health, string> = {
  ok: "Ready",
  partial: "Partly ready or changing",
  disconnected: "Disconnected",
  bad: "Not ready",
};

export function worst(a: Health, b: Health): Health {
  return HEALTHS.indexOf(a) >= HEALTHS.indexOf(b) ? a : b;
}

function ofState(state: string): Health {
  if (state === "Ready") return "ok";
  return state === "Pending" || state === "Deleting" ? "partial" : "bad";
}

/** Since when a cluster does not answer the controller or this program: a time, empty where that is not known; absent where it does. */
export function disconnected({ connected, disconnectedSince, state, reason, since }: Cluster): string | undefined {
  if (state === "NotReady" && reason === "Unreachable") return since ?? disconnectedSince ?? "";
  return connected ? undefined : disconnectedSince;
}

export function clusterHealth(cluster: Cluster | undefined): Health {
  if (!cluster) return "bad";
  if (disconnected(cluster) !== undefined) return "disconnected";
  const health = ofState(cluster.state);
  return health === "ok" && (cluster.drained || !cluster.connected) ? "partial" : health;
}

/** As `kubectl mcs status` shows a node that is cordoned. */
export function clusterState(cluster: Cluster): string {
  if (disconnected(cluster) !== undefined) return "Disconnected";
  return cluster.drained ? `${cluster.state}, drained` : cluster.state;
}

export function serviceHealth(service: Service): Health {
  const health = ofState(service.state);
  if (health !== "ok") return health;
  return service.consumers.some((one) => one.problem || one.missing > 0) ? "partial" : "ok";
}

/** Its state in a word: one that is ready may be so in part. */
export function serviceState(service: Service): string {
  return service.state === "Ready" && serviceHealth(service) === "partial" ? "Partly ready" : service.state;
}

/** What is wrong with it, in a sentence; empty where nothing is. */
export function serviceProblem(service: Service): string {
  if (service.state !== "Ready") return service.message;
  const found = service.consumers.find((one) => one.problem || one.missing > 0);
  if (!found) return "";
  return found.problem?.message ?? `${found.missing} ready endpoints are missing in ${found.cluster}`;
}

/** How well one provider's part of a service reaches one consumer. */
export function arcHealth(
  service: Service,
  provider: Provider,
  consumer: Consumer,
  clusters: ReadonlyMap<string, Cluster>,
): Health {
  const ends = [clusters.get(provider.cluster), clusters.get(consumer.cluster)];
  if (ends.some((one) => one !== undefined && disconnected(one) !== undefined)) return "disconnected";
  const state = ofState(service.state);
  if (consumer.missing > 0 || (consumer.problem && state === "bad")) return "bad";
  if (provider.ready === 0) return state === "bad" ? "bad" : "partial";
  const whole = provider.ready === provider.endpoints && !provider.problem && !consumer.problem;
  return whole && state !== "partial" ? "ok" : "partial";
}
