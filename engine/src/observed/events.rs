//! Application of events, and of the answers to writes.

use std::sync::Arc;
use std::time::Duration;

use causeway::domain::{ClusterName, ServiceKey};

use super::Index;
use super::hub::Change;
use super::member::{Changed, DerivedRefusal, Member, Membership, OtherController};
use super::since::Since;
use crate::evidence::initial_list::CompleteList;
use crate::model::map::HashSet;
use crate::model::{
    Ack, Failure, FailureKind, HubEvent, Item, MemberEvent, MemberState, ObjectId, Operation,
    Priority, Signal, TargetCluster, Term, TimePoint, Write,
};

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

/// State of a member that its services depend on.
#[derive(PartialEq)]
struct Standing {
    state: MemberState,
    membership: Membership,
    /// Namespace that is left to another controller; `Some(None)` if all are.
    left: Option<Option<Arc<str>>>,
    slices_are_current: bool,
    is_compared: bool,
}

impl Standing {
    fn of(member: &Member) -> Self {
        let other = member.other_controller();
        Self {
            state: member.member_state(),
            membership: member.membership(),
            left: other.map(|other| (!other.is_everywhere).then_some(other.object.namespace)),
            slices_are_current: member.slices_are_current(),
            is_compared: member.is_compared(),
        }
    }
}

/// State of a member that the status of its Cluster reports.
#[derive(PartialEq)]
struct Remarks {
    suspended_deletions: usize,
    nodes_failure: Option<Failure>,
    paths_failure: Option<Failure>,
    other_controller: Option<OtherController>,
}

impl Remarks {
    fn of(member: &Member) -> Self {
        Self {
            suspended_deletions: member.suspended_deletions().count,
            nodes_failure: member.lasting_nodes_failure().cloned(),
            paths_failure: member.lasting_paths_failure().cloned(),
            other_controller: member.other_controller(),
        }
    }
}

impl Index {
    /// Applies an event of the hub.
    pub fn apply_hub(&mut self, event: HubEvent, now: TimePoint) {
        let list = CompleteList::of_hub(&event);
        let (was_listed, was_current) = (self.hub.is_listed(), self.is_hub_current());
        let may_lack_profiles = match &event {
            HubEvent::Profiles(_, Signal::Listed(_)) => true,
            HubEvent::Clusters(Signal::Listed(_)) => !was_listed,
            _ => false,
        };
        let change = self.hub.apply(event, now);
        if !was_listed && self.hub.is_listed() {
            self.mark_all_services();
            self.mark_all_clusters();
        }
        if !was_current && self.is_hub_current() {
            self.hub.evidence.current_since = Some(now);
            let withheld = std::mem::take(&mut self.withheld);
            self.mark_services(withheld, Priority::High);
            self.mark_all_clusters();
        }
        if let Some(list) = list {
            self.compare_hub(list);
        }
        if may_lack_profiles && self.hub.suspect_profiles_gone() {
            self.second_lists.insert(TargetCluster::Hub);
        }
        self.note_hub_change(change);
    }

    /// Begins a term: nothing is deleted before the watches of the hub report that their lists are
    /// [`Signal::Current`] in it. Another leader may have had answers of hostnames that this
    /// process lacks, so each is awaited again.
    pub fn begin_term(&mut self, term: Term) {
        self.hub.evidence.term = term;
        self.hub.evidence.current_since = None;
        self.hostnames.unanswered = Since::default();
        self.withheld.clear();
    }

    /// Notes that deletions of objects of a service are withheld until the hub is listed in this
    /// term. The service is reconciled then.
    pub fn note_withheld(&mut self, key: &ServiceKey) {
        self.withheld.insert(key.clone());
    }

    /// Marks everything that changes of the hub affect.
    fn note_hub_change(&mut self, change: Change) {
        self.node_needs_changed |= change.node_needs;
        if change.slice_scopes {
            self.slice_scopes.mark_all();
        }
        for name in &change.clusters {
            self.note_export_namespaces(name);
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
        self.expect_lists(name, &event);
        self.slice_scopes.note(name, &event);
        if self.is_unneeded(name, &event) {
            return;
        }
        let Some(member) = self.members.get_mut(name) else {
            return;
        };
        let (stood, before) = (Standing::of(member), Remarks::of(member));
        let identity = member.identity.clone();
        let by_node_ports = member.exports_by_node_ports();
        let scope = member.slice_scope().clone();
        let of_exports = matches!(event, MemberEvent::Exports(_));
        let of_id = matches!(event, MemberEvent::ClusterId(_));
        let is_list = lists_natives(&event);
        let changed = member.apply(event, now);
        let stands = Standing::of(member);
        let (is_new, is_rescoped) = (member.identity != identity, *member.slice_scope() != scope);
        self.node_needs_changed |= member.exports_by_node_ports() != by_node_ports;
        self.exports_changed |= member.has_changed_exports();
        if let Some(list) = list {
            self.compare_member(name, list, now);
        }
        if is_rescoped {
            self.note_slice_scope(name, &scope);
        }
        if is_new {
            self.find_duplicates();
        }
        if self.members.get(name).map(Remarks::of) != Some(before) {
            self.mark(Item::Cluster(name.clone()));
        }
        if of_id {
            self.note_reported_id(name);
        }
        if is_new || stands != stood {
            self.mark_state(name, &stands.state);
        }
        let priority = match is_list {
            true if stood.state != MemberState::Synced => Priority::Settling,
            true => Priority::Low,
            false => Priority::High,
        };
        self.mark_changed(name, changed, of_exports, priority);
        if self.is_being_removed(name) {
            self.mark(Item::Cluster(name.clone()));
        }
    }

    /// Marks the next lists of a member as initial ones where an event begins other watches.
    fn expect_lists(&mut self, name: &ClusterName, event: &MemberEvent) {
        match event {
            MemberEvent::Identified(_) => self.expect_initial_lists(name),
            MemberEvent::Served(served) => self.expect_clusterset_lists(name, served),
            MemberEvent::SliceScope(scope) => self.expect_slices(name, scope),
            _ => {}
        }
    }

    /// Whether an event is of a watch that is not needed and about to end.
    fn is_unneeded(&self, name: &ClusterName, event: &MemberEvent) -> bool {
        match event {
            MemberEvent::Nodes(_) => !self.needs_nodes(name),
            MemberEvent::Paths(_) => !self.reports_paths(name),
            _ => false,
        }
    }

    /// Marks a member whose state changed, and its services.
    fn mark_state(&mut self, name: &ClusterName, state: &MemberState) {
        self.mark(Item::Cluster(name.clone()));
        let priority = match *state == MemberState::Synced {
            true => Priority::Settling,
            false => Priority::Low,
        };
        self.dirty.add_services_of(name, priority);
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
            nodes,
            paths,
            second_list,
        } = changed;
        if nodes || !paths.is_empty() {
            self.dirty.add_services_of(name, Priority::High);
        }
        // A good path keeps an unreachable provider in use in services without the reporter too.
        for source in paths {
            if self.unreachable_for(&source, Duration::ZERO).is_some() {
                self.dirty.add_services_of(&source, Priority::High);
            }
        }
        if second_list {
            let member = TargetCluster::Member(name.clone());
            self.second_lists.insert(member);
        }
        let cut = self.cut_short(&keys);
        self.note_holder(name, keys.iter().chain(&copied).chain(&cut));
        if of_exports {
            self.note_deleted_exports(name, &keys);
        }
        self.drop_deleted_exports(keys.iter().chain(&copied));
        keys.extend(cut);
        keys.retain(|key| of_exports || self.concerns(name, key));
        if !namespaces.is_empty() {
            let exported = self.members.values().flat_map(Member::clusterset_keys);
            let wanted = self.services_of(name).into_iter();
            let member = self.members.get(name).into_iter();
            let own = member.flat_map(|member| member.services_in(&namespaces));
            let wanted = wanted.chain(exported.cloned()).chain(own);
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
                    || member.exported_namespace(&key.namespace).is_some()
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

    /// Applies the answer to a write before the watch shows the same.
    pub fn apply_ack(&mut self, cluster: &TargetCluster, ack: Ack, now: TimePoint) {
        match cluster {
            TargetCluster::Hub => {
                let change = self.hub.apply_ack(ack, now);
                // The watch shows the same object, and then nothing that plans depend on changes.
                if change.placement {
                    self.note_hub_change(change);
                }
            }
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
        let (Item::Service(key), Operation::Create(service)) = (item, write.operation()) else {
            return;
        };
        if *write.object() != ObjectId::Service(key.derived()) {
            return;
        }
        let refusal = DerivedRefusal::read(failure, service);
        if let (Some(member), Some(refusal)) = (self.members.get_mut(name), refusal) {
            member.note_derived_refusal(key.clone(), refusal);
            self.mark(item.clone());
        }
    }

    /// Applies the result of a lookup on the hub that found no MultiClusterService of that key, so
    /// its leftovers may be deleted.
    pub fn apply_confirmed_absence(&mut self, key: ServiceKey) {
        self.hub.evidence.confirmed_absent.insert(key.clone());
        self.mark(Item::Service(key));
    }

    /// Drops the confirmed absence of a MultiClusterService: no leftover of the service remains.
    pub fn drop_confirmed_absence(&mut self, key: &ServiceKey) {
        self.hub.evidence.confirmed_absent.remove(key);
    }

    /// Drops all confirmed absences: each is looked up again before anything is deleted. For a
    /// process that begins to lead, because it may have lost the hub meanwhile.
    pub fn drop_confirmed_absences(&mut self) {
        self.hub.evidence.confirmed_absent.clear();
    }
}

/// Whether the event is a list of a kind that each service depends on.
fn lists_natives(event: &MemberEvent) -> bool {
    matches!(
        event,
        MemberEvent::Slices(Signal::Listed(_))
            | MemberEvent::OtherSlices(Signal::Listed(_))
            | MemberEvent::Services(Signal::Listed(_))
            | MemberEvent::Namespaces(Signal::Listed(_))
    )
}
