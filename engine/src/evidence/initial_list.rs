//! Comparison of an initial list with the sources that copies record.
//!
//! A process that has just started has observed no deletion. But the copies in the consumers record
//! the sources that they were made from. A source that an initial list lacks may be missing from
//! that list alone.

use std::hash::{DefaultHasher, Hash, Hasher as _};

use string_cache::DefaultAtom;

use super::is_large_loss;
use crate::model::map::{HashMap, HashSet};
use crate::model::{HubEvent, MemberEvent, Signal};

/// Sources that the copies of one consumer record in one cluster, as hashes.
#[derive(Debug, Default)]
pub(crate) struct RecordedSources {
    /// UIDs of source slices.
    pub sources: Vec<u64>,
    /// Keys of exported services.
    pub exports: Vec<u64>,
}

/// Sources that a member's copies record, by the cluster that they come from.
pub(crate) type RecordedByProvider = HashMap<DefaultAtom, RecordedSources>;

/// Content of a member's lists that is compared with the records of copies; `None` where a list is
/// no initial one.
#[derive(Debug)]
pub(crate) struct InitialLists {
    /// UIDs of its source slices.
    pub sources: Option<HashSet<u64>>,
    /// Keys of the services that it exports.
    pub exports: Option<HashSet<u64>>,
}

impl RecordedSources {
    /// Sorts and deduplicates the records, and releases spare capacity.
    pub(crate) fn compact(&mut self) {
        for hashes in [&mut self.sources, &mut self.exports] {
            hashes.sort_unstable();
            hashes.dedup();
            hashes.shrink_to_fit();
        }
    }
}

impl InitialLists {
    /// Returns the number of deletions that they suggest, if these are too many to count at once.
    /// The consumer with the highest number decides.
    pub(crate) fn suspected_deletions<'a>(
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

/// Returns the number of recorded hashes that a list lacks; 0 if they are few and the list is not
/// empty.
fn suspected_deletions(recorded: &[u64], listed: &HashSet<u64>) -> usize {
    let missing = recorded.iter().filter(|one| !listed.contains(one)).count();
    match missing > 0 && (listed.is_empty() || is_large_loss(missing, recorded.len())) {
        true => missing,
        false => 0,
    }
}

/// Returns the hash by which a value is recorded.
///
/// A missing source whose hash is that of a listed one counts as listed, so a list is suspected of
/// one deletion fewer. That changes a conclusion only at the limit of [`is_large_loss`]. The
/// probability is 1 in 10^8 for a million sources. A member that constructs such UIDs gains
/// nothing: it could list the source itself.
pub(crate) fn hash(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

/// Complete list that was accepted or confirmed, and that is to be compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CompleteList {
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
    /// Returns the complete list of a member that an event reports, if it reports one.
    pub(crate) fn of_member(event: &MemberEvent) -> Option<Self> {
        match event {
            MemberEvent::Slices(signal) | MemberEvent::OtherSlices(signal) => {
                Self::of(signal, Self::Slices)
            }
            MemberEvent::Services(signal) => Self::of(signal, Self::Services),
            MemberEvent::Exports(signal) => Self::of(signal, Self::Exports),
            _ => None,
        }
    }

    /// Returns the complete list of the hub that an event reports, if it reports one.
    pub(crate) fn of_hub(event: &HubEvent) -> Option<Self> {
        match event {
            HubEvent::MultiClusterServices(signal) => Self::of(signal, Self::MultiClusterServices),
            HubEvent::Services(signal) => Self::of(signal, Self::Services),
            HubEvent::Clusters(signal) => Self::of(signal, Self::Clusters),
            HubEvent::Namespaces(_)
            | HubEvent::Secrets(..)
            | HubEvent::WorksServed(_)
            | HubEvent::Works(_)
            | HubEvent::ExportsServed(_)
            | HubEvent::Exports(_)
            | HubEvent::ImportsServed(_)
            | HubEvent::Imports(_)
            | HubEvent::DnsEndpointsServed(_)
            | HubEvent::DnsEndpoints(_)
            | HubEvent::ProfilesServed(..)
            | HubEvent::Profiles(..) => None,
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
