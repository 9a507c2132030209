/** The map as a table: what goes from which node to which. */
import { useState } from "preact/hooks";
import type { Arc, Graph, GraphNode } from "./graph";
import { HEALTHS, WORDS } from "./health";
import { Mark, Ready, State, plural } from "./parts";
import { reportsText } from "./path";
import { Report } from "./reports";
import { clusterHref, serviceHref } from "./route";
import { Scroll } from "./sort";

const ROWS = 200;

function NodeName({ node }: { node: GraphNode }) {
  return node.isRegion ? <>{node.label} <span class="aside">{plural(node.clusters.length, "cluster")}</span></> : <a href={clusterHref(node.label)}>{node.label}</a>;
}

function What({ arc: { services } }: { arc: Arc }) {
  const [only] = services;
  if (services.length !== 1 || !only) return <>{plural(services.length, "service")}</>;
  return <a href={serviceHref(only)}><span class="namespace">{only.namespace}/</span>{only.name}</a>;
}

/** Reports of the consumers of an arc on its paths. */
function ArcReport({ arc: { reports } }: { arc: Arc }) {
  const [only, ...more] = reports.values();
  if (!only) return <span class="none">no report</span>;
  return more.length > 0 ? <>{reportsText([only, ...more])}</> : <Report report={only} />;
}

export function Connections({ graph: { arcs, nodes } }: { graph: Graph }) {
  const [limit, more] = useState(ROWS);
  const sorted = [...arcs].sort((a, b) => HEALTHS.indexOf(b.health) - HEALTHS.indexOf(a.health) || a.id.localeCompare(b.id, "en", { numeric: true }));
  const rows = sorted.slice(0, limit);
  const reported = arcs.some((arc) => arc.reports.size > 0);
  const alone = nodes.filter((node) => node.provides + node.consumes === 0);
  return (
    <div class="list">
      {rows.length > 0 && (
        <Scroll label="What goes from which cluster to which">
          <table>
            <thead>
              <tr><th scope="col">From</th><th scope="col">To</th><th scope="col">Path</th>{reported && <th scope="col">Reported path</th>}<th scope="col">Services</th><th scope="col" class="number">Ready endpoints</th><th scope="col">State</th></tr>
            </thead>
            <tbody>
              {rows.map((arc) => (
                <tr key={arc.id}>
                  <th scope="row"><NodeName node={arc.from} /></th>
                  <td><NodeName node={arc.to} /></td>
                  <td class="path">{[...arc.paths].sort().join("; ")}</td>
                  {reported && <td><ArcReport arc={arc} /></td>}
                  <td><What arc={arc} /></td>
                  <td class="number"><Ready ready={arc.ready} endpoints={arc.endpoints} /></td>
                  <td><State health={arc.health} word={WORDS[arc.health]} /></td>
                </tr>
              ))}
            </tbody>
          </table>
        </Scroll>
      )}
      {rows.length < sorted.length && <p class="more"><button type="button" onClick={() => more(limit + ROWS)}>Show more of {sorted.length}</button></p>}
      {alone.length > 0 && (
        <>
          <h2>Give and take nothing</h2>
          <ul class="links">
            {alone.map((node) => <li key={node.id}><Mark health={node.health} label /><NodeName node={node} /></li>)}
          </ul>
        </>
      )}
    </div>
  );
}
