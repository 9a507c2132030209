//! Cleanup of members by the controller, from objects of the hub. Pure.

use causeway::api::{Cluster, condition, labels};
use causeway_engine::reasons::Reason;
use kube::Resource;
use serde_json::json;

use crate::cluster::conditions::Conditions as _;

/// Whether an object has causeway's finalizer, which blocks deletion until the controller has
/// cleaned up.
pub(crate) fn is_kept(object: &impl Resource) -> bool {
    let finalizers = object.meta().finalizers.as_deref().unwrap_or_default();
    finalizers.iter().any(|one| one == labels::FINALIZER)
}

/// Returns the merge patch that removes causeway's finalizer, and those of no other program.
pub(crate) fn surrender(finalizers: &[String]) -> String {
    let others = finalizers.iter().filter(|one| *one != labels::FINALIZER);
    let others: Vec<_> = others.collect();
    json!({ "metadata": { "finalizers": others } }).to_string()
}

/// Returns the reason that a member cannot be cleaned up now, prefixed with a colon. Returns an
/// empty string if the member is ready, or is cleaned up by its last connection.
pub(crate) fn cleaning(cluster: &Cluster) -> String {
    let ready = cluster.condition(condition::READY);
    ready
        .filter(|ready| ready.status != condition::TRUE)
        .filter(|ready| ready.reason != Reason::InvalidConfiguration)
        .map(|ready| format!(": {} ({})", ready.reason, ready.message))
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::fixtures::{cluster, ready};

    #[test]
    fn finalizers_of_other_programs_stay() {
        let finalizers = ["karmada.io/other", labels::FINALIZER].map(str::to_owned);
        for (finalizers, expected) in [(&finalizers[..], r#"["karmada.io/other"]"#), (&[], "[]")] {
            let patch = surrender(finalizers);
            let expected = format!(r#"{{"metadata":{{"finalizers":{expected}}}}}"#);
            assert_eq!(patch, expected);
        }
    }

    #[test]
    fn cluster_that_cannot_be_cleaned_up_has_a_reason() {
        for (status, reason, expected) in [
            ("True", "Synced", ""),
            ("False", "Unreachable", ": Unreachable (why)"),
            (
                "False",
                "PullWithoutCredentials",
                ": PullWithoutCredentials (why)",
            ),
            // The last connection cleans it up.
            ("False", "InvalidConfiguration", ""),
        ] {
            let cluster = cluster("a", json!([ready(status, reason, "why")]));
            assert_eq!(cleaning(&cluster), expected, "{reason}");
        }
        assert_eq!(cleaning(&cluster("a", json!([]))), "");
    }
}
