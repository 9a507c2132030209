//! State of a member.

use std::time::Duration;

use causeway::domain::Unreachable;

use super::time_point::TimePoint;

/// State of a member, as far as planning needs it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MemberState {
    /// All its lists are complete and its watches are connected.
    Synced,
    /// Its initial lists are not complete.
    Syncing,
    /// The member does not answer: its probe or the watch of its EndpointSlices fails.
    Unreachable {
        /// Start of the outage: an earlier process may have recorded it in the Cluster's status.
        since: TimePoint,
        /// Time since which this process has observed the outage.
        observed: TimePoint,
        /// Reason, in short.
        why: String,
    },
    /// The member answers, and another of its watches fails. Nothing is written to it; its
    /// endpoints are used.
    Unwatched {
        /// Start of the failure.
        since: TimePoint,
        /// Kind whose watch fails, and the reason.
        why: String,
    },
    /// The member cannot be used until a person changes something.
    Refused(String),
    /// The member takes no part, and nothing waits for it.
    LeftOut(String),
    /// No Cluster object has the name.
    NotJoined,
}

impl MemberState {
    /// Returns the same state with an outage that began at `since` or earlier.
    pub fn lasting_since(mut self, since: TimePoint) -> Self {
        if let Self::Unreachable { since: own, .. } | Self::Unwatched { since: own, .. } = &mut self
        {
            *own = since.min(*own);
        }
        self
    }

    /// Returns when the member has been unreachable for `patience`; `None` if it is not
    /// unreachable.
    ///
    /// The outage that an earlier process recorded counts. This process observes it for a minute in
    /// any case: the member may have answered while no process ran.
    pub fn unreachable_for(&self, patience: Duration) -> Option<TimePoint> {
        let Self::Unreachable {
            since, observed, ..
        } = self
        else {
            return None;
        };
        let confirmed = observed.after(patience.min(Unreachable::WITHDRAW_AFTER_MIN));
        Some(since.after(patience).max(confirmed))
    }
}
