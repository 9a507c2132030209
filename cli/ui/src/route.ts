/** The address of a view, behind the `#`: it can be shared, filters and all. */

export type Route =
  | { view: "map" }
  | { view: "table" }
  | { view: "service"; namespace: string; name: string }
  | { view: "cluster"; name: string }
  | { view: "unknown" };

export interface Place {
  route: Route;
  params: URLSearchParams;
}

/** The parameters that the map and the table share. */
const SHARED = ["ns", "q", "state"];

/** What an encoded part of an address says; as it is, where it cannot be read. */
export function decoded(segment: string): string {
  try {
    return decodeURIComponent(segment);
  } catch {
    return segment;
  }
}

function route(segments: string[]): Route {
  const [first, second, third] = segments;
  if (first === undefined) return { view: "map" };
  if (second === undefined) return first === "table" ? { view: "table" } : { view: "unknown" };
  if (third !== undefined) {
    const whole = first === "services" && segments.length === 3;
    return whole ? { view: "service", namespace: second, name: third } : { view: "unknown" };
  }
  return first === "clusters" ? { view: "cluster", name: second } : { view: "service", namespace: first, name: second };
}

/** The place that a fragment such as `#/shop/foo?ns=shop` names. */
export function place(hash: string): Place {
  const [path = "", query = ""] = hash.replace(/^#/, "").split("?", 2);
  const segments = path.split("/").filter((one) => one !== "").map(decoded);
  return { route: route(segments), params: new URLSearchParams(query) };
}

function withParams(path: string, params: URLSearchParams): string {
  const query = params.toString();
  return query === "" ? path : `${path}?${query}`;
}

function shared(params: URLSearchParams): URLSearchParams {
  const kept = new URLSearchParams();
  for (const name of SHARED) {
    const value = params.get(name);
    if (value) kept.set(name, value);
  }
  return kept;
}

/** The map, with the filters that are set. */
export function mapHref(params = new URLSearchParams()): string {
  return withParams("#/", shared(params));
}

/** The table, with the filters that are set. */
export function tableHref(params = new URLSearchParams()): string {
  return withParams("#/table", shared(params));
}

/** A service. One in a namespace called `clusters` has an address that no cluster can have. */
export function serviceHref({ namespace, name }: { namespace: string; name: string }): string {
  const path = `${encodeURIComponent(namespace)}/${encodeURIComponent(name)}`;
  return namespace === "clusters" ? `#/services/${path}` : `#/${path}`;
}

/** A cluster. */
export function clusterHref(name: string): string {
  return `#/clusters/${encodeURIComponent(name)}`;
}

/** Changes parameters of the place where the page is; an empty value takes one away. */
export function setParams(changes: Record<string, string>): void {
  const [path = ""] = location.hash.split("?", 1);
  const { params } = place(location.hash);
  for (const [name, value] of Object.entries(changes)) {
    if (value === "") params.delete(name);
    else params.set(name, value);
  }
  history.replaceState(null, "", withParams(path === "" ? "#/" : path, params));
  window.dispatchEvent(new HashChangeEvent("hashchange"));
}
