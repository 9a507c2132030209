//! Result of a Karmada policy that propagates a Service, as its ResourceBinding on the hub reports
//! it.
//!
//! The binding of a Service `foo` is `foo-service` (karmada-io/karmada, `pkg/util/names`,
//! GenerateBindingName). If a member has a Service of the name that Karmada did not create, and the
//! policy does not contain `conflictResolution: Overwrite`, Karmada leaves the Service alone and
//! reports "already exists" for the cluster (`pkg/util/objectwatcher/objectwatcher.go`, Update;
//! `pkg/util/helper/workstatus.go`).

use std::collections::BTreeSet;

use causeway::domain::ClusterName;
use serde::Deserialize;

const ALREADY_THERE: &str = "already exists";
const FULLY_APPLIED: &str = "FullyApplied";

/// Result of the propagation of a Service.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(from = "Binding")]
pub struct Propagation {
    /// Clusters that already had a Service of the name, which Karmada left alone.
    pub refused: BTreeSet<ClusterName>,
    /// Whether the propagation is complete.
    pub is_complete: bool,
}

#[derive(Deserialize)]
struct Binding {
    #[serde(default)]
    status: Status,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Status {
    conditions: Vec<Said>,
    aggregated_status: Vec<InCluster>,
}

#[derive(Deserialize)]
struct Said {
    #[serde(rename = "type")]
    type_: String,
    status: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct InCluster {
    cluster_name: String,
    #[serde(default)]
    applied: bool,
    #[serde(default)]
    applied_message: String,
}

impl From<Binding> for Propagation {
    fn from(binding: Binding) -> Self {
        let status = binding.status;
        let mut conditions = status.conditions.iter();
        let is_complete =
            conditions.any(|said| said.type_ == FULLY_APPLIED && said.status == "True");
        let there =
            |item: &InCluster| !item.applied && item.applied_message.contains(ALREADY_THERE);
        let clusters = status.aggregated_status.into_iter().filter(there);
        Self {
            refused: clusters
                .filter_map(|item| ClusterName::try_from(item.cluster_name.as_str()).ok())
                .collect(),
            is_complete,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::fixtures::name;

    fn read(status: Value) -> Propagation {
        let binding =
            serde_json::from_value(json!({"metadata": {"name": "foo-service"}, "status": status}));
        binding.expect("a binding")
    }

    #[test]
    fn a_binding_says_where_there_is_a_service_already() {
        let exists = "Failed to apply all manifests (0/1): resource(kind=Service, shop/foo) already exists in the cluster member2 and the \
                      work.karmada.io/conflict-resolution strategy value is empty, Karmada will not manage this resource";
        let status = json!({
            "conditions": [{"type": "Scheduled", "status": "True"}, {"type": "FullyApplied", "status": "False"}],
            "aggregatedStatus": [
                {"clusterName": "member1", "applied": true},
                {"clusterName": "member2", "applied": false, "appliedMessage": exists},
                {"clusterName": "member3", "appliedMessage": "no rights"},
            ],
        });
        let expected = Propagation {
            refused: [name("member2")].into(),
            is_complete: false,
        };
        assert_eq!(read(status), expected);
        let done = read(json!({"conditions": [{"type": "FullyApplied", "status": "True"}]}));
        assert!(done.is_complete && done.refused.is_empty());
        assert_eq!(read(json!({})), Propagation::default());
        let without: Propagation = serde_json::from_value(json!({})).expect("a binding");
        assert_eq!(without, Propagation::default());
    }
}
