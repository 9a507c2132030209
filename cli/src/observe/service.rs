//! What the hub and the members hold of one service: objects as they are stored, read with the rights of whoever asks.
//!
//! What explains, previews and moves services reads this; the engine takes it as complete lists ([`Snapshot::lists`]).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use causeway::api::condition;
use causeway::api::multicluster::{ServiceExport, ServiceImport};
use causeway::api::{Cluster, MultiClusterService, labels, ownership};
use causeway::domain::{ClusterName, KubernetesVersion, ServiceKey, imported_by};
use causeway_engine::lists::{HubLists, MemberLists, Members};
use causeway_engine::model::served::Served;
use causeway_engine::model::{Failure, FailureKind, Identity, ServiceWork, TimePoint};
use causeway_engine::reasons::Reason;
use k8s_openapi::api::core::v1::{Namespace, Node, Service};
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointSlice};
use k8s_openapi::jiff::Timestamp;
use kube::{Resource, ResourceExt as _};

use super::connect::ConnectError;
use crate::karmada::binding::Unapplied;
use crate::karmada::{self, Work};

/// What all clusters hold of a service.
#[derive(Clone, Debug)]
pub(crate) struct Snapshot {
    /// The service that is requested.
    pub key: ServiceKey,
    /// The UID of the hub's kube-system namespace, if the person may see it.
    pub hub_uid: Option<String>,
    pub mcs: Option<MultiClusterService>,
    /// The Service on the hub.
    pub service: Option<Service>,
    /// The Service that Karmada derives on the hub for an import.
    pub derived: Option<Service>,
    /// The ServiceImports on the hub itself.
    pub imports: Vec<ServiceKey>,
    pub clusters: Arc<Vec<Cluster>>,
    /// Karmada's Works of the service; `None` where the person may not see them.
    pub works: Option<Vec<Work>>,
    /// What Karmada says of its own propagation of the Service, where that fails.
    pub unapplied: Option<Unapplied>,
    /// What each member holds of the service, or why that is not known.
    pub members: BTreeMap<String, Result<Held, ConnectError>>,
}

/// What members hold of the clusterset, or why that is not known, by name.
pub(crate) type Readings = BTreeMap<String, Result<Held, ConnectError>>;

/// What a member holds.
#[derive(Clone, Debug)]
pub(crate) struct Held {
    pub identity: Identity,
    /// What of the Multi-Cluster Services API it serves, as far as the credentials on the hub may see it.
    pub served: Served,
    pub namespace: Option<Namespace>,
    /// The Service of the service's name, the derived one, and the companion.
    pub services: Vec<Service>,
    /// The slices of the first two.
    pub slices: Vec<EndpointSlice>,
    pub exports: Vec<ServiceExport>,
    pub imports: Vec<ServiceImport>,
    /// The Nodes, or why they cannot be read; `None` where they are not needed.
    pub nodes: Option<Result<Vec<Node>, Failure>>,
}

impl Snapshot {
    /// The Cluster of that name.
    pub(crate) fn cluster(&self, name: &str) -> Option<&Cluster> {
        let mut clusters = self.clusters.iter();
        clusters.find(|cluster| cluster.name_any() == name)
    }

    /// What the controller says of the MultiClusterService: `Reason (message)`.
    pub(crate) fn reported(&self) -> Option<String> {
        let conditions = self.mcs.as_ref()?.status.as_ref()?.conditions.as_ref()?;
        let ready = condition::find(conditions, condition::READY)?;
        Some(format!("{} ({})", ready.reason, ready.message))
    }

    /// As complete lists, by which the engine decides. Where the hub's identity may not be seen, what the members hold of
    /// causeway's shows it; where Karmada's Works may not be seen, the conditions of the controller do.
    pub(crate) fn lists(&self) -> (HubLists, Members) {
        let works = match &self.works {
            Some(works) => works.iter().map(of_work).collect(),
            None => self.reported_work().into_iter().collect(),
        };
        let hub = HubLists {
            uid: self
                .hub_uid
                .clone()
                .or_else(|| self.any_hub())
                .unwrap_or_default(),
            multi_cluster_services: self.mcs.iter().cloned().collect(),
            services: self.service.iter().chain(&self.derived).cloned().collect(),
            clusters: self.clusters.clone(),
            works: Some(works),
            imports: self.imports.clone(),
        };
        let members = self.members.iter().filter_map(|(name, held)| {
            let name = ClusterName::try_from(name.as_str()).ok()?;
            let lists = held.as_ref().map(Held::lists);
            let lists = lists.map_err(|why| Failure::new(FailureKind::Other, why.to_string()));
            Some((name, lists))
        });
        (hub, members.collect())
    }

    /// A Work that may not be seen, where the controller reports that there is one.
    fn reported_work(&self) -> Option<ServiceWork> {
        let reported = self.reported()?;
        reported
            .starts_with(Reason::ManagedByKarmada.as_str())
            .then(|| ServiceWork {
                id: "which you may not list".into(),
                service: Some(self.key.clone()),
            })
    }

    /// A hub for which causeway wrote into a member.
    fn any_hub(&self) -> Option<String> {
        let read = self.members.values().flatten();
        let services = read.flat_map(|held| &held.services);
        let mut hubs = services.filter_map(|service| ownership::managing_hub(&service.metadata));
        hubs.next().map(ToOwned::to_owned)
    }

    /// What a person types to have causeway manage the service.
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
        self.is_own(ownership::managing_hub(object.meta()))
    }

    fn is_own(&self, hub: Option<&str>) -> bool {
        hub.is_some_and(|hub| self.hub_uid.as_ref().is_none_or(|own| own == hub))
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
                && ownership::source_member(slice.meta()) == Some(provider)
        })
    }
}

fn of_work(work: &Work) -> ServiceWork {
    ServiceWork {
        id: work.id().into(),
        service: work.manages_service().then(|| work.service()).flatten(),
    }
}

/// Returns the identity of a member that is not identified.
pub(super) fn no_identity() -> Identity {
    Identity {
        uid: String::new(),
        version: String::new(),
        release: KubernetesVersion::default(),
    }
}

impl Default for Held {
    /// Nothing, of a member that is not identified.
    fn default() -> Self {
        Self {
            identity: no_identity(),
            served: Served::default(),
            namespace: None,
            services: Vec::new(),
            slices: Vec::new(),
            exports: Vec::new(),
            imports: Vec::new(),
            nodes: None,
        }
    }
}

impl Held {
    fn lists(&self) -> MemberLists {
        MemberLists {
            identity: self.identity.clone(),
            served: self.served.clone(),
            namespaces: self.namespace.iter().cloned().collect(),
            services: self.services.clone(),
            slices: self.slices.clone(),
            exports: self.exports.clone(),
            imports: self.imports.clone(),
            nodes: self.nodes.clone(),
        }
    }

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
        self.slices_of(service).filter(|slice| is_source(slice))
    }
}

/// The time, by both clocks.
pub(crate) fn now() -> TimePoint {
    TimePoint {
        instant: Instant::now(),
        wall: Timestamp::now(),
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

/// Whether the slice is of its cluster's own endpoints: no multi-cluster controller imported it.
pub(crate) fn is_source(slice: &EndpointSlice) -> bool {
    fn value<'a>(all: &'a BTreeMap<String, String>) -> impl Fn(&str) -> Option<&'a str> {
        move |name| all.get(name).map(String::as_str)
    }
    imported_by(value(slice.labels()), value(slice.annotations())).is_none()
}

/// Whether the slice is managed as copies are.
pub(crate) fn is_copy(slice: &EndpointSlice) -> bool {
    let manager = slice.labels().get(labels::SLICE_MANAGED_BY);
    manager.is_some_and(|manager| manager == labels::SLICE_DISPATCHER)
}
