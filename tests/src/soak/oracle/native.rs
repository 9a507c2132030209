//! Desired objects of MultiClusterServices.

use std::collections::BTreeMap;
use std::fmt;

use causeway::api::{ClusterSelector, MultiClusterService, condition, labels};
use k8s_openapi::api::core::v1::Service;

use super::ports::{self, Port, is_headless, translated};
use super::tiers::{Standing, Tiers, readiness, standing_endpoint};
use super::{Lines, listed};
use crate::soak::snapshot::{Key, Member, Snapshot, is_applied, is_copy, label};

pub(super) fn tell(snapshot: &Snapshot, lines: &mut Lines) {
    for (key, exposed) in &snapshot.exposed {
        lines.tell(object(snapshot, key, exposed, "True"));
        if let Some(service) = snapshot.services.get(key).filter(|_| crosses(exposed)) {
            let reported = Reported {
                snapshot,
                key,
                exposed,
                service,
            };
            reported.services(lines);
            reported.copies(lines);
        }
    }
}

fn crosses(exposed: &MultiClusterService) -> bool {
    exposed
        .spec
        .types
        .iter()
        .any(|type_| type_ == "CrossCluster")
}

/// A MultiClusterService, with its Ready where that follows from the objects.
pub(super) fn object(
    snapshot: &Snapshot,
    key: &Key,
    exposed: &MultiClusterService,
    ready: &str,
) -> String {
    let (namespace, name) = key;
    let has_namespace = |member: &String| has_namespace(&snapshot.members[member], namespace);
    // What somebody applied may lack ports that are exposed since.
    let is_applied = |member: &Member| member.services.get(key).is_some_and(is_applied);
    let settled = crosses(exposed)
        && !snapshot.members.values().any(is_applied)
        && snapshot.joined.iter().all(has_namespace)
        && all_named(exposed).all(|name| snapshot.joined.contains(name));
    let ready = if settled { ready } else { "?" };
    format!("hub: MultiClusterService {namespace}/{name} Ready={ready}")
}

pub(super) fn is_ready(exposed: &MultiClusterService) -> &str {
    let status = exposed.status.as_ref();
    let conditions = status.and_then(|status| status.conditions.as_deref());
    let ready = conditions.and_then(|conditions| condition::find(conditions, "Ready"));
    ready.map_or("unsaid", |ready| &ready.status)
}

fn all_named(exposed: &MultiClusterService) -> impl Iterator<Item = &String> {
    let both = exposed
        .spec
        .provider_clusters
        .iter()
        .chain(&exposed.spec.consumer_clusters);
    both.map(|selector| &selector.name)
}

pub(super) fn has_namespace(member: &Member, name: &str) -> bool {
    member.namespaces.iter().any(|known| known == name)
}

/// One MultiClusterService with its Service.
struct Reported<'a> {
    snapshot: &'a Snapshot,
    key: &'a Key,
    exposed: &'a MultiClusterService,
    service: &'a Service,
}

impl Reported<'_> {
    /// The joined members that are meant, that have the namespace.
    fn members(&self, selected: &[ClusterSelector]) -> BTreeMap<&String, &Member> {
        let meant = |name: &&String| {
            selected.is_empty() || selected.iter().any(|selector| selector.name == **name)
        };
        let joined = self.snapshot.joined.iter().filter(meant);
        let members = joined.map(|name| (name, &self.snapshot.members[name]));
        members
            .filter(|(_, member)| has_namespace(member, &self.key.0))
            .collect()
    }

    fn ports(&self) -> Vec<Port> {
        let named = &self.exposed.spec.ports;
        let mut all = ports::of_service(self.service);
        all.retain(|port| named.is_empty() || named.iter().any(|entry| entry.port == port.number));
        all
    }

    /// The Service of that name that the member has by itself: it is used as it is.
    fn own_service<'m>(&self, member: &'m Member) -> Option<&'m Service> {
        let service = member.services.get(self.key)?;
        (!self.snapshot.is_ours(service)).then_some(service)
    }

    /// The ports of the Service in a member.
    fn ports_in(&self, member: &Member) -> Vec<Port> {
        let own = self.own_service(member).map(ports::of_service);
        own.unwrap_or_else(|| self.ports())
    }

    fn services(&self, lines: &mut Lines) {
        let providers = self.members(&self.exposed.spec.provider_clusters);
        let mut members = self.members(&self.exposed.spec.consumer_clusters);
        members.extend(providers.clone());
        members.retain(|_, member| self.own_service(member).is_none());
        for (name, _) in members {
            let spec = self.service.spec.clone().unwrap_or_default();
            let selector = if providers.contains_key(name) {
                let selector = spec.selector.unwrap_or_default().into_iter();
                selector
                    .map(|(key, value)| format!("{key}={value}"))
                    .collect()
            } else {
                vec![format!("{}=true", labels::NO_LOCAL_BACKENDS)]
            };
            let headless = is_headless(self.service);
            lines.tell(service(name, self.key, &self.ports(), headless, &selector));
        }
    }

    fn copies(&self, lines: &mut Lines) {
        let exposed = self.ports();
        let tiers = Tiers::of(&self.exposed.metadata).filter(|_| !is_headless(self.service));
        let providers = self.members(&self.exposed.spec.provider_clusters);
        for (consumer, there) in self.members(&self.exposed.spec.consumer_clusters) {
            let mut offered = self.ports_in(there);
            offered.retain(|port| exposed.iter().any(|exposed| exposed.is_same(port)));
            // The consumer's own pods are its own Service's, whoever provides.
            let readiness = |member| readiness(member, self.key, &self.ports_in(member), &offered);
            let own = (consumer.as_str(), readiness(there));
            let others = providers.iter().filter(|(name, _)| **name != consumer);
            let others = others.map(|(name, member)| (name.as_str(), readiness(member)));
            let all: Vec<_> = others.chain([own]).collect();
            for (provider, member) in &providers {
                if *provider == consumer {
                    continue;
                }
                let standing = tiers.as_ref().map_or(Standing::Ready, |tiers| {
                    tiers.standing(consumer, provider, &all)
                });
                let source = Source {
                    name: provider,
                    member,
                    standing,
                    ports: &self.ports_in(member),
                };
                let consumer = Consumer {
                    name: consumer,
                    key: self.key,
                    way: "native",
                    ports: &offered,
                };
                source.copies(&consumer, lines);
            }
        }
    }
}

/// A provider of endpoints.
pub(super) struct Source<'a> {
    pub(super) name: &'a str,
    pub(super) member: &'a Member,
    pub(super) standing: Standing,
    /// Ports of the provider's Service.
    pub(super) ports: &'a [Port],
}

/// A consumer of a service.
pub(super) struct Consumer<'a> {
    pub(super) name: &'a str,
    pub(super) key: &'a Key,
    /// `native` or `imported`.
    pub(super) way: &'a str,
    /// Ports of the consumer's Service.
    pub(super) ports: &'a [Port],
}

impl Source<'_> {
    /// Adds the endpoints that a consumer should have of it.
    pub(super) fn copies(&self, consumer: &Consumer<'_>, lines: &mut Lines) {
        let (namespace, name) = consumer.key;
        for slice in self.member.slices.values() {
            let is_of = label(slice, labels::SERVICE_NAME) == name
                && slice.metadata.namespace.as_ref() == Some(namespace);
            let ports = translated(slice, self.ports, consumer.ports);
            let is_absent = self.standing == Standing::Absent;
            if is_copy(slice) || !is_of || ports.is_empty() || is_absent {
                continue;
            }
            for address in &slice.endpoints {
                let copied = Copied {
                    consumer: consumer.name,
                    way: consumer.way,
                    service: (namespace, name),
                    from: self.name,
                    endpoint: &standing_endpoint(address, self.standing),
                    ports: &ports,
                };
                lines.tell(copied.to_string());
            }
        }
    }
}

/// A Service that causeway made.
pub(super) fn service(
    member: &str,
    (namespace, name): &Key,
    ports: &[Port],
    headless: bool,
    selector: &[String],
) -> String {
    let (ports, selector) = (listed(ports), selector.join(","));
    let kind = if headless {
        "headless"
    } else {
        "with addresses"
    };
    format!("{member}: Service {namespace}/{name} {kind}, ports {ports}, selector {selector}")
}

/// An endpoint in a copy.
pub(super) struct Copied<'a> {
    pub(super) consumer: &'a str,
    /// `native` or `imported`.
    pub(super) way: &'a str,
    /// Namespace and name.
    pub(super) service: (&'a str, &'a str),
    pub(super) from: &'a str,
    pub(super) endpoint: &'a str,
    pub(super) ports: &'a [String],
}

impl fmt::Display for Copied<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (consumer, way, from) = (self.consumer, self.way, self.from);
        let (namespace, name) = self.service;
        let (endpoint, ports) = (self.endpoint, self.ports.join(","));
        write!(
            out,
            "{consumer}: {way} endpoint of {namespace}/{name} from {from}: {endpoint}, ports {ports}"
        )
    }
}
