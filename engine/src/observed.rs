//! Observed state of the hub and of every member, by service key.
//!
//! The index applies events; it calls no server and reads no clock. It marks the items that may
//! have to be planned again, and [`Index::take_marked`] takes them. The index decides what counts
//! as evidence. A member's slices are known once a complete list of the most recent state was
//! observed on a connection to the same cluster. Observed objects are retained while a member is
//! unreachable.

pub(crate) mod clusterset;
mod dirty_keys;
pub(crate) mod finalizers;
mod holders;
mod hostnames;
pub(crate) mod hub;
pub mod member;
mod misplaced;
mod others;
mod queries;
pub mod quota;
mod recorded_sources;
pub(crate) mod selector;
pub(crate) mod service;
pub(crate) mod since;
mod tally;
pub(crate) mod tiers;
pub(crate) mod unreached;
pub(crate) mod unready;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use causeway::domain::{ClusterName, ServiceKey};

use self::dirty_keys::DirtyKeys;
use self::holders::Holders;
use self::hostnames::Hostnames;
pub use self::hub::DeclaredReach;
use self::hub::{ClusterView, Hub};
use self::member::{Changed, DerivedRefusal, Member};
use self::since::Since;
use self::tiers::{TierCount, TierNotes, TiersOfService};
use self::unreached::{UnreachedCount, UnreachedNotes, UnreachedOfService};
use self::unready::{ReasonCount, UnreadyNotes, not_ready};
use crate::evidence::initial_list::CompleteList;
use crate::model::map::{HashMap, HashSet};
use crate::model::{
    Ack, Configuration, Failure, FailureKind, Generation, HubEvent, Item, LeftOut, MemberEvent,
    MemberState, Operation, Priority, Signal, TargetCluster, TimePoint, Write,
};
use crate::problem::Gap;

/// Observed state of the hub and of all members.
#[derive(Debug)]
pub struct Index {
    hub: Hub,
    /// Engaged members.
    members: BTreeMap<ClusterName, Member>,
    holders: Holders,
    hostnames: Hostnames,
    /// Objects that consumers lack of services that Karmada manages.
    gaps: Since<Gap>,
    /// Slices that disagree with those of Kubernetes on readiness.
    disagreements: Since<(ClusterName, Arc<str>)>,
    /// Nodes by which services are entered.
    entry_nodes: Since<(ClusterName, Box<str>)>,
    /// Active tiers of services, by consumer.
    tiers: TierNotes,
    unready: UnreadyNotes,
    unreached: UnreachedNotes,
    dirty: DirtyKeys,
    second_lists: HashSet<TargetCluster>,
    /// Whether it may have changed which members' Nodes are needed.
    node_needs_changed: bool,
}

/// Write that an API server rejected.
#[derive(Clone, Copy, Debug)]
pub struct RejectedWrite<'a> {
    /// Item whose plan requests the write.
    pub item: &'a Item,
    /// Write.
    pub write: &'a Write,
    /// Reason of the rejection.
    pub failure: &'a Failure,
}

impl Index {
    /// Returns an empty index of the hub with that identity: the UID of its kube-system namespace.
    pub fn new(hub_uid: &str) -> Self {
        Self {
            hub: Hub::new(hub_uid),
            members: BTreeMap::new(),
            holders: Holders::default(),
            hostnames: Hostnames::default(),
            gaps: Since::default(),
            disagreements: Since::default(),
            entry_nodes: Since::default(),
            tiers: TierNotes::default(),
            unready: UnreadyNotes::default(),
            unreached: UnreachedNotes::default(),
            dirty: DirtyKeys::default(),
            second_lists: HashSet::default(),
            node_needs_changed: false,
        }
    }

    /// Applies the result of a lookup on the hub that found no MultiClusterService of that key, so
    /// its leftovers may be deleted.
    pub fn apply_confirmed_absence(&mut self, key: ServiceKey) {
        self.hub.evidence.confirmed_absent.insert(key.clone());
        self.mark(Item::Service(key));
    }

    /// Notes the active tiers of a service, by consumer. Returns the counts that changed.
    pub fn note_tiers(&mut self, key: &ServiceKey, tiers: TiersOfService) -> Vec<TierCount> {
        self.tiers.note(key, tiers)
    }

    /// Drops the noted tiers: a process that no longer writes reports none. Returns the counts that
    /// changed.
    pub fn drop_tiers(&mut self) -> Vec<TierCount> {
        self.tiers.clear()
    }

    /// Notes whether a MultiClusterService is Ready. Returns the counts that changed.
    pub fn note_readiness(&mut self, key: &ServiceKey) -> Vec<ReasonCount> {
        let mcs = self.hub.multi_cluster_services.get(key);
        self.unready.note(key, mcs.and_then(not_ready))
    }

    /// Drops the noted reasons why MultiClusterServices are not Ready: a process that no longer
    /// writes reports none. Returns the counts that changed.
    pub fn drop_unready(&mut self) -> Vec<ReasonCount> {
        self.unready.clear()
    }

    /// Notes the providers of a service that consumers of other networks do not reach. Returns the
    /// counts that changed.
    pub fn note_unreached(
        &mut self,
        key: &ServiceKey,
        unreached: UnreachedOfService,
    ) -> Vec<UnreachedCount> {
        self.unreached.note(key, unreached)
    }

    /// Drops the noted providers that consumers of other networks do not reach: a process that no
    /// longer writes reports none. Returns the counts that changed.
    pub fn drop_unreached(&mut self) -> Vec<UnreachedCount> {
        self.unreached.clear()
    }

    /// Drops the confirmed absence of a MultiClusterService: no leftover of the service remains.
    pub fn drop_confirmed_absence(&mut self, key: &ServiceKey) {
        self.hub.evidence.confirmed_absent.remove(key);
    }

    /// Takes the items that were marked since the last call. They may have to be planned again,
    /// each at its priority.
    pub fn take_marked(&mut self) -> HashMap<Item, Priority> {
        let DirtyKeys {
            items,
            every_service,
            members,
        } = std::mem::take(&mut self.dirty);
        self.dirty.items = items;
        if every_service {
            self.mark_services(self.every_service(), Priority::Low);
        }
        if let Some(priority) = members.values().copied().max() {
            self.mark_services(self.services_of_every_member(), priority);
        }
        for (name, priority) in members {
            self.mark_services(self.services_of(&name), priority);
        }
        std::mem::take(&mut self.dirty.items)
    }

    /// Returns whether the Nodes of each member are needed; nothing if that has not changed since
    /// the last call. Drops Nodes that are no longer needed.
    pub fn take_node_needs(&mut self) -> Vec<(ClusterName, bool)> {
        if !std::mem::take(&mut self.node_needs_changed) {
            return Vec::new();
        }
        let needs = |name: &ClusterName| (name.clone(), self.needs_nodes(name));
        let all: Vec<_> = self.members.keys().map(needs).collect();
        for (name, _) in all.iter().filter(|(_, needs)| !needs) {
            let member = self.members.get_mut(name);
            if member.is_some_and(Member::drop_nodes) {
                // Its status reports the failure of the watch.
                self.mark(Item::Cluster(name.clone()));
            }
        }
        all
    }

    /// Marks an item to be planned, at high priority.
    pub fn mark(&mut self, item: Item) {
        self.dirty.add([item], Priority::High);
    }

    fn mark_services(&mut self, keys: impl IntoIterator<Item = ServiceKey>, priority: Priority) {
        self.dirty
            .add(keys.into_iter().map(Item::Service), priority);
    }

    /// Marks every service that has a MultiClusterService, an export or an import, or leftovers of
    /// one.
    pub fn mark_all_services(&mut self) {
        self.dirty.every_service = true;
    }

    fn every_service(&self) -> HashSet<ServiceKey> {
        let hub = &self.hub.uid;
        let members = self.members.values();
        let owned = members.clone().flat_map(|member| member.own_keys(hub));
        let clusterset = members.flat_map(|member| member.clusterset_keys().cloned());
        let exposed = self.hub.multi_cluster_services.keys().cloned();
        exposed.chain(owned).chain(clusterset).collect()
    }

    /// Returns the services that a member takes part in or holds an object of.
    fn services_of(&self, name: &ClusterName) -> HashSet<ServiceKey> {
        let exposed = self.hub.selecting(name).cloned();
        let held = self.members.get(name).into_iter();
        let held = held.flat_map(|member| member.own_keys(&self.hub.uid));
        exposed.chain(held).collect()
    }

    /// Returns the services that depend on the state of any member: all of the clusterset, as every
    /// member counts for their imports, and those that wait until all members are synced.
    fn services_of_every_member(&self) -> HashSet<ServiceKey> {
        let hub = &self.hub.uid;
        let members = self.members.values();
        let clusterset = members.clone();
        let clusterset = clusterset.flat_map(|member| member.clusterset_keys().cloned());
        let all_known =
            |(name, _): (&ClusterName, &Member)| self.member_state(name) == MemberState::Synced;
        let waiting = self.members.iter().all(all_known);
        let waiting = waiting.then(|| members.flat_map(|member| member.own_clusterset_keys(hub)));
        clusterset.chain(waiting.into_iter().flatten()).collect()
    }

    /// Marks every member.
    pub fn mark_all_clusters(&mut self) {
        let names: Vec<_> = self.hub.clusters.keys().cloned().collect();
        self.dirty
            .add(names.into_iter().map(Item::Cluster), Priority::High);
    }

    /// Applies an event of the hub.
    pub fn apply_hub(&mut self, event: HubEvent, now: TimePoint) {
        let list = CompleteList::of_hub(&event);
        let was_listed = self.hub.is_listed();
        let change = self.hub.apply(event, now);
        self.node_needs_changed |= change.node_needs;
        if !was_listed && self.hub.is_listed() {
            self.mark_all_services();
            self.mark_all_clusters();
        }
        if let Some(list) = list {
            self.compare_hub(list);
        }
        let clusters = change.clusters.into_iter().map(Item::Cluster);
        self.dirty.add(clusters, Priority::High);
        if change.placement {
            self.mark_services(change.services, Priority::Low);
            self.mark_all_services();
        } else {
            self.mark_services(change.services, Priority::High);
        }
    }

    /// Applies an event of a member.
    pub fn apply_member(&mut self, name: &ClusterName, event: MemberEvent, now: TimePoint) {
        let list = CompleteList::of_member(&event);
        if matches!(event, MemberEvent::Identified(_)) {
            self.expect_initial_lists(name);
        }
        if let MemberEvent::Served(served) = &event {
            self.expect_clusterset_lists(name, served);
        }
        // Their watch is about to end.
        if matches!(event, MemberEvent::Nodes(_)) && !self.needs_nodes(name) {
            return;
        }
        let Some(member) = self.members.get_mut(name) else {
            return;
        };
        let stood = (member.member_state(), member.membership());
        let remarks = |member: &Member| {
            let suspended = member.suspended_deletions().count;
            (suspended, member.lasting_nodes_failure().cloned())
        };
        let (identity, before) = (member.identity.clone(), remarks(member));
        let by_node_ports = member.exports_by_node_ports();
        let of_exports = matches!(event, MemberEvent::Exports(_));
        let is_list = matches!(
            event,
            MemberEvent::Slices(Signal::Listed(_))
                | MemberEvent::Services(Signal::Listed(_))
                | MemberEvent::Namespaces(Signal::Listed(_))
        );
        let changed = member.apply(event, now);
        let stands = (member.member_state(), member.membership());
        let is_new = member.identity != identity;
        self.node_needs_changed |= member.exports_by_node_ports() != by_node_ports;
        if let Some(list) = list {
            self.compare_member(name, list, now);
        }
        if is_new {
            self.find_duplicates();
        }
        if self.members.get(name).map(remarks) != Some(before) {
            self.mark(Item::Cluster(name.clone()));
        }
        if is_new || stands != stood {
            self.mark(Item::Cluster(name.clone()));
            let priority = match stands.0 == MemberState::Synced {
                true => Priority::Settling,
                false => Priority::Low,
            };
            self.dirty.add_services_of(name, priority);
        }
        if changed.nodes {
            self.dirty.add_services_of(name, Priority::High);
        }
        let priority = match is_list {
            true if stood.0 != MemberState::Synced => Priority::Settling,
            true => Priority::Low,
            false => Priority::High,
        };
        self.mark_changed(name, changed, of_exports, priority);
        if self.hub.is_being_removed(name) {
            self.mark(Item::Cluster(name.clone()));
        }
    }

    /// Marks the services that a change in a member affects.
    fn mark_changed(
        &mut self,
        name: &ClusterName,
        changed: Changed,
        of_exports: bool,
        priority: Priority,
    ) {
        let Changed {
            mut keys,
            mut copied,
            namespaces,
            nodes: _,
        } = changed;
        keys.extend(self.cut_short(&keys));
        self.note_holder(name, keys.iter().chain(&copied));
        keys.retain(|key| of_exports || self.concerns(name, key));
        if !namespaces.is_empty() {
            let exported = self.members.values().flat_map(Member::clusterset_keys);
            let wanted = self.services_of(name).into_iter();
            let wanted = wanted.chain(exported.cloned());
            keys.extend(wanted.filter(|key| namespaces.contains(&*key.namespace)));
        }
        self.mark_services(keys, priority);
        copied.retain(|key| self.concerns(name, key));
        self.mark_services(copied, Priority::Debounced);
    }

    /// Whether a change in that member may change the desired state of a service.
    fn concerns(&self, name: &ClusterName, key: &ServiceKey) -> bool {
        self.hub.exposes(key)
            || self.is_exported(key)
            || self.members.get(name).is_some_and(|member| {
                member.import(key).is_some()
                    || member.written_export(key).is_some()
                    || member.owns_any(key, &self.hub.uid)
            })
    }

    /// Returns the services of the clusterset whose derived Services have these keys, where the
    /// name is cut because it is too long: a cut name does not contain that of the service.
    fn cut_short(&self, keys: &HashSet<ServiceKey>) -> Vec<ServiceKey> {
        let cut: HashSet<_> = keys.iter().filter(|key| key.is_cut()).collect();
        if cut.is_empty() {
            return Vec::new();
        }
        let all = self.members.values().flat_map(Member::clusterset_keys);
        let theirs = all.filter(|key| cut.contains(&key.derived()));
        theirs.cloned().collect()
    }

    /// Notes for each of these services whether the member holds an object of it.
    fn note_holder<'a>(
        &mut self,
        name: &ClusterName,
        keys: impl IntoIterator<Item = &'a ServiceKey>,
    ) {
        let Some(member) = self.members.get(name) else {
            return;
        };
        for key in keys {
            self.holders.note(key, name, member.holds_any(key));
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

    /// Applies the answer to a write before the watch shows the same.
    pub fn apply_ack(&mut self, cluster: &TargetCluster, ack: Ack, now: TimePoint) {
        match cluster {
            TargetCluster::Hub => self.hub.apply_ack(ack, now),
            TargetCluster::Member(name) => {
                if let Some(member) = self.members.get_mut(name) {
                    let held = member.apply_ack(ack, now);
                    self.note_holder(name, &held);
                }
            }
        }
    }

    /// Records a rejected write. `attempts` is set once the rejection counts as persistent.
    ///
    /// If the object exists already and no watch has shown it, a second list of the member is
    /// requested. Another one is requested after twice as many rejections, so a list that does not
    /// help is repeated ever more rarely. A persistent rejection of a derived Service is recorded,
    /// so that the same is not requested again.
    pub fn note_refusal(
        &mut self,
        name: &ClusterName,
        rejected: RejectedWrite<'_>,
        attempts: Option<u32>,
    ) {
        let Some(attempts) = attempts else { return };
        let RejectedWrite {
            item,
            write,
            failure,
        } = rejected;
        if failure.kind == FailureKind::AlreadyExists && attempts.is_power_of_two() {
            self.second_lists
                .insert(TargetCluster::Member(name.clone()));
        }
        let (Item::Service(key), Operation::CreateService(of, service)) = (item, write.operation())
        else {
            return;
        };
        if *of != key.derived() {
            return;
        }
        let refusal = DerivedRefusal::read(failure, service);
        if let (Some(member), Some(refusal)) = (self.members.get_mut(name), refusal) {
            member.note_derived_refusal(key.clone(), refusal);
            self.mark(item.clone());
        }
    }

    /// Stores whether the Cluster and the Secret of a member are valid. Returns true if that
    /// changed.
    pub fn note_configuration(&mut self, name: &ClusterName, configuration: Configuration) -> bool {
        let member = self.members.entry(name.clone());
        let member = member.or_insert_with(|| Member::new(0));
        if member.configuration == configuration {
            return false;
        }
        match &configuration {
            Configuration::Valid => tracing::info!(cluster = %name, "cluster configuration valid"),
            Configuration::Outdated(error) => {
                tracing::warn!(cluster = %name, %error, "cluster configuration invalid, last connection kept");
            }
            Configuration::Refused(error) => {
                tracing::warn!(cluster = %name, %error, "cluster configuration invalid");
            }
        }
        member.configuration = configuration;
        self.mark(Item::Cluster(name.clone()));
        self.mark_all_services();
        true
    }

    /// Marks all that depends on the engagement of a member: it was engaged, perhaps as another
    /// cluster than before, or was disengaged.
    pub(crate) fn note_engagement(&mut self, name: &ClusterName) {
        self.find_duplicates();
        self.mark(Item::Cluster(name.clone()));
        self.mark_all_services();
    }

    /// Engages a member, or engages it again. `recorded_uid` is the UID of its kube-system
    /// namespace, as its Cluster records it. A member that was joined again under the same name is
    /// a new member: its observed state is dropped.
    pub fn engage(
        &mut self,
        name: &ClusterName,
        generation: Generation,
        recorded_uid: Option<String>,
    ) {
        let cluster = self.hub.clusters.get(name);
        let cluster_uid = cluster.map(|cluster| cluster.uid.clone());
        let recorded_outage = cluster.and_then(ClusterView::recorded_outage);
        let member = self
            .members
            .entry(name.clone())
            .or_insert_with(|| Member::new(generation));
        if member.cluster_uid != cluster_uid {
            *member = Member::new(generation);
            self.holders.drop_member(name);
            member.recorded_outage = recorded_outage;
        }
        member.engage_again(generation);
        member.cluster_uid = cluster_uid;
        member.recorded_uid = recorded_uid;
        self.node_needs_changed = true;
        self.expect_initial_lists(name);
        self.note_engagement(name);
    }

    /// Engages a member that was read once, without a connection.
    pub(crate) fn engage_listed(
        &mut self,
        name: &ClusterName,
        recorded_uid: Option<String>,
        ttl_expired: bool,
    ) {
        let mut member = Member::new(1);
        member.recorded_uid = recorded_uid;
        member.ttl_expired = ttl_expired;
        self.members.insert(name.clone(), member);
        self.note_engagement(name);
    }

    /// Removes a member that is no longer engaged, whatever it holds.
    pub fn stop_watching(&mut self, name: &ClusterName) {
        self.remove_member(name);
        self.note_engagement(name);
    }

    /// Removes a member and its Cluster for good: its endpoints are no longer provided.
    pub fn remove_cluster(&mut self, name: &ClusterName) {
        self.hub.clusters.remove(name);
        self.remove_member(name);
        self.find_duplicates();
        self.mark_all_services();
        self.mark_all_clusters();
    }

    fn remove_member(&mut self, name: &ClusterName) {
        self.members.remove(name);
        self.holders.drop_member(name);
    }

    /// Finds members that are the same cluster. The one that was joined first counts, and the
    /// others are refused.
    pub(crate) fn find_duplicates(&mut self) {
        let mut by_age: Vec<_> = self.members.keys().cloned().collect();
        by_age.sort_by_key(|name| {
            (
                self.hub
                    .clusters
                    .get(name)
                    .and_then(|cluster| cluster.created),
                name.clone(),
            )
        });
        let mut elders: HashMap<String, ClusterName> = HashMap::default();
        let mut changed = false;
        for name in by_age {
            let Some(member) = self.members.get_mut(&name) else {
                continue;
            };
            // One that has not answered is the cluster that its Cluster records.
            let cluster = self.hub.clusters.get(&name);
            let recorded = cluster.and_then(|cluster| cluster.id.as_deref());
            let uid = match &member.identity {
                Some(identity) => identity.uid.clone(),
                None => match recorded {
                    Some(uid) => uid.to_owned(),
                    None => continue,
                },
            };
            let elder = elders.entry(uid).or_insert_with(|| name.clone());
            let duplicate_of = (*elder != name).then(|| elder.clone());
            if member.refusals.duplicate_of != duplicate_of {
                member.refusals.duplicate_of = duplicate_of;
                self.mark(Item::Cluster(name));
                changed = true;
            }
        }
        if changed {
            self.mark_all_services();
        }
    }

    /// Whether the endpoints of a member are withdrawn because it has been unreachable for too
    /// long. Its exports still count, so no import loses its addresses.
    pub(crate) fn has_ttl_expired(&self, name: &ClusterName) -> bool {
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
        let end = ttl.and_then(|ttl| self.member_state(name).unreachable_for(ttl));
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
