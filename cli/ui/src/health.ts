/** How well something is, in four steps that have a word, a shape and a colour each. */
import type { Cluster, Consumer, Problem, Provider, Service } from "./contract";

/** From good to bad. */
export const HEALTHS = ["ok", "partial", "disconnected", "bad"] as const;
export type Health = (typeof HEALTHS)[number];

export const WORDS: Record<Health, string> = {
  ok: "Ready",
  partial: "Partly ready, changing or unknown",
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

/** Reason of a cluster that causeway does not serve by design. `kubectl mcs status` counts it as healthy. */
const NOT_SERVED = "PullWithoutCredentials";

export function clusterHealth(cluster: Cluster | undefined): Health {
  if (!cluster) return "bad";
  if (disconnected(cluster) !== undefined) return "disconnected";
  if (cluster.reason === NOT_SERVED) return "partial";
  const health = ofState(cluster.state);
  const restricted = cluster.drained || cluster.deletionsSuspended !== undefined || !cluster.connected;
  return health === "ok" && restricted ? "partial" : health;
}

/** As `kubectl mcs status` shows a node that is cordoned. */
export function clusterState(cluster: Cluster): string {
  if (disconnected(cluster) !== undefined) return "Disconnected";
  const state = cluster.reason === NOT_SERVED ? "Not served" : cluster.state;
  const suspended = cluster.deletionsSuspended === undefined ? "" : ", deletions suspended";
  return `${state}${cluster.drained ? ", drained" : ""}${suspended}`;
}

/** Message of a cluster that is not ready, or about suspended deletions; empty without either. */
export function clusterMessage(cluster: Cluster): string {
  return cluster.state === "Ready" ? (cluster.deletionsSuspended ?? "") : cluster.message;
}

/** Reasons for which a part could not be read: the state is unknown. */
const UNREAD = new Set(["MemberNotRead", "NamespaceNotRead", "ImportNotRead", "NameNotRead"]);

export function isUnread({ reason }: Problem): boolean {
  return UNREAD.has(reason);
}

/** Problems of a service as a whole, of its providers and of its consumers. */
function problems(service: Service): Problem[] {
  const parts = [...service.providers, ...service.consumers];
  return [...service.problems, ...parts.flatMap((one) => one.problem ?? [])];
}

export function serviceHealth(service: Service): Health {
  const health = ofState(service.state);
  if (health !== "ok") return health;
  const whole =
    service.problems.length === 0 &&
    service.providers.every((one) => !one.problem) &&
    service.consumers.every((one) => !one.problem && one.missing === 0);
  return whole ? "ok" : "partial";
}

/** Whether the only problems of a ready service are parts that could not be read. */
export function isUnknown(service: Service): boolean {
  if (service.state !== "Ready" || service.consumers.some((one) => one.missing > 0 && !one.problem)) return false;
  const all = problems(service);
  return all.length > 0 && all.every(isUnread);
}

/** Its state in a word: a service that the hub reports as ready may be ready in part, or unknown. */
export function serviceState(service: Service): string {
  if (isUnknown(service)) return "Unknown";
  return service.state === "Ready" && serviceHealth(service) === "partial" ? "Partly ready" : service.state;
}

/** First problem of a ready service, or the first unread part if it has no other problem. */
function problem(service: Service): Problem | undefined {
  const all = problems(service);
  return all.find((one) => !isUnread(one)) ?? all[0];
}

/** Reason of its state: of the hub, or of the problem of a service that the hub reports as ready. */
export function serviceReason(service: Service): string {
  return (service.state === "Ready" && problem(service)?.reason) || service.reason;
}

/** What is wrong with it, in a sentence; empty where nothing is. */
export function serviceProblem(service: Service): string {
  if (service.state !== "Ready") return service.message;
  const found = problem(service);
  if (found) return found.message;
  const lacking = service.consumers.find((one) => one.missing > 0);
  return lacking ? `${lacking.missing} ready endpoints are missing in ${lacking.cluster}` : "";
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
  const missing = consumer.missingOf?.[provider.cluster] ?? 0;
  const problem = consumer.problem && (consumer.problemOf?.includes(provider.cluster) ?? true);
  if (missing > 0 || (problem && state === "bad")) return "bad";
  if (provider.ready === 0) return state === "bad" ? "bad" : "partial";
  const whole = provider.ready === provider.endpoints && !provider.problem && !problem;
  return whole && state !== "partial" ? "ok" : "partial";
}
