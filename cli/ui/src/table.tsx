/** What `kubectl mcs status -A` shows: the members, then the services and exports; sorted and filtered. */
import { useMemo, useState } from "preact/hooks";
import type { Cluster, Service } from "./contract";
import { clusterMatches, filterOf, isSet, matches, type Filter } from "./filter";
import { FilterBar } from "./filterbar";
import { HEALTHS, clusterHealth, clusterMessage, clusterState, serviceHealth, serviceProblem, serviceReason, serviceState } from "./health";
import { useFlash, useStore } from "./hooks";
import { NoMatch, NoMembers, NoServices } from "./nothing";
import { ClusterNames, Ready, Since, State, plural } from "./parts";
import { clusterHref, serviceHref } from "./route";
import { Heads, orderOf, Scroll, sorted, type Column } from "./sort";
import { parsed } from "./time";

/** How many rows are shown at first, and how many more at a time. */
const ROWS = 200;

function total(service: Service): { endpoints: number; ready: number } {
  const add = (sum: { endpoints: number; ready: number }, one: { endpoints: number; ready: number }) => ({
    endpoints: sum.endpoints + one.endpoints,
    ready: sum.ready + one.ready,
  });
  return service.providers.reduce(add, { endpoints: 0, ready: 0 });
}

const time = (text: string | undefined): number => -(parsed(text)?.getTime() ?? 0);

const SERVICES: Column<Service>[] = [
  { id: "name", title: "Service", by: (one) => `${one.namespace}/${one.name}` },
  { id: "kind", title: "Exposed by", by: (one) => one.kind },
  { id: "providers", title: "Providers", by: (one) => one.providers.length },
  { id: "consumers", title: "Consumers", by: (one) => one.consumers.length },
  { id: "endpoints", title: "Ready endpoints", by: (one) => total(one).ready, numeric: true },
  { id: "state", title: "State", by: (one) => `${HEALTHS.length - HEALTHS.indexOf(serviceHealth(one))}${serviceReason(one)}` },
  { id: "age", title: "Age", by: (one) => time(one.created), numeric: true },
];

interface Member {
  cluster: Cluster;
  provides: number;
  consumes: number;
}

const MEMBERS: Column<Member>[] = [
  { id: "name", title: "Member", by: ({ cluster }) => cluster.name },
  { id: "region", title: "Region", by: ({ cluster }) => cluster.region ?? "" },
  { id: "version", title: "Version", by: ({ cluster }) => cluster.version },
  { id: "state", title: "State", by: ({ cluster }) => `${HEALTHS.length - HEALTHS.indexOf(clusterHealth(cluster))}` },
  { id: "since", title: "Since", by: ({ cluster }) => time(cluster.since), numeric: true },
  { id: "provides", title: "Provides", by: ({ provides }) => provides, numeric: true },
  { id: "consumes", title: "Consumes", by: ({ consumes }) => consumes, numeric: true },
];

function ServiceRow({ service }: { service: Service }) {
  const row = useFlash<HTMLTableRowElement>(service);
  const health = serviceHealth(service);
  const sum = total(service);
  const problem = serviceProblem(service);
  const reason = serviceReason(service);
  return (
    <tr ref={row} class={health}>
      <th scope="row" class="key">
        <a href={serviceHref(service)}><span class="namespace">{service.namespace}/</span>{service.name}</a>
      </th>
      <td>{service.kind}</td>
      <td><ClusterNames names={service.providers.map((one) => one.cluster)} /></td>
      <td><ClusterNames names={service.consumers.map((one) => one.cluster)} /></td>
      <td class="number"><Ready {...sum} /></td>
      <td>
        <State health={health} word={serviceState(service)} />
        {reason && reason !== service.state && <span class="reason"> {reason}</span>}
        {problem && <p class="message">{problem}</p>}
      </td>
      <td class="number"><Since time={service.created} /></td>
    </tr>
  );
}

/** Drawn again only when its service changes: of a thousand rows the others stay. */
function Row({ service }: { service: Service }) {
  return useMemo(() => <ServiceRow service={service} />, [service]);
}

function MemberRow({ member: { cluster, provides, consumes } }: { member: Member }) {
  const row = useFlash<HTMLTableRowElement>(cluster);
  const health = clusterHealth(cluster);
  const message = clusterMessage(cluster);
  return (
    <tr ref={row} class={health}>
      <th scope="row" class="key"><a href={clusterHref(cluster.name)}>{cluster.name}</a></th>
      <td>{cluster.region ?? ""}</td>
      <td>{cluster.version}</td>
      <td>
        <State health={health} word={clusterState(cluster)} />
        {cluster.reason && cluster.reason !== cluster.state && <span class="reason"> {cluster.reason}</span>}
        {message && <p class="message">{message}</p>}
      </td>
      <td class="number"><Since time={cluster.since} /></td>
      <td class="number">{provides}</td>
      <td class="number">{consumes}</td>
    </tr>
  );
}

function members(clusters: Iterable<Cluster>, services: Iterable<Service>): Member[] {
  const all = new Map<string, Member>();
  for (const cluster of clusters) all.set(cluster.name, { cluster, provides: 0, consumes: 0 });
  for (const service of services) {
    for (const one of service.providers) {
      const member = all.get(one.cluster);
      if (member) member.provides += 1;
    }
    for (const one of service.consumers) {
      const member = all.get(one.cluster);
      if (member) member.consumes += 1;
    }
  }
  return [...all.values()];
}

function Members({ all, order, filter }: { all: Member[]; order: string | null; filter: Filter }) {
  const shown = all.filter(({ cluster }) => filter.namespace !== "" || clusterMatches(cluster, filter));
  const by = orderOf(order, "name");
  if (all.length === 0) return <NoMembers />;
  if (shown.length === 0) return null;
  return (
    <section aria-labelledby="members">
      <h2 id="members">Members <span class="tally">{shown.length === all.length ? all.length : `${shown.length} of ${all.length}`}</span></h2>
      <Scroll label="Members">
        <table>
          <Heads columns={MEMBERS} order={by} param="members" />
          <tbody>
            {sorted(shown, MEMBERS, by, (one) => one.cluster.name).map((one) => <MemberRow key={one.cluster.name} member={one} />)}
          </tbody>
        </table>
      </Scroll>
    </section>
  );
}

function Services({ all, order, filter }: { all: Service[]; order: string | null; filter: Filter }) {
  const [limit, more] = useState(ROWS);
  const shown = all.filter((one) => matches(one, filter));
  const by = orderOf(order, "name");
  if (all.length === 0) return <NoServices />;
  if (shown.length === 0) return <NoMatch />;
  const rows = sorted(shown, SERVICES, by, (one) => one.key).slice(0, limit);
  return (
    <section aria-labelledby="services">
      <h2 id="services">Services <span class="tally">{shown.length === all.length ? all.length : `${shown.length} of ${all.length}`}</span></h2>
      <Scroll label="Services">
        <table>
          <Heads columns={SERVICES} order={by} param="sort" />
          <tbody>{rows.map((one) => <Row key={one.key} service={one} />)}</tbody>
        </table>
      </Scroll>
      {rows.length < shown.length && (
        <p class="more">
          <button type="button" onClick={() => more(limit + ROWS)}>Show {Math.min(ROWS, shown.length - rows.length)} more</button>
          {" "}{plural(shown.length - rows.length, "service is", "services are")} not shown.
        </p>
      )}
    </section>
  );
}

export function TableView({ params }: { params: URLSearchParams }) {
  const { clusters, services } = useStore();
  const filter = filterOf(params);
  const all = [...services.values()];
  const found = all.filter((one) => matches(one, filter)).length;
  return (
    <div class="view table">
      <h1 class="hidden">Members and services</h1>
      <FilterBar filter={filter} services={all} found={isSet(filter) ? `${plural(found, "service")} found` : ""} />
      <Members all={members(clusters.values(), all)} order={params.get("members")} filter={filter} />
      {clusters.size > 0 || all.length > 0 ? <Services all={all} order={params.get("sort")} filter={filter} /> : null}
    </div>
  );
}
