//! All that an explanation rests on: objects as they are stored.

use std::collections::BTreeMap;

use causeway::api::condition::{self, reason};
use causeway::api::multicluster::{ServiceExport, ServiceImport};
use causeway::api::{Cluster, MultiClusterService, labels, ownership};
use causeway::domain::{ServiceKey, imported_by};
use k8s_openapi::api::core::v1::{Namespace, Service};
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointSlice};
use k8s_openapi::jiff::Timestamp;
use kube::{Resource, ResourceExt as _};

use crate::karmada::binding::Unapplied;
use crate::karmada::{self, Work};
use crate::lease::Controller;
use crate::reach::ReachError;

/// What is so in all clusters.
#[derive(Debug)]
pub(crate) struct Scene {
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
    /// Karmada's Works of the service; `None` where the person may not see them.
    pub works: Option<Vec<Work>>,
    /// What Karmada says of its own propagation of the Service, where that fails.
    pub unapplied: Option<Unapplied>,
    /// What each member holds of the service, or why that is not known.
    pub members: BTreeMap<String, Result<Held, ReachError>>,
}

/// What a member holds.
#[derive(Clone, Debug, Default)]
pub(crate) struct Held {
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
    pub(crate) fn cluster(&self, name: &str) -> Option<&Cluster> {
        let mut clusters = self.clusters.iter();
        clusters.find(|cluster| cluster.name_any() == name)
    }

    /// What a member holds, if it was read.
    pub(crate) fn held(&self, name: &str) -> Option<&Held> {
        self.members.get(name)?.as_ref().ok()
    }

    /// The members that hold something of the service that causeway wrote for this hub, as far as they were read.
    pub(crate) fn holders(&self) -> impl Iterator<Item = &str> {
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

    /// What the controller says of the MultiClusterService: `Reason (message)`.
    pub(crate) fn told(&self) -> Option<String> {
        let conditions = self.wish.as_ref()?.status.as_ref()?.conditions.as_ref()?;
        let ready = condition::find(conditions, condition::READY)?;
        Some(format!("{} ({})", ready.reason, ready.message))
    }

    /// Whether Karmada's own controllers carry the service; where its Works may not be seen, as causeway's controller says.
    pub(crate) fn is_carried_by_karmada(&self) -> bool {
        let told = || {
            let told = self.told();
            told.is_some_and(|told| told.starts_with(reason::MANAGED_BY_KARMADA))
        };
        match &self.works {
            Some(works) => works.iter().any(Work::carries),
            None => told(),
        }
    }

    /// What a person types to have causeway carry the service.
    pub(crate) fn adopt(&self) -> String {
        format!(
            "kubectl mcs adopt {} -n {}",
            self.key.name, self.key.namespace
        )
    }

    /// The slices of a provider that Karmada dispatched into a member.
    pub(crate) fn dispatched<'a>(
        &'a self,
        held: &'a Held,
        provider: &'a str,
    ) -> impl Iterator<Item = &'a EndpointSlice> {
        let slices = held.slices_of(&self.key.name);
        slices.filter(move |slice| {
            let from = slice.annotations().get(labels::PROVISION_CLUSTER);
            karmada::is_dispatched(slice) && from.is_some_and(|from| from == provider)
        })
    }

    /// Whether causeway wrote the object, for this hub.
    pub(crate) fn is_ours<K: Resource>(&self, object: &K) -> bool {
        self.is_own(ownership::keeper(object.meta()))
    }

    fn is_own(&self, hub: Option<&str>) -> bool {
        hub.is_some_and(|hub| self.hub_uid.as_ref().is_none_or(|own| own == hub))
    }

    /// Whether the object is no causeway's, of this hub or of another.
    pub(crate) fn is_a_persons<K: Resource>(&self, object: &K) -> bool {
        ownership::keeper(object.meta()).is_none()
    }

    /// The copies that a member holds for that Service, from that cluster.
    pub(crate) fn copies<'a>(
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
    pub(crate) fn service(&self, name: &str) -> Option<&Service> {
        self.services.iter().find(|one| one.name_any() == name)
    }

    /// The slices of the Service of that name.
    pub(crate) fn slices_of<'a>(
        &'a self,
        service: &'a str,
    ) -> impl Iterator<Item = &'a EndpointSlice> {
        self.slices.iter().filter(move |slice| {
            slice.labels().get(labels::SERVICE_NAME).map(String::as_str) == Some(service)
        })
    }

    /// The slices that back the Service of that name with this cluster's own endpoints.
    pub(crate) fn sources<'a>(
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

/// Whether an endpoint is ready; where nobody says so, it is.
pub(crate) fn is_ready(endpoint: &Endpoint) -> bool {
    let conditions = endpoint.conditions.as_ref();
    conditions.and_then(|all| all.ready).unwrap_or(true)
}

/// Whether a slice has an endpoint of the same addresses.
pub(crate) fn has(slice: &EndpointSlice, endpoint: &Endpoint) -> bool {
    let mut all = slice.endpoints.iter();
    all.any(|one| one.addresses == endpoint.addresses)
}

/// Whether the slice is managed as copies are.
pub(crate) fn is_copy(slice: &EndpointSlice) -> bool {
    let manager = slice.labels().get(labels::SLICE_MANAGED_BY);
    manager.is_some_and(|manager| manager == labels::SLICE_DISPATCHER)
}
