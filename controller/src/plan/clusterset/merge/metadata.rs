//! The labels and annotations that an export hands to the imports.

use std::collections::BTreeMap;

use causeway::api::labels;
use causeway::api::multicluster::ServiceExportSpec;
use causeway::domain::dns1123_label;

const NAME_MAX: usize = 63;
const PREFIX_MAX: usize = 253;
/// Bytes that all annotations of an object may have together.
const ANNOTATIONS_MAX: usize = 128 * 1024;

/// What of an export's labels and annotations imports can bear: an export must not forge what causeway and Kubernetes write,
/// and a name or value that no API server takes must not stand in the way of the import.
pub(super) fn exported(
    spec: &ServiceExportSpec,
) -> (BTreeMap<String, String>, BTreeMap<String, String>) {
    let free = |name: &str| !is_reserved(name) && is_qualified_name(name);
    let labels = spec.exported_labels.iter();
    let labels = labels.filter(|(name, value)| free(name) && is_label_value(value));
    let mut room = ANNOTATIONS_MAX;
    let annotations = spec.exported_annotations.iter().filter(|(name, value)| {
        let size = name.len() + value.len();
        let fits = free(name) && size <= room;
        room -= if fits { size } else { 0 };
        fits
    });
    let owned = |(name, value): (&String, &String)| (name.clone(), value.clone());
    (
        labels.map(owned).collect(),
        annotations.map(owned).collect(),
    )
}

fn is_reserved(name: &str) -> bool {
    let domain = name.split_once('/').map(|(domain, _)| domain);
    let within = |parent: &str| {
        domain.is_some_and(|domain| {
            domain == parent
                || domain
                    .strip_suffix(parent)
                    .is_some_and(|rest| rest.ends_with('.'))
        })
    };
    name == labels::MANAGED_BY
        || within(labels::DOMAIN)
        || within("multicluster.kubernetes.io")
        || name == "kubectl.kubernetes.io/last-applied-configuration"
}

/// A qualified name: an optional DNS subdomain and a slash, then a name of at most 63 characters.
fn is_qualified_name(text: &str) -> bool {
    let (prefix, name) = match text.split_once('/') {
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, text),
    };
    let is_subdomain = |prefix: &str| {
        prefix.len() <= PREFIX_MAX && prefix.split('.').all(|part| dns1123_label(part).is_ok())
    };
    prefix.is_none_or(is_subdomain) && !name.is_empty() && is_label_value(name)
}

fn is_label_value(text: &str) -> bool {
    let inner = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let edge = |c: Option<char>| c.is_none_or(|c| c.is_ascii_alphanumeric());
    text.len() <= NAME_MAX
        && text.chars().all(inner)
        && edge(text.chars().next())
        && edge(text.chars().next_back())
}
