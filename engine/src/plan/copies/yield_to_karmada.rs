//! Copies beside slices that Karmada's own controllers maintain in the same consumer.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use causeway::domain::{ClusterName, ServiceKey};

use super::decision::{Hold, Observation, OfProvider, Ruling, Withdraw};
use super::name::entry_names;
use super::{CopyState, DesiredCopies, WantedCopy};
use crate::evidence::Proof;
use crate::model::map::HashSet;
use crate::model::slice::{Exposure, KarmadasSlice, SlicePort, SourceEndpoint, SourceSlice};
use crate::observed::Index;
use crate::observed::member::Member;
use crate::plan::providers::{Provider, candidates};

impl DesiredCopies {
    /// Yields the endpoints to Karmada's slices behind the exposure's Service. Causeway creates no
    /// copy, and deletes one once Karmada's slice of the same source in the consumer has the copy's
    /// ports and every ready endpoint of the copy. After a change of a provider's network its
    /// copies stay, as no copy in the new form is created. Returns the slices with ready endpoints
    /// that are neither in an up-to-date copy nor in Karmada's slice, except those of other
    /// networks ([`undelivered_apart`]).
    pub(crate) fn leave_to_karmada(
        &mut self,
        index: &Index,
        consumer: &Member,
        key: &ServiceKey,
        exposure: Exposure,
    ) -> Vec<(ClusterName, Arc<str>)> {
        let (hub, service) = (index.hub_uid(), &exposure.service(key));
        self.leave_entries(index, consumer, key, service);
        let mut undelivered = Vec::new();
        let mut not_begun = BTreeSet::new();
        let unwanted = &mut self.unwanted;
        self.wanted.retain(|name, wanted| {
            let theirs = consumer.karmadas_slice(service, &wanted.karmadas_name(exposure));
            if let Some(theirs) = theirs.filter(|theirs| wanted.is_in(&theirs.slice)) {
                unwanted.insert(name.clone(), held_by_karmada(theirs));
                return false;
            }
            let own = consumer.copy(key, name);
            let stands = own.filter(|own| !own.is_deleted());
            let serves = stands.is_some_and(|own| wanted.compare(&own.view) != CopyState::Outdated);
            let is_apart = wanted.template.is_of_entry();
            if !serves && !is_apart && is_ready(&wanted.source) {
                undelivered.push((wanted.provider().clone(), wanted.name.clone()));
            }
            if own.is_none() {
                unwanted.insert(name.clone(), Ruling::Hold(Hold::LeftToKarmada));
                not_begun.insert(wanted.provider().clone());
            }
            own.is_some()
        });
        for (provider, decision) in &mut self.providers {
            let provider = &*provider;
            let form = (provider, self.entries.contains_key(provider));
            if not_begun.contains(provider)
                && matches!(decision, OfProvider::Known(_))
                && holds_other_form(consumer, key, (hub, exposure), form)
            {
                *decision = OfProvider::All(Ruling::Hold(Hold::LeftToKarmada));
                undelivered.retain(|(lacking, _)| lacking != provider);
            }
        }
        undelivered
    }

    /// Yields the copies of each provider of another network to Karmada's slices of it behind
    /// `service`. No slice of Karmada's has the addresses of an entry: one with a ready endpoint
    /// replaces the copies, and any does if the provider has no ready endpoint. A provider that has
    /// no entry is Karmada's to deliver.
    fn leave_entries(
        &mut self,
        index: &Index,
        consumer: &Member,
        key: &ServiceKey,
        service: &ServiceKey,
    ) {
        let (wanted, providers) = (&mut self.wanted, &mut self.providers);
        self.entries.retain(|provider, entry| {
            let member = index.member(provider);
            let may_serve = member.is_none_or(|member| member.has_ready(key) != Some(false));
            let slices = consumer.karmadas_slices(service);
            let mut slices = slices.filter(|(_, one)| *one.provider == *provider.as_str());
            let theirs = slices.find(|(_, one)| !may_serve || is_ready(&one.slice));
            let Some((_, theirs)) = theirs else {
                return entry.is_ok();
            };
            wanted.retain(|_, wanted| wanted.provider() != provider);
            let mut decisions = providers.iter_mut();
            if let Some((_, decision)) = decisions.find(|(name, _)| name == provider) {
                *decision = OfProvider::All(held_by_karmada(theirs));
            }
            false
        });
    }

    /// Yields the sources of which Karmada's slice exists behind `service`, which is causeway's.
    /// Causeway creates no copy beside that slice, and deletes one once the slice has the copy's
    /// ports and every ready endpoint of the copy. All other sources are copied as usual.
    pub(crate) fn yield_to_karmada(
        &mut self,
        consumer: &Member,
        key: &ServiceKey,
        service: &ServiceKey,
        exposure: Exposure,
    ) {
        let unwanted = &mut self.unwanted;
        self.wanted.retain(|name, wanted| {
            let theirs = consumer.karmadas_slice(service, &wanted.karmadas_name(exposure));
            let Some(theirs) = theirs else { return true };
            let ruling = match consumer.copy(key, name) {
                _ if wanted.is_in(&theirs.slice) => held_by_karmada(theirs),
                Some(_) => return true,
                None => Ruling::Hold(Hold::LeftToKarmada),
            };
            unwanted.insert(name.clone(), ruling);
            false
        });
    }
}

impl WantedCopy {
    /// Returns the name of Karmada's slice of the same source (karmada-io/karmada,
    /// ensureEndpointSliceWork in
    /// `pkg/controllers/multiclusterservice/endpointslice_dispatch_controller.go`;
    /// GenerateEndpointSliceName in `pkg/util/names`).
    fn karmadas_name(&self, exposure: Exposure) -> String {
        let prefix = match exposure {
            Exposure::Native => "",
            Exposure::Clusterset => "imported-",
        };
        karmadas_name(prefix, self.provider().as_str(), &self.name)
    }

    /// Whether the slice has the ports of the copy and every ready endpoint of it.
    fn is_in(&self, slice: &SourceSlice) -> bool {
        let copy = self.slice("");
        let theirs: HashSet<IpAddr> = ready_addresses(slice).collect();
        let mut endpoints = copy.endpoints.iter();
        let has_all = endpoints.all(|endpoint| {
            let conditions = endpoint.conditions.as_ref();
            let waits = conditions.and_then(|given| given.ready) == Some(false);
            let mut addresses = endpoint.addresses.iter();
            waits || addresses.all(|one| one.parse().is_ok_and(|one| theirs.contains(&one)))
        });
        let offers = |name: &str, number: Option<i32>, protocol: &str| {
            let same = |port: &SlicePort| {
                *port.name == *name
                    && port.number == number
                    && port.protocol.to_string() == protocol
            };
            slice.ports.iter().any(same)
        };
        let mut ports = copy.ports.iter().flatten();
        has_all
            && ports.all(|port| {
                let name = port.name.as_deref().unwrap_or_default();
                offers(name, port.port, port.protocol.as_deref().unwrap_or("TCP"))
            })
    }
}

/// Whether a consumer holds a copy of a provider in the form that is not wanted: copies are made
/// from an entry (`is_entered`) or from slices.
fn holds_other_form(
    consumer: &Member,
    key: &ServiceKey,
    (hub, exposure): (&str, Exposure),
    (provider, is_entered): (&ClusterName, bool),
) -> bool {
    let entries = entry_names(exposure, provider, &key.name);
    consumer.copies(key).any(|(name, copy)| {
        let source = copy.view.source_cluster.as_deref();
        copy.view.is_of(hub, exposure)
            && source == Some(provider.as_str())
            && entries.contains(name) != is_entered
    })
}

/// Lists the slices with ready endpoints of a provider of another network that a consumer lacks: it
/// holds neither a copy of the provider nor Karmada's slice.
pub(crate) fn undelivered_apart(
    consumer: &Member,
    key: &ServiceKey,
    hub: &str,
    provider: &Provider<'_>,
) -> Vec<(ClusterName, Arc<str>)> {
    let name = provider.name.as_str();
    let mut copies = consumer.copies(key).map(|(_, copy)| &copy.view);
    let is_held = copies.any(|copy| {
        copy.is_of(hub, Exposure::Native) && copy.source_cluster.as_deref() == Some(name)
    });
    let sources = provider.member.filter(|_| !is_held).into_iter();
    let sources = sources.flat_map(|member| candidates(member, key));
    let lacked = sources.filter(|(slice, source)| {
        let theirs = consumer.karmadas_slice(key, &karmadas_name("", name, slice));
        theirs.is_none() && source.as_ref().is_ok_and(|source| is_ready(source))
    });
    let lacked = lacked.map(|(slice, _)| (provider.name.clone(), slice.clone()));
    lacked.collect()
}

fn held_by_karmada(theirs: &KarmadasSlice) -> Ruling {
    let proof = Proof::of_presence(theirs);
    Ruling::Withdraw(Withdraw::Observed(Observation::HeldByKarmada, proof))
}

/// Whether a slice of Karmada's in a consumer differs from its provider: it shows other ready
/// endpoints than its source, or ready ones of a source that was deleted.
pub(crate) fn lags(
    name: &str,
    theirs: &KarmadasSlice,
    provider: &Member,
    key: &ServiceKey,
) -> bool {
    let mut sources = provider.sources(key);
    let source = sources.find(|(source, _)| karmadas_name("", &theirs.provider, source) == name);
    let has: HashSet<IpAddr> = ready_addresses(&theirs.slice).collect();
    match source {
        Some((_, source)) => has != ready_addresses(source).collect(),
        None => !has.is_empty(),
    }
}

fn karmadas_name(prefix: &str, provider: &str, slice: &str) -> String {
    format!("{prefix}{provider}-{slice}")
}

fn ready_addresses(slice: &SourceSlice) -> impl Iterator<Item = IpAddr> {
    let endpoints = ready(slice);
    endpoints.flat_map(|endpoint| endpoint.addresses().collect::<Vec<_>>())
}

fn is_ready(slice: &SourceSlice) -> bool {
    ready(slice).next().is_some()
}

/// Returns the endpoints that get traffic.
pub(crate) fn ready(slice: &SourceSlice) -> impl Iterator<Item = SourceEndpoint<'_>> {
    slice.endpoints().filter(SourceEndpoint::is_ready)
}
