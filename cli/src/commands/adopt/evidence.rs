//! Decides whether a slice that Karmada left in a consumer may be deleted. Pure.

use std::collections::BTreeSet;

use causeway::api::{Cluster, labels};
use causeway::domain::{self, ClusterName, ExposureType};
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointSlice};
use kube::ResourceExt as _;

use crate::cluster::karmada;
use crate::observe::connect::UNSERVED;
use crate::observe::networking::network;
use crate::observe::service::{Held, OfService as _, Snapshot, has, is_ready};
use crate::views::status::condition::deletions_suspended;

/// Checks that deleting a slice of Karmada's removes no ready endpoint that the consumer needs.
///
/// Causeway's copies in the consumer must hold every ready endpoint of the source slice, and every
/// endpoint of the source that moved into another slice of the provider. A source that a reachable
/// provider no longer holds needs no copy. A slice may always be deleted if the MultiClusterService
/// does not request it or is being deleted, or if the provider is drained. A consumer in another
/// network cannot reach the addresses of Karmada's slice, and causeway's entry to the provider
/// replaces the slice.
///
/// # Errors
/// The reason to retain the slice.
pub(super) fn may_go(
    snapshot: &Snapshot,
    consumer: &str,
    held: &Held,
    slice: &EndpointSlice,
) -> Result<(), String> {
    let object = snapshot.mcs.as_ref();
    let object = object.ok_or("no MultiClusterService needs it, and nothing replaces it")?;
    if object.metadata.deletion_timestamp.is_some() {
        return Ok(());
    }
    let desired = domain::MultiClusterService::try_from(object)
        .map_err(|why| format!("the MultiClusterService cannot be read: {why}"))?;
    let (provider, source) =
        karmada::source(slice).ok_or("its name and annotation do not identify its source slice")?;
    if !asks_for(&desired, provider, consumer) {
        return Ok(());
    }
    let cluster = snapshot
        .cluster(provider)
        .ok_or_else(|| format!("{provider} is not joined, so its endpoints cannot be read"))?;
    if cluster.is_drained() {
        return Ok(());
    }
    if let Some(why) = deletions_suspended(cluster) {
        return Err(format!(
            "deletions in {provider} are not confirmed yet: {why}"
        ));
    }
    let there = match snapshot.members.get(provider) {
        Some(Ok(there)) => there,
        Some(Err(why)) => return Err(format!("{provider} could not be read: {why}")),
        None => return Err(format!("{provider} is {UNSERVED}")),
    };
    let left = Left {
        snapshot,
        consumer,
        held,
        slice,
        provider,
        there,
    };
    if left.is_of_another_network(cluster) {
        return left.is_entered();
    }
    let mut sources = there.sources(&snapshot.key.name);
    sources.try_for_each(|own| left.is_replaced(own, own.name_any() == source))
}

/// A slice of Karmada's whose provider answers.
struct Left<'a> {
    snapshot: &'a Snapshot,
    consumer: &'a str,
    held: &'a Held,
    slice: &'a EndpointSlice,
    provider: &'a str,
    /// Objects that the provider holds.
    there: &'a Held,
}

impl Left<'_> {
    /// Checks that causeway's copies hold the ready endpoints of one provider slice: all of them if
    /// the slice is the source of Karmada's slice, or else those that Karmada's slice holds too. If
    /// causeway makes no copy because other slices of the provider hold the same endpoints, the
    /// copies of those slices count.
    fn is_replaced(&self, own: &EndpointSlice, is_source: bool) -> Result<(), String> {
        let (consumer, provider) = (self.consumer, self.provider);
        let mut needed = ready(own).filter(|one| is_source || has(self.slice, one));
        let uid = own.metadata.uid.as_deref().unwrap_or_default();
        let copy = self.copies().find(|copy| comes_from(copy, uid));
        needed.try_for_each(|endpoint| {
            let serving = match copy {
                Some(copy) => Some(copy).filter(|copy| is_ready_in(copy, endpoint)),
                None => self.copies().find(|copy| is_ready_in(copy, endpoint)),
            };
            let serving = serving.ok_or_else(|| match copy {
                Some(copy) => format!(
                    "causeway's copy {} in {consumer} does not hold {} of {provider} as ready",
                    copy.name_any(),
                    endpoint.addresses.join(",")
                ),
                None => format!(
                    "{consumer} has no copy of causeway's of EndpointSlice {} of {provider}",
                    own.name_any()
                ),
            })?;
            self.has_ports(serving)
        })
    }

    fn is_of_another_network(&self, provider: &Cluster) -> bool {
        let consumer = self.snapshot.cluster(self.consumer);
        consumer.is_some_and(|consumer| network(consumer) != network(provider))
    }

    /// Checks that causeway's entry to the provider has a ready endpoint if the provider has one.
    fn is_entered(&self) -> Result<(), String> {
        let name = &self.snapshot.key.name;
        let mut sources = self.there.sources(name);
        if !sources.any(|own| ready(own).next().is_some()) {
            return Ok(());
        }
        let mut entries = self.snapshot.copies(self.held, name, self.provider);
        let entry = entries.find(|entry| ready(entry).next().is_some());
        let entry = entry.ok_or_else(|| {
            format!(
                "{} has no ready entry of causeway's to {}, which is of another network",
                self.consumer, self.provider
            )
        })?;
        self.has_ports(entry)
    }

    fn has_ports(&self, copy: &EndpointSlice) -> Result<(), String> {
        match self.lost_port(copy) {
            None => Ok(()),
            Some(port) => Err(format!(
                "causeway's copy {} in {} has no port {port:?}, which the Service there has and \
                 Karmada's slice serves: spec.ports of the MultiClusterService does not expose it",
                copy.name_any(),
                self.consumer
            )),
        }
    }

    /// Returns a port of the consumer's Service that Karmada's slice serves and the copy does not.
    /// kube-proxy matches ports of Service and slice by name.
    fn lost_port(&self, copy: &EndpointSlice) -> Option<String> {
        let names = |slice: &EndpointSlice| -> BTreeSet<String> {
            let ports = slice.ports.iter().flatten();
            ports
                .map(|port| port.name.clone().unwrap_or_default())
                .collect()
        };
        let service = self.held.service(&self.snapshot.key.name)?;
        let offered = service.spec.as_ref()?.ports.iter().flatten();
        let mut offered = offered.map(|port| port.name.clone().unwrap_or_default());
        let (served, kept) = (names(self.slice), names(copy));
        offered.find(|name| served.contains(name) && !kept.contains(name))
    }

    /// Returns causeway's copies of the slices that the provider holds now.
    fn copies(&self) -> impl Iterator<Item = &EndpointSlice> {
        let key = &self.snapshot.key;
        let copies = self.snapshot.copies(self.held, &key.name, self.provider);
        copies.filter(|copy| {
            let mut sources = self.there.sources(&key.name);
            sources.any(|own| comes_from(copy, own.metadata.uid.as_deref().unwrap_or_default()))
        })
    }
}

fn asks_for(desired: &domain::MultiClusterService, provider: &str, consumer: &str) -> bool {
    let (Ok(from), Ok(to)) = (
        ClusterName::try_from(provider),
        ClusterName::try_from(consumer),
    ) else {
        return false;
    };
    desired.exposure == ExposureType::CrossCluster
        && desired.providers.includes(&from)
        && desired.consumers.includes(&to)
        && from != to
}

fn comes_from(copy: &EndpointSlice, uid: &str) -> bool {
    let source = copy.annotations().get(labels::SOURCE);
    let source = source.and_then(|source| source.split_once('/'));
    source.is_some_and(|(own, _)| own == uid)
}

fn ready(slice: &EndpointSlice) -> impl Iterator<Item = &Endpoint> {
    slice.endpoints.iter().filter(|one| is_ready(one))
}

fn is_ready_in(copy: &EndpointSlice, endpoint: &Endpoint) -> bool {
    ready(copy).any(|one| one.addresses == endpoint.addresses)
}
