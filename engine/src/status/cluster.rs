//! Desired status of a Cluster, on hubs where causeway maintains the Cluster objects.

use causeway::api::condition::{CLUSTERSET_API, DELETIONS_SUSPENDED, READY, TRUE, find};
use causeway::domain::ClusterName;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use k8s_openapi::jiff::Timestamp;

use super::condition_state::{ConditionState, DesiredCondition, set};
use crate::messages;
use crate::messages::cluster::ClusterFacts;
use crate::model::{Configuration, MemberState, TimePoint};
use crate::observed::Index;
use crate::observed::hub::ClusterView;
use crate::observed::member::{Member, Membership};
use crate::reasons::Reason;

/// Desired status of a Cluster.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct DesiredClusterStatus {
    /// Kubernetes version that the member reports.
    pub kubernetes_version: Option<String>,
    /// Conditions.
    pub conditions: Vec<Condition>,
}

/// Returns the desired status of a member's Cluster; `None` if it equals the stored status, or if
/// no such Cluster is joined.
pub(crate) fn status(
    index: &Index,
    name: &ClusterName,
    now: TimePoint,
) -> Option<DesiredClusterStatus> {
    let cluster = index.cluster(name)?;
    let identity = index.member(name).and_then(Member::identity);
    let kubernetes_version = identity
        .map(|identity| identity.version.clone())
        .or_else(|| cluster.kubernetes_version.clone());
    let (state, _) = index.reported_state(name, now);
    let member = index.member(name);
    let facts = ClusterFacts {
        index,
        name,
        cluster,
        state: &state,
    };
    let reason = facts.reason()?;
    let message = facts.message();
    let ready = ready(&state, stays(member, cluster), reason, &message);
    let mut conditions = cluster.conditions.clone();
    let mut put = |type_, text: (&str, &str), state: &ConditionState| {
        let desired = DesiredCondition { type_, text, state };
        let observed = observed_generation(member, cluster, type_);
        set(&mut conditions, desired, observed, now);
    };
    put(READY, (reason.as_str(), &message), &ready);
    if let Some((text, state)) = member.and_then(|member| clusterset_api(member, now)) {
        let other = member.and_then(Member::other_controller);
        let (reason, text) = match other {
            None => (Reason::Served, text),
            Some(other) => {
                let other = messages::exports::managed_by_other(name, &other);
                (other.reason, format!("{text}; {}", other.message))
            }
        };
        put(CLUSTERSET_API, (reason.as_str(), &text), &state);
    }
    let suspended = facts.suspended();
    if suspended > 0 || find(&cluster.conditions, DELETIONS_SUSPENDED).is_some() {
        let message = facts.deletions_suspended();
        let text = (Reason::DeletionsSuspended.as_str(), &*message);
        put(DELETIONS_SUSPENDED, text, &suspension(suspended));
    }
    if let MemberState::Unreachable { since, .. } = &state
        && reason == Reason::Unreachable
        && cluster.recorded_outage().is_none()
    {
        note_transition(&mut conditions, READY, since.wall);
    }
    let desired = DesiredClusterStatus {
        kubernetes_version,
        conditions,
    };
    let differs = desired.conditions != cluster.conditions
        || desired.kubernetes_version != cluster.kubernetes_version;
    differs.then_some(desired)
}

/// Returns the state of the condition Ready. One that `stays` is unchanged while the member syncs.
fn ready(state: &MemberState, stays: bool, reason: Reason, message: &str) -> ConditionState {
    match reason {
        Reason::Synced => ConditionState::True,
        // A process that has just started has not observed a reason against it.
        _ if *state == MemberState::Syncing && stays => ConditionState::Unchanged,
        _ => ConditionState::failed(reason, message),
    }
}

/// Whether the Cluster, as it is watched now, was reported as ready, or an outage that an earlier
/// process recorded may last.
fn stays(member: Option<&Member>, cluster: &ClusterView) -> bool {
    let observed = observed_generation(member, cluster, READY);
    let was_ready = find(&cluster.conditions, READY)
        .is_some_and(|ready| ready.status == TRUE && ready.observed_generation == Some(observed));
    let may_last = member.is_none_or(Member::has_recorded_outage);
    was_ready || cluster.recorded_outage().is_some() && may_last
}

/// Returns the state of the condition that reports suspended deletions.
fn suspension(suspended: usize) -> ConditionState {
    match suspended {
        0 => ConditionState::failed(
            Reason::NoDeletionsSuspended,
            messages::cluster::NO_DELETIONS_SUSPENDED,
        ),
        _ => ConditionState::True,
    }
}

/// Sets the transition time of a condition to the start of the state behind it, even if the status
/// of the condition did not change.
fn note_transition(conditions: &mut [Condition], type_: &str, since: Timestamp) {
    let mut conditions = conditions.iter_mut();
    if let Some(condition) = conditions.find(|condition| condition.type_ == type_) {
        condition.last_transition_time = Time(since);
    }
}

/// Returns the generation of the Cluster that a condition reports on. While the credentials of the
/// current one are awaited, the member is watched as an earlier one requests it.
fn observed_generation(member: Option<&Member>, cluster: &ClusterView, type_: &str) -> i64 {
    let is_awaited = |member: &Member| *member.configuration() == Configuration::Awaited;
    if !member.is_some_and(is_awaited) {
        return cluster.generation;
    }
    let stored = find(&cluster.conditions, type_);
    let observed = stored.and_then(|condition| condition.observed_generation);
    observed.unwrap_or_default()
}

/// Returns the message and state of the condition that reports whether the member takes part in the
/// clusterset; `None` while that is unknown.
fn clusterset_api(member: &Member, now: TimePoint) -> Option<(String, ConditionState)> {
    let membership = member.reported_membership(now).0;
    let message = messages::cluster::clusterset_api(&membership)?;
    let reason = match membership {
        Membership::Unknown => return None,
        Membership::Failing(_) => Reason::Refused,
        Membership::Part {
            exports: Some(_),
            imports: Some(_),
        } => return Some((message, ConditionState::True)),
        Membership::Part { .. } => Reason::NotServed,
    };
    Some((String::new(), ConditionState::failed(reason, message)))
}
