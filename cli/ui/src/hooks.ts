/** What views are drawn from: the state of the store, the place of the page, the time. */
import { useEffect, useRef, useState } from "preact/hooks";
import type { RefObject } from "preact";
import { place, type Place } from "./route";
import { store, type State } from "./store";

export function useStore(): State {
  const [state, set] = useState(store.state);
  useEffect(() => {
    set(store.state);
    return store.subscribe((next) => set(next));
  }, []);
  return state;
}

export function usePlace(): Place {
  const [hash, set] = useState(location.hash);
  useEffect(() => {
    const changed = (): void => set(location.hash);
    // It may have changed before this was listening.
    changed();
    window.addEventListener("hashchange", changed);
    return () => window.removeEventListener("hashchange", changed);
  }, []);
  return place(hash);
}

const clocks = new Map<number, Set<(now: number) => void>>();

/** One timer for all that is drawn again at one pace. */
function eachTick(everyMs: number, tick: (now: number) => void): () => void {
  let ticks = clocks.get(everyMs);
  if (!ticks) {
    const all = new Set<(now: number) => void>();
    window.setInterval(() => all.forEach((one) => one(Date.now())), everyMs);
    clocks.set(everyMs, all);
    ticks = all;
  }
  ticks.add(tick);
  return () => ticks.delete(tick);
}

/** Draws again every so often, for what says how long ago something was. */
export function useClock(everyMs = 10_000): number {
  const [now, tick] = useState(Date.now());
  useEffect(() => eachTick(everyMs, tick), [everyMs]);
  return now;
}

export function prefersStill(): boolean {
  return matchMedia("(prefers-reduced-motion: reduce)").matches;
}

/** Lights an element up for a moment when its value changes, unless the person wants no motion. */
export function useFlash<T extends HTMLElement>(value: unknown): RefObject<T | null> {
  const element = useRef<T>(null);
  const last = useRef(value);
  useEffect(() => {
    if (last.current === value) return;
    last.current = value;
    if (prefersStill() || !element.current) return;
    const lit = [{ backgroundColor: "var(--flash)" }, { backgroundColor: "transparent" }];
    element.current.animate(lit, { duration: 1_400, easing: "ease-out" });
  }, [value]);
  return element;
}
