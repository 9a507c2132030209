/** Starts `kubectl mcs verify` of a service, and shows the run. Without `--verify` the server offers no run. */
import { useState } from "preact/hooks";
import { useStore } from "./hooks";
import { Mark, Since } from "./parts";

async function start(namespace: string, name: string): Promise<string> {
  const url = `api/services/${encodeURIComponent(namespace)}/${encodeURIComponent(name)}/verify`;
  try {
    const response = await fetch(url, { method: "POST" });
    return response.ok ? "" : await response.text();
  } catch {
    return "kubectl mcs ui does not answer";
  }
}

export function VerifyControl({ namespace, name }: { namespace: string; name: string }) {
  const { server } = useStore();
  const [refused, set] = useState("");
  const verify = server?.verify;
  if (!verify) return null;
  const service = `${namespace}/${name}`;
  const { running } = verify;
  const last = verify.last?.service === service ? verify.last : undefined;
  const click = (): void => {
    set("");
    void start(namespace, name).then(set);
  };
  return (
    <div class="verify">
      <button type="button" disabled={running !== undefined} onClick={click}>Verify from pods</button>
      <p role="status">
        {running && <>{running.service === service ? "Verifying" : `Verifying ${running.service}`} for <Since time={running.since} />: {running.step}</>}
      </p>
      {refused !== "" && <p class="outcome bad"><Mark health="bad" /> {refused}</p>}
      {!running && last && (!last.works || last.untried.length > 0) && (
        <>
          <p class={`outcome ${last.works ? "partial" : "bad"}`}>
            <Mark health={last.works ? "partial" : "bad"} /> Run of <Since time={last.time} /> ago: {last.summary}
          </p>
          {last.untried.length > 0 && (
            <>
              <p>Not tried:</p>
              <ul>{last.untried.map((why) => <li key={why}>{why}</li>)}</ul>
            </>
          )}
        </>
      )}
    </div>
  );
}
