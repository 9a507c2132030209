//! Ports of Services and of slices, and how one is found in the other.

use std::fmt;

use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointSlice};

use crate::soak::snapshot::is_balanced;

/// Kind of a Service of type LoadBalancer in a line.
pub(super) const BALANCED: &str = "of type LoadBalancer";

/// A port of a Service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Port {
    pub(super) name: String,
    pub(super) number: i32,
    pub(super) protocol: String,
}

impl fmt::Display for Port {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}:{}/{}", self.name, self.number, self.protocol)
    }
}

impl Port {
    pub(super) fn is_same(&self, other: &Self) -> bool {
        self.number == other.number && self.protocol == other.protocol
    }
}

pub(super) fn of_service(service: &Service) -> Vec<Port> {
    let ports = service
        .spec
        .iter()
        .flat_map(|spec| spec.ports.iter().flatten());
    let port = |port: &k8s_openapi::api::core::v1::ServicePort| Port {
        name: port.name.clone().unwrap_or_default(),
        number: port.port,
        protocol: port.protocol.clone().unwrap_or_else(|| "TCP".to_owned()),
    };
    ports.map(port).collect()
}

pub(super) fn is_headless(service: &Service) -> bool {
    let spec = service.spec.as_ref();
    spec.and_then(|spec| spec.cluster_ip.as_deref()) == Some("None")
}

/// Returns the kind of a Service in a line.
pub(super) fn kind(service: &Service) -> &'static str {
    match is_balanced(service) {
        true => BALANCED,
        false => kind_of(is_headless(service)),
    }
}

/// Returns the kind of a Service without a load balancer in a line.
pub(super) fn kind_of(headless: bool) -> &'static str {
    match headless {
        true => "headless",
        false => "with addresses",
    }
}

/// The ports that a copy of a provider's slice has in a consumer, as `name:number`: those exposed,
/// under the names of the consumer's Service.
pub(super) fn translated(
    source: &EndpointSlice,
    provider: &[Port],
    consumer: &[Port],
) -> Vec<String> {
    let mut found = Vec::new();
    for port in source.ports.iter().flatten() {
        let name = port.name.as_deref().unwrap_or_default();
        let Some(at_home) = provider.iter().find(|known| known.name == name) else {
            continue;
        };
        if let Some(there) = consumer.iter().find(|offered| offered.is_same(at_home)) {
            found.push(format!("{}:{}", there.name, port.port.unwrap_or_default()));
        }
    }
    found.sort();
    found
}

/// An endpoint as a copy has it.
pub(super) fn endpoint(endpoint: &Endpoint) -> String {
    let conditions = endpoint.conditions.clone().unwrap_or_default();
    format!(
        "{} ready={:?} serving={:?} terminating={:?} host={} zone={}",
        endpoint.addresses.join("+"),
        conditions.ready.unwrap_or(true),
        conditions.serving.or(conditions.ready).unwrap_or(true),
        conditions.terminating.unwrap_or(false),
        endpoint.hostname.as_deref().unwrap_or_default(),
        endpoint.zone.as_deref().unwrap_or_default(),
    )
}
