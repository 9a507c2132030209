//! V13: the annotations that name the service in DNS.

use causeway::api::labels::{HOSTNAME, HOSTNAME_ROUTING};
use causeway::domain::{ExposureType, Failover, Hostnames, read_routing};

use super::PreparedChange;
use super::violations::Violations;

pub(super) fn validate(change: &PreparedChange, violations: &mut Violations) {
    let annotation = |name| change.metadata.annotation(name);
    let changed = |name| annotation(name).filter(|_| change.annotation_changed(name));
    let mut report = |error| violations.errors.push(error);
    if let Some(text) = changed(HOSTNAME) {
        Hostnames::read(text, &mut report);
    }
    if let Some(text) = changed(HOSTNAME_ROUTING) {
        read_routing(text, &mut report);
    }
    if ExposureType::of(&change.spec) == Some(ExposureType::CrossCluster) {
        let both = [HOSTNAME, HOSTNAME_ROUTING].into_iter();
        for name in both.filter(|name| changed(name).is_some()) {
            violations.warnings.push(format!(
                "{}: has no effect on a MultiClusterService of type CrossCluster, which has no \
                 address outside the clusters; remove the annotation, or create a \
                 MultiClusterService of type LoadBalancer",
                Failover::path(name)
            ));
        }
        return;
    }
    let is_new = changed(HOSTNAME_ROUTING).is_some() || change.annotation_changed(HOSTNAME);
    let has_effect = annotation(HOSTNAME).is_some() || annotation(HOSTNAME_ROUTING).is_none();
    if is_new && !has_effect {
        violations.warnings.push(format!(
            "{}: has no effect without a name; set {HOSTNAME} too",
            Failover::path(HOSTNAME_ROUTING)
        ));
    }
}
