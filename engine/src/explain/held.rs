//! Slices of other clusters' endpoints in consumers: causeway's copies, and Karmada's slices.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use causeway::domain::ClusterName;
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointSlice};

use super::Facts;
use crate::model::slice::{Exposure, ObservedSlice, SliceRole, SourceSlice, SourceVersion};

/// EndpointSlice of a consumer that holds endpoints of a provider.
pub(super) struct HeldSlice {
    pub(super) name: String,
    pub(super) provider: String,
    /// Version of the provider's slice from which it was made, if it records one.
    pub(super) source: Option<SourceVersion>,
    /// Whether its endpoints are standby endpoints.
    pub(super) standby: bool,
    /// Readiness of each endpoint, by its addresses.
    pub(super) endpoints: BTreeMap<Vec<IpAddr>, bool>,
}

impl HeldSlice {
    /// Returns the ready addresses of the slice that are not among the `ready` ones of its
    /// provider.
    pub(super) fn stale(&self, ready: &BTreeSet<Vec<IpAddr>>) -> Vec<IpAddr> {
        let offered = self.endpoints.iter();
        let stale =
            offered.filter(|(addresses, is_ready)| **is_ready && !ready.contains(*addresses));
        stale
            .flat_map(|(addresses, _)| addresses)
            .copied()
            .collect()
    }
}

impl Facts<'_> {
    /// Returns the copies of this hub's causeway that a consumer holds.
    pub(super) fn copies(&self, consumer: &ClusterName, exposure: Exposure) -> Vec<HeldSlice> {
        let Some(Ok(lists)) = self.members.get(consumer) else {
            return Vec::new();
        };
        let hub = self.index.hub_uid();
        let held = |slice: &EndpointSlice| {
            let SliceRole::Copy(key, copy) = ObservedSlice::read(slice).role else {
                return None;
            };
            let is_one = key == *self.key && copy.exposure == exposure && *copy.hub == *hub;
            Some(HeldSlice {
                name: slice.metadata.name.clone().filter(|_| is_one)?,
                provider: copy.source_cluster?.to_string(),
                source: copy.source,
                standby: copy.standby,
                endpoints: slice.endpoints.iter().map(stored).collect(),
            })
        };
        lists.slices.iter().filter_map(held).collect()
    }

    /// Returns the slices of other clusters that Karmada's own controllers have behind the service
    /// in a consumer.
    pub(super) fn karmadas_slices(&self, consumer: &ClusterName) -> Vec<HeldSlice> {
        let member = self.index.member(consumer).into_iter();
        let slices = member.flat_map(|member| member.karmadas_slices(self.key));
        let slices = slices.map(|(name, theirs)| HeldSlice {
            name: name.to_string(),
            provider: theirs.provider.to_string(),
            source: None,
            standby: false,
            endpoints: of_source(&theirs.slice).collect(),
        });
        slices.collect()
    }

    /// Returns the ready addresses of a provider; `None` if they are unknown.
    pub(super) fn ready_in(&self, provider: &str) -> Option<BTreeSet<Vec<IpAddr>>> {
        let member = self.index.member(provider)?;
        let sources = member
            .sources(self.key)
            .flat_map(|(_, source)| of_source(source));
        let ready = sources
            .filter(|(_, ready)| *ready)
            .map(|(addresses, _)| addresses);
        member.sources_are_known(self.key).then(|| ready.collect())
    }
}

fn of_source(slice: &SourceSlice) -> impl Iterator<Item = (Vec<IpAddr>, bool)> {
    let endpoints = slice.endpoints();
    endpoints.map(|one| (one.addresses().collect(), one.conditions[0].unwrap_or(true)))
}

/// Returns the addresses of a stored endpoint, with its readiness. An endpoint without a `ready`
/// condition is ready.
fn stored(endpoint: &Endpoint) -> (Vec<IpAddr>, bool) {
    let addresses = endpoint.addresses.iter();
    let addresses = addresses.filter_map(|text| text.parse().ok());
    let ready = endpoint.conditions.as_ref().and_then(|all| all.ready);
    (addresses.collect(), ready.unwrap_or(true))
}
