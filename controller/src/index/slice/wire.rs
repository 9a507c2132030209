//! EndpointSlices as they come from a watch: of what they say only what is kept is decoded, and sources go from the text
//! of the answer straight into their compact form.

use std::borrow::Cow;
use std::collections::BTreeMap;

use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointPort, EndpointSlice};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference, Time};
use kube::Resource;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use super::source::SourceSlice;
use super::{ObservedSlice, SliceRole, copied, role};

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
    #[serde(borrow)]
    pub(super) addresses: Option<Vec<Text<'a>>>,
    pub(super) hostname: Option<Text<'a>>,
    pub(super) zone: Option<Text<'a>>,
    pub(super) node_name: Option<Text<'a>>,
    pub(super) conditions: Option<WireConditions>,
}

/// The conditions of an endpoint, as they are given.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
pub(super) struct WireConditions {
    pub(super) ready: Option<bool>,
    pub(super) serving: Option<bool>,
    pub(super) terminating: Option<bool>,
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
    annotations: Option<BTreeMap<String, String>>,
    owner_references: Option<Vec<OwnerReference>>,
}

impl<'a> WireEndpoint<'a> {
    pub(super) fn of(endpoint: &'a Endpoint) -> Self {
        let text = |text: &'a String| Text(Cow::Borrowed(&**text));
        let conditions = endpoint.conditions.as_ref();
        Self {
            addresses: Some(endpoint.addresses.iter().map(text).collect()),
            hostname: endpoint.hostname.as_ref().map(text),
            zone: endpoint.zone.as_ref().map(text),
            node_name: endpoint.node_name.as_ref().map(text),
            conditions: conditions.map(|given| WireConditions {
                ready: given.ready,
                serving: given.serving,
                terminating: given.terminating,
            }),
        }
    }
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
        let Wire {
            metadata,
            address_type,
            endpoints,
            ports,
        } = self;
        let labels = metadata.labels.unwrap_or_default();
        let mut meta = ObjectMeta {
            namespace: metadata.namespace,
            name: metadata.name,
            uid: metadata.uid,
            resource_version: metadata.resource_version,
            deletion_timestamp: metadata.deletion_timestamp,
            ..ObjectMeta::default()
        };
        let address_type = address_type.map_or_else(String::new, |text| text.0.into_owned());
        let namespace = meta.namespace.as_deref().unwrap_or_default().into();
        let endpoints = endpoints.map_or("null", RawValue::get);
        let label = |name: &'static str| {
            let value = labels.get(&Text(Cow::Borrowed(name)));
            value.map(|value| &*value.0)
        };
        let role = role(
            &namespace,
            label,
            |hub, path| {
                let owned = |(name, value): (&Text<'_>, &Text<'_>)| {
                    (name.0.to_string(), value.0.to_string())
                };
                let slice = EndpointSlice {
                    metadata: ObjectMeta {
                        labels: Some(labels.iter().map(owned).collect()),
                        annotations: metadata.annotations,
                        owner_references: metadata.owner_references,
                        ..meta.clone()
                    },
                    address_type: address_type.clone(),
                    endpoints: serde_json::from_str::<Option<_>>(endpoints)?.unwrap_or_default(),
                    ports: ports.clone(),
                };
                Ok(copied(&slice, hub, path))
            },
            |manager| {
                let Ok(endpoints) = serde_json::from_str::<Option<Vec<_>>>(endpoints) else {
                    return Ok(SourceSlice::unread(&meta, manager));
                };
                let endpoints = endpoints.into_iter().flatten();
                let ports = ports.as_deref().unwrap_or_default();
                Ok(SourceSlice::read(
                    &meta,
                    &address_type,
                    endpoints,
                    ports,
                    manager,
                ))
            },
        )?;
        meta.labels = None;
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
