//! What is imported of a service.

use std::collections::BTreeMap;

use causeway::domain::{Consumers, Failover, ServicePort};

use crate::index::service::{PortShape, ServiceKind, ServiceView};

/// What the clusters of the clusterset import.
#[derive(Clone, Debug, PartialEq)]
pub struct ImportShape {
    /// Whether the service is reached by its endpoints' own addresses.
    pub headless: bool,
    /// The ports: those of the oldest export in its order, then what the next adds. No two have one name, or one protocol and
    /// number.
    pub ports: Vec<ImportPort>,
    /// None or ClientIP.
    pub session_affinity: String,
    /// How long a client sticks to an endpoint, in seconds.
    pub affinity_seconds: Option<i32>,
    /// The address families, the first first.
    pub ip_families: Vec<Box<str>>,
    /// Cluster or Local.
    pub internal_traffic_policy: Option<String>,
    /// A preference such as PreferClose.
    pub traffic_distribution: Option<String>,
    /// The exported labels.
    pub labels: BTreeMap<String, String>,
    /// The exported annotations.
    pub annotations: BTreeMap<String, String>,
    /// Which providers are used first, and what becomes of those that cannot be reached.
    pub failover: Failover,
    /// Who imports it.
    pub consumers: Consumers,
}

/// A port of an imported service.
#[derive(Clone, Debug, PartialEq)]
pub struct ImportPort {
    /// Protocol, number and name.
    pub port: ServicePort,
    /// The application protocol.
    pub app_protocol: Option<String>,
}

impl ImportPort {
    /// The port of a Service.
    pub fn of(shape: &PortShape) -> Self {
        Self {
            port: shape.port.clone(),
            app_protocol: shape.app_protocol.clone(),
        }
    }
}

impl ImportShape {
    /// What importing a Service by these ports means.
    pub fn of(service: &ServiceView, ports: Vec<ImportPort>) -> Self {
        let shape = &service.shape;
        Self {
            headless: shape.kind == ServiceKind::Headless,
            ports,
            session_affinity: shape.session_affinity.clone(),
            affinity_seconds: shape.affinity_seconds,
            ip_families: service.ip_families.clone(),
            internal_traffic_policy: service.internal_traffic_policy.as_deref().map(Into::into),
            traffic_distribution: shape.traffic_distribution.clone(),
            labels: BTreeMap::new(),
            annotations: BTreeMap::new(),
            failover: Failover::default(),
            consumers: Consumers::All,
        }
    }
}
