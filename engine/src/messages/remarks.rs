//! Sentences of the Ready conditions of MultiClusterServices and ServiceExports.

use std::fmt;

use causeway::api::labels;
use causeway::domain::{ClusterName, ServiceKey, Tier, Unreachable};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use super::{NAMED_AT_MOST, endpoint, entry_clusters, events, first, name, names, shares};
use crate::plan::copies::SliceOfProvider;
use crate::plan::not_followed::NotFollowed;
use crate::plan::provider_use::Unused;
use crate::plan::providers::Disagreement;
use crate::plan::remark::{NoPath, NotUsed, Remark, Unreached};
use crate::plan::tiers::Tiers;

/// Description of a provider that is not used because `--provider-ttl` expired.
pub(crate) const TTL_EXPIRED: &str = "out of reach for longer than --provider-ttl";

/// Returns a message and its remarks about a service, separated by semicolons.
pub(crate) fn with_remarks(
    mut message: String,
    key: &ServiceKey,
    remarks: &[Remark<'_>],
) -> String {
    for remark in remarks {
        message.push_str("; ");
        message.push_str(&remark.sentence(key));
    }
    message
}

impl Remark<'_> {
    /// Returns the sentence of the remark on a service.
    pub(crate) fn sentence(&self, key: &ServiceKey) -> String {
        match self {
            Self::NoReadyEndpoint(exposure) => endpoint::none_ready(*exposure),
            Self::Unserved(consumers) => unserved(consumers),
            Self::LeftOut(clusters) => format!("left out: {}", not_used(clusters)),
            Self::NotCopied(refused) => {
                let all = refused.iter().map(|(name, refused)| refused.of(name));
                format!("not copied: {}", names(all))
            }
            Self::Unreached(providers) => unreached(key, providers),
            Self::WritersDisagree(all) => writers_disagree(all),
            Self::Standby(providers) => {
                format!("standby, because out of reach: {}", names(*providers))
            }
            Self::NoPath(providers) => no_path(key, providers),
            Self::Coarse(all) => shares::coarse(all),
            Self::ShareNotApplied(consumers) => shares::not_applied(consumers),
            Self::EntryClusters(all) => entry_clusters::sentences(key, all.iter().copied()),
            Self::NotFollowed(what) => format!("not followed: {what}"),
            Self::Name(names, state) => name::sentence(key, names, state),
            Self::AmbiguousHostname(found) => {
                format!("{}: {}", found.sentence(key), found.remedy(key))
            }
            Self::NoPlace(tier, consumers) => no_place(tier, consumers),
            Self::Ignored {
                service,
                why,
                clusters,
            } => {
                let clusters = names(clusters);
                let remedy = why.remedy(service, &clusters);
                format!("{}: {remedy}", why.sentence(service, &clusters))
            }
            Self::RefusedPropagation(clusters) => events::refused_propagation(key, clusters),
            Self::LostCopy(consumer, slice) => format!(
                "in {consumer} EndpointSlice {slice} is a copy without its labels and its source is gone: kubectl delete \
                 endpointslice {slice} -n {}",
                key.namespace
            ),
            Self::WorksHidden => {
                "unknown whether Karmada manages it too (its Works cannot be read)".to_owned()
            }
            Self::NotConsumers(members) => format!(
                "not imported by {}, which {} does not name",
                first(members, NAMED_AT_MOST),
                labels::CONSUMERS
            ),
            Self::Unresolved(member, found) => {
                format!("{member} {}; there: {}", found.why(key), found.remedy(key))
            }
        }
    }
}

fn unserved(consumers: &[(&ClusterName, &Tiers)]) -> String {
    let why = consumers.first().map(|(_, tiers)| tiers.why_unused());
    let consumers = names(consumers.iter().map(|(name, _)| name));
    format!("no endpoint in {consumers}: {}", why.unwrap_or_default())
}

fn unreached(key: &ServiceKey, providers: &Unreached<'_>) -> String {
    let all = providers.iter().map(|(provider, (why, consumers))| {
        let (why, remedy) = why.words(key, provider);
        let consumers = first(consumers, NAMED_AT_MOST);
        format!("{provider} is of another network than {consumers}: {why} ({remedy})")
    });
    all.collect::<Vec<_>>().join("; ")
}

fn no_path(key: &ServiceKey, providers: &NoPath<'_>) -> String {
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

fn no_place(tier: &Tier, consumers: &[&ClusterName]) -> String {
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

fn writers_disagree(all: &[(SliceOfProvider<'_>, &Disagreement)]) -> String {
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
