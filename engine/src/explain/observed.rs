//! Slices of other clusters' endpoints in consumers: causeway's copies, and Karmada's slices.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use causeway::domain::ClusterName;
use k8s_openapi::api::discovery::v1::EndpointSlice;

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
    pub(super) fn stale<'a>(&'a self, ready: &BTreeSet<Vec<IpAddr>>) -> Vec<&'a [IpAddr]> {
        let offered = self.endpoints.iter().filter(|(_, ready)| **ready);
        let stale = offered.filter(|(addresses, _)| !ready.contains(*addresses));
        stale.map(|(addresses, _)| addresses.as_slice()).collect()
    }
}

impl Facts<'_> {
    /// Returns the copies of this hub's causeway that a consumer holds.
    pub(super) fn copies(&self, consumer: &ClusterName, exposure: Exposure) -> Vec<HeldSlice> {
        let Some(Ok(lists)) = self.members.get(consumer) else {
            return Vec::new();
        };
        let copy = |slice: &EndpointSlice| match ObservedSlice::read(slice).role {
            SliceRole::Copy(key, copy)
                if key == *self.key
                    && copy.exposure == exposure
                    && *copy.hub == *self.index.hub_uid() =>
            {
                Some(HeldSlice {
                    name: slice.metadata.name.clone()?,
                    provider: copy.source_cluster?.to_string(),
                    source: copy.source,
                    standby: copy.standby,
                    endpoints: endpoints(slice),
                })
            }
            _ => None,
        };
        lists.slices.iter().filter_map(copy).collect()
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
            endpoints: of_source(&theirs.slice),
        });
        slices.collect()
    }

    /// Returns the ready addresses of a provider; `None` if they are unknown.
    pub(super) fn ready_in(&self, provider: &str) -> Option<BTreeSet<Vec<IpAddr>>> {
        let member = self.index.member(provider)?;
        let member = Some(member).filter(|member| member.sources_are_known())?;
        let endpoints = member
            .sources(self.key)
            .flat_map(|(_, source)| of_source(source));
        let ready = endpoints.filter(|(_, ready)| *ready);
        Some(ready.map(|(addresses, _)| addresses).collect())
    }
}

fn of_source(slice: &SourceSlice) -> BTreeMap<Vec<IpAddr>, bool> {
    let endpoints = slice.endpoints();
    endpoints
        .map(|one| (one.addresses().collect(), one.conditions[0].unwrap_or(true)))
        .collect()
}

/// Returns the endpoints of a stored slice with their readiness. An endpoint without a `ready`
/// condition is ready.
fn endpoints(slice: &EndpointSlice) -> BTreeMap<Vec<IpAddr>, bool> {
    let endpoints = slice.endpoints.iter();
    endpoints
        .map(|endpoint| {
            let addresses = endpoint
                .addresses
                .iter()
                .filter_map(|text| text.parse().ok());
            let conditions = endpoint.conditions.as_ref();
            let ready = conditions.and_then(|all| all.ready).unwrap_or(true);
            (addresses.collect(), ready)
        })
        .collect()
}
