//! Entry by which clusters of other networks reach the endpoints of a provider.
//!
//! An entry takes the place of the provider's own slices: its endpoints have addresses of nodes, of
//! a load balancer, or of a Service, and its ports are those on which the addresses answer. The
//! proxies of the provider lead on to the pods. See docs/networks.md.
//!
//! A native Service of a provider that is a consumer too leads to copies of other clusters. Traffic
//! that enters by it could go from cluster to cluster without end, so such a Service is an entry
//! only if each node leads to endpoints on itself. A companion Service, which no copy belongs to,
//! is the entry otherwise.

mod condition;
pub(crate) mod new_nodes;
mod refusal;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use causeway::domain::{ClusterName, NodeAddress, PortId, Reach, ServiceKey, ServicePort};

use self::condition::Best;
pub(crate) use self::refusal::{EntryUnknown, NoEntry, Why};
use super::port_fit::PortFit;
use super::providers::candidates;
use crate::model::slice::{
    AddressType, Exposure, SliceManager, SlicePort, SourceEndpoint, SourceSlice, SourceVersion,
};
use crate::model::{ObservedNode, TimePoint};
use crate::observed::member::{Member, Nodes};
use crate::observed::service::{NodePorts, PortShape, ServiceKind, ServiceView};
use crate::observed::{DeclaredReach, Index};

/// Maximum number of endpoints of one address family (discovery.k8s.io/v1).
const ENDPOINTS_MAX: usize = 1000;
/// Maximum number of hostnames of one load balancer that are used.
const HOSTNAMES_MAX: usize = 16;

/// Provider to which an entry leads.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Site<'a> {
    index: &'a Index,
    member: &'a Member,
    key: &'a ServiceKey,
    /// Way that the service, or else the Cluster, declares.
    reach: Option<&'a DeclaredReach>,
    /// Whether the service itself declares it.
    is_requested: bool,
    /// Whether copies of other clusters belong to its Service.
    holds_copies: bool,
}

/// Type of a companion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CompanionType {
    /// NodePort.
    NodePort,
    /// LoadBalancer.
    LoadBalancer,
}

/// Endpoints by which clusters of other networks reach a provider, of both address families.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Entry {
    ports: Box<[SlicePort]>,
    endpoints: Vec<EntryEndpoint>,
    /// Endpoints of the provider to which it leads.
    behind: Behind,
    /// Slice of the provider, in the version from which the entry follows.
    version: Option<SourceVersion>,
}

/// Endpoints of a provider to which an entry leads.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Behind {
    /// Whether they are only those that the Service selects.
    selected: bool,
    /// Nodes that they are on; `None` where the entry leads to all nodes.
    nodes: Option<BTreeSet<Box<str>>>,
    /// Whether each node leads to the endpoints on itself alone.
    is_local: bool,
}

/// Reason why an entry leads to some endpoints of the provider, and not to others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Missed {
    /// The companion leads to the pods that the Service selects, and their slice is of another
    /// writer.
    NotSelected,
    /// Each node leads to endpoints on itself, and they are on none that the entry has.
    OnNoEntry,
}

/// Endpoint of an entry.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct EntryEndpoint {
    address: IpAddr,
    node: Option<Box<str>>,
    zone: Option<Box<str>>,
    conditions: [Option<bool>; 3],
    /// Whether it is used only while no other one is ready.
    is_left_out: bool,
}

/// Service by which the traffic of other networks enters.
struct Door<'a> {
    service: &'a ServiceView,
    /// Number on which an address of the entry answers for a port of the Service.
    number: Box<dyn Fn(PortId) -> Option<i32> + 'a>,
}

impl CompanionType {
    /// Returns the type as the API names it.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::NodePort => "NodePort",
            Self::LoadBalancer => "LoadBalancer",
        }
    }
}

impl Entry {
    /// Returns the entry to a provider.
    ///
    /// # Errors
    /// The reason why it has none, or why that is unknown.
    pub(crate) fn of(site: &Site<'_>, now: TimePoint) -> Result<Self, NoEntry> {
        let declared = site.reach.ok_or(NoEntry::NotDeclared)?;
        let Some(service) = site.member.service(site.key) else {
            return match site.lacks_slices() {
                // The entry to a Service that is gone with its slices leads nowhere.
                true => Ok(Self::default()),
                false => Err(EntryUnknown::Service.into()),
            };
        };
        match service.shape.kind {
            ServiceKind::ClusterIp => {}
            ServiceKind::Headless => return Err(NoEntry::of_service(service, Why::Headless)),
            ServiceKind::ExternalName => {
                return Err(NoEntry::of_service(service, Why::ExternalName));
            }
        }
        let reach = match declared {
            DeclaredReach::Way(reach) => *reach,
            DeclaredReach::Unreadable(text) => {
                let (text, of_service) = (text.clone(), site.is_requested);
                return Err(EntryUnknown::Way { text, of_service }.into());
            }
        };
        let selected = site.companion_type().is_some();
        let sources = site.sources().filter(|one| leads_to(selected, one));
        let sources: Vec<_> = sources.collect();
        let Found {
            door,
            endpoints,
            behind,
        } = match reach {
            Reach::ClusterIp => site.by_cluster_ip(service, &sources)?,
            Reach::LoadBalancer => site.by_load_balancer(service, &sources, now)?,
            Reach::NodePorts(kind) => site.by_node_ports(service, kind, &sources)?,
        };
        let ports = door.ports(service, &sources)?;
        Ok(Self {
            ports,
            endpoints,
            behind: Behind { selected, ..behind },
            version: sources.first().map(|source| source.version.clone()),
        })
    }

    /// Returns its slices, one for each address family that it has.
    pub(crate) fn slices(&self) -> impl Iterator<Item = Arc<SourceSlice>> {
        let families = [AddressType::Ipv4, AddressType::Ipv6].into_iter();
        families.filter_map(|family| {
            let of_family =
                |one: &&EntryEndpoint| one.address.is_ipv6() == (family == AddressType::Ipv6);
            let mut endpoints = self.endpoints.iter().filter(of_family).peekable();
            endpoints.peek()?;
            let endpoints = endpoints.take(ENDPOINTS_MAX).map(EntryEndpoint::as_source);
            let version = self.version.clone()?;
            let made = SourceSlice::made(version, family, self.ports.clone(), endpoints);
            Some(Arc::new(made))
        })
    }

    /// Whether it leads to endpoints of a slice of the provider.
    pub(crate) fn leads_to(&self, source: &SourceSlice) -> bool {
        leads_to(self.behind.selected, source)
    }

    /// Whether it leads to endpoints on a node of the provider.
    pub(crate) fn leads_to_node(&self, name: Option<&str>) -> bool {
        let nodes = self.behind.nodes.as_ref();
        nodes.is_none_or(|nodes| name.is_some_and(|name| nodes.contains(name)))
    }

    /// Returns the reason why it leads to none of these endpoints: those of a slice on one node.
    pub(crate) fn misses(&self, source: &SourceSlice, node: Option<&str>) -> Option<Missed> {
        if !self.leads_to(source) {
            return Some(Missed::NotSelected);
        }
        let mut endpoints = self.endpoints.iter();
        let is_there = !self.behind.is_local
            || endpoints.any(|one| node.is_some() && one.node.as_deref() == node);
        (!is_there).then_some(Missed::OnNoEntry)
    }

    /// Whether it has an address of that family.
    pub(crate) fn has_family(&self, family: AddressType) -> bool {
        let mut endpoints = self.endpoints.iter();
        endpoints.any(|one| one.address.is_ipv6() == (family == AddressType::Ipv6))
    }
}

impl EntryEndpoint {
    fn as_source(&self) -> SourceEndpoint<'_> {
        SourceEndpoint {
            address: self.address,
            more: &[],
            hostname: None,
            zone: self.zone.as_deref(),
            node: self.node.as_deref(),
            conditions: self.conditions,
        }
    }
}

/// Door of an entry, with its endpoints.
struct Found<'a> {
    door: Door<'a>,
    endpoints: Vec<EntryEndpoint>,
    /// Endpoints of the provider to which it leads, whether the Service selects them or not.
    behind: Behind,
}

/// Whether a Service leads to endpoints of a slice, or would if it had the same selector
/// (`selected`).
fn leads_to(selected: bool, source: &SourceSlice) -> bool {
    !selected || source.manager == SliceManager::Pods
}

impl<'a> Site<'a> {
    /// Returns the site of a provider of a service.
    pub(crate) fn of(
        index: &'a Index,
        key: &'a ServiceKey,
        exposure: Exposure,
        (name, member): (&ClusterName, &'a Member),
    ) -> Self {
        let mcs = index.multi_cluster_service(key);
        let of_service = match exposure {
            Exposure::Native => mcs.and_then(|mcs| mcs.reach.as_ref()),
            Exposure::Clusterset => member.export(key).and_then(|export| export.reach.as_ref()),
        };
        let declared = of_service.or_else(|| index.declared_reach(name));
        let spec = mcs.and_then(|mcs| mcs.spec.as_ref().ok());
        let spec = spec.filter(|spec| spec.dispatches_endpoints());
        let is_consumer = spec.is_some_and(|spec| spec.consumers.includes(name));
        // A cluster that is no consumer any more may still hold its copies.
        let mut copies = member.copies(key);
        let mut has_copy =
            || copies.any(|(_, copy)| copy.view.is_of(index.hub_uid(), Exposure::Native));
        Self {
            index,
            member,
            key,
            reach: declared,
            is_requested: of_service.is_some(),
            holds_copies: is_consumer || has_copy(),
        }
    }

    /// Returns the way that the service or the Cluster declares.
    pub(crate) fn reach(&self) -> Option<Reach> {
        self.reach?.way()
    }

    /// Lists the slices of the Service.
    fn sources(&self) -> impl Iterator<Item = &'a Arc<SourceSlice>> {
        candidates(self.member, self.key).filter_map(|(_, candidate)| candidate.ok())
    }

    /// Whether the provider is known to have no slice of the Service.
    fn lacks_slices(&self) -> bool {
        let has_slice = self.member.sources(self.key).next().is_some();
        self.member.sources_are_known(self.key) && !has_slice
    }

    /// Whether the provider is known to have no endpoint of the Service, ready or not: consumers
    /// lack nothing without an entry to it.
    pub(crate) fn lacks_endpoints(&self) -> bool {
        let mut sources = self.member.sources(self.key);
        let is_empty = |source: &SourceSlice| {
            let is_read = matches!(source.address_type, AddressType::Ipv4 | AddressType::Ipv6);
            is_read && source.is_empty() && source.odd == 0
        };
        self.member.sources_are_known(self.key) && sources.all(|(_, source)| is_empty(source))
    }

    /// Returns the type of the companion that is the entry, or will be; `None` where the Service is
    /// the entry itself, or none is possible.
    pub(crate) fn companion_type(&self) -> Option<CompanionType> {
        let service = self.member.service(self.key)?;
        let shape = &service.shape;
        let can_be = shape.kind == ServiceKind::ClusterIp && !shape.selector.is_empty();
        let type_ = match self.reach()? {
            Reach::NodePorts(_) if self.whole_node_ports(service).is_none() => {
                CompanionType::NodePort
            }
            Reach::ClusterIp if self.holds_copies => CompanionType::NodePort,
            // A load balancer costs money: only who asks for this service gets one more.
            Reach::LoadBalancer if self.is_requested && self.own_balancer(service).is_err() => {
                CompanionType::LoadBalancer
            }
            _ => return None,
        };
        can_be.then_some(type_)
    }

    /// Returns the node ports of the Service if it may be the entry.
    fn own_node_ports(&self, service: &'a ServiceView) -> Option<&'a NodePorts> {
        let own = service.node_ports.as_deref();
        own.filter(|ports| ports.is_local || !self.holds_copies)
    }

    /// Returns its node ports if they may be the entry and each port of the Service has one. A
    /// Service with `allocateLoadBalancerNodePorts: false` has none.
    fn whole_node_ports(&self, service: &'a ServiceView) -> Option<&'a NodePorts> {
        let mut all = service.shape.ports.iter();
        let own = self.own_node_ports(service)?;
        all.all(|shape| own.get(shape.port.id).is_some())
            .then_some(own)
    }

    /// Returns the Service if its load balancer may be the entry.
    fn own_balancer(&self, service: &'a ServiceView) -> Result<&'a ServiceView, Why> {
        match self.own_node_ports(service) {
            _ if !service.shape.load_balancer => Err(Why::NoLoadBalancer),
            None => Err(Why::HoldsCopies),
            Some(_) => Ok(service),
        }
    }

    /// Returns the companion of the Service. A Service without a selector has none: `without` is
    /// then the reason.
    fn companion(&self, service: &ServiceView, without: Why) -> Result<&'a ServiceView, NoEntry> {
        if service.shape.selector.is_empty() {
            return Err(NoEntry::of_service(service, without));
        }
        let companion = self.member.companion(self.key);
        companion.ok_or(EntryUnknown::Companion.into())
    }

    fn by_cluster_ip(
        &self,
        service: &'a ServiceView,
        sources: &[&Arc<SourceSlice>],
    ) -> Result<Found<'a>, NoEntry> {
        let (service, unknown) = match self.holds_copies {
            true => {
                let companion = self.companion(service, Why::AddressOfCopies)?;
                (companion, EntryUnknown::Companion)
            }
            false => (service, EntryUnknown::Service),
        };
        let addresses = service.cluster_ips.iter();
        let mut addresses = addresses.filter_map(|ip| ip.parse().ok()).peekable();
        addresses.peek().ok_or(unknown)?;
        let door = Door {
            service,
            number: Box::new(|port| Some(port.number.into())),
        };
        Ok(Found::at_addresses(door, addresses, sources))
    }

    fn by_load_balancer(
        &self,
        service: &'a ServiceView,
        sources: &[&Arc<SourceSlice>],
        now: TimePoint,
    ) -> Result<Found<'a>, NoEntry> {
        let service = match self.own_balancer(service) {
            Ok(service) if service.deleting => {
                return Err(NoEntry::of_service(service, Why::Terminating));
            }
            Ok(service) => service,
            Err(why) if self.companion_type().is_some() => self.companion(service, why)?,
            Err(why) => return Err(NoEntry::of_service(service, why)),
        };
        let addresses = self.balancer_addresses(service);
        let is_awaited =
            |host: &&str| addresses.is_empty() || self.index.is_awaited(self.key, host, now);
        if let Some(host) = hostnames(service).find(is_awaited) {
            return Err(EntryUnknown::Hostname(host.into()).into());
        }
        if addresses.is_empty() {
            return Err(EntryUnknown::LoadBalancer.into());
        }
        let door = Door {
            service,
            number: Box::new(|port| {
                let is_refused = service.refused_ports.contains(&port);
                (!is_refused).then(|| port.number.into())
            }),
        };
        Ok(Found::at_addresses(door, addresses.into_iter(), sources))
    }

    /// Returns the addresses of a load balancer, each once: its own, and those of its hostnames.
    fn balancer_addresses(&self, service: &ServiceView) -> Vec<IpAddr> {
        let ips = service.ingress.iter().filter_map(|one| one.ip.as_deref());
        let ips = ips.filter_map(|ip| ip.parse().ok());
        let of_hosts = hostnames(service).flat_map(|host| self.index.entry_addresses(host));
        let mut known = BTreeSet::new();
        let all = ips.chain(of_hosts.copied());
        all.filter(|address| known.insert(*address)).collect()
    }

    /// Returns the Service by whose load balancer the provider is reached.
    pub(crate) fn balancer(&self) -> Option<&'a ServiceView> {
        let service = self.member.service(self.key);
        let service = service.filter(|_| self.reach() == Some(Reach::LoadBalancer))?;
        match self.companion_type() {
            Some(_) => self.member.companion(self.key),
            None => self.own_balancer(service).ok(),
        }
    }

    /// Lists the hostnames of the load balancer by which the provider is reached.
    pub(crate) fn hostnames(&self) -> impl Iterator<Item = &'a str> {
        self.balancer().into_iter().flat_map(hostnames)
    }

    fn by_node_ports(
        &self,
        service: &'a ServiceView,
        kind: NodeAddress,
        sources: &[&Arc<SourceSlice>],
    ) -> Result<Found<'a>, NoEntry> {
        let (door, ports) = match self.whole_node_ports(service) {
            Some(ports) => (service, ports),
            None => {
                let companion = self.companion(service, Why::NoSelector)?;
                let ports = companion.node_ports.as_deref();
                (companion, ports.ok_or(EntryUnknown::Companion)?)
            }
        };
        let nodes = self.member.nodes();
        let nodes = nodes.ok_or_else(|| EntryUnknown::nodes(self.member))?;
        let endpoints = match ports.is_local {
            true => nodes_of(nodes, kind, door, sources)?,
            false => all_nodes(nodes, kind, door, sources),
        };
        let mut all = self.sources().flat_map(|source| source.endpoints());
        if endpoints.is_empty() && all.next().is_some() {
            let behind = || sources.iter().flat_map(|source| source.endpoints());
            let has_node = || behind().any(|one| one.node.is_some());
            let why = match behind().next() {
                None => Why::NotSelected,
                Some(_) if ports.is_local && !has_node() => Why::NoNode,
                Some(_) => Why::NoAddress,
            };
            return Err(NoEntry::of_service(service, why));
        }
        Ok(Found {
            door: Door {
                service: door,
                number: Box::new(|port| ports.get(port)),
            },
            behind: Behind {
                nodes: leading(nodes, &endpoints, ports.is_local),
                is_local: ports.is_local,
                ..Behind::default()
            },
            endpoints,
        })
    }
}

impl Door<'_> {
    /// Returns the ports of the entry: those of the Service that any slice has, under their names.
    ///
    /// # Errors
    /// The companion or the slices have not caught up with the ports of the `own` Service, or no
    /// port leads to them.
    fn ports(
        &self,
        own: &ServiceView,
        sources: &[&Arc<SourceSlice>],
    ) -> Result<Box<[SlicePort]>, NoEntry> {
        let wanted = own.shape.ports.iter().map(|shape| shape.port.clone());
        let wanted: Vec<_> = wanted.collect();
        let has = |port: &ServicePort| {
            let mut ports = self.service.shape.ports.iter();
            ports.any(|shape| shape.port == *port)
        };
        // A port that was only added does not hold those that the companion has.
        let is_other = |shape: &PortShape| !wanted.contains(&shape.port);
        if !wanted.iter().all(has) && self.service.shape.ports.iter().any(is_other) {
            return Err(EntryUnknown::Companion.into());
        }
        let fit = PortFit {
            provider: &wanted,
            consumer: &wanted,
        };
        if sources.iter().any(|source| fit.is_behind(source)) {
            return Err(EntryUnknown::Ports.into());
        }
        let mut ports = Vec::new();
        let mut is_refused = false;
        for shape in &self.service.shape.ports {
            let port = &shape.port;
            let mut of_slices = sources.iter().flat_map(|source| &source.ports);
            let in_slice =
                of_slices.find(|one| *one.name == *port.name && one.protocol == port.id.protocol);
            let Some(in_slice) = in_slice else { continue };
            match (self.number)(port.id) {
                Some(number) => ports.push(SlicePort {
                    number: Some(number),
                    ..in_slice.clone()
                }),
                None if self.service.shape.load_balancer => is_refused = true,
                None => return Err(EntryUnknown::NodePort(port.id).into()),
            }
        }
        match ports.is_empty() && is_refused {
            true => Err(NoEntry::of_service(own, Why::PortsRefused)),
            false => Ok(ports.into()),
        }
    }
}

/// Lists the hostnames of a load balancer, at most sixteen.
fn hostnames(service: &ServiceView) -> impl Iterator<Item = &str> {
    let ingress = service.ingress.iter().take(HOSTNAMES_MAX);
    ingress.filter_map(|one| one.hostname.as_deref().filter(|_| one.ip.is_none()))
}

impl<'a> Found<'a> {
    /// Returns one endpoint for each address. All lead to every endpoint of the provider.
    fn at_addresses(
        door: Door<'a>,
        addresses: impl Iterator<Item = IpAddr>,
        sources: &[&Arc<SourceSlice>],
    ) -> Self {
        let conditions = Best::of(sources).conditions();
        let endpoint = |address| EntryEndpoint {
            address,
            node: None,
            zone: None,
            conditions,
            is_left_out: false,
        };
        Self {
            door,
            endpoints: addresses.map(endpoint).collect(),
            behind: Behind::default(),
        }
    }
}

/// Returns the nodes that endpoints are on.
fn nodes_of(
    nodes: &Nodes,
    kind: NodeAddress,
    door: &ServiceView,
    sources: &[&Arc<SourceSlice>],
) -> Result<Vec<EntryEndpoint>, NoEntry> {
    let mut by_node: BTreeMap<&str, Best> = BTreeMap::new();
    for endpoint in sources.iter().flat_map(|source| source.endpoints()) {
        if let Some(node) = endpoint.node {
            by_node.entry(node).or_default().add(endpoint.conditions);
        }
    }
    let mut found = Vec::new();
    for (name, best) in by_node {
        match nodes.get(name) {
            Some(node) => found.extend(at_node(node, kind, door, best)),
            None if best.is_ready() => return Err(EntryUnknown::Node(name.into()).into()),
            None => {}
        }
    }
    Ok(found)
}

/// Returns all nodes: each leads to every endpoint. Of nodes with one address, one represents all:
/// a ready node first, then one that is not left out, then the first by name. Nodes that Kubernetes
/// leaves out of load balancing are marked.
fn all_nodes(
    nodes: &Nodes,
    kind: NodeAddress,
    door: &ServiceView,
    sources: &[&Arc<SourceSlice>],
) -> Vec<EntryEndpoint> {
    let best = Best::of(sources);
    let mut nodes: Vec<_> = nodes.iter().collect();
    nodes.sort_unstable_by_key(|node| (!node.is_ready, node.is_left_out, &node.name));
    let found = nodes.into_iter().flat_map(|node| {
        let is_left_out = node.is_left_out;
        let endpoints = at_node(node, kind, door, best);
        endpoints.map(move |one| EntryEndpoint { is_left_out, ..one })
    });
    let mut found: Vec<_> = found.collect();
    found.sort_by_key(|one| one.address);
    found.dedup_by_key(|one| one.address);
    found
}

/// Returns the ready nodes among these endpoints if each leads to its own pods alone (`is_local`),
/// or if none is ready; `None` where any node leads to all pods.
fn leading(
    nodes: &Nodes,
    endpoints: &[EntryEndpoint],
    is_local: bool,
) -> Option<BTreeSet<Box<str>>> {
    let names = endpoints.iter().filter_map(|one| one.node.as_deref());
    let ready = names.filter(|name| nodes.get(name).is_some_and(|node| node.is_ready));
    let ready: BTreeSet<Box<str>> = ready.map(Into::into).collect();
    (is_local || ready.is_empty()).then_some(ready)
}

/// Returns an endpoint for each address family of the Service in which the node has an address.
fn at_node<'n>(
    node: &'n ObservedNode,
    kind: NodeAddress,
    door: &'n ServiceView,
    best: Best,
) -> impl Iterator<Item = EntryEndpoint> + 'n {
    let has = |name: &str| door.ip_families.iter().any(|one| **one == *name);
    let families = [(false, has("IPv4")), (true, has("IPv6"))].into_iter();
    let families = families.filter(|(_, has)| *has);
    let addresses = families.filter_map(move |(is_ipv6, _)| node.address(kind, is_ipv6));
    addresses.map(move |address| EntryEndpoint {
        address,
        node: Some(node.name.clone()),
        zone: node.zone.clone(),
        conditions: best.on(node.is_ready).conditions(),
        is_left_out: false,
    })
}

#[cfg(test)]
mod tests;
