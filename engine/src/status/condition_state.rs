//! Conditions made from the progress in each cluster.

use std::borrow::Cow;

use causeway::api::bounds;
use causeway::api::condition::{FALSE, TRUE};
use causeway::domain::ServiceKey;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

use crate::messages::{self, Text};
use crate::model::{ObjectEvent, TimePoint};
use crate::problem::{MemberProblem, Problem, State, Tally};
use crate::reasons::Reason;

/// Desired state of a condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ConditionState {
    /// It holds.
    True,
    /// It does not hold.
    False {
        /// Reason in CamelCase.
        reason: Cow<'static, str>,
        /// Message for a person.
        message: String,
    },
    /// The state is unknown; the condition stays as it was.
    Unchanged,
}

impl ConditionState {
    /// Returns the state of a condition that does not hold.
    pub(super) fn failed(reason: impl Into<Cow<'static, str>>, message: impl Into<String>) -> Self {
        Self::False {
            reason: reason.into(),
            message: message.into(),
        }
    }

    /// Returns the state of a condition that reports a problem on the hub's side.
    pub(super) fn of_problem(key: &ServiceKey, problem: &Problem) -> Self {
        Self::failed(problem.reason(), messages::problem::problem(key, problem))
    }
}

/// Returns the progress, given a problem and whether anything is outstanding. A problem comes
/// first.
pub(crate) fn settled(problem: Option<MemberProblem>, pending: bool) -> State {
    match (problem, pending) {
        (Some(problem), _) => State::Failed(problem),
        (None, true) => State::InProgress,
        (None, false) => State::Done,
    }
}

/// Returns a condition that holds once all clusters are done. Its message names the failing ones;
/// without a failure the condition stays as it was while any cluster is in progress.
pub(crate) fn summarize<const N: usize>(reason: Reason, tallies: [Tally<'_>; N]) -> ConditionState {
    let failed: Vec<_> = tallies
        .iter()
        .filter(|tally| !tally.problems.is_empty())
        .map(Tally::message)
        .collect();
    if !failed.is_empty() {
        return ConditionState::failed(reason, failed.join("; "));
    }
    if tallies.iter().any(|tally| tally.under_way) {
        ConditionState::Unchanged
    } else {
        ConditionState::True
    }
}

/// Condition that an object should have.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DesiredCondition<'a> {
    pub(crate) type_: &'a str,
    /// Reason and message if it holds.
    pub(crate) text: Text<'a>,
    pub(crate) state: &'a ConditionState,
}

/// Sets a condition, within the bounds of the API. Returns an Event if its status changed.
pub(crate) fn set(
    conditions: &mut Vec<Condition>,
    desired: DesiredCondition<'_>,
    generation: i64,
    now: TimePoint,
) -> Option<ObjectEvent> {
    let DesiredCondition { type_, text, state } = desired;
    let (true_reason, true_message) = text;
    let (status, reason, message) = match state {
        ConditionState::Unchanged => return None,
        ConditionState::True => (TRUE, true_reason, true_message),
        ConditionState::False { reason, message } => (FALSE, &**reason, message.as_str()),
    };
    let stored = conditions.iter_mut().find(|stored| stored.type_ == type_);
    let since = stored
        .as_ref()
        .filter(|stored| stored.status == status)
        .map(|stored| stored.last_transition_time.clone());
    let event = since.is_none().then(|| ObjectEvent {
        warning: status == FALSE,
        reason: reason.to_owned(),
        note: message.to_owned(),
    });
    let condition = Condition {
        type_: type_.to_owned(),
        status: status.to_owned(),
        reason: bounds::cut_reasons(reason.to_owned(), bounds::CONDITION_REASON),
        message: bounds::cut(message.to_owned(), bounds::CONDITION_MESSAGE),
        observed_generation: Some(generation),
        last_transition_time: since.unwrap_or(Time(now.wall)),
    };
    match stored {
        Some(stored) => *stored = condition,
        None => conditions.push(condition),
    }
    event
}
