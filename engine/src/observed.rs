//! Observed state of the hub and of every member, by service key.
//!
//! The index applies events; it calls no server and reads no clock. It marks the items that may
//! have to be planned again, and [`Index::take_marked`] takes them. The index decides what counts
//! as evidence. A member's slices are known once a complete list of the most recent state was
//! observed on a connection to the same cluster. Observed objects are retained while a member is
//! unreachable.

mod cluster_ids;
pub(crate) mod clusterset;
mod counts;
mod deleted_exports;
mod dirty_keys;
mod engagement;
mod events;
pub(crate) mod finalizers;
mod holders;
mod hostnames;
pub(crate) mod hub;
mod ingress;
mod marks;
pub mod member;
mod misplaced;
mod others;
mod queries;
pub mod quota;
mod reach;
mod recorded_sources;
pub(crate) mod selector;
pub(crate) mod service;
pub(crate) mod since;
mod slice_scopes;
mod unready;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use causeway::domain::{ClusterName, ServiceKey};

use self::counts::Counts;
pub use self::counts::{CountChanges, Counted, ShareResult};
use self::deleted_exports::DeletedExports;
use self::dirty_keys::DirtyKeys;
pub use self::events::RejectedWrite;
use self::holders::Holders;
use self::hostnames::Hostnames;
use self::hub::Hub;
use self::member::Member;
pub use self::reach::DeclaredReach;
use self::since::{PossibleChange, Since};
use self::slice_scopes::SliceScopes;
use crate::model::map::HashSet;
use crate::model::{LeftOut, MemberState, TargetCluster, TimePoint};
use crate::problem::Gap;

/// Observed state of the hub and of all members.
#[derive(Debug, Default)]
pub struct Index {
    hub: Hub,
    /// Engaged members.
    members: BTreeMap<ClusterName, Member>,
    holders: Holders,
    deleted_exports: DeletedExports,
    hostnames: Hostnames,
    /// Objects that consumers lack of services that Karmada manages.
    pub(crate) gaps: Since<Gap>,
    /// Slices that disagree with those of Kubernetes on readiness.
    pub(crate) disagreements: Since<(ClusterName, Arc<str>)>,
    /// Nodes by which services are entered.
    pub(crate) entry_nodes: Since<(ClusterName, Box<str>)>,
    /// Changes in consumers that are made only after a while.
    pub(crate) possible_changes: Since<PossibleChange>,
    counts: Counts,
    dirty: DirtyKeys,
    second_lists: HashSet<TargetCluster>,
    /// Services of which no object is deleted before the hub is listed in this term.
    withheld: HashSet<ServiceKey>,
    /// Whether it may have changed which members' Nodes are needed.
    node_needs_changed: bool,
    /// Whether exports of a member changed since the quota was applied.
    exports_changed: bool,
    slice_scopes: SliceScopes,
}

impl Index {
    /// Returns an empty index of the hub with that identity: the UID of its kube-system namespace.
    pub fn new(hub_uid: &str) -> Self {
        Self {
            hub: Hub::new(hub_uid),
            ..Self::default()
        }
    }

    /// Returns the members that hold an object of the service that is or was causeway's, or belongs
    /// to the clusterset.
    pub(crate) fn holders(
        &self,
        key: &ServiceKey,
    ) -> impl Iterator<Item = (&ClusterName, &Member)> + Clone {
        debug_assert!(
            self.members
                .iter()
                .all(|(name, member)| !member.holds_any(key)
                    || self.holders.of(key).contains(name)),
            "a member holds something of {key} and is not among its holders"
        );
        let names = self.holders.of(key).iter();
        names.filter_map(|name| self.members.get_key_value(name))
    }

    /// Whether any member exports the service.
    pub fn is_exported(&self, key: &ServiceKey) -> bool {
        let mut holders = self.holders(key);
        holders.any(|(_, member)| member.export(key).is_some())
    }

    /// Whether the endpoints of a member are withdrawn because it has been unreachable for too
    /// long. Its exports still count, so no import loses its addresses.
    pub fn has_ttl_expired(&self, name: &ClusterName) -> bool {
        self.members
            .get(name)
            .is_some_and(|member| member.ttl_expired)
    }

    /// Notes whether a member has been unreachable for longer than `ttl`. Returns the time at which
    /// that has to be checked again, if it is unreachable and within `ttl`.
    pub fn note_ttl(
        &mut self,
        name: &ClusterName,
        ttl: Option<Duration>,
        now: TimePoint,
    ) -> Option<TimePoint> {
        let end = ttl.and_then(|ttl| self.unreachable_for(name, ttl));
        let ttl_expired = end.is_some_and(|end| end <= now);
        let member = self.members.get_mut(name)?;
        if member.ttl_expired != ttl_expired {
            member.ttl_expired = ttl_expired;
            match ttl_expired {
                true => {
                    tracing::warn!(cluster = %name, "provider TTL expired, endpoints withdrawn")
                }
                false => tracing::info!(cluster = %name, "provider endpoints restored"),
            }
            self.mark_all_services();
        }
        end.filter(|end| *end > now)
    }

    /// Returns when a cluster that takes part has been unreachable for `patience`; `None` if it is
    /// not unreachable.
    pub(crate) fn unreachable_for(
        &self,
        name: &ClusterName,
        patience: Duration,
    ) -> Option<TimePoint> {
        match self.member_state(name) {
            MemberState::NotJoined | MemberState::LeftOut(_) => None,
            _ => self.members.get(name)?.unreachable_for(patience),
        }
    }

    /// Returns the state of the cluster of that name.
    pub fn member_state(&self, name: &ClusterName) -> MemberState {
        let Some(cluster) = self.hub.clusters.get(name) else {
            return MemberState::NotJoined;
        };
        match self.members.get(name) {
            Some(member) => member
                .too_old()
                .map_or_else(|| member.member_state(), MemberState::LeftOut),
            None if !cluster.takes_part => MemberState::LeftOut(LeftOut::PullWithoutCredentials),
            None => MemberState::Syncing,
        }
    }

    /// Returns what statuses report of the cluster of that name, and the time at which it changes
    /// without an event.
    pub(crate) fn reported_state(
        &self,
        name: &ClusterName,
        now: TimePoint,
    ) -> (MemberState, Option<TimePoint>) {
        let state = self.member_state(name);
        match (&state, self.members.get(name)) {
            (MemberState::NotJoined | MemberState::LeftOut(_), _) | (_, None) => (state, None),
            (_, Some(member)) => member.reported_state(now),
        }
    }

    /// Whether any member holds an object on behalf of a MultiClusterService of that key.
    pub fn owns_native(&self, key: &ServiceKey) -> bool {
        self.native_holders(key).next().is_some()
    }

    /// Returns the members that hold an object on behalf of a MultiClusterService of that key.
    pub fn native_holders(&self, key: &ServiceKey) -> impl Iterator<Item = &ClusterName> {
        let holders = self.holders(key);
        holders
            .filter(move |(_, member)| member.owns_native(key, &self.hub.uid))
            .map(|(name, _)| name)
    }
}

#[cfg(test)]
mod tests;
