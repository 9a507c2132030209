//! Desired status of a Cluster, on hubs where causeway maintains the Cluster objects.

use causeway::api::condition::{CLUSTERSET_API, DELETIONS_SUSPENDED, FALSE, READY, TRUE, find};
use causeway::api::labels;
use causeway::domain::ClusterName;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use k8s_openapi::jiff::Timestamp;

use super::condition_state::{ConditionState, set};
use super::status::TTL_EXPIRED;
use crate::model::{Configuration, MemberState, TimePoint};
use crate::observed::Index;
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
    // A process that has just started knows nothing against what was so.
    let was_ready = find(&cluster.conditions, READY).is_some_and(|ready| {
        ready.status == TRUE && ready.observed_generation == Some(cluster.generation)
    });
    let is_kept = was_ready && state == MemberState::Syncing;
    let lost_since = match &state {
        MemberState::Unreachable { since, .. } => Some(since.wall),
        _ => None,
    };
    let words = match outdated(index, name) {
        Some(message) => Some((FALSE, Reason::InvalidConfiguration, message)),
        None => in_words(index, name, state),
    };
    let (status, reason, message) = words?;
    let ready = match status {
        TRUE => ConditionState::True,
        _ if is_kept => ConditionState::Unchanged,
        _ => ConditionState::False {
            reason: reason.into(),
            message: message.clone(),
        },
    };
    let mut conditions = cluster.conditions.clone();
    let mut put = |type_, text: (&str, &str), state: &ConditionState| {
        set(&mut conditions, type_, text, state, cluster.generation, now);
    };
    put(READY, (reason.as_str(), &message), &ready);
    let member = index.member(name);
    if let Some((text, state)) = member.and_then(|member| clusterset_api(member, now)) {
        put(CLUSTERSET_API, (Reason::Served.as_str(), &text), &state);
    }
    let suspended = member.map_or(0, suspended);
    if suspended > 0 || find(&cluster.conditions, DELETIONS_SUSPENDED).is_some() {
        let message = deletions_suspended(name, suspended);
        let text = (Reason::DeletionsSuspended.as_str(), &*message);
        put(DELETIONS_SUSPENDED, text, &suspension(suspended));
    }
    if let Some(since) = lost_since.filter(|_| reason == Reason::Unreachable)
        && cluster.recorded_outage().is_none()
    {
        note_transition(&mut conditions, READY, since);
    }
    let desired = DesiredClusterStatus {
        kubernetes_version,
        conditions,
    };
    let differs = desired.conditions != cluster.conditions
        || desired.kubernetes_version != cluster.kubernetes_version;
    differs.then_some(desired)
}

/// Sets the transition time of a condition to the start of the state behind it, even if the status
/// of the condition did not change.
fn note_transition(conditions: &mut [Condition], type_: &str, since: Timestamp) {
    let mut conditions = conditions.iter_mut();
    if let Some(condition) = conditions.find(|condition| condition.type_ == type_) {
        condition.last_transition_time = Time(since);
    }
}

/// Returns the error in the Cluster or Secret of a member that stays engaged with its last valid
/// connection.
fn outdated(index: &Index, name: &ClusterName) -> Option<String> {
    match index.member(name)?.configuration() {
        Configuration::Outdated(error) => {
            Some(format!("{error}; until then its last connection is kept"))
        }
        Configuration::Valid | Configuration::Refused(_) => None,
    }
}

/// Returns status, reason and message of Ready for a state of the member; `None` for one that is
/// not joined.
fn in_words(
    index: &Index,
    name: &ClusterName,
    state: MemberState,
) -> Option<(&'static str, Reason, String)> {
    let words = match state {
        MemberState::Synced => (TRUE, Reason::Synced, watched(index, name)),
        MemberState::Syncing => {
            let message = "the initial lists are not complete";
            (FALSE, Reason::Syncing, message.to_owned())
        }
        MemberState::Unreachable { failure, .. } => {
            let message = match index.has_ttl_expired(name) {
                true => format!("{failure}; {TTL_EXPIRED}: its endpoints are not used"),
                false => failure.to_string(),
            };
            (FALSE, Reason::Unreachable, message)
        }
        MemberState::Unwatched { kind, failure, .. } => {
            let message = format!("cannot be watched ({kind}: {failure})");
            (FALSE, Reason::Refused, message)
        }
        MemberState::Refused(refusal) => (FALSE, Reason::Refused, refusal.to_string()),
        MemberState::LeftOut(left_out) => {
            let message = format!("takes no part: {left_out}");
            (FALSE, Reason::Refused, message)
        }
        MemberState::NotJoined => return None,
    };
    Some(words)
}

fn watched(index: &Index, name: &ClusterName) -> String {
    let mut text = "Services and EndpointSlices are watched".to_owned();
    let suspended = index.member(name).map_or(0, suspended);
    if suspended > 0 {
        text.push_str(&format!("; {}", deletions_suspended(name, suspended)));
    }
    let cluster = index.cluster(name);
    let unreadable = cluster.map_or(&[][..], |cluster| &cluster.declared.unreadable);
    if !unreadable.is_empty() {
        text.push_str(&format!(
            "; annotation {} holds what is no range and is passed over: {}",
            labels::ENDPOINT_CIDRS,
            unreadable.join(", ")
        ));
    }
    text
}

/// Returns the number of suspended deletions of the member.
fn suspended(member: &Member) -> usize {
    member.suspended_deletions().count
}

fn deletions_suspended(name: &ClusterName, count: usize) -> String {
    format!(
        "deletions of {count} objects are suspended: its last lists lack them, and they are kept until a second list lacks them \
         too; to confirm them now: kubectl mcs confirm-deletions {name}"
    )
}

/// Returns the state of DeletionsSuspended for a number of suspended deletions.
fn suspension(count: usize) -> ConditionState {
    match count {
        0 => ConditionState::False {
            reason: Reason::NoDeletionsSuspended.into(),
            message: "its last lists lack nothing that is kept".to_owned(),
        },
        _ => ConditionState::True,
    }
}

/// Returns the message and state of the condition that reports whether the member takes part in the
/// clusterset; `None` while that is unknown.
fn clusterset_api(member: &Member, now: TimePoint) -> Option<(String, ConditionState)> {
    let not = |reason: Reason, message| {
        let state = ConditionState::False {
            reason: reason.into(),
            message,
        };
        (String::new(), state)
    };
    Some(match member.reported_membership(now).0 {
        Membership::Unknown => return None,
        Membership::Failing(why) => not(
            Reason::Refused,
            format!("ServiceExports and ServiceImports cannot be watched ({why})"),
        ),
        Membership::Part {
            exports: Some(exports),
            imports: Some(imports),
        } => {
            let text = format!(
                "ServiceExport {exports} and ServiceImport {} are watched",
                imports.version
            );
            (text, ConditionState::True)
        }
        Membership::Part { exports, imports } => {
            let missing = [
                ("ServiceExport", exports.is_none()),
                ("ServiceImport", imports.is_none()),
            ];
            let missing: Vec<_> = missing
                .iter()
                .filter(|(_, gone)| *gone)
                .map(|(kind, _)| *kind)
                .collect();
            let text = format!(
                "{} is not installed there; apply manifests/crds/member/, or join the cluster again",
                missing.join(" and ")
            );
            not(
                Reason::NotServed,
                text.replace(" and ServiceImport is", " and ServiceImport are"),
            )
        }
    })
}
