//! The copies of a provider's EndpointSlices that a consumer should hold.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use causeway::api::labels;
use causeway::domain::{ClusterName, ServiceKey, ServicePort, short_hash};
use k8s_openapi::api::discovery::v1 as discovery;
use k8s_openapi::api::discovery::v1::{
    Endpoint, EndpointConditions, EndpointHints, EndpointSlice, ForNode, ForZone,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use string_cache::DefaultAtom;

use crate::index::member::Member;
use crate::index::slice::{
    AddressType, ContentHash, CopiedSlice, Path, SliceManager, SlicePort, SourceEndpoint,
    SourceSlice, SourceVersion, content_hash,
};

/// A copy that a consumer should hold.
#[derive(Clone, Debug)]
pub struct WantedCopy {
    /// The version of the source that it is made from.
    pub source: SourceVersion,
    /// The object, without identity.
    pub slice: EndpointSlice,
    /// A hash of what it holds.
    pub content: ContentHash,
}

/// On whose behalf copies are made.
#[derive(Clone, Copy, Debug)]
pub struct Origin<'a> {
    /// The hub, by the UID of its kube-system namespace.
    pub hub: &'a str,
    /// The owner, `<kind>/<uid>`.
    pub owner: &'a str,
    /// The service.
    pub key: &'a ServiceKey,
    /// Which way the copies serve.
    pub path: Path,
    /// The name of the Service that they belong to.
    pub service: &'a str,
    /// Whether they bear the label by which clusterset tools find the endpoints of a service.
    pub multicluster: bool,
    /// The import that they belong to.
    pub import: Option<&'a OwnerReference>,
}

/// A consumer, as far as its copies are concerned.
#[derive(Clone, Copy, Debug)]
pub struct Consumer<'a> {
    /// Its name.
    pub name: &'a ClusterName,
    /// The exposed ports of its Service, under its own names: kube-proxy joins Service and slice by name.
    pub ports: &'a [ServicePort],
    /// The traffic preference of its Service.
    pub traffic_distribution: Option<&'a str>,
}

/// A provider, as far as copies of its slices are concerned.
#[derive(Clone, Debug)]
pub struct Provider<'a> {
    /// Its name.
    pub name: &'a ClusterName,
    /// What is known of it; `None` where it is not known what it provides.
    pub member: Option<&'a Member>,
    /// The ports of its Service.
    pub ports: Vec<ServicePort>,
    /// Whether every slice of the service is a source, or only those that Kubernetes keeps.
    pub all_sources: bool,
}

/// Copies that stay as they are, because it is not known what they should be.
#[derive(Clone, Debug, Default)]
pub struct Held {
    /// Whether all of them stay.
    pub all: bool,
    /// Clusters of which it is unknown what they provide.
    pub clusters: BTreeSet<ClusterName>,
    /// Copies of slices that do not fit their own cluster's Service: its controllers are about to change them.
    pub copies: BTreeSet<Arc<str>>,
}

/// The copies that one member should hold one way, by name, and those that stay as they are.
#[derive(Clone, Debug, Default)]
pub struct CopyWish {
    /// The copies, by name.
    pub wanted: BTreeMap<Arc<str>, WantedCopy>,
    /// The copies that stay as they are.
    pub held: Held,
}

impl CopyWish {
    /// No copy changes.
    pub fn hold_all() -> Self {
        let held = Held {
            all: true,
            ..Held::default()
        };
        Self {
            held,
            ..Self::default()
        }
    }

    /// Whether a copy that is there is to go.
    pub fn rejects(&self, name: &Arc<str>, copy: &CopiedSlice) -> bool {
        let of_unknown = |cluster: &DefaultAtom| self.held.clusters.contains(&**cluster);
        let held = self.held.all
            || self.held.copies.contains(name)
            || copy.source_cluster.as_ref().is_some_and(of_unknown);
        !held && !self.wanted.contains_key(name)
    }
}

/// The copies of these providers' slices that a consumer should hold, and those that stay as they are.
pub fn copies<'a>(
    origin: &Origin<'_>,
    consumer: &Consumer<'_>,
    providers: impl Iterator<Item = &'a Provider<'a>>,
) -> CopyWish {
    let mut wish = CopyWish::default();
    for provider in providers {
        let Some(member) = provider.member else {
            wish.held.clusters.insert(provider.name.clone());
            continue;
        };
        let sources = member.sources(origin.key);
        for (name, source) in sources.filter(|(_, source)| is_used(source, provider.all_sources)) {
            let copy_name = copy_name(origin.path, provider.name, name, source.address_type);
            if is_behind(source, &provider.ports, consumer.ports) {
                wish.held.copies.insert(copy_name);
            } else if let Some(copy) = copy(origin, provider, &copy_name, source, consumer) {
                wish.wanted.insert(copy_name, copy);
            }
        }
    }
    wish
}

fn is_used(source: &SourceSlice, all: bool) -> bool {
    (source.manager != SliceManager::Other || all) && source.address_type != AddressType::Other
}

/// Whether the provider's controllers have not caught up with a change of its Service's ports: the slice has a port of a
/// name that the Service has not, and lacks one that is to be offered.
fn is_behind(
    source: &SourceSlice,
    provider_ports: &[ServicePort],
    offered: &[ServicePort],
) -> bool {
    let named = |port: &SlicePort, service_port: &ServicePort| {
        *service_port.name == *port.name && service_port.id.protocol == port.protocol
    };
    let is_unknown = |port: &SlicePort| !provider_ports.iter().any(|known| named(port, known));
    let is_missing = |wanted: &ServicePort| {
        let mut here = provider_ports.iter().filter(|known| known.id == wanted.id);
        !here.any(|known| source.ports.iter().any(|port| named(port, known)))
    };
    source.manager == SliceManager::Pods
        && source.ports.iter().any(is_unknown)
        && offered.iter().any(is_missing)
}

/// The copy of one source, or `None` where it has ports and none of them is exposed.
fn copy(
    origin: &Origin<'_>,
    provider: &Provider<'_>,
    copy_name: &str,
    source: &SourceSlice,
    consumer: &Consumer<'_>,
) -> Option<WantedCopy> {
    let ports: Vec<_> = source
        .ports
        .iter()
        .filter_map(|port| translated(port, &provider.ports, consumer.ports))
        .collect();
    if ports.is_empty() && !source.ports.is_empty() {
        return None;
    }
    let slice = EndpointSlice {
        metadata: metadata(origin, provider.name, copy_name, source),
        address_type: source.address_type.as_str().to_owned(),
        endpoints: source
            .endpoints()
            .filter(|endpoint| endpoint.addresses().all(is_routable))
            .map(|one| endpoint(&one, provider.name, consumer))
            .collect(),
        ports: Some(ports),
    };
    let content = content_hash(&slice);
    Some(WantedCopy {
        source: source.version.clone(),
        slice,
        content,
    })
}

fn metadata(
    origin: &Origin<'_>,
    provider: &ClusterName,
    copy_name: &str,
    source: &SourceSlice,
) -> ObjectMeta {
    let mut labels = vec![
        (labels::SERVICE_NAME, origin.service.to_owned()),
        (
            labels::SLICE_MANAGED_BY,
            labels::SLICE_DISPATCHER.to_owned(),
        ),
        (labels::SOURCE_CLUSTER, provider.to_string()),
        (labels::MANAGED_BY, labels::MANAGER.to_owned()),
        (labels::HUB, origin.hub.to_owned()),
    ];
    if origin.multicluster {
        let name = origin.key.name.to_string();
        labels.push((labels::MULTICLUSTER_SERVICE_NAME, name));
    }
    let labels = labels.into_iter();
    let annotations = [
        (labels::PROVISION_CLUSTER, provider.to_string()),
        (labels::OWNER, origin.owner.to_owned()),
        (labels::SOURCE, source.version.to_string()),
    ];
    ObjectMeta {
        name: Some(copy_name.to_owned()),
        namespace: Some(origin.key.namespace.to_string()),
        labels: Some(
            labels
                .map(|(name, value)| (name.to_owned(), value))
                .collect(),
        ),
        owner_references: origin.import.map(|import| vec![import.clone()]),
        annotations: Some(
            annotations
                .map(|(name, value)| (name.to_owned(), value))
                .into(),
        ),
        ..ObjectMeta::default()
    }
}

/// A port of a source, under the name that the consumer's Service has for it: ports fit by protocol and number.
fn translated(
    port: &SlicePort,
    provider_ports: &[ServicePort],
    consumer_ports: &[ServicePort],
) -> Option<discovery::EndpointPort> {
    let is_it = |candidate: &&ServicePort| {
        *candidate.name == *port.name && candidate.id.protocol == port.protocol
    };
    let id = provider_ports.iter().find(is_it)?.id;
    let local = consumer_ports.iter().find(|candidate| candidate.id == id)?;
    Some(discovery::EndpointPort {
        name: Some(local.name.to_string()),
        protocol: Some(port.protocol.to_string()),
        port: port.number,
        app_protocol: port.app_protocol.as_deref().map(ToOwned::to_owned),
    })
}

/// A consumer that is the provider itself knows the endpoint's node; anywhere else the name would mean another node.
fn endpoint(
    source: &SourceEndpoint<'_>,
    provider: &ClusterName,
    consumer: &Consumer<'_>,
) -> Endpoint {
    let [ready, serving, terminating] = source.conditions;
    let preference = consumer.traffic_distribution;
    let node = source.node.filter(|_| provider == consumer.name);
    Endpoint {
        addresses: source
            .addresses()
            .map(|address| address.to_string())
            .collect(),
        conditions: Some(EndpointConditions {
            ready,
            serving,
            terminating,
        }),
        hostname: source.hostname.map(ToOwned::to_owned),
        zone: source.zone.map(ToOwned::to_owned),
        node_name: node.map(ToOwned::to_owned),
        hints: preference.map(|preference| hints(source, provider, node, preference)),
        ..Endpoint::default()
    }
}

/// Under a preference every endpoint bears hints: one without would switch the preference off for the whole Service.
fn hints(
    source: &SourceEndpoint<'_>,
    provider: &ClusterName,
    node: Option<&str>,
    preference: &str,
) -> EndpointHints {
    let remote = format!("{provider}.remote");
    let zone = source.zone.unwrap_or(&remote).to_owned();
    let node = node.unwrap_or(&remote).to_owned();
    let by_node = preference == "PreferSameNode";
    EndpointHints {
        for_zones: Some(vec![ForZone { name: zone }]),
        for_nodes: by_node.then(|| vec![ForNode { name: node }]),
    }
}

/// Whether traffic to that address can leave the node: a member must not point others at themselves.
fn is_routable(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(v4) => {
            !(v4.is_loopback()
                || v4.is_link_local()
                || v4.is_multicast()
                || v4.is_unspecified()
                || v4.is_broadcast())
        }
        IpAddr::V6(v6) => {
            !(v6.is_loopback()
                || v6.is_unicast_link_local()
                || v6.is_multicast()
                || v6.is_unspecified())
        }
    }
}

const NAME_MAX: usize = 253;
const HASH_HEX: usize = 8;

/// The name of a copy: it depends on where the copy comes from and on nothing else that is there.
pub fn copy_name(
    path: Path,
    provider: &ClusterName,
    slice: &str,
    address_type: AddressType,
) -> Arc<str> {
    let (prefix, path) = match path {
        Path::Native => ("", "native"),
        Path::Clusterset => ("imported-", "clusterset"),
    };
    let hash = short_hash([path, provider.as_str(), slice, address_type.as_str()]);
    let room = NAME_MAX - HASH_HEX - 2 - provider.as_str().len() - prefix.len();
    let cut = slice
        .get(..slice.len().min(room))
        .unwrap_or_default()
        .trim_end_matches(['-', '.']);
    format!("{prefix}{provider}-{cut}-{hash}").into()
}

#[cfg(test)]
mod tests;
