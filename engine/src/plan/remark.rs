//! Facts about a service that need attention although its objects are in place. Ready conditions
//! report them as remarks.

use std::collections::{BTreeMap, BTreeSet};

use causeway::domain::ClusterName;

use super::copies::DesiredCopies;
use super::entry::NoEntry;
use super::provider_use::Unused;
use super::tiers::Tiers;
use crate::model::LeftOut;

/// Lists the consumers whose preference leads to no provider, from the copies of each consumer.
pub(crate) fn unserved<'a>(
    copies: impl Iterator<Item = (&'a ClusterName, &'a DesiredCopies)>,
) -> Vec<(&'a ClusterName, &'a Tiers)> {
    let unserved = copies.filter_map(|(name, copies)| Some((name, copies.unserved()?)));
    unserved.collect()
}

/// Providers that consumers of other networks do not reach, each with the reason and the consumers.
pub(crate) type Unreached<'a> = BTreeMap<&'a ClusterName, (&'a NoEntry, BTreeSet<&'a ClusterName>)>;

/// Returns the providers that consumers of other networks do not reach, from the copies of each
/// consumer.
pub(crate) fn unreached<'a>(
    copies: impl Iterator<Item = (&'a ClusterName, &'a DesiredCopies)>,
) -> Option<Unreached<'a>> {
    let mut all = Unreached::new();
    for (consumer, copies) in copies {
        for (provider, why) in copies.unreached() {
            let (_, consumers) = all
                .entry(provider)
                .or_insert_with(|| (why, BTreeSet::new()));
            consumers.insert(consumer);
        }
    }
    (!all.is_empty()).then_some(all)
}

/// Providers of which no endpoint answers in some consumers, each with the consumers.
pub(crate) type NoPath<'a> = BTreeMap<&'a ClusterName, BTreeSet<&'a ClusterName>>;

/// Returns the providers of which no endpoint answers in some consumers, from the copies of each
/// consumer.
pub(crate) fn no_path<'a>(
    copies: impl Iterator<Item = (&'a ClusterName, &'a DesiredCopies)>,
) -> Option<NoPath<'a>> {
    let mut all = NoPath::new();
    for (consumer, copies) in copies {
        let tiers = copies.tiers.iter();
        for provider in tiers.flat_map(|tiers| tiers.no_path.keys()) {
            all.entry(provider).or_default().insert(consumer);
        }
    }
    (!all.is_empty()).then_some(all)
}

/// Reason why nothing of a cluster is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotUsed<'a> {
    /// It takes no part.
    LeftOut(&'a LeftOut),
    /// Its endpoints are not used.
    Unused(Unused),
}

/// Returns a list unless it is empty.
pub(crate) fn some<T>(list: Vec<T>) -> Option<Vec<T>> {
    (!list.is_empty()).then_some(list)
}
