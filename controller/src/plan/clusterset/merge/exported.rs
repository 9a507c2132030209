//! Which of the labels and annotations that an export names are carried.

use std::collections::BTreeMap;

use causeway::api::labels;
use causeway::api::multicluster::ServiceExportSpec;
use causeway::domain::dns1123_label;

/// Labels and annotations that every API server takes, and that nothing of causeway's or of Kubernetes' own depends on.
#[derive(Debug, PartialEq)]
pub(super) struct Exported {
    /// The labels.
    pub(super) labels: BTreeMap<String, String>,
    /// The annotations.
    pub(super) annotations: BTreeMap<String, String>,
}

/// Domains whose names say who keeps an object and where it belongs.
const RESERVED_DOMAINS: [&str; 4] = [
    labels::DOMAIN,
    "multicluster.kubernetes.io",
    "endpointslice.kubernetes.io",
    "endpointslice.karmada.io",
];
const RESERVED_NAMES: [&str; 4] = [
    labels::MANAGED_BY,
    labels::SERVICE_NAME,
    labels::LAST_APPLIED,
    labels::KARMADA_MANAGED,
];

const NAME_MAX: usize = 63;
const DOMAIN_MAX: usize = 253;
/// An object has at most 256 KiB of annotations; some room is left for causeway's own, which name what is exported once more.
const SIZE_MAX: usize = 240 * 1024;

impl Exported {
    /// Reads what an export says. The definition lets any text through, and an import with a label that is none would be refused
    /// as a whole: what does not fit is left out.
    pub(super) fn read(spec: &ServiceExportSpec) -> Self {
        let mut room = SIZE_MAX;
        let labels = carried(&spec.exported_labels, &mut room, |name, value| {
            is_qualified(name) && (value.is_empty() || is_name(value))
        });
        let annotations = carried(&spec.exported_annotations, &mut room, |name, _| {
            // Upper case is allowed in the domain of an annotation, and only there.
            is_qualified(&name.to_ascii_lowercase())
        });
        Self {
            labels,
            annotations,
        }
    }
}

fn carried(
    all: &BTreeMap<String, String>,
    room: &mut usize,
    is_lawful: impl Fn(&str, &str) -> bool,
) -> BTreeMap<String, String> {
    let mut fits = |name: &str, value: &str| {
        let size = 2 * name.len() + value.len() + 1;
        let rest = room.checked_sub(size);
        *room = rest.unwrap_or(*room);
        rest.is_some()
    };
    all.iter()
        .filter(|(name, value)| !is_reserved(name) && is_lawful(name, value) && fits(name, value))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}

fn is_reserved(name: &str) -> bool {
    let domain = name.split_once('/').map(|(domain, _)| domain);
    let in_reserved = |domain: &str| {
        let within = |reserved: &str| {
            let sub = domain.strip_suffix(reserved);
            sub.is_some_and(|sub| sub.is_empty() || sub.ends_with('.'))
        };
        RESERVED_DOMAINS.iter().any(|reserved| within(reserved))
    };
    RESERVED_NAMES.contains(&name) || domain.is_some_and(in_reserved)
}

/// Whether that is a qualified name: an optional DNS-1123 subdomain and a slash, then a name.
fn is_qualified(text: &str) -> bool {
    match text.split_once('/') {
        Some((domain, name)) => is_subdomain(domain) && is_name(name),
        None => is_name(text),
    }
}

/// Whether that is the name part of a label, or its value.
fn is_name(text: &str) -> bool {
    let inner = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let ends = |c: char| c.is_ascii_alphanumeric();
    text.len() <= NAME_MAX
        && text.chars().all(inner)
        && text.starts_with(ends)
        && text.ends_with(ends)
}

fn is_subdomain(text: &str) -> bool {
    text.len() <= DOMAIN_MAX && text.split('.').all(|part| dns1123_label(part).is_ok())
}
