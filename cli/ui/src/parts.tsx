/** Small parts that several views show. */
import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import type { Problem } from "./contract";
import { WORDS, type Health } from "./health";
import { useClock } from "./hooks";
import { say } from "./live";
import { pieces } from "./remedy";
import { clusterHref } from "./route";
import { age, clock, parsed } from "./time";

/** The shape of a state: each differs without its colour too. */
export function Mark({ health, label }: { health: Health; label?: boolean }) {
  const shapes = {
    ok: <circle cx="8" cy="8" r="5" fill="currentColor" />,
    partial: (
      <>
        <circle cx="8" cy="8" r="4.250" fill="none" stroke="currentColor" stroke-width="1.500" />
        <path d="M8 3.500a4.500 4.500 0 0 1 0 9z" fill="currentColor" />
      </>
    ),
    disconnected: <circle cx="8" cy="8" r="4.250" fill="none" stroke="currentColor" stroke-width="1.500" stroke-dasharray="2.400 2" />,
    bad: <path d="M8 2.500 14 13.500H2z" fill="currentColor" />,
  };
  const named = label ? { role: "img" as const, "aria-label": WORDS[health] } : { "aria-hidden": "true" as const };
  return <svg class={`mark ${health}`} viewBox="0 0 16 16" width="16" height="16" {...named}>{shapes[health]}</svg>;
}

/** A state in its own word, with its shape. */
export function State({ health, word }: { health: Health; word: string }) {
  return (
    <span class={`state ${health}`}>
      <Mark health={health} />
      <span>{word}</span>
    </span>
  );
}

/** How long ago, and when exactly to whoever points at it. */
export function Since({ time, none = "" }: { time: string | undefined; none?: string }) {
  const now = useClock();
  const at = parsed(time);
  if (!at) return <>{none}</>;
  return <time dateTime={at.toISOString()} title={clock(at)}>{age(at, now)}</time>;
}

async function copy(text: string, code: HTMLElement | null): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    if (code) getSelection()?.selectAllChildren(code);
    return false;
  }
}

/** A command or an address, and a button that copies it. */
export function Command({ text, what = "command" }: { text: string; what?: "command" | "address" }) {
  const code = useRef<HTMLElement>(null);
  const [done, set] = useState("");
  useEffect(() => {
    if (done === "") return;
    const timer = window.setTimeout(() => set(""), 2_000);
    return () => window.clearTimeout(timer);
  }, [done]);
  const click = async (): Promise<void> => {
    const copied = await copy(text, code.current);
    set(copied ? "Copied" : "Selected");
    say(copied ? `The ${what} is copied` : `The ${what} is selected`);
  };
  return (
    <span class="command">
      <code ref={code}>{text}</code>
      <button type="button" onClick={click} aria-label={`Copy ${what} ${text}`}>{done || "Copy"}</button>
    </span>
  );
}

/** What to type, with the words around it. */
export function Remedy({ text }: { text: string }) {
  return (
    <div class="remedy">
      {pieces(text).map((piece) => (piece.command ? <Command text={piece.text} /> : <span class="prose">{piece.text}</span>))}
    </div>
  );
}

/** What is wrong, or worth to know, once each. */
export function Problems({ all, health }: { all: Problem[]; health: (one: Problem) => Health }) {
  return (
    <ul class="problems">
      {all.map((one) => (
        <li class={health(one)} key={`${one.reason}\n${one.message}`}>
          <p>
            <Mark health={health(one)} /> <strong>{one.reason}</strong> {one.message}
          </p>
          {one.remedy && <Remedy text={one.remedy} />}
        </li>
      ))}
    </ul>
  );
}

/** What stands where nothing is; `top` where it is the whole view. */
export function Empty({ title, top, children }: { title: string; top?: boolean; children?: ComponentChildren }) {
  const Heading = top ? "h1" : "h2";
  return (
    <div class="empty">
      <svg viewBox="0 0 64 40" width="64" height="40" aria-hidden="true">
        <path d="M8 30C8 4 56 4 56 30" fill="none" stroke="currentColor" stroke-width="3" stroke-dasharray="5 5" />
        <circle cx="8" cy="32" r="6" fill="currentColor" />
        <circle cx="56" cy="32" r="6" fill="currentColor" />
      </svg>
      <Heading>{title}</Heading>
      {children}
    </div>
  );
}

export function plural(count: number, one: string, many = `${one}s`): string {
  return `${count.toLocaleString("en")} ${count === 1 ? one : many}`;
}

/** Names of clusters as links; of many the first, and how many more. */
export function ClusterNames({ names, most = 3 }: { names: string[]; most?: number }) {
  if (names.length === 0) return <span class="none">none</span>;
  const shown = names.slice(0, names.length <= most + 1 ? names.length : most);
  const more = names.length - shown.length;
  return (
    <span class="names">
      {shown.map((name, at) => (
        <>
          {at > 0 && ", "}
          <a href={clusterHref(name)}>{name}</a>
        </>
      ))}
      {more > 0 && <span title={names.slice(shown.length).join(", ")}>, {more} more</span>}
    </span>
  );
}

/** `3 of 4`: how many endpoints are ready. */
export function Ready({ ready, endpoints }: { ready: number; endpoints: number }) {
  const short = ready < endpoints || endpoints === 0;
  return (
    <span class={short ? "count short" : "count"}>
      {ready}<span class="of"> of {endpoints}</span>
    </span>
  );
}
