//! Whether a copy holds what it should, in 128 bits.

use causeway::api::labels;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use sha2::{Digest as _, Sha256};

/// 128 bits of SHA-256 over all that causeway decides about a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContentHash([u8; 16]);

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
    for owner in slice.metadata.owner_references.iter().flatten() {
        part(owner.uid.as_bytes());
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
    let digest = hasher.finalize();
    let mut short = [0; 16];
    short.copy_from_slice(&digest[..16]);
    ContentHash(short)
}
