//! Selection of the labels and annotations of an export that can be exported.

use std::collections::BTreeMap;

use causeway::api::labels;
use causeway::api::multicluster::ServiceExportSpec;
use causeway::api::ownership::CLAIM_RECORDS;
use causeway::domain::{is_label_value, is_qualified};

use crate::observed::clusterset::EXPORTED_MAX;

/// Labels and annotations that every API server accepts, and on which neither causeway nor
/// Kubernetes depends.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Exported {
    /// Exported labels.
    pub(super) labels: BTreeMap<String, String>,
    /// Exported annotations.
    pub(super) annotations: BTreeMap<String, String>,
    /// Labels and annotations that are not exported.
    pub(super) left_out: Vec<NotExported>,
}

/// Label or annotation that is not exported.
#[derive(Debug, PartialEq)]
pub(crate) struct NotExported {
    /// Whether it is a label.
    pub(crate) is_label: bool,
    /// Name of the label or annotation.
    pub(crate) name: String,
    /// Reason.
    pub(crate) why: ExportObstacle,
}

/// Reason why a label or annotation is not exported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExportObstacle {
    /// Causeway or Kubernetes depends on the name.
    Reserved,
    /// No API server accepts the name and the value.
    Invalid,
    /// All that are exported or recorded would exceed [`EXPORTED_MAX`].
    TooLarge,
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
    labels::KARMADA_MANAGED,
    labels::HELM_RELEASE_NAMESPACE,
];

impl Exported {
    /// Reads the labels and annotations of an export. The definition accepts any text, and an API
    /// server would refuse a whole import for one invalid label: invalid names and values are left
    /// out. `recorded` is the size of the annotations that record failover and consumers.
    pub(super) fn read(spec: &ServiceExportSpec, recorded: usize) -> Self {
        let mut room = EXPORTED_MAX.saturating_sub(recorded);
        let mut exported = Self::default();
        for (name, value) in &spec.exported_labels {
            let is_valid = is_qualified(name) && (value.is_empty() || is_label_value(value));
            match obstacle(name, value, is_valid, &mut room) {
                None => drop(exported.labels.insert(name.clone(), value.clone())),
                Some(why) => exported.leave_out(true, name, why),
            }
        }
        for (name, value) in &spec.exported_annotations {
            // Upper case is allowed in the domain of an annotation, and only there.
            let is_valid = is_qualified(&name.to_ascii_lowercase());
            match obstacle(name, value, is_valid, &mut room) {
                None => drop(exported.annotations.insert(name.clone(), value.clone())),
                Some(why) => exported.leave_out(false, name, why),
            }
        }
        exported
    }

    fn leave_out(&mut self, is_label: bool, name: &str, why: ExportObstacle) {
        self.left_out.push(NotExported {
            is_label,
            name: name.to_owned(),
            why,
        });
    }
}

/// Returns the reason why a label or annotation is not exported. Without one, subtracts its size
/// from `room`.
fn obstacle(name: &str, value: &str, is_valid: bool, room: &mut usize) -> Option<ExportObstacle> {
    if is_reserved(name) {
        return Some(ExportObstacle::Reserved);
    }
    if !is_valid {
        return Some(ExportObstacle::Invalid);
    }
    match room.checked_sub(2 * name.len() + value.len() + 1) {
        None => Some(ExportObstacle::TooLarge),
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
    let is_claim = CLAIM_RECORDS.iter().any(|(record, _)| *record == name);
    RESERVED_NAMES.contains(&name) || is_claim || domain.is_some_and(in_reserved)
}
