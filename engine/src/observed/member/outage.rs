//! Debounces what statuses report of a member whose watches break and recover: a status reports
//! only states that last.
//!
//! The queue of the member follows [`MemberState`] at once, in both directions.

use std::time::Duration;

use super::clusterset::Membership;
use crate::model::{MemberState, TimePoint};

/// Time for which a watch fails before a status reports it. A failed probe is reported at once: it
/// has failed twice, or was refused.
const REPORTED_AFTER: Duration = Duration::from_secs(10);
/// Time within which a second failure makes a member flapping. A flapping member is reported as
/// restored once it has been restored for as long.
const STEADY_AFTER: Duration = Duration::from_secs(30);

/// Last outage of a member, or of its clusterset's API, with those that followed it closely. `S` is
/// the state while it fails.
#[derive(Debug)]
pub(super) struct Outage<S> {
    began: Option<TimePoint>,
    /// Time at which the member was restored; `None` while it fails.
    ended: Option<TimePoint>,
    is_flapping: bool,
    /// Whether a probe failed.
    is_sure: bool,
    /// State while it failed.
    last: Option<S>,
}

impl<S> Default for Outage<S> {
    fn default() -> Self {
        Self {
            began: None,
            ended: None,
            is_flapping: false,
            is_sure: false,
            last: None,
        }
    }
}

impl<S: Clone> Outage<S> {
    /// Notes the state if it is a failing one. `failing` returns it for the time at which the
    /// outage began; `is_sure` reports it at once.
    pub(super) fn note_failing(
        &mut self,
        failing: Option<impl FnOnce(TimePoint) -> S>,
        is_sure: bool,
        now: TimePoint,
    ) {
        let Some(failing) = failing else {
            if self.began.is_some() {
                self.ended.get_or_insert(now);
            }
            return;
        };
        if let Some(ended) = self.ended.take() {
            match now.since(ended) < STEADY_AFTER {
                true => self.is_flapping = true,
                false => *self = Self::default(),
            }
        }
        let began = *self.began.get_or_insert(now);
        self.is_sure |= is_sure;
        self.last = Some(failing(began));
    }

    /// Returns the state that statuses report at that time, and the time at which it changes without
    /// an event. `unsettled` leaves a status as it is.
    pub(super) fn reported(
        &self,
        current: S,
        unsettled: S,
        now: TimePoint,
    ) -> (S, Option<TimePoint>) {
        let (Some(began), Some(last)) = (self.began, &self.last) else {
            return (current, None);
        };
        let due = began.after(REPORTED_AFTER);
        let was_reported = |by: TimePoint| self.is_sure || due <= by;
        match self.ended {
            None if was_reported(now) => (last.clone(), None),
            None => (unsettled, Some(due)),
            Some(ended) => {
                let steady = ended.after(STEADY_AFTER);
                match self.is_flapping && was_reported(ended) && now < steady {
                    true => (last.clone(), Some(steady)),
                    false => (current, None),
                }
            }
        }
    }
}

impl Outage<MemberState> {
    /// Notes the state of the member, and whether its probe fails.
    pub(super) fn note(&mut self, state: MemberState, is_sure: bool, now: TimePoint) {
        let is_failing = matches!(
            state,
            MemberState::Unreachable { .. } | MemberState::Unwatched { .. }
        );
        let failing = is_failing.then_some(|began| state.lasting_since(began));
        self.note_failing(failing, is_sure, now);
    }
}

impl Outage<Membership> {
    /// Notes whether the member takes part in the clusterset.
    pub(super) fn note(&mut self, membership: Membership, now: TimePoint) {
        let is_failing = matches!(membership, Membership::Failing(_));
        let failing = is_failing.then_some(|_| membership);
        self.note_failing(failing, false, now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::now;
    use crate::model::Failure;

    fn failing(since: TimePoint) -> MemberState {
        MemberState::Unreachable {
            failure: Failure::timeout(),
            since,
            observed: since,
        }
    }

    #[test]
    fn statuses_report_outages_that_last_and_steady_recoveries() {
        let start = now();
        // Seconds of the changes, failing first; then what is reported at which second, by the second since which it fails.
        for (is_sure, changes, reports) in [
            (false, &[0, 3][..], &[(1, None), (4, None), (20, None)][..]),
            (false, &[0, 20], &[(9, None), (10, Some(0)), (20, None)]),
            (true, &[0, 20], &[(0, Some(0)), (20, None)]),
            (
                false,
                &[0, 3, 6, 9, 12, 15],
                &[(13, Some(0)), (16, Some(0)), (44, Some(0)), (45, None)],
            ),
            (false, &[0, 12, 60], &[(61, None), (70, Some(60))]),
        ] {
            for (second, expected) in reports {
                let at = |second: u64| start.after(Duration::from_secs(second));
                let mut outage = Outage::<MemberState>::default();
                let mut state = MemberState::Synced;
                for (number, change) in changes.iter().enumerate().filter(|(_, at)| *at <= second) {
                    state = match number % 2 {
                        0 => failing(at(*change)),
                        _ => MemberState::Synced,
                    };
                    outage.note(state.clone(), is_sure, at(*change));
                }
                let (reported, _) = outage.reported(state, MemberState::Syncing, at(*second));
                let since = match reported {
                    MemberState::Unreachable { since, .. } => Some(since),
                    _ => None,
                };
                let expected = expected.map(at);
                assert_eq!(since, expected, "{changes:?} at {second}");
            }
        }
    }
}
