/** One service: what `kubectl mcs explain` says, endpoint by endpoint. */
import { useEffect, useState } from "preact/hooks";
import { Conditions } from "./conditions";
import type { Cluster, Endpoint, EndpointConsumer, Explanation, Exposure, ExposureProvider, Problem, Service, Tier } from "./contract";
import { disconnected, isUnread, serviceHealth, serviceState, worst, type Health } from "./health";
import { useFlash, useStore } from "./hooks";
import { ClusterNames, Command, Empty, Mark, Problems, Ready, Since, State, plural } from "./parts";
import { reportedPaths } from "./path";
import { Reports } from "./reports";
import { clusterHref, mapHref } from "./route";
import { Scroll } from "./sort";
import { listen } from "./store";
import { VerifyControl, resultHealth, useLastRun } from "./verify";

/** Reasons that only say that an endpoint is where it should be. */
const PLAIN = new Set(["Copied", "CopiedByKarmada", "Own"]);

type Answer = { explanation?: Explanation; gone: boolean };

function useExplanation(namespace: string, name: string): Answer {
  const [answer, set] = useState<Answer>({ gone: false });
  useEffect(() => {
    const url = `api/services/${encodeURIComponent(namespace)}/${encodeURIComponent(name)}/events`;
    return listen(url, {
      explain: (data) => set({ explanation: data as Explanation, gone: false }),
      gone: () => set({ gone: true }),
    });
  }, [namespace, name]);
  return answer;
}

/** All that is said, once each; what there is a remedy for comes first. */
function said({ diagnoses, exposures }: Explanation): Problem[] {
  const all: Problem[] = [...diagnoses];
  for (const exposure of exposures) {
    all.push(...exposure.diagnoses);
    for (const one of [...exposure.consumers, ...exposure.providers]) all.push(...one.diagnoses);
    for (const provider of exposure.providers) {
      for (const endpoint of provider.endpoints) all.push(...endpoint.consumers);
    }
  }
  const distinct = new Map<string, Problem>();
  for (const { reason, message, remedy } of all) {
    if (!PLAIN.has(reason)) distinct.set(`${reason}\n${message}`, { reason, message, remedy });
  }
  return [...distinct.values()].sort((a, b) => Number(!a.remedy) - Number(!b.remedy));
}

function condition({ ready, serving, terminating }: Endpoint): string {
  if (terminating) return serving ? "Terminating, serving" : "Terminating";
  return ready ? "Ready" : "Not ready";
}

/** Reasons of an endpoint that is used as its consumer prefers. */
const PREFERRED = new Set(["EntryCopied", "Standby", "Promoted", "NotPreferred"]);

/** Every problem has a remedy. */
function problemHealth(one: Problem): Health {
  return one.remedy && !isUnread(one) ? "bad" : "partial";
}

/** In a consumer an endpoint is as it should be, is there and not used, or is missing. */
function consumerHealth(one: EndpointConsumer, endpoint: Endpoint): Health {
  if (PLAIN.has(one.reason) || PREFERRED.has(one.reason)) return "ok";
  return one.state === "Present" || !endpoint.ready ? "partial" : "bad";
}

interface Group {
  reason: string;
  health: Health;
  consumers: EndpointConsumer[];
}

function groups(endpoint: Endpoint): Group[] {
  const found = new Map<string, Group>();
  for (const one of endpoint.consumers) {
    const health = consumerHealth(one, endpoint);
    const group = found.get(one.reason) ?? { reason: one.reason, health, consumers: [] };
    group.health = worst(group.health, health);
    group.consumers.push(one);
    found.set(one.reason, group);
  }
  return [...found.values()];
}

function InConsumers({ endpoint }: { endpoint: Endpoint }) {
  if (endpoint.consumers.length === 0) return <span class="none">no consumer</span>;
  return (
    <ul class="consumers">
      {groups(endpoint).map(({ reason, health, consumers }) => (
        <li key={reason}>
          <State health={health} word={reason} />
          {" in "}
          <ClusterNames names={consumers.map((one) => one.cluster)} most={4} />
          {consumers.length === 1 && consumers[0]?.slice && <span class="slice">{consumers[0].slice}</span>}
        </li>
      ))}
    </ul>
  );
}

function EndpointRow({ endpoint }: { endpoint: Endpoint }) {
  const row = useFlash<HTMLTableRowElement>(JSON.stringify(endpoint));
  const health: Health = endpoint.ready && !endpoint.terminating ? "ok" : "partial";
  return (
    <tr ref={row}>
      <th scope="row" class="address">{endpoint.addresses.join(", ")}</th>
      <td><State health={health} word={condition(endpoint)} /></td>
      <td class="where-it-runs">{endpoint.node ?? ""}{endpoint.node && endpoint.zone ? <span class="slice">{endpoint.zone}</span> : endpoint.zone ?? ""}</td>
      <td class="slice">{endpoint.slice ?? ""}</td>
      <td><InConsumers endpoint={endpoint} /></td>
    </tr>
  );
}

/** Rates one problem of the service. Where the service is ready, nothing is wrong. */
type Rate = (one: Problem) => Health;

/** Health of a provider's part. The connection to its cluster precedes its diagnoses, which may follow from that. */
function providerHealth({ diagnoses }: ExposureProvider, cluster: Cluster | undefined, rate: Rate): Health {
  if (cluster && disconnected(cluster) !== undefined) return "disconnected";
  return diagnoses.map(rate).reduce(worst, "ok");
}

function Provider({ provider, rate }: { provider: ExposureProvider; rate: Rate }) {
  const { clusters } = useStore();
  const ready = provider.endpoints.filter((one) => one.ready).length;
  const health = providerHealth(provider, clusters.get(provider.cluster), rate);
  return (
    <div class="provider">
      <h4>
        {health !== "ok" && <Mark health={health} label />}
        <a href={clusterHref(provider.cluster)}>{provider.cluster}</a>
        <span class="aside"><Ready ready={ready} endpoints={provider.endpoints.length} /> ready</span>
      </h4>
      {provider.endpoints.length === 0 ? <p class="none">It has no endpoints.</p> : (
        <Scroll label={`Endpoints of ${provider.cluster}`}>
          <table>
            <thead>
              <tr><th scope="col">Endpoint</th><th scope="col">Condition</th><th scope="col">Node, zone</th><th scope="col">EndpointSlice</th><th scope="col">In consumers</th></tr>
            </thead>
            <tbody>{provider.endpoints.map((one) => <EndpointRow key={one.addresses.join()} endpoint={one} />)}</tbody>
          </table>
        </Scroll>
      )}
    </div>
  );
}

function tier({ tier: name, clusters, ready, endpoints }: Tier): string {
  const counted = endpoints === 0 ? "" : `: ${ready} of ${endpoints} ready`;
  return `${name} (${clusters.join(", ")})${counted}`;
}

function Tiers({ exposure }: { exposure: Exposure }) {
  const all = exposure.consumers.filter((one) => one.servingFrom ?? one.standby);
  if (all.length === 0) return null;
  return (
    <Scroll label={`Who serves whom, by ${exposure.address}`}>
      <table>
        <thead><tr><th scope="col">Consumer</th><th scope="col">Serving from</th><th scope="col">Standby</th></tr></thead>
        <tbody>
          {all.map((one) => (
            <tr key={one.cluster}>
              <th scope="row"><a href={clusterHref(one.cluster)}>{one.cluster}</a></th>
              <td>{(one.servingFrom ?? []).map(tier).join("; ") || "-"}</td>
              <td>{(one.standby ?? []).map(tier).join("; ") || "-"}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </Scroll>
  );
}

function ExposureSection({ exposure, rate }: { exposure: Exposure; rate: Rate }) {
  const kind = exposure.exposure === "Native" ? "MultiClusterService" : "ServiceExport";
  const id = `exposure-${exposure.exposure}`;
  return (
    <section class="exposure" aria-labelledby={id}>
      <h3 id={id}><Command text={exposure.address} what="address" /></h3>
      <p class="summary">
        Exposed by {kind}, from {plural(exposure.providers.length, "provider")}, in{" "}
        <ClusterNames names={exposure.consumers.map((one) => one.cluster)} most={8} />
      </p>
      <Tiers exposure={exposure} />
      {exposure.providers.map((one) => <Provider key={one.cluster} provider={one} rate={rate} />)}
    </section>
  );
}

function Gone({ namespace, name }: { namespace: string; name: string }) {
  return (
    <Empty top title={`Nothing exposes ${namespace}/${name}`}>
      <p>Neither a MultiClusterService nor an export of it is there. When it comes, it shows here.</p>
      <p><a href={mapHref()}>Show the map</a></p>
    </Empty>
  );
}

function Title({ rows, namespace, name }: { rows: Service[]; namespace: string; name: string }) {
  const [first] = rows;
  return (
    <header class="title">
      <p class="kind">Service</p>
      <h1><span class="namespace">{namespace}/</span>{name}</h1>
      {rows.map((one) => <State key={one.key} health={serviceHealth(one)} word={rows.length > 1 ? `${one.kind}: ${serviceState(one)}` : serviceState(one)} />)}
      {first && (
        <p class="summary">
          {first.ports.length > 0 ? first.ports.join(", ") : "all ports"}
          {first.created && <>, created <Since time={first.created} /> ago</>}
        </p>
      )}
    </header>
  );
}

export function ServiceView({ namespace, name }: { namespace: string; name: string }) {
  const { clusters, services } = useStore();
  const { explanation, gone } = useExplanation(namespace, name);
  const rows = [...services.values()].filter((one) => one.namespace === namespace && one.name === name);
  if (gone && rows.length === 0) return <Gone namespace={namespace} name={name} />;
  const all = explanation ? said(explanation) : [];
  const conditions = rows.flatMap((one) => one.conditions ?? []);
  const reports = reportedPaths(rows, clusters);
  const rate: Rate = (one) => (explanation?.ready ? "ok" : problemHealth(one));
  return (
    <div class="view detail">
      <Title rows={rows} namespace={namespace} name={name} />
      {!explanation && <p class="none" role="status">Asking the hub and the members</p>}
      {explanation && <Summary explanation={explanation} all={all} />}
      {explanation && <Verified explanation={explanation} namespace={namespace} name={name} />}
      {reports.length > 0 && (
        <section aria-labelledby="reports">
          <h2 id="reports">Paths reported by causeway-agent</h2>
          <Reports all={reports} />
        </section>
      )}
      {all.length > 0 && <Problems all={all} health={rate} />}
      {explanation && explanation.exposures.length > 0 && (
        <section aria-labelledby="endpoints">
          <h2 id="endpoints">Endpoints</h2>
          {explanation.exposures.map((one) => <ExposureSection key={one.exposure} exposure={one} rate={rate} />)}
        </section>
      )}
      {conditions.length > 0 && (
        <section aria-labelledby="conditions">
          <h2 id="conditions">Conditions</h2>
          <Conditions all={conditions} />
        </section>
      )}
    </div>
  );
}

/** Last result of `kubectl mcs verify`, or the command that brings one. */
function Verified({ explanation, namespace, name }: { explanation: Explanation; namespace: string; name: string }) {
  const { verified, verifiedUnknown } = explanation;
  const last = useLastRun(namespace, name);
  if (verifiedUnknown) {
    return (
      <>
        <p class="outcome partial"><Mark health="partial" /> The last result of verify is unknown: {verifiedUnknown}</p>
        <VerifyControl namespace={namespace} name={name} />
      </>
    );
  }
  const health = verified ? resultHealth(verified) : "ok";
  return (
    <>
      {verified ? (
        <p class={`outcome ${health}`}>
          <Mark health={health} /> Verified <Since time={verified.time} /> ago: {verified.summary}
        </p>
      ) : !last && (
        <p class="none">Never verified. <code>kubectl mcs verify {name} -n {namespace}</code> dials it from pods.</p>
      )}
      <VerifyControl namespace={namespace} name={name} stored={verified} />
    </>
  );
}

function Summary({ explanation, all }: { explanation: Explanation; all: Problem[] }) {
  if (explanation.ready) {
    return <p class="outcome ok"><Mark health="ok" /> Every ready endpoint is in every consumer.{all.length > 0 ? " Worth to know:" : ""}</p>;
  }
  if (all.some(isUnread) && all.every((one) => problemHealth(one) !== "bad")) {
    return <p class="outcome partial"><Mark health="partial" /> Unknown, because a part could not be read:</p>;
  }
  return <p class="outcome bad"><Mark health="bad" /> {all.length > 0 ? "Something is wrong:" : "Something is wrong."}</p>;
}
