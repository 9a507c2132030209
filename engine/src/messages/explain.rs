//! Sentences of `kubectl mcs explain`.

pub(crate) mod cluster;
pub(crate) mod clusterset;
pub(crate) mod endpoint;
pub(crate) mod karmada;
pub(crate) mod leftovers;
pub(crate) mod native;
pub(crate) mod service;
pub(crate) mod slice;

use causeway::api::labels;
use causeway::domain::{ClusterName, ServiceKey};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use crate::model::slice::Exposure;

/// Returns the reason and the message of a condition in the form in which they are quoted.
pub(crate) fn quote(condition: &Condition) -> String {
    quoted(&condition.reason, &condition.message)
}

/// Returns the reason and the message of a condition in the form in which they are quoted.
pub(crate) fn quoted(reason: &str, message: &str) -> String {
    format!("{reason} ({message})")
}

/// Returns the name by which clients reach a service.
pub(crate) fn address(exposure: Exposure, key: &ServiceKey) -> String {
    let zone = match exposure {
        Exposure::Native => "svc",
        Exposure::Clusterset => "svc.clusterset.local",
    };
    format!("{}.{}.{zone}", key.name, key.namespace)
}

/// Returns the command by which a person has causeway manage a service of Karmada's.
fn adopt(key: &ServiceKey) -> String {
    format!("kubectl mcs adopt {} -n {}", key.name, key.namespace)
}

/// Returns the command that shows the state of a service.
fn status(key: &ServiceKey) -> String {
    format!("kubectl mcs status {} -n {}", key.name, key.namespace)
}

fn wait(key: &ServiceKey) -> String {
    format!(
        "wait a moment; if it stays: {}, and the log of causeway-controller",
        status(key)
    )
}

fn edit_service(cluster: &ClusterName, key: &ServiceKey) -> String {
    format!(
        "in {cluster}: kubectl -n {} edit service {}",
        key.namespace, key.name
    )
}

fn extend_preference() -> String {
    format!(
        "add any, or cluster/NAME, to the annotation {}",
        labels::PREFER
    )
}
