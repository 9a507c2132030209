//! Classification of EndpointSlices by their labels and annotations.

use std::sync::Arc;

use causeway::api::labels;
use causeway::api::ownership::source_member_by;
use causeway::domain::{ClusterName, KARMADA, ServiceKey, imported_by};
use causeway_wire::{
    AddressType, ContentHash, Places, RawSlice, SliceManager, SourceSlice, SourceVersion, Uid,
    Unreadable, encode,
};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use serde::Serialize;
use string_cache::DefaultAtom;

use super::content::observed_hash;
use super::cut::Cut;

/// EndpointSlice of a member.
#[derive(Clone, Debug)]
pub struct ObservedSlice {
    /// Its namespace.
    pub namespace: Arc<str>,
    /// Its name.
    pub name: Arc<str>,
    /// Role that it has for causeway.
    pub role: SliceRole,
}

/// Role of an EndpointSlice for causeway.
#[derive(Clone, Debug)]
pub enum SliceRole {
    /// Source: it may back a Service in other clusters.
    Source(ServiceKey, Arc<SourceSlice>),
    /// Copy that the causeway of some hub wrote.
    Copy(ServiceKey, CopiedSlice),
    /// Neither. The key is the Service of its label; its name is empty if the slice has no such
    /// label.
    Other(ServiceKey, UnmanagedSlice),
}

/// Slice that is neither source nor copy, whose name is occupied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnmanagedSlice {
    /// Its UID.
    pub uid: Uid,
    /// Its resourceVersion.
    pub resource_version: u64,
    /// Owner on whose behalf causeway wrote the slice, if it did: later changes of its labels do
    /// not change that.
    pub owner: Option<Box<str>>,
    /// Its content, if Karmada manages it.
    pub karmadas: Option<Arc<KarmadasSlice>>,
}

/// Slice of another cluster's endpoints that Karmada's own controllers manage.
#[derive(Debug, PartialEq, Eq)]
pub struct KarmadasSlice {
    /// Cluster that it comes from; empty if the slice does not name it.
    pub provider: DefaultAtom,
    /// Its content.
    pub slice: SourceSlice,
}

/// Exposure that a copy serves: the service under its own name, or under that of the clusterset.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub enum Exposure {
    /// A MultiClusterService requests it; it belongs to the Service of the service's own name.
    Native,
    /// ServiceExports request it; it belongs to the derived Service.
    #[serde(rename = "ClusterSet")]
    Clusterset,
}

impl Exposure {
    /// Returns the Service of a consumer that receives the endpoints of a service.
    pub(crate) fn service(self, key: &ServiceKey) -> ServiceKey {
        match self {
            Self::Native => key.clone(),
            Self::Clusterset => key.derived(),
        }
    }
}

/// Copy in a consumer: its identity, and a hash of its content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopiedSlice {
    /// Its UID.
    pub uid: Uid,
    /// Its resourceVersion; these are comparable as numbers (KEP-5504).
    pub resource_version: u64,
    /// Hub whose causeway wrote it.
    pub hub: DefaultAtom,
    /// Exposure that it serves.
    pub exposure: Exposure,
    /// Name of the Cluster that it comes from.
    pub source_cluster: Option<DefaultAtom>,
    /// Version of the source that it was made from.
    pub source: Option<SourceVersion>,
    /// Whether its endpoints are standby endpoints.
    pub standby: bool,
    /// Limit by which some of its endpoints are ready, if it records one.
    pub(crate) cut: Option<Cut>,
    /// Hash of its content.
    pub content: ContentHash,
}

impl CopiedSlice {
    /// Whether the causeway of that hub wrote it, for that exposure.
    pub(crate) fn is_of(&self, hub: &str, exposure: Exposure) -> bool {
        *self.hub == *hub && self.exposure == exposure
    }
}

/// Class of a slice, by its labels and annotations.
enum Classified<'a> {
    Source(ServiceKey, SliceManager),
    /// Copy that the causeway of that hub wrote, with the hub's UID.
    Copy(ServiceKey, &'a str, Exposure),
    Karmadas(ServiceKey),
    Other(ServiceKey),
}

impl ObservedSlice {
    /// Reads the typed object. Unexpected content makes it [`SliceRole::Other`], never an error.
    pub fn read(slice: &EndpointSlice) -> Self {
        let message = encode(slice);
        let raw = RawSlice::decode(&message).unwrap_or_default();
        let role = SliceRole::of(&raw, &mut Places::default(), &mut Origins::default());
        let text = |text: &Option<String>| text.as_deref().unwrap_or_default().into();
        Self {
            namespace: text(&slice.metadata.namespace),
            name: text(&slice.metadata.name),
            role: role.unwrap_or_else(|_| SliceRole::other(&raw)),
        }
    }

    /// Returns its resourceVersion; 0 if that is no number.
    pub fn resource_version(&self) -> u64 {
        match &self.role {
            SliceRole::Source(_, source) => source.version.resource_version,
            SliceRole::Copy(_, copy) => copy.resource_version,
            SliceRole::Other(_, unmanaged) => unmanaged.resource_version,
        }
    }
}

impl SliceRole {
    /// Returns the service of the slice's label, in the slice's namespace.
    pub(super) fn key(&self) -> &ServiceKey {
        match self {
            Self::Source(key, _) | Self::Copy(key, _) | Self::Other(key, _) => key,
        }
    }

    pub(super) fn key_mut(&mut self) -> &mut ServiceKey {
        match self {
            Self::Source(key, _) | Self::Copy(key, _) | Self::Other(key, _) => key,
        }
    }

    /// Returns the role of a slice.
    ///
    /// # Errors
    /// The slice is a copy whose endpoints cannot be read.
    pub(super) fn of(
        slice: &RawSlice<'_>,
        places: &mut Places,
        origins: &mut Origins,
    ) -> Result<Self, Unreadable> {
        Ok(match classify(slice) {
            Classified::Source(key, manager) => match slice.source(manager, places) {
                Some(source) => Self::Source(key, Arc::new(labelled(source, slice))),
                None => Self::Other(key, UnmanagedSlice::of(slice)),
            },
            Classified::Karmadas(key) => {
                let provider = slice.annotation(labels::PROVISION_CLUSTER);
                let provider = provider.unwrap_or_default().into();
                let content = slice.source(SliceManager::Other, places);
                let karmadas = content.map(|slice| Arc::new(KarmadasSlice { provider, slice }));
                let unmanaged = UnmanagedSlice::of(slice);
                Self::Other(
                    key,
                    UnmanagedSlice {
                        karmadas,
                        ..unmanaged
                    },
                )
            }
            Classified::Copy(key, hub, exposure) => {
                let content = observed_hash(slice)?;
                let member =
                    source_member_by(|name| slice.label(name), |name| slice.annotation(name));
                let (hub, source_cluster) = origins.of(hub, member);
                let source = slice.annotation(labels::SOURCE);
                match slice.version() {
                    Some(SourceVersion {
                        uid,
                        resource_version,
                    }) => Self::Copy(
                        key,
                        CopiedSlice {
                            uid,
                            resource_version,
                            hub,
                            exposure,
                            source_cluster,
                            source: source.and_then(SourceVersion::parse),
                            standby: slice.annotation(labels::STANDBY).is_some(),
                            cut: slice.annotation(labels::SHARE).and_then(Cut::parse),
                            content,
                        },
                    ),
                    None => Self::Other(key, UnmanagedSlice::of(slice)),
                }
            }
            Classified::Other(key) => Self::Other(key, UnmanagedSlice::of(slice)),
        })
    }

    /// Returns the role of a slice that is neither source nor copy.
    fn other(slice: &RawSlice<'_>) -> Self {
        let service = slice.label(labels::SERVICE_NAME).unwrap_or_default();
        let key = ServiceKey::new(slice.namespace(), service);
        Self::Other(key, UnmanagedSlice::of(slice))
    }
}

impl UnmanagedSlice {
    fn of(slice: &RawSlice<'_>) -> Self {
        Self {
            uid: slice.uid().into(),
            resource_version: slice.resource_version().unwrap_or_default(),
            owner: slice.annotation(labels::OWNER).map(Into::into),
            karmadas: None,
        }
    }
}

/// Records the label of a hub on a source that Kubernetes manages and that has no endpoint.
fn labelled(mut source: SourceSlice, slice: &RawSlice<'_>) -> SourceSlice {
    let is_empty = source.is_empty() && source.odd == 0;
    let is_read = source.address_type != AddressType::Unread;
    if is_empty && is_read && source.manager == SliceManager::Pods {
        source.copied_hub = slice.label(labels::HUB).map(Into::into);
    }
    source
}

/// Returns the class of a slice.
fn classify<'a>(slice: &'a RawSlice<'_>) -> Classified<'a> {
    let label = |name: &str| slice.label(name);
    let namespace: Arc<str> = slice.namespace().into();
    let service = label(labels::SERVICE_NAME);
    let own = ServiceKey::new(namespace.clone(), service.unwrap_or_default());
    let imported = label(labels::MULTICLUSTER_SERVICE_NAME)
        .map(|name| ServiceKey::new(namespace, name))
        .filter(|imported| imported.derived() == own);
    let (key, exposure) = match imported {
        Some(imported) => (imported, Exposure::Clusterset),
        None => (own, Exposure::Native),
    };
    let manager = label(labels::SLICE_MANAGED_BY).unwrap_or_default();
    // The hub's label alone does not make a copy: Kubernetes copies the labels of a Service to the
    // slices that it makes for the Service.
    match (manager == labels::SLICE_DISPATCHER, label(labels::HUB)) {
        _ if service.is_none() => Classified::Other(key),
        (true, Some(hub)) => Classified::Copy(key, hub, exposure),
        _ => match imported_by(label, |name| slice.annotation(name)) {
            Some(KARMADA) => Classified::Karmadas(key),
            Some(_) => Classified::Other(key),
            None => Classified::Source(key, manager_of(manager)),
        },
    }
}

/// Origins of copies. It caches the last one: most copies of a list come from few clusters, one
/// after the other, and a lookup among all names of the process takes far longer.
#[derive(Clone, Debug, Default)]
pub(super) struct Origins {
    hub: DefaultAtom,
    /// Name of a cluster; empty in the beginning.
    cluster: DefaultAtom,
}

impl Origins {
    /// Returns the hub of that UID, and the cluster of that name, if it is a valid one.
    fn of(&mut self, hub: &str, cluster: Option<&str>) -> (DefaultAtom, Option<DefaultAtom>) {
        if *self.hub != *hub {
            self.hub = hub.into();
        }
        let cluster = cluster.and_then(|name| self.cluster(name));
        (self.hub.clone(), cluster)
    }

    fn cluster(&mut self, name: &str) -> Option<DefaultAtom> {
        if self.cluster.is_empty() || *self.cluster != *name {
            ClusterName::try_from(name).ok()?;
            self.cluster = name.into();
        }
        Some(self.cluster.clone())
    }
}

fn manager_of(manager: &str) -> SliceManager {
    match manager {
        labels::SLICE_CONTROLLER => SliceManager::Pods,
        labels::SLICE_MIRRORING_CONTROLLER => SliceManager::Mirroring,
        _ => SliceManager::Other,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::content::content_hash;
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
    fn copied_or_imported_slice_is_no_source() {
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
                SliceRole::Other(..) => "other",
            };
            assert_eq!(role, expected, "{labels}");
        }
    }

    #[test]
    fn hash_depends_on_content_and_not_on_bookkeeping() {
        let base = slice(json!({labels::SERVICE_NAME: "foo"}));
        let mut bookkeeping = base.clone();
        bookkeeping.metadata.resource_version = Some("9".to_owned());
        bookkeeping.metadata.annotations =
            Some([(labels::SOURCE.to_owned(), "u/9".to_owned())].into());
        assert_eq!(content_hash(&base), content_hash(&bookkeeping));
        let endpoint = |change: Value| {
            let mut endpoints = json!([{"addresses": ["10.1.0.5"], "nodeName": "n", "conditions": {"ready": true}, "zone": "a"}]);
            json_patch::merge(&mut endpoints[0], &change);
            json!({"endpoints": endpoints})
        };
        let name = json!([{"name": "a"}]);
        let mut hashes = vec![content_hash(&base)];
        for change in [
            endpoint(json!({"addresses": ["10.1.0.6"]})),
            endpoint(json!({"addresses": ["10.1.0.5", "a"]})),
            endpoint(json!({"addresses": ["10.1.0.5"], "hostname": "a"})),
            endpoint(json!({"hostname": ""})),
            endpoint(json!({"zone": null})),
            endpoint(json!({"nodeName": "m"})),
            endpoint(json!({"nodeName": null})),
            endpoint(json!({"conditions": {"ready": false}})),
            endpoint(json!({"conditions": {"ready": null}})),
            endpoint(json!({"conditions": {"serving": true}})),
            endpoint(json!({"conditions": {"terminating": false}})),
            endpoint(json!({"hints": {}})),
            endpoint(json!({"hints": {"forZones": name}})),
            endpoint(json!({"hints": {"forNodes": name}})),
            endpoint(json!({"targetRef": {"kind": "Pod"}})),
            json!({"endpoints": []}),
            json!({"endpoints": [{"addresses": []}, {"addresses": []}]}),
            json!({"ports": [{"name": "http", "port": 8081, "protocol": "TCP"}]}),
            json!({"addressType": "IPv6"}),
            json!({"metadata": {"labels": {labels::SERVICE_NAME: "bar"}}}),
            json!({"metadata": {"annotations": {labels::OWNER: "bar"}}}),
            json!({"metadata": {"annotations": {labels::LOWERED: "causeway-agent"}}}),
            json!({"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "X", "name": "x", "uid": "u"}]}}),
        ] {
            let mut changed = serde_json::to_value(&base).expect("it encodes");
            json_patch::merge(&mut changed, &change);
            let hash = content_hash(&serde_json::from_value(changed).expect("it decodes"));
            assert!(!hashes.contains(&hash), "{change}");
            hashes.push(hash);
        }
    }
}
