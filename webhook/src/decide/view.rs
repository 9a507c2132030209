use std::collections::HashSet;
use std::sync::Arc;

use causeway::domain::ServicePort;

/// What is known of the hub, as far as one change is concerned.
#[derive(Clone, Debug, Default)]
pub struct View {
    /// The Service of the name, or that there is none. `None` where it is not known.
    pub service: Option<Seen<Option<Arc<ServiceFacts>>>>,
    /// The clusters. `None` where nothing is known of them.
    pub clusters: Option<Seen<Clusters>>,
}

/// Something seen, in a cache or at the API server just now.
#[derive(Clone, Debug)]
pub struct Seen<T> {
    /// What was seen.
    pub value: T,
    /// Whether it is so now, not a moment ago.
    pub live: bool,
}

/// What counts of a Service.
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
    /// With an address from a load balancer.
    LoadBalancer,
    /// Any other.
    Other,
}

impl ServiceKind {
    /// The kind of a Service whose spec gives that type.
    pub fn read(type_: Option<&str>) -> Self {
        match type_ {
            Some("ExternalName") => Self::ExternalName,
            Some("LoadBalancer") => Self::LoadBalancer,
            _ => Self::Other,
        }
    }
}

/// The clusters of the hub.
#[derive(Clone, Debug)]
pub enum Clusters {
    /// The hub serves no Cluster objects, so nothing is known of clusters.
    NotServed,
    /// Of the names asked for, those that a Cluster bears; may hold more.
    Named(Arc<HashSet<Box<str>>>),
}
