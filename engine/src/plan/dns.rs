//! Names that DNS publishes for a service of type LoadBalancer: the DNSEndpoint on the hub.
//!
//! A target goes by the same evidence as an endpoint does, and never the last one: resolvers
//! remember that a name has no address. A record that leads to its own name is deleted: it resolves
//! to no address. A name has one owner ([`Index::name_owner`]); other services that request it do
//! without. With a routing property each value of a cluster has its own records.

mod routing;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use causeway::api::labels;
use causeway::api::{DNSEndpoint, DNSEndpointSpec, DnsProperty, DnsRecord};
use causeway::domain::{
    ClusterName, ClusterSelection, Hostnames, Ranges, RequestedHostnames, ServiceKey, is_dns_name,
};
use k8s_openapi::api::core::v1::LoadBalancerIngress;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use serde_json::{Value, json};

pub(crate) use self::routing::Routing;
use super::entry_clusters::{EntryCluster, EntryClusters, EntryState};
use super::inputs::Inputs;
use super::placement::Placement;
use super::provider_use::{ProviderUses, UnreachablePolicy, Unused};
use crate::model::object::{new_meta, own_labels};
use crate::model::{Failure, FailureKind, HubDnsEndpoint, RecordedTargets, TimePoint};
use crate::observed::Index;
use crate::observed::hub::{DnsKnowledge, McsView};

/// Time to live of a record, in seconds: resolvers use a dead target for as long.
const TTL: i64 = 30;
/// Maximum number of targets of a cluster.
const TARGETS_MAX: usize = 64;

/// Plan of the DNSEndpoint of a service.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) enum NamePlan {
    /// It stays as it is.
    #[default]
    Untouched,
    /// No name is requested: causeway's DNSEndpoint is deleted.
    Removed,
    /// Names are requested.
    Wanted(DesiredName),
}

/// Names of a service, and the records that they should have.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct DesiredName {
    /// Names that the service owns. Without any, it has no DNSEndpoint.
    pub owned: Vec<Box<str>>,
    /// Names that another service owns, with the owner.
    pub taken: Vec<(Box<str>, ServiceKey)>,
    /// Targets of each cluster to which they lead.
    pub targets: RecordedTargets,
    /// Property by which DNS chooses among clusters; `None` if one record has the targets of all.
    pub routing: Option<Box<Routing>>,
    /// Origin of these targets.
    pub basis: Basis,
    /// Records; none if no target is known, and then the DNSEndpoint stays as it is.
    pub records: Vec<DnsRecord>,
    /// Hostnames of load balancers whose addresses are needed.
    pub lookups: BTreeSet<Box<str>>,
    /// Hostname of a load balancer that is one of the owned names, and no target of them.
    pub own_target: Option<Box<str>>,
    /// Whether the DNSEndpoint leads to an owned name, and no other target is known: it is deleted.
    pub leads_to_itself: bool,
    /// Time at which the targets change without an event.
    pub again_at: Option<TimePoint>,
}

/// Origin of the targets of a name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Basis {
    /// Clusters that can serve, or of which nothing proves that they cannot.
    Serving,
    /// Clusters that are out of reach: no other cluster can serve.
    Standby,
    /// No cluster can serve: the last targets stay.
    #[default]
    Last,
}

impl NamePlan {
    /// Returns the names that are requested.
    pub(crate) fn wanted(&self) -> Option<&DesiredName> {
        match self {
            Self::Wanted(name) => Some(name),
            Self::Untouched | Self::Removed => None,
        }
    }

    /// Whether the DNSEndpoint is deleted: the service has no name of its own, or its name leads to
    /// itself.
    pub(crate) fn is_withdrawn(&self) -> bool {
        match self {
            Self::Untouched => false,
            Self::Removed => true,
            Self::Wanted(name) => name.owned.is_empty() || name.leads_to_itself,
        }
    }
}

/// Plans the DNSEndpoint of a service, given its entry clusters if it has any.
pub(super) fn plan(
    inputs: Inputs<'_>,
    placement: &Placement,
    entry_clusters: Option<&EntryClusters>,
) -> NamePlan {
    let Some(mcs) = inputs.index.multi_cluster_service(inputs.key) else {
        // The API server's garbage collector deletes it with its owner.
        return NamePlan::Untouched;
    };
    match (mcs.requested_names(), &mcs.spec) {
        (RequestedHostnames::Nothing, _) => NamePlan::Removed,
        (RequestedHostnames::Unreadable, _) | (_, Err(_)) => NamePlan::Untouched,
        (RequestedHostnames::Names(names), Ok(spec)) => {
            let entries = Entries {
                inputs,
                placement,
                entry_clusters,
                requested: match entry_clusters {
                    Some(_) => &spec.consumers,
                    None => &spec.providers,
                },
            };
            NamePlan::Wanted(desired_name(mcs, names, &entries))
        }
    }
}

/// Clusters whose load balancers clients outside all clusters use: the entry clusters of the
/// service if it has any, otherwise its providers.
struct Entries<'a> {
    inputs: Inputs<'a>,
    placement: &'a Placement,
    entry_clusters: Option<&'a EntryClusters>,
    /// Selection of these clusters by the MultiClusterService.
    requested: &'a ClusterSelection,
}

impl<'a> Entries<'a> {
    fn names(&self) -> Box<dyn Iterator<Item = &'a ClusterName> + 'a> {
        match self.entry_clusters {
            Some(entries) => Box::new(entries.iter().map(|(name, _)| name)),
            None => Box::new(self.placement.providers()),
        }
    }

    /// Returns those that the service does not use as they are.
    fn uses(&self, mcs: &McsView) -> Cow<'a, ProviderUses> {
        if let Some(entries) = self.entry_clusters {
            return Cow::Borrowed(&entries.uses);
        }
        let (index, settings) = (self.inputs.index, self.inputs.settings);
        let policy = UnreachablePolicy {
            requested: mcs.failover.unreachable,
            default: settings.unreachable,
            headless: false,
        };
        let uses = ProviderUses::of(index, settings, policy, self.names(), self.inputs.now);
        Cow::Owned(uses)
    }

    /// Returns the targets of the clusters that may serve, then those of standby clusters, and the
    /// hostnames whose addresses are needed. `recorded` are those of clusters of which nothing is
    /// known. A name that is `owned` is no target: it would lead to itself.
    fn targets(
        &self,
        uses: &ProviderUses,
        recorded: &RecordedTargets,
        owned: &[Box<str>],
    ) -> (RecordedTargets, RecordedTargets, BTreeSet<Box<str>>) {
        let index = self.inputs.index;
        // A cluster that may be lost, or that lost its credentials, is no proof. A person may drain
        // one without credentials, or stop requesting it.
        let suspected = index.suspected_clusters();
        let left_out = &self.placement.left_out;
        let is_unused = |name: &ClusterName| Unused::everywhere(index, name).is_some();
        let is_held = |name: &&ClusterName| {
            suspected.contains(*name) || (left_out.contains_key(*name) && !is_unused(name))
        };
        let requested = recorded.keys().filter(|name| self.requested.includes(name));
        let held: BTreeSet<_> = requested.filter(is_held).collect();
        let is_alone = self
            .names()
            .chain(held.iter().copied())
            .collect::<BTreeSet<_>>()
            .len()
            == 1;
        let known = |name: &ClusterName, lookups: &mut BTreeSet<Box<str>>| {
            let known = recorded.get(name).cloned().unwrap_or_default();
            let (targets, awaited) = resolve(index, known, is_alone, lookups);
            // A recorded hostname stays until its addresses are known.
            merge(targets, awaited)
        };
        let mut lookups = BTreeSet::new();
        let (mut serving, mut standby) = (RecordedTargets::new(), RecordedTargets::new());
        for name in self.names().filter(|name| uses.unused(name).is_none()) {
            let (ingress, can_serve) = self.entry(name);
            let ingress = ingress.iter().flat_map(targets_of);
            let ingress = ingress.filter(|target| !owned.contains(target));
            let (found, awaited) = resolve(index, ingress, is_alone, &mut lookups);
            let targets = match can_serve {
                None => known(name, &mut lookups),
                Some(_) if awaited.is_empty() => found,
                // A hostname without an address may have had the recorded targets.
                Some(_) => merge(found, known(name, &mut lookups)),
            };
            if uses.standby.contains(name) {
                standby.insert(name.clone(), targets);
            } else if can_serve != Some(false) {
                serving.insert(name.clone(), targets);
            }
        }
        let held = held.into_iter();
        serving.extend(held.map(|name| (name.clone(), known(name, &mut lookups))));
        (serving, standby, lookups)
    }

    /// Returns the addresses of the load balancer of a cluster, and whether it can serve: `None` if
    /// that is unknown.
    fn entry(&self, name: &ClusterName) -> (&'a [LoadBalancerIngress], Option<bool>) {
        if let Some(entries) = self.entry_clusters {
            return entries.get(name).map_or((&[], None), of_entry_cluster);
        }
        let (index, key) = (self.inputs.index, self.inputs.key);
        let Some(member) = index.member(name) else {
            return (&[], None);
        };
        // The load balancer of a terminating Service is being removed.
        let service = member.service(key).filter(|service| !service.deleting);
        let ingress = service.map(|service| &*service.ingress);
        (ingress.unwrap_or_default(), member.has_ready(key))
    }
}

/// Returns the addresses of an entry cluster, and whether it can serve.
fn of_entry_cluster(entry: &EntryCluster) -> (&[LoadBalancerIngress], Option<bool>) {
    let can_serve = match entry.state {
        EntryState::Serves => Some(true),
        EntryState::Unknown | EntryState::GivenUp => None,
        EntryState::NoEndpoint { .. } | EntryState::Unused(_) | EntryState::NoAddress(_) => {
            Some(false)
        }
    };
    (entry.addresses.as_deref().unwrap_or_default(), can_serve)
}

fn desired_name(mcs: &McsView, hostnames: &Hostnames, entries: &Entries<'_>) -> DesiredName {
    let (index, key) = (entries.inputs.index, entries.inputs.key);
    let (owned, taken) = split(index, key, hostnames);
    if owned.is_empty() {
        return DesiredName {
            taken,
            ..DesiredName::default()
        };
    }
    let uses = entries.uses(mcs);
    let known = match index.dns_endpoint(key) {
        DnsKnowledge::Known(known) => known,
        _ => None,
    };
    let mut recorded = known.map(HubDnsEndpoint::targets).unwrap_or_default();
    for targets in recorded.values_mut() {
        targets.retain(|target| !owned.contains(target));
    }
    // Earlier versions recorded hostnames beside addresses, though no record had them.
    retain_one_kind(&mut recorded, false);
    let in_use = entries.names().filter(|name| uses.unused(name).is_none());
    let routing = hostnames.routing();
    let routing = routing.map(|property| Routing::of(property, index, known, in_use));
    let routing = routing.map(Box::new);
    let (serving, standby, lookups) = entries.targets(&uses, &recorded, &owned);
    let ingress = entries.names().flat_map(|name| entries.entry(name).0);
    let own_target = ingress.flat_map(targets_of).find(|one| owned.contains(one));
    let all = [
        (Basis::Serving, serving),
        (Basis::Standby, standby),
        (Basis::Last, recorded),
    ];
    let (basis, records, targets) = first_with_records(&owned, routing.as_deref(), all);
    let leads_to_itself = known.is_some_and(|known| leads_to(known, &owned));
    DesiredName {
        leads_to_itself: leads_to_itself && records.is_empty() && own_target.is_some(),
        owned,
        taken,
        targets,
        routing,
        basis,
        records,
        lookups,
        own_target,
        again_at: uses.again_at,
    }
}

/// Whether a record of the DNSEndpoint has one of the names as its target.
fn leads_to(known: &HubDnsEndpoint, names: &[Box<str>]) -> bool {
    let mut targets = known.records.iter().flat_map(|record| &record.targets);
    targets.any(|target| names.iter().any(|name| **name == **target))
}

/// Names that a service owns, and those that another one owns.
type Split = (Vec<Box<str>>, Vec<(Box<str>, ServiceKey)>);

fn split(index: &Index, key: &ServiceKey, hostnames: &Hostnames) -> Split {
    let mut split = Split::default();
    for name in hostnames.iter() {
        match index.name_owner(name).filter(|owner| *owner != key) {
            Some(owner) => split.1.push((name.into(), owner.clone())),
            None => split.0.push(name.into()),
        }
    }
    split
}

/// Returns the first of these targets that make any record, and the records.
fn first_with_records(
    hostnames: &[Box<str>],
    routing: Option<&Routing>,
    all: [(Basis, RecordedTargets); 3],
) -> (Basis, Vec<DnsRecord>, RecordedTargets) {
    let has_record =
        |name: &ClusterName| routing.is_none_or(|routing| routing.values.contains_key(name));
    let all = all.into_iter().map(|(basis, mut targets)| {
        targets.retain(|name, _| has_record(name));
        // A hostname was the target of the name before, and stays until its addresses are known.
        retain_one_kind(&mut targets, true);
        (basis, records(hostnames, routing, &targets), targets)
    });
    let mut found = all.filter(|(_, records, _)| !records.is_empty());
    found.next().unwrap_or_default()
}

/// Retains the hostnames, or the addresses, of targets that have both: no name has both.
fn retain_one_kind(targets: &mut RecordedTargets, hostnames: bool) {
    let of = |kind: bool| {
        targets
            .values()
            .flatten()
            .any(|one| is_hostname(one) == kind)
    };
    let has_both = of(true) && of(false);
    for of_cluster in targets.values_mut() {
        of_cluster.retain(|one| !has_both || is_hostname(one) == hostnames);
    }
    targets.retain(|_, of_cluster| !of_cluster.is_empty());
}

fn is_hostname(target: &str) -> bool {
    target.parse::<IpAddr>().is_err()
}

/// Returns the address and the hostname of an entry of a load balancer.
fn targets_of(ingress: &LoadBalancerIngress) -> impl Iterator<Item = Box<str>> {
    let all = ingress.ip.iter().chain(&ingress.hostname);
    all.map(|one| one.as_str().into())
}

/// Replaces the hostnames among the targets of a cluster by their addresses, and adds them to
/// `lookups`. Returns the targets, and the hostnames without an address.
///
/// The only hostname of the only cluster becomes the target of a CNAME. A CNAME has one target and
/// no other record beside it, so any other hostname counts by its addresses.
fn resolve(
    index: &Index,
    all: impl IntoIterator<Item = Box<str>>,
    is_alone: bool,
    lookups: &mut BTreeSet<Box<str>>,
) -> (BTreeSet<Box<str>>, BTreeSet<Box<str>>) {
    let (mut addresses, mut hosts) = (BTreeSet::new(), BTreeSet::new());
    for target in all {
        if let Ok(address) = target.parse::<IpAddr>() {
            addresses.insert(address);
        } else if hosts.len() < TARGETS_MAX && is_dns_name(&target) {
            hosts.insert(target);
        }
    }
    addresses.retain(is_routable);
    if is_alone && addresses.is_empty() && hosts.len() == 1 {
        return (hosts, BTreeSet::new());
    }
    let resolved = hosts.iter().flat_map(|host| index.resolved(host));
    addresses.extend(resolved.copied().filter(is_routable));
    lookups.extend(hosts.iter().cloned());
    hosts.retain(|host| index.resolved(host).is_empty());
    let targets = addresses.into_iter().take(TARGETS_MAX);
    (targets.map(|ip| ip.to_string().into()).collect(), hosts)
}

/// Adds targets to others, up to the bound.
fn merge(mut targets: BTreeSet<Box<str>>, more: BTreeSet<Box<str>>) -> BTreeSet<Box<str>> {
    for target in more {
        if targets.len() < TARGETS_MAX {
            targets.insert(target);
        }
    }
    targets
}

/// Whether traffic to that address may leave a node: a member must not point clients at themselves.
pub(crate) fn is_routable(address: &IpAddr) -> bool {
    Ranges::default().refusal(*address).is_none()
}

/// Returns the records of each name, sorted by the value of the routing property, then by type.
fn records(
    hostnames: &[Box<str>],
    routing: Option<&Routing>,
    targets: &RecordedTargets,
) -> Vec<DnsRecord> {
    let mut addresses: BTreeMap<_, BTreeSet<IpAddr>> = BTreeMap::new();
    let mut hosts = BTreeSet::new();
    for (cluster, targets) in targets {
        let routed = routing.and_then(|routing| routing.property_of(cluster));
        for target in targets {
            let Ok(address) = target.parse::<IpAddr>() else {
                hosts.insert((routed, target));
                continue;
            };
            let type_ = if address.is_ipv4() { "A" } else { "AAAA" };
            let of_type = addresses.entry((routed, type_)).or_default();
            of_type.insert(address);
        }
    }
    let mut all: Vec<(_, Vec<String>)> = addresses
        .into_iter()
        .map(|(of, all)| (of, all.iter().map(ToString::to_string).collect()))
        .collect();
    let mut hosts = hosts.into_iter();
    if let (true, Some((routed, host)), None) = (all.is_empty(), hosts.next(), hosts.next()) {
        all.push(((routed, "CNAME"), vec![host.to_string()]));
    }
    let mut records = Vec::new();
    for name in hostnames {
        let of_name = all.iter().map(|((routed, type_), targets)| DnsRecord {
            dns_name: name.to_string(),
            record_type: (*type_).to_owned(),
            record_ttl: TTL,
            targets: targets.clone(),
            set_identifier: routed.map(|(_, value)| value.to_owned()),
            provider_specific: routed.map(property).into_iter().collect(),
            ..DnsRecord::default()
        });
        records.extend(of_name);
    }
    records
}

fn property((name, value): (&str, &str)) -> DnsProperty {
    DnsProperty {
        name: name.to_owned(),
        value: value.to_owned(),
    }
}

/// State of the names of a service, which Ready and `explain` report.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum NameState<'a> {
    /// The hub serves no DNSEndpoints.
    NotServed,
    /// DNSEndpoints cannot be read.
    Unreadable(&'a Failure),
    /// An object that is not causeway's has the name of the DNSEndpoint.
    Foreign,
    /// The DNSEndpoint cannot be written.
    NotWritten(&'a Failure),
    /// This service owns them.
    Taken(&'a ServiceKey),
    /// The DNSEndpoint is not as planned yet.
    Unsettled,
    /// No cluster has given a target yet.
    NoTarget {
        /// Hostname of a load balancer that is a name of the service itself.
        own: Option<&'a str>,
    },
    /// Clusters lack a value of the routing property, so no record has their targets.
    NoValue {
        /// Property and clusters.
        routing: &'a Routing,
        /// Whether the DNSEndpoint stays as it is, because no cluster with a value can serve.
        is_held: bool,
    },
    /// The DNSEndpoint has these targets.
    Published {
        /// Targets of each cluster.
        targets: &'a RecordedTargets,
        /// Property by which DNS chooses among the clusters.
        routing: Option<&'a Routing>,
        /// Origin of the targets.
        basis: Basis,
        /// Hostname whose addresses are not known yet, so that those of other clusters wait.
        awaited: Option<&'a str>,
    },
}

impl DesiredName {
    /// Returns the state of all names, each name once; nothing while DNSEndpoints are unknown.
    /// `failure` is that of the write of the DNSEndpoint.
    pub(crate) fn states<'a>(
        &'a self,
        index: &'a Index,
        key: &ServiceKey,
        failure: Option<&'a Failure>,
    ) -> Vec<(Vec<&'a str>, NameState<'a>)> {
        let Some(mcs) = index.multi_cluster_service(key) else {
            return Vec::new();
        };
        let owned = self.owned.iter().map(|name| &**name);
        let all = owned
            .clone()
            .chain(self.taken.iter().map(|(name, _)| &**name));
        let known = match index.dns_endpoint(key) {
            DnsKnowledge::Pending => return Vec::new(),
            DnsKnowledge::NotServed => return vec![(all.collect(), NameState::NotServed)],
            DnsKnowledge::Unreadable(failure) => {
                return vec![(all.collect(), NameState::Unreadable(failure))];
            }
            DnsKnowledge::Known(known) => known,
        };
        let mut states = Vec::new();
        if !self.owned.is_empty() {
            states.push((
                owned.clone().collect(),
                self.state(known, &mcs.uid, failure),
            ));
            let partly = self.lacks_values().filter(|_| !self.records.is_empty());
            states.extend(partly.map(|state| (owned.collect(), state)));
        }
        let mut by_owner: BTreeMap<&ServiceKey, Vec<&str>> = BTreeMap::new();
        for (name, owner) in &self.taken {
            by_owner.entry(owner).or_default().push(name);
        }
        let taken = by_owner.into_iter();
        states.extend(taken.map(|(owner, names)| (names, NameState::Taken(owner))));
        states
    }

    /// Returns the state of the names that the service owns, given its DNSEndpoint.
    fn state<'a>(
        &'a self,
        known: Option<&HubDnsEndpoint>,
        owner: &str,
        failure: Option<&'a Failure>,
    ) -> NameState<'a> {
        match (known, failure) {
            (Some(known), _) if known.owner.is_none() => NameState::Foreign,
            (None, Some(failure)) if failure.kind == FailureKind::AlreadyExists => {
                NameState::Foreign
            }
            (_, Some(failure)) => NameState::NotWritten(failure),
            _ if self.records.is_empty() => {
                let own = self.own_target.as_deref();
                self.lacks_values().unwrap_or(NameState::NoTarget { own })
            }
            (Some(known), None) if self.is_met_by(known, owner) => NameState::Published {
                targets: &self.targets,
                routing: self.routing.as_deref(),
                basis: self.basis,
                awaited: self.awaited(),
            },
            _ => NameState::Unsettled,
        }
    }

    /// Returns the hostname that is the only target until its addresses are known.
    fn awaited(&self) -> Option<&str> {
        let mut targets = self.targets.values().flatten();
        let awaited = targets.find(|one| self.lookups.contains(*one));
        awaited.map(|host| &**host)
    }

    fn lacks_values(&self) -> Option<NameState<'_>> {
        let routing = self.routing.as_deref();
        let routing = routing.filter(|routing| !routing.without_value.is_empty());
        routing.map(|routing| NameState::NoValue {
            routing,
            is_held: self.records.is_empty(),
        })
    }

    /// Whether a DNSEndpoint is as it should be.
    pub(crate) fn is_met_by(&self, object: &HubDnsEndpoint, owner: &str) -> bool {
        object.owner.as_deref() == Some(owner)
            && *object.records == *self.records
            && *object.recorded == *self.recorded()
    }

    /// Returns the object to create.
    pub(crate) fn object(&self, key: &ServiceKey, owner: &str, hub: &str) -> DNSEndpoint {
        let annotations = [(labels::TARGETS.to_owned(), self.recorded())].into();
        DNSEndpoint {
            metadata: ObjectMeta {
                owner_references: Some(vec![reference(key, owner)]),
                ..new_meta(key, own_labels(hub), annotations)
            },
            spec: DNSEndpointSpec {
                endpoints: self.records.clone(),
            },
        }
    }

    /// Returns a merge patch that turns that version of an object into the desired one.
    pub(crate) fn patch(&self, object: &HubDnsEndpoint, key: &ServiceKey, owner: &str) -> Value {
        json!({
            "metadata": {
                "resourceVersion": object.resource_version,
                "annotations": { labels::TARGETS: self.recorded() },
                "ownerReferences": [reference(key, owner)],
            },
            "spec": { "endpoints": self.records },
        })
    }

    fn recorded(&self) -> String {
        let all = self.targets.iter();
        let all = all.map(|(name, targets)| (name.as_str().to_owned(), json!(targets)));
        Value::Object(all.collect()).to_string()
    }
}

fn reference(key: &ServiceKey, uid: &str) -> OwnerReference {
    OwnerReference {
        api_version: "networking.karmada.io/v1alpha1".to_owned(),
        kind: "MultiClusterService".to_owned(),
        name: key.name.to_string(),
        uid: uid.to_owned(),
        controller: Some(true),
        ..OwnerReference::default()
    }
}

#[cfg(test)]
mod tests;
