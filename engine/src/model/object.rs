//! Identity and version of objects.

use std::collections::BTreeMap;

use causeway::api::labels;
use causeway::domain::{ServiceKey, is_subdomain};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

/// Returns the service key of an object; `None` for a name that no Kubernetes object has. A hostile
/// API server may report such a name, and remedies quote names in commands.
pub(crate) fn key_of(meta: &ObjectMeta) -> Option<ServiceKey> {
    let (namespace, name) = (meta.namespace.as_deref()?, meta.name.as_deref()?);
    let are_names = is_subdomain(namespace) && is_subdomain(name);
    are_names.then(|| ServiceKey::new(namespace, name))
}

/// Returns the labels by which an object belongs to the causeway of that hub.
pub(crate) fn own_labels(hub: &str) -> BTreeMap<String, String> {
    let own = [(labels::MANAGED_BY, labels::MANAGER), (labels::HUB, hub)];
    own.map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into()
}

/// Returns the metadata of a new object of that key.
pub(crate) fn new_meta(
    key: &ServiceKey,
    labels: BTreeMap<String, String>,
    annotations: BTreeMap<String, String>,
) -> ObjectMeta {
    ObjectMeta {
        name: Some(key.name.to_string()),
        namespace: Some(key.namespace.to_string()),
        labels: Some(labels),
        annotations: Some(annotations),
        ..ObjectMeta::default()
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn impossible_names_have_no_key() {
        for (namespace, name, is_key) in [
            ("shop", "foo", true),
            ("shop", "foo.v1", true),
            ("shop", "$(reboot)", false),
            ("shop", "foo;reboot", false),
            ("shop", "", false),
            ("$(reboot)", "foo", false),
        ] {
            let meta = ObjectMeta {
                namespace: Some(namespace.to_owned()),
                name: Some(name.to_owned()),
                ..ObjectMeta::default()
            };
            assert_eq!(key_of(&meta).is_some(), is_key, "{namespace}/{name}");
        }
    }
}
