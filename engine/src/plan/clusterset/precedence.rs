//! Precedence of exports that disagree: the oldest decides (KEP-1645, "Constraints and Conflict
//! Resolution").
//!
//! The cluster of an export reports its age, and may report it wrongly. An export therefore counts
//! from its creation, but from at most [`TOLERANCE`] before the hub first saw it, or from the
//! earliest time of another export that has counted for at most twice [`TOLERANCE`]. The hub writes
//! the resulting time on the export itself, in a condition of its own with a seal that only the hub
//! can make. A time that a cluster writes there itself is ignored. Causeway stores no record of its
//! own.

use causeway::api::condition;
use causeway::domain::{ClusterName, ServiceKey};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use serde_json::json;

use crate::observed::clusterset::ExportView;
use crate::seal::Seal;

/// Maximum time between the creation of an export and its first observation for the creation to
/// count. It covers silent watches, the replacement of a controller, and clocks that differ.
/// Exports first seen within it of each other are ordered by their creation.
const TOLERANCE: SignedDuration = SignedDuration::from_mins(5);

/// Position of an export among those of its service: the lowest decides; of two equal ones, the
/// export in the cluster with the first name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Precedence {
    /// Time from which the export counts.
    pub since: Timestamp,
    /// Time of creation, as its cluster reports it.
    pub created: Timestamp,
}

/// Export of a service, with its cluster.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Claim<'a> {
    /// Cluster of the export.
    pub cluster: &'a ClusterName,
    /// Exported service.
    pub key: &'a ServiceKey,
    /// The ServiceExport.
    pub export: &'a ExportView,
}

impl<'a> Claim<'a> {
    /// Returns the claim of the export in that cluster.
    pub(crate) fn new(
        cluster: &'a ClusterName,
        key: &'a ServiceKey,
        export: &'a ExportView,
    ) -> Self {
        Self {
            cluster,
            key,
            export,
        }
    }

    /// Returns the time of creation, as its cluster reports it. An export without one is the
    /// youngest.
    pub(crate) fn created(&self) -> Timestamp {
        self.export.created.unwrap_or(Timestamp::MAX)
    }

    /// Returns the time from which the export counts, if this hub has sealed one on it.
    pub(crate) fn since(&self, seal: &Seal, hub: &str) -> Option<Timestamp> {
        let mut conditions = self.export.conditions.iter();
        let written = conditions.find(|one| is_precedence(one, hub))?;
        let since = written.last_transition_time.0;
        let (_, found) = written.message.split_once(SEAL)?;
        seal.is_on(&self.statement(since), found).then_some(since)
    }

    /// Seals the time from which the export counts.
    fn seal(&self, seal: &Seal, since: Timestamp) -> SealedTime {
        let seal = seal.put_on(&self.statement(since));
        SealedTime { since, seal }
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

/// Time from which an export counts, as the hub writes it on the export.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SealedTime {
    /// Time of the condition.
    pub since: Timestamp,
    /// Seal of the hub, at the end of the condition's message.
    pub seal: String,
}

/// Text before the seal in the condition's message.
pub(crate) const SEAL: &str = "; seal ";

fn is_precedence(condition: &Condition, hub: &str) -> bool {
    condition.type_.strip_prefix(hub) == Some(condition::PRECEDENCE_SUFFIX)
}

/// Replaces the precedence condition of this hub by `written`; `None` removes it.
pub(crate) fn put(written: Option<Condition>, hub: &str, conditions: &mut Vec<Condition>) {
    conditions.retain(|one| !is_precedence(one, hub));
    conditions.extend(written);
}

/// Returns the precedence of each export of a service, in the order of `claims`, and the time to
/// write on an export without a valid one. Without a seal no time is written.
pub(crate) fn places(
    claims: &[Claim<'_>],
    seal: Option<&Seal>,
    hub: &str,
    now: Timestamp,
) -> Vec<(Precedence, Option<SealedTime>)> {
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
        let written = seal.map(|seal| claim.seal(seal, since));
        (Precedence { since, created }, written)
    };
    all.map(place).collect()
}

/// Returns the earliest time from which an export may count that is first seen now, given the
/// `known` times of the others.
fn earliest(known: impl Iterator<Item = Timestamp>, now: Timestamp) -> Timestamp {
    let before = |time: Timestamp| time.saturating_sub(TOLERANCE).unwrap_or(Timestamp::MIN);
    let reach = before(now);
    let seen_lately = known.filter(|since| *since >= before(reach));
    seen_lately.fold(reach, Timestamp::min)
}

#[cfg(test)]
mod tests;
