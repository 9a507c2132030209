//! Events from the watches of the hub and of the members.
#![allow(
    clippy::large_enum_variant,
    reason = "most events are the large ones, and each is moved twice"
)]

use std::hash::Hash;
use std::sync::Arc;

use causeway::api::multicluster::{ServiceExport, ServiceImport};
use causeway::api::{self, DNSEndpoint};
use causeway::domain::KubernetesVersion;
use causeway::domain::path::PathLease;
use k8s_openapi::api::core::v1::{Namespace, Secret, Service};

use super::cluster_id::ReportedId;
use super::failure::Failure;
use super::hub_objects::{HubExport, HubImport, HubNamespace};
use super::map::HashSet;
use super::node::ObservedNode;
use super::profile::Profile;
use super::served::Served;
use super::slice::{ObservedSlice, ServiceNames, SliceScope};
use super::work::ServiceWork;

/// Number of times that a member has been engaged. Events of an earlier engagement are ignored.
pub type Generation = u64;

/// Number of times that this process has begun to write.
pub type Term = u64;

/// Report of a watch.
#[derive(Debug)]
pub enum Signal<K> {
    /// All objects that exist, from a complete list of the most recent state: replaces the observed
    /// objects.
    Listed(Vec<K>),
    /// The last list is a second one, requested later and over a new connection: it confirms that
    /// the objects which the first one lacked are deleted.
    Confirmed,
    /// The last list began after this process had begun to write for that time: whatever an earlier
    /// leader saw, or a later state, was reported.
    Current(Term),
    /// Number of objects that a list lacks, so many that their deletions are suspended: they count
    /// as present until a second list.
    DeletionsSuspended(usize),
    /// The object was created or changed.
    Applied(K),
    /// The object was deleted; this is its last state.
    Deleted(K),
    /// The API server accepted the watch, so changes arrive. Reported after every reconnection.
    Connected,
    /// The watch failed and is being retried. Reported once, and again when the reason changes.
    Failed(Failure),
}

impl<K> Signal<K> {
    /// Converts the objects of the signal.
    pub fn map<T>(self, mut convert: impl FnMut(K) -> T) -> Signal<T> {
        match self {
            Self::Listed(objects) => Signal::Listed(objects.into_iter().map(convert).collect()),
            Self::Confirmed => Signal::Confirmed,
            Self::Current(term) => Signal::Current(term),
            Self::DeletionsSuspended(missing) => Signal::DeletionsSuspended(missing),
            Self::Applied(object) => Signal::Applied(convert(object)),
            Self::Deleted(object) => Signal::Deleted(convert(object)),
            Self::Connected => Signal::Connected,
            Self::Failed(failure) => Signal::Failed(failure),
        }
    }

    /// Returns the reported objects that exist, and the keys of those that do not: a list reports
    /// that the `known` objects which it lacks are gone.
    pub(crate) fn split<I: Eq + Hash>(
        self,
        known: impl Iterator<Item = I>,
        key: impl Fn(&K) -> Option<I>,
    ) -> (Vec<K>, HashSet<I>) {
        match self {
            Self::Listed(objects) => {
                let mut gone: HashSet<I> = known.collect();
                for key in objects.iter().filter_map(key) {
                    gone.remove(&key);
                }
                (objects, gone)
            }
            Self::Applied(object) => (vec![object], HashSet::default()),
            Self::Deleted(object) => (Vec::new(), key(&object).into_iter().collect()),
            _ => (Vec::new(), HashSet::default()),
        }
    }
}

/// Event of the hub.
#[derive(Debug)]
pub enum HubEvent {
    /// MultiClusterServices.
    MultiClusterServices(Signal<api::MultiClusterService>),
    /// Services.
    Services(Signal<Service>),
    /// Clusters.
    Clusters(Signal<api::Cluster>),
    /// Namespaces.
    Namespaces(Signal<HubNamespace>),
    /// Secrets of one namespace that hold members' credentials.
    Secrets(String, Signal<Secret>),
    /// Whether the hub serves Karmada's Works; reported once this is known, and when it changes.
    WorksServed(bool),
    /// Karmada's Works that may propagate services.
    Works(Signal<ServiceWork>),
    /// Whether the hub serves ServiceExports; reported once this is known, and when it changes.
    ExportsServed(bool),
    /// ServiceExports on the hub itself.
    Exports(Signal<HubExport>),
    /// Whether the hub serves ServiceImports; reported once this is known, and when it changes.
    ImportsServed(bool),
    /// ServiceImports on the hub itself.
    Imports(Signal<HubImport>),
    /// Whether the hub serves DNSEndpoints; reported once this is known, and when it changes.
    DnsEndpointsServed(bool),
    /// DNSEndpoints that causeway wrote.
    DnsEndpoints(Signal<DNSEndpoint>),
    /// Whether the hub serves ClusterProfiles, of which those of a namespace are watched; reported
    /// once this is known, and when it changes.
    ProfilesServed(String, bool),
    /// ClusterProfiles of one namespace.
    Profiles(String, Signal<Profile>),
}

/// Event of a member.
#[derive(Debug)]
pub enum MemberEvent {
    /// Identity of the member, reported once on every connection before anything else.
    Identified(Identity),
    /// The same member reports another version; its watches go on.
    VersionChanged(Identity),
    /// Id of the member in its clusterset, reported once it is known, and when it changes.
    ClusterId(ReportedId),
    /// Its Services.
    Services(Signal<Service>),
    /// Other watches of its EndpointSlices begin, of that scope.
    SliceScope(SliceScope),
    /// Its EndpointSlices, sources and copies; of the scope [`SliceScope::Named`], those that
    /// Kubernetes makes for these Services.
    Slices(Signal<ObservedSlice>),
    /// In the scope [`SliceScope::Named`], the EndpointSlices that Kubernetes does not make.
    OtherSlices(Signal<ObservedSlice>),
    /// The watch of [`MemberEvent::Slices`] covers these names now. The slices are a complete list
    /// for the names that it did not cover before.
    Rescoped(Arc<ServiceNames>, Vec<ObservedSlice>),
    /// Its Namespaces, without their specs.
    Namespaces(Signal<Namespace>),
    /// Its Nodes, where [`Index::needs_nodes`](crate::observed::Index::needs_nodes).
    Nodes(Signal<ObservedNode>),
    /// Reports of causeway-agent on paths to other clusters, where
    /// [`Needs::paths`]. `None` for other Leases.
    Paths(Signal<Option<PathLease>>),
    /// Versions and fields of the Multi-Cluster Services API that it serves; reported once they are
    /// known, and when they change.
    Served(Served),
    /// Reason why discovery of that API fails.
    NotDiscovered(Failure),
    /// Its ServiceExports.
    Exports(Signal<ServiceExport>),
    /// Its ServiceImports.
    Imports(Signal<ServiceImport>),
    /// Whether it answers a small request; reported when that changes.
    Probed(Result<(), Failure>),
}

/// What is to be read of a member beside what is always read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    /// Its Nodes.
    pub nodes: bool,
    /// Reports of causeway-agent on paths to other clusters.
    pub paths: bool,
}

/// Identity of a member.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// UID of its kube-system namespace.
    pub uid: String,
    /// Version that it reports, such as v1.36.3.
    pub version: String,
    /// Kubernetes version that its behaviour follows.
    pub release: KubernetesVersion,
}
