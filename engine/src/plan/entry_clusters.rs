//! Entry clusters: consumers of a MultiClusterService of type LoadBalancer, whose load balancers
//! lead to the endpoints of all its providers.
//!
//! The status of the MultiClusterService lists the addresses of the entry clusters that can serve.
//! An address leaves it only by evidence: the cluster was observed without the address, no provider
//! has a usable endpoint, or the hub no longer wants the cluster. An unreachable cluster retains
//! its addresses, unless the service requests otherwise and another entry cluster serves. A cluster
//! in Pull mode that has lost its credentials retains them while a member holds copies from it.

use std::collections::BTreeMap;

use causeway::domain::{ClusterName, ServiceKey, ServicePort};
use k8s_openapi::api::core::v1::LoadBalancerIngress;
use k8s_openapi::jiff::Timestamp;

use super::copies::DesiredCopies;
use super::placement::Placement;
use super::provider_use::{ProviderUses, Unused};
use super::providers::Frontend;
use super::tiers::{EndpointRole, Request};
use crate::model::MemberState;
use crate::observed::Index;
use crate::observed::member::Member;
use crate::observed::service::ServiceView;

/// Maximum number of addresses of one cluster in the status: members make these lists.
pub(crate) const MOST_ADDRESSES: usize = 16;

/// Entry clusters of one service.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct EntryClusters {
    all: BTreeMap<ClusterName, EntryCluster>,
    /// Entry clusters that the service does not use as they are.
    pub(super) uses: ProviderUses,
}

/// Entry cluster.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct EntryCluster {
    /// Addresses of its load balancer, as last observed; `None` while its Service is unknown.
    pub(crate) addresses: Option<Vec<LoadBalancerIngress>>,
    /// Use of the addresses.
    pub(crate) state: EntryState,
}

/// Use of the addresses of an entry cluster.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum EntryState {
    /// They are in the status.
    Serves,
    /// It is unknown whether they lead anywhere: the status retains those that it has.
    Unknown,
    /// The cluster is unreachable: they are not in the status while another entry cluster serves.
    GivenUp,
    /// No provider has a usable endpoint. `is_local` if the Service leads to its own pods alone.
    NoEndpoint { is_local: bool },
    /// The hub does not use the cluster, for this reason.
    Unused(Unused),
    /// It has none.
    NoAddress(NoAddress),
}

/// Reason why an entry cluster has no address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoAddress {
    /// It has no Service of the name.
    NoService,
    /// The Service of another writer has another type.
    OtherType,
    /// Causeway's own Service is not of type LoadBalancer yet: causeway changes its type.
    NotRequested,
    /// No load balancer has given the Service an address. The time is that of its creation.
    Pending(Option<Timestamp>),
}

/// Whether a provider has an endpoint that clients of an entry cluster reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Usable {
    Yes,
    No,
    Unknown,
}

impl EntryClusters {
    /// Decides the use of each entry cluster. `members` has the exposed ports of its Service and
    /// the copies that it should hold, `uses` the entry clusters that the service does not use as
    /// they are.
    pub(super) fn of(
        request: &Request<'_>,
        names: &[&ClusterName],
        members: &BTreeMap<&ClusterName, (&[ServicePort], &DesiredCopies)>,
        uses: ProviderUses,
    ) -> Self {
        let all = names.iter().map(|&name| {
            let entry = Planner {
                request,
                name,
                desired: members.get(name).copied(),
                uses: &uses,
            };
            (name.clone(), entry.decide())
        });
        let all = all.collect();
        Self { all, uses }
    }

    /// Lists the entry clusters by name.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&ClusterName, &EntryCluster)> {
        self.all.iter()
    }

    /// Returns an entry cluster.
    pub(crate) fn get(&self, name: &ClusterName) -> Option<&EntryCluster> {
        self.all.get(name)
    }

    /// Whether some entry cluster serves.
    pub(crate) fn serve(&self) -> bool {
        self.all
            .values()
            .any(|entry| entry.state == EntryState::Serves)
    }

    /// Returns the addresses of each entry cluster that are in the status, given those that it has.
    pub(crate) fn addresses<'a>(
        &'a self,
        stored: &'a [LoadBalancerIngress],
    ) -> impl Iterator<Item = (&'a ClusterName, Vec<&'a LoadBalancerIngress>)> {
        let serve = self.serve();
        let used = move |entry: &'a EntryCluster| {
            let known = entry.addresses.iter().flatten();
            let used = known.filter(move |one| match entry.state {
                EntryState::Serves => true,
                EntryState::Unknown => stored.contains(one),
                EntryState::GivenUp => !serve && stored.contains(one),
                EntryState::NoEndpoint { .. }
                | EntryState::Unused(_)
                | EntryState::NoAddress(_) => false,
            });
            used.collect()
        };
        self.all
            .iter()
            .map(move |(name, entry)| (name, used(entry)))
    }

    /// Returns the addresses for the status, given those that it has. While an entry cluster is
    /// unknown, addresses that no other Service has, or had when it was last observed, may be its
    /// own and stay: for each such entry cluster at most [`MOST_ADDRESSES`], the oldest first.
    ///
    /// A status from before the service had entry clusters lists the load balancers of providers.
    /// Until an entry cluster serves, the addresses that providers still have stay. Without any
    /// other address, those of unknown providers stay as those of unknown entry clusters do.
    pub(crate) fn ingress(
        &self,
        index: &Index,
        key: &ServiceKey,
        placement: &Placement,
        stored: &[LoadBalancerIngress],
    ) -> Vec<LoadBalancerIngress> {
        let mut used: Vec<_> = self.addresses(stored).flat_map(|(_, all)| all).collect();
        let serve = self.serve();
        let unknown = self.all.values();
        let unknown = unknown.filter(|entry| entry.may_have_others(serve));
        let mut unknown = unknown.count();
        if !serve {
            let providers: Vec<_> = other_providers(index, placement).collect();
            if used.is_empty() {
                let is_known = |member: &Member| member.sources_are_known(key);
                let others = providers.iter().copied();
                unknown += others.filter(|one| !one.is_some_and(is_known)).count();
                unknown += index.suspected_clusters().len();
            }
            let services = providers.into_iter().flatten();
            let services = services.filter_map(|member| member.service(key));
            let is_own = |service: &ServiceView| service.is_delivered_by(index.hub_uid());
            let gathered = services.filter(|service| !service.deleting && !is_own(service));
            let gathered: Vec<_> = gathered.flat_map(|service| &service.ingress).collect();
            used.extend(stored.iter().filter(|one| gathered.contains(one)));
        }
        let room = unknown * MOST_ADDRESSES;
        if room == 0 {
            return used.into_iter().cloned().collect();
        }
        let may_stay = |name: &ClusterName| {
            let entry = self.get(name);
            entry.is_some_and(|entry| entry.may_have_others(serve))
        };
        let is_known = |address: &LoadBalancerIngress| {
            let mut others = index.members().filter_map(|(name, member)| {
                let service = member.service(key)?;
                (service.deleting || !may_stay(name)).then_some(service)
            });
            others.any(|service| service.ingress.contains(address))
        };
        with_former(stored, &used, room, is_known)
    }
}

/// Lists the providers in use that are no entry clusters; `None` for one without a connection.
fn other_providers<'a>(
    index: &'a Index,
    placement: &'a Placement,
) -> impl Iterator<Item = Option<&'a Member>> {
    let targets = placement.targets.iter();
    let others = targets.filter(|(_, roles)| roles.provider && !roles.consumer);
    let used = others.filter(move |(name, _)| !Unused::excludes(index, name));
    used.map(move |(name, _)| index.member(name))
}

/// Returns the addresses in use, and at most `room` stored ones that nobody is known to have, the
/// oldest first.
pub(crate) fn with_former(
    stored: &[LoadBalancerIngress],
    used: &[&LoadBalancerIngress],
    mut room: usize,
    is_known: impl Fn(&LoadBalancerIngress) -> bool,
) -> Vec<LoadBalancerIngress> {
    let stays = |address: &&LoadBalancerIngress| {
        if used.contains(address) {
            return true;
        }
        let is_former = room > 0 && !is_known(address);
        room -= usize::from(is_former);
        is_former
    };
    let mut all: Vec<_> = stored.iter().filter(stays).cloned().collect();
    for address in used {
        if !all.contains(address) {
            all.push((*address).clone());
        }
    }
    all
}

impl EntryCluster {
    /// Whether addresses that no known Service has may be its own and in the status. `serve` if
    /// some entry cluster serves.
    fn may_have_others(&self, serve: bool) -> bool {
        let is_out = match self.state {
            EntryState::Unused(_) => true,
            EntryState::GivenUp => serve,
            _ => false,
        };
        self.addresses.is_none() && !is_out
    }
}

/// Decision about one entry cluster.
struct Planner<'a> {
    request: &'a Request<'a>,
    name: &'a ClusterName,
    /// Exposed ports under the Service's own names for them, and the desired copies.
    desired: Option<(&'a [ServicePort], &'a DesiredCopies)>,
    uses: &'a ProviderUses,
}

impl Planner<'_> {
    fn decide(&self) -> EntryCluster {
        let (index, name) = (self.request.index, self.name);
        let member = index.member(name);
        let known = member.filter(|member| member.sources_are_known(self.request.key));
        let service = known.map(|member| member.service(self.request.key));
        let service = service.map(|service| service.filter(|service| !service.deleting));
        EntryCluster {
            addresses: service.map(|service| {
                let addresses = service.map(|service| service.ingress.iter());
                let addresses = addresses.into_iter().flatten();
                addresses.take(MOST_ADDRESSES).cloned().collect()
            }),
            state: match (self.unused(), known, service) {
                _ if index.suspected_clusters().contains(name) => EntryState::Unknown,
                (Some(why), ..) => EntryState::Unused(why),
                (None, Some(member), Some(service)) => self.of_service(member, service),
                // Nothing was observed since a restart: the outage alone decides.
                _ if self.is_given_up() => EntryState::GivenUp,
                _ => EntryState::Unknown,
            },
        }
    }

    /// Returns the reason for which no service uses the cluster.
    fn unused(&self) -> Option<Unused> {
        let (index, name) = (self.request.index, self.name);
        if index.is_being_removed(name) {
            return Some(Unused::NotJoined);
        }
        let unused = Unused::everywhere(index, name);
        unused.filter(|_| Unused::excludes(index, name))
    }

    /// Whether the cluster has been unreachable for longer than the service permits.
    fn is_given_up(&self) -> bool {
        self.uses.unused(self.name).is_some() || self.uses.standby.contains(self.name)
    }

    fn of_service(&self, member: &Member, service: Option<&ServiceView>) -> EntryState {
        let Some(service) = service else {
            return EntryState::NoAddress(NoAddress::NoService);
        };
        let is_own = service.is_delivered_by(self.request.index.hub_uid());
        if !is_own && !service.shape.load_balancer {
            return EntryState::NoAddress(NoAddress::OtherType);
        }
        if service.ingress.is_empty() {
            return EntryState::NoAddress(match service.shape.load_balancer {
                true => NoAddress::Pending(service.created),
                false => NoAddress::NotRequested,
            });
        }
        let is_synced = self.request.index.member_state(self.name) == MemberState::Synced;
        match self.usable(member, service) {
            Usable::No => EntryState::NoEndpoint {
                is_local: leads_to_own_pods(service),
            },
            _ if self.is_given_up() => EntryState::GivenUp,
            Usable::Yes if is_synced => EntryState::Serves,
            Usable::Yes | Usable::Unknown => EntryState::Unknown,
        }
    }

    /// Returns whether the Service of the cluster leads to any ready endpoint. An endpoint of
    /// another cluster counts once the entry cluster holds it.
    fn usable(&self, member: &Member, service: &ServiceView) -> Usable {
        let Some((offered, copies)) = self.desired else {
            return Usable::Unknown;
        };
        let Request {
            index,
            key,
            exposure,
            ..
        } = *self.request;
        let network = index.network(self.name);
        let frontend = Frontend::new(offered, Some(service));
        let mut is_known = true;
        for provider in self.request.providers {
            let entry = provider.entry((index, key), exposure, &network);
            let Some(readiness) = provider.readiness(key, &frontend, entry) else {
                is_known = false;
                continue;
            };
            if readiness.ready == 0 {
                continue;
            }
            if provider.name == self.name {
                return Usable::Yes;
            }
            let tiers = copies.tiers.as_ref();
            let role = tiers.map_or(Some(EndpointRole::Ready), |tiers| tiers.role(provider.name));
            let is_used = matches!(role, Some(EndpointRole::Ready | EndpointRole::Standby));
            if !is_used || leads_to_own_pods(service) {
                continue;
            }
            let mut wanted = copies.wanted.iter();
            let is_held = wanted.any(|(name, copy)| {
                copy.provider() == provider.name && member.copy(key, name).is_some()
            });
            if is_held {
                return Usable::Yes;
            }
            is_known = false;
        }
        match is_known {
            true => Usable::No,
            false => Usable::Unknown,
        }
    }
}

/// Whether the nodes lead to pods on themselves alone, which those of other clusters never are.
fn leads_to_own_pods(service: &ServiceView) -> bool {
    let node_ports = service.node_ports.as_ref();
    node_ports.is_some_and(|ports| ports.is_local)
}

#[cfg(test)]
mod tests;
