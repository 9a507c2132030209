//! Canonical form of the endpoints of a copy: the protobuf that an API server sends for a copy that
//! causeway wrote. Copies are hashed by it. Nearly all observed copies have this form already, so
//! they are hashed as they arrive and their endpoints are not decoded.

use std::net::Ipv4Addr;

use super::address::dotted;
use super::encode::{ENDPOINTS, push_conditions, push_hints, push_text};
use super::endpoint::ADDRESSES_MAX;
use crate::protobuf::{Fields, Message as _};

/// Wire type of a field that begins with its length.
const BYTES: u8 = 2;
/// Number of a field that marks an endpoint with content that no copy has.
const MORE: u32 = 15;

/// Content of an endpoint without its addresses.
pub(super) struct Rest<'a, Names> {
    pub(super) hostname: Option<&'a str>,
    pub(super) zone: Option<&'a str>,
    pub(super) node: Option<&'a str>,
    /// Ready, serving and terminating.
    pub(super) conditions: [Option<bool>; 3],
    /// Names of the zones and of the nodes in its hints.
    pub(super) hints: Option<[Names; 2]>,
    /// Whether it has content that no copy of causeway has.
    pub(super) has_more: bool,
}

/// Adds an endpoint; `addresses` adds its addresses.
pub(super) fn push_endpoint<'a, Names: Iterator<Item = &'a str>>(
    out: &mut Vec<u8>,
    addresses: impl FnOnce(&mut Vec<u8>),
    rest: Rest<'a, Names>,
) {
    out.message(ENDPOINTS, |out| {
        addresses(out);
        push_conditions(out, rest.conditions);
        push_text(out, 3, rest.hostname);
        push_text(out, 6, rest.node);
        push_text(out, 7, rest.zone);
        if let Some([zones, nodes]) = rest.hints {
            push_hints(out, zones, nodes);
        }
        if rest.has_more {
            out.number(MORE, 1);
        }
    });
}

/// Adds an address of an endpoint.
pub(super) fn push_address(out: &mut Vec<u8>, text: &str) {
    out.bytes(1, text.as_bytes());
}

/// Adds an IPv4 address, whose text has one form only.
pub(super) fn push_ipv4(out: &mut Vec<u8>, address: Ipv4Addr) {
    out.message(1, |out| dotted(address, |byte| out.push(byte)));
}

/// Returns the endpoints of a slice's message unchanged; `None` if one of them has another form,
/// content that no copy has, or more than [`ADDRESSES_MAX`] addresses.
pub(super) fn endpoints(slice: &[u8]) -> Option<&[u8]> {
    let mut fields = Fields::of(slice);
    let (mut at, mut found) = (0, 0..0);
    while let Some(field) = fields.next() {
        let begin = at;
        at = slice.len() - fields.rest().len();
        let (ENDPOINTS, value) = field.ok()? else {
            continue;
        };
        let value = value.bytes();
        let shortest = value.len() + if value.len() < 0x80 { 2 } else { 3 };
        if at - begin != shortest || !is_endpoint(value) {
            return None;
        }
        found = match found.end {
            0 => begin..at,
            end if end == begin => found.start..at,
            _ => return None,
        };
    }
    slice.get(found)
}

fn is_endpoint(mut message: &[u8]) -> bool {
    let (mut last, mut addresses, mut has_conditions) = (1, 0, false);
    while let Some((field, value, rest)) = short_field(message) {
        let is_usual = match field {
            1 | 3 | 6 | 7 => true,
            2 => are_conditions(value),
            8 => are_hints(value),
            _ => false,
        };
        let is_next = field > last || (field, last) == (1, 1);
        if !is_usual || !is_next {
            return false;
        }
        addresses += usize::from(field == 1);
        has_conditions |= field == 2;
        (last, message) = (field, rest);
    }
    message.is_empty() && has_conditions && addresses <= ADDRESSES_MAX
}

fn are_conditions(message: &[u8]) -> bool {
    let mut last = 0;
    message.chunks(2).all(|field| {
        let [key @ (0x08 | 0x10 | 0x18), 0 | 1] = *field else {
            return false;
        };
        std::mem::replace(&mut last, key) < key
    })
}

fn are_hints(mut message: &[u8]) -> bool {
    let mut last = 1;
    while let Some((field @ 1..=2, target, rest)) = short_field(message) {
        let Some((1, _, [])) = short_field(target) else {
            return false;
        };
        if field < last {
            return false;
        }
        (last, message) = (field, rest);
    }
    message.is_empty()
}

/// Returns the number and the value of the first field, and the rest; `None` if the key or the
/// length takes more than a byte.
fn short_field(message: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let [key @ 0..0x80, length @ 0..0x80, rest @ ..] = message else {
        return None;
    };
    let (value, rest) = rest.split_at_checked(usize::from(*length))?;
    (key & 7 == BYTES).then_some((key >> 3, value, rest))
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::discovery::v1::{
        Endpoint, EndpointConditions, EndpointHints, EndpointSlice, ForNode, ForZone,
    };

    use super::*;
    use crate::slice::encode::encode;

    fn slice(change: impl FnOnce(&mut Endpoint)) -> Vec<u8> {
        let hints = EndpointHints {
            for_zones: Some(vec![ForZone { name: "a".into() }]),
            for_nodes: Some(vec![ForNode { name: "n".into() }]),
        };
        let mut endpoint = Endpoint {
            addresses: vec!["10.0.0.255".to_owned(), "10.0.0.7".to_owned()],
            conditions: Some(EndpointConditions {
                ready: Some(true),
                terminating: Some(false),
                ..EndpointConditions::default()
            }),
            hostname: Some("h".to_owned()),
            node_name: Some("n".to_owned()),
            zone: Some("a".to_owned()),
            hints: Some(hints),
            ..Endpoint::default()
        };
        change(&mut endpoint);
        let plain = Endpoint {
            conditions: Some(EndpointConditions::default()),
            ..Endpoint::default()
        };
        encode(&EndpointSlice {
            endpoints: vec![plain, endpoint],
            ..EndpointSlice::default()
        })
    }

    fn pushed() -> Vec<u8> {
        let mut out = Vec::new();
        let rest = Rest {
            hostname: None,
            zone: None,
            node: None,
            conditions: [None; 3],
            hints: None::<[std::iter::Empty<&str>; 2]>,
            has_more: false,
        };
        push_endpoint(&mut out, |_| {}, rest);
        let rest = Rest {
            hostname: Some("h"),
            zone: Some("a"),
            node: Some("n"),
            conditions: [Some(true), None, Some(false)],
            hints: Some(["a", "n"].map(std::iter::once)),
            has_more: false,
        };
        let addresses = |out: &mut Vec<u8>| {
            push_ipv4(out, Ipv4Addr::new(10, 0, 0, 255));
            push_address(out, "10.0.0.7");
        };
        push_endpoint(&mut out, addresses, rest);
        out
    }

    #[test]
    fn encoded_endpoints_have_the_canonical_form() {
        assert_eq!(endpoints(&slice(|_| {})), Some(&*pushed()));
        assert_eq!(endpoints(b""), Some(&b""[..]));
        let most = slice(|endpoint| {
            endpoint.addresses = vec!["10.0.0.7".to_owned(); ADDRESSES_MAX];
        });
        assert!(endpoints(&most).is_some());
    }

    #[test]
    fn endpoints_of_another_form_are_not_canonical() {
        let more: [fn(&mut Endpoint); 5] = [
            |endpoint| endpoint.addresses = vec!["10.0.0.7".to_owned(); ADDRESSES_MAX + 1],
            |endpoint| endpoint.target_ref = Some(Default::default()),
            |endpoint| endpoint.deprecated_topology = Some([Default::default()].into()),
            |endpoint| endpoint.conditions = None,
            |endpoint| endpoint.zone = Some("a".repeat(128)),
        ];
        for change in more {
            assert_eq!(endpoints(&slice(change)), None);
        }
        let of = |endpoint: &[u8]| {
            let mut slice = Vec::new();
            slice.bytes(ENDPOINTS, endpoint);
            slice
        };
        let usual = b"\x0a\x01x\x12\x02\x08\x01";
        assert_eq!(endpoints(&of(usual)), Some(&*of(usual)));
        for odd in [
            &b""[..],
            b"\x12\x02\x08\x01\x0a\x01x",
            b"\x0a\x01x\x12\x02\x08\x02",
            b"\x0a\x01x\x12\x04\x10\x01\x08\x01",
            b"\x0a\x01x\x12\x03\x08\x01\x10",
            b"\x0a\x01x\x12\x00\x12\x00",
            b"\x0a\x01x\x12\x00\x4a\x00",
            b"\x0a\x01x\x12\x00\x42\x02\x1a\x00",
            b"\x0a\x01x\x12\x00\x42\x02\x0a\x00",
            b"\x0a\x01x\x12\x00\x42\x08\x12\x02\x0a\x00\x0a\x02\x0a\x00",
            b"\x0a\x01x\x12\x00\x3a",
            b"\x0a\x01x\x12\x00\x38\x01",
        ] {
            assert_eq!(endpoints(&of(odd)), None, "{odd:?}");
        }
        let apart = [&*of(usual), b"\x22\x00", &*of(usual)].concat();
        let long = [&b"\x12\x87\x00"[..], usual].concat();
        for slice in [apart, long, vec![0x10, 0], vec![0x12, 1]] {
            assert_eq!(endpoints(&slice), None, "{slice:?}");
        }
    }
}
