//! EndpointSlices as protobuf, as API servers encode them: the fields of `k8s.io/api/discovery/v1/generated.proto`.

use std::collections::BTreeMap;

use causeway::api::labels;

use k8s_openapi::api::discovery::v1::{Endpoint, EndpointPort, EndpointSlice};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::text::{
    Content, CopyText, HUB_UID, SliceId, address, copy_fields, namespace, push_address, push_hex,
    push_padded, service_name, sort, source_fields, uid, zone,
};

/// What the encoding of an object begins with.
const MAGIC: &[u8] = b"k8s\0";
/// The most bytes of the length of a message.
const LENGTH: usize = 3;

/// Adds fields to a message.
pub(super) trait Fields {
    fn number(&mut self, field: u32, number: u64);
    fn bytes(&mut self, field: u32, bytes: &[u8]);
    /// Adds a message, of less than two megabytes.
    fn message(&mut self, field: u32, fill: impl FnOnce(&mut Self));
}

fn push_varint(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push((number & 0x7f) as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

impl Fields for Vec<u8> {
    fn number(&mut self, field: u32, number: u64) {
        push_varint(self, u64::from(field) << 3);
        push_varint(self, number);
    }

    fn bytes(&mut self, field: u32, bytes: &[u8]) {
        push_varint(self, u64::from(field) << 3 | 2);
        push_varint(self, bytes.len() as u64);
        self.extend_from_slice(bytes);
    }

    fn message(&mut self, field: u32, fill: impl FnOnce(&mut Self)) {
        push_varint(self, u64::from(field) << 3 | 2);
        let start = self.len();
        self.extend_from_slice(&[0; LENGTH]);
        fill(self);
        let length = self.len() - start - LENGTH;
        let (mut digits, mut count, mut left) = ([0; LENGTH], 1, length);
        while left >= 0x80 && count < LENGTH {
            digits[count - 1] = (left & 0x7f) as u8 | 0x80;
            left >>= 7;
            count += 1;
        }
        digits[count - 1] = left as u8;
        self.splice(start..start + LENGTH, digits.into_iter().take(count));
    }
}

/// An answer that is one object: its message in an envelope.
pub(super) fn envelope(api_version: &str, kind: &str, message: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(message.len() + 64);
    push_envelope(&mut out, api_version, kind, message);
    out
}

fn push_envelope(out: &mut Vec<u8>, api_version: &str, kind: &str, message: &[u8]) {
    out.extend_from_slice(MAGIC);
    out.message(1, |meta| {
        meta.bytes(1, api_version.as_bytes());
        meta.bytes(2, kind.as_bytes());
    });
    out.bytes(2, message);
    out.bytes(3, b"");
    out.bytes(4, b"");
}

/// An event of a watch, with its length before it; `slice` is a message.
pub(super) fn event(kind: &str, slice: &[u8]) -> Vec<u8> {
    let object = envelope("discovery.k8s.io/v1", "EndpointSlice", slice);
    let mut out = vec![0; 4];
    out.bytes(1, kind.as_bytes());
    let mut extension = Vec::with_capacity(object.len() + 8);
    extension.bytes(1, &object);
    out.bytes(2, &extension);
    let length = u32::try_from(out.len() - 4).unwrap_or(u32::MAX);
    out[..4].copy_from_slice(&length.to_be_bytes());
    out
}

/// A slice that is known as JSON.
pub(super) fn push_slice(out: &mut Vec<u8>, slice: &EndpointSlice) {
    out.message(1, |meta| push_meta(meta, &slice.metadata));
    for endpoint in &slice.endpoints {
        out.message(2, |out| push_endpoint(out, endpoint));
    }
    for port in slice.ports.iter().flatten() {
        out.message(3, |out| push_port(out, port));
    }
    out.bytes(4, slice.address_type.as_bytes());
}

fn push_text(out: &mut Vec<u8>, field: u32, text: Option<&String>) {
    if let Some(text) = text {
        out.bytes(field, text.as_bytes());
    }
}

fn push_meta(out: &mut Vec<u8>, meta: &ObjectMeta) {
    push_text(out, 1, meta.name.as_ref());
    push_text(out, 3, meta.namespace.as_ref());
    push_text(out, 5, meta.uid.as_ref());
    push_text(out, 6, meta.resource_version.as_ref());
    push_map(out, 11, meta.labels.as_ref());
    push_map(out, 12, meta.annotations.as_ref());
    for owner in meta.owner_references.iter().flatten() {
        out.message(13, |out| {
            out.bytes(1, owner.kind.as_bytes());
            out.bytes(3, owner.name.as_bytes());
            out.bytes(4, owner.uid.as_bytes());
            out.bytes(5, owner.api_version.as_bytes());
        });
    }
}

fn push_map(out: &mut Vec<u8>, field: u32, map: Option<&BTreeMap<String, String>>) {
    for (name, value) in map.into_iter().flatten() {
        push_entry(out, field, name, value);
    }
}

/// An entry of a map of texts.
pub(super) fn push_entry(out: &mut Vec<u8>, field: u32, name: &str, value: &str) {
    out.message(field, |out| {
        out.bytes(1, name.as_bytes());
        out.bytes(2, value.as_bytes());
    });
}

fn push_endpoint(out: &mut Vec<u8>, endpoint: &Endpoint) {
    for address in &endpoint.addresses {
        out.bytes(1, address.as_bytes());
    }
    let conditions = endpoint.conditions.clone().unwrap_or_default();
    let given = [conditions.ready, conditions.serving, conditions.terminating];
    push_conditions(out, given);
    push_text(out, 3, endpoint.hostname.as_ref());
    push_text(out, 6, endpoint.node_name.as_ref());
    push_text(out, 7, endpoint.zone.as_ref());
}

/// Ready, serving and terminating.
pub(super) fn push_conditions(out: &mut Vec<u8>, given: [Option<bool>; 3]) {
    out.message(2, |out| {
        for (field, given) in (1..).zip(given) {
            if let Some(given) = given {
                out.number(field, given.into());
            }
        }
    });
}

fn push_port(out: &mut Vec<u8>, port: &EndpointPort) {
    push_text(out, 1, port.name.as_ref());
    push_text(out, 2, port.protocol.as_ref());
    if let Some(number) = port.port.and_then(|number| u64::try_from(number).ok()) {
        out.number(3, number);
    }
    push_text(out, 4, port.app_protocol.as_ref());
}

/// 2026-01-01T00:00:00Z, in seconds of Unix time.
const CREATED: u64 = 1_767_225_600;

fn push_time(out: &mut Vec<u8>, field: u32) {
    out.message(field, |out| {
        out.number(1, CREATED);
        out.number(2, 0);
    });
}

/// What the slices and the copies have in common before their labels.
fn push_head(out: &mut Vec<u8>, name: &str, content: Content, uid: &str, resource_version: u64) {
    out.bytes(1, name.as_bytes());
    out.bytes(3, namespace(content.id.service).as_bytes());
    out.bytes(5, uid.as_bytes());
    out.bytes(6, resource_version.to_string().as_bytes());
    out.number(7, u64::from(content.version) + 1);
    push_time(out, 8);
}

fn push_managed(out: &mut Vec<u8>, manager: &str, fields: &str) {
    out.message(17, |out| {
        out.bytes(1, manager.as_bytes());
        out.bytes(2, b"Update");
        out.bytes(3, b"discovery.k8s.io/v1");
        push_time(out, 4);
        out.bytes(6, b"FieldsV1");
        out.message(7, |out| out.bytes(1, fields.as_bytes()));
    });
}

fn push_tail(out: &mut Vec<u8>) {
    out.message(3, |out| {
        out.bytes(1, b"http");
        out.bytes(2, b"TCP");
        out.number(3, 8080);
    });
    out.bytes(4, b"IPv4");
}

fn push_ready(out: &mut Vec<u8>, content: Content, place: u16, text: &mut Vec<u8>) {
    text.clear();
    push_address(text, address(content, place));
    out.bytes(1, text);
    push_conditions(out, [Some(true), Some(true), Some(false)]);
}

/// A source slice, with all that [`super::text::push_source`] says.
pub(super) fn push_source(out: &mut Vec<u8>, content: Content, resource_version: u64) {
    let SliceId { service, .. } = content.id;
    let (of, shop) = (service_name(service), namespace(service));
    let owner = uid(sort::SERVICE, service, 0);
    out.message(1, |out| {
        push_head(
            out,
            &content.id.name(),
            content,
            &content.id.uid(),
            resource_version,
        );
        out.bytes(2, format!("{of}-").as_bytes());
        push_entry(out, 11, "app", &of);
        push_entry(out, 11, labels::SLICE_MANAGED_BY, labels::SLICE_CONTROLLER);
        push_entry(out, 11, labels::SERVICE_NAME, &of);
        let changed = "endpoints.kubernetes.io/last-change-trigger-time";
        push_entry(out, 12, changed, super::text::CREATED);
        out.message(13, |out| {
            out.bytes(1, b"Service");
            out.bytes(3, of.as_bytes());
            out.bytes(4, owner.as_bytes());
            out.bytes(5, b"v1");
            out.number(6, 1);
            out.number(7, 1);
        });
        push_managed(out, "kube-controller-manager", &source_fields(&owner));
    });
    let mut text = Vec::new();
    for place in 0..content.endpoints {
        let number = content.first.wrapping_add(place.into());
        out.message(2, |out| {
            push_ready(out, content, place, &mut text);
            out.message(4, |out| {
                out.bytes(1, b"Pod");
                out.bytes(2, shop.as_bytes());
                text.clear();
                text.extend_from_slice(of.as_bytes());
                text.extend_from_slice(b"-6d4b75cb6d-");
                push_hex(&mut text, number);
                out.bytes(3, &text);
                text.clear();
                push_hex(&mut text, number);
                text.extend_from_slice(b"-5f3c-4a6b-9d2e-");
                push_padded(&mut text, number, 12);
                out.bytes(4, &text);
            });
            text.clear();
            text.extend_from_slice(b"node-");
            push_padded(&mut text, number % 1000, 4);
            text.extend_from_slice(b".compute.example");
            out.bytes(6, &text);
            out.bytes(7, &zone(number));
        });
    }
    push_tail(out);
}

/// A copy, with all that [`CopyText::push`] says.
pub(super) fn push_copy(out: &mut Vec<u8>, copy: &CopyText<'_>) {
    let (content, provider) = (copy.content, copy.provider);
    let id = content.id;
    let of = service_name(id.service);
    out.message(1, |out| {
        let uid = CopyText::uid(content, copy.consumer);
        push_head(
            out,
            &id.copy_name(provider),
            content,
            &uid,
            copy.resource_version,
        );
        for (name, value) in [
            (labels::SERVICE_NAME, &*of),
            (labels::SLICE_MANAGED_BY, labels::SLICE_DISPATCHER),
            (labels::SOURCE_CLUSTER, provider),
            (labels::MANAGED_BY, labels::MANAGER),
            (labels::HUB, HUB_UID),
        ] {
            push_entry(out, 11, name, value);
        }
        let owner = format!(
            "MultiClusterService/{}",
            super::text::uid(sort::MCS, id.service, 0)
        );
        let source = format!("{}/{}", id.uid(), copy.source_version);
        for (name, value) in [
            (labels::PROVISION_CLUSTER, provider),
            (labels::OWNER, &*owner),
            (labels::SOURCE, &*source),
        ] {
            push_entry(out, 12, name, value);
        }
        push_managed(out, "causeway", copy_fields());
    });
    let mut text = Vec::new();
    for place in 0..content.endpoints {
        out.message(2, |out| {
            push_ready(out, content, place, &mut text);
            out.bytes(7, &zone(content.first.wrapping_add(place.into())));
        });
    }
    push_tail(out);
}

#[cfg(test)]
mod tests {
    use causeway_engine::model::slice::{ObservedSlice, SliceDecoder};

    use super::super::text;
    use super::*;

    /// What the controller makes of the same slice, given as JSON and as protobuf.
    fn read(json: &[u8], message: &[u8]) -> [String; 2] {
        let mut decoder = SliceDecoder::default();
        let json = std::str::from_utf8(json).unwrap();
        let read = [decoder.json(json), decoder.protobuf(message)];
        read.map(|slice| format!("{:?}", ObservedSlice::from(slice.unwrap())))
    }

    #[test]
    fn slices_and_copies_say_in_protobuf_what_they_say_in_json() {
        let id = SliceId {
            service: 70_000,
            slice: 3,
        };
        let content = Content {
            id,
            endpoints: 100,
            version: 1,
            first: 4_000_000,
        };
        let copy = CopyText {
            content,
            provider: "member-001",
            consumer: 2,
            source_version: 77,
            resource_version: 78,
        };
        let mut made = [const { Vec::new() }; 4];
        let [source, source_message, copied, copied_message] = &mut made;
        text::push_source(source, content, 77);
        push_source(source_message, content, 77);
        copy.push(copied);
        push_copy(copied_message, &copy);
        for (json, message) in [(source, source_message), (copied, copied_message)] {
            let [of_json, of_message] = read(json, message);
            assert_eq!(of_json, of_message);
            let mut typed = Vec::new();
            push_slice(&mut typed, &serde_json::from_slice(json).unwrap());
            let [_, of_typed] = read(json, &typed);
            assert_eq!(of_json, of_typed);
        }
    }
}
