//! Sentences of the Ready conditions of MultiClusterServices and ServiceExports.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use causeway::api::labels;
use causeway::domain::{ClusterName, ServiceKey, Tier, Unreachable};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use super::{NAMED_AT_MOST, first, names};
use crate::plan::clusterset::Unresolved;
use crate::plan::copies::{Refused, SliceOfProvider};
use crate::plan::hostnames::Ambiguous;
use crate::plan::ignored::Ignored;
use crate::plan::not_followed::NotFollowed;
use crate::plan::provider_use::Unused;
use crate::plan::providers::Disagreement;
use crate::plan::remark::{NoPath, NotUsed, Unreached};
use crate::plan::tiers::Tiers;

/// Description of a provider that is not used because `--provider-ttl` expired.
pub(crate) const TTL_EXPIRED: &str = "out of reach for longer than --provider-ttl";

/// Remark that Karmada's Works cannot be read.
pub(crate) const WORKS_HIDDEN: &str =
    "unknown whether Karmada manages it too (its Works cannot be read)";

/// Returns a message and its remarks, separated by semicolons.
pub(crate) fn with_remarks(message: String, remarks: Vec<String>) -> String {
    let all = [message].into_iter().chain(remarks);
    all.collect::<Vec<_>>().join("; ")
}

/// Describes clusters that take no part, or of which nothing is used.
pub(crate) fn left_out(clusters: &[(&ClusterName, NotUsed<'_>)]) -> String {
    format!("left out: {}", not_used(clusters))
}

/// Describes endpoints and slices of these providers that are copied to no consumer.
pub(crate) fn not_copied(refused: &BTreeMap<&ClusterName, &Refused>) -> String {
    let all = refused.iter().map(|(name, refused)| refused.of(name));
    format!("not copied: {}", names(all))
}

/// Describes unreachable providers whose endpoints are standby endpoints.
pub(crate) fn standby(providers: &BTreeSet<ClusterName>) -> String {
    format!("standby, because out of reach: {}", names(providers))
}

/// Describes annotations that are not followed.
pub(crate) fn not_followed(what: &NotFollowed<'_>) -> String {
    format!("not followed: {what}")
}

/// Describes hostnames that lead to pods of several clusters, with the remedy.
pub(crate) fn ambiguous_hostname(key: &ServiceKey, found: &Ambiguous) -> String {
    format!("{}: {}", found.sentence(key), found.remedy(key))
}

/// Describes clients of a Service in these clusters that do not reach the copies, with the remedy.
pub(crate) fn ignored(service: &ServiceKey, why: &Ignored, clusters: &[&ClusterName]) -> String {
    let clusters = names(clusters);
    let remedy = why.remedy(service, &clusters);
    format!("{}: {remedy}", why.sentence(service, &clusters))
}

/// Describes a copy that lost its labels and whose source is gone, with the remedy. Causeway
/// deletes nothing without its label, and clients still use the copy.
pub(crate) fn lost_copy(key: &ServiceKey, consumer: &ClusterName, slice: &str) -> String {
    format!(
        "in {consumer} EndpointSlice {slice} is a copy without its labels and its source is gone: kubectl delete \
         endpointslice {slice} -n {}",
        key.namespace
    )
}

/// Describes members that the exports do not name as consumers.
pub(crate) fn not_consumers(members: &[&ClusterName]) -> String {
    format!(
        "not imported by {}, which {} does not name",
        first(members, NAMED_AT_MOST),
        labels::CONSUMERS
    )
}

/// Describes the import of a member whose name leads elsewhere, with the remedy.
pub(crate) fn unresolved(key: &ServiceKey, member: &ClusterName, found: &Unresolved) -> String {
    format!("{member} {}; there: {}", found.why(key), found.remedy(key))
}

/// Describes consumers whose preference leads to no provider.
pub(crate) fn unserved(consumers: &[(&ClusterName, &Tiers)]) -> String {
    let why = consumers.first().map(|(_, tiers)| tiers.why_unused());
    let consumers = names(consumers.iter().map(|(name, _)| name));
    format!("no endpoint in {consumers}: {}", why.unwrap_or_default())
}

/// Describes providers that consumers of other networks do not reach, with the remedies.
pub(crate) fn unreached(key: &ServiceKey, providers: &Unreached<'_>) -> String {
    let all = providers.iter().map(|(provider, (why, consumers))| {
        let (why, remedy) = why.words(key, provider);
        let consumers = first(consumers, NAMED_AT_MOST);
        format!("{provider} is of another network than {consumers}: {why} ({remedy})")
    });
    all.collect::<Vec<_>>().join("; ")
}

/// Describes providers of which no endpoint answers in some consumers, with the remedy.
pub(crate) fn no_path(key: &ServiceKey, providers: &NoPath<'_>) -> String {
    let all = providers.iter().map(|(provider, consumers)| {
        format!(
            "no endpoint of {provider} answers in {}, so it is used there where no other is ready: \
             kubectl mcs verify {} -n {}",
            first(consumers, NAMED_AT_MOST),
            key.name,
            key.namespace
        )
    });
    all.collect::<Vec<_>>().join("; ")
}

/// Describes consumers whose Clusters lack the place that a preference names, with the remedy.
pub(crate) fn no_place(tier: &Tier, consumers: &[&ClusterName]) -> String {
    let (all, one) = (names(consumers), names(consumers.first()));
    match tier {
        Tier::Property(selector) => format!(
            "the Cluster of {all} lacks a property that {selector} compares: kubectl label \
             cluster {one} {}=VALUE",
            selector.same().next().unwrap_or_default()
        ),
        _ => format!(
            "the Cluster of {all} has no {tier}, which {} names: kubectl mcs join {one} \
             --member-kubeconfig FILE --{tier} NAME",
            labels::PREFER
        ),
    }
}

/// Describes slices of which two writers disagree on the ready endpoints, with the remedy.
pub(crate) fn writers_disagree(all: &[(SliceOfProvider<'_>, &Disagreement)]) -> String {
    let first = all.first();
    let sentence = first.map(|((provider, slice), one)| one.sentence(provider, slice));
    let more = match all.len().saturating_sub(1) {
        0 => String::new(),
        count => format!(" (and {count} more)"),
    };
    format!(
        "{}{more}, and the latter decide: stop one of the writers",
        sentence.unwrap_or_default()
    )
}

/// Lists clusters of which nothing is used: `member1 (withdrawn), member2 (unreachable)`.
pub(super) fn not_used(clusters: &[(&ClusterName, NotUsed<'_>)]) -> String {
    names(clusters.iter().map(|(name, why)| reason_of(name, why)))
}

fn reason_of(name: &ClusterName, why: &dyn fmt::Display) -> String {
    format!("{name} ({why})")
}

/// Whether the condition of a service reports that `--provider-ttl` of the cluster has expired.
pub(crate) fn reports_expired_ttl(name: &ClusterName, ready: &Condition) -> bool {
    ready
        .message
        .contains(&reason_of(name, &Unused::TtlExpired))
}

impl fmt::Display for NotUsed<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LeftOut(why) => why.fmt(out),
            Self::Unused(why) => why.fmt(out),
        }
    }
}

impl fmt::Display for Unused {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::NotJoined => "is not joined",
            Self::Drained => "withdrawn",
            Self::Duplicate => "the same cluster as another",
            Self::TtlExpired => TTL_EXPIRED,
            Self::WithdrawAfter => "out of reach for longer than withdraw-after",
        })
    }
}

impl fmt::Display for NotFollowed<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let misread = (!self.misread.is_empty()).then(|| self.misread.to_string());
        let earliest = Unreachable::EARLIEST;
        let earliest = self
            .uses_earliest
            .then(|| format!("{earliest} is used instead"));
        let of_headless = self.of_headless.iter().map(|annotation| {
            format!(
                "{annotation}, for the Service is headless and no proxy chooses among its endpoints"
            )
        });
        let all = misread.into_iter().chain(earliest).chain(of_headless);
        out.write_str(&all.collect::<Vec<_>>().join("; "))
    }
}
