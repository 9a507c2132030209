//! Karmada's own management of MultiClusterServices, as its Works on the hub show it.
//!
//! Three kinds of Works have the namespace and the name of a MultiClusterService as labels
//! (karmada-io/karmada, `pkg/util/constants.go` and `pkg/controllers/multiclusterservice`):
//!
//! - the MultiClusterService, in each provider's execution namespace (`mcs_controller.go`,
//!   propagateMultiClusterService): Karmada collects the endpoints of that provider;
//! - an EndpointSlice, in each consumer's execution namespace
//!   (`endpointslice_dispatch_controller.go`, ensureEndpointSliceWork): Karmada maintains the slice
//!   in that consumer;
//! - an EndpointSlice, in its provider's execution namespace
//!   (`endpointslice_collect_controller.go`, getEndpointSliceWorkMeta): the collected endpoints,
//!   which Karmada writes into no member.
//!
//! The first two mean that Karmada manages the service. The third has [`labels::WORK_COLLECTED_BY`]
//! in addition, and does not count: Karmada removes it before the first, and if its controllers
//! were switched off in between, nobody removes its finalizer any more. The Work of the Service
//! itself, which a ResourceBinding of a MultiClusterService or of an ordinary PropagationPolicy
//! creates (`pkg/controllers/binding/common.go`, mergeLabel), has neither label: that Karmada
//! propagates a Service means nothing for its endpoints, and goes on when a MultiClusterService is
//! deleted. A dispatched slice has no permanent-id, so the service is identified by its namespace
//! and name.

use std::sync::Arc;

use causeway::api::karmada::{EXECUTION_SPACE, Work};
use causeway::api::labels;
use causeway::domain::ServiceKey;
use kube::core::PartialObjectMeta;

/// Work, and the service that Karmada manages by it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceWork {
    /// Its namespace and name: `karmada-es-member1/foo-5d5d`.
    pub id: Arc<str>,
    /// Service; `None` if the Work does not mean that Karmada manages one.
    pub service: Option<ServiceKey>,
}

impl ServiceWork {
    /// Reads a Work. One that is being deleted counts as before: Karmada still manages the service.
    pub fn read(work: PartialObjectMeta<Work>) -> Self {
        let meta = work.metadata;
        let (namespace, name) = (
            meta.namespace.unwrap_or_default(),
            meta.name.unwrap_or_default(),
        );
        let labels = meta.labels.unwrap_or_default();
        let carries = namespace.starts_with(EXECUTION_SPACE)
            && !labels.contains_key(labels::WORK_COLLECTED_BY);
        let label = |name: &str| {
            let value = labels.get(name).map(String::as_str);
            value.filter(|value| !value.is_empty())
        };
        let of_service = || {
            let namespace = label(labels::WORK_SERVICE_NAMESPACE)?;
            let name = label(labels::WORK_SERVICE_NAME)?;
            Some(ServiceKey::new(namespace, name))
        };
        Self {
            id: format!("{namespace}/{name}").into(),
            service: carries.then(of_service).flatten(),
        }
    }
}

#[cfg(test)]
mod tests;
