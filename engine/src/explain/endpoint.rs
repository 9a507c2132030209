//! State of one endpoint in one consumer.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use causeway::domain::ClusterName;

use super::exposure::ExposedService;
use super::observed::HeldSlice;
use super::{ConsumerState, Diagnosis, EndpointState};
use crate::messages::explain::endpoint::Endpoint;
use crate::messages::explain::quote;
use crate::messages::explain::slice::Slice;
use crate::model::slice::{Exposure, SourceEndpoint, SourceSlice};
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
    pub(super) provider: &'a ClusterName,
    pub(super) consumer: &'a ClusterName,
    pub(super) slice: &'a str,
    pub(super) source: &'a SourceSlice,
    pub(super) endpoint: &'a SourceEndpoint<'a>,
}

impl<'a> Place<'a> {
    pub(super) fn state(&self) -> ConsumerState {
        if self.provider == self.consumer && self.exposure.exposure == Exposure::Native {
            return self.present(self.slice, self.words().own());
        }
        if let Some(state) = self.in_kept_slice() {
            return state;
        }
        if let Some(state) = self.by_entry() {
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

    fn words(&self) -> Endpoint<'a> {
        Endpoint {
            key: self.exposure.facts.key,
            provider: self.provider,
            consumer: self.consumer,
            slice: self.slice,
        }
    }

    fn slice_words(&self) -> Slice<'a> {
        Slice {
            key: self.exposure.facts.key,
            provider: self.provider,
            name: self.slice,
        }
    }

    fn missing(&self, diagnosis: Diagnosis) -> ConsumerState {
        ConsumerState {
            cluster: self.consumer.to_string(),
            state: EndpointState::Missing,
            slice: None,
            diagnosis,
        }
    }

    fn present(&self, slice: &str, diagnosis: Diagnosis) -> ConsumerState {
        ConsumerState {
            cluster: self.consumer.to_string(),
            state: EndpointState::Present,
            slice: Some(slice.to_owned()),
            diagnosis,
        }
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
        let addresses = self.addresses();
        let of_provider = slices.get(self.consumer)?.iter().filter(|slice| {
            *slice.provider == *self.provider.as_str() && slice.endpoints.contains_key(&addresses)
        });
        of_provider.max_by_key(|slice| self.is_copy_of(slice))
    }

    /// Whether the consumer's slice was made from the endpoint's own.
    fn is_copy_of(&self, held: &HeldSlice) -> bool {
        let source = held.source.as_ref();
        source.is_some_and(|source| source.uid == self.source.version.uid)
    }

    /// Returns the copy that the plan wants of the endpoint, or the reason why it wants none.
    fn decide(&self) -> Result<&'a WantedCopy, Diagnosis> {
        let exposure = self.exposure;
        if let Some(obstacle) = &exposure.obstacle {
            return Err(obstacle.clone());
        }
        let Some(copies) = exposure.desired(self.consumer) else {
            return Err(self.not_planned());
        };
        match exposure.decision(copies, self.provider, &self.copy_name()) {
            CopyDecision::Hold(why) => Err(self.held(copies, why)),
            CopyDecision::Withdraw(why) => Err(self.withdrawn(copies, why)),
            CopyDecision::Keep(wanted) => match wanted.refusal(self.endpoint) {
                None => Ok(wanted),
                Some(refusal) => {
                    let cluster = exposure.facts.index.cluster(self.provider);
                    let ranges = cluster.map(|cluster| &*cluster.declared.ranges);
                    Err(self.words().refused(&refusal, ranges.unwrap_or_default()))
                }
            },
        }
    }

    /// Returns the name of the copy of its slice.
    fn copy_name(&self) -> Arc<str> {
        let (exposure, family) = (self.exposure.exposure, self.source.address_type);
        copy_name(exposure, self.provider, self.slice, family)
    }

    /// Explains why the plan holds a copy as it is and creates none.
    fn held(&self, copies: &DesiredCopies, why: Hold) -> Diagnosis {
        let exposure = self.exposure;
        let of_consumer = match why {
            Hold::TooManySlices | Hold::SliceUnusable => return self.skipped(copies),
            Hold::Undecided => return self.words().undecided(),
            Hold::EntryUnknown => self.unreached(copies),
            Hold::ProviderUnknown => exposure.facts.member(self.provider),
            Hold::ImportMissing | Hold::ExporterUnknown => exposure.consumer(self.consumer),
            Hold::LeftToKarmada => {
                let of_consumer = exposure.consumer(self.consumer);
                of_consumer.or_else(|| exposure.not_dispatched(self.consumer))
            }
        };
        of_consumer.unwrap_or_else(|| self.words().kept())
    }

    /// Explains why the plan withdraws a copy.
    fn withdrawn(&self, copies: &DesiredCopies, why: Withdraw) -> Diagnosis {
        let exposure = self.exposure;
        let known = match why {
            Withdraw::Requested(Request::NotPreferred) => {
                let tiers = copies.tiers.as_ref();
                tiers.map(|tiers| self.words().not_preferred(tiers))
            }
            Withdraw::Requested(Request::NotConsumer)
            | Withdraw::Observed(Observation::ServiceConflict, _) => {
                exposure.consumer(self.consumer)
            }
            Withdraw::Requested(Request::Unused(why)) => {
                exposure.facts.unused_by(self.provider, why)
            }
            Withdraw::Requested(Request::OtherNetwork)
            | Withdraw::Observed(Observation::NoEntry, _) => self.unreached(copies),
            Withdraw::Requested(Request::NotProvider)
            | Withdraw::Observed(Observation::NotExported, _) => exposure.unused(self.provider),
            Withdraw::Observed(Observation::HeldByKarmada, _) => {
                Some(self.words().copied_by_karmada())
            }
            Withdraw::Observed(
                Observation::AddressType | Observation::Redundant | Observation::NoPort,
                _,
            ) => return self.skipped(copies),
            Withdraw::Observed(Observation::SourceGone, _) => None,
        };
        known.unwrap_or_else(|| self.not_planned())
    }

    /// Returns the state of the endpoint in a consumer of another network, which holds an entry to
    /// it in place of a copy of its slice.
    fn by_entry(&self) -> Option<ConsumerState> {
        let exposure = self.exposure;
        let copies = exposure.desired(self.consumer)?;
        let held = exposure.copies.get(self.consumer);
        let wanted = copies.wanted.iter();
        let of_provider = wanted.filter(|(_, copy)| copy.provider() == self.provider);
        let mut doors = of_provider.filter_map(|(name, copy)| {
            let (door, ports) = copy.entry_to(self.endpoint.node)?;
            let mut held = held.into_iter().flatten();
            let is_held = held.any(|held| {
                *held.name == **name && held.endpoints.contains_key(&vec![door.address])
            });
            Some((name, copy, door, ports, is_held))
        });
        let (name, copy, door, ports, is_held) = doors.next()?;
        if let Some(refusal) = copy.refusal(&door) {
            let cluster = exposure.facts.index.cluster(self.provider);
            let ranges = cluster.map(|cluster| &*cluster.declared.ranges);
            let why = self.words().refused(&refusal, ranges.unwrap_or_default());
            return Some(self.missing(why));
        }
        Some(match is_held {
            true => self.present(name, self.words().by_entry(&door, ports, self.is_ready())),
            false => self.missing(self.progressing()),
        })
    }

    fn unreached(&self, copies: &DesiredCopies) -> Option<Diagnosis> {
        let why = copies.unreached.get(self.provider)?;
        Some(self.words().unreached(why))
    }

    /// Explains why nothing of the slice is copied.
    fn skipped(&self, copies: &DesiredCopies) -> Diagnosis {
        match copies.skipped(self.provider, self.slice) {
            Some(Skipped::Behind) => self.words().port_behind(),
            Some(Skipped::NoPort(missing)) => match missing.list().first() {
                Some(port) => self.words().missing_port(port, missing.provider_ports()),
                None => self.not_planned(),
            },
            Some(why) => self.slice_words().skipped(why),
            None => self.not_planned(),
        }
    }

    /// Explains why the plan has no decision for the consumer: the whole provider or the whole
    /// consumer is left out.
    fn not_planned(&self) -> Diagnosis {
        let exposure = self.exposure;
        exposure
            .unused(self.provider)
            .or_else(|| exposure.consumer(self.consumer))
            .or_else(|| exposure.not_dispatched(self.consumer))
            .or_else(|| exposure.facts.member(self.provider))
            .unwrap_or_else(|| self.progressing())
    }

    /// Returns the state of the same endpoint in a slice that Kubernetes manages, if its own slice
    /// is redundant.
    fn in_kept_slice(&self) -> Option<ConsumerState> {
        let copies = self.exposure.desired(self.consumer)?;
        if !is_redundant(copies, self.provider, self.slice) {
            return None;
        }
        let (slice, source, endpoint) = self.kept_twin(copies)?;
        let twin = Place {
            slice,
            source,
            endpoint: &endpoint,
            ..*self
        };
        let state = twin.state();
        let agree = endpoint.is_ready() == self.is_ready() || twin.decide().is_err();
        Some(match agree {
            true => state,
            false => ConsumerState {
                diagnosis: self.slice_words().differs_on(
                    self.endpoint.address,
                    self.is_ready(),
                    slice,
                ),
                ..state
            },
        })
    }

    /// Returns the slice of the same ports that Kubernetes manages with the endpoint; one in which
    /// it is ready comes first.
    fn kept_twin(
        &self,
        copies: &DesiredCopies,
    ) -> Option<(&'a str, &'a SourceSlice, SourceEndpoint<'a>)> {
        let facts = self.exposure.facts;
        let sources = facts.index.member(self.provider)?.sources(facts.key);
        let kept = sources.filter(|(name, source)| {
            source.ports == self.source.ports && !is_redundant(copies, self.provider, name)
        });
        let twins = kept.filter_map(|(name, source)| {
            let mut endpoints = source.endpoints();
            let twin = endpoints.find(|one| one.address == self.endpoint.address)?;
            Some((&**name, &**source, twin))
        });
        twins.max_by_key(|(_, _, twin)| twin.is_ready())
    }

    /// Explains an endpoint that a copy holds.
    fn of_copy(&self, copy: &HeldSlice, decision: Result<&WantedCopy, Diagnosis>) -> Diagnosis {
        let words = self.words();
        let wanted = match decision {
            Ok(wanted) => wanted,
            Err(_)
                if self
                    .exposure
                    .keeps(self.provider, self.consumer, &self.copy_name()) =>
            {
                return words.kept();
            }
            Err(why) => return words.still_there(&why),
        };
        let of_provider = self.exposure.facts.member(self.provider);
        if of_provider.is_some_and(|one| one.reason == Reason::MemberUnreachable) {
            return match copy.standby {
                true => words.of_unreachable(),
                false => words.kept(),
            };
        }
        let known = copy.endpoints.get(&self.addresses()).copied();
        let is_older = copy.source.as_ref() != Some(&self.source.version);
        if !copy.standby && known != Some(self.is_ready()) && is_older {
            return words.older();
        }
        if let Some(ServiceProblem::MissingPorts { missing, has, .. }) =
            self.exposure.problem(self.consumer)
        {
            return words.port_not_in_consumer(&self.exposure.service, missing, has);
        }
        // A port of an import leads to those clusters alone that expose it.
        let matters = |missing: &MissingPort| {
            self.exposure.exposure == Exposure::Native
                || matches!(missing, MissingPort::NotInSlice(_))
        };
        let missing = wanted.missing_ports();
        if let Some(port) = missing.list().iter().find(|port| matters(port)) {
            return words.missing_port(port, missing.provider_ports());
        }
        match self.is_ready() {
            true => self.in_its_tier(copy, wanted),
            false => words.unready(),
        }
    }

    /// Explains a ready endpoint that is where it should be, by its tier if the consumer has tiers.
    fn in_its_tier(&self, copy: &HeldSlice, wanted: &WantedCopy) -> Diagnosis {
        let words = self.words();
        let copies = self.exposure.desired(self.consumer);
        let Some(tiers) = copies.and_then(|copies| copies.tiers.as_ref()) else {
            return words.copied();
        };
        let is_standby = wanted.role() != EndpointRole::Ready;
        if is_standby != copy.standby {
            return words.changes_role(is_standby);
        }
        match (is_standby, tiers.place(self.provider.as_str())) {
            (true, _) => words.standby(tiers),
            (false, Some(place)) if place > 0 => words.promoted(tiers),
            (false, _) => words.copied(),
        }
    }

    /// Explains an endpoint that Karmada's slice holds, alone or while Karmada manages the service.
    fn of_karmadas(&self, theirs: &HeldSlice) -> Diagnosis {
        match theirs.endpoints.get(&self.addresses()) {
            _ if !self.is_ready() => self.words().unready(),
            Some(true) => self.words().copied_by_karmada(),
            _ => self.words().behind_in_karmadas(&theirs.name),
        }
    }

    /// Returns the reason why a consumer does not hold a copy that the plan wants.
    fn pending(&self, wanted: &WantedCopy) -> Diagnosis {
        let (exposure, facts) = (self.exposure, self.exposure.facts);
        let of_clusters = facts.member(self.provider);
        of_clusters
            .or_else(|| exposure.consumer(self.consumer))
            .or_else(|| self.name_taken())
            .or_else(|| self.newer_copy(wanted))
            .or_else(|| exposure.not_dispatched(self.consumer))
            .unwrap_or_else(|| self.progressing())
    }

    /// Reports that something else has the name of the copy.
    fn name_taken(&self) -> Option<Diagnosis> {
        let facts = self.exposure.facts;
        let member = facts.index.member(self.consumer)?;
        let name = self.copy_name();
        let copy = member.copy(facts.key, &name);
        let of_hub = copy.is_some_and(|copy| *copy.view.hub != *facts.index.hub_uid());
        let copies = self.exposure.desired(self.consumer)?;
        let mut taken = copies.taken_names(member, facts.key);
        let is_taken = of_hub || taken.any(|taken| *taken == name);
        is_taken.then(|| self.words().name_taken(&name, of_hub))
    }

    /// Reports that the copy was made from a newer version of the slice than the provider shows.
    fn newer_copy(&self, wanted: &WantedCopy) -> Option<Diagnosis> {
        let facts = self.exposure.facts;
        let member = facts.index.member(self.consumer)?;
        let name = self.copy_name();
        let copy = member.copy(facts.key, &name)?;
        let is_newer = wanted.compare(&copy.view) == CopyState::NewerThanSource;
        is_newer.then(|| self.words().newer_copy(&name))
    }

    /// Reports a write that is under way, or what the controller reports of it.
    fn progressing(&self) -> Diagnosis {
        let held = self.exposure.copies.get(self.consumer);
        let mut held = held.into_iter().flatten();
        let is_held = held.any(|held| self.is_copy_of(held));
        match self.exposure.reported(self.provider) {
            Some(ready) if ready.reason == Reason::WriteConflict => {
                self.words().write_conflict(is_held, &ready.message)
            }
            ready => {
                let reported = ready.map(quote);
                self.words().not_written(is_held, reported.as_deref())
            }
        }
    }
}

/// Whether the plan copies slices that Kubernetes manages instead of that one.
fn is_redundant(copies: &DesiredCopies, provider: &ClusterName, slice: &str) -> bool {
    matches!(
        copies.skipped(provider, slice),
        Some(Skipped::Unfit(Unfit::Redundant(_)))
    )
}
