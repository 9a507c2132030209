//! Which of the exports that disagree comes first (KEP-1645, "Constraints and Conflict Resolution": the oldest does).
//!
//! How old an export is, its own cluster says, and may say wrongly. So an export counts from its creation, but from no more than
//! [`TOLERANCE`] before it was first seen. Since when it counts is written on the export itself, in a condition of this hub's, with a seal
//! that nobody but the hub can make: what a cluster writes there by itself counts for nothing, and causeway keeps no record of its own.

use causeway::api::condition;
use causeway::domain::{ClusterName, ServiceKey};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use serde_json::json;

use crate::index::clusterset::ExportView;
use crate::seal::Seal;

/// How long before it is first seen an export may have been made, for its creation to count: the time of watches that were silent, of a
/// controller that was replaced, and by which clocks differ. Exports that are first seen within it of each other are put in order
/// by their creation.
const TOLERANCE: SignedDuration = SignedDuration::from_mins(5);

/// The place of an export among those of its service: the lowest decides; of two that are equal the one in the cluster whose name comes
/// first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Precedence {
    /// Since when it counts.
    pub since: Timestamp,
    /// When it was made, as its cluster says.
    pub created: Timestamp,
}

/// An export of a service, and in which cluster it is.
#[derive(Clone, Copy, Debug)]
pub struct Claim<'a> {
    /// The cluster.
    pub cluster: &'a ClusterName,
    /// The service.
    pub key: &'a ServiceKey,
    /// The export.
    pub export: &'a ExportView,
}

impl<'a> Claim<'a> {
    /// What the export in that cluster says of its age.
    pub fn new(cluster: &'a ClusterName, key: &'a ServiceKey, export: &'a ExportView) -> Self {
        Self {
            cluster,
            key,
            export,
        }
    }

    /// When it was made, as its cluster says; one that does not is the youngest.
    pub fn created(&self) -> Timestamp {
        self.export.created.unwrap_or(Timestamp::MAX)
    }

    /// Since when it counts, where this hub has written that on it.
    pub fn since(&self, seal: &Seal, hub: &str) -> Option<Timestamp> {
        let mut conditions = self.export.conditions.iter();
        let written = conditions.find(|one| is_precedence(one, hub))?;
        let since = written.last_transition_time.0;
        let (_, found) = written.message.split_once(SEAL)?;
        seal.is_on(&self.statement(since), found).then_some(since)
    }

    /// What is written on it where it counts since then.
    fn condition(&self, seal: &Seal, hub: &str, since: Timestamp) -> Condition {
        let sealed = seal.put_on(&self.statement(since));
        Condition {
            type_: format!("{hub}{}", condition::PRECEDENCE_SUFFIX),
            status: condition::TRUE.to_owned(),
            reason: condition::reason::FIRST_SEEN.to_owned(),
            message: format!(
                "where exports disagree, the one with the earliest lastTransitionTime of this condition decides, then the oldest{SEAL}{sealed}"
            ),
            observed_generation: None,
            last_transition_time: Time(since),
        }
    }

    fn statement(&self, since: Timestamp) -> String {
        let (key, created) = (self.key, self.created());
        let whose = [
            self.cluster.as_str(),
            &key.namespace,
            &key.name,
            &self.export.uid,
        ];
        // As JSON no part can hold what belongs to the next.
        json!([whose, created.as_second(), since.as_second()]).to_string()
    }
}

const SEAL: &str = "; seal ";

fn is_precedence(condition: &Condition, hub: &str) -> bool {
    condition.type_.strip_prefix(hub) == Some(condition::PRECEDENCE_SUFFIX)
}

/// Puts what this hub writes since when an export counts in the place of what it had written before; `None` takes that out.
pub fn put(written: Option<Condition>, hub: &str, conditions: &mut Vec<Condition>) {
    conditions.retain(|one| !is_precedence(one, hub));
    conditions.extend(written);
}

/// The places of all exports of a service, in their order, and of those that are first seen what is to be written on them.
pub fn places(
    claims: &[Claim<'_>],
    seal: Option<&Seal>,
    hub: &str,
    now: Timestamp,
) -> Vec<(Precedence, Option<Condition>)> {
    // Times on the wire have no fractions.
    let now = Timestamp::from_second(now.as_second()).unwrap_or(now);
    let latest = now.saturating_add(TOLERANCE).unwrap_or(Timestamp::MAX);
    let known = claims.iter().map(|claim| {
        // A time that has not come yet was written by a clock that was wrong.
        claim.since(seal?, hub).filter(|since| *since <= latest)
    });
    let known: Vec<_> = known.collect();
    let earliest = earliest(known.iter().flatten().copied(), now);
    let all = claims.iter().zip(known);
    let place = |(claim, known): (&Claim<'_>, Option<Timestamp>)| {
        let created = claim.created();
        let since = known.unwrap_or_else(|| created.clamp(earliest, now));
        let seal = seal.filter(|_| known.is_none());
        let written = seal.map(|seal| claim.condition(seal, hub, since));
        (Precedence { since, created }, written)
    };
    all.map(place).collect()
}

/// The earliest time since when an export may count that is first seen now, beside others of which that is known.
fn earliest(known: impl Iterator<Item = Timestamp>, now: Timestamp) -> Timestamp {
    let before = |time: Timestamp| time.saturating_sub(TOLERANCE).unwrap_or(Timestamp::MIN);
    let reach = before(now);
    let seen_lately = known.filter(|since| *since >= before(reach));
    seen_lately.fold(reach, Timestamp::min)
}

#[cfg(test)]
mod tests;
