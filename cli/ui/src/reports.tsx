/** Reports of causeway-agent in consumers on the paths to providers. */
import { Since, State, plural } from "./parts";
import { reportHealth, type Reported } from "./path";
import { clusterHref } from "./route";

/** Maximum number of listed reports. */
const LISTED = 60;

const WORDS: Record<string, string> = { good: "Answers", bad: "Does not answer", unknown: "Unknown" };

/** One report: `Answers for 3h`. */
export function Report({ report }: { report: Reported }) {
  return (
    <>
      <State health={reportHealth(report)} word={WORDS[report.path] ?? report.path} />
      {report.since && <span> for <Since time={report.since} /></span>}
    </>
  );
}

/** Reports with the clusters at both ends. */
export function Reports({ all }: { all: Reported[] }) {
  const shown = all.slice(0, LISTED);
  return (
    <ul class="links">
      {shown.map((one) => (
        <li key={one.id}>
          <a href={clusterHref(one.provider)}>{one.provider}</a>
          {" \u2192 "}
          <a href={clusterHref(one.consumer)}>{one.consumer}</a>
          <Report report={one} />
        </li>
      ))}
      {all.length > shown.length && <li class="none">{plural(all.length - shown.length, "more report")}</li>}
    </ul>
  );
}
