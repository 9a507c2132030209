//! How a member stands.

use super::time_point::TimePoint;

/// How a member stands, as far as planning is concerned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MemberState {
    /// All its lists were seen and its watches are connected.
    Synced,
    /// Its initial lists are not complete.
    Syncing,
    /// It does not answer.
    Unreachable {
        /// Since when.
        since: TimePoint,
        /// Why, shortly.
        why: String,
    },
    /// It cannot be used until a person changes something.
    Refused(String),
    /// It takes no part, and nothing waits for it.
    LeftOut(String),
    /// No Cluster object bears the name.
    NotJoined,
}
