//! How a member leaves: it is cleaned first, if that can be done in time, and what is left in it is named.

use std::collections::BTreeSet;
use std::time::Duration;

use causeway::domain::{ClusterName, ServiceKey};

use crate::index::Index;
use crate::model::{MemberState, TimePoint};
use crate::plan::clusterset::conditions::has_unreported_removal;

/// How long the clean-up of a member that leaves may take.
const LEAVING_AT_MOST: Duration = Duration::from_secs(30);

/// So many services are named.
const NAMED_AT_MOST: usize = 10;

/// How far a member that leaves has come.
#[derive(Debug, PartialEq, Eq)]
pub enum Removal {
    /// It is to be cleaned, or to be observed, until then at most.
    UnderWay(TimePoint),
    /// It may go.
    Over(Leftovers),
}

/// What may be left in a member that is gone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Leftovers {
    /// Services of which something is known to be left.
    pub services: Vec<ServiceKey>,
    /// Why it could not be looked at any more, if so: there may be more.
    pub unseen: Option<String>,
}

/// Says how far a member has come that leaves `since` then. It is given time to be cleaned, for its exports to say so, and, if it has just been lost or
/// has not been observed yet, to come back.
pub fn removal(index: &Index, name: &ClusterName, since: TimePoint, now: TimePoint) -> Removal {
    let own = index.members.get(name).into_iter();
    let own: BTreeSet<_> = own
        .flat_map(|member| member.own_keys(&index.hub.uid))
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
    let until = begun.map(|begun| begun.after(LEAVING_AT_MOST));
    match until.filter(|until| now < *until) {
        Some(until) => Removal::UnderWay(until),
        None => Removal::Over(Leftovers {
            services: own.into_iter().collect(),
            unseen: unseen(state),
        }),
    }
}

fn unseen(state: MemberState) -> Option<String> {
    match state {
        MemberState::Syncing => Some("it did not answer in time".to_owned()),
        MemberState::Unreachable { since, why, .. } => {
            Some(format!("unreachable since {since:.0}: {why}"))
        }
        MemberState::Unwatched { since, why } => {
            Some(format!("not watched since {since:.0}: {why}"))
        }
        MemberState::Refused(why) => Some(why),
        MemberState::Synced | MemberState::LeftOut(_) | MemberState::NotJoined => None,
    }
}

impl Leftovers {
    /// The message about them; nothing where the member is clean.
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
        let what = match (what.as_slice(), &self.unseen) {
            ([], None) => return None,
            ([], Some(_)) => "what causeway wrote there".to_owned(),
            (names, _) => format!("what causeway wrote there for {}", names.join(", ")),
        };
        let why = self.unseen.as_ref().map(|why| format!(" ({why})"));
        Some(format!(
            "{name} left before it was cleaned{}; {what} is left in it: join it and unjoin it again, or run there: kubectl delete \
             services,endpointslices -A -l {}={hub}, and the same of serviceexports,serviceimports if it serves them",
            why.unwrap_or_default(),
            causeway::api::labels::HUB
        ))
    }
}
