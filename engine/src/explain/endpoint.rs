//! State of each endpoint of a provider in each consumer.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use causeway::domain::{AddressRefusal, ClusterName, Reach};

use super::exposure::ExposedService;
use super::held::HeldSlice;
use super::report::{EndpointReport, ProviderReport};
use super::{ConsumerState, Diagnosis, EndpointState};
use crate::messages::endpoint::Endpoint;
use crate::messages::{karmada, quote};
use crate::model::slice::{SourceEndpoint, SourceSlice};
use crate::plan::copies::{
    CopyDecision, CopyState, DesiredCopies, Hold, Observation, Request, WantedCopy, Withdraw,
    copy_name,
};
use crate::plan::entry::Site;
use crate::plan::port_fit::MissingPort;
use crate::plan::providers::{Unfit, candidates};
use crate::problem::ServiceProblem;
use crate::reasons::Reason;

impl ExposedService<'_> {
    /// Reports a provider. The endpoints of a redundant slice are those of the slices that are
    /// copied in its place. If the provider cannot be read, its endpoints are those that the
    /// consumers hold.
    pub(super) fn provider_report(&self, provider: &ClusterName) -> ProviderReport {
        let (index, key) = (self.facts.index, self.facts.key);
        let endpoints = match self.facts.read(provider) {
            Some(member) => {
                let slices = candidates(member, key);
                let slices = slices.filter_map(|(name, candidate)| match candidate {
                    Err((Unfit::Redundant { .. }, _)) => None,
                    Ok(source) | Err((_, source)) => Some((name, source)),
                });
                let endpoints = slices.flat_map(|(slice, source)| {
                    let endpoints = source.endpoints();
                    endpoints.map(|one| self.endpoint_report(provider, Some(slice), source, &one))
                });
                endpoints.collect()
            }
            None => self.last_known(provider),
        };
        let declared = match index.member(provider) {
            Some(member) => Site::of(index, key, self.exposure, (provider, member)).reach(),
            None => index.reach(provider),
        };
        ProviderReport {
            cluster: provider.to_string(),
            reach: declared.map(Reach::as_str),
            diagnoses: self.provider(provider),
            endpoints,
        }
    }

    /// Reports the endpoints that the consumers hold of a provider that cannot be read.
    fn last_known(&self, provider: &ClusterName) -> Vec<EndpointReport> {
        let held = self.held.values().flatten();
        let copies = held.filter(|held| !held.is_karmadas && held.provider == provider.as_str());
        let known = copies.flat_map(|held| {
            let endpoints = held.content.endpoints();
            endpoints.map(|one| (one.addresses().collect::<Vec<_>>(), (&held.content, one)))
        });
        let known: BTreeMap<_, _> = known.collect();
        let known = known.into_values().map(|(content, endpoint)| {
            let endpoint = SourceEndpoint {
                node: None,
                zone: None,
                conditions: [endpoint.conditions[0], None, None],
                ..endpoint
            };
            self.endpoint_report(provider, None, content, &endpoint)
        });
        known.collect()
    }

    /// Reports an endpoint of a slice of the provider; `None` for one that only consumers show.
    fn endpoint_report(
        &self,
        provider: &ClusterName,
        slice: Option<&str>,
        source: &SourceSlice,
        endpoint: &SourceEndpoint<'_>,
    ) -> EndpointReport {
        let consumers = self.consumers.iter();
        let consumers = consumers.filter(|consumer| slice.is_some() || *consumer != provider);
        let states = consumers.map(|consumer| {
            let place = Place {
                exposure: self,
                words: Endpoint {
                    key: self.facts.key,
                    provider,
                    consumer,
                    slice: slice.unwrap_or_default(),
                },
                source,
                endpoint,
            };
            place.state()
        });
        let [_, serving, terminating] = endpoint.conditions;
        let ready = endpoint.is_ready();
        EndpointReport {
            addresses: endpoint.addresses().collect(),
            slice: slice.map(ToOwned::to_owned),
            node: endpoint.node.map(ToOwned::to_owned),
            zone: endpoint.zone.map(ToOwned::to_owned),
            ready,
            serving: serving.unwrap_or(ready),
            terminating: terminating.unwrap_or(false),
            consumers: states.collect(),
        }
    }
}

/// Endpoint of a provider's slice, with a consumer.
struct Place<'a> {
    exposure: &'a ExposedService<'a>,
    /// Provider, consumer and slice, with the sentences about them.
    words: Endpoint<'a>,
    source: &'a SourceSlice,
    endpoint: &'a SourceEndpoint<'a>,
}

impl<'a> Place<'a> {
    fn state(&self) -> ConsumerState {
        let words = &self.words;
        if words.provider == words.consumer && self.exposure.is_native() {
            return self.report(Some(words.slice), words.own());
        }
        if let Some(state) = self.by_entry() {
            return state;
        }
        let held = self.held();
        let diagnosis = match (held, self.decide()) {
            (Some(held), _) if held.is_karmadas => self.of_karmadas(held),
            (Some(copy), Ok(wanted)) => self.of_copy(copy, wanted),
            (None, Ok(wanted)) => self.absent(Some(wanted)),
            (Some(_), Err(_)) if self.is_kept() => words.kept(),
            (Some(_), Err(why)) => words.still_there(&why),
            (None, Err(why)) => why,
        };
        self.report(held.map(|held| &*held.name), diagnosis)
    }

    /// Reports the state of an endpoint that this slice of the consumer holds, or no slice.
    fn report(&self, slice: Option<&str>, diagnosis: Diagnosis) -> ConsumerState {
        ConsumerState {
            cluster: self.words.consumer.to_string(),
            state: match slice {
                Some(_) => EndpointState::Present,
                None => EndpointState::Missing,
            },
            slice: slice.map(ToOwned::to_owned),
            diagnosis,
        }
    }

    fn addresses(&self) -> Vec<IpAddr> {
        self.endpoint.addresses().collect()
    }

    /// Returns the slice of the consumer that holds the endpoint. The slices of the service's
    /// manager precede, then the copy of the endpoint's own slice.
    fn held(&self) -> Option<&'a HeldSlice> {
        let (provider, addresses) = (self.words.provider.as_str(), self.addresses());
        let is_managed = self.exposure.is_managed_by_karmada();
        let held = self.exposure.held_in(self.words.consumer).iter();
        let of_provider = held.filter(|slice| slice.provider == provider);
        let holding = of_provider.filter(|slice| slice.endpoints.contains_key(&addresses));
        holding.max_by_key(|slice| (slice.is_karmadas == is_managed, self.is_copy_of(slice)))
    }

    /// Whether the consumer's slice was made from the endpoint's own.
    fn is_copy_of(&self, held: &HeldSlice) -> bool {
        let source = held.source.as_ref();
        source.is_some_and(|source| source.uid == self.source.version.uid)
    }

    fn copies(&self) -> Option<&'a DesiredCopies> {
        self.exposure.desired(self.words.consumer)
    }

    /// Returns the name of the copy of its slice.
    fn copy_name(&self) -> Arc<str> {
        let (exposure, family) = (self.exposure.exposure, self.source.address_type);
        copy_name(exposure, self.words.provider, self.words.slice, family)
    }

    /// Returns the plan's decision about the copy of its slice; `None` without copies in the
    /// consumer.
    fn decision(&self) -> Option<CopyDecision<'a>> {
        let (facts, provider) = (self.exposure.facts, self.words.provider.as_str());
        let (copies, name) = (self.copies()?, self.copy_name());
        let member = facts.index.member(self.words.consumer);
        let copy = member.and_then(|member| member.copy(facts.key, &name));
        let source = copy.and_then(|copy| copy.view.source.as_ref());
        Some(copies.decide(facts.index, facts.key, provider, (&name, source)))
    }

    /// Whether the plan leaves an existing copy as it is.
    fn is_kept(&self) -> bool {
        let desired = self.exposure.facts.desired;
        match self.decision() {
            Some(decision) => matches!(decision, CopyDecision::Hold(_)),
            None => desired.is_untouched(self.exposure.exposure),
        }
    }

    /// Returns the copy that the plan wants of the endpoint.
    ///
    /// # Errors
    /// The reason why it wants none.
    fn decide(&self) -> Result<&'a WantedCopy, Diagnosis> {
        if let Some(obstacle) = &self.exposure.obstacle {
            return Err(obstacle.clone());
        }
        match self.copies().zip(self.decision()) {
            Some((_, CopyDecision::Keep(wanted))) => match wanted.refusal(self.endpoint) {
                None => Ok(wanted),
                Some(refusal) => Err(self.refused(&refusal)),
            },
            Some((copies, decision)) => Err(self.unwanted(copies, decision)),
            None => Err(self.absent(None)),
        }
    }

    fn refused(&self, refusal: &AddressRefusal) -> Diagnosis {
        let cluster = self.exposure.facts.index.cluster(self.words.provider);
        let ranges = cluster.map(|cluster| &*cluster.declared.ranges);
        self.words.refused(refusal, ranges.unwrap_or_default())
    }

    /// Explains why the plan wants no copy of the slice.
    fn unwanted(&self, copies: &DesiredCopies, decision: CopyDecision<'_>) -> Diagnosis {
        let words = &self.words;
        let skipped = copies.skipped(words.provider, words.slice);
        if let Some(why) = skipped.and_then(|why| words.skipped(why)) {
            return why;
        }
        if let Some(Err(why)) = copies.entry(words.provider) {
            return words.unreached(why);
        }
        match (decision, &copies.tiers) {
            (CopyDecision::Hold(Hold::Undecided), _) => words.undecided(),
            (CopyDecision::Hold(_), _) => self.blocked(None).unwrap_or_else(|| words.kept()),
            (CopyDecision::Withdraw(Withdraw::Requested(Request::NotPreferred)), Some(tiers)) => {
                words.not_preferred(tiers)
            }
            (CopyDecision::Withdraw(Withdraw::Observed(Observation::HeldByKarmada, _)), _) => {
                words.copied_by_karmada()
            }
            (CopyDecision::Keep(_) | CopyDecision::Withdraw(_), _) => self.absent(None),
        }
    }

    /// Returns the state of the endpoint in a consumer of another network, which holds an entry to
    /// it in place of a copy of its slice.
    fn by_entry(&self) -> Option<ConsumerState> {
        let (words, node) = (&self.words, self.endpoint.node);
        let copies = self.copies()?;
        let entry = copies.entry(words.provider)?.ok()?;
        let missing = |why| Some(self.report(None, why));
        if let Some(missed) = entry.misses(self.source, node) {
            return missing(words.missed(missed, node));
        }
        let wanted = copies.wanted.iter();
        let mut wanted = wanted.filter(|(_, copy)| copy.provider() == words.provider);
        let found = wanted.find_map(|(name, copy)| Some((name, copy, copy.door_to(node)?)));
        let Some((name, copy, (door, ports))) = found else {
            // The slices of an entry have the name of the Service.
            let skipped = copies.skipped(words.provider, &self.exposure.facts.key.name);
            let skipped = skipped.and_then(|why| words.skipped(why));
            return missing(skipped.unwrap_or_else(|| self.absent(None)));
        };
        if let Some(refusal) = copy.refusal(&door) {
            return missing(self.refused(&refusal));
        }
        let mut held = self.exposure.held_in(words.consumer).iter();
        let addresses = vec![door.address];
        if !held.any(|held| *held.name == **name && held.endpoints.contains_key(&addresses)) {
            return missing(self.progressing());
        }
        let is_ready = self.endpoint.is_ready();
        let diagnosis = match &copies.shares {
            Some(shares) if is_ready && copy.is_beyond_share(&door) => words.beyond_share(shares),
            _ => words.by_entry(&door, ports, is_ready),
        };
        Some(self.report(Some(name), diagnosis))
    }

    /// Explains why a consumer lacks the endpoint although no decision keeps it from there: the
    /// whole provider or the whole consumer is left out, something is in the place of the `wanted`
    /// copy, or a write is under way.
    fn absent(&self, wanted: Option<&WantedCopy>) -> Diagnosis {
        let unused = self.exposure.unused(self.words.provider);
        let blocked = unused.or_else(|| self.blocked(wanted));
        blocked.unwrap_or_else(|| self.progressing())
    }

    /// Returns the reason why a consumer gets no endpoint of a provider that is used.
    fn blocked(&self, wanted: Option<&WantedCopy>) -> Option<Diagnosis> {
        let (exposure, words) = (self.exposure, &self.words);
        let is_managed = exposure.is_managed_by_karmada();
        exposure
            .consumer(words.consumer)
            .or_else(|| self.obstacle(wanted?))
            .or_else(|| is_managed.then(|| karmada::not_dispatched(words.key, words.consumer)))
            .or_else(|| exposure.facts.member(words.provider))
    }

    /// Explains an endpoint that a copy holds, which the plan wants.
    fn of_copy(&self, copy: &HeldSlice, wanted: &WantedCopy) -> Diagnosis {
        let (exposure, words) = (self.exposure, &self.words);
        let of_provider = exposure.facts.member(words.provider);
        if of_provider.is_some_and(|one| one.reason == Reason::MemberUnreachable) {
            return match copy.standby {
                true => words.of_unreachable(),
                false => words.kept(),
            };
        }
        let is_ready = self.endpoint.is_ready();
        let is_beyond = wanted.is_beyond_share(self.endpoint);
        let known = copy.endpoints.get(&self.addresses()).copied();
        let is_older = copy.source.as_ref() != Some(&self.source.version);
        if !copy.standby && known != Some(is_ready && !is_beyond) && is_older {
            return words.older();
        }
        let desired = exposure.facts.desired;
        let problem = desired.problem_in(exposure.exposure, words.consumer);
        if let Some(ServiceProblem::MissingPorts { missing, has, .. }) = problem {
            return words.port_not_in_consumer(&exposure.service, missing, has);
        }
        // A port of an import leads to those clusters alone that expose it.
        let matters = |missing: &&MissingPort| {
            exposure.is_native() || matches!(missing, MissingPort::NotInSlice(_))
        };
        let missing = wanted.missing_ports();
        if let Some(port) = missing.list().iter().find(matters) {
            return words.missing_port(port, missing.provider_ports());
        }
        match is_ready {
            true => self.in_its_role(copy, wanted),
            false => words.unready(),
        }
    }

    /// Explains a ready endpoint of a copy by its role in the consumer: that of its tier, unless it
    /// is beyond the share of its provider.
    fn in_its_role(&self, copy: &HeldSlice, wanted: &WantedCopy) -> Diagnosis {
        let words = &self.words;
        let Some(copies) = self.copies() else {
            return words.copied();
        };
        let is_standby = wanted.is_standby(self.endpoint);
        let was_standby = copy.standby || copy.endpoints.get(&self.addresses()) == Some(&false);
        match (&copies.shares, &copies.tiers) {
            (None, None) => words.copied(),
            _ if is_standby != was_standby => words.changes_role(is_standby),
            (Some(shares), _) if wanted.is_beyond_share(self.endpoint) => {
                words.beyond_share(shares)
            }
            (_, Some(tiers)) => words.in_tier(tiers, is_standby),
            (Some(_), None) => words.copied(),
        }
    }

    /// Explains an endpoint that Karmada's slice holds, alone or while Karmada manages the service.
    fn of_karmadas(&self, theirs: &HeldSlice) -> Diagnosis {
        match theirs.endpoints.get(&self.addresses()) {
            _ if !self.endpoint.is_ready() => self.words.unready(),
            Some(true) => self.words.copied_by_karmada(),
            _ => self.words.behind_in_karmadas(&theirs.name),
        }
    }

    /// Reports that something else has the name of the copy, or that the copy was made from a newer
    /// version of the slice than the provider shows.
    fn obstacle(&self, wanted: &WantedCopy) -> Option<Diagnosis> {
        let (facts, words, name) = (self.exposure.facts, &self.words, self.copy_name());
        let member = facts.index.member(words.consumer)?;
        let copy = member.copy(facts.key, &name);
        let of_hub = copy.is_some_and(|copy| *copy.view.hub != *facts.index.hub_uid());
        let mut taken = self.copies()?.taken_names(member, facts.key);
        if of_hub || taken.any(|taken| *taken == name) {
            return Some(words.name_taken(&name, of_hub));
        }
        let is_newer = wanted.compare(&copy?.view) == CopyState::NewerThanSource;
        is_newer.then(|| words.newer_copy(&name))
    }

    /// Reports a write that is under way, or what the controller reports of it.
    fn progressing(&self) -> Diagnosis {
        let mut held = self.exposure.held_in(self.words.consumer).iter();
        let is_held = held.any(|held| self.is_copy_of(held));
        match self.exposure.reported(self.words.provider) {
            Some(ready) if ready.reason == Reason::WriteConflict => {
                self.words.write_conflict(is_held, &ready.message)
            }
            ready => self.words.not_written(is_held, ready.map(quote).as_deref()),
        }
    }
}
