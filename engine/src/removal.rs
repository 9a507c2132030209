//! Removal of a member: causeway first cleans it, if it can in time, and reports what may be left.

use std::collections::BTreeSet;
use std::time::Duration;

use causeway::domain::{ClusterName, ServiceKey};

use crate::messages;
use crate::model::{MemberState, TimePoint};
use crate::observed::Index;
use crate::status::exports::has_unreported_removal;

/// Maximum time of the cleanup of a removed member.
const CLEANUP_AT_MOST: Duration = Duration::from_secs(30);

/// Maximum number of services that a message names.
const NAMED_AT_MOST: usize = 10;

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
    /// Reason why the member could not be checked, if any: more objects may be left.
    pub unchecked: Option<String>,
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
            unchecked: messages::member::unchecked(&state),
        }),
    }
}

impl Leftovers {
    /// Returns the message about them; `None` if the member is clean.
    pub fn note(&self, name: &ClusterName, hub: &str) -> Option<String> {
        let mut what: Vec<_> = self
            .services
            .iter()
            .take(NAMED_AT_MOST)
            .map(ToString::to_string)
            .collect();
        let more = self.services.len().saturating_sub(NAMED_AT_MOST);
        if more > 0 {
            what.push(format!("{more} more"));
        }
        let what = match (what.as_slice(), &self.unchecked) {
            ([], None) => return None,
            ([], Some(_)) => "what causeway wrote there".to_owned(),
            (names, _) => format!("what causeway wrote there for {}", names.join(", ")),
        };
        let why = self.unchecked.as_ref().map(|why| format!(" ({why})"));
        Some(format!(
            "{name} left before it was cleaned{}; {what} is left in it: join it and unjoin it again, or run there: kubectl delete \
             services,endpointslices -A -l {}={hub}, and the same of serviceexports,serviceimports if it serves them",
            why.unwrap_or_default(),
            causeway::api::labels::HUB
        ))
    }
}
