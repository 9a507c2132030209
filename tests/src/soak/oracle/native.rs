//! Desired objects of MultiClusterServices.

use std::collections::BTreeMap;
use std::fmt;

use causeway::api::{ClusterSelector, MultiClusterService, condition, labels};
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::ObjectMeta;

use super::networks::{Entry, Site, are_apart};
use super::ports::{self, BALANCED, Port, is_headless, translated};
use super::tiers::{Standing, Tiers, readiness, standing_endpoint};
use super::{Lines, crosses, dispatches, has_entries, listed, selector};
use crate::soak::snapshot::{
    Key, Member, Snapshot, balanced_at, is_applied, is_balanced, is_copy, label,
};

pub(super) fn tell(snapshot: &Snapshot, lines: &mut Lines) {
    for (key, exposed) in &snapshot.exposed {
        lines.tell(object(snapshot, key, exposed, "True"));
        let Some(service) = snapshot.services.get(key) else {
            continue;
        };
        let reported = Reported {
            snapshot,
            key,
            exposed,
            service,
        };
        if dispatches(exposed) {
            reported.services(lines);
            reported.copies(lines);
        }
        if !crosses(exposed) {
            lines.tell(addresses(key, reported.addresses().into_iter()));
        }
    }
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
        && snapshot.joined.keys().all(has_namespace)
        && all_named(exposed).all(|name| snapshot.joined.contains_key(name));
    let ready = if settled { ready } else { "?" };
    format!("hub: MultiClusterService {namespace}/{name} Ready={ready}")
}

pub(super) fn is_ready(exposed: &MultiClusterService) -> &str {
    let status = exposed.status.as_ref();
    let conditions = status.and_then(|status| status.conditions.as_deref());
    let ready = conditions.and_then(|conditions| condition::find(conditions, "Ready"));
    ready.map_or("unsaid", |ready| &ready.status)
}

/// The addresses in the status of a MultiClusterService of type LoadBalancer.
pub(super) fn addresses<'a>(
    (namespace, name): &Key,
    addresses: impl Iterator<Item = &'a str>,
) -> String {
    let mut addresses: Vec<_> = addresses.collect();
    addresses.sort_unstable();
    let addresses = addresses.join(",");
    format!("hub: MultiClusterService {namespace}/{name} has addresses {addresses:?}")
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
        let members = self.selected(selected);
        members
            .filter(|(_, member)| has_namespace(member, &self.key.0))
            .collect()
    }

    /// The joined members that are meant.
    fn selected(&self, selected: &[ClusterSelector]) -> impl Iterator<Item = (&String, &Member)> {
        let meant = |name: &&String| {
            selected.is_empty() || selected.iter().any(|selector| selector.name == **name)
        };
        let joined = self.snapshot.joined.keys().filter(meant);
        joined.map(|name| (name, &self.snapshot.members[name]))
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
        let consumers = self.members(&self.exposed.spec.consumer_clusters);
        let mut members = consumers.clone();
        members.extend(providers.clone());
        members.retain(|_, member| self.own_service(member).is_none());
        for (name, _) in members {
            let selector = if providers.contains_key(name) {
                selector(self.service)
            } else {
                vec![format!("{}=true", labels::NO_LOCAL_BACKENDS)]
            };
            let kind = match has_entries(self.exposed) && consumers.contains_key(name) {
                true => BALANCED,
                false => ports::kind_of(is_headless(self.service)),
            };
            lines.tell(service(name, self.key, &self.ports(), kind, &selector));
        }
    }

    /// Tiers, if a proxy chooses the endpoints. In an entry cluster one does.
    fn tiers(&self) -> Option<Tiers<'_>> {
        let chooses = has_entries(self.exposed) || !is_headless(self.service);
        Tiers::of(&self.exposed.metadata).filter(|_| chooses)
    }

    /// The cluster as a provider.
    fn source<'s>(&'s self, (name, member): (&'s str, &'s Member)) -> Source<'s> {
        let (asks, ports) = (&self.exposed.metadata, self.ports_in(member));
        Source::of(self.snapshot, (name, member), self.key, asks, ports)
    }

    fn sources(&self) -> Vec<Source<'_>> {
        let providers = self.members(&self.exposed.spec.provider_clusters);
        let all = providers.into_iter();
        all.map(|(name, member)| self.source((name, member)))
            .collect()
    }

    /// The exposed ports that the Service of a consumer has, under its own names.
    fn offered(&self, member: &Member) -> Vec<Port> {
        let exposed = self.ports();
        let mut offered = self.ports_in(member);
        offered.retain(|port| exposed.iter().any(|exposed| exposed.is_same(port)));
        offered
    }

    /// Whether the Service of a consumer is headless.
    fn is_headless_in(&self, member: &Member) -> bool {
        match self.own_service(member) {
            Some(own) => is_headless(own),
            None => !has_entries(self.exposed) && is_headless(self.service),
        }
    }

    /// The addresses that the status should have: those of the entry clusters that can serve, or of
    /// the providers' own Services if there are no entry clusters.
    fn addresses(&self) -> Vec<&str> {
        let has_entries = has_entries(self.exposed);
        let spec = &self.exposed.spec;
        let selected = match has_entries {
            true => &spec.consumer_clusters,
            false => &spec.provider_clusters,
        };
        let used = self.members(selected).into_iter();
        let used = used.filter(|(name, member)| !has_entries || self.can_serve(name, member));
        let services = used.filter_map(|(_, member)| member.services.get(self.key));
        services.flat_map(balanced_at).collect()
    }

    /// Whether the Service of an entry cluster has a load balancer that leads to a ready endpoint
    /// of a provider.
    fn can_serve(&self, name: &str, member: &Member) -> bool {
        let ports = self.offered(member);
        let consumer = Consumer {
            name,
            key: self.key,
            way: "native",
            ports: &ports,
            is_headless: self.is_headless_in(member),
        };
        let (sources, tiers) = (self.sources(), self.tiers());
        let sources: Vec<_> = sources.iter().collect();
        let is_used = |provider: &str, ready: &[(&str, [usize; 2])]| {
            let standing = tiers
                .as_ref()
                .map(|tiers| tiers.standing(name, provider, ready));
            provider == name || standing != Some(Standing::Absent)
        };
        let found = consumer.found(&sources);
        let ready: Vec<_> = found.iter().map(Found::readiness).collect();
        let mut of_providers = ready.iter();
        let service = member.services.get(self.key);
        service.is_some_and(is_balanced)
            && of_providers.any(|(provider, [count, _])| *count > 0 && is_used(provider, &ready))
    }

    fn copies(&self, lines: &mut Lines) {
        let (tiers, sources) = (self.tiers(), self.sources());
        // Also for those that lack the namespace, which may come at any time.
        for (consumer, _) in self.selected(&self.exposed.spec.consumer_clusters) {
            for source in &sources {
                source.tell_companion(consumer, lines);
            }
        }
        for (consumer, there) in self.members(&self.exposed.spec.consumer_clusters) {
            let offered = self.offered(there);
            // The consumer's own pods are its own Service's, whoever provides.
            let own = self.source((consumer, there));
            let consumer = Consumer {
                name: consumer,
                key: self.key,
                way: "native",
                ports: &offered,
                is_headless: self.is_headless_in(there),
            };
            let others = sources.iter().filter(|source| source.name != consumer.name);
            let all: Vec<_> = others.chain([&own]).collect();
            consumer.tell(&all, tiers.as_ref(), false, lines);
        }
    }
}

/// A provider of endpoints.
pub(super) struct Source<'a> {
    pub(super) name: &'a str,
    snapshot: &'a Snapshot,
    member: &'a Member,
    key: &'a Key,
    /// Ports of the provider's Service.
    ports: Vec<Port>,
    site: Option<Site<'a>>,
}

/// Slices of a provider that a consumer gets copies of.
struct Found<'a> {
    source: &'a Source<'a>,
    slices: Vec<EndpointSlice>,
    /// Number of ready endpoints behind them, and of all.
    ready: [usize; 2],
}

impl<'a> Found<'a> {
    fn readiness(&self) -> (&'a str, [usize; 2]) {
        (self.source.name, self.ready)
    }
}

/// A consumer of a service.
pub(super) struct Consumer<'a> {
    pub(super) name: &'a str,
    pub(super) key: &'a Key,
    /// `native` or `imported`.
    pub(super) way: &'a str,
    /// Ports of the consumer's Service.
    pub(super) ports: &'a [Port],
    /// Whether that Service is headless: no entry of another network serves it.
    pub(super) is_headless: bool,
}

impl<'a> Source<'a> {
    /// Returns a provider of a service that the object with this metadata exposes.
    pub(super) fn of(
        snapshot: &'a Snapshot,
        (name, member): (&'a str, &'a Member),
        key: &'a Key,
        asks: &'a ObjectMeta,
        ports: Vec<Port>,
    ) -> Self {
        Self {
            name,
            snapshot,
            member,
            key,
            ports,
            site: Site::of(snapshot, name, key, asks),
        }
    }

    fn is_apart_from(&self, consumer: &str) -> bool {
        are_apart(self.snapshot, self.name, consumer)
    }

    /// Adds the companion by which a consumer reaches the provider.
    pub(super) fn tell_companion(&self, consumer: &str, lines: &mut Lines) {
        let site = self.site.as_ref().filter(|_| self.is_apart_from(consumer));
        if let Some(line) = site.and_then(|site| site.companion_line(self.name)) {
            lines.tell_once(line);
        }
    }

    /// Returns the slices that a consumer gets copies of, and those of the pods behind them.
    fn slices(&self, consumer: &Consumer<'_>) -> Entry {
        if self.is_apart_from(consumer.name) {
            let site = self.site.as_ref().filter(|_| !consumer.is_headless);
            return site.and_then(Site::entry).unwrap_or_default();
        }
        let (namespace, name) = self.key;
        let all = self.member.slices.values().filter(|slice| {
            label(*slice, labels::SERVICE_NAME) == name
                && slice.metadata.namespace.as_ref() == Some(namespace)
                && !is_copy(slice)
        });
        let slices: Vec<EndpointSlice> = all.cloned().collect();
        Entry {
            behind: slices.clone(),
            slices,
        }
    }
}

impl Consumer<'_> {
    /// Adds the endpoints that the consumer should have of each provider. Tiers count the
    /// consumer's own pods, whether or not it gets copies of its own slices.
    pub(super) fn tell(
        &self,
        sources: &[&Source<'_>],
        tiers: Option<&Tiers<'_>>,
        copies_own: bool,
        lines: &mut Lines,
    ) {
        let found = self.found(sources);
        let ready: Vec<_> = found.iter().map(Found::readiness).collect();
        for Found { source, slices, .. } in &found {
            if source.name == self.name && !copies_own {
                continue;
            }
            let standing = tiers.map_or(Standing::Ready, |tiers| {
                tiers.standing(self.name, source.name, &ready)
            });
            if standing != Standing::Absent {
                self.tell_copies(source, slices, standing, lines);
            }
        }
    }

    /// Returns what the consumer finds in each provider.
    fn found<'s>(&self, sources: &[&'s Source<'s>]) -> Vec<Found<'s>> {
        let found = sources.iter().map(|source| {
            let Entry { slices, behind } = source.slices(self);
            Found {
                source,
                slices,
                ready: readiness(&behind, &source.ports, self.ports),
            }
        });
        found.collect()
    }

    fn tell_copies(
        &self,
        source: &Source<'_>,
        slices: &[EndpointSlice],
        standing: Standing,
        lines: &mut Lines,
    ) {
        for slice in slices {
            let ports = translated(slice, &source.ports, self.ports);
            if ports.is_empty() {
                continue;
            }
            for address in &slice.endpoints {
                let copied = Copied {
                    consumer: self.name,
                    way: self.way,
                    service: (&self.key.0, &self.key.1),
                    from: source.name,
                    endpoint: &standing_endpoint(address, standing),
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
    kind: &str,
    selector: &[String],
) -> String {
    let (ports, selector) = (listed(ports), selector.join(","));
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
