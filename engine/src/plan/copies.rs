//! Copies of a provider's EndpointSlices that a consumer should hold.

mod cache;
mod candidates;
mod inputs;
mod name;
mod port_fit;
mod skipped;
mod template;
pub(crate) mod yield_to_karmada;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use causeway::domain::{AddressRefusal, ClusterName, ServiceKey};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

pub use self::cache::CopyCache;
pub(super) use self::cache::Outcomes;
pub(super) use self::candidates::candidates;
pub use self::inputs::{Consumer, Origin, Provider};
pub use self::name::copy_name;
pub use self::port_fit::MissingPort;
pub(super) use self::port_fit::PortFit;
pub(super) use self::skipped::MOST_SLICES;
pub use self::skipped::{Disagreement, MissingPorts, Skipped};
pub use self::template::EndpointRole;
use self::template::{CopyInputs, CopyTemplate};
use super::tiers::Tiers;
use crate::model::slice::{
    AddressType, ContentHash, CopiedSlice, Exposure, SourceEndpoint, SourceSlice,
};
use crate::observed::member::Member;

/// Copy that a consumer should hold. Its hash identifies its content; the object is made only if it
/// is to be written.
#[derive(Clone, Debug)]
pub struct WantedCopy {
    /// Hash of its content.
    pub content: ContentHash,
    /// Name of its source slice.
    name: Arc<str>,
    source: Arc<SourceSlice>,
    /// Highest version of the source that the provider has lost, as a second list has confirmed;
    /// `None` if it has lost none.
    lost: Option<u64>,
    template: Arc<CopyTemplate>,
    import: Option<Arc<OwnerReference>>,
}

/// Result of comparing an existing copy with the wanted one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyState {
    /// The copy stays as it is.
    UpToDate,
    /// The copy is to be replaced.
    Outdated,
    /// The copy was made from a newer version of the source than was observed. It stays until a
    /// second list of the provider shows whether that version is lost.
    NewerThanSource,
}

impl WantedCopy {
    /// Returns the provider of its source slice.
    pub fn provider(&self) -> &ClusterName {
        self.template.provider()
    }

    /// Compares the wanted copy with the existing one. Older content never replaces newer, unless
    /// lists have confirmed that the newer version is lost. The copy is then replaced even if its
    /// content is the same, so that the versions of its source are in order again.
    pub fn compare(&self, observed: &CopiedSlice) -> CopyState {
        let newer = observed
            .source
            .as_ref()
            .filter(|source| source.is_newer_than(&self.source.version));
        match newer {
            Some(newer) if self.lost.is_none_or(|lost| lost < newer.resource_version) => {
                CopyState::NewerThanSource
            }
            None if self.content == observed.content => CopyState::UpToDate,
            _ => CopyState::Outdated,
        }
    }

    /// Returns the role of the provider's endpoints in the consumer.
    pub fn role(&self) -> EndpointRole {
        self.template.role()
    }

    /// Returns the address family of its endpoints: IPv4 or IPv6.
    pub fn family(&self) -> &'static str {
        self.source.address_type.as_str()
    }

    /// Whether its source has any endpoint.
    pub fn has_endpoints(&self) -> bool {
        !self.source.is_empty()
    }

    /// Returns the owner on whose behalf it is made, `<kind>/<uid>`.
    pub fn owner(&self) -> &str {
        self.template.owner()
    }

    /// Returns the reason why an endpoint of the source is not in the copy; `None` if its addresses
    /// are accepted.
    pub fn refusal(&self, endpoint: &SourceEndpoint<'_>) -> Option<AddressRefusal> {
        self.template.refusal(endpoint)
    }

    /// Returns the ports that the consumer's Service offers and the copy lacks.
    pub fn missing_ports(&self) -> MissingPorts {
        MissingPorts {
            template: self.template.clone(),
            source: self.source.clone(),
        }
    }

    /// Returns the object of that name, without identity.
    pub fn slice(&self, name: &str) -> EndpointSlice {
        self.template
            .slice(name, &self.source, self.import.as_deref())
    }
}

/// Endpoints and slices of a provider that are not copied.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Refused {
    /// Number of refused endpoints, of slices that are copied or redundant.
    pub endpoints: usize,
    /// Number of whole slices that are not copied.
    pub slices: usize,
    /// Reason why one of them is not copied.
    pub example: String,
}

impl Refused {
    /// Returns `2 endpoints of member1 (10.0.0.1 is ...)`.
    pub fn of(&self, provider: &ClusterName) -> String {
        let counted = |count, noun| match count {
            0 => None,
            1 => Some(format!("1 {noun}")),
            many => Some(format!("{many} {noun}s")),
        };
        let counts = [
            counted(self.endpoints, "endpoint"),
            counted(self.slices, "EndpointSlice"),
        ];
        let counts: Vec<_> = counts.into_iter().flatten().collect();
        format!("{} of {provider} ({})", counts.join(" and "), self.example)
    }
}

/// Copies that stay as they are, because their desired content is unknown.
#[derive(Clone, Debug, Default)]
pub struct Held {
    /// Whether all of them stay.
    pub all: bool,
    /// Clusters whose endpoints are unknown, or that have more slices than are copied.
    pub clusters: BTreeSet<ClusterName>,
    /// Copies of slices that cannot be copied at present: they do not fit their own cluster's
    /// Service, whose controllers are about to change them, or they are unreadable or too large.
    pub copies: BTreeSet<Arc<str>>,
}

/// Slice, by its provider and its name there.
pub type SliceOfProvider<'a> = (&'a ClusterName, &'a Arc<str>);

/// Copies that one member should hold on one exposure, by name, and those that stay as they are.
#[derive(Clone, Debug, Default)]
pub struct DesiredCopies {
    /// Wanted copies, by name.
    pub wanted: BTreeMap<Arc<str>, WantedCopy>,
    /// Copies that stay as they are.
    pub held: Held,
    /// Tiers of the consumer's providers; `None` where it uses all of them alike.
    pub tiers: Option<Tiers>,
    /// Endpoints and slices of its providers that are not copied.
    pub refused: BTreeMap<ClusterName, Refused>,
    /// Slices that are not copied, with the reason.
    skipped: BTreeMap<ClusterName, BTreeMap<Arc<str>, Skipped>>,
    /// Providers with more slices than are copied.
    beyond_limit: BTreeSet<ClusterName>,
}

impl DesiredCopies {
    /// Returns copies of which none changes.
    pub fn hold_all() -> Self {
        let held = Held {
            all: true,
            ..Held::default()
        };
        Self {
            held,
            ..Self::default()
        }
    }

    fn note_refused(
        &mut self,
        provider: &ClusterName,
        endpoints: usize,
        slices: usize,
        example: impl FnOnce() -> Option<String>,
    ) {
        if endpoints + slices == 0 {
            return;
        }
        let refused = self.refused.entry(provider.clone()).or_default();
        refused.endpoints += endpoints;
        refused.slices += slices;
        if refused.example.is_empty() {
            refused.example = example().unwrap_or_default();
        }
    }

    /// Records a slice of which nothing can be copied. An earlier copy of an unreadable or too
    /// large slice stays.
    fn refuse(
        &mut self,
        exposure: Exposure,
        provider: &ClusterName,
        name: &Arc<str>,
        why: Skipped,
    ) {
        if !matches!(why, Skipped::AddressType) {
            for address_type in [AddressType::Ipv4, AddressType::Ipv6] {
                let copy = copy_name(exposure, provider, name, address_type);
                self.held.copies.insert(copy);
            }
        }
        self.note_refused(provider, 0, 1, || Some(why.to_string()));
        self.skip(provider, name, why);
    }

    fn skip(&mut self, provider: &ClusterName, name: &Arc<str>, why: Skipped) {
        let of_provider = self.skipped.entry(provider.clone()).or_default();
        of_provider.insert(name.clone(), why);
    }

    /// Returns the reason why a slice is not copied, if its content or the number of slices decides
    /// that.
    pub fn skipped(&self, provider: &ClusterName, slice: &str) -> Option<&Skipped> {
        match self.beyond_limit.contains(provider) {
            true => Some(&Skipped::TooManySlices),
            false => self.skipped.get(provider)?.get(slice),
        }
    }

    /// Lists the slices that are not copied and disagree with those of Kubernetes on readiness.
    pub fn disagreements(&self) -> impl Iterator<Item = (SliceOfProvider<'_>, &Disagreement)> {
        let slices = self.skipped.iter();
        let slices = slices.flat_map(|(provider, slices)| {
            let slices = slices.iter();
            slices.map(move |(name, why)| ((provider, name), why))
        });
        slices.filter_map(|(slice, why)| match why {
            Skipped::Redundant(disagreement) => Some((slice, disagreement.as_ref()?)),
            _ => None,
        })
    }

    /// Records a provider with more slices than are copied. Its existing copies stay.
    fn hold_too_many(&mut self, provider: &ClusterName, count: usize) {
        self.held.clusters.insert(provider.clone());
        self.beyond_limit.insert(provider.clone());
        self.note_refused(provider, 0, count, || {
            Some(Skipped::TooManySlices.to_string())
        });
    }

    /// Adds the copies of a provider's slices.
    fn add_provider(
        &mut self,
        origin: &Origin<'_>,
        consumer: &Consumer<'_>,
        provider: &Provider<'_>,
        import: Option<&Arc<OwnerReference>>,
        outcomes: &mut Outcomes,
    ) {
        let Some(member) = provider.member else {
            self.held.clusters.insert(provider.name.clone());
            return;
        };
        let Some(role) = consumer.role(provider.name) else {
            return;
        };
        let (template, fingerprint) = outcomes.template(&CopyInputs {
            origin,
            provider,
            consumer,
            role,
        });
        let count = member.sources(origin.key).count();
        if count > MOST_SLICES {
            return self.hold_too_many(provider.name, count);
        }
        for (name, source) in candidates(member, origin.key) {
            let source = match source {
                Ok(source) => source,
                Err((why @ Skipped::Redundant(_), source)) => {
                    let odd = source.odd as usize;
                    self.note_refused(provider.name, odd, 0, || template.first_refusal(source));
                    self.skip(provider.name, name, why);
                    continue;
                }
                Err((why, _)) => {
                    self.refuse(origin.exposure, provider.name, name, why);
                    continue;
                }
            };
            let copy_name =
                outcomes.name(origin.exposure, provider.name, name, source.address_type);
            if template.fit().is_behind(source) {
                self.held.copies.insert(copy_name);
                self.skip(provider.name, name, Skipped::Behind);
                continue;
            }
            if !template.fit().offers(source) {
                let (template, source) = (template.clone(), source.clone());
                let gaps = MissingPorts { template, source };
                self.skip(provider.name, name, Skipped::NoPort(gaps));
                continue;
            }
            let outcome = outcomes.of(fingerprint, &template, source);
            self.note_refused(provider.name, outcome.refused, 0, || {
                template.first_refusal(source)
            });
            let copy = WantedCopy {
                content: CopyTemplate::content(&outcome, origin.import),
                name: name.clone(),
                source: source.clone(),
                lost: member.lost_versions(&source.version.uid),
                template: template.clone(),
                import: import.cloned(),
            };
            self.wanted.insert(copy_name, copy);
        }
    }

    /// Lists the names of wanted copies that another object has in the consumer. A copy of the same
    /// owner that lost its labels does not count.
    pub fn taken_names(
        &self,
        consumer: &Member,
        key: &ServiceKey,
    ) -> impl Iterator<Item = &Arc<str>> {
        let taken = move |name: &str, wanted: &WantedCopy| {
            let found = consumer.in_the_way(key, name);
            found.is_some_and(|found| found.lost_copy_of(wanted.owner()).is_none())
        };
        let wanted = self.wanted.iter();
        wanted
            .filter(move |(name, wanted)| taken(name, wanted))
            .map(|(name, _)| name)
    }

    /// Whether a copy of that name is certainly not wanted, whoever its provider is.
    pub fn abandons(&self, name: &str) -> bool {
        let held = &self.held;
        let may_be_wanted = held.all || !held.clusters.is_empty() || held.copies.contains(name);
        !may_be_wanted && !self.wanted.contains_key(name)
    }

    /// Whether an existing copy is to be deleted.
    pub fn rejects(&self, name: &Arc<str>, copy: &CopiedSlice) -> bool {
        let provider = copy.source_cluster.as_deref().unwrap_or_default();
        !self.keeps(provider, name) && !self.wanted.contains_key(name)
    }

    /// Whether an existing copy of a provider's slice stays as it is.
    pub fn keeps(&self, provider: &str, name: &str) -> bool {
        let held = &self.held;
        held.all || held.copies.contains(name) || held.clusters.contains(provider)
    }
}

/// Returns the copies of these providers' slices that a consumer should hold, and those that stay
/// as they are.
pub(super) fn copies<'a>(
    origin: &Origin<'_>,
    consumer: &Consumer<'_>,
    providers: impl Iterator<Item = &'a Provider<'a>>,
    outcomes: &mut Outcomes,
) -> DesiredCopies {
    let mut desired = DesiredCopies {
        tiers: consumer.tiers.cloned(),
        ..DesiredCopies::default()
    };
    let import = origin.import.cloned().map(Arc::new);
    for provider in providers {
        desired.add_provider(origin, consumer, provider, import.as_ref(), outcomes);
    }
    desired
}

#[cfg(test)]
mod tests;
