//! Sentences and remedies that a person reads: one room for all of them.
//!
//! The plan decides, and its decisions are values. This module words them: it decides nothing.

pub(crate) mod cluster;
pub(crate) mod conflict;
pub(crate) mod copies;
mod diagnosis;
pub(crate) mod endpoint;
mod entry;
pub(crate) mod entry_clusters;
pub mod events;
pub(crate) mod exports;
pub(crate) mod karmada;
pub(crate) mod leftovers;
pub(crate) mod member;
pub(crate) mod name;
pub(crate) mod native;
pub(crate) mod problem;
pub(crate) mod profiles;
mod progress;
pub(crate) mod remarks;
pub(crate) mod service;
mod shares;
mod tiers;
pub(crate) mod write;

use causeway::api::labels;
use causeway::domain::{ClusterName, ServiceKey};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

pub use self::cluster::{JOIN_AGAIN, REPORT_SECRETS};
pub use self::diagnosis::Diagnosis;
pub use self::member::unusable;
use crate::model::slice::Exposure;

/// Reason and message of a condition that holds.
pub(crate) type Text<'a> = (&'a str, &'a str);

/// Joins the names of clusters: `member1, member2`.
fn names<'a>(clusters: impl IntoIterator<Item = &'a ClusterName>) -> String {
    let names: Vec<_> = clusters.into_iter().map(ClusterName::as_str).collect();
    names.join(", ")
}

/// Joins the first `most` texts and the number of the others: `a, b and 3 more`.
fn first<T: AsRef<str>>(all: &[T], most: usize) -> String {
    let shown: Vec<_> = all.iter().take(most).map(AsRef::as_ref).collect();
    match all.len().saturating_sub(most) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

/// Writes a number of clusters: `1 cluster`.
fn counted(clusters: usize) -> String {
    match clusters {
        1 => "1 cluster".to_owned(),
        clusters => format!("{clusters} clusters"),
    }
}

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

#[cfg(test)]
mod tests;
