//! Parts of an EndpointSlice that are decoded before its role is known.

use std::borrow::Cow;
use std::collections::BTreeMap;

use k8s_openapi::api::discovery::v1::{Endpoint, EndpointPort, EndpointSlice};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde::de::DeserializeSeed as _;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use super::endpoint::{Each, Text};
use super::source::PORTS_MAX;

/// Maximum number of ports, and of owners, of a slice that are stored: one more than any copy of
/// causeway has, so a slice with more equals no copy. Elements beyond it are decoded and dropped: a
/// malformed one makes the slice unread.
const LISTED_MAX: usize = PORTS_MAX + 1;

/// Slice of which the endpoints are not decoded.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Parts<'a> {
    #[serde(borrow)]
    pub(super) metadata: Metadata<'a>,
    #[serde(borrow)]
    pub(super) address_type: Option<Text<'a>>,
    #[serde(borrow, default)]
    pub(super) endpoints: Endpoints<'a>,
    #[serde(default, deserialize_with = "ports")]
    pub(super) ports: Cow<'a, [EndpointPort]>,
}

/// Part of a slice that must be readable for the slice to count as present. A source of which
/// nothing else can be read retains its copies.
#[derive(Deserialize)]
pub(super) struct Bearer<'a> {
    #[serde(borrow)]
    pub(super) metadata: Metadata<'a>,
}

/// Metadata of a slice.
#[derive(Debug, Default, Deserialize)]
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
    #[serde(borrow, default, deserialize_with = "listed")]
    pub(super) owner_references: Vec<Owner<'a>>,
}

/// Owner of a slice.
#[derive(Debug, Deserialize)]
pub(super) struct Owner<'a> {
    #[serde(borrow)]
    pub(super) uid: Option<Text<'a>>,
}

/// Endpoints that are not decoded.
#[derive(Clone, Copy, Debug)]
pub(super) enum Endpoints<'a> {
    /// List in JSON, or `null`.
    Json(&'a str),
    /// Message of the slice.
    Protobuf(&'a [u8]),
    /// Endpoints of a typed object.
    Typed(&'a [Endpoint]),
    /// Endpoints of a slice of which only the metadata can be read.
    Unread,
}

impl Default for Endpoints<'_> {
    fn default() -> Self {
        Self::Typed(&[])
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Endpoints<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <&RawValue>::deserialize(deserializer)?;
        Ok(Self::Json(text.get()))
    }
}

/// Adds an element to a list, unless that has its maximum already.
pub(super) fn add_listed<T>(all: &mut Vec<T>, element: T) {
    if all.len() < LISTED_MAX {
        all.push(element);
    }
}

/// Reads a list and returns its first elements; `null` is an empty list.
fn listed<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<T>, D::Error> {
    let mut all = Vec::new();
    Each::new(|element: T| add_listed(&mut all, element)).deserialize(deserializer)?;
    Ok(all)
}

fn ports<'de, 'a, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Cow<'a, [EndpointPort]>, D::Error> {
    listed(deserializer).map(Cow::Owned)
}

impl<'a> Parts<'a> {
    /// Returns a slice of which only the metadata can be read.
    pub(super) fn unread(metadata: Metadata<'a>) -> Self {
        Self {
            metadata,
            endpoints: Endpoints::Unread,
            ..Self::default()
        }
    }
}

impl<'a> From<&'a EndpointSlice> for Parts<'a> {
    fn from(slice: &'a EndpointSlice) -> Self {
        let meta = &slice.metadata;
        let texts = |all: &'a Option<BTreeMap<String, String>>| {
            let all = all.as_ref()?.iter();
            Some(
                all.map(|(name, value)| (name.into(), value.into()))
                    .collect(),
            )
        };
        let owners = meta.owner_references.iter().flatten();
        let owner = |uid: &'a String| Owner {
            uid: Some(uid.into()),
        };
        let ports = slice.ports.as_deref().unwrap_or_default();
        Self {
            metadata: Metadata {
                namespace: meta.namespace.clone(),
                name: meta.name.clone(),
                uid: meta.uid.clone(),
                resource_version: meta.resource_version.clone(),
                deletion_timestamp: meta.deletion_timestamp.clone(),
                labels: texts(&meta.labels),
                annotations: texts(&meta.annotations),
                owner_references: owners
                    .take(LISTED_MAX)
                    .map(|reference| owner(&reference.uid))
                    .collect(),
            },
            address_type: Some((&slice.address_type).into()),
            endpoints: Endpoints::Typed(&slice.endpoints),
            ports: Cow::Borrowed(&ports[..ports.len().min(LISTED_MAX)]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer::Object;
    use crate::protobuf::Message as _;
    use crate::slice::{Places, RawSlice, SliceManager, fields};

    const MANY: usize = 100_000;

    fn json(ports: usize, last: &str) -> String {
        let owners = r#"{"uid":"o"},"#.repeat(MANY);
        format!(
            r#"{{"metadata":{{"uid":"u","resourceVersion":"7","ownerReferences":[{owners}{{}}]}},
                "addressType":"IPv4","endpoints":null,"ports":[{}{last}]}}"#,
            r#"{"port":1},"#.repeat(ports)
        )
    }

    fn protobuf(ports: usize) -> Vec<u8> {
        let mut message = Vec::new();
        message.message(1, |meta| {
            meta.bytes(5, b"u");
            meta.bytes(6, b"7");
            (0..MANY).for_each(|_| meta.message(13, |owner| owner.bytes(4, b"o")));
        });
        (0..ports).for_each(|_| message.message(3, |port| port.number(3, 1)));
        message.bytes(4, b"IPv4");
        message
    }

    #[test]
    fn ports_and_owners_beyond_the_maximum_are_not_stored() {
        let (json, protobuf) = (json(MANY, "{}"), protobuf(MANY));
        let of_json: Parts<'_> = serde_json::from_str(&json).expect("a slice of JSON");
        let of_protobuf = fields::slice(&protobuf).expect("a slice of protobuf");
        let typed: EndpointSlice = serde_json::from_str(&json).expect("a typed slice");
        for parts in [of_json, of_protobuf, Parts::from(&typed)] {
            assert_eq!(parts.ports.len(), LISTED_MAX);
            assert_eq!(parts.metadata.owner_references.len(), LISTED_MAX);
        }
    }

    #[test]
    fn slice_of_too_many_ports_is_a_source_of_the_first() {
        let (json, protobuf) = (json(MANY, "{}"), protobuf(MANY));
        for object in [Object::Json(&json), Object::Protobuf(&protobuf)] {
            let slice = RawSlice::decode(object).expect("a slice");
            let source = slice.source(SliceManager::Pods, &mut Places::default());
            assert_eq!(source.expect("a version").ports.len(), PORTS_MAX);
        }
    }

    #[test]
    fn malformed_port_beyond_the_maximum_makes_a_slice_unread() {
        let malformed = json(LISTED_MAX, r#"{"port":"http"}"#);
        let slice = RawSlice::decode(Object::Json(&malformed)).expect("its metadata");
        assert!(slice.content_hash(std::iter::empty()).is_err());
        assert_eq!(slice.uid(), "u");
    }

    #[test]
    fn slice_without_ports_has_none() {
        for ports in ["", r#","ports":null"#, r#","ports":[]"#] {
            let json = format!(r#"{{"metadata":{{"ownerReferences":null}}{ports}}}"#);
            let parts: Parts<'_> = serde_json::from_str(&json).expect("a slice");
            assert!(parts.ports.is_empty() && parts.metadata.owner_references.is_empty());
        }
        let wrong = r#"{"metadata":{},"ports":{}}"#;
        assert!(serde_json::from_str::<Parts<'_>>(wrong).is_err());
    }
}
