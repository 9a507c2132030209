//! All that an explanation rests on: objects as they are stored.

use std::collections::BTreeMap;

use causeway::api::multicluster::{ServiceExport, ServiceImport};
use causeway::api::{Cluster, MultiClusterService, labels, ownership};
use causeway::domain::{ServiceKey, imported_by};
use k8s_openapi::api::core::v1::{Namespace, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::jiff::Timestamp;
use kube::{Resource, ResourceExt as _};

use crate::lease::Controller;

/// What is so in all clusters.
#[derive(Debug)]
pub(super) struct Scene {
    /// The service that is asked about.
    pub key: ServiceKey,
    pub now: Timestamp,
    /// The UID of the hub's kube-system namespace, if the person may see it.
    pub hub_uid: Option<String>,
    pub wish: Option<MultiClusterService>,
    /// The Service on the hub.
    pub service: Option<Service>,
    pub clusters: Vec<Cluster>,
    pub controller: Controller,
    /// What each member holds of the service, or why that is not known.
    pub members: BTreeMap<String, Result<Held, String>>,
}

/// What a member holds.
#[derive(Clone, Debug, Default)]
pub(super) struct Held {
    pub namespace: Option<Namespace>,
    /// The Service of the service's name, and the derived one.
    pub services: Vec<Service>,
    /// The slices of both.
    pub slices: Vec<EndpointSlice>,
    pub exports: Vec<ServiceExport>,
    pub imports: Vec<ServiceImport>,
}

impl Scene {
    /// The Cluster of that name.
    pub(super) fn cluster(&self, name: &str) -> Option<&Cluster> {
        let mut clusters = self.clusters.iter();
        clusters.find(|cluster| cluster.name_any() == name)
    }

    /// What a member holds, if it was read.
    pub(super) fn held(&self, name: &str) -> Option<&Held> {
        self.members.get(name)?.as_ref().ok()
    }

    /// The members that hold something of the service that causeway wrote for this hub, as far as they were read.
    pub(super) fn holders(&self) -> impl Iterator<Item = &str> {
        let read = self.members.iter();
        let read = read.filter_map(|(name, held)| Some((name.as_str(), held.as_ref().ok()?)));
        let holders = read.filter(|(_, held)| self.wrote_any(held));
        holders.map(|(name, _)| name)
    }

    fn wrote_any(&self, held: &Held) -> bool {
        held.services.iter().any(|one| self.is_ours(one))
            || held.exports.iter().any(|one| self.is_ours(one))
            || held.imports.iter().any(|one| self.is_ours(one))
            || held
                .slices
                .iter()
                .any(|one| is_copy(one) && self.is_ours(one))
    }

    /// Whether causeway wrote the object, for this hub.
    pub(super) fn is_ours<K: Resource>(&self, object: &K) -> bool {
        self.is_own(ownership::keeper(object.meta()))
    }

    fn is_own(&self, hub: Option<&str>) -> bool {
        hub.is_some_and(|hub| self.hub_uid.as_ref().is_none_or(|own| own == hub))
    }

    /// Whether the object is no causeway's, of this hub or of another.
    pub(super) fn is_a_persons<K: Resource>(&self, object: &K) -> bool {
        ownership::keeper(object.meta()).is_none()
    }

    /// The copies that a member holds for that Service, from that cluster.
    pub(super) fn copies<'a>(
        &'a self,
        held: &'a Held,
        service: &'a str,
        provider: &'a str,
    ) -> impl Iterator<Item = &'a EndpointSlice> {
        held.slices_of(service).filter(move |slice| {
            is_copy(slice)
                && self.is_ours(*slice)
                && slice
                    .labels()
                    .get(labels::SOURCE_CLUSTER)
                    .map(String::as_str)
                    == Some(provider)
        })
    }
}

impl Held {
    /// The Service of that name.
    pub(super) fn service(&self, name: &str) -> Option<&Service> {
        self.services.iter().find(|one| one.name_any() == name)
    }

    /// The slices of the Service of that name.
    pub(super) fn slices_of<'a>(
        &'a self,
        service: &'a str,
    ) -> impl Iterator<Item = &'a EndpointSlice> {
        self.slices.iter().filter(move |slice| {
            slice.labels().get(labels::SERVICE_NAME).map(String::as_str) == Some(service)
        })
    }

    /// The slices that back the Service of that name with this cluster's own endpoints.
    pub(super) fn sources<'a>(
        &'a self,
        service: &'a str,
    ) -> impl Iterator<Item = &'a EndpointSlice> {
        self.slices_of(service).filter(|slice| {
            let value = |all: &'a BTreeMap<String, String>| {
                move |name: &str| all.get(name).map(String::as_str)
            };
            let by = imported_by(value(slice.labels()), value(slice.annotations()));
            by.is_none()
        })
    }
}

/// Whether the slice is managed as copies are.
fn is_copy(slice: &EndpointSlice) -> bool {
    let manager = slice.labels().get(labels::SLICE_MANAGED_BY);
    manager.is_some_and(|manager| manager == labels::SLICE_DISPATCHER)
}
