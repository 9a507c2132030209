/** One cluster: its conditions, what it provides and what it consumes. */
import { Conditions } from "./conditions";
import type { Cluster, Service } from "./contract";
import { clusterHealth, clusterState, disconnected, serviceHealth, serviceState } from "./health";
import { useFlash, useStore } from "./hooks";
import { Empty, Mark, Ready, Since, State, plural } from "./parts";
import { mapHref, serviceHref } from "./route";
import { Scroll } from "./sort";

function Facts({ cluster, names }: { cluster: Cluster; names: [string, string][] }) {
  const facts = names.filter(([, value]) => value !== "");
  return (
    <dl class="facts">
      {facts.map(([name, value]) => (
        <div key={name}><dt>{name}</dt><dd>{value}</dd></div>
      ))}
      {cluster.since && <div><dt>Since</dt><dd><Since time={cluster.since} /></dd></div>}
    </dl>
  );
}

function ProvidedRow({ service, name }: { service: Service; name: string }) {
  const row = useFlash<HTMLTableRowElement>(service);
  const part = service.providers.find((one) => one.cluster === name);
  if (!part) return null;
  return (
    <tr ref={row}>
      <th scope="row" class="key"><a href={serviceHref(service)}><span class="namespace">{service.namespace}/</span>{service.name}</a></th>
      <td>{service.kind}</td>
      <td class="number"><Ready ready={part.ready} endpoints={part.endpoints} /></td>
      <td>
        <State health={serviceHealth(service)} word={serviceState(service)} />
        {part.problem && <p class="message">{part.problem.reason}: {part.problem.message}</p>}
      </td>
    </tr>
  );
}

function ConsumedRow({ service, name }: { service: Service; name: string }) {
  const row = useFlash<HTMLTableRowElement>(service);
  const part = service.consumers.find((one) => one.cluster === name);
  if (!part) return null;
  return (
    <tr ref={row}>
      <th scope="row" class="key"><a href={serviceHref(service)}><span class="namespace">{service.namespace}/</span>{service.name}</a></th>
      <td>{part.serving ?? service.providers.map((one) => one.cluster).join(", ")}</td>
      <td class="number">
        <Ready ready={part.ready} endpoints={part.endpoints} />
        {part.standby > 0 && <span class="aside">{part.standby} on standby</span>}
        {part.missing > 0 && <span class="aside bad">{part.missing} missing</span>}
      </td>
      <td>
        <State health={serviceHealth(service)} word={serviceState(service)} />
        {part.problem && <p class="message">{part.problem.reason}: {part.problem.message}</p>}
      </td>
    </tr>
  );
}

function Part({ id, title, none, all, heads, row: Row, name }: {
  id: string;
  title: string;
  none: string;
  all: Service[];
  heads: [string, string, string, string];
  row: typeof ProvidedRow;
  name: string;
}) {
  return (
    <section aria-labelledby={id}>
      <h2 id={id}>{title} <span class="tally">{all.length}</span></h2>
      {all.length === 0 ? <p class="none">{none}</p> : (
        <Scroll label={title}>
          <table>
            <thead><tr>{heads.map((one, at) => <th scope="col" class={at === 2 ? "number" : undefined}>{one}</th>)}</tr></thead>
            <tbody>{all.map((one) => <Row key={one.key} service={one} name={name} />)}</tbody>
          </table>
        </Scroll>
      )}
    </section>
  );
}

export function ClusterView({ name }: { name: string }) {
  const { clusters, services } = useStore();
  const cluster = clusters.get(name);
  const all = [...services.values()].sort((a, b) => `${a.namespace}/${a.name}`.localeCompare(`${b.namespace}/${b.name}`, "en", { numeric: true }));
  const provides = all.filter((one) => one.providers.some((part) => part.cluster === name));
  const consumes = all.filter((one) => one.consumers.some((part) => part.cluster === name));
  if (!cluster && provides.length + consumes.length === 0) {
    return (
      <Empty top title={`No cluster is called ${name}`}>
        <p>It has not joined, or it has left. <a href={mapHref()}>Show the map</a></p>
      </Empty>
    );
  }
  const health = clusterHealth(cluster);
  const networks = new Set([...clusters.values()].map((one) => one.network ?? "")).size > 1;
  return (
    <div class="view detail">
      <header class="title">
        <p class="kind">Cluster</p>
        <h1>{name}</h1>
        <State health={health} word={cluster ? clusterState(cluster) : "Not joined"} />
        <p class="summary">{plural(provides.length, "service")} provided, {consumes.length} consumed</p>
      </header>
      {cluster && <About cluster={cluster} networks={networks} />}
      <Part id="provides" title="Provides" none="It provides no service." all={provides} heads={["Service", "Exposed by", "Ready endpoints", "State"]} row={ProvidedRow} name={name} />
      <Part id="consumes" title="Consumes" none="It consumes no service." all={consumes} heads={["Service", "Served from", "Ready endpoints", "State"]} row={ConsumedRow} name={name} />
    </div>
  );
}

function About({ cluster, networks }: { cluster: Cluster; networks: boolean }) {
  const health = clusterHealth(cluster);
  const why = disconnected(cluster) !== undefined || !cluster.connected ? cluster.disconnectedWhy : undefined;
  return (
    <>
      {health !== "ok" && (cluster.message || cluster.deletionsSuspended || why) && (
        <div class={`notice ${health}`}>
          <Mark health={health} />
          <div>
            {cluster.message && <p><strong>{cluster.reason}</strong> {cluster.message}</p>}
            {cluster.deletionsSuspended && <p><strong>DeletionsSuspended</strong> {cluster.deletionsSuspended}</p>}
            {why && <p>This program does not see it: {why}</p>}
          </div>
        </div>
      )}
      <Facts cluster={cluster} names={[
        ["Region", cluster.region ?? ""],
        ["Zones", (cluster.zones ?? []).join(", ")],
        ["Network", networks ? (cluster.network ?? "-") : ""],
        ["Reached by", networks ? (cluster.reach ?? "") : ""],
        ["Version", cluster.version],
        ["API server", cluster.apiEndpoint],
        ["Sync mode", cluster.syncMode],
      ]} />
      <section aria-labelledby="conditions">
        <h2 id="conditions">Conditions</h2>
        <Conditions all={cluster.conditions} />
      </section>
    </>
  );
}
