//! Removal of a member: causeway first cleans it, if it can in time, and reports what may be left.

use std::collections::BTreeSet;
use std::time::Duration;

use causeway::domain::{ClusterName, ServiceKey};

use crate::model::{MemberState, TimePoint};
use crate::observed::Index;
use crate::status::exports::has_unreported_removal;

/// Maximum time of the cleanup of a removed member.
const CLEANUP_AT_MOST: Duration = Duration::from_secs(30);

/// Progress of the removal of a member.
#[derive(Debug, PartialEq, Eq)]
pub enum Removal {
    /// The member is being cleaned, or observed, until that time at most.
    UnderWay(TimePoint),
    /// The removal is complete.
    Over(Leftovers),
}

/// Objects that may be left in a removed member.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Leftovers {
    /// Services of which causeway observed objects that are left.
    pub services: Vec<ServiceKey>,
    /// State that prevented the check of the member, if any: more objects may be left.
    pub unchecked: Option<MemberState>,
}

/// Returns the progress of the removal of a member, which began at `since`. The member has time to
/// be cleaned, for the status of its exports to report the removal, and to become reachable if it
/// has just been lost or has not been observed yet.
pub fn removal(index: &Index, name: &ClusterName, since: TimePoint, now: TimePoint) -> Removal {
    let own = index.member(name).into_iter();
    let own: BTreeSet<_> = own
        .flat_map(|member| member.own_keys(index.hub_uid()))
        .collect();
    let state = index.member_state(name);
    let begun = match &state {
        MemberState::Synced if own.is_empty() && !has_unreported_removal(index, name) => None,
        MemberState::Synced | MemberState::Syncing => Some(since),
        // One that has been out of reach for as long is not waited for.
        MemberState::Unreachable { observed: lost, .. }
        | MemberState::Unwatched { since: lost, .. } => Some(since.min(*lost)),
        MemberState::Refused(_) | MemberState::LeftOut(_) | MemberState::NotJoined => None,
    };
    let until = begun.map(|begun| begun.after(CLEANUP_AT_MOST));
    match until.filter(|until| now < *until) {
        Some(until) => Removal::UnderWay(until),
        None => Removal::Over(Leftovers {
            services: own.into_iter().collect(),
            unchecked: match state {
                MemberState::Synced | MemberState::LeftOut(_) | MemberState::NotJoined => None,
                unchecked => Some(unchecked),
            },
        }),
    }
}
