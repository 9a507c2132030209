//! State of Karmada's propagation of a Service, from its ResourceBinding.

use causeway::api::condition;
use causeway::domain::ServiceKey;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::Api;
use kube::api::{ApiResource, DynamicObject};
use serde::{Deserialize, Serialize};

use crate::cluster::api_server::{ApiServer, RequestError};

/// Annotation of a binding that names its PropagationPolicy
/// (`pkg/apis/policy/v1alpha1/well_known_constants.go`).
const POLICY: &str = "propagationpolicy.karmada.io/name";
const FULLY_APPLIED: &str = "FullyApplied";
/// Part of Karmada's message about an object that it must not overwrite
/// (`pkg/util/objectwatcher/objectwatcher.go`, Update).
const EXISTS: &str = "already exists";

/// Service that Karmada did not propagate to every cluster. Programs read this format.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Unapplied {
    /// Description of the problem.
    pub message: String,
    /// Command or change that fixes the problem.
    pub remedy: String,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Status {
    conditions: Vec<Condition>,
    aggregated_status: Vec<InCluster>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct InCluster {
    cluster_name: String,
    applied: bool,
    applied_message: String,
}

/// Returns the name of a Service's binding (`pkg/util/names/names.go`, GenerateBindingName).
pub(crate) fn name(service: &str) -> String {
    format!("{service}-service")
}

/// Reads the binding of a Service. Returns `None` if no binding exists, if Karmada applied it
/// everywhere, or if the user may not read it.
pub(crate) async fn unapplied(
    hub: &ApiServer,
    key: &ServiceKey,
) -> Result<Option<Unapplied>, RequestError> {
    let kind = ApiResource {
        group: "work.karmada.io".to_owned(),
        version: "v1alpha2".to_owned(),
        api_version: "work.karmada.io/v1alpha2".to_owned(),
        kind: "ResourceBinding".to_owned(),
        plural: "resourcebindings".to_owned(),
    };
    let api: Api<DynamicObject> = hub.api_of(&kind, Some(&key.namespace));
    match hub.request(api.get(&name(&key.name))).await {
        Ok(binding) => Ok(read(key, &binding)),
        Err(RequestError::NotFound { .. } | RequestError::NotAllowed { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

fn read(key: &ServiceKey, binding: &DynamicObject) -> Option<Unapplied> {
    let status: Status = serde_json::from_value(binding.data.get("status")?.clone()).ok()?;
    let applied = condition::find(&status.conditions, FULLY_APPLIED)?;
    if applied.status != condition::FALSE {
        return None;
    }
    let refused = status.aggregated_status.iter().filter(|one| !one.applied);
    let refused: Vec<_> = refused
        .map(|one| format!("{}: {}", one.cluster_name, one.applied_message))
        .collect();
    let why = match refused.as_slice() {
        [] => applied.message.clone(),
        refused => refused.join("; "),
    };
    let (namespace, service) = (&key.namespace, &key.name);
    let message = format!(
        "Karmada propagates Service {key}, and not everywhere (ResourceBinding {}, FullyApplied=False): {why}",
        name(service)
    );
    let policy = binding.metadata.annotations.as_ref();
    let policy = policy.and_then(|all| all.get(POLICY));
    let policy = policy.map_or("POLICY", String::as_str);
    let remedy = if why.contains(EXISTS) {
        format!(
            "kubectl -n {namespace} patch propagationpolicy {policy} --type=merge -p '{{\"spec\":{{\"conflictResolution\":\"Overwrite\"}}}}'; or leave \
             Service {service} out of the policy; or create the policy before the MultiClusterService"
        )
    } else {
        format!(
            "kubectl -n {namespace} describe resourcebinding {}",
            name(service)
        )
    };
    Some(Unapplied { message, remedy })
}

#[cfg(test)]
pub(crate) mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn binding(status: &str, applied: bool, message: &str) -> Value {
        json!({
            "apiVersion": "work.karmada.io/v1alpha2",
            "kind": "ResourceBinding",
            "metadata": { "name": "foo-service", "namespace": "shop", "annotations": { POLICY: "shop" } },
            "status": {
                "conditions": [{
                    "type": "FullyApplied", "status": status, "reason": "FullyAppliedFailed",
                    "message": "Failed to apply all works, see status.aggregatedStatus for details",
                    "lastTransitionTime": "2026-11-20T23:55:00Z",
                }],
                "aggregatedStatus": [
                    { "clusterName": "a", "applied": true },
                    { "clusterName": "b", "applied": applied, "appliedMessage": message },
                ],
            },
        })
    }

    fn reported(binding: Value) -> Option<Unapplied> {
        let binding = serde_json::from_value(binding).expect("an object");
        read(&ServiceKey::new("shop", "foo"), &binding)
    }

    #[test]
    fn a_service_that_karmada_would_not_overwrite_is_reported_with_the_three_ways_out() {
        let exists = "Failed to apply all manifests (0/1): resource(kind=Service, shop/foo) already exists in the cluster b";
        let reported = reported(binding("False", false, exists)).expect("it is reported");
        assert!(
            reported.message.contains("foo-service, FullyApplied=False")
                && reported.message.contains("b: Failed"),
            "{reported:?}"
        );
        for way in [
            "patch propagationpolicy shop",
            "\"conflictResolution\":\"Overwrite\"",
            "leave Service foo out of the policy",
            "create the policy before the MultiClusterService",
        ] {
            assert!(reported.remedy.contains(way), "{way}: {reported:?}");
        }
    }

    #[test]
    fn other_failures_are_reported_without_that_advice_and_what_is_applied_is_not_reported() {
        let other =
            reported(binding("False", false, "cluster(b) not ready")).expect("it is reported");
        assert_eq!(
            other.remedy,
            "kubectl -n shop describe resourcebinding foo-service"
        );
        assert_eq!(reported(binding("True", true, "")), None);
        assert_eq!(
            reported(json!({
                "apiVersion": "work.karmada.io/v1alpha2", "kind": "ResourceBinding", "metadata": { "name": "foo-service" },
            })),
            None
        );
    }
}
