//! EndpointSlices as protobuf, as API servers encode them: the fields of `k8s.io/api/discovery/v1/generated.proto`.

use causeway::api::labels;
use causeway_wire::protobuf::{Fields, Malformed, Message as _, Value, enveloped};
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointPort, EndpointSlice};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::text::{
    Content, CopyText, HUB_UID, SliceId, address, copy_fields, namespace, push_address, push_hex,
    push_padded, service_name, sort, source_fields, uid, zone,
};

/// What a slice says of itself that decides whether it may be written.
#[derive(Default)]
pub(super) struct Metadata<'a> {
    pub(super) name: &'a str,
    pub(super) uid: &'a str,
    pub(super) resource_version: &'a str,
}

impl<'a> Metadata<'a> {
    pub(super) fn read(slice: &'a [u8]) -> Result<Self, Malformed> {
        let mut metadata = Self::default();
        for field in Fields::of(metadata_of(slice)) {
            match field? {
                (1, value) => metadata.name = value.text()?,
                (5, value) => metadata.uid = value.text()?,
                (6, value) => metadata.resource_version = value.text()?,
                _ => {}
            }
        }
        Ok(metadata)
    }
}

fn metadata_of(slice: &[u8]) -> &[u8] {
    let mut fields = Fields::of(slice).flatten();
    let metadata = fields.find(|(number, _)| *number == 1);
    metadata.map_or(&[], |(_, value)| value.bytes())
}

/// An annotation of a slice.
pub(super) fn annotation<'a>(slice: &'a [u8], name: &str) -> Option<&'a str> {
    let metadata = Fields::of(metadata_of(slice)).flatten();
    let entries = metadata.filter(|(number, _)| *number == 12);
    entries.into_iter().find_map(|(_, entry)| {
        let (known, value) = pair(entry.bytes())?;
        (known == name).then_some(value)
    })
}

fn pair(entry: &[u8]) -> Option<(&str, &str)> {
    let (mut name, mut value) = ("", "");
    for (number, part) in Fields::of(entry).flatten() {
        match number {
            1 => name = part.text().ok()?,
            2 => value = part.text().ok()?,
            _ => {}
        }
    }
    Some((name, value))
}

/// A slice as it is stored: what the API server sets is set.
pub(super) fn stored(slice: &[u8], uid: &str, resource_version: u64) -> Vec<u8> {
    let mut out = Vec::with_capacity(slice.len() + 64);
    out.message(1, |out| {
        for (number, value) in Fields::of(metadata_of(slice)).flatten() {
            if !matches!(number, 5..=8) {
                push(out, number, value);
            }
        }
        out.bytes(5, uid.as_bytes());
        out.bytes(6, resource_version.to_string().as_bytes());
        out.number(7, 1);
        push_time(out, 8);
    });
    for (number, value) in Fields::of(slice).flatten().filter(|field| field.0 != 1) {
        push(&mut out, number, value);
    }
    out
}

fn push(out: &mut Vec<u8>, field: u32, value: Value<'_>) {
    match value {
        Value::Number(number) => out.number(field, number),
        Value::Bytes(bytes) => out.bytes(field, bytes),
    }
}

/// A slice as JSON has it.
pub(super) fn slice(message: &[u8]) -> Result<EndpointSlice, Malformed> {
    let mut slice = EndpointSlice::default();
    for field in Fields::of(message) {
        match field? {
            (1, value) => slice.metadata = object_meta(value.bytes())?,
            (2, value) => slice.endpoints.push(endpoint(value.bytes())?),
            (3, value) => {
                let ports = slice.ports.get_or_insert_default();
                ports.push(port(value.bytes())?);
            }
            (4, value) => slice.address_type = value.text()?.to_owned(),
            _ => {}
        }
    }
    Ok(slice)
}

fn text(value: Value<'_>) -> Result<Option<String>, Malformed> {
    Ok(Some(value.text()?.to_owned()))
}

fn object_meta(message: &[u8]) -> Result<ObjectMeta, Malformed> {
    let mut meta = ObjectMeta::default();
    for field in Fields::of(message) {
        let (number, value) = field?;
        match number {
            1 => meta.name = text(value)?,
            3 => meta.namespace = text(value)?,
            5 => meta.uid = text(value)?,
            6 => meta.resource_version = text(value)?,
            11 | 12 => {
                let map = match number {
                    11 => &mut meta.labels,
                    _ => &mut meta.annotations,
                };
                let (name, value) = pair(value.bytes()).ok_or(Malformed::Text)?;
                let map = map.get_or_insert_default();
                map.insert(name.to_owned(), value.to_owned());
            }
            _ => {}
        }
    }
    Ok(meta)
}

fn endpoint(message: &[u8]) -> Result<Endpoint, Malformed> {
    let mut endpoint = Endpoint::default();
    for field in Fields::of(message) {
        match field? {
            (1, value) => endpoint.addresses.push(value.text()?.to_owned()),
            (2, value) => {
                let conditions = endpoint.conditions.get_or_insert_default();
                for (number, value) in Fields::of(value.bytes()).flatten() {
                    let given = Some(value.is_true());
                    match number {
                        1 => conditions.ready = given,
                        2 => conditions.serving = given,
                        3 => conditions.terminating = given,
                        _ => {}
                    }
                }
            }
            (6, value) => endpoint.node_name = text(value)?,
            (7, value) => endpoint.zone = text(value)?,
            _ => {}
        }
    }
    Ok(endpoint)
}

fn port(message: &[u8]) -> Result<EndpointPort, Malformed> {
    let mut port = EndpointPort::default();
    for field in Fields::of(message) {
        match field? {
            (1, value) => port.name = text(value)?,
            (2, value) => port.protocol = text(value)?,
            (3, value) => {
                let number = value.number().map(i32::try_from);
                port.port = number.and_then(Result::ok);
            }
            _ => {}
        }
    }
    Ok(port)
}

/// An event of a watch, with its length before it; `slice` is a message.
pub(super) fn event(kind: &str, slice: &[u8]) -> Vec<u8> {
    let object = enveloped("discovery.k8s.io/v1", "EndpointSlice", slice);
    let mut out = vec![0; 4];
    out.bytes(1, kind.as_bytes());
    let mut extension = Vec::with_capacity(object.len() + 8);
    extension.bytes(1, &object);
    out.bytes(2, &extension);
    let length = u32::try_from(out.len() - 4).unwrap_or(u32::MAX);
    out[..4].copy_from_slice(&length.to_be_bytes());
    out
}

/// An entry of a map of texts.
pub(super) fn push_entry(out: &mut Vec<u8>, field: u32, name: &str, value: &str) {
    out.message(field, |out| {
        out.bytes(1, name.as_bytes());
        out.bytes(2, value.as_bytes());
    });
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
    use causeway_wire::{Object, encode};

    use super::super::text;
    use super::*;

    /// What the controller makes of the same slice, given as JSON and as protobuf.
    fn read(json: &[u8], message: &[u8]) -> [String; 2] {
        let mut decoder = SliceDecoder::default();
        let json = std::str::from_utf8(json).unwrap();
        let read =
            [Object::Json(json), Object::Protobuf(message)].map(|object| decoder.decode(object));
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
            let typed = encode(&serde_json::from_slice(json).unwrap());
            let [_, of_typed] = read(json, &typed);
            assert_eq!(of_json, of_typed);
            let given_back = serde_json::to_vec(&slice(message).unwrap()).unwrap();
            let [of_given_back, of_stored] = read(&given_back, &stored(message, "u", 79));
            assert_eq!(of_json, of_given_back);
            assert_ne!(of_json, of_stored);
            let stored = Metadata::read(message).unwrap();
            let again = super::stored(
                message,
                stored.uid,
                stored.resource_version.parse().unwrap(),
            );
            let [_, of_again] = read(json, &again);
            assert_eq!(of_json, of_again);
        }
    }
}
