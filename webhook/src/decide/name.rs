//! V1, V4, V10: the name and the namespace of a new object.

use causeway::domain::protected::Protected;
use causeway::domain::{FieldError, dns1035_label, dns1123_label};

use super::findings::Findings;
use super::view::ServiceKind;
use super::{Policy, Question, Stake, Strictness, View};

const PATH: &str = "metadata.name";

/// Whether a Service may be missing, for now.
pub(super) fn may_be_missing(question: &Question, policy: &Policy) -> bool {
    question.dry_run || policy.missing_service == Strictness::Warn
}

/// That there is no Service, as a detail of an error.
pub(super) fn no_service(question: &Question) -> String {
    let (namespace, name) = question.service();
    format!("there is no Service {namespace}/{name}")
}

pub(super) fn judge(question: &Question, view: &View, policy: &Policy, findings: &mut Findings) {
    let (namespace, name) = question.service();
    findings.errors.extend(protected(
        namespace,
        name,
        &policy.protection.check(namespace, name),
    ));
    if dns1123_label(name).is_ok() {
        judge_service(question, view, policy, findings);
    } else if name.is_empty() && !question.metadata.generate_name.is_empty() {
        let refuse = !may_be_missing(question, policy);
        findings.fault(missing(question), refuse);
    } else if let Err(error) = dns1035_label(name) {
        findings
            .errors
            .push(FieldError::invalid(PATH, name, error.to_string()));
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
            findings.fault(external(question), true)
        }
        Some(_) => return,
        None => {
            let refuse = !may_be_missing(question, policy);
            if let (true, Err(error)) = (refuse, dns1035_label(&question.metadata.name)) {
                let name = question.metadata.name.as_str();
                findings.fault(FieldError::invalid(PATH, name, error.to_string()), true);
            }
            findings.fault(missing(question), refuse)
        }
    };
    if !seen.live {
        findings.doubt_service(stake);
    }
}

fn missing(question: &Question) -> FieldError {
    let generated = !question.metadata.generate_name.is_empty();
    let name = question.metadata.name.as_str();
    let detail = if generated {
        "a MultiClusterService bears the name of the Service that it exposes: set metadata.name to the Service's \
         instead of metadata.generateName"
            .to_owned()
    } else {
        format!(
            "{}; a MultiClusterService bears the name of the Service that it exposes: create that first",
            no_service(question)
        )
    };
    FieldError::invalid(PATH, name, detail)
}

fn external(question: &Question) -> FieldError {
    let (namespace, name) = question.service();
    let detail = format!(
        "Service {namespace}/{name} is of type ExternalName, an alias without endpoints; only a Service of another \
         type can be exposed to other clusters"
    );
    FieldError::invalid(PATH, name, detail)
}
