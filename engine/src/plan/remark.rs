//! Remarks of a Ready condition: facts about a service that need attention although its objects are
//! in place.

use std::collections::{BTreeMap, BTreeSet};

use causeway::domain::{ClusterName, ServiceKey, Tier};

use super::clusterset::Unresolved;
use super::copies::{DesiredCopies, Refused, SliceOfProvider};
use super::dns::NameState;
use super::entry::NoEntry;
use super::entry_clusters::EntryCluster;
use super::hostnames::Ambiguous;
use super::ignored::Ignored;
use super::not_followed::NotFollowed;
use super::provider_use::Unused;
use super::providers::Disagreement;
use super::shares::ProviderShare;
use super::tiers::Tiers;
use crate::model::LeftOut;
use crate::model::slice::Exposure;

/// Remark of a Ready condition.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Remark<'a> {
    /// No provider has a ready endpoint.
    NoReadyEndpoint(Exposure),
    /// The preference leads these consumers to no provider.
    Unserved(Vec<(&'a ClusterName, &'a Tiers)>),
    /// These clusters take no part, or nothing of them is used.
    LeftOut(Vec<(&'a ClusterName, NotUsed<'a>)>),
    /// Endpoints and slices of these providers are copied to no consumer.
    NotCopied(BTreeMap<&'a ClusterName, &'a Refused>),
    /// Consumers of other networks do not reach these providers.
    Unreached(Unreached<'a>),
    /// Two writers of these slices disagree on which endpoints are ready.
    WritersDisagree(Vec<(SliceOfProvider<'a>, &'a Disagreement)>),
    /// The endpoints of these unreachable providers are standby endpoints.
    Standby(&'a BTreeSet<ClusterName>),
    /// No endpoint of these providers answers in consumers that use them while no other is ready.
    NoPath(NoPath<'a>),
    /// Shares of these consumers deviate from the wanted ones.
    Coarse(CoarseShares<'a>),
    /// The data planes of these consumers use no standby endpoints, so shares are not applied.
    ShareNotApplied(Vec<&'a ClusterName>),
    /// The addresses of these entry clusters are not in the status.
    EntryClusters(Vec<(&'a ClusterName, &'a EntryCluster)>),
    /// Annotations are not followed.
    NotFollowed(NotFollowed<'a>),
    /// Names that DNS is to publish are in this state.
    Name(Vec<&'a str>, NameState<'a>),
    /// Hostnames lead to pods of several clusters.
    AmbiguousHostname(Ambiguous),
    /// The Clusters of these consumers lack the region or zone that the preference names.
    NoPlace(Tier, Vec<&'a ClusterName>),
    /// Clients in these clusters do not reach the copies.
    Ignored {
        /// Service of the clients.
        service: ServiceKey,
        /// Reason.
        why: Ignored,
        /// Clusters of the clients.
        clusters: Vec<&'a ClusterName>,
    },
    /// Karmada's policy is not applied in these clusters, which have the Service of causeway.
    RefusedPropagation(Vec<&'a ClusterName>),
    /// A copy lost its labels, and its source is gone. Causeway deletes nothing without its label,
    /// and clients still use the copy.
    LostCopy(&'a ClusterName, &'a str),
    /// Karmada's Works cannot be read.
    WorksHidden,
    /// The exports do not name these members as consumers.
    NotConsumers(Vec<&'a ClusterName>),
    /// The clusterset's name leads elsewhere in this member.
    Unresolved(&'a ClusterName, &'a Unresolved),
}

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

/// Consumers in which a share deviates from the wanted one.
pub(crate) type CoarseShares<'a> = Vec<(&'a ClusterName, &'a ProviderShare)>;

/// Returns the remarks about shares, from the copies of each consumer: about all providers, or
/// about the one that is named.
pub(crate) fn of_shares<'a>(
    copies: impl Iterator<Item = (&'a ClusterName, &'a DesiredCopies)>,
    provider: Option<&ClusterName>,
) -> Vec<Remark<'a>> {
    let (mut coarse, mut not_applied) = (Vec::new(), Vec::new());
    for (consumer, copies) in copies {
        let Some(shares) = &copies.shares else {
            continue;
        };
        coarse.extend(shares.coarsest(provider).map(|share| (consumer, share)));
        not_applied.extend((!shares.is_applied).then_some(consumer));
    }
    let coarse = some(coarse).map(Remark::Coarse);
    let not_applied = some(not_applied).map(Remark::ShareNotApplied);
    coarse.into_iter().chain(not_applied).collect()
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
