use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use causeway::domain::ServicePort;

/// Observations of the hub that concern one change.
#[derive(Clone, Debug, Default)]
pub struct HubView {
    /// The Service of the name, or that there is none. `None` where it was not observed.
    pub service: Option<Observed<Option<Arc<ServiceFacts>>>>,
    /// Services of the namespace, where the Service of the name is missing.
    pub neighbors: Neighbors,
    /// The clusters. `None` where they were not observed.
    pub clusters: Option<Observed<Clusters>>,
}

/// Services of a namespace, named for a person who misspelled one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Neighbors {
    /// The first [`Neighbors::MAX`] names, in order.
    pub names: BTreeSet<Box<str>>,
    /// Number of Services that are not named.
    pub more: usize,
}

impl Neighbors {
    /// Maximum number of names.
    pub const MAX: usize = 10;

    /// Selects the names to show.
    pub fn of<'a>(all: impl Iterator<Item = &'a str>) -> Self {
        let mut first = BTreeSet::new();
        let mut more = 0;
        for name in all {
            first.insert(name);
            if first.len() > Self::MAX {
                first.pop_last();
                more += 1;
            }
        }
        let names = first.into_iter().map(Box::from).collect();
        Self { names, more }
    }
}

/// Observation, from a cache or from the API server just now.
#[derive(Clone, Debug)]
pub struct Observed<T> {
    /// Observed value.
    pub value: T,
    /// Whether it is so now, not a moment ago.
    pub live: bool,
}

/// Facts about a Service that the rules need.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceFacts {
    /// Its type, as far as it matters.
    pub kind: ServiceKind,
    /// Its ports.
    pub ports: Box<[ServicePort]>,
}

/// The type of a Service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServiceKind {
    /// An alias without endpoints.
    ExternalName,
    /// Without an address of its own: clients choose among its endpoints, no proxy does.
    Headless,
    /// With an address from a load balancer.
    LoadBalancer,
    /// Any other.
    Other,
}

impl ServiceKind {
    /// The kind of a Service whose spec gives that `type` and that `clusterIP`.
    pub fn read(type_: Option<&str>, cluster_ip: Option<&str>) -> Self {
        match (type_, cluster_ip) {
            (Some("ExternalName"), _) => Self::ExternalName,
            (_, Some("None")) => Self::Headless,
            (Some("LoadBalancer"), _) => Self::LoadBalancer,
            _ => Self::Other,
        }
    }
}

/// The clusters of the hub.
#[derive(Clone, Debug)]
pub enum Clusters {
    /// The hub serves no Cluster objects, so nothing is known of clusters.
    NotServed,
    /// The requested names that a Cluster has; may hold more.
    Named(Arc<HashMap<Box<str>, Locality>>),
}

/// Region and zones of a cluster, as its Cluster has them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Locality {
    /// `spec.region`.
    pub region: Option<Box<str>>,
    /// `spec.zones`, else the deprecated `spec.zone`.
    pub zones: Box<[Box<str>]>,
}
