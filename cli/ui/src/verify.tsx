/** Starts `kubectl mcs verify` of a service, and shows the run. Without `--verify` the server offers no run. */
import { useState } from "preact/hooks";
import type { Verified, VerifyRun } from "./contract";
import type { Health } from "./health";
import { useStore } from "./hooks";
import { Mark, Since } from "./parts";
import { parsed } from "./time";

async function start(namespace: string, name: string): Promise<string> {
  const url = `api/services/${encodeURIComponent(namespace)}/${encodeURIComponent(name)}/verify`;
  try {
    const response = await fetch(url, { method: "POST" });
    return response.ok ? "" : await response.text();
  } catch {
    return "kubectl mcs ui does not answer";
  }
}

/** Last run that the server started, if it verified this service. */
export function useLastRun(namespace: string, name: string): VerifyRun | undefined {
  const last = useStore().server?.verify?.last;
  return last?.service === `${namespace}/${name}` ? last : undefined;
}

/** Health of a stored result: `partial` if nothing fails, and an outcome is unknown or a part was not tried. */
export function resultHealth({ results, untried = 0 }: Verified): Health {
  if (results.some((one) => one.problem)) return "bad";
  return untried > 0 || results.some((one) => (one.unknown ?? 0) > 0) ? "partial" : "ok";
}

/** Whether the hub lacks the result of a run: the stored result, if any, is older than the run. */
function isUnstored(run: VerifyRun, stored: Verified | undefined): boolean {
  const [time, started] = [parsed(stored?.time), parsed(run.time)];
  return !time || !started || time < started;
}

/** Health of a run, or of its result on the hub, which a later run may have replaced: `partial` if nothing is known to fail. */
function runHealth(run: VerifyRun, stored: Verified | undefined): Health {
  const fails = stored && !isUnstored(run, stored) ? resultHealth(stored) === "bad" : run.fails;
  if (fails) return "bad";
  return run.works && run.untried.length === 0 ? "ok" : "partial";
}

/** Shows the last run, unless the hub has its result and nothing is wrong or untried. `stored` is the result on the hub. */
export function VerifyControl({ namespace, name, stored }: { namespace: string; name: string; stored?: Verified | undefined }) {
  const { server } = useStore();
  const [refused, set] = useState("");
  const last = useLastRun(namespace, name);
  const verify = server?.verify;
  if (!verify) return null;
  const service = `${namespace}/${name}`;
  const { running } = verify;
  const health = last && runHealth(last, stored);
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
      {!running && last && health && (health !== "ok" || isUnstored(last, stored)) && (
        <>
          <p class={`outcome ${health}`}>
            <Mark health={health} /> Run of <Since time={last.time} /> ago: {last.summary}
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
