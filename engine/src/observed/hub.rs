//! Observed state of the hub.

mod change;
mod cluster;
mod cluster_ids;
mod dns;
mod exports;
mod imports;
pub(crate) mod manager;
mod names;
mod namespaces;
mod profiles;
mod selections;
pub(crate) mod works;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use causeway::api::{self, bounds, labels, ownership};
use causeway::domain::{
    ClusterName, ClusterSelection, ExposedPorts, Failover, FieldErrors, MultiClusterService, Reach,
    RequestedHostnames, ServiceKey,
};
use k8s_openapi::api::core::v1::{LoadBalancerIngress, Service};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use k8s_openapi::jiff::Timestamp;

pub(crate) use self::change::Change;
pub(crate) use self::cluster::{ClusterView, DeclaredWatch};
use self::cluster_ids::ClusterIds;
use self::dns::DnsEndpoints;
pub(crate) use self::dns::DnsKnowledge;
use self::exports::HubExports;
use self::imports::HubImports;
use self::names::NameRequests;
use self::namespaces::Namespaces;
use self::profiles::ClustersAt;
pub(crate) use self::profiles::Profiles;
use self::selections::Selections;
use self::works::Works;
use super::Index;
use super::finalizers::Finalizers;
use super::ingress;
use super::reach::DeclaredReach;
use super::service::{PortShape, ServiceView};
use crate::evidence::HubEvidence;
use crate::model::defaults::{self, Annotations, Defaults, Effective};
use crate::model::map::HashMap;
use crate::model::object::{is, is_older, key_of};
use crate::model::{Ack, HubEvent, HubNamespace, ObjectId, Signal, TimePoint};

/// Observed state of the hub.
#[derive(Debug, Default)]
pub(crate) struct Hub {
    /// UID of its kube-system namespace.
    pub(super) uid: Arc<str>,
    /// Its MultiClusterServices.
    pub(super) multi_cluster_services: HashMap<ServiceKey, McsView>,
    selections: Selections,
    /// Its Services.
    pub(super) services: HashMap<ServiceKey, ServiceView>,
    /// Defaults of its Namespaces.
    namespaces: Namespaces,
    /// Its Clusters, including those that are gone and whose members have still to be cleaned.
    pub(super) clusters: BTreeMap<ClusterName, ClusterView>,
    /// Ids of the Clusters in their clusterset.
    pub(super) ids: ClusterIds,
    /// Losses of exposed services, each with its time.
    pub(super) lost: HashMap<ServiceKey, Lost>,
    /// Services that Karmada manages.
    pub(super) works: Works,
    /// Clusters in which Karmada does not propagate a Service because one exists already.
    pub(super) refused: HashMap<ServiceKey, BTreeSet<ClusterName>>,
    /// ServiceExports on the hub itself.
    pub(super) exports: HubExports,
    /// ServiceImports on the hub itself.
    pub(super) imports: HubImports,
    /// DNSEndpoints that causeway wrote.
    pub(super) dns: DnsEndpoints,
    /// Names in DNS that the MultiClusterServices request.
    name_requests: NameRequests,
    /// ClusterProfiles, of which Clusters are made.
    pub(super) profiles: Profiles,
    /// Evidence of what is absent from it.
    pub(super) evidence: HubEvidence,
}

/// A MultiClusterService as it is stored.
#[derive(Clone, Debug)]
pub struct McsView {
    /// Its UID.
    pub uid: Box<str>,
    /// Its resourceVersion, which writes send back unchanged.
    pub resource_version: Box<str>,
    /// Time of its creation.
    pub(crate) created: Option<Timestamp>,
    /// Generation of its spec.
    pub generation: i64,
    /// Time at which it was first observed terminating.
    pub(crate) deleting_since: Option<TimePoint>,
    /// Its finalizers.
    pub finalizers: Finalizers,
    /// Its spec, or the errors for which it cannot be read.
    pub spec: Result<MultiClusterService, FieldErrors>,
    /// Exposed ports of its last readable spec, while its spec cannot be read.
    former_ports: Option<ExposedPorts>,
    /// Its annotations that the controller reads.
    annotations: Option<Box<Annotations>>,
    /// Failover settings of its annotations.
    pub failover: Failover,
    /// Way by which clusters of other networks reach its providers; `None` where their Clusters
    /// decide.
    pub reach: Option<DeclaredReach>,
    /// Names that DNS is to publish.
    pub(crate) hostnames: RequestedHostnames,
    /// Errors in its annotations. The values are ignored, except an unreadable `reach`, which
    /// counts as unknown.
    pub(crate) misread: FieldErrors,
    /// Conditions of its status.
    pub conditions: Vec<Condition>,
    /// Load balancers of its status, as they are stored.
    pub ingress: Vec<LoadBalancerIngress>,
    /// Last writer of its status other than causeway.
    pub(crate) status_writer: Option<Box<str>>,
}

/// Losses of the hub's Service of an exposed name.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lost {
    /// Last state of the Service, if it is gone, and the time at which it went.
    pub service: Option<(ServiceView, TimePoint)>,
    /// Ports that were exposed until a change after which a further entry of `spec.ports` is
    /// missing, each with the time of the change, the newest last. At most [`LOST_PORTS_MAX`]; none
    /// while no entry is missing.
    pub ports: Vec<(PortShape, TimePoint)>,
}

/// Maximum number of lost ports of a Service that are retained. Each is compared with the ports of
/// the Service and of the spec, and owners of Services make these lists.
pub(crate) const LOST_PORTS_MAX: usize = 1024;

/// Returns the last state of a Service, and the time at which a change loses its ports: `now`, or
/// that at which the Service went with them.
fn last_state<'a>(
    present: Option<&'a ServiceView>,
    gone: &'a Option<(ServiceView, TimePoint)>,
    now: TimePoint,
) -> Option<(&'a ServiceView, TimePoint)> {
    let gone = gone.as_ref().map(|(service, since)| (service, *since));
    present.map(|service| (service, now)).or(gone)
}

/// Notes a change of `spec.ports` or of the Service. If a further entry is missing after it, a port
/// may be renamed in one of the two objects, and the ports that were exposed are retained. Any
/// other change drops the ports that it removes from `spec.ports`. Beyond [`LOST_PORTS_MAX`] the
/// oldest losses are dropped.
fn note_lost_ports(
    lost: &mut Vec<(PortShape, TimePoint)>,
    [(old, before), (new, after)]: [(&ExposedPorts, &ServiceView); 2],
    now: TimePoint,
) {
    let (had, has) = (before.ports(), after.ports());
    let missed: Vec<_> = old.missing_from(&had).collect();
    let missing: Vec<_> = new.missing_from(&has).collect();
    if missing.iter().all(|entry| missed.contains(entry)) {
        lost.retain(|(shape, _)| new.include(&shape.port) || !old.include(&shape.port));
    } else {
        let exposed = before.shape.ports.iter();
        let exposed = exposed.filter(|shape| old.include(&shape.port));
        lost.extend(exposed.map(|shape| (shape.clone(), now)));
    }
    lost.retain(|(shape, _)| !new.include(&shape.port) || !has.contains(&shape.port));
    if missing.is_empty() {
        lost.clear();
    }
    let excess = lost.len().saturating_sub(LOST_PORTS_MAX);
    lost.drain(..excess);
}

impl Hub {
    /// Returns a hub of which only the identity is known.
    pub(crate) fn new(uid: &str) -> Self {
        Self {
            uid: uid.into(),
            ..Self::default()
        }
    }

    /// Whether complete lists of MultiClusterServices, Services, Clusters and Namespaces were
    /// observed. Until then absence proves nothing.
    pub(crate) fn is_listed(&self) -> bool {
        self.evidence.listed_since.is_some()
    }

    /// Whether the initial list of Services lacks those of many MultiClusterServices.
    pub(super) fn suspects_services_lost(&self) -> bool {
        if !self.evidence.services.is_unconfirmed() {
            return false;
        }
        let all = &self.multi_cluster_services;
        let missing = all.keys().filter(|key| !self.services.contains_key(*key));
        self.evidence
            .suspects_services_lost(missing.count(), all.len())
    }

    /// Notes the ClusterProfiles that a list lacks although Clusters are made of them. Returns true
    /// if that is new of any.
    pub(super) fn suspect_profiles_gone(&mut self) -> bool {
        let all = self.clusters.iter();
        let stored = all.filter(|(_, cluster)| cluster.removed_since.is_none());
        let made = stored.filter_map(|(name, cluster)| {
            let made = cluster.made_of().filter(|made| *made.hub == *self.uid)?;
            Some((name, made.namespace))
        });
        self.profiles.suspect_gone(made)
    }

    /// Whether a MultiClusterService of that key exists.
    pub(crate) fn exposes(&self, key: &ServiceKey) -> bool {
        self.multi_cluster_services.contains_key(key)
    }

    /// Returns the MultiClusterServices that the cluster may concern: they select it, or are
    /// terminating. Some come more than once.
    pub(crate) fn selecting(&self, name: &ClusterName) -> impl Iterator<Item = &ServiceKey> {
        self.selections.of(name)
    }

    /// Whether a MultiClusterService that the cluster provides names ports of nodes as the way to
    /// its providers.
    pub(crate) fn provides_by_node_ports(&self, name: &ClusterName) -> bool {
        let mut keys = self.selections.by_node_ports();
        keys.any(|key| {
            let view = self.multi_cluster_services.get(key);
            let spec = view.and_then(|view| view.spec.as_ref().ok());
            spec.is_some_and(|spec| spec.providers.includes(name))
        })
    }

    pub(super) fn apply(&mut self, event: HubEvent, now: TimePoint) -> Change {
        let mut change = Change::default();
        match event {
            HubEvent::MultiClusterServices(signal) => self.apply_mcs(signal, now, &mut change),
            HubEvent::Services(signal) => self.apply_services(signal, now, &mut change),
            HubEvent::Clusters(signal) => self.apply_clusters(signal, now, &mut change),
            HubEvent::Namespaces(signal) => self.apply_namespaces(signal, now, &mut change),
            HubEvent::WorksServed(served) => self.works.apply_served(served, now, &mut change),
            HubEvent::Works(signal) => {
                self.works.apply(signal, now, &mut change);
                change.services.retain(|key| self.exposes(key));
            }
            HubEvent::ExportsServed(_) => self.exports = HubExports::default(),
            HubEvent::Exports(signal) => self.exports.apply(signal),
            HubEvent::ImportsServed(served) => {
                self.imports.apply_served(served, now, &mut change);
            }
            HubEvent::Imports(signal) => self.imports.apply(signal, now, &mut change),
            HubEvent::DnsEndpointsServed(served) => {
                let named = named(&self.multi_cluster_services);
                self.dns.apply_served(served, named, &mut change);
            }
            HubEvent::DnsEndpoints(signal) => {
                let key = match &signal {
                    Signal::Applied(object) | Signal::Deleted(object) => key_of(&object.metadata),
                    _ => None,
                };
                let note_rivals = |hub: &Self, change: &mut Change| {
                    if let Some(key) = &key {
                        hub.note_rivals(key, change);
                    }
                };
                note_rivals(self, &mut change);
                let named = named(&self.multi_cluster_services);
                self.dns.apply(signal, named, now, &mut change);
                note_rivals(self, &mut change);
            }
            HubEvent::ProfilesServed(namespace, served) => {
                if !served {
                    self.profiles.drop_evidence(&namespace);
                }
            }
            HubEvent::Profiles(namespace, signal) => {
                let all = &self.clusters;
                let clusters = ClustersAt { all, now };
                self.profiles
                    .apply(&namespace, signal, clusters, &mut change);
            }
            HubEvent::Secrets(..) => {}
        }
        self.evidence.note_listed(now);
        self.note_ids(&mut change);
        change
    }

    /// Computes the ids of the Clusters again if one of them changed. If an id changed, another one
    /// may be free.
    pub(super) fn note_ids(&mut self, change: &mut Change) {
        if !change.placement {
            return;
        }
        let ids = ClusterIds::of(&self.clusters);
        if self.ids != ids {
            self.ids = ids;
            change.clusters.extend(self.clusters.keys().cloned());
        }
    }

    fn apply_mcs(
        &mut self,
        signal: Signal<api::MultiClusterService>,
        now: TimePoint,
        change: &mut Change,
    ) {
        self.evidence.multi_cluster_services.observe(&signal, now);
        match signal {
            Signal::Listed(objects) => {
                let old = std::mem::take(&mut self.multi_cluster_services);
                self.selections = Selections::default();
                self.name_requests = NameRequests::default();
                change.placement = true;
                change.node_needs = true;
                change.slice_scopes = true;
                for object in objects {
                    let old = key_of(&object.metadata).and_then(|key| old.get(&key));
                    self.put_mcs(&object, old, now, change);
                }
                change.services.extend(old.into_keys());
                let stored = &self.multi_cluster_services;
                self.lost.retain(|key, _| stored.contains_key(key));
            }
            Signal::Applied(object) => self.put_mcs(&object, None, now, change),
            Signal::Deleted(object) => {
                let Some(key) = key_of(&object.metadata) else {
                    return;
                };
                let same = self
                    .multi_cluster_services
                    .get(&key)
                    .is_some_and(|old| is(&old.uid, &object.metadata));
                self.note_rivals(&key, change);
                if same && let Some(view) = self.multi_cluster_services.remove(&key) {
                    self.selections.remove(&key, &view);
                    self.name_requests.remove(&key, &view);
                    change.node_needs |= view.is_by_node_ports();
                    change.slice_scopes = true;
                    self.lost.remove(&key);
                    change.services.insert(key);
                }
            }
            _ => {}
        }
    }

    /// Stores the object unless the stored one is newer. The deletion time of the same object is
    /// taken from the stored one, or from `former`.
    fn put_mcs(
        &mut self,
        object: &api::MultiClusterService,
        former: Option<&McsView>,
        now: TimePoint,
        change: &mut Change,
    ) {
        let Some(key) = key_of(&object.metadata) else {
            return;
        };
        let defaults = self.namespaces.defaults(&key.namespace);
        let Some(mut view) = McsView::read(object, defaults, now) else {
            return;
        };
        let old = self.multi_cluster_services.get(&key);
        let same = old.or(former).filter(|old| old.uid == view.uid);
        if let Some(same) = same {
            let since = view.deleting_since;
            view.deleting_since = since.map(|since| same.deleting_since.unwrap_or(since));
            view.former_ports = same.ports().filter(|_| view.spec.is_err()).cloned();
        }
        if old.is_some_and(|old| is_older(&view.resource_version, &old.resource_version)) {
            return;
        }
        if let (Some(stored), Some(ports)) = (same.and_then(McsView::ports), view.ports())
            && stored != ports
        {
            let lost = self.lost.entry(key.clone()).or_default();
            let present = self.services.get(&key);
            if let Some((service, since)) = last_state(present, &lost.service, now) {
                let states = [(stored, service), (ports, service)];
                note_lost_ports(&mut lost.ports, states, since);
            }
        }
        self.evidence.confirmed_absent.remove(&key);
        let selects_other = old.is_none_or(|old| !old.selects_like(&view));
        let was_by_node_ports = old.is_some_and(McsView::is_by_node_ports);
        let is_by_node_ports = view.is_by_node_ports();
        change.slice_scopes |= selects_other;
        change.node_needs |= was_by_node_ports != is_by_node_ports;
        change.node_needs |= is_by_node_ports && selects_other;
        self.note_rivals(&key, change);
        if let Some(old) = self.multi_cluster_services.get(&key) {
            self.selections.remove(&key, old);
            self.name_requests.remove(&key, old);
        }
        self.selections.add(&key, &view);
        self.name_requests.add(&key, &view);
        self.multi_cluster_services.insert(key.clone(), view);
        self.note_rivals(&key, change);
        change.services.insert(key);
    }

    fn apply_namespaces(
        &mut self,
        signal: Signal<HubNamespace>,
        now: TimePoint,
        change: &mut Change,
    ) {
        self.evidence.namespaces.observe(&signal, now);
        let changed = self.namespaces.apply(signal);
        if changed.is_empty() {
            return;
        }
        let all = self.multi_cluster_services.iter_mut();
        for (key, view) in all.filter(|(key, _)| changed.contains(&*key.namespace)) {
            self.selections.remove(key, view);
            let was_by_node_ports = view.is_by_node_ports();
            if view.read_annotations(self.namespaces.defaults(&key.namespace)) {
                change.services.insert(key.clone());
            }
            change.node_needs |= view.is_by_node_ports() != was_by_node_ports;
            self.selections.add(key, view);
        }
    }

    fn apply_services(&mut self, signal: Signal<Service>, now: TimePoint, change: &mut Change) {
        let failing = self.evidence.services.failing_since();
        self.evidence.services.observe(&signal, now);
        change.placement |= matches!(signal, Signal::Listed(_));
        if let (Some(since), Signal::Connected) = (failing, &signal) {
            self.note_outage(since, now);
            change.services.extend(self.lacking().cloned());
        }
        if matches!(&signal, Signal::Deleted(object) if !self.has_service(object)) {
            return;
        }
        let known = self.services.keys().cloned();
        let (objects, gone) = signal.split(known, |object| key_of(&object.metadata));
        for object in &objects {
            self.put_service(object, now, change);
        }
        for key in &gone {
            self.remove_service(key, now, change);
        }
    }

    /// Notes that Services were not watched between two times, which count for no grace period.
    fn note_outage(&mut self, from: TimePoint, to: TimePoint) {
        if let Some(listed) = self.evidence.listed_since {
            self.evidence.services_unwatched += to.since(from.max(listed));
        }
        for lost in self.lost.values_mut() {
            let of_service = lost.service.iter_mut().map(|(_, since)| since);
            let of_ports = lost.ports.iter_mut().map(|(_, since)| since);
            for since in of_service.chain(of_ports) {
                *since = since.after(to.since(from.max(*since)));
            }
        }
    }

    /// Returns the MultiClusterServices whose Service, or a port that they name, was not observed.
    fn lacking(&self) -> impl Iterator<Item = &ServiceKey> {
        let all = self.multi_cluster_services.iter();
        let lacking = all.filter(|(key, mcs)| {
            let live = self.services.get(*key).map(ServiceView::ports);
            let lacks = |live: &Vec<_>| {
                let ports = mcs.ports();
                ports.is_some_and(|ports| ports.missing_from(live).next().is_some())
            };
            live.as_ref().is_none_or(lacks)
        });
        lacking.map(|(key, _)| key)
    }

    /// Whether that Service was observed, and no other of its name since.
    fn has_service(&self, object: &Service) -> bool {
        let known = key_of(&object.metadata).and_then(|key| self.services.get(&key));
        known.is_some_and(|known| is(&known.uid, &object.metadata))
    }

    fn put_service(&mut self, object: &Service, now: TimePoint, change: &mut Change) {
        let (Some(key), Some(view)) = (key_of(&object.metadata), ServiceView::read(object)) else {
            return;
        };
        if let Some(mcs) = self.multi_cluster_services.get(&key) {
            let lost = self.lost.entry(key.clone()).or_default();
            let gone = lost.service.take();
            let old = last_state(self.services.get(&key), &gone, now);
            if let (Some(ports), Some((old, since))) = (mcs.ports(), old) {
                let states = [(ports, old), (ports, &view)];
                note_lost_ports(&mut lost.ports, states, since);
            }
            change.services.insert(key.clone());
        }
        change.services.extend(self.imports.derived_into(&key));
        self.services.insert(key, view);
    }

    fn remove_service(&mut self, key: &ServiceKey, now: TimePoint, change: &mut Change) {
        let Some(service) = self.services.remove(key) else {
            return;
        };
        change.services.extend(self.imports.derived_into(key));
        if self.exposes(key) {
            self.lost.entry(key.clone()).or_default().service = Some((service, now));
            change.services.insert(key.clone());
        }
    }

    fn apply_clusters(
        &mut self,
        signal: Signal<api::Cluster>,
        now: TimePoint,
        change: &mut Change,
    ) {
        self.evidence.clusters.observe(&signal, now);
        let is_list = matches!(signal, Signal::Listed(_));
        let (objects, gone) = signal.split(self.clusters.keys().cloned(), cluster_name);
        for object in &objects {
            if is_list || !self.has_newer_cluster(object) {
                self.put_cluster(object, now, change);
            }
        }
        for name in &gone {
            self.note_removal(name, now, change);
        }
        change.placement |= is_list;
    }

    /// Whether a newer version of the same Cluster was observed. An accepted list replaces it all
    /// the same: versions run lower after a restore of the store.
    fn has_newer_cluster(&self, object: &api::Cluster) -> bool {
        let meta = &object.metadata;
        let known = self.clusters.get(meta.name.as_deref().unwrap_or_default());
        let version = meta.resource_version.as_deref().unwrap_or_default();
        known
            .is_some_and(|known| is(&known.uid, meta) && is_older(version, &known.resource_version))
    }

    fn put_cluster(&mut self, object: &api::Cluster, now: TimePoint, change: &mut Change) {
        let (Some(name), Some(mut view)) = (cluster_name(object), ClusterView::read(object, now))
        else {
            return;
        };
        let old = self.clusters.get(&name);
        if let Some(old) = old.filter(|old| old.uid == view.uid) {
            view.removed_since = view
                .removed_since
                .and(old.removed_since.or(view.removed_since));
        }
        let matters = old.is_none_or(|old| !old.plans_like(&view));
        change.slice_scopes |= old.is_none_or(|old| old.watch != view.watch);
        change.placement |= matters;
        change.node_needs |= matters;
        change.clusters.insert(name.clone());
        self.evidence.observe_cluster(&name);
        self.clusters.insert(name, view);
    }

    /// Drops a removed Cluster whose member is clean.
    pub(super) fn remove_cluster(&mut self, name: &ClusterName) {
        self.clusters.remove(name);
        self.ids = ClusterIds::of(&self.clusters);
    }

    fn note_removal(&mut self, name: &ClusterName, now: TimePoint, change: &mut Change) {
        if let Some(cluster) = self.clusters.get_mut(name) {
            cluster.is_removed = true;
            self.evidence.observe_removal(name);
            cluster.removed_since.get_or_insert(now);
            change.clusters.insert(name.clone());
            change.placement = true;
        }
    }

    /// Applies the answer to a write. An object that a watch has shown deleted in the meantime is
    /// not restored: only a watch shows new objects. Returns the changes to a Cluster.
    pub(super) fn apply_ack(&mut self, ack: Ack, now: TimePoint) -> Change {
        let mut change = Change::default();
        match ack {
            Ack::MultiClusterService(object) => {
                let known = key_of(&object.metadata)
                    .and_then(|key| self.multi_cluster_services.get(&key))
                    .is_some_and(|known| is(&known.uid, &object.metadata));
                if known {
                    self.put_mcs(&object, None, now, &mut Change::default());
                }
            }
            Ack::Cluster(object) => {
                let name = object.metadata.name.as_deref().unwrap_or_default();
                let known = self
                    .clusters
                    .get(name)
                    .is_some_and(|known| !known.is_removed && is(&known.uid, &object.metadata));
                if known && !self.has_newer_cluster(&object) {
                    self.put_cluster(&object, now, &mut change);
                    self.note_ids(&mut change);
                }
            }
            Ack::DnsEndpoint(object) => self.dns.apply_ack(&object, now),
            Ack::Deleted(ObjectId::DnsEndpoint(key), uid) => {
                self.dns.apply_deleted_ack(&key, &uid);
            }
            Ack::Namespace(_)
            | Ack::Service(_)
            | Ack::Slice(_)
            | Ack::ServiceExport(_)
            | Ack::ServiceImport(_)
            | Ack::Deleted(..) => {}
        }
        change
    }
}

impl Index {
    /// Lists the annotations of a MultiClusterService whose values its Namespace gives, name and
    /// value.
    pub(crate) fn defaulted<'a>(&'a self, key: &'a ServiceKey) -> Vec<(&'a str, &'a str)> {
        let Some(view) = self.hub.multi_cluster_services.get(key) else {
            return Vec::new();
        };
        let defaults = self.hub.namespaces.defaults(&key.namespace);
        Effective::new(view.annotations.as_deref(), defaults)
            .defaulted()
            .collect()
    }
}

fn cluster_name(object: &api::Cluster) -> Option<ClusterName> {
    ClusterName::try_from(object.metadata.name.as_deref()?).ok()
}

/// Lists the services with a hostname.
fn named(all: &HashMap<ServiceKey, McsView>) -> impl Iterator<Item = ServiceKey> {
    let named = all
        .iter()
        .filter(|(_, mcs)| mcs.hostnames != RequestedHostnames::Nothing);
    named.map(|(key, _)| key.clone())
}

impl McsView {
    /// Whether it is terminating.
    pub fn is_deleting(&self) -> bool {
        self.deleting_since.is_some()
    }

    /// Returns the exposed ports of its spec; of the last readable one if it cannot be read.
    fn ports(&self) -> Option<&ExposedPorts> {
        let spec = self.spec.as_ref().ok();
        spec.map(|spec| &spec.ports).or(self.former_ports.as_ref())
    }

    /// Returns the load balancers of its status in the normal form of those of members.
    pub(crate) fn balancers(&self) -> Vec<LoadBalancerIngress> {
        ingress::normal(&self.ingress)
    }

    /// Whether both select the same clusters.
    fn selects_like(&self, other: &Self) -> bool {
        fn selections(view: &McsView) -> Option<[&ClusterSelection; 2]> {
            let spec = view.spec.as_ref().ok()?;
            Some([&spec.providers, &spec.consumers])
        }
        selections(self) == selections(other)
    }

    /// Whether the cluster provides or consumes it. One whose spec is not readable may concern
    /// every cluster.
    pub(super) fn concerns(&self, name: &ClusterName) -> bool {
        let spec = self.spec.as_ref();
        spec.map_or(true, |spec| {
            spec.providers.includes(name) || spec.consumers.includes(name)
        })
    }

    /// Whether it names ports of nodes as the way to its providers.
    fn is_by_node_ports(&self) -> bool {
        let way = self.reach.as_ref().and_then(DeclaredReach::way);
        way.is_some_and(Reach::is_by_node_ports)
    }

    /// Reads the annotations again, with other defaults of the Namespace. Returns true if their
    /// meaning changed.
    fn read_annotations(&mut self, defaults: Option<Defaults<'_>>) -> bool {
        let effective = Effective::new(self.annotations.as_deref(), defaults);
        let meta = &effective.meta;
        let (failover, mut misread) = Failover::of(meta);
        let reach = DeclaredReach::of_service(meta, |error| misread.push(error));
        self.hostnames = RequestedHostnames::of(meta, &mut |error| misread.push(error));
        effective.place(&mut misread);
        let is_same = self.failover == failover && self.reach == reach && self.misread == misread;
        (self.failover, self.reach, self.misread) = (failover, reach, misread);
        !is_same
    }

    fn read(
        object: &api::MultiClusterService,
        defaults: Option<Defaults<'_>>,
        now: TimePoint,
    ) -> Option<Self> {
        let meta = &object.metadata;
        let status = object.status.clone().unwrap_or_default();
        let annotations = meta.annotations.as_ref();
        let annotations = annotations.map(|all| defaults::named(all, &labels::VALIDATED));
        let annotations = annotations.filter(|all| !all.is_empty());
        let mut view = Self {
            uid: meta.uid.as_deref()?.into(),
            resource_version: meta.resource_version.as_deref()?.into(),
            created: meta.creation_timestamp.as_ref().map(|time| time.0),
            generation: meta.generation.unwrap_or_default(),
            annotations: annotations.map(Box::new),
            failover: Failover::default(),
            reach: None,
            hostnames: RequestedHostnames::default(),
            misread: FieldErrors::default(),
            deleting_since: meta.deletion_timestamp.is_some().then_some(now),
            finalizers: Finalizers::read(meta),
            spec: MultiClusterService::try_from(object),
            former_ports: None,
            conditions: status.conditions.unwrap_or_default(),
            ingress: status
                .load_balancer
                .and_then(|status| status.ingress)
                .unwrap_or_default(),
            status_writer: ownership::other_writer(meta, "status")
                .map(|manager| bounds::foreign(manager).into()),
        };
        view.read_annotations(defaults);
        Some(view)
    }
}
