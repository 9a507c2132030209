//! How a member stands.

use std::time::Duration;

use causeway::domain::Unreachable;

use super::time_point::TimePoint;

/// How a member stands, as far as planning is concerned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MemberState {
    /// All its lists were seen and its watches are connected.
    Synced,
    /// Its initial lists are not complete.
    Syncing,
    /// It does not answer: its probe or the watch of its EndpointSlices fails.
    Unreachable {
        /// Since when: an earlier process may have recorded it in the Cluster's status.
        since: TimePoint,
        /// Since when this process has observed it.
        observed: TimePoint,
        /// Why, shortly.
        why: String,
    },
    /// It answers, and another of its watches fails. Nothing is written to it; what it provides is used.
    Unwatched {
        /// Since when.
        since: TimePoint,
        /// Which kind, and why.
        why: String,
    },
    /// It cannot be used until a person changes something.
    Refused(String),
    /// It takes no part, and nothing waits for it.
    LeftOut(String),
    /// No Cluster object bears the name.
    NotJoined,
}

impl MemberState {
    /// Returns the same state; a failing one has lasted at least since then.
    pub fn lasting_since(mut self, since: TimePoint) -> Self {
        if let Self::Unreachable { since: own, .. } | Self::Unwatched { since: own, .. } = &mut self
        {
            *own = since.min(*own);
        }
        self
    }

    /// Returns when the member has been unreachable for `patience`; `None` if it is not unreachable.
    ///
    /// The outage that an earlier process recorded counts. This process observes it for a minute in any case: the member may have
    /// answered while no process ran.
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
