//! EndpointSlices as the index keeps them: sources in a compact form, copies as an identity and a hash.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use causeway::api::labels;
use causeway::domain::{ClusterName, Protocol, ServiceKey};
use k8s_openapi::api::discovery::v1 as discovery;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use sha2::{Digest as _, Sha256};

/// One EndpointSlice of a member.
#[derive(Clone, Debug)]
pub struct ObservedSlice {
    /// Its namespace.
    pub namespace: Arc<str>,
    /// Its name.
    pub name: Arc<str>,
    /// What it is to causeway.
    pub role: SliceRole,
}

/// What an EndpointSlice is to causeway.
#[derive(Clone, Debug)]
pub enum SliceRole {
    /// It may back a Service in other clusters.
    Source(ServiceKey, Arc<SourceSlice>),
    /// Some hub's causeway wrote it.
    Copy(ServiceKey, CopiedSlice),
    /// Neither.
    Other,
}

/// A slice that a provider's own controllers, or a person, wrote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceSlice {
    /// Which version of which object this is.
    pub version: SourceVersion,
    /// IPv4, IPv6 or FQDN.
    pub address_type: Box<str>,
    /// Who keeps it.
    pub manager: SliceManager,
    /// Its endpoints.
    pub endpoints: Box<[SourceEndpoint]>,
    /// Its ports; `None` for a number means every port.
    pub ports: Box<[SlicePort]>,
}

/// Who keeps a source slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SliceManager {
    /// Kubernetes, from pods: its port names are those of the Service, but for the moment in which they change.
    Pods,
    /// Kubernetes, from an Endpoints object.
    Mirroring,
    /// Somebody else.
    Other,
}

/// What is carried of an endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceEndpoint {
    /// Its addresses, of the slice's address type.
    pub addresses: Box<[Box<str>]>,
    /// Its host name within a headless service.
    pub hostname: Option<Box<str>>,
    /// The zone it is in.
    pub zone: Option<Box<str>>,
    /// The node it is on.
    pub node: Option<Box<str>>,
    /// Ready, serving and terminating, each as it was given.
    pub conditions: [Option<bool>; 3],
}

/// A port of a slice: the name is that of the port in the same cluster's Service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlicePort {
    /// The name; empty for the only, unnamed port.
    pub name: Box<str>,
    /// The protocol.
    pub protocol: Protocol,
    /// The number that the pods listen on.
    pub number: Option<i32>,
    /// The application protocol.
    pub app_protocol: Option<Box<str>>,
}

/// A version of a source slice; versions of one UID are ordered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceVersion {
    /// The UID of the slice.
    pub uid: Box<str>,
    /// Its resourceVersion; these are comparable as numbers (KEP-5504).
    pub resource_version: u64,
}

impl SourceVersion {
    /// Whether this is a later version of the same object.
    pub fn is_newer_than(&self, other: &Self) -> bool {
        self.uid == other.uid && self.resource_version > other.resource_version
    }

    fn parse(text: &str) -> Option<Self> {
        let (uid, version) = text.split_once('/')?;
        Some(Self {
            uid: uid.into(),
            resource_version: version.parse().ok()?,
        })
    }
}

impl fmt::Display for SourceVersion {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}/{}", self.uid, self.resource_version)
    }
}

/// Which way a copy serves: the service under its own name, or under that of the clusterset.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Path {
    /// A MultiClusterService asks for it; it belongs to the Service of the service's own name.
    Native,
    /// ServiceExports ask for it; it belongs to the derived Service.
    Clusterset,
}

/// A copy in a consumer: who it is, and a hash of what it holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopiedSlice {
    /// Its UID.
    pub uid: Box<str>,
    /// Its resourceVersion, as it has to be given back.
    pub resource_version: Box<str>,
    /// The hub whose causeway wrote it.
    pub hub: Box<str>,
    /// Which way it serves.
    pub path: Path,
    /// The cluster that it comes from.
    pub source_cluster: Option<ClusterName>,
    /// The version of the source that it was made from.
    pub source: Option<SourceVersion>,
    /// What it holds.
    pub content: ContentHash,
}

/// 128 bits of SHA-256 over all that causeway decides about a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContentHash([u8; 16]);

impl ObservedSlice {
    /// Reads a slice from the wire; what is odd in it makes it [`SliceRole::Other`], never an error.
    pub fn read(slice: EndpointSlice) -> Self {
        let namespace: Arc<str> = slice.metadata.namespace.clone().unwrap_or_default().into();
        let name: Arc<str> = slice.metadata.name.clone().unwrap_or_default().into();
        let role = role(&slice, &namespace);
        Self {
            namespace,
            name,
            role,
        }
    }
}

fn role(slice: &EndpointSlice, namespace: &Arc<str>) -> SliceRole {
    let label = |name: &str| {
        slice
            .metadata
            .labels
            .as_ref()
            .and_then(|all| all.get(name))
            .map(String::as_str)
    };
    let Some(service) = label(labels::SERVICE_NAME) else {
        return SliceRole::Other;
    };
    let own = ServiceKey::new(namespace.clone(), service);
    let imported = label(labels::MULTICLUSTER_SERVICE_NAME)
        .map(|name| ServiceKey::new(namespace.clone(), name))
        .filter(|imported| imported.derived() == own);
    let manager = label(labels::SLICE_MANAGED_BY).unwrap_or_default();
    if manager == labels::SLICE_DISPATCHER {
        let path = match imported {
            Some(_) => Path::Clusterset,
            None => Path::Native,
        };
        let copy = label(labels::HUB).and_then(|hub| copied(slice, hub, path));
        let key = imported.unwrap_or(own);
        return copy.map_or(SliceRole::Other, |copy| SliceRole::Copy(key, copy));
    }
    // The hub's label alone says nothing: Kubernetes gives a Service's labels to the slices that it makes for it.
    if label(labels::SOURCE_CLUSTER).is_some() {
        return SliceRole::Other;
    }
    match source(slice, manager) {
        Some(source) => SliceRole::Source(own, Arc::new(source)),
        None => SliceRole::Other,
    }
}

fn copied(slice: &EndpointSlice, hub: &str, path: Path) -> Option<CopiedSlice> {
    let text =
        |map: &Option<BTreeMap<String, String>>, name: &str| map.as_ref()?.get(name).cloned();
    let source_cluster = text(&slice.metadata.labels, labels::SOURCE_CLUSTER);
    Some(CopiedSlice {
        uid: slice.metadata.uid.as_deref()?.into(),
        resource_version: slice.metadata.resource_version.as_deref()?.into(),
        hub: hub.into(),
        path,
        source_cluster: source_cluster.and_then(|name| ClusterName::try_from(name.as_str()).ok()),
        source: text(&slice.metadata.annotations, labels::SOURCE)
            .and_then(|text| SourceVersion::parse(&text)),
        content: content_hash(slice),
    })
}

fn source(slice: &EndpointSlice, manager: &str) -> Option<SourceSlice> {
    let version = SourceVersion {
        uid: slice.metadata.uid.as_deref()?.into(),
        resource_version: slice.metadata.resource_version.as_deref()?.parse().ok()?,
    };
    Some(SourceSlice {
        version,
        address_type: slice.address_type.as_str().into(),
        manager: match manager {
            labels::SLICE_CONTROLLER => SliceManager::Pods,
            labels::SLICE_MIRRORING_CONTROLLER => SliceManager::Mirroring,
            _ => SliceManager::Other,
        },
        endpoints: slice.endpoints.iter().map(endpoint).collect(),
        ports: slice.ports.iter().flatten().filter_map(port).collect(),
    })
}

fn endpoint(endpoint: &discovery::Endpoint) -> SourceEndpoint {
    let conditions = endpoint.conditions.as_ref();
    SourceEndpoint {
        addresses: endpoint
            .addresses
            .iter()
            .map(|address| address.as_str().into())
            .collect(),
        hostname: endpoint.hostname.as_deref().map(Into::into),
        zone: endpoint.zone.as_deref().map(Into::into),
        node: endpoint.node_name.as_deref().map(Into::into),
        conditions: [
            conditions.and_then(|c| c.ready),
            conditions.and_then(|c| c.serving),
            conditions.and_then(|c| c.terminating),
        ],
    }
}

fn port(port: &discovery::EndpointPort) -> Option<SlicePort> {
    let protocol = match port.protocol.as_deref() {
        None => Protocol::Tcp,
        Some(text) => text.parse().ok()?,
    };
    Some(SlicePort {
        name: port.name.as_deref().unwrap_or_default().into(),
        protocol,
        number: port.port,
        app_protocol: port.app_protocol.as_deref().map(Into::into),
    })
}

/// Labels of a copy that causeway decides about.
const CONTENT_LABELS: [&str; 6] = [
    labels::SERVICE_NAME,
    labels::SLICE_MANAGED_BY,
    labels::SOURCE_CLUSTER,
    labels::MULTICLUSTER_SERVICE_NAME,
    labels::MANAGED_BY,
    labels::HUB,
];

/// Annotations of a copy that causeway decides about; [`labels::SOURCE`] alone changes with every version of the source.
const CONTENT_ANNOTATIONS: [&str; 2] = [labels::PROVISION_CLUSTER, labels::OWNER];

/// A hash of all that causeway decides about a copy: equal for what is wanted and what is stored when nothing is to be written.
pub fn content_hash(slice: &EndpointSlice) -> ContentHash {
    let mut hasher = Sha256::new();
    let mut part = |bytes: &[u8]| {
        hasher.update(bytes.len().to_le_bytes());
        hasher.update(bytes);
    };
    for (map, names) in [
        (&slice.metadata.labels, CONTENT_LABELS.as_slice()),
        (&slice.metadata.annotations, CONTENT_ANNOTATIONS.as_slice()),
    ] {
        for name in names {
            let value = map
                .as_ref()
                .and_then(|map| map.get(*name))
                .map_or("", String::as_str);
            part(value.as_bytes());
        }
    }
    for owner in slice.metadata.owner_references.iter().flatten() {
        part(owner.uid.as_bytes());
    }
    part(slice.address_type.as_bytes());
    let ports = slice.ports.as_deref().unwrap_or_default();
    for text in [
        serde_json::to_vec(&slice.endpoints),
        serde_json::to_vec(ports),
    ] {
        // These types hold nothing that JSON cannot; were it otherwise, the hash would differ and the slice be written.
        part(&text.unwrap_or_default());
    }
    let digest = hasher.finalize();
    let mut short = [0; 16];
    short.copy_from_slice(&digest[..16]);
    ContentHash(short)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn slice(labels: Value) -> EndpointSlice {
        serde_json::from_value(json!({
            "metadata": {"name": "foo-x", "namespace": "shop", "uid": "u", "resourceVersion": "7", "labels": labels},
            "addressType": "IPv4",
            "endpoints": [{"addresses": ["10.1.0.5"], "nodeName": "n", "conditions": {"ready": true}, "zone": "a"}],
            "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}],
        }))
        .expect("a slice decodes")
    }

    #[test]
    fn only_a_slice_without_a_source_cluster_and_without_a_foreign_manager_is_a_source() {
        let service = labels::SERVICE_NAME;
        let by = labels::SLICE_MANAGED_BY;
        let cases = [
            (
                json!({service: "foo", by: labels::SLICE_CONTROLLER}),
                "kubernetes",
            ),
            (
                json!({service: "foo", by: labels::SLICE_MIRRORING_CONTROLLER}),
                "kubernetes",
            ),
            (json!({service: "foo"}), "other source"),
            (json!({by: labels::SLICE_CONTROLLER}), "other"),
            (
                json!({service: "foo", by: labels::SLICE_CONTROLLER, labels::SOURCE_CLUSTER: "b"}),
                "other",
            ),
            (
                json!({service: "foo", by: labels::SLICE_DISPATCHER}),
                "other",
            ),
            (
                json!({service: "foo", by: labels::SLICE_DISPATCHER, labels::HUB: "h"}),
                "copy",
            ),
            (
                json!({service: "foo", by: labels::SLICE_CONTROLLER, labels::HUB: "h"}),
                "kubernetes",
            ),
        ];
        for (labels, expected) in cases {
            let role = match ObservedSlice::read(slice(labels.clone())).role {
                SliceRole::Source(_, source) if source.manager != SliceManager::Other => {
                    "kubernetes"
                }
                SliceRole::Source(..) => "other source",
                SliceRole::Copy(..) => "copy",
                SliceRole::Other => "other",
            };
            assert_eq!(role, expected, "{labels}");
        }
    }

    #[test]
    fn the_hash_moves_with_content_and_not_with_bookkeeping() {
        let base = slice(json!({labels::SERVICE_NAME: "foo"}));
        let mut bookkeeping = base.clone();
        bookkeeping.metadata.resource_version = Some("9".to_owned());
        bookkeeping.metadata.annotations =
            Some([(labels::SOURCE.to_owned(), "u/9".to_owned())].into());
        assert_eq!(content_hash(&base), content_hash(&bookkeeping));
        let mut content = base.clone();
        content.endpoints[0].addresses = vec!["10.1.0.6".to_owned()];
        assert_ne!(content_hash(&base), content_hash(&content));
        let mut label = base.clone();
        label.metadata.labels = Some([(labels::SERVICE_NAME.to_owned(), "bar".to_owned())].into());
        assert_ne!(content_hash(&base), content_hash(&label));
    }

    #[test]
    fn versions_of_different_objects_are_not_ordered() {
        let version = |uid: &str, resource_version| SourceVersion {
            uid: uid.into(),
            resource_version,
        };
        assert!(version("a", 9).is_newer_than(&version("a", 8)));
        assert!(!version("a", 8).is_newer_than(&version("a", 8)));
        assert!(!version("b", 9).is_newer_than(&version("a", 8)));
        assert_eq!(SourceVersion::parse("a/9"), Some(version("a", 9)));
    }
}
