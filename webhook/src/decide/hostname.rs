//! V13: the annotation that names the service in DNS.

use causeway::api::labels::HOSTNAME;
use causeway::domain::{ExposureType, Failover, Hostnames};

use super::PreparedChange;
use super::violations::Violations;

pub(super) fn validate(change: &PreparedChange, violations: &mut Violations) {
    let text = change.metadata.annotation(HOSTNAME);
    let Some(text) = text.filter(|_| change.annotation_changed(HOSTNAME)) else {
        return;
    };
    Hostnames::read(text, &mut |error| violations.errors.push(error));
    if ExposureType::of(&change.spec) == Some(ExposureType::CrossCluster) {
        violations.warnings.push(format!(
            "{}: has no effect on a MultiClusterService of type CrossCluster, which has no address \
             outside the clusters; remove the annotation, or create a MultiClusterService of type \
             LoadBalancer",
            Failover::path(HOSTNAME)
        ));
    }
}
