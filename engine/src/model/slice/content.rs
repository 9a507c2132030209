//! Content of copies that causeway decides.

use causeway::api::labels;
use causeway_wire::{ContentHash, RawSlice, Unreadable};

/// Labels of a copy that causeway decides.
pub(crate) const CONTENT_LABELS: [&str; 7] = [
    labels::SERVICE_NAME,
    labels::HEADLESS_SERVICE,
    labels::SLICE_MANAGED_BY,
    labels::SOURCE_CLUSTER,
    labels::MULTICLUSTER_SERVICE_NAME,
    labels::MANAGED_BY,
    labels::HUB,
];

/// Annotations of a copy that causeway decides; [`labels::SOURCE`] alone changes with every version
/// of the source. No copy that the controller writes has [`labels::LOWERED`], the agent's mark.
pub(crate) const CONTENT_ANNOTATIONS: [&str; 5] = [
    labels::PROVISION_CLUSTER,
    labels::OWNER,
    labels::STANDBY,
    labels::SHARE,
    labels::LOWERED,
];

/// Returns a hash of all content of a copy that causeway decides: equal for the desired and the
/// stored copy if nothing has to be written. `None` means a slice that cannot be decoded, which no
/// copy is.
#[cfg(test)]
pub(crate) fn content_hash(
    slice: &k8s_openapi::api::discovery::v1::EndpointSlice,
) -> Option<ContentHash> {
    let message = causeway_wire::encode(slice);
    let slice = RawSlice::decode(&message).ok()?;
    observed_hash(&slice).ok()
}

/// Returns the same hash of an observed copy.
///
/// # Errors
/// The endpoints cannot be read.
pub(super) fn observed_hash(slice: &RawSlice<'_>) -> Result<ContentHash, Unreadable> {
    let label = |name: &str| slice.label(name);
    slice.content_hash(values(label, |name| slice.annotation(name)))
}

/// Returns the values of a copy that are hashed. `label` and `annotation` return the value of a
/// label and of an annotation.
pub(crate) fn values<'a>(
    label: impl Fn(&str) -> Option<&'a str>,
    annotation: impl Fn(&str) -> Option<&'a str>,
) -> impl Iterator<Item = Option<&'a str>> {
    let labels = CONTENT_LABELS.into_iter().map(label);
    labels.chain(CONTENT_ANNOTATIONS.into_iter().map(annotation))
}
