//! Evidence that the lists of one watch give.

use crate::model::{Failure, FailureKind, Signal, Term, TimePoint};

/// Lists of one watch: whether the objects that they lack are deleted, and how many of those
/// deletions are suspended.
///
/// | state | a list is accepted | a second list is accepted | another watch begins |
/// | --- | --- | --- | --- |
/// | `Unlisted` | `Unconfirmed` | | `Unlisted` |
/// | `Outlived` | `Unconfirmed` | | `Outlived` |
/// | `Unconfirmed` | `Unconfirmed` | `Confirmed` | `Outlived` |
/// | `Confirmed` | `Confirmed` | `Confirmed` | `Outlived` |
#[derive(Debug, Default)]
pub(crate) struct ListEvidence {
    state: ListState,
    suspended: SuspendedDeletions,
    /// Term in which the last list began, if it began as that of a new leader.
    pub term: Term,
    /// Failure of the watch, while it fails.
    pub failure: Option<Failure>,
    /// Time of the last change between a watch that fails and one that works.
    turned: Option<TimePoint>,
}

/// State of the lists of a watch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum ListState {
    /// No complete list was observed: no absence is known.
    #[default]
    Unlisted,
    /// The lists are of an earlier watch. Their content still counts; the next list is an initial
    /// one.
    Outlived,
    /// One list of this watch, and its events. Recorded sources that it lacks are suspected
    /// deletions.
    Unconfirmed,
    /// A second list of this watch confirmed the first.
    Confirmed,
}

impl ListEvidence {
    /// Whether a complete list was observed, also by an earlier watch.
    pub(crate) fn is_listed(&self) -> bool {
        self.state != ListState::Unlisted
    }

    /// Whether a complete list of the current watch was observed.
    pub(crate) fn is_current(&self) -> bool {
        matches!(self.state, ListState::Unconfirmed | ListState::Confirmed)
    }

    /// Whether only the initial list of this watch shows what is absent.
    pub(crate) fn is_unconfirmed(&self) -> bool {
        self.state == ListState::Unconfirmed
    }

    /// Whether a second list of this watch confirmed the first.
    pub(crate) fn is_confirmed(&self) -> bool {
        self.state == ListState::Confirmed
    }

    /// Returns the failure of the watch if only a person can end it. Other failures pass, or are
    /// those of the member.
    pub(crate) fn lasting_failure(&self) -> Option<&Failure> {
        let failure = self.failure.as_ref();
        failure.filter(|failure| failure.kind == FailureKind::Forbidden)
    }

    /// Returns the time since which the watch fails.
    pub(crate) fn failing_since(&self) -> Option<TimePoint> {
        self.turned.filter(|_| self.failure.is_some())
    }

    /// Returns the time since which the watch works, if it has failed before.
    pub(crate) fn recovered_at(&self) -> Option<TimePoint> {
        self.turned.filter(|_| self.failure.is_none())
    }

    /// Returns the deletions that its relists suggest and that are suspended.
    pub(crate) fn suspended(&self) -> SuspendedDeletions {
        self.suspended
    }

    /// Returns the evidence of another watch that takes over a part of the objects. What this one
    /// observed of that part still counts.
    pub(crate) fn part(&self) -> Self {
        let mut part = Self {
            state: self.state,
            ..Self::default()
        };
        part.expect_initial_list();
        part
    }

    /// Begins another watch, which has observed nothing.
    pub(crate) fn expect_initial_list(&mut self) {
        if self.is_listed() {
            self.state = ListState::Outlived;
        }
    }

    /// Applies the watch's report of its own state.
    pub(crate) fn observe<K>(&mut self, signal: &Signal<K>, now: TimePoint) {
        match signal {
            Signal::Listed(_) => {
                if self.state != ListState::Confirmed {
                    self.state = ListState::Unconfirmed;
                }
                self.suspended = SuspendedDeletions::default();
            }
            Signal::Confirmed if self.is_current() => self.state = ListState::Confirmed,
            Signal::Current(term) => self.term = *term,
            Signal::DeletionsSuspended(missing) => self.suspended.observe(*missing, now),
            Signal::Connected => {
                if self.failure.take().is_some() {
                    self.turned = Some(now);
                }
            }
            Signal::Failed(failure) => {
                if self.failure.is_none() {
                    self.turned = Some(now);
                }
                failure.clone().note(&mut self.failure);
            }
            Signal::Confirmed | Signal::Applied(_) | Signal::Deleted(_) => {}
        }
    }
}

/// Deletions that do not count before a second list, or a person, confirms them.
#[derive(Clone, Copy, Debug, Default)]
pub struct SuspendedDeletions {
    /// Number of objects.
    pub count: usize,
    /// Time since which they are as many. A person who confirms them has to have seen them all.
    pub since: Option<TimePoint>,
}

impl SuspendedDeletions {
    /// Notes the number of deletions that are suspended now.
    pub fn observe(&mut self, count: usize, now: TimePoint) {
        if count > self.count {
            self.since = Some(now);
        }
        self.count = count;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::now;

    #[test]
    fn a_list_is_confirmed_by_a_second_one_of_the_same_watch() {
        let mut evidence = ListEvidence::default();
        let now = now();
        let listed = |evidence: &mut ListEvidence| {
            evidence.observe(&Signal::Listed(Vec::<()>::new()), now);
        };
        let confirmed =
            |evidence: &mut ListEvidence| evidence.observe(&Signal::<()>::Confirmed, now);
        let begun = ListEvidence::expect_initial_list;
        for (step, after) in [
            (&begun as &dyn Fn(&mut ListEvidence), ListState::Unlisted),
            (&confirmed, ListState::Unlisted),
            (&listed, ListState::Unconfirmed),
            (&listed, ListState::Unconfirmed),
            (&confirmed, ListState::Confirmed),
            (&listed, ListState::Confirmed),
            (&begun, ListState::Outlived),
            (&confirmed, ListState::Outlived),
            (&listed, ListState::Unconfirmed),
            (&begun, ListState::Outlived),
        ] {
            step(&mut evidence);
            assert_eq!(evidence.state, after);
        }
    }

    #[test]
    fn deletions_are_suspended_since_there_were_as_many() {
        let mut evidence = ListEvidence::default();
        let (first, second) = (now(), now().after(std::time::Duration::from_secs(1)));
        for (missing, at, since) in [
            (12, first, first),
            (11, second, first),
            (13, second, second),
        ] {
            evidence.observe(&Signal::<()>::DeletionsSuspended(missing), at);
            let suspended = evidence.suspended();
            assert_eq!((suspended.count, suspended.since), (missing, Some(since)));
        }
        evidence.observe(&Signal::Listed(Vec::<()>::new()), second);
        assert_eq!(evidence.suspended().since, None);
    }
}
