//! V1, V4, V10: the name and the namespace of a new object.

use causeway::domain::protected::Protected;
use causeway::domain::{FieldError, dns1123_label};

use super::hub_view::{Neighbors, ServiceKind};
use super::violations::{Severity, Violations};
use super::{HubView, Impact, Policy, PreparedChange};

const PATH: &str = "metadata.name";

/// Characters and length of the suffix of a generated name (k8s.io/apimachinery/pkg/util/rand).
const GENERATED: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
const GENERATED_SUFFIX: usize = 5;
const GENERATED_PREFIX_MAX: usize = 58;

/// Returns the severity of a Service that is missing or lacks a port.
pub(super) fn severity(change: &PreparedChange, policy: &Policy) -> Severity {
    Severity::by_policy(policy.missing_service, change.dry_run)
}

pub(super) fn validate(
    change: &PreparedChange,
    view: &HubView,
    policy: &Policy,
    violations: &mut Violations,
) {
    let (namespace, name) = change.service();
    violations.errors.extend(protected(
        namespace,
        name,
        &policy.protection.check(namespace, name),
    ));
    match dns1123_label(name) {
        Ok(()) => validate_service(change, view, policy, violations),
        Err(_) if name.is_empty() && !change.metadata.generate_name.is_empty() => {
            violations.add(generated(name), severity(change, policy));
        }
        Err(error) => {
            let error = FieldError::invalid(PATH, name, error.to_string());
            violations.add(error, Severity::Denied);
        }
    }
}

fn protected(namespace: &str, name: &str, checked: &Result<(), Protected>) -> Option<FieldError> {
    let protected = checked.as_ref().err()?;
    Some(match protected {
        Protected::ApiServer => FieldError::invalid(PATH, name, protected.to_string()),
        Protected::Namespace(_) => {
            FieldError::invalid("metadata.namespace", namespace, protected.to_string())
        }
    })
}

/// Validates the Service of the name.
fn validate_service(
    change: &PreparedChange,
    view: &HubView,
    policy: &Policy,
    violations: &mut Violations,
) {
    let Some(observed) = &view.service else {
        return violations.unconfirmed_service(Impact::Denial);
    };
    let impact = match &observed.value {
        Some(service) if service.kind == ServiceKind::ExternalName => {
            let severity = Severity::by_other_object(change.dry_run);
            violations.add(external(change), severity)
        }
        Some(_) => return,
        None => {
            let severity = severity(change, policy);
            violations.add(missing(change, severity, &view.neighbors), severity)
        }
    };
    if !observed.live {
        violations.unconfirmed_service(impact);
    }
}

fn missing(change: &PreparedChange, severity: Severity, neighbors: &Neighbors) -> FieldError {
    let (namespace, name) = change.service();
    if is_made_up(name, &change.metadata.generate_name) {
        return generated(name);
    }
    let consequence = match severity {
        Severity::Denied | Severity::DryRun => {
            "; create the Service first, under the name and in the namespace of the \
             MultiClusterService"
        }
        Severity::Warned => " yet; nothing is exposed until there is",
    };
    let others = others(namespace, neighbors);
    let detail = format!("there is no Service {namespace}/{name}{consequence}{others}");
    FieldError::invalid(PATH, name, detail)
}

/// Names the Services that a person may have meant.
fn others(namespace: &str, neighbors: &Neighbors) -> String {
    let names = neighbors.names.iter().map(AsRef::as_ref);
    let names = names.collect::<Vec<_>>().join(", ");
    match neighbors.more {
        0 if names.is_empty() => String::new(),
        0 => format!("; namespace {namespace} has {names}"),
        more => format!("; namespace {namespace} has {names} and {more} more"),
    }
}

/// Returns the error of a generated name, which is not that of a Service.
fn generated(name: &str) -> FieldError {
    let detail = "a MultiClusterService is named like the Service that it exposes: set \
                  metadata.name to the Service's name, and leave out metadata.generateName";
    FieldError::invalid(PATH, name, detail)
}

/// Whether an API server may have generated the name from the prefix
/// (k8s.io/apiserver/pkg/storage/names). A validating webhook receives both.
fn is_made_up(name: &str, prefix: &str) -> bool {
    let prefix = &prefix[..prefix.floor_char_boundary(GENERATED_PREFIX_MAX)];
    !prefix.is_empty()
        && name.strip_prefix(prefix).is_some_and(|rest| {
            rest.len() == GENERATED_SUFFIX && rest.bytes().all(|byte| GENERATED.contains(&byte))
        })
}

fn external(change: &PreparedChange) -> FieldError {
    let (namespace, name) = change.service();
    let detail = format!(
        "Service {namespace}/{name} is of type ExternalName, an alias without endpoints; only a \
         Service of another \
         type can be exposed to other clusters"
    );
    FieldError::invalid(PATH, name, detail)
}
