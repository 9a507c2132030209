//! State of one endpoint in one consumer.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use causeway::api::labels;
use causeway::domain::{AddressRefusal, ClusterName, describe_ports};

use super::exposure::{ExposedService, skipped, stop_writer};
use super::observed::HeldSlice;
use super::reported::quoted;
use super::{ConsumerState, Diagnosis, EndpointState};
use crate::model::slice::{Exposure, SourceEndpoint, SourceSlice};
use crate::plan::copies::{
    CopyState, DesiredCopies, EndpointRole, MissingPort, MissingPorts, Skipped, WantedCopy,
    copy_name,
};
use crate::plan::tiers::TierState;
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
        let (provider, consumer) = (self.provider, self.consumer);
        if provider == consumer && self.exposure.exposure == Exposure::Native {
            let own = Diagnosis::new(Reason::Own, format!("{consumer} has it itself"));
            return self.present(self.slice, own);
        }
        if let Some(state) = self.in_kept_slice() {
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
            _ => ConsumerState {
                cluster: consumer.to_string(),
                state: EndpointState::Missing,
                slice: None,
                diagnosis: match decision {
                    Ok(wanted) => self.pending(wanted),
                    Err(why) => why,
                },
            },
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
        let (exposure, provider, consumer) = (self.exposure, self.provider, self.consumer);
        if let Some(obstacle) = exposure
            .obstacle
            .clone()
            .or_else(|| exposure.unused(provider))
        {
            return Err(obstacle);
        }
        let Some(copies) = exposure.desired(consumer) else {
            return Err(self.undecided());
        };
        match copies.skipped(provider, self.slice) {
            Some(Skipped::Redundant(_)) => return Err(self.undecided()),
            Some(Skipped::NoPort(gaps)) => return Err(self.no_port(gaps)),
            Some(Skipped::Behind) => return Err(self.port_not_in_slice("a port of it")),
            Some(why) => return Err(skipped(provider, self.slice, why)),
            None => {}
        }
        let name = self.copy_name();
        let Some(wanted) = copies.wanted.get(&name) else {
            return Err(self.not_preferred().unwrap_or_else(|| self.undecided()));
        };
        match wanted.refusal(self.endpoint) {
            Some(refusal) => Err(self.refused(&refusal)),
            None => Ok(wanted),
        }
    }

    /// Returns the name of the copy of its slice.
    fn copy_name(&self) -> Arc<str> {
        let address_type = self.source.address_type;
        copy_name(
            self.exposure.exposure,
            self.provider,
            self.slice,
            address_type,
        )
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
                diagnosis: self.disagreement(slice),
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

    /// Reports that the slice and one that Kubernetes manages differ on the readiness of the
    /// endpoint.
    fn disagreement(&self, kept: &str) -> Diagnosis {
        let (address, provider) = (self.endpoint.address, self.provider);
        let (as_own, as_kept) = match self.is_ready() {
            true => ("ready", "not ready"),
            false => ("not ready", "ready"),
        };
        let message = format!(
            "EndpointSlice {} of {provider} has {address} as {as_own}, and EndpointSlice {kept}, which Kubernetes keeps and which \
             decides, as {as_kept}",
            self.slice
        );
        let disagreement = Diagnosis::new(Reason::WritersDisagree, message);
        disagreement.fix(stop_writer(self.exposure, provider))
    }

    /// Returns the reason why the plan does not want the endpoint, where no decision about its
    /// slice has one.
    fn undecided(&self) -> Diagnosis {
        let exposure = self.exposure;
        let of_consumer = exposure.consumer(self.consumer);
        let unexplained = || {
            let message = format!(
                "nothing that is known keeps it from {}{}",
                self.consumer,
                self.reported()
            );
            Diagnosis::new(Reason::Unexplained, message).fix(self.wait())
        };
        of_consumer
            .or_else(|| exposure.not_dispatched(self.consumer))
            .or_else(|| exposure.facts.member(self.provider))
            .unwrap_or_else(unexplained)
    }

    fn refused(&self, refusal: &AddressRefusal) -> Diagnosis {
        let name = self.provider;
        let host = |address: &IpAddr| {
            let bits = if address.is_ipv4() { 32 } else { 128 };
            format!("{address}/{bits}")
        };
        let annotate = |ranges: &[String]| {
            format!(
                "kubectl annotate cluster {name} --overwrite {}={}",
                labels::ENDPOINT_CIDRS,
                ranges.join(",")
            )
        };
        let (reason, message, remedy) = match refusal {
            AddressRefusal::NotRoutable(ip) => (
                Reason::AddressNotRoutable,
                format!("{ip} of {name} does not lead to another node"),
                format!(
                    "in {name}: give the pods, or the EndpointSlice, addresses that other clusters can reach"
                ),
            ),
            AddressRefusal::Outside(ip) => {
                let own = self.exposure.facts.index.cluster(name);
                let ranges = own.into_iter().flat_map(|own| &own.declared.ranges);
                let ranges = ranges.map(ToString::to_string).chain([host(ip)]);
                (
                    Reason::AddressOutsideRanges,
                    format!("{ip} is outside the endpoint-cidrs of {name}"),
                    annotate(&ranges.collect::<Vec<_>>()),
                )
            }
            AddressRefusal::OfAnother(ip, other) => (
                Reason::AddressOutsideRanges,
                format!(
                    "{ip} of {name} is in the endpoint-cidrs of {other}, which alone may give it"
                ),
                annotate(&[host(ip)]),
            ),
        };
        Diagnosis::new(reason, message).fix(remedy)
    }

    /// Reports that clients of the consumer may use none of the slice's ports.
    fn no_port(&self, gaps: &MissingPorts) -> Diagnosis {
        match gaps.list().first() {
            None => self.undecided(),
            Some(gap) => self.missing_port(gap, gaps),
        }
    }

    fn missing_port(&self, gap: &MissingPort, gaps: &MissingPorts) -> Diagnosis {
        match gap {
            MissingPort::NotInProvider(port) => {
                let (key, provider) = (self.exposure.facts.key, self.provider);
                let has = match gaps.provider_ports() {
                    [] => "no port".to_owned(),
                    has => describe_ports(has),
                };
                let message =
                    format!("Service {key} of {provider} has no port {port}; it has {has}");
                let missing = Diagnosis::new(Reason::PortNotInProvider, message);
                missing.fix(self.edit_service(provider))
            }
            MissingPort::NotInSlice(port) => self.port_not_in_slice(&format!("port {port}")),
        }
    }

    fn port_not_in_slice(&self, port: &str) -> Diagnosis {
        let (key, provider) = (self.exposure.facts.key, self.provider);
        let message = format!(
            "the pods behind EndpointSlice {} of {provider} do not serve {port} of Service {key}: its targetPort is not one of \
             theirs, or the slice is behind",
            self.slice
        );
        let missing = Diagnosis::new(Reason::PortNotInSlice, message);
        missing.fix(self.edit_service(provider))
    }

    fn edit_service(&self, cluster: &ClusterName) -> String {
        let key = self.exposure.facts.key;
        format!(
            "in {cluster}: kubectl -n {} edit service {}",
            key.namespace, key.name
        )
    }

    /// Explains an endpoint that a copy holds.
    fn of_copy(&self, copy: &HeldSlice, decision: Result<&WantedCopy, Diagnosis>) -> Diagnosis {
        let (provider, consumer) = (self.provider, self.consumer);
        let wanted = match decision {
            Ok(wanted) => wanted,
            Err(why) => return self.of_unwanted(why),
        };
        if self
            .exposure
            .facts
            .member(provider)
            .is_some_and(|one| one.reason == Reason::MemberUnreachable)
        {
            return match copy.standby {
                true => unreachable(provider, consumer),
                false => kept(provider, consumer),
            };
        }
        let known = copy.endpoints.get(&self.addresses()).copied();
        let is_older = copy.source.as_ref() != Some(&self.source.version);
        if !copy.standby && known != Some(self.is_ready()) && is_older {
            let message =
                format!("{consumer} has it as it was before the last change in {provider}");
            return Diagnosis::new(Reason::Progressing, message).fix(self.wait());
        }
        if let Some(ServiceProblem::MissingPorts { missing, has, .. }) =
            self.exposure.problem(consumer)
        {
            let key = &self.exposure.service;
            let message = format!(
                "Service {key} of {consumer} has no port {}; it has {}",
                describe_ports(missing),
                describe_ports(has)
            );
            let missing = Diagnosis::new(Reason::PortNotInConsumer, message);
            return missing.fix(self.edit_service(consumer));
        }
        // A port of an import leads to those clusters alone that expose it.
        let matters = |gap: &MissingPort| {
            self.exposure.exposure == Exposure::Native || matches!(gap, MissingPort::NotInSlice(_))
        };
        let gaps = wanted.missing_ports();
        if let Some(gap) = gaps.list().iter().find(|gap| matters(gap)) {
            return self.missing_port(gap, &gaps);
        }
        match self.is_ready() {
            true => self.in_its_tier(copy, wanted),
            false => self.unready(),
        }
    }

    /// Explains a ready endpoint that is where it should be, by its tier if the consumer has tiers.
    fn in_its_tier(&self, copy: &HeldSlice, wanted: &WantedCopy) -> Diagnosis {
        let (provider, consumer) = (self.provider, self.consumer);
        let has_it = Diagnosis::new(Reason::Copied, format!("{consumer} has it"));
        let copies = self.exposure.desired(consumer);
        let Some(tiers) = copies.and_then(|copies| copies.tiers.as_ref()) else {
            return has_it;
        };
        let is_standby = wanted.role() != EndpointRole::Ready;
        if is_standby != copy.standby {
            let to_be = if is_standby {
                "a standby endpoint"
            } else {
                "ready"
            };
            let message = format!("{consumer} has it, and it is to be {to_be} there");
            return Diagnosis::new(Reason::Progressing, message).fix(self.wait());
        }
        let name = tiers
            .tier_of(provider)
            .map(TierState::name)
            .unwrap_or_default();
        match (is_standby, tiers.place(provider.as_str())) {
            (true, None) => Diagnosis::new(Reason::Standby, tiers.why_unreachable(provider)),
            (true, Some(_)) => {
                let by = match tiers.uses_standby {
                    true => "used where no other is ready",
                    false => {
                        "not ready until the controller promotes it, for the cluster uses no standby endpoints"
                    }
                };
                let message = format!("prefer: {}; {name} is {by}", tiers.why_standby());
                Diagnosis::new(Reason::Standby, message)
            }
            (false, Some(place)) if place > 0 => {
                let message = format!("prefer: {name} is used, for {}", tiers.why_promoted());
                Diagnosis::new(Reason::Promoted, message)
            }
            (false, _) => has_it,
        }
    }

    /// Reports that no tier of the consumer includes the provider.
    fn not_preferred(&self) -> Option<Diagnosis> {
        let copies = self.exposure.desired(self.consumer)?;
        let tiers = copies.tiers.as_ref()?;
        let role = tiers.role(self.provider);
        let words: Vec<_> = tiers.all.iter().map(TierState::name).collect();
        let (provider, consumer) = (self.provider, self.consumer);
        let message = format!(
            "{provider} is in none of the tiers of {consumer} (prefer: {})",
            words.join(", ")
        );
        let remedy = "add any, or cluster/NAME, to the annotation mcs.causeway.dev/prefer";
        role.is_none()
            .then(|| Diagnosis::new(Reason::NotPreferred, message).fix(remedy))
    }

    /// Explains an endpoint that a copy holds although the plan does not want it, or leaves the
    /// copy unchanged.
    fn of_unwanted(&self, why: Diagnosis) -> Diagnosis {
        let (provider, consumer) = (self.provider, self.consumer);
        let name = self.copy_name();
        if self.exposure.keeps(provider, consumer, &name) {
            return kept(provider, consumer);
        }
        let message = format!("{consumer} still has it, though {}", why.message);
        Diagnosis::new(Reason::Progressing, message).fix(self.wait())
    }

    /// Explains an endpoint that Karmada's slice holds, alone or while Karmada manages the service.
    fn of_karmadas(&self, theirs: &HeldSlice) -> Diagnosis {
        let (consumer, provider, name) = (self.consumer, self.provider, &theirs.name);
        if !self.is_ready() {
            return self.unready();
        }
        if theirs.endpoints.get(&self.addresses()) != Some(&true) {
            let message = format!(
                "{consumer} has it by Karmada's EndpointSlice {name}, as it was before it was ready in {provider}"
            );
            let behind = Diagnosis::new(Reason::NotDispatchedByKarmada, message);
            return behind.fix(self.exposure.facts.adopt());
        }
        let message = format!("{consumer} has it by Karmada's EndpointSlice");
        Diagnosis::new(Reason::CopiedByKarmada, message)
    }

    fn unready(&self) -> Diagnosis {
        let (consumer, provider) = (self.consumer, self.provider);
        let message = format!("{consumer} has it; it gets no traffic there, for it is not ready");
        Diagnosis::new(Reason::NotReady, message).fix(format!(
            "in {provider}: kubectl -n {} get pods",
            self.exposure.facts.key.namespace
        ))
    }

    /// Returns the reason why a consumer does not hold a copy that the plan wants.
    fn pending(&self, wanted: &WantedCopy) -> Diagnosis {
        let (exposure, facts) = (self.exposure, self.exposure.facts);
        let of_clusters = || {
            facts
                .member(self.provider)
                .or_else(|| exposure.consumer(self.consumer))
        };
        of_clusters()
            .or_else(|| self.name_taken())
            .or_else(|| self.ahead(wanted))
            .or_else(|| exposure.not_dispatched(self.consumer))
            .unwrap_or_else(|| self.progressing())
    }

    /// Reports that something else has the name of the copy.
    fn name_taken(&self) -> Option<Diagnosis> {
        let (exposure, facts) = (self.exposure, self.exposure.facts);
        let (consumer, namespace) = (self.consumer, &facts.key.namespace);
        let member = facts.index.member(consumer)?;
        let name = self.copy_name();
        let copies = exposure.desired(consumer)?;
        let mut taken = copies.taken_names(member, facts.key);
        let hub = facts.index.hub_uid();
        let of_other = member.copy(facts.key, &name);
        let whose = match of_other.is_some_and(|copy| *copy.view.hub != *hub) {
            true => "is another hub's",
            false if taken.any(|taken| *taken == name) => "is not causeway's",
            false => return None,
        };
        let message = format!(
            "{consumer} has an EndpointSlice {name} that {whose}, in the place of the copy"
        );
        Some(Diagnosis::new(Reason::NameTaken, message).fix(format!(
            "in {consumer}, if nobody needs it: kubectl -n {namespace} delete endpointslice {name}"
        )))
    }

    /// Reports that the copy was made from a newer version of the slice than the provider shows.
    fn ahead(&self, wanted: &WantedCopy) -> Option<Diagnosis> {
        let facts = self.exposure.facts;
        let (provider, consumer) = (self.provider, self.consumer);
        let name = self.copy_name();
        let copy = facts.index.member(consumer)?.copy(facts.key, &name)?;
        (wanted.compare(&copy.view) == CopyState::NewerThanSource).then(|| {
            let message = format!(
                "EndpointSlice {name} of {consumer} was made from a newer version of EndpointSlice {} than {provider} shows (a \
                 restored etcd?); it stays until a second list of {provider} confirms that the version is lost",
                self.slice
            );
            Diagnosis::new(Reason::DeletionsSuspended, message).fix(self.wait())
        })
    }

    fn progressing(&self) -> Diagnosis {
        let (provider, consumer) = (self.provider, self.consumer);
        let mut held = self.exposure.copies.get(consumer).into_iter().flatten();
        let is_held = held.any(|held| self.is_copy_of(held));
        if let Some(ready) = self.exposure.reported(provider)
            && ready.reason == Reason::WriteConflict
        {
            let has = match is_held {
                true => "has a copy that lacks it",
                false => "has no copy of it",
            };
            let message = format!("{consumer} {has}: {}", ready.message);
            return Diagnosis::new(Reason::WriteConflict, message)
                .fix("stop the other writer that the message names");
        }
        let message = match is_held {
            true => format!(
                "{consumer} has a copy of an older version of this EndpointSlice of {provider}"
            ),
            false => format!(
                "nothing that is seen stands in the way, and {consumer} has no copy of it yet"
            ),
        };
        let message = format!("{message}{}", self.reported());
        Diagnosis::new(Reason::Progressing, message).fix(self.wait())
    }

    /// Returns the controller's report of the service or of the export, which includes endpoints
    /// that are not copied.
    fn reported(&self) -> String {
        let ready = self.exposure.reported(self.provider);
        ready.map_or_else(String::new, |ready| {
            format!("; the controller says {}", quoted(ready))
        })
    }

    fn wait(&self) -> String {
        let key = self.exposure.facts.key;
        format!(
            "wait a moment; if it stays: kubectl mcs status {} -n {}, and the log of causeway-controller",
            key.name, key.namespace
        )
    }
}

/// Whether the plan copies slices that Kubernetes manages instead of that one.
fn is_redundant(copies: &DesiredCopies, provider: &ClusterName, slice: &str) -> bool {
    matches!(copies.skipped(provider, slice), Some(Skipped::Redundant(_)))
}

/// Reports a provider that cannot be reached and whose endpoints are therefore standby endpoints.
fn unreachable(provider: &ClusterName, consumer: &ClusterName) -> Diagnosis {
    let message =
        format!("{provider} cannot be reached; {consumer} uses it where no other is ready");
    Diagnosis::new(Reason::Standby, message)
}

/// Reports that a consumer retains the last endpoints of a provider.
pub(super) fn kept(provider: &ClusterName, consumer: &ClusterName) -> Diagnosis {
    let message = format!("{consumer} keeps what {provider} gave last");
    Diagnosis::new(Reason::Kept, message)
}
