//! V2: the type does not change; V9: a load balancer that is none.

use std::collections::HashSet;

use causeway::api::MultiClusterServiceSpec;
use causeway::domain::{ExposureType, FieldError, quoted};

use super::counts::{take, times};
use super::hub_view::ServiceKind;
use super::violations::Violations;
use super::{HubView, Impact, PreparedChange};

pub(super) fn validate(change: &PreparedChange, violations: &mut Violations) {
    let stored = change.before.spec().map(|stored| stored.types.as_slice());
    let mut stored = times(stored.unwrap_or_default().iter().map(String::as_str));
    let mut seen = HashSet::new();
    for (index, type_) in change.spec.types.iter().enumerate() {
        let is_stored = take(&mut stored, type_.as_str());
        if !seen.insert(type_) && !is_stored {
            let type_ = quoted(type_);
            violations
                .warnings
                .push(format!("spec.types[{index}]: {type_:?} is listed already"));
        }
    }
    violations.errors.extend(changed_type(change));
}

/// A type that was valid and is another valid one; what is invalid the parser says.
fn changed_type(change: &PreparedChange) -> Option<FieldError> {
    let before = type_of(change.before.spec()?)?;
    let after = type_of(&change.spec)?;
    (before != after).then(|| {
        let detail = format!(
            "the type cannot change from {before:?}; delete the MultiClusterService and create it again"
        );
        FieldError::invalid("spec.types", change.spec.types.clone(), detail)
    })
}

/// The type of a spec, where it has exactly one.
pub(super) fn type_of(spec: &MultiClusterServiceSpec) -> Option<ExposureType> {
    let (first, others) = spec.types.split_first()?;
    let is_one = others.iter().all(|other| other == first);
    is_one.then(|| ExposureType::named(first)).flatten()
}

/// V9: a LoadBalancer type without a Service of that type.
pub(super) fn validate_service(
    change: &PreparedChange,
    view: &HubView,
    violations: &mut Violations,
) {
    if !change.types_changed() || type_of(&change.spec) != Some(ExposureType::LoadBalancer) {
        return;
    }
    let Some(observed) = &view.service else {
        return violations.unconfirmed_service(Impact::Warning);
    };
    let Some(service) = &observed.value else {
        return;
    };
    if service.kind != ServiceKind::LoadBalancer {
        let (namespace, name) = change.service();
        violations.warnings.push(format!(
            "spec.types: LoadBalancer gathers load balancer addresses, but Service {namespace}/{name} is not of type LoadBalancer"
        ));
        if !observed.live {
            violations.unconfirmed_service(Impact::Warning);
        }
    }
}
