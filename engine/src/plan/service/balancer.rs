//! Load balancer that leads to the Service of an entry cluster.

use k8s_openapi::api::core::v1::Service;
use serde_json::{Value, json};

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

    /// Adds the request to the patch of the observed Service.
    pub(super) fn patch(&self, observed: &ServiceView, patch: &mut Value) {
        let spec = &mut patch["spec"];
        spec["type"] = json!("LoadBalancer");
        spec["externalTrafficPolicy"] = json!(CLUSTER);
        let ranges = &self.0.source_ranges;
        spec["loadBalancerSourceRanges"] = match ranges.is_empty() {
            true => Value::Null,
            false => json!(ranges),
        };
        if observed.shape.load_balancer {
            return;
        }
        if let Some(class) = &self.0.class {
            spec["loadBalancerClass"] = json!(class);
        }
        for (name, value) in &self.0.annotations {
            patch["metadata"]["annotations"][&**name] = json!(value);
        }
    }
}

/// Adds the removal of ranges, which the API server permits to load balancers alone, to the patch
/// of a Service that is to be none. The API server itself drops the other fields.
pub(super) fn remove(observed: &ServiceView, patch: &mut Value) {
    let request = observed.balancer.as_ref();
    if request.is_some_and(|request| !request.source_ranges.is_empty()) {
        patch["spec"]["loadBalancerSourceRanges"] = Value::Null;
    }
}
