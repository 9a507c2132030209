//! Parts of an EndpointSlice that are decoded before its role is known.

use std::borrow::Cow;

use k8s_openapi::api::discovery::v1::{Endpoint, EndpointPort, EndpointSlice};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use super::bounded::list;
use super::endpoint::Text;
use super::source::PORTS_MAX;
use super::texts::Texts;

/// Maximum number of ports, and of owners, of a slice that are stored: one more than any copy of
/// causeway has, so a slice with more equals no copy.
pub(super) const LISTED_MAX: usize = PORTS_MAX + 1;

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
    #[serde(borrow, default)]
    pub(super) labels: Texts<'a>,
    #[serde(borrow, default)]
    pub(super) annotations: Texts<'a>,
    #[serde(borrow, default, deserialize_with = "list::<LISTED_MAX, _, _>")]
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

fn ports<'de, 'a, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Cow<'a, [EndpointPort]>, D::Error> {
    list::<LISTED_MAX, _, _>(deserializer).map(Cow::Owned)
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
                labels: (&meta.labels).into(),
                annotations: (&meta.annotations).into(),
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
    use serde_json::json;

    use super::*;
    use crate::answer::Object;
    use crate::protobuf::Message as _;
    use crate::slice::endpoint::{ADDRESSES_MAX, HINTS_MAX, WireEndpoint, each_endpoint};
    use crate::slice::{Places, RawSlice, SliceManager, encode, fields};

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

    /// Returns a slice of one endpoint with so many addresses, and zones and nodes in its hints.
    fn of_one_endpoint(addresses: usize, hints: usize) -> EndpointSlice {
        let hints = vec![json!({"name": "a"}); hints];
        let slice = serde_json::from_value(json!({
            "metadata": {},
            "addressType": "IPv4",
            "endpoints": [{
                "addresses": vec!["10.0.0.1"; addresses],
                "conditions": {},
                "hints": {"forZones": hints, "forNodes": hints},
            }],
        }));
        slice.expect("a typed slice")
    }

    #[test]
    fn addresses_and_hints_beyond_the_maximum_are_not_stored() {
        let slice = of_one_endpoint(5000, 5000);
        let is_bounded = |endpoint: &WireEndpoint<'_>| {
            let hints = endpoint.hints.as_ref().expect("hints").names();
            assert_eq!(hints.map(Iterator::count), [HINTS_MAX; 2]);
            assert_eq!(endpoint.addresses.iter().count(), ADDRESSES_MAX + 1);
        };
        let json = serde_json::to_string(&slice.endpoints).expect("JSON");
        each_endpoint(&json, is_bounded).expect("endpoints of JSON");
        fields::each_endpoint(&encode(&slice), is_bounded).expect("endpoints of protobuf");
        is_bounded(&WireEndpoint::of(&slice.endpoints[0]));
    }

    #[test]
    fn addresses_and_hints_are_hashed_alike_from_every_encoding() {
        let hash = |slice: RawSlice<'_>| slice.content_hash(std::iter::empty()).ok();
        for addresses in [1, ADDRESSES_MAX, ADDRESSES_MAX + 1, ADDRESSES_MAX + 2] {
            for hints in [1, 12, 13, HINTS_MAX, HINTS_MAX + 1] {
                let slice = of_one_endpoint(addresses, hints);
                let json = serde_json::to_string(&slice).expect("JSON");
                let typed = hash((&slice).into());
                for object in [Object::Json(&json), Object::Protobuf(&encode(&slice))] {
                    let decoded = hash(RawSlice::decode(object).expect("a slice"));
                    assert_eq!(decoded, typed, "{addresses} addresses, {hints} hints");
                }
            }
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
