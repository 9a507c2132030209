//! Whether a copy holds what it should, in 128 bits.

use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};

use causeway::api::labels;
use k8s_openapi::api::discovery::v1::{EndpointPort, EndpointSlice};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use sha2::{Digest as _, Sha256};

use super::copy_endpoint::CopyEndpoint;
use super::endpoint::{WireEndpoint, WireHints, ipv4};

/// 128 bits of SHA-256 over all that causeway decides about a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ContentHash([u8; 16]);

impl ContentHash {
    fn of(bytes: &[u8]) -> Self {
        let digest = Sha256::digest(bytes);
        let mut short = [0; 16];
        short.copy_from_slice(&digest[..16]);
        Self(short)
    }

    /// The hash of the same content with owners of such UIDs.
    pub fn owned_by<'a>(self, uids: impl Iterator<Item = &'a str>) -> Self {
        uids.fold(self, |content, uid| {
            Self::of(&[&content.0, uid.as_bytes()].concat())
        })
    }
}

/// Labels of a copy that causeway decides about.
const CONTENT_LABELS: [&str; 6] = [
    labels::SERVICE_NAME,
    labels::SLICE_MANAGED_BY,
    labels::SOURCE_CLUSTER,
    labels::MULTICLUSTER_SERVICE_NAME,
    labels::MANAGED_BY,
    labels::HUB,
];

/// Annotations of a copy that causeway decides about; [`labels::SOURCE`] alone changes with every version of the source.
const CONTENT_ANNOTATIONS: [&str; 3] = [labels::PROVISION_CLUSTER, labels::OWNER, labels::STANDBY];

/// A hash of all that causeway decides about a copy: equal for what is wanted and what is stored when nothing is to be written.
pub fn content_hash(slice: &EndpointSlice) -> ContentHash {
    let meta = &slice.metadata;
    let mut content = Content::of(meta, &slice.address_type);
    for endpoint in &slice.endpoints {
        content.add(&WireEndpoint::of(endpoint));
    }
    let owners = meta.owner_references.iter().flatten();
    let ports = slice.ports.as_deref().unwrap_or_default();
    content
        .hash(ports)
        .owned_by(owners.map(|owner| &*owner.uid))
}

/// What a copy holds, as it is hashed: texts after their length, IPv4 addresses as numbers.
#[derive(Debug)]
pub struct Content(Vec<u8>);

/// What a part begins with: the length of a text that is shorter, a longer one, or none.
const LONG: u8 = 254;
const NONE: u8 = 255;
/// What an address begins with, and what stands after the last.
const NUMBER: u8 = 1;
const TEXT: u8 = 2;
/// What an endpoint begins with.
const ENDPOINT: u8 = 1;
/// What stands after the last of several.
const END: u8 = 0;

impl Content {
    /// That of a copy with these labels and annotations, without endpoints.
    pub fn of(meta: &ObjectMeta, address_type: &str) -> Self {
        let label = |name: &str| value(&meta.labels, name);
        let annotation = |name: &str| value(&meta.annotations, name);
        Self::new(label, annotation, address_type)
    }

    /// That of a copy without endpoints.
    pub(super) fn new<'a>(
        label: impl Fn(&str) -> Option<&'a str>,
        annotation: impl Fn(&str) -> Option<&'a str>,
        address_type: &str,
    ) -> Self {
        let mut content = Self(Vec::with_capacity(4096));
        for name in CONTENT_LABELS {
            content.part(label(name));
        }
        for name in CONTENT_ANNOTATIONS {
            content.part(annotation(name));
        }
        content.part(Some(address_type));
        content
    }

    /// Adds the next endpoint of a copy that is there.
    pub(super) fn add(&mut self, endpoint: &WireEndpoint<'_>) {
        let WireEndpoint {
            hostname,
            zone,
            node_name,
            ..
        } = endpoint;
        self.0.push(ENDPOINT);
        for address in endpoint.addresses.iter() {
            self.address(&address.0);
        }
        let texts = [hostname, zone, node_name].map(|text| text.as_ref().map(|text| &*text.0));
        let hints = endpoint.hints.as_ref().map(WireHints::names);
        let conditions = endpoint.conditions.unwrap_or_default();
        self.rest(texts, conditions.each(), hints, endpoint.has_more());
    }

    /// Adds the next endpoint of a copy that is wanted.
    pub fn add_wanted(&mut self, endpoint: &CopyEndpoint<'_>) {
        let carried = &endpoint.carried;
        self.0.push(ENDPOINT);
        for address in carried.addresses() {
            match address {
                IpAddr::V4(address) => self.number(address),
                IpAddr::V6(address) => self.address(&address.to_string()),
            }
        }
        let texts = [carried.hostname, carried.zone, carried.node];
        let hints = endpoint.hints.map(|hints| hints.map(Option::into_iter));
        self.rest(texts, carried.conditions, hints, false);
    }

    /// All that comes after the addresses of an endpoint.
    fn rest<'a>(
        &mut self,
        texts: [Option<&str>; 3],
        conditions: [Option<bool>; 3],
        hints: Option<[impl Iterator<Item = &'a str>; 2]>,
        has_more: bool,
    ) {
        self.0.push(END);
        texts.into_iter().for_each(|text| self.part(text));
        self.0
            .extend(conditions.map(|given| given.map_or(2, u8::from)));
        self.0.push(u8::from(hints.is_some()));
        for names in hints.into_iter().flatten() {
            names.for_each(|name| self.part(Some(name)));
            self.part(None);
        }
        self.0.push(u8::from(has_more));
    }

    /// The hash of it all, with these ports.
    pub fn hash(mut self, ports: &[EndpointPort]) -> ContentHash {
        self.0.push(END);
        // These types hold nothing that JSON cannot; were it otherwise, the hash would differ and the slice be written.
        self.0.extend(serde_json::to_vec(ports).unwrap_or_default());
        ContentHash::of(&self.0)
    }

    /// An IPv4 address is written in one way only, so that its number says as much as its text.
    fn address(&mut self, text: &str) {
        match ipv4(text) {
            Some(address) => self.number(address),
            None => {
                self.0.push(TEXT);
                self.part(Some(text));
            }
        }
    }

    fn number(&mut self, address: Ipv4Addr) {
        self.0.push(NUMBER);
        self.0.extend(address.octets());
    }

    fn part(&mut self, text: Option<&str>) {
        let Some(text) = text else {
            return self.0.push(NONE);
        };
        match u8::try_from(text.len()) {
            Ok(short) if short < LONG => self.0.push(short),
            _ => {
                self.0.push(LONG);
                self.0.extend((text.len() as u64).to_le_bytes());
            }
        }
        self.0.extend(text.as_bytes());
    }
}

/// What a label or annotation says, in a typed object or in the text of one.
pub(super) fn value<'a, T: Borrow<str> + Ord>(
    all: &'a Option<BTreeMap<T, T>>,
    name: &str,
) -> Option<&'a str> {
    all.as_ref()?.get(name).map(Borrow::borrow)
}
