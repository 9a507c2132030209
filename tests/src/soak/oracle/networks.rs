//! Entries of providers for clusters of other networks, by the rules of docs/networks.md. Load
//! balancers here are those of entry clusters, which lead to all providers and are therefore no
//! entry. No node has an external address.
//!
//! An entry is computed from the endpoints of the Service by which the traffic enters: those to
//! which the proxies of the provider lead.

use causeway::api::labels;
use k8s_openapi::api::core::v1::{Node, NodeCondition, Service, ServicePort, ServiceSpec};
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointConditions, EndpointPort, EndpointSlice};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::ports::{self, is_headless};
use super::{dispatches, listed, selector};
use crate::soak::snapshot::{Key, Member, Snapshot, annotation, is_copy, label};

const ZONE: &str = "topology.kubernetes.io/zone";

/// Ways that the oracle knows. Another text is no way.
const WAYS: [&str; 4] = [
    "node-ports",
    "node-ports=external",
    "cluster-ip",
    "load-balancer",
];

/// Provider of a service, for clusters of other networks.
pub(super) struct Site<'a> {
    member: &'a Member,
    key: &'a Key,
    service: &'a Service,
    way: Option<&'a str>,
    /// Whether its Service leads to copies of other clusters.
    holds_copies: bool,
}

/// Slices by which a consumer reaches a provider.
#[derive(Default)]
pub(super) struct Entry {
    /// Slices as if the provider had them.
    pub(super) slices: Vec<EndpointSlice>,
    /// Slices of the pods behind them. A pod is ready if the entry leads to it.
    pub(super) behind: Vec<EndpointSlice>,
}

/// Whether two clusters are of different networks.
pub(super) fn are_apart(snapshot: &Snapshot, one: &str, other: &str) -> bool {
    let network = |name: &str| {
        let cluster = snapshot.joined.get(name);
        let text = cluster.and_then(|cluster| annotation(&cluster.metadata, labels::NETWORK));
        text.unwrap_or_default().trim().to_owned()
    };
    network(one) != network(other)
}

impl<'a> Site<'a> {
    /// Returns the site of a provider, as far as it has the Service. `asks` is the object that
    /// exposes it: its annotation precedes that of the Cluster.
    pub(super) fn of(
        snapshot: &'a Snapshot,
        provider: &str,
        key: &'a Key,
        asks: &'a ObjectMeta,
    ) -> Option<Self> {
        let (cluster, member) = (&snapshot.joined[provider], &snapshot.members[provider]);
        let way = |metadata: &'a ObjectMeta| {
            annotation(metadata, labels::REACH).filter(|text| WAYS.contains(text))
        };
        let exposed = snapshot.exposed.get(key);
        let exposed = exposed.filter(|exposed| dispatches(exposed));
        let consumes = exposed.is_some_and(|exposed| {
            let consumers = &exposed.spec.consumer_clusters;
            consumers.is_empty() || consumers.iter().any(|one| one.name == provider)
        });
        Some(Self {
            member,
            key,
            service: member.services.get(key)?,
            way: way(asks).or_else(|| way(&cluster.metadata)),
            holds_copies: consumes,
        })
    }

    /// Whether node ports of its own Service lead to its own pods alone.
    fn has_node_ports(&self) -> bool {
        let type_ = spec(self.service).and_then(|spec| spec.type_.as_deref());
        type_ == Some("NodePort") && (is_local(self.service) || !self.holds_copies)
    }

    /// Whether the entry is a companion, if there is any entry.
    fn needs_companion(&self) -> bool {
        let is_needed = match self.way {
            Some("cluster-ip") => self.holds_copies,
            Some("node-ports") => !self.has_node_ports(),
            _ => false,
        };
        is_needed && !is_headless(self.service)
    }

    /// Returns the line of its companion, if it has one: a Service without a selector has none.
    pub(super) fn companion_line(&self, provider: &str) -> Option<String> {
        let has_companion = self.needs_companion() && !selector(self.service).is_empty();
        has_companion.then(|| companion(provider, self.key, "NodePort Local", self.service))
    }

    /// Returns the entry, unless there is none.
    pub(super) fn entry(&self) -> Option<Entry> {
        if is_headless(self.service) {
            return None;
        }
        let door = match self.needs_companion() {
            true => self.companion()?,
            false => self.service,
        };
        let behind: Vec<&EndpointSlice> = self.slices_of(door).collect();
        let (endpoints, reached): (_, Reached<'_>) = match self.way? {
            "cluster-ip" => (at_addresses(door, &behind), Box::new(|_| true)),
            "node-ports" if is_local(door) => {
                let leads = |one: &Endpoint| {
                    let node = one.node_name.as_ref();
                    let node = node.and_then(|name| self.member.nodes.get(name));
                    node.is_some_and(is_ready)
                };
                (self.at_nodes(&behind), Box::new(leads))
            }
            "node-ports" => {
                let any = self.member.nodes.values().any(is_ready);
                (self.at_all_nodes(&behind), Box::new(move |_| any))
            }
            _ => return None,
        };
        let by_node = self.way == Some("node-ports");
        let made = EndpointSlice {
            metadata: ObjectMeta::default(),
            address_type: "IPv4".to_owned(),
            endpoints,
            ports: Some(entry_ports(door, &behind, by_node)),
        };
        let behind = behind.into_iter().map(|slice| only(slice, &reached));
        Some(Entry {
            behind: behind.collect(),
            slices: vec![made],
        })
    }

    fn companion(&self) -> Option<&'a Service> {
        let mut all = self.member.services.iter();
        let found = all.find(|((namespace, _), service)| {
            *namespace == self.key.0 && companion_of(service) == Some(self.key.1.as_str())
        });
        found.map(|(_, service)| service)
    }

    fn slices_of(&self, door: &Service) -> impl Iterator<Item = &'a EndpointSlice> {
        let (namespace, name) = (self.key.0.clone(), door.metadata.name.clone());
        let slices = self.member.slices.values();
        slices.filter(move |slice| {
            slice.metadata.namespace.as_ref() == Some(&namespace)
                && Some(label(*slice, labels::SERVICE_NAME)) == name.as_deref()
                && !is_copy(slice)
        })
    }

    /// Returns an endpoint for each node that an endpoint is on.
    fn at_nodes(&self, behind: &[&EndpointSlice]) -> Vec<Endpoint> {
        let nodes = self.member.nodes.iter();
        let found = nodes.filter_map(|(name, node)| {
            let on_node = endpoints(behind).filter(|one| one.node_name.as_ref() == Some(name));
            at_node(node, best(on_node)?)
        });
        found.collect()
    }

    /// Returns an endpoint for each node. All lead to every endpoint.
    fn at_all_nodes(&self, behind: &[&EndpointSlice]) -> Vec<Endpoint> {
        let Some(best) = best(endpoints(behind)) else {
            return Vec::new();
        };
        let nodes = self.member.nodes.values();
        nodes
            .filter_map(|node| at_node(node, best.clone()))
            .collect()
    }
}

/// Decides whether an entry leads to an endpoint.
type Reached<'a> = Box<dyn Fn(&Endpoint) -> bool + 'a>;

/// Returns the Service that this one is the companion of.
pub(super) fn companion_of(service: &Service) -> Option<&str> {
    annotation(&service.metadata, labels::COMPANION_OF)
}

/// Returns the line of an existing companion.
pub(super) fn existing_companion(member: &str, (namespace, _): &Key, service: &Service) -> String {
    let of = companion_of(service).unwrap_or_default().to_owned();
    let type_ = spec(service).and_then(|spec| spec.type_.as_deref());
    let policy = spec(service).and_then(|spec| spec.external_traffic_policy.as_deref());
    let type_ = [type_, policy].map(Option::unwrap_or_default).join(" ");
    companion(member, &(namespace.clone(), of), &type_, service)
}

/// Companion, with the ports and the selector of a Service.
fn companion(member: &str, (namespace, name): &Key, type_: &str, of: &Service) -> String {
    let (ports, selector) = (listed(&ports::of_service(of)), selector(of).join(","));
    format!(
        "{member}: companion of {namespace}/{name}: {type_}, ports {ports}, selector {selector}"
    )
}

fn spec(service: &Service) -> Option<&ServiceSpec> {
    service.spec.as_ref()
}

fn is_local(service: &Service) -> bool {
    let policy = spec(service).and_then(|spec| spec.external_traffic_policy.as_deref());
    policy == Some("Local")
}

fn endpoints<'a>(slices: &[&'a EndpointSlice]) -> impl Iterator<Item = &'a Endpoint> {
    slices.iter().flat_map(|slice| &slice.endpoints)
}

/// Returns the ports on which the addresses of an entry answer, of those that the endpoints have.
fn entry_ports(door: &Service, behind: &[&EndpointSlice], by_node: bool) -> Vec<EndpointPort> {
    let of_door = spec(door).and_then(|spec| spec.ports.as_deref());
    let has = |port: &ServicePort| {
        let mut of_slices = behind.iter().flat_map(|slice| slice.ports.iter().flatten());
        of_slices.any(|one| one.name.as_deref().unwrap_or_default() == name(port))
    };
    let ports = of_door.unwrap_or_default().iter().filter(|port| has(port));
    let entered = ports.map(|port| EndpointPort {
        name: Some(name(port).to_owned()),
        port: if by_node {
            port.node_port
        } else {
            Some(port.port)
        },
        ..EndpointPort::default()
    });
    entered.collect()
}

fn name(port: &ServicePort) -> &str {
    port.name.as_deref().unwrap_or_default()
}

/// Returns the conditions of the best of some endpoints: a ready one, else one that serves, else
/// one that does not terminate.
fn best<'a>(endpoints: impl Iterator<Item = &'a Endpoint>) -> Option<EndpointConditions> {
    let conditions = endpoints.map(|one| one.conditions.clone().unwrap_or_default());
    conditions.max_by_key(|one| {
        let ready = one.ready.unwrap_or(true);
        let serves = one.serving.unwrap_or(ready);
        (ready, serves, one.terminating != Some(true))
    })
}

fn at_addresses(door: &Service, behind: &[&EndpointSlice]) -> Vec<Endpoint> {
    let Some(conditions) = best(endpoints(behind)) else {
        return Vec::new();
    };
    let addresses = spec(door).and_then(|spec| spec.cluster_ips.clone());
    let at = |address| Endpoint {
        addresses: vec![address],
        conditions: Some(conditions.clone()),
        ..Endpoint::default()
    };
    addresses.unwrap_or_default().into_iter().map(at).collect()
}

/// Returns the endpoint of a node. Nothing behind a node that is not ready is.
fn at_node(node: &Node, best: EndpointConditions) -> Option<Endpoint> {
    let addresses = node.status.as_ref()?.addresses.iter().flatten();
    let mut internal = addresses.filter(|address| address.type_ == "InternalIP");
    let unready = || EndpointConditions {
        ready: Some(false),
        serving: Some(false),
        terminating: Some(false),
    };
    Some(Endpoint {
        addresses: vec![internal.next()?.address.clone()],
        conditions: Some(if is_ready(node) { best } else { unready() }),
        zone: Some(label(node, ZONE).to_owned()),
        ..Endpoint::default()
    })
}

fn is_ready(node: &Node) -> bool {
    let status = node.status.as_ref();
    let mut conditions = status
        .iter()
        .flat_map(|status| status.conditions.iter().flatten());
    let is_it = |one: &NodeCondition| one.type_ == "Ready" && one.status == "True";
    node.metadata.deletion_timestamp.is_none() && conditions.any(is_it)
}

/// Returns the slice with those endpoints unready that an entry does not lead to.
fn only(slice: &EndpointSlice, reached: &Reached<'_>) -> EndpointSlice {
    let mut slice = slice.clone();
    for endpoint in &mut slice.endpoints {
        if !reached(endpoint) {
            endpoint.conditions.get_or_insert_default().ready = Some(false);
        }
    }
    slice
}
