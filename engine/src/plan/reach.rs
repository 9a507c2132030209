//! What becomes of the endpoints of a provider that cannot be reached, as a person said it. Nobody withdraws an endpoint for want of an
//! answer unless that was asked for.

use std::collections::BTreeSet;
use std::time::Duration;

use causeway::domain::{ClusterName, Unreachable};

use super::settings::Settings;
use crate::index::{Index, Unused};
use crate::model::TimePoint;

/// How long a provider is out of reach before its endpoints are standby endpoints, where that is asked for. One that falls silent is seen
/// to be so after two probes, within 30 s: together it is little more than a minute.
pub const STANDBY_AFTER: Duration = Duration::from_secs(40);

/// The providers of one service that cannot be reached, and what that means for it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reach {
    /// Those whose endpoints are standby endpoints.
    pub standby: BTreeSet<ClusterName>,
    /// Those whose endpoints are withdrawn.
    pub withdrawn: BTreeSet<ClusterName>,
    /// When time alone will change it.
    pub again_at: Option<TimePoint>,
}

impl Reach {
    /// What becomes of these providers; `answer` is what the service asks for, if it does. A headless Service has no proxy that could
    /// choose, and DNS shows ready endpoints alone: there standby would be a withdrawal.
    pub fn of<'a>(
        index: &Index,
        settings: &Settings,
        (answer, headless): (Option<Unreachable>, bool),
        providers: impl Iterator<Item = &'a ClusterName>,
        now: TimePoint,
    ) -> Self {
        let mut reach = Self::default();
        let asked = answer.unwrap_or(settings.unreachable);
        if asked == Unreachable::Keep || (headless && asked == Unreachable::Standby) {
            return reach;
        }
        for name in providers {
            let state = index.member_state(name);
            let (patience, out) = match asked {
                Unreachable::Keep => return reach,
                Unreachable::Standby => (settings.standby_after, &mut reach.standby),
                Unreachable::WithdrawAfter(patience) => (patience, &mut reach.withdrawn),
            };
            let Some(end) = state.unreachable_for(patience) else {
                continue;
            };
            if end <= now {
                out.insert(name.clone());
            } else {
                let sooner = |known: TimePoint| known.min(end);
                reach.again_at = Some(reach.again_at.map_or(end, sooner));
            }
        }
        reach
    }
}

/// Whether nothing that a provider gives is used, whatever a service asks for when providers cannot be reached: its answer counts
/// before `--provider-ttl`.
pub fn is_unused(index: &Index, answer: Option<Unreachable>, name: &ClusterName) -> bool {
    match index.unused(name) {
        None => false,
        Some(Unused::TtlExpired) => answer.is_none(),
        Some(_) => true,
    }
}
