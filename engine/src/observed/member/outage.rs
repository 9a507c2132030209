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
/// Time after a failure within which another one makes a member flapping. A flapping member is
/// reported as restored this long after its last failure, at the earliest. So statuses change at
/// most four times in this time, however often a connection breaks, and an outage that lasts longer
/// is over at once.
const STEADY_AFTER: Duration = Duration::from_secs(30);

/// Last outage of a member, or of its clusterset's API, with those that followed it closely. `S` is
/// the state while it fails.
#[derive(Debug)]
pub(super) struct Outage<S> {
    began: Option<TimePoint>,
    /// Time of the last failure that followed a recovery, or of the first one.
    failed: Option<TimePoint>,
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
            failed: None,
            ended: None,
            is_flapping: false,
            is_sure: false,
            last: None,
        }
    }
}

impl<S: Clone> Outage<S> {
    /// Notes the state if it is a failing one. `failing` returns it for the last failing state of
    /// the same outage; `is_sure` reports it at once.
    pub(super) fn note_failing(
        &mut self,
        failing: Option<impl FnOnce(Option<S>) -> S>,
        is_sure: bool,
        now: TimePoint,
    ) {
        let Some(failing) = failing else {
            if self.began.is_some() {
                self.ended.get_or_insert(now);
            }
            return;
        };
        if self.ended.take().is_some() {
            let last = self.failed.replace(now);
            match last.is_some_and(|last| now.since(last) < STEADY_AFTER) {
                true => self.is_flapping = true,
                false => *self = Self::default(),
            }
        }
        self.failed.get_or_insert(now);
        self.began.get_or_insert(now);
        self.is_sure |= is_sure;
        self.last = Some(failing(self.last.take()));
    }

    /// Returns the state that statuses report at that time, and the time at which it changes
    /// without an event. `unsettled` leaves a status as it is.
    pub(super) fn reported(
        &self,
        current: S,
        unsettled: S,
        now: TimePoint,
    ) -> (S, Option<TimePoint>) {
        let (Some(began), Some(failed), Some(last)) = (self.began, self.failed, &self.last) else {
            return (current, None);
        };
        let due = began.after(REPORTED_AFTER);
        let was_reported = |by: TimePoint| self.is_sure || due <= by;
        match self.ended {
            None if was_reported(now) => (last.clone(), None),
            None => (unsettled, Some(due)),
            Some(ended) => {
                let steady = failed.after(STEADY_AFTER);
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
        let failing = is_failing.then_some(|before| state.continuing(before));
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

    /// Plays changes at these seconds, failing first, up to a second. Returns the second since
    /// which the member is reported as failing then.
    fn reported_since(is_sure: bool, changes: &[u64], second: u64) -> Option<u64> {
        let start = now();
        let at = |second: u64| start.after(Duration::from_secs(second));
        let mut outage = Outage::<MemberState>::default();
        let mut state = MemberState::Synced;
        for (number, change) in changes.iter().enumerate().filter(|(_, at)| **at <= second) {
            state = match number % 2 {
                0 => failing(at(*change)),
                _ => MemberState::Synced,
            };
            outage.note(state.clone(), is_sure, at(*change));
        }
        match outage.reported(state, MemberState::Syncing, at(second)).0 {
            MemberState::Unreachable { since, .. } => Some(since.since(start).as_secs()),
            _ => None,
        }
    }

    #[test]
    fn statuses_report_outages_that_last_and_steady_recoveries() {
        // Seconds of the changes, failing first; then the second since which the member is reported
        // as failing, by second.
        for (is_sure, changes, reports) in [
            (false, &[0, 3][..], &[(1, None), (4, None), (20, None)][..]),
            (false, &[0, 20], &[(9, None), (10, Some(0)), (20, None)]),
            (true, &[0, 20], &[(0, Some(0)), (20, None)]),
            (
                false,
                &[0, 3, 6, 9, 12, 15],
                &[(13, Some(0)), (16, Some(0)), (41, Some(0)), (42, None)],
            ),
            (false, &[0, 12, 60], &[(61, None), (70, Some(60))]),
            // A cut of half a minute soon after a short one is over with its end.
            (
                true,
                &[0, 5, 10, 40],
                &[(6, None), (10, Some(0)), (39, Some(0)), (40, None)],
            ),
            (
                true,
                &[0, 5, 10, 20],
                &[(20, Some(0)), (39, Some(0)), (40, None)],
            ),
            // A watch that breaks once more after a long outage is an outage of its own.
            (
                false,
                &[0, 40, 41, 43],
                &[(40, None), (42, None), (44, None)],
            ),
            (
                true,
                &[0, 40, 41, 43],
                &[(40, None), (41, Some(41)), (43, None)],
            ),
            (
                true,
                &[0, 29, 30, 31],
                &[(29, None), (30, Some(30)), (31, None)],
            ),
            (
                true,
                &[0, 28, 29, 31],
                &[(29, Some(0)), (58, Some(0)), (59, None)],
            ),
        ] {
            for (second, expected) in reports {
                let reported = reported_since(is_sure, changes, *second);
                assert_eq!(reported, *expected, "{changes:?} at {second}");
            }
        }
    }

    #[test]
    fn statuses_change_rarely_however_a_connection_flaps() {
        const LASTING: u64 = 300;
        for (is_sure, fails_for, answers_for, most) in [
            (false, 1, 1, 4),
            (true, 1, 1, 4),
            (true, 3, 3, 4),
            (true, 1, 28, 4),
            (true, 28, 1, 4),
            (true, 14, 15, 4),
            (true, 15, 15, 20),
            (true, 29, 1, 20),
            (true, 1, 30, 20),
        ] {
            let period = fails_for + answers_for;
            let starts = (0..LASTING / period).map(|number| number * period);
            let changes: Vec<_> = starts.flat_map(|at| [at, at + fails_for]).collect();
            let reports = (0..LASTING).map(|second| reported_since(is_sure, &changes, second));
            let reports: Vec<_> = reports.map(|since| since.is_some()).collect();
            let count = 1 + reports.windows(2).filter(|two| two[0] != two[1]).count();
            assert!(count <= most, "{fails_for} {answers_for}: {count}");
        }
    }
}
