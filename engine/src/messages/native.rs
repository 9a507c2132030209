//! Sentences of the conditions of a MultiClusterService.

use causeway::domain::{ClusterName, ServiceKey};

use super::Text;
use super::remarks::not_used;
use crate::plan::remark::NotUsed;
use crate::reasons::Reason;

/// Reason and message of ServiceApplied while it holds.
pub(crate) const SERVICE_APPLIED: Text<'static> = (
    Reason::ServiceAppliedSucceed.as_str(),
    "Service is propagated to target clusters.",
);
/// Reason and message of EndpointSliceDispatched while it holds.
pub(crate) const DISPATCHED: Text<'static> = (
    Reason::EndpointSliceDispatchedSucceed.as_str(),
    "EndpointSlice are dispatched successfully",
);
/// Reason and message of EndpointSliceApplied while it holds.
pub(crate) const APPLIED: Text<'static> = (
    Reason::EndpointSliceAppliedSuccess.as_str(),
    "EndpointSlices are propagated to target clusters.",
);
/// Message of ServiceApplied where no member takes part.
pub(crate) const NO_TARGETS: &str = "no cluster takes part; join some with kubectl mcs join";

/// Reports the number of consumers that have the service, and of providers that back it.
pub(crate) fn exposed(key: &ServiceKey, consumers: usize, used: usize, ready: bool) -> String {
    let verb = match ready {
        true => "can be reached from",
        false => "is exposed in",
    };
    let (consumers, used) = (counted(consumers), counted(used));
    format!("{key} {verb} {consumers}, backed by {used}")
}

/// Reports the number of providers whose load balancers are in the status.
pub(crate) fn load_balancers(used: usize) -> String {
    format!("the load balancers of {} are gathered", counted(used))
}

/// Reports that no provider is used.
pub(crate) fn no_providers(key: &ServiceKey, left_out: &[(&ClusterName, NotUsed<'_>)]) -> String {
    let why = match left_out {
        [] => "spec.providerClusters names no joined cluster".to_owned(),
        some => not_used(some),
    };
    format!("no cluster backs {key}: {why}")
}

fn counted(clusters: usize) -> String {
    match clusters {
        1 => "1 cluster".to_owned(),
        clusters => format!("{clusters} clusters"),
    }
}
