//! Copies of a provider's EndpointSlices that a consumer should hold.

mod cache;
mod decision;
mod inputs;
mod name;
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
pub(crate) use self::decision::Request;
pub(crate) use self::decision::{CopyDecision, Hold, Observation, Withdraw};
use self::decision::{OfOthers, OfProvider, Ruling};
pub(crate) use self::inputs::{Consumer, Origin};
pub(crate) use self::name::{copy_name, entry_names};
pub(crate) use self::skipped::MissingPorts;
pub(crate) use self::skipped::Skipped;
pub(crate) use self::template::NotCopied;
use self::template::{CopyInputs, CopyTemplate};
use super::entry::{Entry, NoEntry};
use super::provider_use::{ProviderUses, Unused};
use super::providers::{Disagreement, MOST_SLICES, Provider, Unfit, candidates};
use super::shares::Shares;
use super::tiers::{EndpointRole, Tiers};
use crate::digest::Digest;
use crate::evidence::Proof;
use crate::model::slice::{
    AddressType, ContentHash, CopiedSlice, Exposure, SlicePort, SourceEndpoint, SourceSlice,
    SourceVersion,
};
use crate::observed::Index;
use crate::observed::member::Member;

/// Copy that a consumer should hold. Its hash identifies its content; the object is made only if it
/// is to be written.
#[derive(Clone, Debug)]
pub(crate) struct WantedCopy {
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
pub(crate) enum CopyState {
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
    pub(crate) fn provider(&self) -> &ClusterName {
        self.template.provider()
    }

    /// Compares the wanted copy with the existing one. Older content never replaces newer, unless
    /// lists have confirmed that the newer version is lost. The copy is then replaced even if its
    /// content is the same, so that the versions of its source are in order again.
    pub(crate) fn compare(&self, observed: &CopiedSlice) -> CopyState {
        let newer = observed
            .source
            .as_ref()
            .filter(|source| source.is_newer_than(&self.source.version));
        match newer {
            Some(newer) if self.lost.is_none_or(|lost| lost < newer.resource_version) => {
                CopyState::NewerThanSource
            }
            None if self.content == observed.content && self.records_source(observed) => {
                CopyState::UpToDate
            }
            _ => CopyState::Outdated,
        }
    }

    /// Whether the copy of an entry records a slice from which it follows: the one that it recorded
    /// may be gone. A copy of any other slice goes with that slice.
    fn records_source(&self, observed: &CopiedSlice) -> bool {
        let recorded = observed.source.as_ref();
        let is_current = |recorded: &SourceVersion| recorded.uid == self.source.version.uid;
        !self.template.is_of_entry() || recorded.is_some_and(is_current)
    }

    /// Whether a ready endpoint of the source is not ready in the consumer, by its tier or share.
    pub(crate) fn is_standby(&self, endpoint: &SourceEndpoint<'_>) -> bool {
        self.template.role_of(endpoint) != EndpointRole::Ready
    }

    /// Whether a ready endpoint of the source is not ready in the consumer because others suffice
    /// for the share of its provider.
    pub(crate) fn is_beyond_share(&self, endpoint: &SourceEndpoint<'_>) -> bool {
        self.template.role() == EndpointRole::Ready && self.is_standby(endpoint)
    }

    /// Returns the address family of its endpoints: IPv4 or IPv6.
    pub(crate) fn family(&self) -> &'static str {
        self.source.address_type.as_str()
    }

    /// Whether its source has any endpoint.
    pub(crate) fn has_endpoints(&self) -> bool {
        !self.source.is_empty()
    }

    /// Returns the owner on whose behalf it is made, `<kind>/<uid>`.
    pub(crate) fn owner(&self) -> &str {
        self.template.owner()
    }

    /// Returns the reason why an endpoint of the source is not in the copy; `None` if its addresses
    /// are accepted.
    pub(crate) fn refusal(&self, endpoint: &SourceEndpoint<'_>) -> Option<AddressRefusal> {
        self.template.refusal(endpoint)
    }

    /// Returns the ports that the consumer's Service offers and the copy lacks.
    pub(crate) fn missing_ports(&self) -> MissingPorts {
        MissingPorts {
            template: self.template.clone(),
            source: self.source.clone(),
        }
    }

    /// Returns the endpoint of an entry by which the consumer reaches endpoints on a node of the
    /// provider, and its ports.
    pub(crate) fn door_to(&self, node: Option<&str>) -> Option<(SourceEndpoint<'_>, &[SlicePort])> {
        let mut endpoints = self.source.endpoints();
        let on_node = endpoints.find(|one| one.node == node);
        let mut others = self.source.endpoints();
        let ready = || others.find(|one| one.conditions[0] != Some(false));
        let endpoint = on_node
            .or_else(ready)
            .or_else(|| self.source.endpoints().next())?;
        Some((endpoint, &self.source.ports))
    }

    /// Returns the object of that name, without identity.
    pub(crate) fn slice(&self, name: &str) -> EndpointSlice {
        self.template
            .slice(name, &self.source, self.import.as_deref())
    }
}

/// Endpoints and slices of a provider that are not copied.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Refused {
    /// Number of refused endpoints, of slices that are copied or redundant.
    pub endpoints: usize,
    /// Number of whole slices that are not copied.
    pub slices: usize,
    /// Reason why one of them is not copied.
    pub example: Option<NotCopied>,
}

/// Slice, by its provider and its name there.
pub(crate) type SliceOfProvider<'a> = (&'a ClusterName, &'a Arc<str>);

/// Decisions about the copies of one exposure in one consumer.
#[derive(Clone, Debug)]
pub(crate) struct DesiredCopies {
    /// Wanted copies, by name.
    pub wanted: BTreeMap<Arc<str>, WantedCopy>,
    /// Tiers of the consumer's providers; `None` where it uses all of them alike.
    pub tiers: Option<Tiers>,
    /// Shares of the consumer's providers; `None` where none are requested.
    pub shares: Option<Shares>,
    /// Endpoints and slices of its providers that are not copied.
    pub refused: BTreeMap<ClusterName, Refused>,
    /// Copies that are not wanted although their sources exist, by name.
    unwanted: BTreeMap<Arc<str>, Ruling>,
    /// All other copies of each provider. Few of them are ever looked up.
    providers: Vec<(ClusterName, OfProvider)>,
    /// Entries to the providers of other networks, or the reasons why the consumer reaches none.
    entries: BTreeMap<ClusterName, Result<Arc<Entry>, NoEntry>>,
    /// Providers without an entry that have no endpoint: the consumer lacks nothing of them.
    idle: BTreeSet<ClusterName>,
    /// Copies of all other clusters.
    others: OfOthers,
    /// Slices that are not copied, with the reason.
    skipped: BTreeMap<ClusterName, BTreeMap<Arc<str>, Skipped>>,
}

impl DesiredCopies {
    fn all(ruling: Ruling) -> Self {
        Self {
            wanted: BTreeMap::new(),
            tiers: None,
            shares: None,
            refused: BTreeMap::new(),
            unwanted: BTreeMap::new(),
            providers: Vec::new(),
            entries: BTreeMap::new(),
            idle: BTreeSet::new(),
            others: OfOthers::All(ruling),
            skipped: BTreeMap::new(),
        }
    }

    /// Returns decisions to hold every copy.
    pub(crate) fn hold_all(why: Hold) -> Self {
        Self::all(Ruling::Hold(why))
    }

    /// Returns decisions to withdraw every copy from a member that does not consume the service.
    pub(crate) fn of_no_consumer() -> Self {
        Self::all(Ruling::requested(Request::NotConsumer))
    }

    /// Returns decisions to withdraw every copy, because another Service has the name of the one
    /// that receives the endpoints. `conflict` is the observed Service or its problem.
    pub(crate) fn of_conflict<T>(conflict: &T) -> Self {
        let proof = Proof::of_presence(conflict);
        let withdraw = Withdraw::Observed(Observation::ServiceConflict, proof);
        Self::all(Ruling::Withdraw(withdraw))
    }

    /// Returns the decision about a copy of a provider, by its name and the version of its source.
    pub(crate) fn decide(
        &self,
        index: &Index,
        key: &ServiceKey,
        provider: &str,
        (name, source): (&str, Option<&SourceVersion>),
    ) -> CopyDecision<'_> {
        if let Some(wanted) = self.wanted.get(name) {
            return CopyDecision::Keep(wanted);
        }
        if let Some(ruling) = self.unwanted.get(name) {
            return (*ruling).into();
        }
        let ruling = match (self.of_provider(provider), self.others) {
            (Some(OfProvider::Known(proof)), _) => {
                Ruling::Withdraw(Withdraw::Observed(Observation::SourceGone, proof))
            }
            (Some(OfProvider::All(ruling)), _) | (None, OfOthers::All(ruling)) => ruling,
            (None, OfOthers::NotExporting) => not_exporting(index, key, provider),
        };
        // Another leader may have copied what this process has not observed.
        let may_lack = |observed: Observation| {
            matches!(observed, Observation::SourceGone | Observation::NotExported)
                && source.is_some_and(|source| index.may_lack(provider, source))
        };
        match ruling {
            Ruling::Withdraw(Withdraw::Observed(observed, _)) if may_lack(observed) => {
                Ruling::Hold(Hold::ProviderUnknown).into()
            }
            ruling => ruling.into(),
        }
    }

    /// Returns the reason why nothing of a provider is used, if any; `None` where no decision is
    /// about the provider.
    pub(crate) fn unused(&self, provider: &ClusterName) -> Option<Option<Unused>> {
        Some(match self.of_provider(provider.as_str())? {
            OfProvider::All(Ruling::Withdraw(Withdraw::Requested(Request::Unused(why)))) => {
                Some(why)
            }
            OfProvider::All(_) | OfProvider::Known(_) => None,
        })
    }

    fn of_provider(&self, name: &str) -> Option<OfProvider> {
        let mut providers = self.providers.iter();
        let found = providers.find(|(provider, _)| provider.as_str() == name);
        found.map(|(_, decision)| *decision)
    }

    /// Returns the tiers of a consumer whose preference leads to no provider.
    pub(crate) fn unserved(&self) -> Option<&Tiers> {
        self.tiers.as_ref().filter(|tiers| tiers.lack_providers())
    }

    /// Whether a copy of that name is certainly not wanted, whoever its provider is.
    pub(crate) fn abandons(&self, name: &str) -> bool {
        let holds = |(_, of): &(_, OfProvider)| matches!(of, OfProvider::All(Ruling::Hold(_)));
        let may_be_wanted = matches!(self.others, OfOthers::All(Ruling::Hold(_)))
            || self.providers.iter().any(holds)
            || self
                .unwanted
                .get(name)
                .is_some_and(|ruling| ruling.is_hold());
        !may_be_wanted && !self.wanted.contains_key(name)
    }

    /// Returns the entry to a provider, or the reason why the consumer does not reach it; `None` if
    /// the provider is of the consumer's network, or none of its providers.
    pub(crate) fn entry(&self, provider: &ClusterName) -> Option<Result<&Entry, &NoEntry>> {
        let entry = self.entries.get(provider)?;
        Some(entry.as_ref().map(Arc::as_ref))
    }

    /// Lists the providers of other networks to which the consumer has no entry, with the reason.
    pub(crate) fn not_entered(&self) -> impl Iterator<Item = (&ClusterName, &NoEntry)> {
        let entries = self.entries.iter();
        entries.filter_map(|(provider, entry)| Some((provider, entry.as_ref().err()?)))
    }

    /// Lists those of them of which the consumer may lack endpoints.
    pub(crate) fn unreached(&self) -> impl Iterator<Item = (&ClusterName, &NoEntry)> {
        let all = self.not_entered();
        all.filter(|(provider, _)| !self.idle.contains(*provider))
    }

    /// Returns the reason why a slice is not copied, if its content or the number of slices decides
    /// that.
    pub(crate) fn skipped(&self, provider: &ClusterName, slice: &str) -> Option<&Skipped> {
        match self.of_provider(provider.as_str()) {
            Some(OfProvider::All(Ruling::Hold(Hold::TooManySlices))) => {
                Some(&Skipped::TooManySlices)
            }
            _ => self.skipped.get(provider)?.get(slice),
        }
    }

    /// Lists the slices that are not copied and disagree with those of Kubernetes on readiness.
    pub(crate) fn disagreements(
        &self,
    ) -> impl Iterator<Item = (SliceOfProvider<'_>, &Disagreement)> {
        let slices = self.skipped.iter();
        let slices = slices.flat_map(|(provider, slices)| {
            let slices = slices.iter();
            slices.map(move |(name, why)| ((provider, name), why))
        });
        slices.filter_map(|(slice, why)| match why {
            Skipped::Unfit(Unfit::Redundant { disagreement }) => {
                Some((slice, disagreement.as_ref()?))
            }
            _ => None,
        })
    }

    /// Lists the names of wanted copies that another object has in the consumer. A copy of the same
    /// owner that lost its labels does not count.
    pub(crate) fn taken_names(
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

    fn note_refused(
        &mut self,
        provider: &ClusterName,
        endpoints: usize,
        slices: usize,
        example: impl FnOnce() -> Option<NotCopied>,
    ) {
        if endpoints + slices == 0 {
            return;
        }
        let refused = self.refused.entry(provider.clone()).or_default();
        refused.endpoints += endpoints;
        refused.slices += slices;
        if refused.example.is_none() {
            refused.example = example();
        }
    }
}

/// Returns the decision about a copy of a cluster whose export is not followed.
fn not_exporting(index: &Index, key: &ServiceKey, provider: &str) -> Ruling {
    let Ok(provider) = &ClusterName::try_from(provider) else {
        return Ruling::requested(Request::NotProvider);
    };
    if let Some(unused) = Unused::everywhere(index, provider) {
        return Ruling::requested(Request::Unused(unused));
    }
    let cluster = index.cluster(provider);
    let may_export = cluster.is_some_and(|cluster| cluster.may_export_from(&key.namespace));
    if index.is_left_out(provider, key) || !may_export {
        return Ruling::requested(Request::NotProvider);
    }
    let member = index.member(provider);
    match member.and_then(Member::exports_absence) {
        Some(proof) => Ruling::Withdraw(Withdraw::Observed(Observation::NotExported, proof)),
        None => Ruling::Hold(Hold::Undecided),
    }
}

/// Plan of the copies of one exposure in one consumer.
struct Planner<'a> {
    origin: &'a Origin<'a>,
    consumer: &'a Consumer<'a>,
    import: Option<Arc<OwnerReference>>,
    desired: DesiredCopies,
}

impl Planner<'_> {
    /// Decides about the copies of a provider's slices.
    fn add_provider(&mut self, provider: &Provider<'_>, outcomes: &mut Outcomes) {
        let of_all = self.plan_provider(provider, outcomes);
        self.desired.providers.push((provider.name.clone(), of_all));
    }

    fn plan_provider(&mut self, provider: &Provider<'_>, outcomes: &mut Outcomes) -> OfProvider {
        let known = provider.member;
        let known =
            known.and_then(|member| Some((member, member.sources_absence(self.origin.key)?)));
        let Some((member, proof)) = known else {
            return OfProvider::All(Ruling::Hold(Hold::ProviderUnknown));
        };
        let Some(role) = self.consumer.role(provider.name) else {
            return OfProvider::All(Ruling::requested(Request::NotPreferred));
        };
        let entry = match self.enter(provider) {
            Ok(entry) => entry,
            Err(ruling) => return OfProvider::All(ruling),
        };
        let key = self.origin.key;
        let count = member.sources(key).count();
        if count > MOST_SLICES {
            let example = || Some(NotCopied::TooManySlices);
            self.desired.note_refused(provider.name, 0, count, example);
            return OfProvider::All(Ruling::Hold(Hold::TooManySlices));
        }
        let template = outcomes.template(&CopyInputs {
            origin: self.origin,
            provider,
            consumer: self.consumer,
            role,
            entry,
        });
        let slice = |name| Slice {
            provider,
            name,
            proof,
            template: &template,
        };
        if let Some(entry) = entry {
            for source in entry.slices() {
                self.add_slice(&slice(&key.name), &source, member, outcomes);
            }
            self.note_redundant(provider, member);
            return OfProvider::Known(proof);
        }
        for (name, candidate) in candidates(member, key) {
            let slice = slice(name);
            match candidate {
                Ok(source) => self.add_slice(&slice, source, member, outcomes),
                Err((why, source)) => self.skip(&slice, source, Skipped::Unfit(why), outcomes),
            }
        }
        OfProvider::Known(proof)
    }

    /// Notes and returns the entry by which the consumer reaches a provider; `None` where it
    /// reaches the pods.
    ///
    /// # Errors
    /// The decision about all copies of a provider that the consumer does not reach.
    fn enter<'p>(&mut self, provider: &'p Provider<'_>) -> Result<Option<&'p Arc<Entry>>, Ruling> {
        let Origin {
            index,
            key,
            exposure,
            ..
        } = *self.origin;
        let Some(found) = provider.entry((index, key), exposure, self.consumer.network) else {
            return Ok(None);
        };
        let refused = Err(NoEntry::HeadlessConsumer);
        let is_refused = self.consumer.is_headless && found.is_ok();
        let entry = if is_refused { &refused } else { found };
        let entries = &mut self.desired.entries;
        entries.insert(provider.name.clone(), entry.clone());
        match entry {
            Ok(_) => Ok(found.as_ref().ok()),
            Err(why) => {
                if provider.is_idle((index, key), exposure) {
                    self.desired.idle.insert(provider.name.clone());
                }
                Err(why.ruling())
            }
        }
    }

    /// Notes the redundant slices of a provider that is reached by an entry.
    fn note_redundant(&mut self, provider: &Provider<'_>, member: &Member) {
        for (name, candidate) in candidates(member, self.origin.key) {
            if let Err((why @ Unfit::Redundant { .. }, _)) = candidate {
                let skipped = &mut self.desired.skipped;
                let of_provider = skipped.entry(provider.name.clone()).or_default();
                of_provider.insert(name.clone(), Skipped::Unfit(why));
            }
        }
    }

    /// Decides about the copy of a slice that can be copied.
    fn add_slice(
        &mut self,
        slice: &Slice<'_>,
        source: &Arc<SourceSlice>,
        member: &Member,
        outcomes: &mut Outcomes,
    ) {
        let (template, digest) = slice.template;
        if template.fit().is_behind(source) {
            return self.skip(slice, source, Skipped::Behind, outcomes);
        }
        if !template.fit().offers(source) {
            let missing = MissingPorts {
                template: template.clone(),
                source: source.clone(),
            };
            return self.skip(slice, source, Skipped::NoPort(missing), outcomes);
        }
        let provider = slice.provider.name;
        let outcome = outcomes.of(*digest, template, source);
        let example = || template.first_refusal(source);
        let refused = outcome.refused as usize;
        self.desired.note_refused(provider, refused, 0, example);
        let copy = WantedCopy {
            content: CopyTemplate::content(&outcome, self.origin.import),
            name: slice.name.clone(),
            source: source.clone(),
            lost: member.lost_versions(&source.version.uid),
            template: template.clone(),
            import: self.import.clone(),
        };
        let exposure = self.origin.exposure;
        let name = outcomes.name(exposure, provider, slice.name, source.address_type);
        self.desired.wanted.insert(name, copy);
    }

    /// Decides about the copies of a slice of which nothing can be copied.
    fn skip(
        &mut self,
        slice: &Slice<'_>,
        source: &SourceSlice,
        why: Skipped,
        outcomes: &mut Outcomes,
    ) {
        let (provider, name) = (slice.provider.name, slice.name);
        let (template, _) = slice.template;
        let observed = |what| Ruling::Withdraw(Withdraw::Observed(what, slice.proof));
        let (ruling, endpoints, slices) = match &why {
            Skipped::Unfit(Unfit::AddressType) => (observed(Observation::AddressType), 0, 1),
            Skipped::Unfit(Unfit::Redundant { .. }) => {
                (observed(Observation::Redundant), source.odd as usize, 0)
            }
            Skipped::NoPort(_) => (observed(Observation::NoPort), 0, 0),
            Skipped::Behind => (Ruling::Hold(Hold::SliceUnusable), 0, 0),
            Skipped::Unfit(Unfit::Unreadable | Unfit::TooManyEndpoints)
            | Skipped::TooManySlices => (Ruling::Hold(Hold::SliceUnusable), 0, 1),
        };
        // The family that earlier copies of the slice had is unknown where it has none now.
        let families = match source.address_type {
            AddressType::Ipv4 | AddressType::Ipv6 => std::slice::from_ref(&source.address_type),
            AddressType::Other | AddressType::Unread => &[AddressType::Ipv4, AddressType::Ipv6],
        };
        for family in families {
            let copy = outcomes.name(self.origin.exposure, provider, name, *family);
            self.desired.unwanted.insert(copy, ruling);
        }
        let example = || match &why {
            Skipped::Unfit(unfit) if slices > 0 => Some(NotCopied::Unfit(unfit.clone())),
            _ => template.first_refusal(source),
        };
        self.desired
            .note_refused(provider, endpoints, slices, example);
        let of_provider = self.desired.skipped.entry(provider.clone()).or_default();
        of_provider.insert(name.clone(), why);
    }
}

impl NoEntry {
    /// Returns the decision about the copies of a provider without an entry.
    fn ruling(&self) -> Ruling {
        match self {
            Self::NotDeclared | Self::HeadlessConsumer => Ruling::requested(Request::OtherNetwork),
            Self::Refused(_, proof) => {
                Ruling::Withdraw(Withdraw::Observed(Observation::NoEntry, *proof))
            }
            Self::Unknown(_) => Ruling::Hold(Hold::EntryUnknown),
        }
    }
}

/// Slice of a provider, with the template of its copy.
struct Slice<'a> {
    provider: &'a Provider<'a>,
    name: &'a Arc<str>,
    /// Proof of the slices that the provider has and lacks.
    proof: Proof,
    template: &'a (Arc<CopyTemplate>, Digest),
}

/// Decides about the copies of these providers' slices in a consumer. Nothing of the clusters that
/// `uses` excludes is copied.
pub(super) fn copies<'a>(
    origin: &Origin<'_>,
    consumer: &Consumer<'_>,
    providers: impl Iterator<Item = &'a Provider<'a>>,
    uses: &ProviderUses,
    outcomes: &mut Outcomes,
) -> DesiredCopies {
    let others = match origin.exposure {
        Exposure::Native => OfOthers::All(Ruling::requested(Request::NotProvider)),
        Exposure::Clusterset => OfOthers::NotExporting,
    };
    let unused = uses.all_unused().map(|(name, why)| {
        let ruling = Ruling::requested(Request::Unused(why));
        (name.clone(), OfProvider::All(ruling))
    });
    let desired = DesiredCopies {
        tiers: consumer.tiers.cloned(),
        shares: consumer.shares.cloned(),
        providers: unused.collect(),
        others,
        ..DesiredCopies::hold_all(Hold::Undecided)
    };
    let mut planner = Planner {
        origin,
        consumer,
        import: origin.import.cloned().map(Arc::new),
        desired,
    };
    for provider in providers {
        planner.add_provider(provider, outcomes);
    }
    planner.desired
}

#[cfg(test)]
mod tests;
