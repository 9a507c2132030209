/** The conditions of an object, as the hub reports them. */
import type { Condition } from "./contract";
import type { Health } from "./health";
import { Since, State } from "./parts";
import { Scroll } from "./sort";

/** Conditions of which False is as it should be. */
const NEGATIVE = /Suspended|Failed|Conflict|Pressure|Problem/;

function conditionHealth({ type, status }: Condition): Health {
  if (status === "Unknown") return "partial";
  return (status === "True") === !NEGATIVE.test(type) ? "ok" : "bad";
}

export function Conditions({ all }: { all: Condition[] }) {
  if (all.length === 0) return <p class="none">The hub reports none.</p>;
  return (
    <Scroll label="Conditions">
      <table>
        <thead>
          <tr><th scope="col">Type</th><th scope="col">Status</th><th scope="col">Reason</th><th scope="col">Message</th><th scope="col" class="number">Since</th></tr>
        </thead>
        <tbody>
          {all.map((one) => (
            <tr key={one.type}>
              <th scope="row">{one.type}</th>
              <td><State health={conditionHealth(one)} word={one.status} /></td>
              <td>{one.reason}</td>
              <td class="text">{one.message}</td>
              <td class="number"><Since time={one.since} /></td>
            </tr>
          ))}
        </tbody>
      </table>
    </Scroll>
  );
}
