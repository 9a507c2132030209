//! An initial list is compared with what is recorded elsewhere.
//!
//! A process that has just started has observed no deletion. But the copies in the consumers record which sources they were
//! made from. A source that an initial list lacks may be missing from that list alone.

use std::hash::{DefaultHasher, Hash, Hasher as _};

use string_cache::DefaultAtom;

use super::is_large_loss;
use crate::model::map::{HashMap, HashSet};
use crate::model::{HubEvent, MemberEvent, Signal};

/// What the copies of one consumer record of one cluster that they come from; everything by a hash.
#[derive(Debug, Default)]
pub struct RecordedSources {
    /// The UIDs of source slices.
    pub sources: Vec<u64>,
    /// The keys of exported services.
    pub exports: Vec<u64>,
}

/// What a member's copies record, by the cluster that they come from.
pub type RecordedByProvider = HashMap<DefaultAtom, RecordedSources>;

/// What a member's lists hold of what copies record; `None` where they are no initial lists.
#[derive(Debug)]
pub struct InitialLists {
    /// The UIDs of its source slices.
    pub sources: Option<HashSet<u64>>,
    /// The keys of the services that it exports.
    pub exports: Option<HashSet<u64>>,
}

impl RecordedSources {
    /// Sorts what was recorded, each once, in as little room as it takes.
    pub fn compact(&mut self) {
        for hashes in [&mut self.sources, &mut self.exports] {
            hashes.sort_unstable();
            hashes.dedup();
            hashes.shrink_to_fit();
        }
    }
}

impl InitialLists {
    /// How many deletions they suggest, where these are too many to count at once. The consumer that records most decides.
    pub fn suspected_deletions<'a>(
        &self,
        recorded: impl Iterator<Item = &'a RecordedSources> + Clone,
    ) -> usize {
        let most = |listed: &Option<HashSet<u64>>, of: fn(&RecordedSources) -> &[u64]| {
            let listed = listed.as_ref()?;
            let each = recorded
                .clone()
                .map(|recorded| suspected_deletions(of(recorded), listed));
            each.max()
        };
        let sources = most(&self.sources, |recorded| &recorded.sources);
        let exports = most(&self.exports, |recorded| &recorded.exports);
        sources.unwrap_or_default() + exports.unwrap_or_default()
    }
}

/// How many of these a list lacks; none where they are few and it holds others.
fn suspected_deletions(recorded: &[u64], listed: &HashSet<u64>) -> usize {
    let missing = recorded.iter().filter(|one| !listed.contains(one)).count();
    match missing > 0 && (listed.is_empty() || is_large_loss(missing, recorded.len())) {
        true => missing,
        false => 0,
    }
}

/// By what something is recorded.
pub fn hash(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

/// A complete list was accepted, or confirmed: what is compared after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompleteList {
    /// A member's EndpointSlices.
    Slices,
    /// Services.
    Services,
    /// A member's ServiceExports.
    Exports,
    /// The hub's MultiClusterServices.
    MultiClusterServices,
    /// The hub's Clusters.
    Clusters,
    /// A second list of any of them.
    Confirmation,
}

impl CompleteList {
    /// The list of a member that an event stands for, if it stands for one.
    pub fn of_member(event: &MemberEvent) -> Option<Self> {
        match event {
            MemberEvent::Slices(signal) => Self::of(signal, Self::Slices),
            MemberEvent::Services(signal) => Self::of(signal, Self::Services),
            MemberEvent::Exports(signal) => Self::of(signal, Self::Exports),
            _ => None,
        }
    }

    /// The list of the hub that an event stands for, if it stands for one.
    pub fn of_hub(event: &HubEvent) -> Option<Self> {
        match event {
            HubEvent::MultiClusterServices(signal) => Self::of(signal, Self::MultiClusterServices),
            HubEvent::Services(signal) => Self::of(signal, Self::Services),
            HubEvent::Clusters(signal) => Self::of(signal, Self::Clusters),
            HubEvent::Secrets(..)
            | HubEvent::WorksServed(_)
            | HubEvent::Works(_)
            | HubEvent::ExportsServed(_)
            | HubEvent::Exports(_)
            | HubEvent::ImportsServed(_)
            | HubEvent::Imports(_) => None,
        }
    }

    fn of<K>(signal: &Signal<K>, list: Self) -> Option<Self> {
        match signal {
            Signal::Listed(_) => Some(list),
            Signal::Confirmed => Some(Self::Confirmation),
            _ => None,
        }
    }
}
