/** The filters of the map and the table; they are parameters of the page's place. */
import type { Service } from "./contract";
import { isSet, namespaces, type Filter } from "./filter";
import { setParams } from "./route";

const STATES: [string, string][] = [["", "All states"], ["not-ready", "Not ready"], ["ready", "Ready"]];

export function clearFilters(): void {
  setParams({ ns: "", q: "", state: "" });
}

export function FilterBar({ filter, services, found }: { filter: Filter; services: Iterable<Service>; found: string }) {
  const all = namespaces(services);
  // A namespace of the address that holds nothing now is offered all the same, or the choice would show another.
  if (filter.namespace !== "" && !all.includes(filter.namespace)) all.push(filter.namespace);
  return (
    <div class="filters" role="search" aria-label="Filter">
      <input
        type="search"
        id="filter"
        placeholder="Filter by name or cluster"
        aria-label="Filter by name or cluster"
        autocomplete="off"
        spellcheck={false}
        value={filter.typed}
        onInput={(event) => setParams({ q: event.currentTarget.value })}
      />
      <select aria-label="Namespace" value={filter.namespace} onChange={(event) => setParams({ ns: event.currentTarget.value })}>
        <option value="">All namespaces</option>
        {all.map((name) => <option value={name}>{name}</option>)}
      </select>
      <select aria-label="State" value={filter.state} onChange={(event) => setParams({ state: event.currentTarget.value })}>
        {STATES.map(([value, text]) => <option value={value}>{text}</option>)}
      </select>
      {isSet(filter) && <button type="button" class="quiet" onClick={clearFilters}>Clear</button>}
      <span class="found">{found}</span>
    </div>
  );
}
