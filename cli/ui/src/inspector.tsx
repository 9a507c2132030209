/** What is known of what is chosen on the map; else what is wrong anywhere, and what the map's signs mean. */
import { choose, chosenArcs, toggleRegion, type Choice } from "./choice";
import type { Service } from "./contract";
import type { Arc, Graph, GraphNode } from "./graph";
import { HEALTHS, WORDS, clusterHealth, clusterState, isUnknown, serviceHealth, serviceState, worst, type Health } from "./health";
import { useStore } from "./hooks";
import { Mark, Ready, State, plural } from "./parts";
import { sorted } from "./path";
import { Reports } from "./reports";
import { clusterHref, serviceHref, tableHref } from "./route";

/** More are only counted. */
const LISTED = 60;
const WRONG = 8;

function ServiceLinks({ services }: { services: Service[] }) {
  const shown = services.slice(0, LISTED);
  return (
    <ul class="links">
      {shown.map((one) => (
        <li key={one.key}>
          <Mark health={serviceHealth(one)} label />
          <a href={serviceHref(one)}><span class="namespace">{one.namespace}/</span>{one.name}</a>
          <span class="aside">{one.state === "Ready" ? (serviceHealth(one) === "ok" ? "" : serviceState(one)) : one.reason || one.state}</span>
        </li>
      ))}
      {services.length > shown.length && <li class="none">{services.length - shown.length} more: filter by name</li>}
    </ul>
  );
}

/** All that goes between a node and another. */
interface Neighbour {
  node: GraphNode;
  arcs: Arc[];
  services: Set<string>;
  ready: number;
  endpoints: number;
  health: Health;
}

function neighbours(arcs: Arc[], end: "from" | "to"): Neighbour[] {
  const found = new Map<string, Neighbour>();
  for (const arc of arcs) {
    const node = arc[end];
    const one = found.get(node.id) ?? { node, arcs: [], services: new Set(), ready: 0, endpoints: 0, health: "ok" };
    one.arcs.push(arc);
    for (const service of arc.services) one.services.add(service.key);
    one.ready += arc.ready;
    one.endpoints += arc.endpoints;
    one.health = worst(one.health, arc.health);
    found.set(node.id, one);
  }
  return [...found.values()].sort((a, b) => HEALTHS.indexOf(b.health) - HEALTHS.indexOf(a.health) || b.endpoints - a.endpoints);
}

function ArcLinks({ title, arcs, end }: { title: string; arcs: Arc[]; end: "from" | "to" }) {
  if (arcs.length === 0) return null;
  const all = neighbours(arcs, end);
  const shown = all.slice(0, LISTED);
  return (
    <>
      <h3>{title}</h3>
      <ul class="links">
        {shown.map(({ node, arcs: [first], services, ready, endpoints, health }) => (
          <li key={node.id}>
            <Mark health={health} label />
            <button type="button" class="link" onClick={() => first && choose(first.from.id, first.to.id)}>{node.label}</button>
            <span class="aside">{plural(services.size, "service")}, <Ready ready={ready} endpoints={endpoints} /></span>
          </li>
        ))}
        {all.length > shown.length && <li class="none">{all.length - shown.length} more</li>}
      </ul>
    </>
  );
}

function NodeDetails({ node, graph, params }: { node: GraphNode; graph: Graph; params: URLSearchParams }) {
  const { clusters } = useStore();
  const arcs = chosenArcs(graph, { node: node.id, to: "" });
  const only = node.isRegion ? undefined : clusters.get(node.label);
  return (
    <>
      <p class="kind">{node.isRegion ? "Region" : "Cluster"}</p>
      <h2>{node.isRegion ? node.label : <a href={clusterHref(node.label)}>{node.label}</a>}</h2>
      {!node.isRegion && <State health={node.health} word={only ? clusterState(only) : "Not joined"} />}
      {only?.message && node.health !== "ok" && <p class="message">{only.message}</p>}
      {only?.deletionsSuspended && <p class="message">{only.deletionsSuspended}</p>}
      {node.isRegion && (
        <>
          <p><button type="button" onClick={() => { toggleRegion(params, node.label); choose(""); }}>Show its {plural(node.clusters.length, "cluster")}</button></p>
          <ul class="links">
            {node.clusters.map((name) => {
              const cluster = clusters.get(name);
              return (
                <li key={name}>
                  <Mark health={clusterHealth(cluster)} label /><a href={clusterHref(name)}>{name}</a>
                </li>
              );
            })}
          </ul>
        </>
      )}
      <ArcLinks title="Provides to" arcs={arcs.filter((arc) => arc.from === node)} end="to" />
      <ArcLinks title="Consumes from" arcs={arcs.filter((arc) => arc.to === node)} end="from" />
      {arcs.length === 0 && <p class="none">Nothing goes from it to others, or to it.</p>}
    </>
  );
}

function ArcDetails({ arcs }: { arcs: Arc[] }) {
  const [first] = arcs;
  if (!first) return null;
  const services = arcs.flatMap((arc) => arc.services);
  const sum = arcs.reduce((all, arc) => ({ ready: all.ready + arc.ready, endpoints: all.endpoints + arc.endpoints }), { ready: 0, endpoints: 0 });
  const paths = [...new Set(arcs.flatMap((arc) => [...arc.paths]))].sort();
  const reports = sorted(new Map(arcs.flatMap((arc) => [...arc.reports])).values());
  services.sort((a, b) => HEALTHS.indexOf(serviceHealth(b)) - HEALTHS.indexOf(serviceHealth(a)) || a.key.localeCompare(b.key));
  return (
    <>
      <p class="kind">From a provider to a consumer</p>
      <h2>
        <button type="button" class="link" onClick={() => choose(first.from.id)}>{first.from.label}</button>
        {" \u2192 "}
        <button type="button" class="link" onClick={() => choose(first.to.id)}>{first.to.label}</button>
      </h2>
      <p class="summary">{plural(services.length, "service")}, <Ready {...sum} /> endpoints ready</p>
      {paths.length > 0 && (
        <>
          <h3>Path</h3>
          <ul class="links">{paths.map((path) => <li key={path}>{path}</li>)}</ul>
        </>
      )}
      {reports.length > 0 && (
        <>
          <h3>Reported by causeway-agent</h3>
          <Reports all={reports} />
        </>
      )}
      <h3>Services</h3>
      <ServiceLinks services={services} />
    </>
  );
}

/** `2 not ready, 1 partly, 3 unknown`. Unknown services are partial too. */
function tally(wrong: Health[], unknown = 0): string {
  const partial = wrong.filter((one) => one === "partial").length;
  const [not, partly] = [wrong.length - partial, partial - unknown];
  const parts = [not > 0 ? `${not} not ready` : "", partly > 0 ? `${partly} partly` : "", unknown > 0 ? `${unknown} unknown` : ""].filter(
    (one) => one !== "",
  );
  return parts.join(", ") || "all ready";
}

function Overview() {
  const { clusters, services } = useStore();
  const all = [...services.values()];
  const wrong = all.filter((one) => serviceHealth(one) !== "ok");
  wrong.sort((a, b) => HEALTHS.indexOf(serviceHealth(b)) - HEALTHS.indexOf(serviceHealth(a)));
  const lost = [...clusters.values()].filter((one) => clusterHealth(one) !== "ok");
  return (
    <>
      <h2>Overview</h2>
      <dl class="numbers">
        <div><dt>Clusters</dt><dd>{clusters.size}</dd><dd class="aside">{tally(lost.map(clusterHealth))}</dd></div>
        <div><dt>Services</dt><dd>{all.length.toLocaleString("en")}</dd><dd class="aside">{tally(wrong.map(serviceHealth), wrong.filter(isUnknown).length)}</dd></div>
      </dl>
      {wrong.length > 0 && (
        <>
          <h3>Needs attention</h3>
          <ServiceLinks services={wrong.slice(0, WRONG)} />
          {wrong.length > WRONG && <p><a href={tableHref(new URLSearchParams({ state: "not-ready" }))}>All {wrong.length} in the table</a></p>}
        </>
      )}
    </>
  );
}

function Legend() {
  return (
    <>
      <h3>Signs</h3>
      <ul class="legend">
        {HEALTHS.map((health) => (
          <li key={health}>
            <Mark health={health} />
            <svg class={`line arc-${health}`} viewBox="0 0 28 8" width="28" height="8" aria-hidden="true">
              <path d="M0 4h28" stroke="currentColor" stroke-width="3" stroke-dasharray={health === "disconnected" ? "5 4" : undefined} />
            </svg>
            {WORDS[health]}
          </li>
        ))}
      </ul>
      <p class="none">An arc leads from a provider to a consumer. The more endpoints, the wider.</p>
    </>
  );
}

export function Inspector({ graph, choice, params }: { graph: Graph; choice: Choice; params: URLSearchParams }) {
  const node = graph.nodes.find((one) => one.id === choice.node);
  const arcs = choice.to === "" ? [] : chosenArcs(graph, choice);
  if (arcs.length === 0 && !node) {
    return <><Overview /><Legend /></>;
  }
  return (
    <>
      <button type="button" class="quiet close" aria-label="Close the details" onClick={() => choose("")}>Close</button>
      {arcs.length > 0 ? <ArcDetails arcs={arcs} /> : node && <NodeDetails node={node} graph={graph} params={params} />}
    </>
  );
}
