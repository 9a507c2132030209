//! V2: the type does not change; V9: a load balancer that is none.

use std::collections::HashSet;

use causeway::api::MultiClusterServiceSpec;
use causeway::domain::{ExposureType, FieldError, quoted};

use super::counts::{take, times};
use super::findings::Findings;
use super::view::ServiceKind;
use super::{Question, Stake, View};

pub(super) fn judge(question: &Question, findings: &mut Findings) {
    let stored = question.before.spec().map(|stored| stored.types.as_slice());
    let mut stored = times(stored.unwrap_or_default().iter().map(String::as_str));
    let mut seen = HashSet::new();
    for (index, type_) in question.spec.types.iter().enumerate() {
        let is_stored = take(&mut stored, type_.as_str());
        if !seen.insert(type_) && !is_stored {
            let type_ = quoted(type_);
            findings
                .warnings
                .push(format!("spec.types[{index}]: {type_:?} is listed already"));
        }
    }
    findings.errors.extend(changed_type(question));
}

/// A type that was valid and is another valid one; what is invalid the parser says.
fn changed_type(question: &Question) -> Option<FieldError> {
    let before = type_of(question.before.spec()?)?;
    let after = type_of(&question.spec)?;
    (before != after).then(|| {
        let detail = format!(
            "the type cannot change from {before:?}; delete the MultiClusterService and create it anew"
        );
        FieldError::invalid("spec.types", question.spec.types.clone(), detail)
    })
}

/// The type that a spec asks for, where it asks for exactly one.
pub(super) fn type_of(spec: &MultiClusterServiceSpec) -> Option<ExposureType> {
    let (first, others) = spec.types.split_first()?;
    let is_one = others.iter().all(|other| other == first);
    is_one.then(|| ExposureType::named(first)).flatten()
}

/// V9: a LoadBalancer type without a Service of that type.
pub(super) fn judge_service(question: &Question, view: &View, findings: &mut Findings) {
    if !question.types_changed() || type_of(&question.spec) != Some(ExposureType::LoadBalancer) {
        return;
    }
    let Some(seen) = &view.service else {
        return findings.doubt_service(Stake::Warning);
    };
    let Some(service) = &seen.value else { return };
    if service.kind != ServiceKind::LoadBalancer {
        let (namespace, name) = question.service();
        findings.warnings.push(format!(
            "spec.types: LoadBalancer gathers load balancer addresses, but Service {namespace}/{name} is not of type LoadBalancer"
        ));
        if !seen.live {
            findings.doubt_service(Stake::Warning);
        }
    }
}
