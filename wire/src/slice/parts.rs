//! Parts of an EndpointSlice that are decoded before its role is known.

use k8s_openapi::api::discovery::v1::EndpointPort;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::source::PORTS_MAX;
use super::texts::Texts;

/// Maximum number of ports, and of owners, of a slice that are stored: one more than any copy of
/// causeway has, so a slice with more equals no copy.
pub(super) const LISTED_MAX: usize = PORTS_MAX + 1;

/// Slice of which the endpoints are not decoded.
#[derive(Debug, Default)]
pub(super) struct Parts<'a> {
    pub(super) metadata: Metadata<'a>,
    pub(super) address_type: &'a str,
    pub(super) ports: Vec<EndpointPort>,
    /// Message of the slice, which has the endpoints; `None` if only its metadata can be read.
    pub(super) message: Option<&'a [u8]>,
}

/// Metadata of a slice.
#[derive(Debug, Default)]
pub(super) struct Metadata<'a> {
    pub(super) namespace: Option<&'a str>,
    pub(super) name: Option<&'a str>,
    pub(super) uid: Option<&'a str>,
    pub(super) resource_version: Option<&'a str>,
    pub(super) deletion_timestamp: Option<Time>,
    pub(super) labels: Texts<'a>,
    pub(super) annotations: Texts<'a>,
    /// UIDs of its owners.
    pub(super) owners: Vec<&'a str>,
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::discovery::v1::EndpointSlice;
    use serde_json::json;

    use super::*;
    use crate::answer::Object;
    use crate::protobuf::Message as _;
    use crate::slice::endpoint::{ADDRESSES_MAX, HINTS_MAX};
    use crate::slice::{ContentHash, Places, RawSlice, SliceManager, encode, fields, message};

    const MANY: usize = 100_000;

    /// Returns the message of a slice of JSON.
    fn of_json(json: &str) -> Vec<u8> {
        let message = message(Object::Json(json));
        message.expect("its metadata").into_owned()
    }

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
        for message in [of_json(&json(MANY, "{}")), protobuf(MANY)] {
            let parts = fields::slice(&message).expect("a slice");
            assert_eq!(parts.ports.len(), LISTED_MAX);
            assert_eq!(parts.metadata.owners.len(), LISTED_MAX);
        }
    }

    #[test]
    fn ports_and_owners_of_json_beyond_the_maximum_are_not_encoded() {
        assert!(of_json(&json(MANY, "{}")).len() < MANY);
    }

    fn hash(message: &[u8]) -> Option<ContentHash> {
        let slice = RawSlice::decode(message).expect("a slice");
        slice.content_hash(std::iter::empty()).ok()
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
        let json = serde_json::to_string(&slice).expect("JSON");
        for message in [encode(&slice), of_json(&json)] {
            let mut endpoints = 0;
            let read = fields::each_endpoint(&message, |endpoint| {
                let hints = endpoint.hints.as_ref().expect("hints");
                assert_eq!(hints.each_ref().map(Vec::len), [HINTS_MAX; 2]);
                assert_eq!(endpoint.addresses.iter().count(), ADDRESSES_MAX + 1);
                endpoints += 1;
            });
            assert_eq!((read, endpoints), (Ok(()), 1));
        }
    }

    #[test]
    fn addresses_and_hints_are_hashed_alike_from_every_encoding() {
        for addresses in [1, ADDRESSES_MAX, ADDRESSES_MAX + 1, ADDRESSES_MAX + 2] {
            for hints in [1, 12, 13, HINTS_MAX, HINTS_MAX + 1] {
                let slice = of_one_endpoint(addresses, hints);
                let json = serde_json::to_string(&slice).expect("JSON");
                let hashes = [encode(&slice), of_json(&json)].map(|message| hash(&message));
                assert!(hashes[0].is_some());
                assert_eq!(hashes[0], hashes[1], "{addresses} addresses, {hints} hints");
            }
        }
    }

    #[test]
    fn slice_of_too_many_ports_is_a_source_of_the_first() {
        for message in [of_json(&json(MANY, "{}")), protobuf(MANY)] {
            let slice = RawSlice::decode(&message).expect("a slice");
            let source = slice.source(SliceManager::Pods, &mut Places::default());
            assert_eq!(source.expect("a version").ports.len(), PORTS_MAX);
        }
    }

    #[test]
    fn malformed_port_beyond_the_maximum_makes_a_slice_unread() {
        let malformed = of_json(&json(LISTED_MAX, r#"{"port":"http"}"#));
        assert_eq!(hash(&malformed), None);
        let slice = RawSlice::decode(&malformed).expect("its metadata");
        assert_eq!(slice.uid(), "u");
    }

    #[test]
    fn slice_without_ports_has_none() {
        for ports in ["", r#","ports":null"#, r#","ports":[]"#] {
            let json = format!(r#"{{"metadata":{{"ownerReferences":null}}{ports}}}"#);
            let message = of_json(&json);
            let parts = fields::slice(&message).expect("a slice");
            assert!(parts.ports.is_empty() && parts.metadata.owners.is_empty());
        }
        let wrong = of_json(r#"{"metadata":{},"ports":{}}"#);
        assert!(fields::slice(&wrong).is_err());
    }
}
