//! EndpointSlices as they come from a watch: of what they say only what is kept is decoded, and sources go from the text
//! of the answer straight into their compact form.

use std::borrow::{Borrow, Cow};
use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointHints, EndpointPort, EndpointSlice};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::Resource;
use serde::de::{DeserializeSeed, Error as _, IgnoredAny, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use super::content::Content;
use super::source::{SourceDraft, SourceSlice};
use super::{Judged, ObservedSlice, SliceManager, SliceRole, Stray, copied, judge, value};

/// Bytes of JSON that an endpoint is likely to take, at least.
const ENDPOINT: usize = 128;

/// An EndpointSlice as a watch tells it.
#[derive(Debug)]
pub struct WireSlice {
    /// Namespace, name, UID, resourceVersion and time of deletion; nothing else.
    meta: ObjectMeta,
    role: SliceRole,
}

/// Text that is copied only where it holds escapes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(transparent)]
pub(super) struct Text<'a>(#[serde(borrow)] pub(super) Cow<'a, str>);

/// What is read of an endpoint.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct WireEndpoint<'a> {
    #[serde(borrow, default)]
    pub(super) addresses: WireAddresses<'a>,
    pub(super) hostname: Option<Text<'a>>,
    pub(super) zone: Option<Text<'a>>,
    pub(super) node_name: Option<Text<'a>>,
    pub(super) conditions: Option<WireConditions>,
    #[serde(borrow)]
    pub(super) hints: Option<WireHints<'a>>,
    target_ref: Option<IgnoredAny>,
    deprecated_topology: Option<IgnoredAny>,
}

/// The addresses of an endpoint: hardly any has more than one.
#[derive(Debug, Default)]
pub(super) struct WireAddresses<'a> {
    pub(super) first: Option<Text<'a>>,
    pub(super) more: Vec<Text<'a>>,
}

/// The conditions of an endpoint, as they are given.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
pub(super) struct WireConditions {
    ready: Option<bool>,
    serving: Option<bool>,
    terminating: Option<bool>,
}

/// For whom an endpoint is meant.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct WireHints<'a> {
    #[serde(borrow)]
    pub(super) for_zones: Option<Vec<WireTarget<'a>>>,
    pub(super) for_nodes: Option<Vec<WireTarget<'a>>>,
}

/// A zone or a node.
#[derive(Debug, Deserialize)]
pub(super) struct WireTarget<'a> {
    #[serde(borrow)]
    name: Option<Text<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Wire<'a> {
    #[serde(borrow)]
    metadata: Metadata<'a>,
    #[serde(borrow)]
    address_type: Option<Text<'a>>,
    #[serde(borrow)]
    endpoints: Option<&'a RawValue>,
    ports: Option<Vec<EndpointPort>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata<'a> {
    namespace: Option<String>,
    name: Option<String>,
    uid: Option<String>,
    resource_version: Option<String>,
    deletion_timestamp: Option<Time>,
    #[serde(borrow)]
    labels: Option<BTreeMap<Text<'a>, Text<'a>>>,
    #[serde(borrow)]
    annotations: Option<BTreeMap<Text<'a>, Text<'a>>>,
    #[serde(borrow)]
    owner_references: Option<Vec<Owner<'a>>>,
}

#[derive(Deserialize)]
struct Owner<'a> {
    #[serde(borrow)]
    uid: Option<Text<'a>>,
}

/// Texts are found by what they say.
impl Borrow<str> for Text<'_> {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl<'a> From<&'a String> for Text<'a> {
    fn from(text: &'a String) -> Self {
        Self(Cow::Borrowed(text))
    }
}

impl<'a> WireEndpoint<'a> {
    pub(super) fn of(endpoint: &'a Endpoint) -> Self {
        let mut addresses = endpoint.addresses.iter().map(Text::from);
        let conditions = endpoint.conditions.as_ref();
        Self {
            addresses: WireAddresses {
                first: addresses.next(),
                more: addresses.collect(),
            },
            hostname: endpoint.hostname.as_ref().map(Text::from),
            zone: endpoint.zone.as_ref().map(Text::from),
            node_name: endpoint.node_name.as_ref().map(Text::from),
            conditions: conditions.map(|given| WireConditions {
                ready: given.ready,
                serving: given.serving,
                terminating: given.terminating,
            }),
            hints: endpoint.hints.as_ref().map(WireHints::of),
            target_ref: endpoint.target_ref.as_ref().map(|_| IgnoredAny),
            deprecated_topology: endpoint.deprecated_topology.as_ref().map(|_| IgnoredAny),
        }
    }

    /// Whether it has something that no copy of causeway's has.
    pub(super) fn has_more(&self) -> bool {
        self.target_ref.is_some() || self.deprecated_topology.is_some()
    }
}

impl WireAddresses<'_> {
    pub(super) fn iter(&self) -> impl Iterator<Item = &Text<'_>> {
        self.first.iter().chain(&self.more)
    }
}

impl WireConditions {
    /// Ready, serving and terminating.
    pub(super) fn each(self) -> [Option<bool>; 3] {
        [self.ready, self.serving, self.terminating]
    }
}

impl<'a> WireHints<'a> {
    fn of(hints: &'a EndpointHints) -> Self {
        let target = |name: &'a String| WireTarget {
            name: Some(name.into()),
        };
        let zones = hints.for_zones.as_ref();
        let nodes = hints.for_nodes.as_ref();
        Self {
            for_zones: zones.map(|all| all.iter().map(|zone| target(&zone.name)).collect()),
            for_nodes: nodes.map(|all| all.iter().map(|node| target(&node.name)).collect()),
        }
    }
}

impl WireTarget<'_> {
    pub(super) fn name(&self) -> &str {
        said(&self.name)
    }
}

/// As Kubernetes' types have it: nothing is empty.
fn said<'a>(text: &'a Option<Text<'_>>) -> &'a str {
    text.as_ref().map_or("", |text| &text.0)
}

impl<'de: 'a, 'a> Deserialize<'de> for WireAddresses<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let (mut first, mut more) = (None, Vec::new());
        let each = Each::new(|text: Text<'a>| match first {
            None => first = Some(text),
            Some(_) => more.push(text),
        });
        each.deserialize(deserializer)?;
        Ok(Self { first, more })
    }
}

/// What is done with each element of a list, or of `null` in its place, as it is read.
struct Each<T, F> {
    take: F,
    element: PhantomData<fn(T)>,
}

impl<T, F: FnMut(T)> Each<T, F> {
    fn new(take: F) -> Self {
        Self {
            take,
            element: PhantomData,
        }
    }
}

impl<'de, T: Deserialize<'de>, F: FnMut(T)> DeserializeSeed<'de> for Each<T, F> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de, T: Deserialize<'de>, F: FnMut(T)> Visitor<'de> for Each<T, F> {
    type Value = ();

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a list")
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut all: A) -> Result<(), A::Error> {
        while let Some(element) = all.next_element()? {
            (self.take)(element);
        }
        Ok(())
    }
}

/// Reads endpoints, one after the other.
fn each_endpoint<'a>(
    text: &'a str,
    take: impl FnMut(WireEndpoint<'a>),
) -> Result<(), serde_json::Error> {
    let mut text = serde_json::Deserializer::from_str(text);
    Each::new(take).deserialize(&mut text)
}

impl From<WireSlice> for ObservedSlice {
    fn from(slice: WireSlice) -> Self {
        Self {
            namespace: slice.meta.namespace.unwrap_or_default().into(),
            name: slice.meta.name.unwrap_or_default().into(),
            role: slice.role,
        }
    }
}

impl<'de> Deserialize<'de> for WireSlice {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Wire::deserialize(deserializer)?
            .read()
            .map_err(D::Error::custom)
    }
}

impl Wire<'_> {
    fn read(self) -> Result<WireSlice, serde_json::Error> {
        let metadata = self.metadata;
        let meta = ObjectMeta {
            namespace: metadata.namespace,
            name: metadata.name,
            uid: metadata.uid,
            resource_version: metadata.resource_version,
            deletion_timestamp: metadata.deletion_timestamp,
            ..ObjectMeta::default()
        };
        let label = |name: &str| value(&metadata.labels, name);
        let annotation = |name: &str| value(&metadata.annotations, name);
        let stray = || Stray::of(&meta, annotation);
        let address_type = said(&self.address_type);
        let endpoints = self.endpoints.map_or("null", RawValue::get);
        let ports = self.ports.as_deref().unwrap_or_default();
        let namespace = meta.namespace.as_deref().unwrap_or_default().into();
        let held = |manager| {
            let mut draft = SourceDraft::new(address_type, endpoints.len() / ENDPOINT);
            match each_endpoint(endpoints, |endpoint| draft.add(&endpoint)) {
                Ok(()) => draft.finish(&meta, ports, manager),
                Err(_) => SourceSlice::unread(&meta, manager),
            }
        };
        let role = match judge(&namespace, label, annotation) {
            Judged::Source(key, manager) => SliceRole::source(key, held(manager), stray),
            Judged::Karmadas(key) => {
                let held = held(SliceManager::Other);
                SliceRole::Other(key, stray().holding(held, annotation))
            }
            Judged::Copy(key, hub, path) => {
                let mut content = Content::new(label, annotation, address_type);
                each_endpoint(endpoints, |endpoint| content.add(&endpoint))?;
                let owners = metadata.owner_references.iter().flatten();
                let owners = owners.map(|owner| said(&owner.uid));
                let content = content.hash(ports).owned_by(owners);
                let copy = copied(&meta, hub, path, label, annotation, content);
                SliceRole::copy(key, copy, stray)
            }
            Judged::Other(key) => SliceRole::Other(key, stray()),
        };
        Ok(WireSlice { meta, role })
    }
}

impl Resource for WireSlice {
    type DynamicType = ();
    type Scope = NamespaceResourceScope;

    fn kind(dynamic: &()) -> Cow<'_, str> {
        EndpointSlice::kind(dynamic)
    }

    fn group(dynamic: &()) -> Cow<'_, str> {
        EndpointSlice::group(dynamic)
    }

    fn version(dynamic: &()) -> Cow<'_, str> {
        EndpointSlice::version(dynamic)
    }

    fn plural(dynamic: &()) -> Cow<'_, str> {
        EndpointSlice::plural(dynamic)
    }

    fn meta(&self) -> &ObjectMeta {
        &self.meta
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.meta
    }
}

#[cfg(test)]
mod tests {
    use causeway::api::labels;
    use serde_json::{Value, json};

    use super::*;
    use crate::index::slice::AddressType;

    fn slice(labels: Value, rest: Value) -> Value {
        let mut slice = json!({
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": {
                "name": "foo-x", "namespace": "shop", "uid": "u", "resourceVersion": "7", "labels": labels,
                "annotations": {labels::SOURCE: "v/3", "other": "x"},
                "ownerReferences": [{"apiVersion": "v1", "kind": "Service", "name": "foo", "uid": "w"}],
                "managedFields": [{"manager": "m", "fieldsV1": {"f:endpoints": {}}}],
            },
            "addressType": "IPv4",
            "endpoints": [
                {"addresses": ["10.1.0.5", "10.1.0.6"], "nodeName": "n", "zone": "a\"b", "hostname": "h",
                 "conditions": {"ready": true, "terminating": false}, "targetRef": {"kind": "Pod"}},
                {"addresses": ["10.1.0.7"]},
            ],
            "ports": [{"name": "http", "port": 8080, "protocol": "TCP", "appProtocol": "h2c"}, {"port": 1}],
        });
        if slice["metadata"]["labels"][labels::HUB].is_null() {
            // A source says of no other source that it was made from it.
            slice["metadata"]["annotations"] = json!({labels::OWNER: "X/u", "other": "x"});
        }
        json_patch::merge(&mut slice, &rest);
        slice
    }

    #[test]
    fn a_slice_from_the_wire_is_what_the_typed_object_says() {
        let source = json!({labels::SERVICE_NAME: "foo", labels::SLICE_MANAGED_BY: labels::SLICE_CONTROLLER});
        let copy = json!({
            labels::SERVICE_NAME: "foo", labels::SLICE_MANAGED_BY: labels::SLICE_DISPATCHER,
            labels::HUB: "h", labels::SOURCE_CLUSTER: "member1",
        });
        for rest in [
            json!({}),
            json!({"endpoints": null, "ports": null}),
            json!({"addressType": "FQDN", "endpoints": [{"addresses": ["foo.example"]}]}),
            json!({"addressType": "IPv6", "endpoints": [{"addresses": ["fd00::1"], "conditions": {}}]}),
            json!({"metadata": {"annotations": null, "ownerReferences": null}}),
            json!({"metadata": {"ownerReferences": [{}]}}),
            json!({"endpoints": [{"addresses": null, "hints": {"forZones": [{"name": "a"}, {}], "forNodes": null},
                                  "deprecatedTopology": {"kubernetes.io/hostname": "n"}}]}),
        ] {
            for labels in [source.clone(), copy.clone(), json!({}), Value::Null] {
                let text = slice(labels, rest.clone()).to_string();
                let wire: WireSlice = serde_json::from_str(&text).expect("a slice");
                let typed: EndpointSlice = serde_json::from_str(&text).expect("a slice");
                assert_eq!(wire.meta().uid, typed.metadata.uid);
                let (wire, typed) = (ObservedSlice::from(wire), ObservedSlice::read(&typed));
                assert_eq!(format!("{wire:?}"), format!("{typed:?}"));
            }
        }
    }

    #[test]
    fn what_is_no_slice_is_an_error_and_never_more() {
        for text in ["null", "[]", r#"{"metadata": 1}"#] {
            assert!(serde_json::from_str::<WireSlice>(text).is_err(), "{text}");
        }
        let odd = json!({"endpoints": [{"addresses": "x"}]});
        let of_foo = slice(json!({labels::SERVICE_NAME: "foo"}), odd).to_string();
        let wire: WireSlice = serde_json::from_str(&of_foo).expect("of a service");
        let SliceRole::Source(_, source) = wire.role else {
            panic!("no source");
        };
        assert_eq!(source.address_type, AddressType::Unread);
    }
}
