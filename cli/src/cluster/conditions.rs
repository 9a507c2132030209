//! Conditions of Clusters and MultiClusterServices.

use causeway::api::{Cluster, MultiClusterService, condition};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

/// Whether a condition covers an earlier generation of its object.
pub(crate) fn is_outdated(condition: &Condition, generation: Option<i64>) -> bool {
    // Karmada writes no observedGeneration into the conditions of a Cluster.
    condition.observed_generation.is_some() && condition.observed_generation < generation
}

/// Object with conditions in its status.
pub(crate) trait Conditions {
    /// Returns all conditions. Without a status the slice is empty.
    fn conditions(&self) -> &[Condition];

    /// Returns the condition of a type.
    fn condition(&self, type_: &str) -> Option<&Condition> {
        condition::find(self.conditions(), type_)
    }
}

impl Conditions for Cluster {
    fn conditions(&self) -> &[Condition] {
        let status = self.status.as_ref();
        status.map_or(&[], |status| &status.conditions)
    }
}

impl Conditions for MultiClusterService {
    fn conditions(&self) -> &[Condition] {
        let status = self.status.as_ref();
        let conditions = status.and_then(|status| status.conditions.as_deref());
        conditions.unwrap_or_default()
    }
}
