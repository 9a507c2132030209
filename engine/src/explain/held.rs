//! Slices of other clusters' endpoints in consumers: causeway's copies, and Karmada's slices.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use causeway_wire::{Places, RawSlice, encode};
use k8s_openapi::api::discovery::v1::EndpointSlice;

use super::Facts;
use crate::model::slice::{
    Exposure, ObservedSlice, SliceManager, SliceRole, SourceSlice, SourceVersion,
};

/// EndpointSlice of a member that holds endpoints of a provider.
pub(super) struct HeldSlice {
    pub(super) name: String,
    pub(super) provider: String,
    /// Version of the provider's slice from which it was made, if it records one.
    pub(super) source: Option<SourceVersion>,
    /// Whether its endpoints are standby endpoints.
    pub(super) standby: bool,
    /// Whether Karmada's own controllers made it.
    pub(super) is_karmadas: bool,
    pub(super) content: SourceSlice,
    /// Readiness of each endpoint, by its addresses.
    pub(super) endpoints: BTreeMap<Vec<IpAddr>, bool>,
}

impl HeldSlice {
    /// Reads a slice that holds endpoints of another cluster: a copy of this hub's causeway, or a
    /// slice of Karmada's own controllers, which serve native exposures alone.
    pub(super) fn read(
        slice: &EndpointSlice,
        facts: &Facts<'_>,
        exposure: Exposure,
    ) -> Option<Self> {
        let (key, provider, copy) = match ObservedSlice::read(slice).role {
            SliceRole::Copy(key, copy)
                if copy.exposure == exposure && *copy.hub == *facts.index.hub_uid() =>
            {
                (key, copy.source_cluster.clone()?, Some(copy))
            }
            SliceRole::Other(key, other) if exposure == Exposure::Native => {
                (key, other.karmadas?.provider.clone(), None)
            }
            _ => return None,
        };
        let message = encode(slice);
        let content = RawSlice::decode(&message).ok()?;
        let content = content.source(SliceManager::Other, &mut Places::default())?;
        (key == *facts.key).then(|| Self {
            name: slice.metadata.name.clone().unwrap_or_default(),
            provider: provider.to_string(),
            standby: copy.as_ref().is_some_and(|copy| copy.standby),
            is_karmadas: copy.is_none(),
            source: copy.and_then(|copy| copy.source),
            endpoints: of_source(&content).collect(),
            content,
        })
    }
}

impl Facts<'_> {
    /// Returns the ready addresses of a provider; `None` if they are unknown.
    pub(super) fn ready_in(&self, provider: &str) -> Option<BTreeSet<Vec<IpAddr>>> {
        let member = self.index.member(provider)?;
        let sources = member.sources(self.key);
        let endpoints = sources.flat_map(|(_, source)| of_source(source));
        let ready = endpoints.filter(|(_, ready)| *ready);
        let ready = ready.map(|(addresses, _)| addresses);
        member.sources_are_known(self.key).then(|| ready.collect())
    }
}

/// Returns the addresses of each endpoint of a slice, with its readiness.
fn of_source(slice: &SourceSlice) -> impl Iterator<Item = (Vec<IpAddr>, bool)> {
    let endpoints = slice.endpoints();
    endpoints.map(|one| (one.addresses().collect(), one.is_ready()))
}
