//! Comparison of the content of copies, by a hash of 128 bits.

use std::hash::{BuildHasher as _, RandomState};
use std::net::IpAddr;
use std::sync::LazyLock;

use k8s_openapi::api::discovery::v1::EndpointPort;
use twox_hash::XxHash3_128;

use super::canonical::{Rest, push_address, push_endpoint, push_ipv4};
use super::copy_endpoint::CopyEndpoint;
use super::endpoint::WireEndpoint;

/// Hash of all content of a copy that causeway decides, in 128 bits. Hashes of two processes are
/// not comparable.
///
/// Equal hashes count as equal content, so a collision would leave a wrong copy in place until its
/// source changes or the process restarts. Each comparison is of one desired with one observed
/// copy: the probability is 2^-128 each, below 10^-24 for a million copies that are compared ten
/// times a second for a year. Nobody can construct a collision, because the seed never leaves the
/// process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ContentHash([u8; 16]);

impl ContentHash {
    fn of(bytes: &[u8]) -> Self {
        Self(XxHash3_128::oneshot_with_seed(*SEED, bytes).to_ne_bytes())
    }

    /// Returns the hash of a desired copy without owners. `values` are those of the labels and
    /// annotations that causeway decides, always the same ones in the same order.
    pub fn of_copy<'v, 'e>(
        values: impl Iterator<Item = Option<&'v str>>,
        address_type: &str,
        endpoints: impl Iterator<Item = CopyEndpoint<'e>>,
        ports: &[EndpointPort],
    ) -> Self {
        let mut content = Content::new(values, address_type);
        endpoints.for_each(|endpoint| content.add_wanted(&endpoint));
        content.hash(ports)
    }

    /// Returns the hash of the same content with owners of these UIDs.
    pub fn owned_by<'a>(self, uids: impl Iterator<Item = &'a str>) -> Self {
        uids.fold(self, |content, uid| {
            Self::of(&[&content.0, uid.as_bytes()].concat())
        })
    }
}

/// Seed of the hashes. Nobody outside the process has it, so no content can be made to have the
/// hash of another.
static SEED: LazyLock<u64> = LazyLock::new(|| RandomState::new().hash_one(0));

/// Content of a copy, in the form that is hashed: texts after their length, and endpoints in their
/// canonical form.
#[derive(Debug)]
pub(super) struct Content(Vec<u8>);

/// First byte of a text: its length if that is less, `LONG` for a longer text, `NONE` for no text.
const LONG: u8 = 254;
const NONE: u8 = 255;
/// Byte after the last endpoint, where another one would begin.
const END: u8 = 0;

impl Content {
    /// Returns the content of a copy without endpoints.
    pub(super) fn new<'a>(
        values: impl Iterator<Item = Option<&'a str>>,
        address_type: &str,
    ) -> Self {
        let mut content = Self(Vec::with_capacity(4096));
        values.for_each(|value| content.part(value));
        content.part(Some(address_type));
        content
    }

    /// Adds endpoints of an observed copy, unchanged from its message.
    pub(super) fn extend(&mut self, endpoints: &[u8]) {
        self.0.extend_from_slice(endpoints);
    }

    /// Adds the next endpoint of an observed copy.
    pub(super) fn add_observed(&mut self, endpoint: &WireEndpoint<'_>) {
        let addresses = |out: &mut Vec<u8>| {
            let all = endpoint.addresses.iter();
            all.for_each(|address| push_address(out, address));
        };
        let hints = endpoint.hints.as_ref().map(<[_; 2]>::each_ref);
        let rest = Rest {
            hostname: endpoint.hostname,
            zone: endpoint.zone,
            node: endpoint.node_name,
            conditions: endpoint.conditions,
            hints: hints.map(|both| both.map(|names| names.iter().copied())),
            has_more: endpoint.has_more,
        };
        push_endpoint(&mut self.0, addresses, rest);
    }

    /// Adds the next endpoint of a desired copy.
    fn add_wanted(&mut self, endpoint: &CopyEndpoint<'_>) {
        let carried = &endpoint.carried;
        let addresses = |out: &mut Vec<u8>| {
            carried.addresses().for_each(|address| match address {
                IpAddr::V4(address) => push_ipv4(out, address),
                IpAddr::V6(address) => push_address(out, &address.to_string()),
            });
        };
        let rest = Rest {
            hostname: carried.hostname,
            zone: carried.zone,
            node: carried.node,
            conditions: carried.conditions,
            hints: endpoint.hints.map(|hints| hints.map(Option::into_iter)),
            has_more: false,
        };
        push_endpoint(&mut self.0, addresses, rest);
    }

    /// Returns the hash of the content, with these ports.
    pub(super) fn hash(mut self, ports: &[EndpointPort]) -> ContentHash {
        self.0.push(END);
        // Ports always have a form in JSON. Without one the hash would differ, and the copy would
        // be written.
        self.0.extend(serde_json::to_vec(ports).unwrap_or_default());
        ContentHash::of(&self.0)
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
