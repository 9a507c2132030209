//! Whether a copy holds what it should, in 128 bits.

use std::borrow::Borrow;
use std::collections::BTreeMap;

use causeway::api::labels;
use k8s_openapi::api::discovery::v1::{EndpointPort, EndpointSlice};
use sha2::{Digest as _, Sha256};

use super::endpoint::{WireEndpoint, WireTarget};

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
    let mut content = Content::new(
        |name| value(&meta.labels, name),
        |name| value(&meta.annotations, name),
        &slice.address_type,
    );
    for endpoint in &slice.endpoints {
        content.add(&WireEndpoint::of(endpoint));
    }
    let owners = meta.owner_references.iter().flatten();
    let ports = slice.ports.as_deref().unwrap_or_default();
    content
        .hash(ports)
        .owned_by(owners.map(|owner| &*owner.uid))
}

/// What a copy holds, as it is hashed: every part after its length, or what stands for none.
pub(super) struct Content(Vec<u8>);

const NONE: [u8; 4] = u32::MAX.to_le_bytes();

impl Content {
    /// That of a copy without endpoints.
    pub(super) fn new<'a>(
        label: impl Fn(&str) -> Option<&'a str>,
        annotation: impl Fn(&str) -> Option<&'a str>,
        address_type: &str,
    ) -> Self {
        let mut content = Self(Vec::with_capacity(8192));
        for name in CONTENT_LABELS {
            content.part(label(name));
        }
        for name in CONTENT_ANNOTATIONS {
            content.part(annotation(name));
        }
        content.part(Some(address_type));
        content
    }

    /// Adds the next endpoint.
    pub(super) fn add(&mut self, endpoint: &WireEndpoint<'_>) {
        self.0.push(1);
        self.texts(endpoint.addresses.iter().map(|text| &*text.0));
        for text in [&endpoint.hostname, &endpoint.zone, &endpoint.node_name] {
            self.part(text.as_ref().map(|text| &*text.0));
        }
        let conditions = endpoint.conditions.unwrap_or_default();
        let conditions = conditions.each();
        self.0
            .extend(conditions.map(|given| given.map_or(2, u8::from)));
        let hints = endpoint.hints.as_ref();
        self.0.push(u8::from(hints.is_some()));
        if let Some(hints) = hints {
            for targets in [&hints.for_zones, &hints.for_nodes] {
                self.texts(targets.iter().flatten().map(WireTarget::name));
            }
        }
        self.0.push(u8::from(endpoint.has_more()));
    }

    /// The hash of it all, with these ports.
    pub(super) fn hash(mut self, ports: &[EndpointPort]) -> ContentHash {
        self.0.push(0);
        // These types hold nothing that JSON cannot; were it otherwise, the hash would differ and the slice be written.
        self.0.extend(serde_json::to_vec(ports).unwrap_or_default());
        ContentHash::of(&self.0)
    }

    fn texts<'a>(&mut self, texts: impl Iterator<Item = &'a str>) {
        for text in texts {
            self.part(Some(text));
        }
        self.part(None);
    }

    fn part(&mut self, text: Option<&str>) {
        let Some(text) = text else {
            return self.0.extend(NONE);
        };
        let length = u32::try_from(text.len()).unwrap_or(u32::MAX);
        self.0.extend(length.to_le_bytes());
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
