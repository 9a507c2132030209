//! Identity and version of objects.

use causeway::domain::ServiceKey;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

/// Returns the service key of an object.
pub(crate) fn key_of(meta: &ObjectMeta) -> Option<ServiceKey> {
    Some(ServiceKey::new(
        meta.namespace.as_deref()?,
        meta.name.as_deref()?,
    ))
}

/// Whether the object has that UID.
pub(crate) fn is(uid: &str, meta: &ObjectMeta) -> bool {
    meta.uid.as_deref() == Some(uid)
}

/// Whether one resourceVersion is before another (comparable as numbers, KEP-5504). Unknown forms
/// are never older.
pub(crate) fn is_older(one: &str, other: &str) -> bool {
    match (one.parse::<u64>(), other.parse::<u64>()) {
        (Ok(one), Ok(other)) => one < other,
        _ => false,
    }
}
