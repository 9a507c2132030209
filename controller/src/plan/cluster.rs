//! What the status of a Cluster should say, on hubs whose Cluster objects are causeway's to keep.

use causeway::api::condition::{FALSE, READY, TRUE, reason};
use causeway::domain::ClusterName;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use k8s_openapi::jiff::Timestamp;

use crate::index::{Index, Standing};

/// What a Cluster's status should say.
#[derive(Clone, Debug, PartialEq)]
pub struct ClusterStatusWish {
    /// The version that the member gives.
    pub kubernetes_version: Option<String>,
    /// The conditions.
    pub conditions: Vec<Condition>,
}

/// Words the status of a member; `None` while nothing new can be said.
pub fn status(index: &Index, name: &ClusterName, now: Timestamp) -> Option<ClusterStatusWish> {
    let cluster = index.hub.clusters.get(name)?;
    let identity = index
        .members
        .get(name)
        .and_then(|member| member.identity.as_ref());
    let kubernetes_version = identity
        .map(|identity| identity.version.clone())
        .or_else(|| cluster.kubernetes_version.clone());
    let (status, reason, message) = match index.standing(name) {
        Standing::Synced => (
            TRUE,
            reason::SYNCED,
            "Services and EndpointSlices are watched".to_owned(),
        ),
        Standing::Syncing => (
            FALSE,
            reason::SYNCING,
            "the first lists are not complete".to_owned(),
        ),
        Standing::Unreachable { why, .. } => (FALSE, reason::UNREACHABLE, why),
        Standing::Refused(why) => (FALSE, reason::REFUSED, why),
        Standing::LeftOut(why) => (FALSE, reason::REFUSED, format!("takes no part: {why}")),
        Standing::NotJoined => return None,
    };
    let mut conditions = cluster.conditions.clone();
    let stored = conditions
        .iter()
        .position(|condition| condition.type_ == READY);
    let since = stored.filter(|index| conditions[*index].status == status);
    let condition = Condition {
        type_: READY.to_owned(),
        status: status.to_owned(),
        reason: reason.to_owned(),
        message,
        observed_generation: Some(cluster.generation),
        last_transition_time: since.map_or(Time(now), |index| {
            conditions[index].last_transition_time.clone()
        }),
    };
    match stored {
        Some(index) => conditions[index] = condition,
        None => conditions.push(condition),
    }
    let wish = ClusterStatusWish {
        kubernetes_version,
        conditions,
    };
    let differs = wish.conditions != cluster.conditions
        || wish.kubernetes_version != cluster.kubernetes_version;
    differs.then_some(wish)
}
