//! Types of the conditions that causeway writes, and lookup of a condition.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use serde::{Deserialize as _, Deserializer};

/// The Service is in every provider and consumer.
pub const SERVICE_APPLIED: &str = "ServiceApplied";
/// Every copy has been written.
pub const ENDPOINT_SLICE_DISPATCHED: &str = "EndpointSliceDispatched";
/// Every copy has been seen in its consumer.
pub const ENDPOINT_SLICE_APPLIED: &str = "EndpointSliceApplied";
/// All of the above; on a Cluster, that it is reachable and watched.
pub const READY: &str = "Ready";

/// On a ServiceExport: its Service is there and can be exported (KEP-1645).
pub const VALID: &str = "Valid";
/// On a ServiceExport: the exports of one service disagree (KEP-1645).
pub const CONFLICT: &str = "Conflict";
/// On a ServiceExport, after the hub's UID: since when it counts where exports disagree, by that
/// hub.
pub const PRECEDENCE_SUFFIX: &str = ".mcs.causeway.dev/Precedence";
/// On a Cluster: it serves ServiceExport and ServiceImport.
pub const CLUSTERSET_API: &str = "ClustersetAPI";
/// On a Cluster: its last lists lack objects whose deletions do not count yet. Written only once
/// deletions were suspended.
pub const DELETIONS_SUSPENDED: &str = "DeletionsSuspended";

/// The status of a condition that holds.
pub const TRUE: &str = "True";
/// The status of a condition that does not hold.
pub const FALSE: &str = "False";

/// Reads the conditions that are whole. Those of the first definitions of the Multi-Cluster
/// Services API need neither time nor reason, and Karmada's API server accepts a Cluster with any.
pub(super) fn read_whole<'de, D: Deserializer<'de>>(input: D) -> Result<Vec<Condition>, D::Error> {
    let all = Option::<Vec<serde_json::Value>>::deserialize(input)?;
    let whole = all.into_iter().flatten().map(serde_json::from_value);
    Ok(whole.filter_map(Result::ok).collect())
}

/// The condition of that type, if there is one.
pub fn find<'a>(conditions: &'a [Condition], type_: &str) -> Option<&'a Condition> {
    conditions.iter().find(|condition| condition.type_ == type_)
}

/// Whether the condition of that type is there and True.
pub fn is_true(conditions: &[Condition], type_: &str) -> bool {
    find(conditions, type_).is_some_and(|condition| condition.status == TRUE)
}
