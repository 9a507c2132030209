//! Decoder of the EndpointSlices of a watch.

use std::sync::Arc;

use causeway::domain::ServiceKey;
use causeway_wire::{Object, Places, RawSlice, Unreadable, message};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;

use super::observed::{ObservedSlice, Origins, SliceRole};

/// EndpointSlice as a watch reports it.
#[derive(Debug, Resource)]
#[resource(inherit = "EndpointSlice")]
pub struct WireSlice {
    /// Namespace, name, UID, resourceVersion and time of deletion; nothing else.
    metadata: ObjectMeta,
    role: SliceRole,
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
    /// Decodes a slice.
    ///
    /// # Errors
    /// The object is no EndpointSlice.
    pub fn decode(&mut self, object: Object<'_>) -> Result<WireSlice, Unreadable> {
        let message = message(object)?;
        let slice = RawSlice::decode(&message)?;
        let role = SliceRole::of(&slice, &mut self.places, &mut self.origins)?;
        let metadata = slice.into_meta();
        Ok(self.share(WireSlice { metadata, role }))
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

impl WireSlice {
    /// Returns the name of the Service that it belongs to; empty without one.
    pub fn service_name(&self) -> &Arc<str> {
        &self.role.key().name
    }
}

impl From<WireSlice> for ObservedSlice {
    fn from(slice: WireSlice) -> Self {
        Self {
            namespace: slice.role.key().namespace.clone(),
            name: slice.metadata.name.unwrap_or_default().into(),
            role: slice.role,
        }
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

    fn read(text: &str) -> Result<WireSlice, Unreadable> {
        SliceDecoder::default().decode(Object::Json(text))
    }

    #[test]
    fn decoded_slice_equals_the_one_of_the_typed_object() {
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
                let wire = read(&text).expect("a slice");
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
        let wire = read(&text).expect("a slice");
        let SliceRole::Source(key, source) = wire.role else {
            panic!("no source")
        };
        assert_eq!(*key.name, *"foo");
        assert_eq!(source.address_type, AddressType::Unread);
    }

    #[test]
    fn only_an_object_without_metadata_is_an_error() {
        for text in ["null", "[]", r#"{"metadata": 1}"#] {
            assert!(read(text).is_err(), "{text}");
        }
        let odd = json!({"endpoints": [{"addresses": "x"}]});
        let of_foo = slice(json!({labels::SERVICE_NAME: "foo"}), odd).to_string();
        let wire = read(&of_foo).expect("of a service");
        let SliceRole::Source(_, source) = wire.role else {
            panic!("no source");
        };
        assert_eq!(source.address_type, AddressType::Unread);
    }
}
