//! Nodes of an entry whose proxies may not lead to their first endpoints yet.
//!
//! The proxy of a node learns of an endpoint as causeway does, and writes its rules at most once a
//! second. Until then the node drops packets for a Service that leads to its own endpoints alone.

use std::collections::BTreeSet;
use std::time::Duration;

use causeway::domain::{ClusterName, ServiceKey};

use super::{Entry, EntryEndpoint};
use crate::model::TimePoint;
use crate::observed::Index;

/// Node of a provider.
pub(crate) type EntryNode = (ClusterName, Box<str>);

/// Time in which the proxy of a node has synced.
const SYNC: Duration = Duration::from_secs(5);

impl Entry {
    /// Lists the nodes that lead to an endpoint which serves.
    pub(crate) fn serving_nodes(&self) -> impl Iterator<Item = &str> {
        let serving = self.endpoints.iter().filter(|one| one.serves());
        serving.filter_map(|one| one.node.as_deref())
    }

    /// Returns the entry in which a new node is not ready, as long as an older one is. A node that
    /// Kubernetes leaves out is then not ready, as long as another one of its address family is.
    pub(crate) fn without_new_nodes(
        mut self,
        (index, key): (&Index, &ServiceKey),
        provider: &ClusterName,
        now: TimePoint,
    ) -> Self {
        let since = |one: &EntryEndpoint| {
            let node = one.node.clone().filter(|_| one.is_ready())?;
            let noted = index.entry_nodes.of(key, &(provider.clone(), node));
            Some(noted.unwrap_or(now))
        };
        let oldest = self.endpoints.iter().filter_map(since).min();
        let is_new = |one: &EntryEndpoint| {
            let since = since(one).filter(|since| oldest.is_some_and(|oldest| oldest < *since));
            since.is_some_and(|since| since.after(SYNC) > now)
        };
        for new in self.endpoints.iter_mut().filter(|one| is_new(one)) {
            new.conditions = [Some(false); 3];
        }
        for is_ipv6 in [false, true] {
            let is_of = |one: &EntryEndpoint, is_left_out| {
                one.address.is_ipv6() == is_ipv6 && one.is_left_out == is_left_out
            };
            let mut endpoints = self.endpoints.iter();
            if endpoints.any(|one| is_of(one, false) && one.is_ready()) {
                for one in self.endpoints.iter_mut().filter(|one| is_of(one, true)) {
                    one.conditions = [Some(false); 3];
                }
            }
        }
        self
    }
}

impl EntryEndpoint {
    fn is_ready(&self) -> bool {
        let [ready, ..] = self.conditions;
        ready.unwrap_or(true)
    }

    fn serves(&self) -> bool {
        let [_, serving, _] = self.conditions;
        self.is_ready() || serving == Some(true)
    }
}

/// Returns the time at which the next of the nodes is not new any more.
pub(crate) fn again_at(
    index: &Index,
    key: &ServiceKey,
    nodes: &BTreeSet<EntryNode>,
    now: TimePoint,
) -> Option<TimePoint> {
    index.entry_nodes.next_end(key, nodes, SYNC, now)
}
