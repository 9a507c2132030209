//! Removal of a member: causeway first cleans it, if it can in time, and reports what may be left.

use std::collections::BTreeSet;
use std::time::Duration;

use causeway::api::condition;
use causeway::domain::{ClusterName, ServiceKey};

use crate::model::{MemberState, TimePoint};
use crate::observed::Index;
use crate::plan::clusterset::exports::is_by_person;
use crate::reasons::Reason;

/// Maximum time of the cleanup of a removed member.
const CLEANUP_AT_MOST: Duration = Duration::from_secs(30);
/// Time after which the removal is checked again while deletions are withheld.
const WITHHELD: Duration = Duration::from_secs(5);

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
    let until = begun.map(|begun| index.deletes_since(begun).after(CLEANUP_AT_MOST));
    // A new leader deletes nothing before it has listed the hub.
    let is_withheld = begun.is_some() && !index.is_hub_current();
    let withheld_until = is_withheld.then(|| now.after(WITHHELD));
    match until.max(withheld_until).filter(|until| now < *until) {
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

/// Whether a member has exports whose status does not report its removal yet.
fn has_unreported_removal(index: &Index, name: &ClusterName) -> bool {
    let member = index.member(name);
    let member = member.filter(|member| member.exports_followed().is_some());
    let Some(member) = member else {
        return false;
    };
    let exports = member
        .clusterset_keys()
        .filter_map(|key| member.export(key));
    let mut exports = exports.filter(|export| is_by_person(export, index.hub_uid()));
    exports.any(|export| {
        let ready = condition::find(&export.conditions, condition::READY);
        ready.is_none_or(|ready| ready.reason != Reason::NotJoined)
    })
}
