//! Evaluation of the conditions of hub and member objects.

use causeway::api::{Cluster, condition};
use causeway_engine::reasons::Reason;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use k8s_openapi::jiff::Timestamp;
use serde::Serialize;

use crate::cluster::conditions::{Conditions as _, is_outdated};

/// Serialized form of a condition.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ConditionReport {
    #[serde(rename = "type")]
    pub type_: String,
    pub status: String,
    pub reason: String,
    pub message: String,
    pub since: Timestamp,
}

impl From<Condition> for ConditionReport {
    fn from(condition: Condition) -> Self {
        Self {
            type_: condition.type_,
            status: condition.status,
            reason: condition.reason,
            message: condition.message,
            since: condition.last_transition_time.0,
        }
    }
}

/// Readiness according to the condition Ready, provided that it covers the current generation.
pub(crate) struct Readiness {
    pub ready: bool,
    pub reason: String,
    pub message: String,
    pub since: Option<Timestamp>,
}

pub(crate) fn readiness(
    conditions: &[Condition],
    generation: Option<i64>,
    deleting: bool,
) -> Readiness {
    let not_yet = |reason: Reason, message: &str| Readiness {
        ready: false,
        reason: reason.into(),
        message: message.to_owned(),
        since: None,
    };
    if deleting {
        return not_yet(
            Reason::Deleting,
            "being deleted; the controller cleans up the members first",
        );
    }
    let Some(ready) = condition::find(conditions, condition::READY) else {
        return not_yet(
            Reason::Pending,
            "not processed by the controller yet; check that causeway-controller is running",
        );
    };
    if is_outdated(ready, generation) {
        return not_yet(Reason::Pending, "the last change is not applied yet");
    }
    // Karmada writes the status of the Clusters of its own hubs.
    let message = match Reason::of(&ready.reason) {
        Some(_) => ready.message.clone(),
        None => format!("another program reports: {}", ready.message),
    };
    Readiness {
        ready: ready.status == condition::TRUE,
        reason: ready.reason.clone(),
        message,
        since: Some(ready.last_transition_time.0),
    }
}

/// Returns the message of the condition DeletionsSuspended, if its status is True.
pub(crate) fn deletions_suspended(cluster: &Cluster) -> Option<&str> {
    let suspended = cluster.condition(condition::DELETIONS_SUSPENDED)?;
    (suspended.status == condition::TRUE).then_some(&*suspended.message)
}
