//! Copies beside slices that Karmada's own controllers maintain in the same consumer.

use std::net::IpAddr;
use std::sync::Arc;

use causeway::domain::{ClusterName, ServiceKey};

use super::decision::{Hold, Observation, Ruling, Withdraw};
use super::{CopyState, DesiredCopies, WantedCopy};
use crate::evidence::Proof;
use crate::model::map::HashSet;
use crate::model::slice::{Exposure, KarmadasSlice, SlicePort, SourceEndpoint, SourceSlice};
use crate::observed::member::Member;

/// Slice of a provider with ready endpoints that neither causeway nor Karmada delivers to a
/// consumer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Undelivered {
    /// Provider.
    pub provider: ClusterName,
    /// Name of the slice in the provider.
    pub slice: Arc<str>,
}

impl DesiredCopies {
    /// Yields the endpoints to Karmada's slices behind `service`. Causeway creates no copy, and
    /// deletes one once Karmada's slice of the same source in the consumer has the copy's ports and
    /// every ready endpoint of the copy. Returns the slices with ready endpoints that are neither
    /// in an up-to-date copy nor in Karmada's slice.
    pub(crate) fn leave_to_karmada(
        &mut self,
        consumer: &Member,
        key: &ServiceKey,
        service: &ServiceKey,
        exposure: Exposure,
    ) -> Vec<Undelivered> {
        let mut undelivered = Vec::new();
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
            if !serves && ready(&wanted.source).next().is_some() {
                undelivered.push(Undelivered {
                    provider: wanted.provider().clone(),
                    slice: wanted.name.clone(),
                });
            }
            if own.is_none() {
                unwanted.insert(name.clone(), Ruling::Hold(Hold::LeftToKarmada));
            }
            own.is_some()
        });
        undelivered
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

/// Returns the endpoints that get traffic.
pub(crate) fn ready(slice: &SourceSlice) -> impl Iterator<Item = SourceEndpoint<'_>> {
    slice.endpoints().filter(SourceEndpoint::is_ready)
}
