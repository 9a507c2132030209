/** The page of `kubectl mcs ui`. */
import { render } from "preact";
import { useLayoutEffect, useRef } from "preact/hooks";
import { Banners } from "./banner";
import { ClusterView } from "./cluster";
import { usePlace, useStore } from "./hooks";
import { Live } from "./live";
import { MapView } from "./map";
import { Empty } from "./parts";
import { mapHref, tableHref, type Place, type Route } from "./route";
import { ServiceView } from "./service";
import { store } from "./store";
import { TableView } from "./table";
import { ThemeSwitch } from "./theme";

function title(route: Route): string {
  switch (route.view) {
    case "map":
      return "Map";
    case "table":
      return "Table";
    case "service":
      return `${route.namespace}/${route.name}`;
    case "cluster":
      return route.name;
    case "unknown":
      return "Not found";
  }
}

function Header({ place: { route, params } }: { place: Place }) {
  const { server } = useStore();
  const current = (view: string): "page" | undefined => (route.view === view ? "page" : undefined);
  return (
    <header>
      <a class="brand" href={mapHref()}>
        <svg viewBox="0 0 32 32" width="24" height="24" aria-hidden="true">
          <path d="M4.500 23C4.500 9 27.500 9 27.500 23" fill="none" stroke="currentColor" stroke-width="3.500" stroke-linecap="round" />
          <circle cx="4.500" cy="24" r="3.500" fill="currentColor" />
          <circle cx="27.500" cy="24" r="3.500" fill="currentColor" />
        </svg>
        <span>causeway</span>
      </a>
      <nav aria-label="Views">
        <a href={mapHref(params)} aria-current={current("map")}>Map</a>
        <a href={tableHref(params)} aria-current={current("table")}>Table</a>
      </nav>
      <div class="where">
        {server && <span title={`${server.hub}, kubectl-mcs ${server.version}`}>{server.context || server.hub}</span>}
        {server?.namespace && <span>namespace {server.namespace}</span>}
      </div>
      <ThemeSwitch />
    </header>
  );
}

function View({ place: { route, params } }: { place: Place }) {
  const { server } = useStore();
  if (!server) return <Empty top title="Reading the hub"><p role="status">This takes a moment.</p></Empty>;
  switch (route.view) {
    case "map":
      return <MapView params={params} />;
    case "table":
      return <TableView params={params} />;
    case "service":
      return <ServiceView key={`${route.namespace}/${route.name}`} namespace={route.namespace} name={route.name} />;
    case "cluster":
      return <ClusterView name={route.name} />;
    case "unknown":
      return <Empty top title="There is no such view"><p><a href={mapHref()}>Show the map</a></p></Empty>;
  }
}

function Page() {
  const here = usePlace();
  const name = title(here.route);
  const main = useRef<HTMLElement>(null);
  const last = useRef(name);
  useLayoutEffect(() => {
    document.title = `${name} - causeway`;
    // A new view begins at its top, for the eye and for the keyboard alike.
    if (last.current !== name) {
      main.current?.focus({ preventScroll: true });
      window.scrollTo(0, 0);
    }
    last.current = name;
  }, [name]);
  return (
    <>
      <a class="skip" href="#main" onClick={(event) => { event.preventDefault(); main.current?.focus(); }}>Skip to the view</a>
      <Header place={here} />
      <Banners />
      <main id="main" ref={main} tabIndex={-1} aria-label={name}>
        <View place={here} />
      </main>
      <Live />
    </>
  );
}

const page = document.getElementById("page");
if (page) {
  store.connect();
  render(<Page />, page);
}
