/** What the server has said so far, and whether it can still be reached. */
import type { Change, Cluster, Server, Service, Snapshot } from "./contract";

export interface State {
  /** Absent until the first snapshot. */
  server?: Server;
  clusters: ReadonlyMap<string, Cluster>;
  services: ReadonlyMap<string, Service>;
  /** When the connection to the server was lost; absent while it is there. */
  lostSince?: Date;
}

type Listener = (state: State, before: State) => void;

/** How long to wait before a connection that the browser gave up is made again. */
const AGAIN_MS = 1_000;
/** Maximum silence of a connection: three times the interval of the server's event `alive`. */
const SILENT_MS = 45_000;
/** Maximum silence after a page becomes visible: a server begins with the present state. */
const SHOWN_SILENT_MS = 5_000;

export class Store {
  state: State = { clusters: new Map(), services: new Map() };
  private readonly listeners = new Set<Listener>();

  /** Calls the listener with each new state; the result ends that. */
  subscribe(listener: Listener): () => void {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  /** Listens to the server, whenever the page is visible. */
  connect(): void {
    const handlers = {
      snapshot: (data: unknown) => this.snapshot(data as Snapshot),
      change: (data: unknown) => this.change(data as Change),
    };
    listen("api/events", handlers, (lost, last) => this.lost(lost, last));
  }

  private set(state: State): void {
    const before = this.state;
    this.state = state;
    for (const listener of this.listeners) listener(state, before);
  }

  private snapshot({ server, clusters, services }: Snapshot): void {
    const before = this.state;
    this.set({
      server,
      clusters: new Map(clusters.map((one) => [one.name, unchanged(before.clusters.get(one.name), one)])),
      services: new Map(services.map((one) => [one.key, unchanged(before.services.get(one.key), one)])),
    });
  }

  private change(change: Change): void {
    const clusters = new Map(this.state.clusters);
    const services = new Map(this.state.services);
    for (const one of change.clusters ?? []) clusters.set(one.name, one);
    for (const one of change.services ?? []) services.set(one.key, one);
    for (const name of change.removedClusters ?? []) clusters.delete(name);
    for (const key of change.removedServices ?? []) services.delete(key);
    this.set({ ...this.state, server: change.server ?? this.state.server, clusters, services });
  }

  private lost(lost: boolean, last: Date): void {
    const { lostSince, ...rest } = this.state;
    if (lost === (lostSince !== undefined)) return;
    this.set(lost ? { ...rest, lostSince: last } : rest);
  }
}

/** The value of before where the new one says the same: what did not change is not drawn again. */
function unchanged<T>(before: T | undefined, now: T): T {
  return before !== undefined && JSON.stringify(before) === JSON.stringify(now) ? before : now;
}

/**
 * Listens to server-sent events at an address; the result ends that. A hidden page has no connection: browsers open six to one
 * server, those of hidden pages included. The browser connects again by itself after a failure. This function does after an answer
 * with an error, and after a silence of 45 seconds: a tunnel that drops packets causes no failure. A page that becomes visible waits
 * for 5 seconds, because what it shows is old. `onLost` receives the time of the last event.
 */
export function listen(
  url: string,
  handlers: Record<string, (data: unknown) => void>,
  onLost: (lost: boolean, last: Date) => void = () => {},
): () => void {
  let source: EventSource | undefined;
  let again: number | undefined;
  let silence: number | undefined;
  let last = new Date();
  const close = (): void => {
    window.clearTimeout(again);
    window.clearTimeout(silence);
    source?.close();
  };
  const wait = (within = SILENT_MS): void => {
    window.clearTimeout(silence);
    silence = window.setTimeout(() => {
      close();
      onLost(true, last);
      open();
    }, within);
  };
  const heard = (): void => {
    last = new Date();
    wait();
  };
  const open = (within?: number): void => {
    const opened = new EventSource(url);
    source = opened;
    wait(within);
    opened.onopen = () => {
      heard();
      onLost(false, last);
    };
    opened.onerror = () => {
      onLost(true, last);
      if (opened.readyState !== EventSource.CLOSED) return;
      close();
      again = window.setTimeout(open, AGAIN_MS);
    };
    opened.addEventListener("alive", heard);
    for (const [name, handle] of Object.entries(handlers)) {
      opened.addEventListener(name, (event) => {
        heard();
        const { data } = event as MessageEvent<string>;
        handle(data ? JSON.parse(data) : undefined);
      });
    }
  };
  const turn = (): void => {
    close();
    if (!document.hidden) open(SHOWN_SILENT_MS);
  };
  document.addEventListener("visibilitychange", turn);
  if (!document.hidden) open();
  return () => {
    document.removeEventListener("visibilitychange", turn);
    close();
  };
}

export const store = new Store();
