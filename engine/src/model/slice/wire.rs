//! EndpointSlices from a watch: only the fields that are stored are decoded, and sources go from
//! the bytes of the answer straight into their compact form.

use std::borrow::Cow;
use std::collections::BTreeMap;

use causeway::api::labels;
use causeway::domain::ServiceKey;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::discovery::v1::{EndpointPort, EndpointSlice};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::Resource;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use thiserror::Error;

use super::canonical;
use super::content::{Content, value};
use super::endpoint::{Text, WireEndpoint, each_endpoint, said};
use super::observed::{
    Classified, ObservedSlice, Origins, SliceRole, UnmanagedSlice, classify, copied,
};
use super::place::Places;
use super::protobuf;
use super::source::{SliceManager, SourceDraft, SourceSlice};
use crate::model::protobuf::Malformed;

/// Likely minimum bytes of an endpoint: as JSON, and as protobuf.
const ENDPOINT: [usize; 2] = [128, 64];

/// EndpointSlice as a watch reports it.
#[derive(Debug)]
pub struct WireSlice {
    /// Namespace, name, UID, resourceVersion and time of deletion; nothing else.
    meta: ObjectMeta,
    role: SliceRole,
}

/// Reason why an EndpointSlice cannot be read.
#[derive(Debug, Error)]
pub enum Unreadable {
    /// The JSON cannot be read.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    /// The protobuf cannot be read.
    #[error(transparent)]
    Protobuf(#[from] Malformed),
    /// The slice is protobuf, which the client did not request.
    #[error("it is protobuf, which was not asked for")]
    NotAskedFor,
}

/// Decoder of the EndpointSlices of one cluster, which share common texts.
#[derive(Clone, Debug, Default)]
pub struct SliceDecoder {
    places: Places,
    origins: Origins,
    /// Service of the slice before. Slices of a service follow each other in a list, and share its
    /// key.
    last: Option<ServiceKey>,
}

impl SliceDecoder {
    /// Reads an object of JSON.
    ///
    /// # Errors
    /// The object is no EndpointSlice.
    pub fn json(&mut self, text: &str) -> Result<WireSlice, Unreadable> {
        let slice = serde_json::from_str::<Wire<'_>>(text).or_else(|error| {
            let bearer = serde_json::from_str::<Bearer<'_>>(text).map_err(|_| error)?;
            Ok::<_, Unreadable>(Wire::unread(bearer.metadata))
        })?;
        let slice = slice.read(&mut self.places, &mut self.origins)?;
        Ok(self.share(slice))
    }

    /// Reads a message `k8s.io.api.discovery.v1.EndpointSlice`.
    ///
    /// # Errors
    /// The message is malformed.
    pub fn protobuf(&mut self, message: &[u8]) -> Result<WireSlice, Unreadable> {
        let slice = protobuf::slice(message).or_else(|error| {
            let metadata = protobuf::metadata_of(message).map_err(|_| error)?;
            Ok::<_, Unreadable>(Wire::unread(metadata))
        })?;
        let slice = slice.read(&mut self.places, &mut self.origins)?;
        Ok(self.share(slice))
    }

    fn share(&mut self, mut slice: WireSlice) -> WireSlice {
        let key = slice.role.key_mut();
        if let Some(last) = &self.last {
            if last.name == key.name {
                key.name = last.name.clone();
            }
            if last.namespace == key.namespace {
                key.namespace = last.namespace.clone();
            }
        }
        self.last = Some(key.clone());
        slice
    }
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Wire<'a> {
    #[serde(borrow)]
    pub(super) metadata: Metadata<'a>,
    #[serde(borrow)]
    pub(super) address_type: Option<Text<'a>>,
    #[serde(borrow, default)]
    pub(super) endpoints: Endpoints<'a>,
    pub(super) ports: Option<Vec<EndpointPort>>,
}

/// Part of a slice that must be readable for the slice to count as present. A source of which
/// nothing else can be read retains its copies.
#[derive(Deserialize)]
struct Bearer<'a> {
    #[serde(borrow)]
    metadata: Metadata<'a>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Metadata<'a> {
    pub(super) namespace: Option<String>,
    pub(super) name: Option<String>,
    pub(super) uid: Option<String>,
    pub(super) resource_version: Option<String>,
    pub(super) deletion_timestamp: Option<Time>,
    #[serde(borrow)]
    pub(super) labels: Option<BTreeMap<Text<'a>, Text<'a>>>,
    #[serde(borrow)]
    pub(super) annotations: Option<BTreeMap<Text<'a>, Text<'a>>>,
    #[serde(borrow)]
    pub(super) owner_references: Option<Vec<Owner<'a>>>,
}

#[derive(Deserialize)]
pub(super) struct Owner<'a> {
    #[serde(borrow)]
    pub(super) uid: Option<Text<'a>>,
}

/// Endpoints that have not been read yet.
pub(super) enum Endpoints<'a> {
    /// List, or `null`.
    Json(&'a str),
    /// Message of the slice.
    Protobuf(&'a [u8]),
}

impl Default for Endpoints<'_> {
    fn default() -> Self {
        Self::Json("null")
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Endpoints<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <&RawValue>::deserialize(deserializer)?;
        Ok(Self::Json(text.get()))
    }
}

impl<'a> Endpoints<'a> {
    /// Returns the likely number of endpoints.
    fn likely(&self) -> usize {
        match self {
            Self::Json(text) => text.len() / ENDPOINT[0],
            Self::Protobuf(message) => message.len() / ENDPOINT[1],
        }
    }

    /// Returns all endpoints unchanged, if they have the form in which copies are hashed.
    fn canonical(&self) -> Option<&'a [u8]> {
        match self {
            Self::Json(_) => None,
            Self::Protobuf(message) => canonical::endpoints(message),
        }
    }

    /// Reads the endpoints one by one.
    fn each(&self, take: impl FnMut(&WireEndpoint<'a>)) -> Result<(), Unreadable> {
        match self {
            Self::Json(text) => Ok(each_endpoint(text, take)?),
            Self::Protobuf(message) => Ok(protobuf::each_endpoint(message, take)?),
        }
    }
}

impl From<WireSlice> for ObservedSlice {
    fn from(slice: WireSlice) -> Self {
        Self {
            namespace: slice.role.key().namespace.clone(),
            name: slice.meta.name.unwrap_or_default().into(),
            role: slice.role,
        }
    }
}

impl<'a> Wire<'a> {
    /// Returns a slice of which only the metadata can be read.
    fn unread(metadata: Metadata<'a>) -> Self {
        Self {
            metadata,
            endpoints: Endpoints::Json("unread"),
            ..Self::default()
        }
    }
}

impl Wire<'_> {
    fn read(self, places: &mut Places, origins: &mut Origins) -> Result<WireSlice, Unreadable> {
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
        let unmanaged = || UnmanagedSlice::of(&meta, annotation);
        let address_type = said(&self.address_type);
        let endpoints = &self.endpoints;
        let ports = self.ports.as_deref().unwrap_or_default();
        let namespace = meta.namespace.as_deref().unwrap_or_default().into();
        let mut held = |manager| {
            let mut draft = SourceDraft::new(address_type, endpoints.likely());
            match endpoints.each(|endpoint| draft.add(endpoint)) {
                Ok(()) => draft.finish(&meta, ports, manager, places),
                Err(_) => SourceSlice::unread(&meta, manager),
            }
        };
        let role = match classify(&namespace, label, annotation) {
            Classified::Source(key, manager) => {
                let held = held(manager).map(|slice| slice.labelled(label(labels::HUB)));
                SliceRole::source(key, held, unmanaged)
            }
            Classified::Karmadas(key) => {
                let held = held(SliceManager::Other);
                SliceRole::Other(key, unmanaged().holding(held, annotation))
            }
            Classified::Copy(key, hub, path) => {
                let mut content = Content::new(label, annotation, address_type);
                match endpoints.canonical() {
                    Some(endpoints) => content.extend(endpoints),
                    None => endpoints.each(|endpoint| content.add(endpoint))?,
                }
                let owners = metadata.owner_references.iter().flatten();
                let owners = owners.map(|owner| said(&owner.uid));
                let content = content.hash(ports).owned_by(owners);
                let of = origins.of(hub, label(labels::SOURCE_CLUSTER));
                let copy = copied(&meta, of, path, annotation, content);
                SliceRole::copy(key, copy, unmanaged)
            }
            Classified::Other(key) => SliceRole::Other(key, unmanaged()),
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
    use crate::model::slice::AddressType;

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
                let wire = SliceDecoder::default().json(&text).expect("a slice");
                let typed: EndpointSlice = serde_json::from_str(&text).expect("a slice");
                assert_eq!(wire.meta().uid, typed.metadata.uid);
                let (wire, typed) = (ObservedSlice::from(wire), ObservedSlice::read(&typed));
                assert_eq!(format!("{wire:?}"), format!("{typed:?}"));
            }
        }
    }

    #[test]
    fn source_without_readable_ports_is_present_and_unread() {
        let labels = json!({labels::SERVICE_NAME: "foo"});
        let odd = json!({"ports": [{"port": 1_u64 << 40}]});
        let text = slice(labels, odd).to_string();
        let wire = SliceDecoder::default().json(&text).expect("a slice");
        let SliceRole::Source(key, source) = wire.role else {
            panic!("no source")
        };
        assert_eq!(*key.name, *"foo");
        assert_eq!(source.address_type, AddressType::Unread);
    }

    #[test]
    fn what_is_no_slice_is_an_error_and_never_more() {
        for text in ["null", "[]", r#"{"metadata": 1}"#] {
            assert!(SliceDecoder::default().json(text).is_err(), "{text}");
        }
        let odd = json!({"endpoints": [{"addresses": "x"}]});
        let of_foo = slice(json!({labels::SERVICE_NAME: "foo"}), odd).to_string();
        let wire = SliceDecoder::default().json(&of_foo).expect("of a service");
        let SliceRole::Source(_, source) = wire.role else {
            panic!("no source");
        };
        assert_eq!(source.address_type, AddressType::Unread);
    }
}
