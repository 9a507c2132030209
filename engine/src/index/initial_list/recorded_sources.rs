//! What the copies say of where they come from, and what of it first lists lack.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher as _};

use causeway::domain::ClusterName;
use string_cache::DefaultAtom;

use crate::evidence::is_much;
use crate::model::{HubEvent, MemberEvent, Signal};

/// What copies say of the cluster that they come from, or what that cluster's lists hold; everything by a hash.
#[derive(Debug, Default)]
pub(in crate::index) struct RecordedSources {
    /// The UIDs of source slices.
    pub(in crate::index) sources: Vec<u64>,
    /// The keys of exported services.
    pub(in crate::index) exports: Vec<u64>,
}

/// What a member's copies say, by the cluster that they come from.
pub(in crate::index) type RecordedByProvider = HashMap<DefaultAtom, RecordedSources>;

/// What of the hub's first lists is in doubt.
#[derive(Debug, Default)]
pub struct HubDoubts {
    /// Clusters that copies come from and the list of Clusters lacks.
    pub clusters: BTreeSet<ClusterName>,
    /// Services, by member, of which the member holds something and the list of MultiClusterServices lacks, where these are many.
    pub(in crate::index) leftovers: HashMap<ClusterName, usize>,
}

impl HubDoubts {
    /// How many MultiClusterServices are missing, where these are so many that none of them is believed to be gone.
    pub fn leftovers(&self) -> usize {
        self.leftovers.values().copied().max().unwrap_or_default()
    }
}

/// What a complete list, or its confirmation, was of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::index) enum Heard {
    Slices,
    Services,
    Exports,
    MultiClusterServices,
    Clusters,
    Confirmation,
}

impl Heard {
    pub(in crate::index) fn of_member(event: &MemberEvent) -> Option<Self> {
        match event {
            MemberEvent::Slices(signal) => Self::of(signal, Self::Slices),
            MemberEvent::Services(signal) => Self::of(signal, Self::Services),
            MemberEvent::Exports(signal) => Self::of(signal, Self::Exports),
            _ => None,
        }
    }

    pub(in crate::index) fn of_hub(event: &HubEvent) -> Option<Self> {
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

impl RecordedSources {
    /// How many of these are missing from what a cluster holds; none where they are few and there are others.
    pub(in crate::index) fn missing(told: &[u64], holds: &HashSet<u64>) -> usize {
        let missing = told.iter().filter(|one| !holds.contains(one)).count();
        match missing > 0 && (holds.is_empty() || is_much(missing, told.len())) {
            true => missing,
            false => 0,
        }
    }
}

pub(in crate::index) fn hash(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}
