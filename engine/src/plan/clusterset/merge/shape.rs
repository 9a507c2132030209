//! Shape of an imported service.

use std::collections::BTreeMap;

use causeway::api::multicluster::ClusterSelector;
use causeway::domain::{Consumers, Failover, ServicePort};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use crate::observed::service::{PortShape, ServiceKind, ServiceView};

/// Service as the clusters of the clusterset import it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ImportShape {
    /// Whether clients reach the service by its endpoints' own addresses.
    pub headless: bool,
    /// Ports: those of the oldest export in its order, then those that the next ones add. No two
    /// share a name, or a protocol and a number.
    pub ports: Vec<PortShape>,
    /// None or ClientIP.
    pub session_affinity: String,
    /// Time for which a client's session is bound to an endpoint, in seconds.
    pub(crate) affinity_seconds: Option<i32>,
    /// Address families, the primary one first.
    pub ip_families: Vec<Box<str>>,
    /// Cluster or Local.
    pub internal_traffic_policy: Option<String>,
    /// Preference such as PreferClose.
    pub traffic_distribution: Option<String>,
    /// Selectors of the clusters that are preferred.
    pub(crate) cluster_selectors: Vec<ClusterSelector>,
    /// Exported labels.
    pub labels: BTreeMap<String, String>,
    /// Exported annotations.
    pub annotations: BTreeMap<String, String>,
    /// Preference among providers, and treatment of unreachable ones.
    pub failover: Failover,
    /// Clusters that import the service.
    pub consumers: Consumers,
}

impl ImportShape {
    /// Returns an imported port. Its target is its number: a derived Service selects no pods.
    pub(crate) fn port(port: ServicePort, app_protocol: Option<String>) -> PortShape {
        PortShape {
            target: IntOrString::Int(i32::from(port.id.number)),
            port,
            app_protocol,
        }
    }

    /// Returns the shape of an import of a Service with these ports.
    pub(crate) fn of(service: &ServiceView, ports: Vec<PortShape>) -> Self {
        let shape = &service.shape;
        Self {
            headless: shape.kind == ServiceKind::Headless,
            ports,
            session_affinity: shape.session_affinity.clone(),
            affinity_seconds: shape.affinity_seconds,
            ip_families: service.ip_families.clone(),
            internal_traffic_policy: service.internal_traffic_policy.as_deref().map(Into::into),
            traffic_distribution: shape.traffic_distribution.clone(),
            cluster_selectors: Vec::new(),
            labels: BTreeMap::new(),
            annotations: BTreeMap::new(),
            failover: Failover::default(),
            consumers: Consumers::All,
        }
    }
}
