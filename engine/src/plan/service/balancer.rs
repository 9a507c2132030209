//! Load balancer that leads to the Service of an entry cluster.

use k8s_openapi::api::core::v1::Service;

use crate::observed::service::{BalancerRequest, ServiceView};

/// External traffic policy of an entry cluster. With `Local` a node would lead to pods on itself
/// alone, which those of other clusters never are.
const CLUSTER: &str = "Cluster";

/// Additional content of the Service of an entry cluster, from the Service of the hub.
///
/// Ranges of clients are followed. Class and annotations are given when the Service is made or
/// becomes a load balancer: a class cannot change, and load balancers write such annotations, too.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Balancer(BalancerRequest);

impl Balancer {
    /// Returns the request of the hub's Service, which is empty where that is no load balancer.
    pub(super) fn of(hub_service: &ServiceView) -> Self {
        let request = hub_service.balancer.as_deref().cloned();
        Self(request.unwrap_or_default())
    }

    /// Whether the load balancer of the member's Service is requested as desired.
    pub(super) fn is_met_by(&self, observed: &ServiceView) -> bool {
        let is_local = observed.node_ports.as_ref().map(|ports| ports.is_local);
        let ranges = observed.balancer.as_ref().map(|one| &*one.source_ranges);
        is_local != Some(true) && ranges.unwrap_or_default() == &*self.0.source_ranges
    }

    /// Adds the request to a Service that is created.
    pub(super) fn fill(&self, service: &mut Service) {
        let BalancerRequest {
            class,
            source_ranges,
            annotations,
        } = &self.0;
        let own = service.metadata.annotations.get_or_insert_default();
        for (name, value) in annotations {
            own.insert(name.to_string(), value.to_string());
        }
        let spec = service.spec.get_or_insert_default();
        spec.type_ = Some("LoadBalancer".to_owned());
        spec.external_traffic_policy = Some(CLUSTER.to_owned());
        spec.load_balancer_class = class.as_deref().map(str::to_owned);
        let ranges = source_ranges.iter().map(ToString::to_string);
        spec.load_balancer_source_ranges =
            Some(ranges.collect()).filter(|all: &Vec<_>| !all.is_empty());
    }
}
