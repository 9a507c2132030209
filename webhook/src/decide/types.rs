//! V2: the type does not change. V9: type LoadBalancer without such a Service.

use causeway::api::{MultiClusterServiceSpec, labels};
use causeway::domain::{ExposureType, Failover, FieldError, has_entry_clusters, quoted};

use super::counts::repeated;
use super::hub_view::ServiceKind;
use super::prepared_change::Before;
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

/// Warns of annotations that request a load balancer of Karmada's cloud provider (V9).
pub(super) fn warn_of_karmada_elb(change: &PreparedChange, violations: &mut Violations) {
    let stored = match &change.before {
        Before::Object(stored, _) => stored.karmada_elb(),
        Before::Nothing | Before::Deleting => None,
    };
    if let Some(name) = change.metadata.karmada_elb().filter(|_| stored.is_none()) {
        violations.warnings.push(format!(
            "{}: annotations {}* have no effect here: the load balancers of the clusters in \
             spec.consumerClusters, which need type LoadBalancer, give the addresses",
            Failover::path(&quoted(name)),
            labels::KARMADA_ELB
        ));
    }
}

/// Warns of type LoadBalancer if its status gathers load balancers and the Service has none (V9).
pub(super) fn validate_service(
    change: &PreparedChange,
    view: &HubView,
    violations: &mut Violations,
) {
    let gathers = ExposureType::of(&change.spec) == Some(ExposureType::LoadBalancer)
        && !has_entry_clusters(&change.spec);
    if !change.types_changed() || !gathers {
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
             {namespace}/{name} is not of type LoadBalancer; name the clusters whose load \
             balancers are to lead to all pods in spec.consumerClusters, or change the Service"
        ));
        if !observed.live {
            violations.unconfirmed_service(Impact::Warning);
        }
    }
}
