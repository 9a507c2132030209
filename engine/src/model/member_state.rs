//! How a member stands.

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
        /// Since when.
        since: TimePoint,
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
    /// The same state, which has lasted since then if it is a failing one.
    pub fn since(self, since: TimePoint) -> Self {
        match self {
            Self::Unreachable { why, .. } => Self::Unreachable { since, why },
            Self::Unwatched { why, .. } => Self::Unwatched { since, why },
            other => other,
        }
    }
}
