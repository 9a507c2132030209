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
pub(crate) mod shares;
mod tiers;
pub(crate) mod write;

use std::fmt;

use causeway::api::labels;
use causeway::domain::{ClusterName, ServiceKey};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

pub use self::cluster::{JOIN_AGAIN, REPORT_SECRETS, unread as member_unread};
pub use self::diagnosis::Diagnosis;
pub use self::member::unusable;
pub use self::shares::unapplied_shares;
use crate::model::slice::Exposure;

/// Reason and message of a condition that holds.
pub(crate) type Text<'a> = (&'a str, &'a str);

/// Maximum number of names, targets or gaps that a message lists.
const NAMED_AT_MOST: usize = 5;

/// Joins names and other texts: `member1, member2`.
fn names(all: impl IntoIterator<Item = impl fmt::Display>) -> String {
    let all = all.into_iter().map(|one| one.to_string());
    all.collect::<Vec<_>>().join(", ")
}

/// Joins the first `most` texts and the number of the others: `a, b and 3 more`.
fn first(all: impl IntoIterator<Item = impl fmt::Display>, most: usize) -> String {
    let mut all = all.into_iter();
    let shown = names(all.by_ref().take(most));
    match all.count() {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

/// Joins the first texts and the number of the others by a separator: `a; b; and 3 more`.
fn first_by(separator: &str, all: impl IntoIterator<Item = impl fmt::Display>) -> String {
    let mut all = all.into_iter();
    let shown = all.by_ref().take(NAMED_AT_MOST);
    let mut texts: Vec<_> = shown.map(|one| one.to_string()).collect();
    let more = all.count();
    texts.extend((more > 0).then(|| format!("and {more} more")));
    texts.join(separator)
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

/// Returns the remedy that runs kubectl in a cluster, in the namespace of a service.
fn in_cluster(cluster: impl fmt::Display, key: &ServiceKey, command: impl fmt::Display) -> String {
    format!("in {cluster}: kubectl -n {} {command}", key.namespace)
}

/// Returns the remedy that patches the spec of a Service in a cluster.
fn patch_service(cluster: impl fmt::Display, key: &ServiceKey, spec: &str) -> String {
    let patch = format!("patch service {} -p '{{\"spec\":{{{spec}}}}}'", key.name);
    in_cluster(cluster, key, patch)
}

fn edit_service(cluster: &ClusterName, key: &ServiceKey) -> String {
    in_cluster(cluster, key, format_args!("edit service {}", key.name))
}

/// Returns the command that joins a member.
fn join(member: &ClusterName) -> String {
    format!("kubectl mcs join {member} --member-kubeconfig FILE")
}

fn extend_preference() -> String {
    format!(
        "add any, or cluster/NAME, to the annotation {}",
        labels::PREFER
    )
}

#[cfg(test)]
mod tests;
