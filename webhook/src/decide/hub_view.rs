use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use causeway::domain::ServicePort;

/// Observations of the hub that concern one change.
#[derive(Clone, Debug, Default)]
pub struct HubView {
    /// Service of the object's name, or its absence; `None` before an observation.
    pub service: Option<Observed<Option<Arc<ServiceFacts>>>>,
    /// Services of the namespace, if the Service is missing.
    pub neighbors: Neighbors,
    /// Clusters; `None` before an observation.
    pub clusters: Option<Observed<Clusters>>,
}

/// Names of Services of a namespace, for a person who misspelled one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Neighbors {
    /// First [`Neighbors::MAX`] names, in order.
    pub names: BTreeSet<Box<str>>,
    /// Number of further Services.
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

/// Observation from the cache, or from a live request.
#[derive(Clone, Debug)]
pub struct Observed<T> {
    /// Observed value.
    pub value: T,
    /// Whether it is from a live request.
    pub live: bool,
}

/// Facts about a Service that the rules need.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceFacts {
    /// Kind.
    pub kind: ServiceKind,
    /// Ports.
    pub ports: Box<[ServicePort]>,
}

/// Kind of a Service, by which the rules distinguish.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServiceKind {
    /// An alias without endpoints.
    ExternalName,
    /// No address of its own: clients choose among its endpoints, no proxy does.
    Headless,
    /// Address from a load balancer.
    LoadBalancer,
    /// Any other.
    Other,
}

impl ServiceKind {
    /// Returns the kind of a Service by `type` and `clusterIP` of its spec.
    pub fn read(type_: Option<&str>, cluster_ip: Option<&str>) -> Self {
        match (type_, cluster_ip) {
            (Some("ExternalName"), _) => Self::ExternalName,
            (_, Some("None")) => Self::Headless,
            (Some("LoadBalancer"), _) => Self::LoadBalancer,
            _ => Self::Other,
        }
    }
}

/// Clusters of the hub.
#[derive(Clone, Debug)]
pub enum Clusters {
    /// Unknown: the hub serves no Cluster objects.
    NotServed,
    /// All Clusters of the hub. The rules about places need also those that no field names.
    Named(Arc<HashMap<Box<str>, Locality>>),
}

/// Region and zones of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Locality {
    /// `spec.region`.
    pub region: Option<Box<str>>,
    /// `spec.zones`, else the deprecated `spec.zone`.
    pub zones: Box<[Box<str>]>,
}
