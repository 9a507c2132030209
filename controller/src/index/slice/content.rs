//! Whether a copy holds what it should, in 128 bits.

use causeway::api::labels;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use sha2::{Digest as _, Sha256};

/// 128 bits of SHA-256 over all that causeway decides about a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContentHash([u8; 16]);

impl ContentHash {
    fn cut(hasher: Sha256) -> Self {
        let digest = hasher.finalize();
        let mut short = [0; 16];
        short.copy_from_slice(&digest[..16]);
        Self(short)
    }

    /// The hash of the same content with such owners.
    pub fn owned_by<'a>(self, owners: impl Iterator<Item = &'a OwnerReference>) -> Self {
        owners.fold(self, |content, owner| {
            let mut hasher = Sha256::new();
            hasher.update(content.0);
            hasher.update(owner.uid.as_bytes());
            Self::cut(hasher)
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
const CONTENT_ANNOTATIONS: [&str; 2] = [labels::PROVISION_CLUSTER, labels::OWNER];

/// A hash of all that causeway decides about a copy: equal for what is wanted and what is stored when nothing is to be written.
pub fn content_hash(slice: &EndpointSlice) -> ContentHash {
    let mut hasher = Sha256::new();
    let mut part = |bytes: &[u8]| {
        hasher.update(bytes.len().to_le_bytes());
        hasher.update(bytes);
    };
    for (map, names) in [
        (&slice.metadata.labels, CONTENT_LABELS.as_slice()),
        (&slice.metadata.annotations, CONTENT_ANNOTATIONS.as_slice()),
    ] {
        for name in names {
            let value = map
                .as_ref()
                .and_then(|map| map.get(*name))
                .map_or("", String::as_str);
            part(value.as_bytes());
        }
    }
    part(slice.address_type.as_bytes());
    let ports = slice.ports.as_deref().unwrap_or_default();
    for text in [
        serde_json::to_vec(&slice.endpoints),
        serde_json::to_vec(ports),
    ] {
        // These types hold nothing that JSON cannot; were it otherwise, the hash would differ and the slice be written.
        part(&text.unwrap_or_default());
    }
    let owners = slice.metadata.owner_references.iter().flatten();
    ContentHash::cut(hasher).owned_by(owners)
}
