//! Report on the entry clusters of a MultiClusterService of type LoadBalancer.

use causeway::domain::ClusterName;
use k8s_openapi::jiff::Timestamp;

use super::condition_state::ConditionState;
use super::{SEEN_WITHIN, View};
use crate::messages::entry_clusters;
use crate::model::TimePoint;
use crate::plan::entry_clusters::{EntryCluster, EntryState, NoAddress};
use crate::reasons::Reason;

impl View<'_> {
    /// Returns the state of Ready where no entry cluster has an address; `None` if one has, or may
    /// have. A new load balancer may lack one for a while.
    pub(super) fn without_address(&self) -> Option<ConditionState> {
        let entries = self.desired.entry_clusters.as_ref()?;
        let lacks = |entry: &EntryCluster| {
            matches!(
                entry.state,
                EntryState::NoAddress(_) | EntryState::Unused(_)
            )
        };
        let mut all = entries.iter().peekable();
        all.peek()?;
        if !all.all(|(_, entry)| lacks(entry)) {
            return None;
        }
        let not_requested = EntryState::NoAddress(NoAddress::NotRequested);
        let mut states = entries.iter().map(|(_, entry)| &entry.state);
        let is_pending = states.any(|state| *state == not_requested);
        if is_pending || self.address_awaited_until().is_some() {
            return Some(ConditionState::Unchanged);
        }
        let message = entry_clusters::without_address(self.key, entries);
        Some(ConditionState::failed(Reason::NoEntryAddress, message))
    }

    /// Returns the time until which the first new Service of an entry cluster may lack an address
    /// without a problem. A Service that changes its type to LoadBalancer counts as new.
    pub(super) fn address_awaited_until(&self) -> Option<TimePoint> {
        let entries = self.desired.entry_clusters.as_ref()?;
        let awaited = entries
            .iter()
            .filter_map(|(name, entry)| match entry.state {
                EntryState::NoAddress(NoAddress::Pending(created)) => self.patience(name, created),
                _ => None,
            });
        awaited.filter(|until| self.now < *until).min()
    }

    /// Returns the time until which the load balancer of a Service, which was created at that time,
    /// may take to give it an address.
    fn patience(&self, name: &ClusterName, created: Option<Timestamp>) -> Option<TimePoint> {
        let created = created.filter(|created| *created <= self.now.wall);
        let of_new = created.map(|created| {
            let until = created.saturating_add(SEEN_WITHIN);
            self.now.at_wall(until.unwrap_or(Timestamp::MAX))
        });
        let member = self.member(name);
        let changed = member.and_then(|member| member.load_balancer_since(self.key));
        let of_changed = changed.map(|since| since.after(SEEN_WITHIN));
        of_new.into_iter().chain(of_changed).max()
    }

    /// Returns the number of entry clusters, and of those whose addresses are in the status; `None`
    /// without any.
    pub(super) fn entry_clusters(&self) -> Option<(usize, usize)> {
        let entries = self.desired.entry_clusters.as_ref()?;
        let stored = self.mcs.balancers();
        let used = entries.addresses(&stored);
        let used = used.filter(|(_, addresses)| !addresses.is_empty());
        Some((entries.iter().count(), used.count()))
    }

    /// Returns the remark on entry clusters whose addresses are not in the status.
    pub(super) fn entry_clusters_remark(&self) -> Option<String> {
        let entries = self.desired.entry_clusters.as_ref()?;
        let is_problem = |(_, entry): &(_, &EntryCluster)| {
            !matches!(entry.state, EntryState::Serves | EntryState::Unknown)
        };
        let mut problems = entries.iter().filter(is_problem).peekable();
        problems.peek()?;
        Some(entry_clusters::sentences(self.key, problems))
    }
}
