//! Selection of the labels and annotations of an export that can be exported.

use std::collections::BTreeMap;

use causeway::api::multicluster::ServiceExportSpec;
use causeway::api::{bounds, labels};
use causeway::domain::{dns1123_label, quoted};

/// Labels and annotations that every API server accepts, and on which neither causeway nor
/// Kubernetes depends.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Exported {
    /// Exported labels.
    pub(super) labels: BTreeMap<String, String>,
    /// Exported annotations.
    pub(super) annotations: BTreeMap<String, String>,
    /// Names that are not exported, with the reason: `label team/x (not a valid name and value)`.
    left_out: Vec<String>,
}

/// Domains of names that identify the manager of an object and the service or cluster to which it
/// belongs.
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

/// Maximum number of left-out names in a message.
const NAMED_MAX: usize = 3;
/// Maximum size of the exported labels and annotations, in bytes. The rest is for causeway's own
/// annotations, which repeat the names.
const SIZE_MAX: usize = bounds::ANNOTATIONS - 16 * 1024;

impl Exported {
    /// Reads the labels and annotations of an export. The definition accepts any text, and an API
    /// server would refuse a whole import for one invalid label: invalid names and values are left
    /// out.
    pub(super) fn read(spec: &ServiceExportSpec) -> Self {
        let mut room = SIZE_MAX;
        let mut exported = Self::default();
        for (name, value) in &spec.exported_labels {
            let is_valid = is_qualified(name) && (value.is_empty() || is_name(value));
            match obstacle(name, value, is_valid, &mut room) {
                None => drop(exported.labels.insert(name.clone(), value.clone())),
                Some(why) => exported.leave_out("label", name, why),
            }
        }
        for (name, value) in &spec.exported_annotations {
            // Upper case is allowed in the domain of an annotation, and only there.
            let is_valid = is_qualified(&name.to_ascii_lowercase());
            match obstacle(name, value, is_valid, &mut room) {
                None => drop(exported.annotations.insert(name.clone(), value.clone())),
                Some(why) => exported.leave_out("annotation", name, why),
            }
        }
        exported
    }

    fn leave_out(&mut self, kind: &str, name: &str, why: &str) {
        self.left_out
            .push(format!("{kind} {} ({why})", quoted(name)));
    }

    /// Returns the names that are not exported, with the reasons: the first few, and the number of
    /// all others.
    pub(super) fn left_out(&self) -> Option<String> {
        let named = self.left_out.get(..NAMED_MAX).unwrap_or(&self.left_out);
        let more = self.left_out.len() - named.len();
        let text = named.join(", ");
        match (named.len(), more) {
            (0, _) => None,
            (_, 0) => Some(text),
            (_, more) => Some(format!("{text} and {more} more")),
        }
    }
}

/// Returns the reason why a label or annotation is not exported. Without one, subtracts its size
/// from `room`.
fn obstacle(name: &str, value: &str, is_valid: bool, room: &mut usize) -> Option<&'static str> {
    if is_reserved(name) {
        return Some("reserved");
    }
    if !is_valid {
        return Some("not a valid name and value");
    }
    match room.checked_sub(2 * name.len() + value.len() + 1) {
        None => Some("beyond 240 KiB in all"),
        Some(rest) => {
            *room = rest;
            None
        }
    }
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

/// Whether a text is a qualified name: an optional DNS-1123 subdomain and a slash, then a name.
fn is_qualified(text: &str) -> bool {
    match text.split_once('/') {
        Some((domain, name)) => is_subdomain(domain) && is_name(name),
        None => is_name(text),
    }
}

/// Whether a text is the name part of a label, or its value.
fn is_name(text: &str) -> bool {
    let inner = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let ends = |c: char| c.is_ascii_alphanumeric();
    text.len() <= bounds::LABEL
        && text.chars().all(inner)
        && text.starts_with(ends)
        && text.ends_with(ends)
}

fn is_subdomain(text: &str) -> bool {
    text.len() <= bounds::SUBDOMAIN && text.split('.').all(|part| dns1123_label(part).is_ok())
}
