/** The map: clusters and what goes from one to another, beside what is known of the one that is chosen. */
import { useMemo } from "preact/hooks";
import { grouping, type Choice } from "./choice";
import { Connections } from "./connections";
import { filterOf, isSet, matches } from "./filter";
import { FilterBar } from "./filterbar";
import { graph } from "./graph";
import { useStore } from "./hooks";
import { Inspector } from "./inspector";
import { NoMatch, NoMembers, NoServices } from "./nothing";
import { plural } from "./parts";
import { Plane } from "./plane";
import { setParams } from "./route";

function Toolbar({ params, byRegion, regions }: { params: URLSearchParams; byRegion: boolean; regions: boolean }) {
  const list = params.get("as") === "list";
  const group = (value: string): void => setParams({ group: value, open: "", sel: "", to: "" });
  return (
    <div class="toolbar">
      {regions && (
        <div class="segments" role="group" aria-label="Group">
          <button type="button" aria-pressed={byRegion} onClick={() => group("regions")}>Regions</button>
          <button type="button" aria-pressed={!byRegion} onClick={() => group("clusters")}>Clusters</button>
        </div>
      )}
      <div class="segments" role="group" aria-label="Show as">
        <button type="button" aria-pressed={!list} onClick={() => setParams({ as: "" })}>Picture</button>
        <button type="button" aria-pressed={list} onClick={() => setParams({ as: "list" })}>List</button>
      </div>
    </div>
  );
}

export function MapView({ params }: { params: URLSearchParams }) {
  const { clusters, services } = useStore();
  const filter = filterOf(params);
  const { byRegion, collapsed } = grouping(params, clusters.size);
  const key = ["ns", "q", "state", "group", "open"].map((name) => params.get(name) ?? "").join("\n");
  const shown = useMemo(() => [...services.values()].filter((one) => matches(one, filter)), [services, key]);
  const all = useMemo(() => graph(clusters, shown, collapsed), [clusters, shown, key]);
  const choice: Choice = { node: params.get("sel") ?? "", to: params.get("to") ?? "" };
  if (clusters.size === 0 && services.size === 0) return <NoMembers top />;
  const regions = [...clusters.values()].some((one) => one.region);
  return (
    <div class="view map">
      <h1 class="hidden">Map</h1>
      <div class="controls">
        <FilterBar filter={filter} services={services.values()} found={isSet(filter) ? `${plural(shown.length, "service")} found` : ""} />
        <Toolbar params={params} byRegion={byRegion} regions={regions} />
      </div>
      <div class="stage">
        {params.get("as") === "list" ? <Connections graph={all} /> : <Plane graph={all} choice={choice} params={params} filtered={isSet(filter)} />}
        <section id="details" tabIndex={-1} aria-label="Details">
          <Inspector graph={all} choice={choice} params={params} />
          {services.size === 0 && <NoServices />}
          {services.size > 0 && shown.length === 0 && <NoMatch />}
        </section>
      </div>
    </div>
  );
}
