/** What a screen reader is told of changes: states that changed, a few at a time, nothing else. */
import { useEffect, useState } from "preact/hooks";
import { clusterState, disconnected, serviceState } from "./health";
import { store, type State } from "./store";

/** How long changes are gathered before they are said. */
const GATHER_MS = 1_500;
/** More are only counted. */
const NAMED = 3;

const saying = new EventTarget();

/** Says something at once, such as that a command was copied. */
export function say(text: string): void {
  saying.dispatchEvent(new CustomEvent("say", { detail: text }));
}

/** The states that differ, by what they are states of. */
function differences(now: State, before: State): [string, string][] {
  const found: [string, string][] = [];
  for (const [name, cluster] of now.clusters) {
    const was = before.clusters.get(name);
    if (was === cluster) continue;
    const state = disconnected(cluster) === undefined ? clusterState(cluster) : "disconnected";
    const then = was && (disconnected(was) === undefined ? clusterState(was) : "disconnected");
    if (state !== then) found.push([`cluster ${name}`, state]);
  }
  for (const [key, service] of now.services) {
    const was = before.services.get(key);
    if (was === service) continue;
    const state = serviceState(service);
    if (state !== (was && serviceState(was))) found.push([`${service.namespace}/${service.name}`, state]);
  }
  for (const [key, { namespace, name }] of before.services) {
    if (!now.services.has(key)) found.push([`${namespace}/${name}`, "deleted"]);
  }
  return found;
}

export function Live() {
  const [text, set] = useState("");
  useEffect(() => {
    const gathered = new Map<string, string>();
    let timer: number | undefined;
    const flush = (): void => {
      timer = undefined;
      const all = [...gathered].map(([name, state]) => `${name}: ${state}`);
      gathered.clear();
      set(all.length <= NAMED ? all.join(". ") : `${all.length} clusters and services changed`);
    };
    const end = store.subscribe((now, before) => {
      // What a first snapshot brings is no change, and neither is what comes while everything is read for the first time.
      if (!before.server?.synced || now.lostSince) return;
      for (const [name, state] of differences(now, before)) gathered.set(name, state);
      if (gathered.size > 0) timer ??= window.setTimeout(flush, GATHER_MS);
    });
    const said = (event: Event): void => set((event as CustomEvent<string>).detail);
    saying.addEventListener("say", said);
    return () => {
      end();
      window.clearTimeout(timer);
      saying.removeEventListener("say", said);
    };
  }, []);
  return <div class="hidden" role="status" aria-live="polite">{text}</div>;
}
