/** What stands above every view while something cannot be reached. */
import type { ComponentChildren } from "preact";
import type { Cluster } from "./contract";
import { disconnected } from "./health";
import { useStore } from "./hooks";
import { Mark, Remedy, plural } from "./parts";
import { clusterHref } from "./route";
import { age, clock, parsed } from "./time";
import { useClock } from "./hooks";

/** More are only counted. */
const NAMED = 3;

function Moment({ time }: { time: Date | undefined }) {
  const now = useClock(1_000);
  if (!time) return null;
  return (
    <>
      {" since "}
      <time dateTime={time.toISOString()}>{clock(time)}</time> ({age(time, now)} ago)
    </>
  );
}

function Banner({ kind, children }: { kind: "bad" | "disconnected"; children: ComponentChildren }) {
  return (
    <div class={`banner ${kind}`}>
      <Mark health={kind} />
      <div>{children}</div>
    </div>
  );
}

function ServerLost({ since }: { since: Date }) {
  return (
    <Banner kind="bad">
      <p><strong>Connection to kubectl mcs ui lost</strong><Moment time={since} />. What you see is as of then.</p>
      <p>It is tried again all the time. If the program has ended, start <code>kubectl mcs ui</code> again and open the address that it prints.</p>
    </Banner>
  );
}

function Lost({ clusters }: { clusters: Cluster[] }) {
  const [only] = clusters;
  if (!only) return null;
  if (clusters.length === 1) {
    return (
      <Banner kind="disconnected">
        <p>
          <a href={clusterHref(only.name)}><strong>{only.name}</strong></a> is disconnected
          <Moment time={parsed(disconnected(only))} />. {only.connected ? only.message : only.disconnectedWhy ?? only.message}
        </p>
      </Banner>
    );
  }
  const named = clusters.slice(0, NAMED);
  // One cause for all, such as a right that is missing, is said once.
  const causes = new Set(clusters.map((one) => one.disconnectedWhy ?? ""));
  return (
    <Banner kind="disconnected">
      <p><strong>{plural(clusters.length, "cluster")} are disconnected.</strong> {causes.size === 1 && [...causes][0]}</p>
      <ul>
        {named.map((one) => (
          <li key={one.name}>
            <a href={clusterHref(one.name)}>{one.name}</a><Moment time={parsed(disconnected(one))} />
          </li>
        ))}
        {clusters.length > NAMED && <li><a href="#/table?state=not-ready">{clusters.length - NAMED} more</a></li>}
      </ul>
    </Banner>
  );
}

export function Banners() {
  const { server, clusters, lostSince } = useStore();
  const lost = [...clusters.values()].filter((one) => disconnected(one) !== undefined);
  lost.sort((a, b) => (disconnected(a) ?? "").localeCompare(disconnected(b) ?? ""));
  return (
    <section class="banners" aria-label="Connections">
      <div role="alert">{lostSince && <ServerLost since={lostSince} />}</div>
      {server && !server.connected && !lostSince && (
        <Banner kind="bad">
          <p><strong>The hub is disconnected</strong><Moment time={parsed(server.disconnectedSince)} />. {server.disconnectedWhy}</p>
        </Banner>
      )}
      {server?.problem && (
        <Banner kind="bad">
          <p>{server.problem}</p>
          {server.remedy && <Remedy text={server.remedy} />}
        </Banner>
      )}
      <Lost clusters={lost} />
    </section>
  );
}
