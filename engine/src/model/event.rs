//! What the watches of the hub and of the members tell.
#![allow(
    clippy::large_enum_variant,
    reason = "most events are the large ones, and each is moved twice"
)]

use causeway::api;
use causeway::api::multicluster::{ServiceExport, ServiceImport};
use causeway::domain::KubernetesVersion;
use k8s_openapi::api::core::v1::{Namespace, Secret, Service};

use super::failure::Failure;
use super::hub_objects::{HubExport, HubImport};
use super::served::Served;
use super::slice::ObservedSlice;
use super::work::ServiceWork;

/// How often a member has been engaged: what an earlier engagement still says is not listened to.
pub type Generation = u64;

/// What a watch reports.
#[derive(Debug)]
pub enum Signal<K> {
    /// All objects that there are, from a complete list of the most recent state: replaces what was known.
    Listed(Vec<K>),
    /// The last list is a second one, requested later and over a new connection: it confirms what the first one lacked.
    Confirmed,
    /// So many objects are missing from a list that their deletions are suspended: they count as there until a second list.
    DeletionsSuspended(usize),
    /// The object was made or changed.
    Applied(K),
    /// The object is gone; this is its last state.
    Deleted(K),
    /// The API server accepted the watch: from here on changes arrive. Reported after every reconnection.
    Connected,
    /// The API server is not being watched; it is being tried again. Reported once, and again when the reason changes.
    Failed(Failure),
}

impl<K> Signal<K> {
    /// The same signal with other objects.
    pub fn map<T>(self, mut convert: impl FnMut(K) -> T) -> Signal<T> {
        match self {
            Self::Listed(objects) => Signal::Listed(objects.into_iter().map(convert).collect()),
            Self::Confirmed => Signal::Confirmed,
            Self::DeletionsSuspended(missing) => Signal::DeletionsSuspended(missing),
            Self::Applied(object) => Signal::Applied(convert(object)),
            Self::Deleted(object) => Signal::Deleted(convert(object)),
            Self::Connected => Signal::Connected,
            Self::Failed(failure) => Signal::Failed(failure),
        }
    }
}

/// What the hub says.
#[derive(Debug)]
pub enum HubEvent {
    /// MultiClusterServices.
    MultiClusterServices(Signal<api::MultiClusterService>),
    /// Services.
    Services(Signal<Service>),
    /// Clusters.
    Clusters(Signal<api::Cluster>),
    /// Secrets of one namespace that hold members' credentials.
    Secrets(String, Signal<Secret>),
    /// Whether it serves Karmada's Works; reported once it is known, and when it changes.
    WorksServed(bool),
    /// Karmada's Works that may propagate services.
    Works(Signal<ServiceWork>),
    /// Whether it serves ServiceExports; reported once it is known, and when it changes.
    ExportsServed(bool),
    /// ServiceExports on the hub itself.
    Exports(Signal<HubExport>),
    /// Whether it serves ServiceImports; reported once it is known, and when it changes.
    ImportsServed(bool),
    /// ServiceImports on the hub itself.
    Imports(Signal<HubImport>),
}

/// What a member says.
#[derive(Debug)]
pub enum MemberEvent {
    /// Who the member is, reported once on every connection before anything else.
    Identified(Identity),
    /// The same member gives another version now; its watches go on.
    VersionChanged(Identity),
    /// Its Services.
    Services(Signal<Service>),
    /// Its EndpointSlices, sources and copies.
    Slices(Signal<ObservedSlice>),
    /// Its Namespaces, without their specs.
    Namespaces(Signal<Namespace>),
    /// What of the Multi-Cluster Services API it serves; reported once it is known, and when it changes.
    Served(Served),
    /// Why it cannot be asked what it serves of that API.
    NotDiscovered(Failure),
    /// Its ServiceExports.
    Exports(Signal<ServiceExport>),
    /// Its ServiceImports.
    Imports(Signal<ServiceImport>),
    /// Whether it answers a small request; reported when that changes.
    Probed(Result<(), Failure>),
}

/// Who a member is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The UID of its kube-system namespace.
    pub uid: String,
    /// The version it gives, such as v1.36.3.
    pub version: String,
    /// The version by which it behaves.
    pub release: KubernetesVersion,
}
