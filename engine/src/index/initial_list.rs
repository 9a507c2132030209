//! What the first lists of a process are compared with. A process that has just started has seen nothing go; but the copies in
//! the consumers say which sources they were made from, and what of theirs is missing from a first list may be missing from that
//! list alone.
//!
//! A provider that lacks much of what the copies say, or all of it, is taken for unknown until its lists hold it, or a second
//! list says so too. A cluster that copies name and the hub's first list lacks is unknown likewise, for a Cluster does not go
//! unseen; and where members hold much of which the hub shows no MultiClusterService, none of it is collected before.

use std::collections::HashSet;

use causeway::domain::{ClusterName, ServiceKey};
use k8s_openapi::jiff::SignedDuration;
use string_cache::DefaultAtom;

use self::recorded_sources::{Heard, RecordedByProvider, RecordedSources, hash};
use super::Index;
use super::member::Member;
use crate::evidence::is_much;
use crate::model::slice::{Path, SourceVersion};
use crate::model::{Item, Lane, Priority, TimePoint};

pub(super) mod recorded_sources;

/// How far the clock of the person who says something may be ahead.
const CLOCKS_DIFFER: SignedDuration = SignedDuration::from_mins(1);

impl Member {
    /// What its copies say, those of one cluster or all.
    fn told(&self, hub: &str, only: Option<&ClusterName>) -> RecordedByProvider {
        let mut told = RecordedByProvider::new();
        for (key, copy) in self.all_copies().filter(|(_, copy)| *copy.hub == *hub) {
            let Some(source) = &copy.source_cluster else {
                continue;
            };
            if only.is_some_and(|only| *only.as_str() != **source) {
                continue;
            }
            let recorded = told.entry(source.clone()).or_default();
            recorded
                .sources
                .extend(copy.source.as_ref().map(|version| hash(&version.uid)));
            if copy.path == Path::Clusterset {
                recorded.exports.push(hash(key));
            }
        }
        for recorded in told.values_mut() {
            for hashes in [&mut recorded.sources, &mut recorded.exports] {
                hashes.sort_unstable();
                hashes.dedup();
                hashes.shrink_to_fit();
            }
        }
        told
    }
}

impl Index {
    /// Lanes whose API servers are to be listed a second time; those since the last call.
    pub fn take_second_lists(&mut self) -> HashSet<Lane> {
        std::mem::take(&mut self.second_lists)
    }

    /// A copy was made from a newer version of a provider's slice than the provider shows: either this index is behind, or the
    /// provider's store was restored. A second list tells.
    pub fn suspect_rollback(
        &mut self,
        provider: &ClusterName,
        key: &ServiceKey,
        copied: &SourceVersion,
        now: TimePoint,
    ) {
        let Some(member) = self.members.get_mut(provider) else {
            return;
        };
        if member.suspect_rollback(key, copied, now) {
            tracing::warn!(cluster = %provider, service = %key, source = %copied, "source slice is older than a copy of it; relisting");
            self.second_lists.insert(Lane::Member(provider.clone()));
        }
    }

    /// Whether a person said that all that the member's lists lack is gone. What is said of the future is not heard: it would hold
    /// for losses that nobody has seen.
    pub fn is_released(&self, name: &ClusterName, now: TimePoint) -> bool {
        let said = self
            .hub
            .clusters
            .get(name)
            .and_then(|cluster| cluster.released);
        let held = self.members.get(name).and_then(Member::held_since);
        match (said, held) {
            (Some(said), Some(held)) => {
                held.wall <= said && said.duration_since(now.wall) <= CLOCKS_DIFFER
            }
            _ => false,
        }
    }

    /// The member's lists are about to come anew, from watches that remember nothing: they are compared with the copies.
    pub fn await_lists(&mut self, name: &ClusterName) {
        let Some(member) = self.members.get_mut(name) else {
            return;
        };
        let suspected = member.drop_suspected_rollbacks();
        let has_listed = member.doubt_lists();
        self.mark_services(suspected, Priority::Low);
        if !has_listed {
            return;
        }
        for member in self.members.values_mut() {
            let told = member.told(&self.hub.uid, Some(name));
            member.told.extend(told);
        }
    }

    /// A member told a complete list: what it holds is compared with what others say, and the other way round.
    pub(super) fn compare_member(&mut self, name: &ClusterName, heard: Heard, now: TimePoint) {
        if heard == Heard::Slices
            && let Some(member) = self.members.get_mut(name)
        {
            member.told = member.told(&self.hub.uid, None);
            let sources: Vec<_> = member.told.keys().cloned().collect();
            let untraced = self.untraced(name);
            for atom in sources {
                let Ok(source) = ClusterName::try_from(&*atom) else {
                    continue;
                };
                if source != *name {
                    self.judge_cluster(&source);
                }
                if untraced.contains(&atom) {
                    self.judge_member(&source, now);
                } else if let Some(member) = self.members.get_mut(name) {
                    member.told.remove(&atom);
                }
            }
        }
        self.judge_member(name, now);
        if heard != Heard::Exports {
            self.judge_leftovers(name);
        }
    }

    /// The providers of a member's copies that lack the source of any of them, or were not heard yet.
    fn untraced(&self, name: &ClusterName) -> HashSet<DefaultAtom> {
        let mut untraced = HashSet::new();
        let copies = self.members.get(name).into_iter();
        let copies = copies.flat_map(Member::all_copies);
        for (key, copy) in copies.filter(|(_, copy)| *copy.hub == *self.hub.uid) {
            let Some(atom) = copy.source_cluster.as_ref() else {
                continue;
            };
            let provider = self.members.get(&**atom);
            let is_traced = provider.is_some_and(|provider| {
                let is_source = |version: &SourceVersion| {
                    let mut sources = provider.sources(key);
                    sources.any(|(_, source)| source.version.uid == version.uid)
                };
                provider.is_compared()
                    && copy.source.as_ref().is_none_or(is_source)
                    && (copy.path == Path::Native || provider.written_export(key).is_some())
            });
            if !is_traced && !untraced.contains(atom) {
                untraced.insert(atom.clone());
            }
        }
        untraced
    }

    /// The hub told a complete list.
    pub(super) fn compare_hub(&mut self, heard: Heard) {
        let before = self.hub.doubts.clusters.len();
        if self.hub.clusters_are_confirmed() {
            self.hub.doubts.clusters.clear();
        }
        let clusters = &self.hub.clusters;
        self.hub
            .doubts
            .clusters
            .retain(|name| !clusters.contains_key(name));
        if self.hub.doubts.clusters.len() != before {
            self.mark_all_services();
        }
        if matches!(heard, Heard::MultiClusterServices | Heard::Confirmation) {
            let names: Vec<_> = self.members.keys().cloned().collect();
            names.iter().for_each(|name| self.judge_leftovers(name));
        }
        if heard != Heard::Confirmation && self.hub.lacks_services() {
            self.second_lists.insert(Lane::Hub);
        }
    }

    /// Whether what a provider's lists lack of what the copies say is so much that it is not believed.
    fn judge_member(&mut self, name: &ClusterName, now: TimePoint) {
        let Some(member) = self.members.get(name) else {
            return;
        };
        let atom = DefaultAtom::from(name.as_str());
        let told: Vec<_> = self
            .members
            .values()
            .filter_map(|other| other.told.get(&atom))
            .collect();
        let missing = |holds: Option<HashSet<u64>>, of: fn(&RecordedSources) -> &[u64]| {
            let holds = holds?;
            let each = told
                .iter()
                .map(|told| RecordedSources::missing(of(told), &holds));
            each.max()
        };
        let (sources, exports) = match told.is_empty() {
            true => (None, None),
            false => (member.untried_sources(), member.untried_exports()),
        };
        let is_compared = member.is_compared();
        let sources = missing(sources, |told| &told.sources);
        let exports = missing(exports, |told| &told.exports);
        let missing = sources.unwrap_or_default() + exports.unwrap_or_default();
        let before = member.missing();
        if missing > 0 {
            self.second_lists.insert(Lane::Member(name.clone()));
        } else if is_compared {
            let all = self.members.values_mut();
            all.for_each(|other| drop(other.told.remove(&atom)));
        }
        if missing == before {
            return;
        }
        tracing::warn!(cluster = %name, missing, "what first lists lack of what copies in other members were made from changed");
        if let Some(member) = self.members.get_mut(name) {
            member.note_missing(missing, now);
        }
        self.mark(Item::Cluster(name.clone()));
        self.mark_all_services();
    }

    /// Whether the hub's list of Clusters lacks one that copies come from.
    fn judge_cluster(&mut self, name: &ClusterName) {
        let hub = &mut self.hub;
        if hub.clusters.contains_key(name) || hub.clusters_are_confirmed() || hub.saw_out(name) {
            return;
        }
        tracing::warn!(cluster = %name, "copies come from a cluster that the hub's first list lacks");
        hub.doubts.clusters.insert(name.clone());
        self.second_lists.insert(Lane::Hub);
    }

    /// Whether the hub's list of MultiClusterServices lacks many of which a member holds something.
    fn judge_leftovers(&mut self, name: &ClusterName) {
        let member = self.members.get(name);
        let Some(member) = member.filter(|member| member.has_listed_natives()) else {
            return;
        };
        let hub = &self.hub;
        let missing = match hub.multi_cluster_services_are_tried() {
            true => 0,
            false => {
                let owned = || member.own_keys(&hub.uid);
                let lacks =
                    |key: &ServiceKey| !hub.exposes(key) && member.owns_native(key, &hub.uid);
                let lacking: HashSet<_> = owned().filter(lacks).collect();
                let all = || owned().collect::<HashSet<_>>().len();
                match !lacking.is_empty() && is_much(lacking.len(), all()) {
                    true => lacking.len(),
                    false => 0,
                }
            }
        };
        let leftovers = &mut self.hub.doubts.leftovers;
        let before = leftovers.remove(name).unwrap_or_default();
        if missing > 0 {
            leftovers.insert(name.clone(), missing);
            self.second_lists.insert(Lane::Hub);
        }
        if missing != before {
            tracing::warn!(cluster = %name, missing, "services of which a member holds something and the hub's first list shows none changed");
            self.mark_all_services();
        }
    }
}

#[cfg(test)]
mod tests;
