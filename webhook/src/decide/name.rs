//! V1, V4, V10: the name and the namespace of a new object.

use causeway::domain::protected::Protected;
use causeway::domain::{FieldError, dns1123_label};

use super::findings::{Findings, Severity};
use super::view::ServiceKind;
use super::{Policy, Question, Stake, Strictness, View};

const PATH: &str = "metadata.name";

/// The characters of the suffix that makes a name of a prefix (k8s.io/apimachinery/pkg/util/rand), and how many there are.
const GENERATED: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
const GENERATED_SUFFIX: usize = 5;
const GENERATED_PREFIX_MAX: usize = 58;

/// What becomes of an object whose Service is missing or lacks a port.
pub(super) fn severity(question: &Question, policy: &Policy) -> Severity {
    match policy.missing_service {
        Strictness::Warn => Severity::Warned,
        Strictness::Deny if question.dry_run => Severity::Tried,
        Strictness::Deny => Severity::Refused,
    }
}

pub(super) fn judge(question: &Question, view: &View, policy: &Policy, findings: &mut Findings) {
    let (namespace, name) = question.service();
    findings.errors.extend(protected(
        namespace,
        name,
        &policy.protection.check(namespace, name),
    ));
    match dns1123_label(name) {
        Ok(()) => judge_service(question, view, policy, findings),
        Err(_) if name.is_empty() && !question.metadata.generate_name.is_empty() => {
            findings.fault(generated(name), severity(question, policy));
        }
        Err(error) => {
            let error = FieldError::invalid(PATH, name, error.to_string());
            findings.fault(error, Severity::Refused);
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

/// Judges a name that a Service may bear by the Service that does.
fn judge_service(question: &Question, view: &View, policy: &Policy, findings: &mut Findings) {
    let Some(seen) = &view.service else {
        return findings.doubt_service(Stake::Refusal);
    };
    let stake = match &seen.value {
        Some(service) if service.kind == ServiceKind::ExternalName => {
            findings.fault(external(question), Severity::Refused)
        }
        Some(_) => return,
        None => {
            let severity = severity(question, policy);
            findings.fault(missing(question, severity), severity)
        }
    };
    if !seen.live {
        findings.doubt_service(stake);
    }
}

fn missing(question: &Question, severity: Severity) -> FieldError {
    let (namespace, name) = question.service();
    if is_made_up(name, &question.metadata.generate_name) {
        return generated(name);
    }
    let consequence = match severity {
        Severity::Refused | Severity::Tried => {
            "; create the Service first, under the name and in the namespace of the MultiClusterService"
        }
        Severity::Warned => " yet; nothing is exposed until there is",
    };
    let detail = format!("there is no Service {namespace}/{name}{consequence}");
    FieldError::invalid(PATH, name, detail)
}

/// A name that is not the Service's, for the API server makes it up.
fn generated(name: &str) -> FieldError {
    let detail = "a MultiClusterService is named like the Service that it exposes: set metadata.name to the Service's name, \
                  and leave out metadata.generateName";
    FieldError::invalid(PATH, name, detail)
}

/// Whether an API server may have made up a name from that prefix (k8s.io/apiserver/pkg/storage/names): validation sees
/// the name that comes of it, beside the prefix.
fn is_made_up(name: &str, prefix: &str) -> bool {
    let prefix = &prefix[..prefix.floor_char_boundary(GENERATED_PREFIX_MAX)];
    !prefix.is_empty()
        && name.strip_prefix(prefix).is_some_and(|rest| {
            rest.len() == GENERATED_SUFFIX && rest.bytes().all(|byte| GENERATED.contains(&byte))
        })
}

fn external(question: &Question) -> FieldError {
    let (namespace, name) = question.service();
    let detail = format!(
        "Service {namespace}/{name} is of type ExternalName, an alias without endpoints; only a Service of another \
         type can be exposed to other clusters"
    );
    FieldError::invalid(PATH, name, detail)
}
