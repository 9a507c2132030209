//! Objects of the API servers at one time: the inputs of the oracle, and causeway's objects.

use std::collections::BTreeMap;
use std::fmt::Debug;

use causeway::api::multicluster::{ServiceExport, ServiceImport, Version};
use causeway::api::{Cluster as ClusterObject, MultiClusterService, labels};
use futures::future::join_all;
use k8s_openapi::api::core::v1::{LoadBalancerStatus, Namespace, Node, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::{ListParams, ObjectMeta};
use kube::{Api, Client, Resource, ResourceExt as _};
use serde::de::DeserializeOwned;

use crate::{Cluster, Fleet};

/// Namespace and name.
pub type Key = (String, String);

/// The hub and its members.
pub(super) struct Snapshot {
    /// The UID of the hub's kube-system namespace, which every object of causeway's bears.
    pub(super) hub: String,
    pub(super) namespaces: Vec<String>,
    pub(super) exposed: BTreeMap<Key, MultiClusterService>,
    pub(super) services: BTreeMap<Key, Service>,
    /// Clusters of the members that are joined, by name.
    pub(super) joined: BTreeMap<String, ClusterObject>,
    /// All members, joined or not.
    pub(super) members: BTreeMap<String, Member>,
}

/// Objects of one member.
pub(super) struct Member {
    pub(super) namespaces: Vec<String>,
    pub(super) services: BTreeMap<Key, Service>,
    pub(super) slices: BTreeMap<Key, EndpointSlice>,
    pub(super) exports: BTreeMap<Key, ServiceExport>,
    pub(super) imports: BTreeMap<Key, ServiceImport>,
    pub(super) nodes: BTreeMap<String, Node>,
}

impl Snapshot {
    pub(super) async fn now(fleet: &Fleet, clients: &BTreeMap<String, Client>) -> Self {
        let hub = clients["hub"].clone();
        let everything = ListParams::default();
        let clusters = Api::<ClusterObject>::all(hub.clone());
        let (exposed, services, clusters, namespaces, members) = tokio::join!(
            all(Api::<MultiClusterService>::all(hub.clone())),
            all(Api::<Service>::all(hub.clone())),
            clusters.list(&everything),
            all(Api::<Namespace>::all(hub.clone())),
            join_all(fleet.members().iter().map(|member| of(member, clients))),
        );
        let joined = clusters.expect("the Clusters").items.into_iter();
        let system = &namespaces[&(String::new(), "kube-system".to_owned())];
        Self {
            hub: system.metadata.uid.clone().expect("a UID"),
            namespaces: names(namespaces),
            exposed,
            services,
            joined: joined.map(|object| (object.name_any(), object)).collect(),
            members: members.into_iter().collect(),
        }
    }

    /// Whether causeway made this object for this hub, and nobody has applied it since.
    pub(super) fn is_ours<K: Resource>(&self, object: &K) -> bool {
        self.bears_label(object) && !is_applied(object)
    }

    /// Whether it bears the label that says so.
    pub(super) fn bears_label<K: Resource>(&self, object: &K) -> bool {
        label(object, labels::HUB) == self.hub
    }
}

/// Whether somebody applied it: causeway never does.
pub(super) fn is_applied<K: Resource>(object: &K) -> bool {
    let mut entries = object.meta().managed_fields.iter().flatten();
    entries.any(|entry| entry.operation.as_deref() == Some("Apply"))
}

async fn of(member: &Cluster, clients: &BTreeMap<String, Client>) -> (String, Member) {
    let client = clients[member.name()].clone();
    let (namespaces, services, slices, exports, imports, nodes) = tokio::join!(
        all(Api::<Namespace>::all(client.clone())),
        all(Api::<Service>::all(client.clone())),
        all(Api::<EndpointSlice>::all(client.clone())),
        all(Api::<ServiceExport>::all_with(
            client.clone(),
            &Version::V1beta1
        )),
        all(Api::<ServiceImport>::all_with(
            client.clone(),
            &Version::V1beta1
        )),
        all(Api::<Node>::all(client)),
    );
    let held = Member {
        namespaces: names(namespaces),
        services,
        slices,
        exports,
        imports,
        nodes: nodes
            .into_iter()
            .map(|((_, name), node)| (name, node))
            .collect(),
    };
    (member.name().to_owned(), held)
}

fn names(namespaces: BTreeMap<Key, Namespace>) -> Vec<String> {
    namespaces.into_keys().map(|(_, name)| name).collect()
}

async fn all<K>(api: Api<K>) -> BTreeMap<Key, K>
where
    K: Resource + Clone + DeserializeOwned + Debug,
{
    let list = api.list(&ListParams::default()).await;
    let objects = list.unwrap_or_else(|e| panic!("cannot list: {e}")).items;
    objects
        .into_iter()
        .map(|object| (key(&object), object))
        .collect()
}

pub(super) fn key<K: Resource>(object: &K) -> Key {
    let meta = object.meta();
    let text = |field: &Option<String>| field.clone().unwrap_or_default();
    (text(&meta.namespace), text(&meta.name))
}

/// A label of an object; empty where it has none.
pub(super) fn label<'a, K: Resource>(object: &'a K, name: &str) -> &'a str {
    let all = object.meta().labels.as_ref();
    all.and_then(|all| all.get(name)).map_or("", String::as_str)
}

/// Returns an annotation of an object, if it has one.
pub(super) fn annotation<'a>(metadata: &'a ObjectMeta, name: &str) -> Option<&'a str> {
    let all = metadata.annotations.as_ref()?;
    all.get(name).map(String::as_str)
}

/// Whether a Service is of type LoadBalancer.
pub(super) fn is_balanced(service: &Service) -> bool {
    let spec = service.spec.as_ref();
    spec.and_then(|spec| spec.type_.as_deref()) == Some("LoadBalancer")
}

/// Lists the addresses in the status of a MultiClusterService.
pub(super) fn ingress(object: &MultiClusterService) -> impl Iterator<Item = &str> {
    let status = object.status.as_ref();
    addresses(status.and_then(|status| status.load_balancer.as_ref()))
}

/// Lists the addresses of the load balancer of a Service.
pub(super) fn balanced_at(service: &Service) -> impl Iterator<Item = &str> {
    let status = service.status.as_ref();
    addresses(status.and_then(|status| status.load_balancer.as_ref()))
}

fn addresses(balancer: Option<&LoadBalancerStatus>) -> impl Iterator<Item = &str> {
    let ingress = balancer.and_then(|balancer| balancer.ingress.as_deref());
    let ingress = ingress.unwrap_or_default().iter();
    ingress.filter_map(|one| one.ip.as_deref())
}

/// Whether the slice is a copy that was delivered from another cluster.
pub(super) fn is_copy(slice: &EndpointSlice) -> bool {
    label(slice, labels::SLICE_MANAGED_BY) == labels::SLICE_DISPATCHER
}
