//! V12: the annotation that names the way from other networks.

use causeway::api::labels::REACH;
use causeway::domain::{ExposureType, Failover, Reach};

use super::hub_view::ServiceKind;
use super::violations::Violations;
use super::{HubView, Impact, PreparedChange};

pub(super) fn validate(change: &PreparedChange, view: &HubView, violations: &mut Violations) {
    let text = change.metadata.annotation(REACH);
    let Some(text) = text.filter(|_| change.annotation_changed(REACH)) else {
        return;
    };
    if let Err(error) = Reach::of_annotation(text) {
        violations.errors.push(error);
    }
    // V11 warns that type LoadBalancer has no use for annotations.
    if ExposureType::of(&change.spec) != Some(ExposureType::LoadBalancer) {
        warn_of_headless(change, view, violations);
    }
}

/// Warns that the names of a headless Service resolve to addresses of pods alone.
fn warn_of_headless(change: &PreparedChange, view: &HubView, violations: &mut Violations) {
    let Some(observed) = &view.service else {
        return violations.unconfirmed_service(Impact::Warning);
    };
    let kind = observed.value.as_ref().map(|service| service.kind);
    if kind != Some(ServiceKind::Headless) {
        return;
    }
    let (namespace, service) = change.service();
    violations.warnings.push(format!(
        "{}: has no effect: Service {namespace}/{service} is headless, and its names lead to pods \
         alone; remove the annotation, or give the Service a virtual address",
        Failover::path(REACH)
    ));
    if !observed.live {
        violations.unconfirmed_service(Impact::Warning);
    }
}
