//! Observed state of one member.

mod by_name;
mod clusterset;
mod namespaces;
mod nodes;
mod objects;
mod outage;
mod owned;
mod recorded_sources;
mod slices;
mod written;

use std::sync::Arc;

use causeway::api::multicluster::Version;
use causeway::domain::{ClusterName, KubernetesVersion, ServiceKey};
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::jiff::Timestamp;

use self::by_name::ByName;
use self::clusterset::Clusterset;
pub(crate) use self::clusterset::{DerivedRefusal, Membership};
pub(crate) use self::namespaces::NamespaceState;
use self::namespaces::Namespaces;
pub(crate) use self::nodes::Nodes;
pub use self::objects::Objects;
pub(crate) use self::objects::View;
use self::outage::Outage;
pub(crate) use self::slices::InTheWay;
use self::slices::Slices;
pub use self::written::{Changed, Written};
use super::clusterset::{ExportView, ImportView};
use super::quota::{BeyondQuota, Quota};
use super::service::ServiceView;
use crate::evidence::list::{ListEvidence, SuspendedDeletions};
use crate::evidence::rollback::Suspicion;
use crate::evidence::{MemberEvidence, Proof};
use crate::model::map::{HashMap, HashSet};
use crate::model::object::key_of;
use crate::model::served::{Served, ServedImports};
use crate::model::slice::{
    AddressType, CopiedSlice, KarmadasSlice, ObservedSlice, SliceRole, SourceSlice, SourceVersion,
    Uid,
};
use crate::model::{
    Ack, Configuration, DeletedObject, Failure, FailureKind, Generation, Identity, LeftOut,
    MemberEvent, MemberState, Refusal, RequiredKind, Signal, TimePoint,
};

/// Observed state of a member.
#[derive(Debug)]
pub struct Member {
    /// Generation of its engagement.
    pub(super) generation: Generation,
    /// Identity that its API server reported, once it did.
    pub(super) identity: Option<Identity>,
    /// Whether the API server has reported its identity in this engagement.
    is_identified: bool,
    /// UID of the Cluster object by which it is engaged.
    pub(super) cluster_uid: Option<Box<str>>,
    /// UID of its kube-system namespace, as its Cluster records it.
    pub(super) recorded_uid: Option<String>,
    /// Whether its endpoints are withdrawn because it has been unreachable for too long.
    pub(super) ttl_expired: bool,
    /// Validity of its Cluster and its Secret.
    pub(super) configuration: Configuration,
    /// Reasons why it cannot be used until a person acts.
    pub(super) refusals: Refusals,
    /// Its Services.
    pub(super) services: Objects<ServiceView>,
    /// Keys of its companions, by the services that they are the entries to.
    companions: HashMap<ServiceKey, ServiceKey>,
    clusterset: Clusterset,
    slices: Slices,
    namespaces: Namespaces,
    nodes: Nodes,
    /// Evidence of what is absent from it.
    evidence: MemberEvidence,
    probe_failure: Option<Failure>,
    failing: Option<Failing>,
    /// Time since which the member has been unreachable by the status of its Cluster. Dropped at
    /// its first answer to this process.
    pub(super) recorded_outage: Option<Timestamp>,
    outage: Outage<MemberState>,
    clusterset_outage: Outage<Membership>,
    /// Times at which Services that select pods were first observed without an EndpointSlice, for
    /// Services that changed once both kinds were listed.
    awaited_slices: HashMap<ServiceKey, TimePoint>,
}

/// Time since which a member fails in the same way.
#[derive(Clone, Copy, Debug)]
struct Failing {
    since: TimePoint,
    /// Time since which this process has observed the failure.
    observed: TimePoint,
    is_unreachable: bool,
}

/// Reasons in the member itself for which it cannot be used until a person acts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Refusals {
    /// Whether the cluster at its address is another than before.
    pub(crate) is_another_cluster: bool,
    /// Member that is the same cluster and was joined first.
    pub(crate) duplicate_of: Option<ClusterName>,
}

impl Member {
    /// Returns a member of which nothing was observed.
    pub fn new(generation: Generation) -> Self {
        Self {
            generation,
            identity: None,
            is_identified: false,
            cluster_uid: None,
            recorded_uid: None,
            ttl_expired: false,
            configuration: Configuration::default(),
            refusals: Refusals::default(),
            services: Objects::default(),
            companions: HashMap::default(),
            clusterset: Clusterset::default(),
            slices: Slices::default(),
            namespaces: Namespaces::default(),
            nodes: Nodes::default(),
            evidence: MemberEvidence::default(),
            probe_failure: None,
            failing: None,
            recorded_outage: None,
            outage: Outage::default(),
            clusterset_outage: Outage::default(),
            awaited_slices: HashMap::default(),
        }
    }

    /// Returns the generation of its engagement.
    pub fn generation(&self) -> Generation {
        self.generation
    }

    /// Returns the identity that its API server reported, once it did.
    pub fn identity(&self) -> Option<&Identity> {
        self.identity.as_ref()
    }

    /// Returns the validity of its Cluster and its Secret.
    pub(crate) fn configuration(&self) -> &Configuration {
        &self.configuration
    }

    /// Returns the reasons why it cannot be used until a person acts.
    pub(crate) fn refusals(&self) -> &Refusals {
        &self.refusals
    }

    /// Begins another engagement, with another address or other credentials. Observed objects are
    /// retained until lists show otherwise. Nothing is written before the API server reports its
    /// identity.
    pub(super) fn engage_again(&mut self, generation: Generation) {
        self.generation = generation;
        self.is_identified = false;
        self.clusterset.deferred = None;
        self.probe_failure = None;
        self.failing = None;
        self.outage = Outage::default();
        self.clusterset_outage = Outage::default();
        self.clusterset.refusals.clear();
        self.evidence.drop_failures();
    }

    /// Returns the state of the member.
    pub fn member_state(&self) -> MemberState {
        if let Some(refusal) = self.refusal() {
            return MemberState::Refused(refusal);
        }
        match (self.unreachable(), self.unwatched(), self.failing) {
            (Some(failure), _, Some(failing)) => MemberState::Unreachable {
                failure: failure.clone(),
                since: failing.since,
                observed: failing.observed,
            },
            (None, Some((kind, failure)), Some(failing)) => MemberState::Unwatched {
                kind,
                failure: failure.clone(),
                since: failing.since,
            },
            _ if self.is_synced() => MemberState::Synced,
            _ => MemberState::Syncing,
        }
    }

    /// Returns the reason why the member cannot be used until a person acts.
    fn refusal(&self) -> Option<Refusal> {
        match (&self.configuration, &self.refusals) {
            (Configuration::Refused(error), _) => Some(Refusal::Configuration(error.clone())),
            (_, refusals) if refusals.is_another_cluster => Some(Refusal::AnotherCluster),
            (_, refusals) => refusals.duplicate_of.clone().map(Refusal::DuplicateOf),
        }
    }

    /// Returns what statuses report of the member, and the time at which it changes without an
    /// event.
    pub(super) fn reported_state(&self, now: TimePoint) -> (MemberState, Option<TimePoint>) {
        match self.member_state() {
            refused @ MemberState::Refused(_) => (refused, None),
            state => self.outage.reported(state, MemberState::Syncing, now),
        }
    }

    /// Returns the failure for which the member counts as unreachable: that of the probe, or of the
    /// watch of EndpointSlices.
    fn unreachable(&self) -> Option<&Failure> {
        let probe = self.probe_failure.as_ref();
        probe.or(self.evidence.slices.failure.as_ref())
    }

    /// Returns the failure of another watch that is needed to write to the member.
    fn unwatched(&self) -> Option<(RequiredKind, &Failure)> {
        let lists = [
            (RequiredKind::Services, &self.evidence.services),
            (RequiredKind::Namespaces, &self.evidence.namespaces),
        ];
        let mut failures = lists.into_iter();
        failures.find_map(|(kind, list)| Some((kind, list.failure.as_ref()?)))
    }

    /// Whether the API server answers, has reported its identity in this engagement, and has listed
    /// all that is required.
    fn is_synced(&self) -> bool {
        let mut lists = self.evidence.required().into_iter();
        let fails = self.unreachable().is_some() || self.unwatched().is_some();
        self.is_identified && !fails && lists.all(ListEvidence::is_listed)
    }

    /// Returns the reason why the member takes no part if its version is too old for
    /// EndpointSlices.
    pub(super) fn too_old(&self) -> Option<LeftOut> {
        let identity = self.identity.as_ref()?;
        (identity.release < KubernetesVersion::OLDEST_MEMBER)
            .then(|| LeftOut::TooOld(identity.version.clone()))
    }

    /// Whether the slices that the member provides are known, now or from before it became
    /// unreachable.
    pub(crate) fn sources_are_known(&self) -> bool {
        self.sources_absence().is_some()
    }

    /// Returns the proof that the member lacks each EndpointSlice that was not observed, now or
    /// before it became unreachable; `None` while its slices are unknown.
    pub(crate) fn sources_absence(&self) -> Option<Proof> {
        self.evidence.absence()
    }

    /// Returns the slices that may back a service.
    pub fn sources(
        &self,
        key: &ServiceKey,
    ) -> impl Iterator<Item = (&Arc<str>, &Arc<SourceSlice>)> {
        let sources = self.slices.sources.get(key);
        sources.into_iter().flat_map(ByName::iter)
    }

    /// Returns whether any slice of the service has a ready endpoint; `None` if that is unknown.
    pub(crate) fn has_ready(&self, key: &ServiceKey) -> Option<bool> {
        let sources = || self.sources(key).map(|(_, source)| source);
        let mut endpoints = sources().flat_map(|source| source.endpoints());
        let has_ready = endpoints.any(|endpoint| endpoint.conditions[0] != Some(false));
        let is_unread = sources().any(|source| source.address_type == AddressType::Unread);
        match has_ready {
            _ if !self.sources_are_known() => None,
            false if is_unread => None,
            has_ready => Some(has_ready),
        }
    }

    /// Returns the copies of every hub for a service, except those whose deletion was acknowledged.
    pub fn copies(
        &self,
        key: &ServiceKey,
    ) -> impl Iterator<Item = (&Arc<str>, &Written<CopiedSlice>)> {
        self.slices
            .copies
            .get(key)
            .into_iter()
            .flat_map(ByName::iter)
            .filter(|(_, copy)| !copy.is_deleted())
    }

    /// Returns the copy of that name.
    pub fn copy(&self, key: &ServiceKey, name: &str) -> Option<&Written<CopiedSlice>> {
        self.slices.copies.get(key)?.get(name)
    }

    /// Returns the slice that has the name of a copy of the service and is none.
    pub(crate) fn in_the_way(&self, key: &ServiceKey, name: &str) -> Option<InTheWay<'_>> {
        self.slices.in_the_way(key, name)
    }

    /// Returns the copies of the Service of that key that were made on behalf of that owner and
    /// lost their labels.
    pub(crate) fn lost_copies(
        &self,
        service: &ServiceKey,
        owner: &str,
    ) -> impl Iterator<Item = &Arc<str>> {
        self.slices.lost_copies(service, owner)
    }

    /// Returns the slices of other clusters that Karmada's own controllers maintain for the Service
    /// of that key.
    pub(crate) fn karmadas_slices(
        &self,
        service: &ServiceKey,
    ) -> impl Iterator<Item = (&Arc<str>, &KarmadasSlice)> {
        self.slices.of_karmada(service)
    }

    /// Returns the slice of that name that Karmada's own controllers maintain for the Service of
    /// that key.
    pub(crate) fn karmadas_slice(
        &self,
        service: &ServiceKey,
        name: &str,
    ) -> Option<&KarmadasSlice> {
        self.slices.one_of_karmada(service, name)
    }

    /// Returns the newest version of that slice that its cluster has lost, as a second list
    /// confirmed. Older versions are lost too.
    pub(crate) fn lost_versions(&self, source: &Uid) -> Option<u64> {
        self.evidence.rollbacks.lost_versions(source)
    }

    /// Notes that a copy names that version of a source slice, which is newer than the one that the
    /// member shows.
    pub(super) fn suspect_rollback(
        &mut self,
        key: &ServiceKey,
        version: &SourceVersion,
        now: TimePoint,
    ) -> Suspicion {
        self.evidence.rollbacks.suspect(key, version, now)
    }

    /// Returns the number of deletions that its initial lists suggest, compared with the sources
    /// that copies record. The member's endpoints are unknown while it is not 0.
    pub(crate) fn suspected_deletions(&self) -> usize {
        self.evidence.suspected()
    }

    /// Notes the number of deletions that its initial lists suggest.
    pub(super) fn suspect_deletions(&mut self, deletions: usize, now: TimePoint) {
        self.evidence.suspect(deletions, now);
    }

    /// Returns the number of deletions that its lists suggest and that do not count yet, and the
    /// time since which they are as many.
    pub fn suspended_deletions(&self) -> SuspendedDeletions {
        self.evidence.suspended()
    }

    /// Whether complete lists of Services and EndpointSlices were observed.
    pub(super) fn has_listed_natives(&self) -> bool {
        self.evidence.has_listed_natives()
    }

    /// Marks its next lists as initial ones, from other watches. Returns true if lists were
    /// complete before.
    pub(super) fn expect_initial_lists(&mut self) -> bool {
        self.evidence.expect_initial_lists()
    }

    /// Marks its next lists of ServiceExports and ServiceImports as initial ones if other versions
    /// are served now. Returns true if its exports were listed before.
    pub(super) fn expect_clusterset_lists(&mut self, served: &Served) -> bool {
        let before = self.clusterset.served.as_ref();
        let is_same = before.is_none_or(|before| before.versions() == served.versions());
        !is_same && self.evidence.expect_clusterset_lists()
    }

    /// Drops suspected rollbacks: the next lists come from watches that did not observe them.
    /// Returns the services that are to be reviewed.
    pub(super) fn drop_suspected_rollbacks(&mut self) -> Vec<ServiceKey> {
        self.evidence.rollbacks.drop_suspected()
    }

    /// Returns the Service, except one whose deletion was acknowledged.
    pub fn service(&self, key: &ServiceKey) -> Option<&ServiceView> {
        self.services.view(key)
    }

    /// Returns the Service, with writes that no watch has shown yet.
    pub(crate) fn written_service(&self, key: &ServiceKey) -> Option<&Written<ServiceView>> {
        self.services.get(key)
    }

    /// Returns the companion of the Service of that key, with writes that no watch has shown yet.
    pub(crate) fn written_companion(
        &self,
        service: &ServiceKey,
    ) -> Option<(&ServiceKey, &Written<ServiceView>)> {
        let (_, companion) = self.companions.get_key_value(service)?;
        Some((companion, self.services.get(companion)?))
    }

    /// Returns the companion of the Service of that key, except one that is terminating.
    pub(crate) fn companion(&self, service: &ServiceKey) -> Option<&ServiceView> {
        let (key, companion) = self.written_companion(service)?;
        let is_there = !companion.is_deleted() && !companion.view.deleting;
        (is_there && *key == service.companion()).then_some(&companion.view)
    }

    fn note_companion(&mut self, key: &ServiceKey) {
        let service = self.services.get(key).map(|written| &written.view);
        if let Some(service) = service.filter(|service| service.companion_of.is_some()) {
            self.companions.insert(service.service(key), key.clone());
        }
    }

    /// Returns the ServiceExport, except one that is terminating.
    pub fn export(&self, key: &ServiceKey) -> Option<&ExportView> {
        let export = self.clusterset.exports.view(key);
        export.filter(|export| !export.deleting)
    }

    /// Returns the limit of the member's quota that the export exceeds, if it exceeds one.
    pub(crate) fn beyond_quota(&self, key: &ServiceKey, quota: &Quota) -> Option<BeyondQuota> {
        self.clusterset.by_age.beyond(key, quota)
    }

    /// Returns the ServiceExport, with writes that no watch has shown yet.
    pub(crate) fn written_export(&self, key: &ServiceKey) -> Option<&Written<ExportView>> {
        self.clusterset.exports.get(key)
    }

    /// Returns the ServiceImport, except one whose deletion was acknowledged.
    pub fn import(&self, key: &ServiceKey) -> Option<&ImportView> {
        self.clusterset.imports.view(key)
    }

    /// Returns the ServiceImport, with writes that no watch has shown yet.
    pub(crate) fn written_import(&self, key: &ServiceKey) -> Option<&Written<ImportView>> {
        self.clusterset.imports.get(key)
    }

    fn note_awaited_slices(&mut self, changed: &HashSet<ServiceKey>, now: TimePoint) {
        if !self.evidence.has_listed_natives() {
            return;
        }
        for key in changed {
            let service = self.services.view(key);
            let selects = service.is_some_and(|service| !service.shape.selector.is_empty());
            if selects && self.sources(key).next().is_none() {
                self.awaited_slices.entry(key.clone()).or_insert(now);
            } else {
                self.awaited_slices.remove(key);
            }
        }
    }

    /// Returns the time since which the Service, which selects pods, has been observed without an
    /// EndpointSlice. `None` for a Service that did not change once both kinds were listed.
    pub(crate) fn slice_awaited_since(&self, key: &ServiceKey) -> Option<TimePoint> {
        self.awaited_slices.get(key).copied()
    }

    /// Returns the time since which an export has been without its Service.
    pub(crate) fn service_lost_since(&self, key: &ServiceKey) -> Option<TimePoint> {
        self.clusterset.lost_services.get(key).copied()
    }

    /// Returns whether the member takes part in the clusterset.
    pub(crate) fn membership(&self) -> Membership {
        self.clusterset.membership(&self.evidence)
    }

    /// Returns what statuses report of [`Member::membership`], and the time at which it changes
    /// without an event.
    pub(crate) fn reported_membership(&self, now: TimePoint) -> (Membership, Option<TimePoint>) {
        self.clusterset_outage
            .reported(self.membership(), Membership::Unknown, now)
    }

    /// Returns the version in which the member's exports are watched, if they are.
    pub(crate) fn exports_followed(&self) -> Option<Version> {
        match self.membership() {
            Membership::Part { exports, .. } => exports,
            Membership::Unknown | Membership::Failing(_) => None,
        }
    }

    /// Returns the version in which the member's imports are watched, if they are.
    pub fn imports_followed(&self) -> Option<ServedImports> {
        match self.membership() {
            Membership::Part { imports, .. } => imports,
            Membership::Unknown | Membership::Failing(_) => None,
        }
    }

    /// Whether the exports of the member and their Services are known, now or from before it became
    /// unreachable.
    pub(crate) fn exports_are_known(&self) -> bool {
        self.exports_absence().is_some()
    }

    /// Returns the proof that the member lacks each ServiceExport that was not observed; `None`
    /// while its exports are unknown.
    pub(crate) fn exports_absence(&self) -> Option<Proof> {
        let serves_exports = self.clusterset.serves_exports()?;
        self.evidence.absence_of_exports(serves_exports)
    }

    /// Returns the persistent rejection of a derived Service by its API server.
    pub(crate) fn derived_refusal(&self, key: &ServiceKey) -> Option<&DerivedRefusal> {
        self.clusterset.refusals.get(key)
    }

    /// Notes a persistent rejection of a derived Service by its API server.
    pub(crate) fn note_derived_refusal(&mut self, key: ServiceKey, refusal: DerivedRefusal) {
        self.clusterset.refusals.insert(key, refusal);
    }

    /// Returns the state of a namespace.
    pub fn namespace(&self, name: &str) -> NamespaceState {
        self.namespaces.get(name)
    }

    /// Whether an export names ports of nodes as the way to its endpoints.
    pub(super) fn exports_by_node_ports(&self) -> bool {
        !self.clusterset.by_node_ports.is_empty()
    }

    /// Drops its Nodes, which are no longer needed. Returns true if their watch fails.
    pub(super) fn drop_nodes(&mut self) -> bool {
        self.nodes = Nodes::default();
        std::mem::take(&mut self.evidence.nodes).failure.is_some()
    }

    /// Returns its Nodes by name, now or from before their watch failed; `None` while they are
    /// unknown.
    pub(crate) fn nodes(&self) -> Option<&Nodes> {
        self.evidence.nodes.is_listed().then_some(&self.nodes)
    }

    /// Returns the failure of the watch of its Nodes, while it fails.
    pub(crate) fn nodes_failure(&self) -> Option<&Failure> {
        self.evidence.nodes.failure.as_ref()
    }

    /// Returns the failure of the watch of its Nodes if only a person can end it. Other failures
    /// pass, or are those of the member.
    pub(crate) fn lasting_nodes_failure(&self) -> Option<&Failure> {
        let failure = self.nodes_failure();
        failure.filter(|failure| failure.kind == FailureKind::Forbidden)
    }

    /// Returns the keys of all ServiceExports and ServiceImports of the member; some more than
    /// once.
    pub(crate) fn clusterset_keys(&self) -> impl Iterator<Item = &ServiceKey> {
        let exports = self.clusterset.exports.iter().map(|(key, _)| key);
        let imports = self.clusterset.imports.iter().map(|(key, _)| key);
        exports.chain(imports)
    }

    pub(super) fn apply(&mut self, event: MemberEvent, now: TimePoint) -> Changed {
        let mut changed = Changed::default();
        // Whether the address answers is so whoever answers there.
        let of_anybody = matches!(event, MemberEvent::Identified(_) | MemberEvent::Probed(_));
        if self.refusals.is_another_cluster && !of_anybody {
            return changed;
        }
        if matches!(
            event,
            MemberEvent::Identified(_) | MemberEvent::Probed(Ok(()))
        ) {
            self.recorded_outage = None;
        }
        match event {
            MemberEvent::Identified(identity) => self.identify(identity),
            // A cluster in use is never too old: its endpoints would be withdrawn.
            MemberEvent::VersionChanged(identity)
                if identity.release < KubernetesVersion::OLDEST_MEMBER => {}
            MemberEvent::VersionChanged(identity) => self.identity = Some(identity),
            MemberEvent::Probed(Ok(())) => self.probe_failure = None,
            MemberEvent::Probed(Err(failure)) => failure.note(&mut self.probe_failure),
            MemberEvent::Served(served) => self.note_served(served, &mut changed),
            MemberEvent::NotDiscovered(failure) => {
                failure.note(&mut self.clusterset.not_discovered);
            }
            MemberEvent::Exports(signal) => {
                self.evidence.exports.observe(&signal, now);
                let exports = &mut self.clusterset.exports;
                exports.apply(
                    signal,
                    ExportView::read,
                    &mut self.evidence.tombstones,
                    &mut changed.keys,
                );
                self.clusterset.note_exports(&changed.keys);
            }
            MemberEvent::Imports(signal) => {
                self.evidence.imports.observe(&signal, now);
                let imports = &mut self.clusterset.imports;
                imports.apply(
                    signal,
                    ImportView::read,
                    &mut self.evidence.tombstones,
                    &mut changed.keys,
                );
            }
            MemberEvent::Services(signal) => self.apply_services(signal, &mut changed, now),
            MemberEvent::Slices(signal) => self.apply_slices(signal, &mut changed, now),
            MemberEvent::Namespaces(signal) => {
                self.evidence.namespaces.observe(&signal, now);
                self.namespaces.apply(signal, &mut changed.namespaces);
            }
            MemberEvent::Nodes(signal) => {
                let state =
                    |evidence: &ListEvidence| (evidence.is_listed(), evidence.failure.clone());
                let before = state(&self.evidence.nodes);
                self.evidence.nodes.observe(&signal, now);
                changed.nodes = self.nodes.apply(signal) || state(&self.evidence.nodes) != before;
            }
        }
        let services = &self.services;
        let has = |key: &ServiceKey| services.view(key).is_some();
        self.clusterset.note_services(&changed.keys, has, now);
        self.note_awaited_slices(&changed.keys, now);
        self.note_failing(now);
        if self.is_synced()
            && let Some(served) = self.clusterset.deferred.take()
        {
            self.note_served(served, &mut changed);
        }
        self.clusterset_outage.note(self.membership(), now);
        changed
    }

    fn note_served(&mut self, served: Served, changed: &mut Changed) {
        let (is_synced, evidence) = (self.is_synced(), &mut self.evidence);
        self.clusterset
            .note_served(served, is_synced, evidence, &mut changed.keys);
        self.clusterset.note_exports(&changed.keys);
    }

    fn apply_services(&mut self, signal: Signal<Service>, changed: &mut Changed, now: TimePoint) {
        self.evidence.services.observe(&signal, now);
        let read = |service: &Service| ServiceView::read(service);
        let tombstones = &mut self.evidence.tombstones;
        self.services
            .apply(signal, read, tombstones, &mut changed.keys);
        for key in &changed.keys {
            self.note_companion(key);
        }
        let services = &self.services;
        self.companions
            .retain(|_, companion| services.get(companion).is_some());
        let imported = changed.keys.iter().filter_map(ServiceKey::underived);
        let imported: Vec<_> = imported.collect();
        changed.keys.extend(imported);
    }

    fn apply_slices(
        &mut self,
        signal: Signal<ObservedSlice>,
        changed: &mut Changed,
        now: TimePoint,
    ) {
        self.evidence.slices.observe(&signal, now);
        if let Signal::Deleted(slice) = &signal
            && let SliceRole::Copy(_, copy) = &slice.role
        {
            self.evidence.tombstones.add(&copy.uid.to_string());
        }
        let confirms = matches!(signal, Signal::Confirmed);
        self.slices.apply(signal, changed);
        if confirms {
            let shown = |key: &ServiceKey, uid: &Uid| self.slices.shown_version(key, uid);
            changed
                .keys
                .extend(self.evidence.rollbacks.confirm(shown, now));
        }
    }

    /// Applies the identity that the API server reports. A member is identified by the UID of its
    /// kube-system namespace; the events of another cluster under its name are ignored. The
    /// expected UID is the one that its Cluster records. Without a record it is the one that was
    /// observed first, unless that was refused as another member's.
    fn identify(&mut self, identity: Identity) {
        let observed = self.identity.as_ref().map(|identity| &identity.uid);
        let meant = observed.filter(|_| self.refusals.duplicate_of.is_none());
        let meant = self.recorded_uid.as_ref().or(meant);
        let is_another = meant.is_some_and(|uid| *uid != identity.uid);
        if !is_another && observed.is_some_and(|uid| *uid != identity.uid) {
            *self = Self {
                cluster_uid: self.cluster_uid.take(),
                recorded_uid: self.recorded_uid.take(),
                configuration: std::mem::take(&mut self.configuration),
                ..Self::new(self.generation)
            };
        }
        self.refusals.is_another_cluster = is_another;
        self.is_identified = !is_another;
        if !is_another {
            self.identity = Some(identity);
        }
    }

    fn note_failing(&mut self, now: TimePoint) {
        let is_unreachable = self.unreachable().is_some();
        self.failing = match (is_unreachable || self.unwatched().is_some(), self.failing) {
            (false, _) => None,
            (true, Some(same)) if same.is_unreachable == is_unreachable => Some(same),
            (true, _) => {
                let recorded = self.recorded_outage.filter(|_| is_unreachable);
                Some(Failing {
                    since: recorded.map_or(now, |since| now.back_to_wall(since)),
                    observed: now,
                    is_unreachable,
                })
            }
        };
        let is_sure = self.probe_failure.is_some();
        self.outage.note(self.member_state(), is_sure, now);
    }

    /// Applies the answer to a write. Returns the services of which the member may now hold an
    /// object.
    pub(super) fn apply_ack(&mut self, ack: Ack, now: TimePoint) -> Vec<ServiceKey> {
        let mut held = Vec::new();
        let tombstones = &self.evidence.tombstones;
        match ack {
            Ack::Namespace(object) => self.namespaces.put(&object),
            Ack::Service(object) => {
                if let (Some(key), Some(view)) =
                    (key_of(&object.metadata), ServiceView::read(&object))
                {
                    held.extend([key.clone(), view.service(&key)]);
                    self.services.apply_ack(key.clone(), view, tombstones, now);
                    self.note_companion(&key);
                }
            }
            Ack::ServiceExport(object) => {
                if let (Some(key), Some(view)) =
                    (key_of(&object.metadata), ExportView::read(&object))
                {
                    held.push(key.clone());
                    let exports = &mut self.clusterset.exports;
                    exports.apply_ack(key, view, tombstones, now);
                }
            }
            Ack::ServiceImport(object) => {
                if let (Some(key), Some(view)) =
                    (key_of(&object.metadata), ImportView::read(&object))
                {
                    held.push(key.clone());
                    let imports = &mut self.clusterset.imports;
                    imports.apply_ack(key, view, tombstones, now);
                }
            }
            Ack::Slice(slice) => {
                if let SliceRole::Copy(key, copy) = &slice.role
                    && !tombstones.contains(&copy.uid.to_string())
                {
                    held.push(key.clone());
                    self.slices.apply_ack(*slice, now);
                }
            }
            Ack::Deleted(deleted) => self.apply_deleted_ack(&deleted),
            Ack::MultiClusterService(_) | Ack::Cluster(_) => {}
        }
        held
    }

    fn apply_deleted_ack(&mut self, deleted: &DeletedObject) {
        match deleted {
            DeletedObject::Service { key, uid } => self.services.note_deleted(key, uid),
            DeletedObject::ServiceExport { key, uid } => {
                self.clusterset.exports.note_deleted(key, uid);
            }
            DeletedObject::ServiceImport { key, uid } => {
                self.clusterset.imports.note_deleted(key, uid);
            }
            DeletedObject::Slice { key, name, uid } => {
                self.slices.note_deleted(key, name, uid);
            }
        }
    }
}

#[cfg(test)]
mod tests;
