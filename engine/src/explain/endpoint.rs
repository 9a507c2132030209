//! State of one endpoint in one consumer.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use causeway::domain::{AddressRefusal, ClusterName};

use super::exposure::ExposedService;
use super::held::HeldSlice;
use super::{ConsumerState, Diagnosis};
use crate::messages::endpoint::Endpoint;
use crate::messages::quote;
use crate::model::slice::{SourceEndpoint, SourceSlice};
use crate::plan::copies::{
    CopyDecision, CopyState, DesiredCopies, Hold, Observation, Request, Skipped, WantedCopy,
    Withdraw, copy_name,
};
use crate::plan::providers::{MissingPort, Unfit};
use crate::plan::tiers::EndpointRole;
use crate::problem::ServiceProblem;
use crate::reasons::Reason;

/// Endpoint of a provider's slice, with a consumer.
#[derive(Clone, Copy)]
pub(super) struct Place<'a> {
    pub(super) exposure: &'a ExposedService<'a>,
    /// Provider, consumer and slice, with the sentences about them.
    pub(super) words: Endpoint<'a>,
    pub(super) source: &'a SourceSlice,
    pub(super) endpoint: &'a SourceEndpoint<'a>,
}

impl<'a> Place<'a> {
    pub(super) fn state(&self) -> ConsumerState {
        let words = &self.words;
        if words.provider == words.consumer && self.exposure.is_native() {
            return self.present(words.slice, words.own());
        }
        if let Some(state) = self.in_kept_slice().or_else(|| self.by_entry()) {
            return state;
        }
        let decision = self.decide();
        let copy = self.held_in(&self.exposure.copies);
        let theirs = self.held_in(&self.exposure.karmadas);
        let is_karmadas = self.exposure.is_managed_by_karmada();
        match (copy, theirs) {
            (Some(copy), theirs) if theirs.is_none() || !is_karmadas => {
                self.present(&copy.name, self.of_copy(copy, decision))
            }
            (_, Some(theirs)) => self.present(&theirs.name, self.of_karmadas(theirs)),
            _ => self.missing(match decision {
                Ok(wanted) => self.pending(wanted),
                Err(why) => why,
            }),
        }
    }

    fn missing(&self, diagnosis: Diagnosis) -> ConsumerState {
        ConsumerState::new(self.words.consumer, None::<&str>, diagnosis)
    }

    fn present(&self, slice: &str, diagnosis: Diagnosis) -> ConsumerState {
        ConsumerState::new(self.words.consumer, Some(slice), diagnosis)
    }

    fn addresses(&self) -> Vec<IpAddr> {
        self.endpoint.addresses().collect()
    }

    fn is_ready(&self) -> bool {
        self.endpoint.is_ready()
    }

    /// Returns the slice of the consumer that holds the endpoint: the copy of its own slice, or
    /// else the copy of another slice with the same addresses.
    fn held_in(&self, slices: &'a BTreeMap<ClusterName, Vec<HeldSlice>>) -> Option<&'a HeldSlice> {
        let (provider, addresses) = (self.words.provider.as_str(), self.addresses());
        let of_provider = slices.get(self.words.consumer)?.iter();
        let holding = of_provider
            .filter(|slice| slice.provider == provider && slice.endpoints.contains_key(&addresses));
        holding.max_by_key(|slice| self.is_copy_of(slice))
    }

    /// Whether the consumer's slice was made from the endpoint's own.
    fn is_copy_of(&self, held: &HeldSlice) -> bool {
        let source = held.source.as_ref();
        source.is_some_and(|source| source.uid == self.source.version.uid)
    }

    fn copies(&self) -> Option<&'a DesiredCopies> {
        self.exposure.desired(self.words.consumer)
    }

    /// Returns the plan's decision about the copy of the endpoint's slice.
    fn decision(&self, copies: &'a DesiredCopies) -> CopyDecision<'a> {
        let facts = self.exposure.facts;
        let provider = self.words.provider.as_str();
        copies.decide(facts.index, facts.key, provider, &self.copy_name())
    }

    /// Returns the name of the copy of its slice.
    fn copy_name(&self) -> Arc<str> {
        let (exposure, family) = (self.exposure.exposure, self.source.address_type);
        copy_name(exposure, self.words.provider, self.words.slice, family)
    }

    /// Returns the copy that the plan wants of the endpoint, or the reason why it wants none.
    fn decide(&self) -> Result<&'a WantedCopy, Diagnosis> {
        if let Some(obstacle) = &self.exposure.obstacle {
            return Err(obstacle.clone());
        }
        let copies = self.copies().ok_or_else(|| self.not_planned())?;
        match self.decision(copies) {
            CopyDecision::Hold(why) => Err(self.held(copies, why)),
            CopyDecision::Withdraw(why) => Err(self.withdrawn(copies, why)),
            CopyDecision::Keep(wanted) => match wanted.refusal(self.endpoint) {
                None => Ok(wanted),
                Some(refusal) => Err(self.refused(&refusal)),
            },
        }
    }

    fn refused(&self, refusal: &AddressRefusal) -> Diagnosis {
        let cluster = self.exposure.facts.index.cluster(self.words.provider);
        let ranges = cluster.map(|cluster| &*cluster.declared.ranges);
        self.words.refused(refusal, ranges.unwrap_or_default())
    }

    /// Explains why the plan holds a copy as it is and creates none.
    fn held(&self, copies: &DesiredCopies, why: Hold) -> Diagnosis {
        let (exposure, consumer) = (self.exposure, self.words.consumer);
        let known = match why {
            Hold::TooManySlices | Hold::SliceUnusable => {
                return self.skipped(copies, self.words.slice);
            }
            Hold::Undecided => return self.words.undecided(),
            Hold::EntryUnknown => self.unreached(copies),
            Hold::ProviderUnknown => exposure.facts.member(self.words.provider),
            Hold::ImportMissing | Hold::ExporterUnknown => exposure.consumer(consumer),
            Hold::LeftToKarmada => {
                let of_consumer = exposure.consumer(consumer);
                of_consumer.or_else(|| exposure.not_dispatched(consumer))
            }
        };
        known.unwrap_or_else(|| self.words.kept())
    }

    /// Explains why the plan withdraws a copy.
    fn withdrawn(&self, copies: &DesiredCopies, why: Withdraw) -> Diagnosis {
        let (exposure, words) = (self.exposure, &self.words);
        let known = match why {
            Withdraw::Requested(Request::NotPreferred) => copies
                .tiers
                .as_ref()
                .map(|tiers| words.not_preferred(tiers)),
            Withdraw::Requested(Request::NotConsumer)
            | Withdraw::Observed(Observation::ServiceConflict, _) => {
                exposure.consumer(words.consumer)
            }
            Withdraw::Requested(Request::Unused(why)) => {
                exposure.facts.unused_by(words.provider, why)
            }
            Withdraw::Requested(Request::OtherNetwork)
            | Withdraw::Observed(Observation::NoEntry, _) => self.unreached(copies),
            Withdraw::Requested(Request::NotProvider)
            | Withdraw::Observed(Observation::NotExported, _) => exposure.unused(words.provider),
            Withdraw::Observed(Observation::HeldByKarmada, _) => Some(words.copied_by_karmada()),
            Withdraw::Observed(
                Observation::AddressType | Observation::Redundant | Observation::NoPort,
                _,
            ) => return self.skipped(copies, self.words.slice),
            Withdraw::Observed(Observation::SourceGone, _) => None,
        };
        known.unwrap_or_else(|| self.not_planned())
    }

    /// Returns the state of the endpoint in a consumer of another network, which holds an entry to
    /// it in place of a copy of its slice.
    fn by_entry(&self) -> Option<ConsumerState> {
        let (words, node) = (&self.words, self.endpoint.node);
        let copies = self.copies()?;
        let entry = copies.entry(words.provider)?.ok()?;
        if let Some(missed) = entry.misses(self.source, node) {
            return Some(self.missing(words.missed(missed, node)));
        }
        let wanted = copies.wanted.iter();
        let mut wanted = wanted.filter(|(_, copy)| copy.provider() == words.provider);
        let found = wanted.find_map(|(name, copy)| Some((name, copy, copy.door_to(node)?)));
        let Some((name, copy, (door, ports))) = found else {
            // The slices of an entry have the name of the Service.
            return Some(self.missing(self.skipped(copies, &self.exposure.facts.key.name)));
        };
        if let Some(refusal) = copy.refusal(&door) {
            return Some(self.missing(self.refused(&refusal)));
        }
        let held = self.exposure.copies.get(words.consumer);
        let mut held = held.into_iter().flatten();
        let is_held = held
            .any(|held| *held.name == **name && held.endpoints.contains_key(&vec![door.address]));
        let shares = copies.shares.as_ref();
        let shares = shares.filter(|_| self.is_beyond_share(copy, &door) && self.is_ready());
        Some(match (is_held, shares) {
            (true, Some(shares)) => self.present(name, words.beyond_share(shares)),
            (true, None) => self.present(name, words.by_entry(&door, ports, self.is_ready())),
            (false, _) => self.missing(self.progressing()),
        })
    }

    fn unreached(&self, copies: &DesiredCopies) -> Option<Diagnosis> {
        let why = copies.entry(self.words.provider)?.err()?;
        Some(self.words.unreached(why))
    }

    /// Explains why nothing of a slice is copied.
    fn skipped(&self, copies: &DesiredCopies, slice: &str) -> Diagnosis {
        let words = &self.words;
        match copies.skipped(words.provider, slice) {
            Some(Skipped::Behind) => words.port_behind(),
            Some(Skipped::NoPort(missing)) => match missing.list().first() {
                Some(port) => words.missing_port(port, missing.provider_ports()),
                None => self.not_planned(),
            },
            Some(why) => words.of_slice().skipped(why),
            None => self.not_planned(),
        }
    }

    /// Explains why the plan has no decision for the consumer: the whole provider or the whole
    /// consumer is left out.
    fn not_planned(&self) -> Diagnosis {
        let (exposure, words) = (self.exposure, &self.words);
        exposure
            .unused(words.provider)
            .or_else(|| exposure.consumer(words.consumer))
            .or_else(|| exposure.not_dispatched(words.consumer))
            .or_else(|| exposure.facts.member(words.provider))
            .unwrap_or_else(|| self.progressing())
    }

    /// Returns the state of the same endpoint in a slice that Kubernetes manages, if its own slice
    /// is redundant. Among several such slices one in which the endpoint is ready comes first.
    fn in_kept_slice(&self) -> Option<ConsumerState> {
        let (facts, words) = (self.exposure.facts, self.words);
        let copies = self.copies()?;
        let is_redundant = |slice: &str| {
            let why = copies.skipped(words.provider, slice);
            matches!(why, Some(Skipped::Unfit(Unfit::Redundant(_))))
        };
        if !is_redundant(words.slice) {
            return None;
        }
        let sources = facts.index.member(words.provider)?.sources(facts.key);
        let kept = sources
            .filter(|(name, source)| source.ports == self.source.ports && !is_redundant(name));
        let twins = kept.filter_map(|(slice, source)| {
            let mut endpoints = source.endpoints();
            let twin = endpoints.find(|one| one.address == self.endpoint.address)?;
            Some((slice, source, twin))
        });
        let (slice, source, endpoint) = twins.max_by_key(|(_, _, twin)| twin.is_ready())?;
        let twin = Place {
            words: Endpoint { slice, ..words },
            source,
            endpoint: &endpoint,
            ..*self
        };
        let mut state = twin.state();
        let agree = endpoint.is_ready() == self.is_ready() || twin.decide().is_err();
        if !agree {
            let (address, is_ready) = (self.endpoint.address, self.is_ready());
            state.diagnosis = words.of_slice().differs_on(address, is_ready, slice);
        }
        Some(state)
    }

    /// Explains an endpoint that a copy holds.
    fn of_copy(&self, copy: &HeldSlice, decision: Result<&WantedCopy, Diagnosis>) -> Diagnosis {
        let (exposure, words) = (self.exposure, &self.words);
        let wanted = match decision {
            Ok(wanted) => wanted,
            Err(_) if self.is_kept() => return words.kept(),
            Err(why) => return words.still_there(&why),
        };
        let of_provider = exposure.facts.member(words.provider);
        if of_provider.is_some_and(|one| one.reason == Reason::MemberUnreachable) {
            return match copy.standby {
                true => words.of_unreachable(),
                false => words.kept(),
            };
        }
        let known = copy.endpoints.get(&self.addresses()).copied();
        let is_older = copy.source.as_ref() != Some(&self.source.version);
        let is_beyond = self.is_beyond_share(wanted, self.endpoint);
        if !copy.standby && known != Some(self.is_ready() && !is_beyond) && is_older {
            return words.older();
        }
        let problem = exposure
            .facts
            .desired
            .problem_in(exposure.exposure, words.consumer);
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
        match self.is_ready() {
            true => self
                .in_its_share(copy, wanted)
                .unwrap_or_else(|| self.in_its_tier(copy, wanted)),
            false => words.unready(),
        }
    }

    /// Whether the plan leaves the copy of the slice unchanged.
    fn is_kept(&self) -> bool {
        match self.copies() {
            None => self.exposure.leaves_all(),
            Some(copies) => matches!(self.decision(copies), CopyDecision::Hold(_)),
        }
    }

    /// Explains a ready endpoint that is where it should be, by its tier if the consumer has tiers.
    fn in_its_tier(&self, copy: &HeldSlice, wanted: &WantedCopy) -> Diagnosis {
        let words = &self.words;
        let Some(tiers) = self.exposure.tiers(words.consumer) else {
            return words.copied();
        };
        let is_standby = wanted.role() != EndpointRole::Ready;
        if is_standby != copy.standby {
            return words.changes_role(is_standby);
        }
        words.in_tier(tiers, is_standby)
    }

    /// Explains a ready endpoint in a consumer whose providers have shares; `None` if none have, or
    /// if its tier alone decides.
    fn in_its_share(&self, copy: &HeldSlice, wanted: &WantedCopy) -> Option<Diagnosis> {
        let shares = self.copies()?.shares.as_ref()?;
        if copy.standby || wanted.role() != EndpointRole::Ready {
            return None;
        }
        let is_beyond = self.is_beyond_share(wanted, self.endpoint);
        let is_ready = copy.endpoints.get(&self.addresses()) == Some(&true);
        match (is_ready, is_beyond) {
            (true, true) | (false, false) => Some(self.words.changes_role(is_beyond)),
            (false, true) => Some(self.words.beyond_share(shares)),
            (true, false) => None,
        }
    }

    /// Whether an endpoint of the copy is a standby endpoint because others suffice for the share
    /// of its provider.
    fn is_beyond_share(&self, wanted: &WantedCopy, endpoint: &SourceEndpoint<'_>) -> bool {
        wanted.role() == EndpointRole::Ready && wanted.role_of(endpoint) != EndpointRole::Ready
    }

    /// Explains an endpoint that Karmada's slice holds, alone or while Karmada manages the service.
    fn of_karmadas(&self, theirs: &HeldSlice) -> Diagnosis {
        match theirs.endpoints.get(&self.addresses()) {
            _ if !self.is_ready() => self.words.unready(),
            Some(true) => self.words.copied_by_karmada(),
            _ => self.words.behind_in_karmadas(&theirs.name),
        }
    }

    /// Returns the reason why a consumer does not hold a copy that the plan wants.
    fn pending(&self, wanted: &WantedCopy) -> Diagnosis {
        let (exposure, words) = (self.exposure, &self.words);
        let of_provider = exposure.facts.member(words.provider);
        of_provider
            .or_else(|| exposure.consumer(words.consumer))
            .or_else(|| self.obstacle(wanted))
            .or_else(|| exposure.not_dispatched(words.consumer))
            .unwrap_or_else(|| self.progressing())
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
        let held = self.exposure.copies.get(self.words.consumer);
        let mut held = held.into_iter().flatten();
        let is_held = held.any(|held| self.is_copy_of(held));
        match self.exposure.reported(self.words.provider) {
            Some(ready) if ready.reason == Reason::WriteConflict => {
                self.words.write_conflict(is_held, &ready.message)
            }
            ready => self.words.not_written(is_held, ready.map(quote).as_deref()),
        }
    }
}
