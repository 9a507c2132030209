//! Which of the labels and annotations that an export names are exported.

use std::collections::BTreeMap;

use causeway::api::multicluster::ServiceExportSpec;
use causeway::api::{bounds, labels};
use causeway::domain::{dns1123_label, quoted};

/// Labels and annotations that every API server takes, and that nothing of causeway's or of Kubernetes' own depends on.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Exported {
    /// The labels.
    pub(super) labels: BTreeMap<String, String>,
    /// The annotations.
    pub(super) annotations: BTreeMap<String, String>,
    /// What is not exported, and why: `label team/x (its name is not valid)`.
    left_out: Vec<String>,
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

/// How many that are left out are named in a message.
const NAMED_MAX: usize = 3;
/// Some room is left for causeway's own annotations, which name what is exported once more.
const SIZE_MAX: usize = bounds::ANNOTATIONS - 16 * 1024;

impl Exported {
    /// Reads what an export says. The definition lets any text through, and an import with a label that is none would be refused
    /// as a whole: what does not fit is left out.
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

    /// What is not exported, and why; the first few, and how many there are besides.
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

/// Why something is not exported; takes the room that it needs if it is.
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
    text.len() <= bounds::LABEL
        && text.chars().all(inner)
        && text.starts_with(ends)
        && text.ends_with(ends)
}

fn is_subdomain(text: &str) -> bool {
    text.len() <= bounds::SUBDOMAIN && text.split('.').all(|part| dns1123_label(part).is_ok())
}
