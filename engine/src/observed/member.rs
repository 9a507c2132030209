//! Observed state of one member.

mod ack;
mod apply;
mod by_name;
mod clusterset;
mod namespaces;
mod nodes;
mod objects;
mod outage;
mod owned;
mod paths;
mod recorded_sources;
mod scope;
mod slices;
mod state;
mod written;

use std::collections::BTreeSet;
use std::sync::Arc;

use causeway::api::multicluster::Version;
use causeway::domain::{ClusterName, ServiceKey};
use k8s_openapi::jiff::Timestamp;

use self::by_name::ByName;
use self::clusterset::Clusterset;
pub(crate) use self::clusterset::{DerivedRefusal, Membership, OtherController};
pub(crate) use self::namespaces::NamespaceState;
use self::namespaces::Namespaces;
pub(crate) use self::nodes::Nodes;
pub use self::objects::Objects;
pub(crate) use self::objects::View;
use self::outage::Outage;
use self::paths::Paths;
use self::scope::Scope;
use self::slices::Slices;
use self::state::Failing;
pub use self::written::{Changed, Written};
use super::clusterset::{ExportView, ImportView};
use super::quota::{BeyondQuota, Quota};
use super::service::ServiceView;
use crate::evidence::list::SuspendedDeletions;
use crate::evidence::{MemberEvidence, Proof};
use crate::model::map::{HashMap, HashSet};
use crate::model::served::{Served, ServedImports};
use crate::model::slice::{AddressType, CopiedSlice, SourceSlice, SourceVersion, Uid};
use crate::model::{
    Configuration, Failure, Generation, Identity, MemberState, ReportedId, TimePoint,
};

/// Observed state of a member.
#[derive(Debug, Default)]
pub struct Member {
    /// Generation of its engagement.
    pub(super) generation: Generation,
    /// Identity that its API server reported, once it did.
    pub(super) identity: Option<Identity>,
    /// Id in its clusterset that it reported; `None` until it does.
    pub(super) reported_id: Option<ReportedId>,
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
    scope: Scope,
    namespaces: Namespaces,
    nodes: Nodes,
    paths: Paths,
    /// Evidence of what is absent from it.
    pub(super) evidence: MemberEvidence,
    probe_failure: Option<Failure>,
    /// Failure by which the member was unreachable in an earlier engagement. Dropped when
    /// it reports its identity or a probe ends.
    earlier_failure: Option<Failure>,
    failing: Option<Failing>,
    /// Time since which the member has been unreachable by the status of its Cluster. Dropped at
    /// its first answer to this process.
    pub(super) recorded_outage: Option<Timestamp>,
    outage: Outage<MemberState>,
    clusterset_outage: Outage<Membership>,
    /// Times at which Services that select pods were first observed without an EndpointSlice, for
    /// Services that changed once both kinds were listed.
    awaited_slices: HashMap<ServiceKey, TimePoint>,
    /// Times at which Services of another type were observed to become load balancers.
    load_balancers: HashMap<ServiceKey, TimePoint>,
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
            ..Self::default()
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

    /// Whether it is engaged by the Cluster of that UID.
    pub(crate) fn is_engaged_by(&self, cluster_uid: &str) -> bool {
        self.cluster_uid.as_deref() == Some(cluster_uid)
    }

    /// Returns the id in its clusterset that it reported; `None` until it does, and for a member
    /// that is refused.
    pub(crate) fn reported_id(&self) -> Option<&ReportedId> {
        let is_used = self.refusals == Refusals::default();
        self.reported_id.as_ref().filter(|_| is_used)
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
    /// identity. An outage lasts until the member answers.
    pub(super) fn engage_again(&mut self, generation: Generation) {
        self.generation = generation;
        self.is_identified = false;
        self.refusals.is_another_cluster = false;
        self.clusterset.deferred = None;
        self.retain_outage();
        self.clusterset_outage = Outage::default();
        self.clusterset.refusals.clear();
        self.evidence.drop_failures();
    }

    /// Whether the slices that the member provides for a service are known, now or from before it
    /// became unreachable.
    pub(crate) fn sources_are_known(&self, key: &ServiceKey) -> bool {
        self.sources_absence(key).is_some()
    }

    /// Returns the proof that the member lacks each EndpointSlice of the service that was not
    /// observed, now or before it became unreachable; `None` while its slices are unknown.
    pub(crate) fn sources_absence(&self, key: &ServiceKey) -> Option<Proof> {
        self.evidence.absence().filter(|_| self.covers(key))
    }

    /// Whether a version of a source is later than any that was observed of the member.
    pub(crate) fn is_behind(&self, source: &SourceVersion) -> bool {
        self.slices.newest_source < source.resource_version
    }

    /// Whether the copies that the member holds are known, now or from before it became
    /// unreachable.
    pub(crate) fn copies_are_known(&self) -> bool {
        self.evidence.absence().is_some()
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
            _ if !self.sources_are_known(key) => None,
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

    /// Returns the newest version of that slice that its cluster has lost, as a second list
    /// confirmed. Older versions are lost too.
    pub(crate) fn lost_versions(&self, source: &Uid) -> Option<u64> {
        self.evidence.rollbacks.lost_versions(source)
    }

    /// Returns the number of deletions that its initial lists suggest, compared with the sources
    /// that copies record. The member's endpoints are unknown while it is not 0.
    pub(crate) fn suspected_deletions(&self) -> usize {
        self.evidence.suspected()
    }

    /// Returns the number of deletions that its lists suggest and that do not count yet, and the
    /// time since which they are as many.
    pub fn suspended_deletions(&self) -> SuspendedDeletions {
        self.evidence.suspended()
    }

    /// Marks its next lists of ServiceExports and ServiceImports as initial ones if other versions
    /// are served now. Returns true if its exports were listed before.
    pub(super) fn expect_clusterset_lists(&mut self, served: &Served) -> bool {
        let before = self.clusterset.served.as_ref();
        let is_same = before.is_none_or(|before| before.versions() == served.versions());
        !is_same && self.evidence.expect_clusterset_lists()
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

    /// Returns the services whose companions the member holds.
    pub(crate) fn companion_services(&self) -> impl Iterator<Item = &ServiceKey> {
        self.companions.keys()
    }

    /// Returns the companion of the Service of that key, except one that is terminating.
    pub(crate) fn companion(&self, service: &ServiceKey) -> Option<&ServiceView> {
        let (key, companion) = self.written_companion(service)?;
        let is_there = !companion.is_deleted() && !companion.view.deleting;
        (is_there && *key == service.companion()).then_some(&companion.view)
    }

    /// Returns the ServiceExport, except one that is terminating.
    pub fn export(&self, key: &ServiceKey) -> Option<&ExportView> {
        let export = self.clusterset.exports.view(key);
        export.filter(|export| !export.deleting)
    }

    /// Notes the namespaces from which the hub lets the member export, `None` for all.
    pub(super) fn note_export_namespaces(&mut self, namespaces: Option<&BTreeSet<Box<str>>>) {
        self.clusterset.note_export_namespaces(namespaces);
    }

    /// Whether its exports changed since the last [`Member::apply_quota`].
    pub(super) fn has_changed_exports(&self) -> bool {
        self.clusterset.by_age.is_changed()
    }

    /// Returns its exports that were beyond the quota at the last call and do not exceed the same
    /// limit now.
    pub(super) fn apply_quota(&mut self, quota: &Quota) -> Vec<ServiceKey> {
        self.clusterset.by_age.apply_quota(quota)
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

    /// Returns the time since which the Service, which selects pods, has been observed without an
    /// EndpointSlice. `None` for a Service that did not change once both kinds were listed.
    pub(crate) fn slice_awaited_since(&self, key: &ServiceKey) -> Option<TimePoint> {
        self.awaited_slices.get(key).copied()
    }

    /// Returns the time at which the Service, of another type before, was observed to become a load
    /// balancer; `None` for a Service that this process has never observed with another type.
    pub(crate) fn load_balancer_since(&self, key: &ServiceKey) -> Option<TimePoint> {
        self.load_balancers.get(key).copied()
    }

    /// Returns the time since which an export has been without its Service.
    pub(crate) fn service_lost_since(&self, key: &ServiceKey) -> Option<TimePoint> {
        self.clusterset.lost_services.get(key).copied()
    }

    /// Returns another controller of the Multi-Cluster Services API in the member, by what it
    /// writes.
    pub(crate) fn other_controller(&self) -> Option<OtherController> {
        self.clusterset.other_controller()
    }

    /// Returns the other controller to which the services of a namespace are left.
    pub(crate) fn other_controller_in(&self, namespace: &str) -> Option<OtherController> {
        let other = self.other_controller();
        other.filter(|other| other.decides_in(namespace))
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

    /// Whether the definition of ServiceExport has `status.clusters`.
    pub(crate) fn serves_export_clusters(&self) -> bool {
        let served = self.clusterset.served.as_ref();
        served.is_some_and(|served| served.export_clusters)
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

    /// Returns the UID of a namespace whose Services are exported.
    pub(crate) fn exported_namespace(&self, name: &str) -> Option<&str> {
        self.namespaces.exports(name)?.of_all.as_deref()
    }

    /// Returns the services in namespaces whose Services are exported.
    pub(super) fn exported_by_namespace(&self) -> impl Iterator<Item = ServiceKey> {
        let services = self.services.iter();
        let services = services.filter(|_| self.namespaces.export_any());
        services
            .filter(|(key, _)| self.exported_namespace(&key.namespace).is_some())
            .map(|(key, _)| key.clone())
    }

    /// Returns the services in these namespaces that an export or a Service of the member has.
    pub(super) fn services_in<'a>(
        &'a self,
        namespaces: &'a HashSet<Box<str>>,
    ) -> impl Iterator<Item = ServiceKey> + 'a {
        let exports = self.clusterset.exports.iter().map(|(key, _)| key);
        let all = exports.cloned().chain(self.exported_by_namespace());
        all.filter(|key| namespaces.contains(&*key.namespace))
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

    /// Returns the reports on paths from it.
    pub(crate) fn paths(&self) -> &Paths {
        &self.paths
    }

    /// Returns the failure of the watch of its Nodes, while it fails.
    pub(crate) fn nodes_failure(&self) -> Option<&Failure> {
        self.evidence.nodes.failure.as_ref()
    }

    /// Returns the failure of the watch of its Nodes if only a person can end it. Other failures
    /// pass, or are those of the member.
    pub(crate) fn lasting_nodes_failure(&self) -> Option<&Failure> {
        self.evidence.nodes.lasting_failure()
    }

    /// Returns the failure of the watch of the reports on its paths if only a person can end it.
    pub(crate) fn lasting_paths_failure(&self) -> Option<&Failure> {
        self.evidence.paths.lasting_failure()
    }

    /// Returns the keys of all ServiceExports and ServiceImports of the member; some more than
    /// once.
    pub(crate) fn clusterset_keys(&self) -> impl Iterator<Item = &ServiceKey> {
        let exports = self.clusterset.exports.iter().map(|(key, _)| key);
        let imports = self.clusterset.imports.iter().map(|(key, _)| key);
        exports.chain(imports)
    }
}

#[cfg(test)]
mod tests;
