//! V2: the type does not change. V9: type LoadBalancer without such a Service.

use causeway::api::MultiClusterServiceSpec;
use causeway::domain::{ExposureType, FieldError, quoted};

use super::counts::repeated;
use super::hub_view::ServiceKind;
use super::violations::Violations;
use super::{HubView, Impact, PreparedChange};

pub(super) fn validate(change: &PreparedChange, violations: &mut Violations) {
    let stored = change.before.spec().map(types).unwrap_or_default();
    for (index, type_) in repeated(&types(&change.spec), &stored) {
        let type_ = quoted(type_);
        let warning = format!("spec.types[{index}]: {type_:?} is listed already");
        violations.warnings.push(warning);
    }
    violations.errors.extend(changed_type(change));
}

fn types(spec: &MultiClusterServiceSpec) -> Vec<&str> {
    spec.types.iter().map(String::as_str).collect()
}

/// Returns the error of a valid type that replaces another one. The parser reports invalid types.
fn changed_type(change: &PreparedChange) -> Option<FieldError> {
    let before = ExposureType::of(change.before.spec()?)?;
    let after = ExposureType::of(&change.spec)?;
    (before != after).then(|| {
        let detail = format!(
            "the type cannot change from {before:?}; delete the MultiClusterService and create it \
             again"
        );
        FieldError::invalid("spec.types", change.spec.types.clone(), detail)
    })
}

/// Warns of type LoadBalancer if the Service has another type (V9).
pub(super) fn validate_service(
    change: &PreparedChange,
    view: &HubView,
    violations: &mut Violations,
) {
    if !change.types_changed() || ExposureType::of(&change.spec) != Some(ExposureType::LoadBalancer)
    {
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
            "spec.types: LoadBalancer gathers load balancer addresses, but Service \
             {namespace}/{name} is not of type LoadBalancer"
        ));
        if !observed.live {
            violations.unconfirmed_service(Impact::Warning);
        }
    }
}
