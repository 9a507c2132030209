//! Slices of JSON, which an API server or a proxy may send in place of protobuf.

use std::borrow::Cow;
use std::collections::BTreeMap;

use causeway::api::lists::{each_entry, first_entries};
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointPort};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference, Time};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use super::encode::{ENDPOINTS, push_endpoint, push_metadata, push_port};
use super::parts::LISTED_MAX;
use crate::answer::Object;
use crate::protobuf::Message as _;
use crate::unreadable::Unreadable;

/// Part of a slice that must be readable for the slice to count as present. A source of which
/// nothing else can be read retains its copies.
#[derive(Deserialize)]
struct Bearer {
    metadata: Metadata,
}

/// Metadata of a slice, without the fields that nobody reads.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    namespace: Option<String>,
    name: Option<String>,
    uid: Option<String>,
    resource_version: Option<String>,
    deletion_timestamp: Option<Time>,
    labels: Option<BTreeMap<String, String>>,
    annotations: Option<BTreeMap<String, String>>,
    #[serde(default, deserialize_with = "listed")]
    owner_references: Vec<OwnerReference>,
}

impl From<Metadata> for ObjectMeta {
    fn from(metadata: Metadata) -> Self {
        Self {
            namespace: metadata.namespace,
            name: metadata.name,
            uid: metadata.uid,
            resource_version: metadata.resource_version,
            deletion_timestamp: metadata.deletion_timestamp,
            labels: metadata.labels,
            annotations: metadata.annotations,
            owner_references: Some(metadata.owner_references),
            ..Self::default()
        }
    }
}

/// Returns the first [`LISTED_MAX`] entries of a list. The entries beyond them are decoded and
/// dropped.
fn listed<'de, T, D>(input: D) -> Result<Vec<T>, D::Error>
where
    T: Deserialize<'de>,
    D: Deserializer<'de>,
{
    first_entries(input, LISTED_MAX)
}

/// Returns the message of an EndpointSlice. A slice of JSON is encoded; if only its metadata can be
/// read, the message is malformed after the metadata.
///
/// # Errors
/// The JSON has no readable metadata, or too many objects within it.
pub fn message(object: Object<'_>) -> Result<Cow<'_, [u8]>, Unreadable> {
    match object {
        Object::Json(_) => Ok(encoded(object.json()?)?.into()),
        Object::Protobuf(message) => Ok(message.into()),
    }
}

fn encoded(text: &str) -> serde_json::Result<Vec<u8>> {
    let Bearer { metadata } = serde_json::from_str(text)?;
    let mut out = Vec::new();
    out.message(1, |out| push_metadata(out, &metadata.into()));
    if push_content(&mut out, text).is_err() {
        // No field has the number 0.
        out.push(0);
    }
    Ok(out)
}

/// Adds all but the metadata. Of the endpoints, only one at a time is in memory.
fn push_content(out: &mut Vec<u8>, text: &str) -> serde_json::Result<()> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Content<'a> {
        address_type: Option<String>,
        #[serde(borrow)]
        endpoints: Option<&'a RawValue>,
        #[serde(default, deserialize_with = "listed")]
        ports: Vec<EndpointPort>,
    }
    let content: Content<'_> = serde_json::from_str(text)?;
    if let Some(endpoints) = content.endpoints {
        let mut endpoints = serde_json::Deserializer::from_str(endpoints.get());
        each_entry(&mut endpoints, |endpoint: Endpoint| {
            out.message(ENDPOINTS, |out| push_endpoint(out, &endpoint));
        })?;
    }
    for port in &content.ports {
        out.message(3, |out| push_port(out, port));
    }
    let address_type = content.address_type.unwrap_or_default();
    out.bytes(4, address_type.as_bytes());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slice::{AddressType, Places, RawSlice, SliceManager};

    #[test]
    fn slice_with_unreadable_content_is_an_unread_source() {
        let read = |content: &str| {
            let metadata = r#"{"uid":"u","resourceVersion":"7","labels":{"a":"b"}}"#;
            let json = format!(r#"{{"metadata":{metadata},{content}}}"#);
            let message = message(Object::Json(&json)).expect("a message");
            let slice = RawSlice::decode(&message).expect("its metadata");
            assert_eq!(slice.label("a"), Some("b"));
            let source = slice.source(SliceManager::Pods, &mut Places::default());
            let is_hashed = slice.content_hash(std::iter::empty()).is_ok();
            (source.expect("a version").address_type, is_hashed)
        };
        let readable = r#""addressType":"IPv4","endpoints":[{"hints":null}],"ports":[{}]"#;
        assert_eq!(read(readable), (AddressType::Ipv4, true));
        for content in [
            r#""addressType":1"#,
            r#""ports":{}"#,
            r#""ports":[{"port":1},null]"#,
            r#""ports":[{"port":1099511627776}]"#,
            r#""endpoints":{}"#,
            r#""endpoints":[{},{"addresses":"x"}]"#,
            r#""endpoints":[{"addresses":[1]}]"#,
            r#""endpoints":[{"conditions":{"ready":1}}]"#,
            r#""endpoints":[{"hints":{"forZones":[1]}}]"#,
        ] {
            assert_eq!(read(content), (AddressType::Unread, false), "{content}");
        }
    }

    #[test]
    fn slice_of_too_many_objects_is_an_error() {
        let endpoints = "{},".repeat(524_288);
        let json = format!(r#"{{"metadata":{{}},"endpoints":[{endpoints}{{}}]}}"#);
        let message = message(Object::Json(&json));
        assert!(matches!(message, Err(Unreadable::TooManyParts(_))));
    }

    #[test]
    fn time_of_deletion_is_read_from_json() {
        for (time, expected) in [
            ("2026-01-02T03:04:05Z", "2026-01-02T03:04:05Z"),
            ("2026-01-02T03:04:05.5Z", "2026-01-02T03:04:05Z"),
            ("1969-12-31T23:59:59.5Z", "1969-12-31T23:59:59Z"),
        ] {
            let json = format!(r#"{{"metadata":{{"deletionTimestamp":"{time}"}}}}"#);
            let message = message(Object::Json(&json)).expect("a message");
            let meta = RawSlice::decode(&message).expect("a slice").into_meta();
            let Time(deleted) = meta.deletion_timestamp.expect("a time");
            assert_eq!(deleted.to_string(), expected);
        }
    }
}
