/** What stands in the place of members and services where there are none. */
import { clearFilters } from "./filterbar";
import { useStore } from "./hooks";
import { Command, Empty } from "./parts";

export function NoMembers({ top }: { top?: boolean }) {
  return (
    <Empty top={top} title="No cluster has joined">
      <p>Join one, and what it provides and consumes shows here:</p>
      <Command text="kubectl mcs join NAME --member-kubeconfig FILE" />
    </Empty>
  );
}

export function NoServices() {
  const { server } = useStore();
  if (!server?.synced) return <Empty title="Reading the services"><p role="status">They come as they are read.</p></Empty>;
  return (
    <Empty title="No service is exposed">
      <p>Apply a MultiClusterService, or export a Service in a member. It shows here within a second.</p>
    </Empty>
  );
}

export function NoMatch() {
  return (
    <Empty title="No service matches the filter">
      <p><button type="button" onClick={clearFilters}>Clear the filter</button></p>
    </Empty>
  );
}
