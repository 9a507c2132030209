//! EndpointSlices as the index keeps them: sources in a compact form, copies as an identity and a hash.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;

use causeway::api::labels;
use causeway::domain::{ClusterName, ServiceKey};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use string_cache::DefaultAtom;

pub use self::content::{ContentHash, content_hash};
pub use self::source::{
    AddressType, Remembered, SliceManager, SlicePort, SourceEndpoint, SourceSlice,
};
pub use self::uid::{SourceVersion, Uid};
use self::wire::WireEndpoint;
pub use self::wire::WireSlice;

mod content;
mod source;
mod uid;
mod wire;

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
    pub uid: Uid,
    /// Its resourceVersion; these are comparable as numbers (KEP-5504).
    pub resource_version: u64,
    /// The hub whose causeway wrote it.
    pub hub: DefaultAtom,
    /// Which way it serves.
    pub path: Path,
    /// The cluster that it comes from.
    pub source_cluster: Option<DefaultAtom>,
    /// The version of the source that it was made from.
    pub source: Option<SourceVersion>,
    /// What it holds.
    pub content: ContentHash,
}

impl ObservedSlice {
    /// Reads the typed object; what is odd in it makes it [`SliceRole::Other`], never an error.
    pub fn read(slice: &EndpointSlice) -> Self {
        let meta = &slice.metadata;
        let namespace: Arc<str> = meta.namespace.as_deref().unwrap_or_default().into();
        let label = |name: &'static str| {
            let labels = meta.labels.as_ref();
            labels.and_then(|all| all.get(name)).map(String::as_str)
        };
        let read: Result<_, Infallible> = role(
            &namespace,
            label,
            |hub, path| Ok(copied(slice, hub, path)),
            |manager| {
                let endpoints = slice.endpoints.iter().map(WireEndpoint::of);
                let ports = slice.ports.as_deref().unwrap_or_default();
                let source =
                    SourceSlice::read(meta, &slice.address_type, endpoints, ports, manager);
                Ok(source)
            },
        );
        let Ok(role) = read;
        Self {
            name: meta.name.as_deref().unwrap_or_default().into(),
            namespace,
            role,
        }
    }
}

/// What a slice with these labels is.
fn role<'a, E>(
    namespace: &Arc<str>,
    label: impl Fn(&'static str) -> Option<&'a str>,
    copied: impl FnOnce(&str, Path) -> Result<Option<CopiedSlice>, E>,
    source: impl FnOnce(SliceManager) -> Result<Option<SourceSlice>, E>,
) -> Result<SliceRole, E> {
    let Some(service) = label(labels::SERVICE_NAME) else {
        return Ok(SliceRole::Other);
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
        let Some(hub) = label(labels::HUB) else {
            return Ok(SliceRole::Other);
        };
        let (key, copy) = (imported.unwrap_or(own), copied(hub, path)?);
        return Ok(copy.map_or(SliceRole::Other, |copy| SliceRole::Copy(key, copy)));
    }
    // The hub's label alone says nothing: Kubernetes gives a Service's labels to the slices that it makes for it.
    if label(labels::SOURCE_CLUSTER).is_some() {
        return Ok(SliceRole::Other);
    }
    let source = source(keeper(manager))?;
    Ok(source.map_or(SliceRole::Other, |source| {
        SliceRole::Source(own, Arc::new(source))
    }))
}

fn copied(slice: &EndpointSlice, hub: &str, path: Path) -> Option<CopiedSlice> {
    let text =
        |map: &Option<BTreeMap<String, String>>, name: &str| map.as_ref()?.get(name).cloned();
    let source_cluster = text(&slice.metadata.labels, labels::SOURCE_CLUSTER);
    Some(CopiedSlice {
        uid: slice.metadata.uid.as_deref()?.into(),
        resource_version: slice.metadata.resource_version.as_deref()?.parse().ok()?,
        hub: hub.into(),
        path,
        source_cluster: source_cluster
            .filter(|name| ClusterName::try_from(name.as_str()).is_ok())
            .map(DefaultAtom::from),
        source: text(&slice.metadata.annotations, labels::SOURCE)
            .and_then(|text| SourceVersion::parse(&text)),
        content: content_hash(slice),
    })
}

fn keeper(manager: &str) -> SliceManager {
    match manager {
        labels::SLICE_CONTROLLER => SliceManager::Pods,
        labels::SLICE_MIRRORING_CONTROLLER => SliceManager::Mirroring,
        _ => SliceManager::Other,
    }
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
            let role = match ObservedSlice::read(&slice(labels.clone())).role {
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
}
