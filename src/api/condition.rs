//! Condition types and reasons that causeway writes, and how one is looked up.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

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
/// On a ServiceExport, after the hub's UID: since when it counts where exports disagree, by that hub.
pub const PRECEDENCE_SUFFIX: &str = ".mcs.causeway.dev/Precedence";
/// On a Cluster: it serves ServiceExport and ServiceImport.
pub const CLUSTERSET_API: &str = "ClustersetAPI";
/// On a Cluster: its last lists lack objects whose deletions do not count yet. Written only once
/// deletions were suspended.
pub const DELETIONS_SUSPENDED: &str = "DeletionsSuspended";

/// Reasons, as Karmada words them where Karmada has them.
pub mod reason {
    /// [`super::SERVICE_APPLIED`] is True.
    pub const SERVICE_APPLIED_SUCCEED: &str = "ServiceAppliedSucceed";
    /// [`super::SERVICE_APPLIED`] is False.
    pub const SERVICE_APPLIED_FAILED: &str = "ServiceAppliedFailed";
    /// The hub has no Service of the name.
    pub const SERVICE_NOT_FOUND: &str = "ServiceNotFound";
    /// The hub's Service has not, or no longer, an exposed port.
    pub const PORT_NOT_FOUND: &str = "PortNotFound";
    /// [`super::ENDPOINT_SLICE_DISPATCHED`] is True.
    pub const DISPATCHED_SUCCEED: &str = "EndpointSliceDispatchedSucceed";
    /// [`super::ENDPOINT_SLICE_DISPATCHED`] is False.
    pub const DISPATCHED_FAILED: &str = "EndpointSliceDispatchedFailed";
    /// [`super::ENDPOINT_SLICE_APPLIED`] is True.
    pub const APPLIED_SUCCESS: &str = "EndpointSliceAppliedSuccess";
    /// [`super::ENDPOINT_SLICE_APPLIED`] is False.
    pub const APPLIED_FAILED: &str = "EndpointSliceAppliedFailed";
    /// Somebody changes an object back as often as causeway writes it; it is left as it is for a while.
    pub const WRITE_CONFLICT: &str = "WriteConflict";
    /// No cluster's endpoints are used: those that provide the service are withdrawn, given up or left out.
    pub const NO_PROVIDERS: &str = "NoProviders";
    /// Karmada's own controllers manage this service; causeway does not begin beside them.
    pub const MANAGED_BY_KARMADA: &str = "ManagedByKarmada";
    /// [`super::READY`] of a MultiClusterService is True.
    pub const READY: &str = "Ready";
    /// [`super::READY`] of a Cluster is True: all its watches have listed and are connected.
    pub const SYNCED: &str = "Synced";
    /// The member's initial lists are not complete yet.
    pub const SYNCING: &str = "Syncing";
    /// The member does not answer, or not as it should.
    pub const UNREACHABLE: &str = "Unreachable";
    /// The member cannot be used as its Cluster object or its credentials stand.
    pub const REFUSED: &str = "Refused";
    /// The member's Cluster object or its credentials are invalid now; it stays engaged by the last that were valid.
    pub const INVALID_CONFIGURATION: &str = "InvalidConfiguration";
    /// [`super::CLUSTERSET_API`] is True.
    pub const SERVED: &str = "Served";
    /// The member serves no ServiceExport, or no ServiceImport.
    pub const NOT_SERVED: &str = "NotServed";
    /// [`super::DELETIONS_SUSPENDED`] is True: a list lacks so much that it is kept until a second list lacks it too.
    pub const DELETIONS_SUSPENDED: &str = "DeletionsSuspended";
    /// [`super::DELETIONS_SUSPENDED`] is False.
    pub const NO_DELETIONS_SUSPENDED: &str = "NoDeletionsSuspended";
    /// [`super::VALID`] is True.
    pub const VALID: &str = "Valid";
    /// There is no Service of the export's name.
    pub const NO_SERVICE: &str = "NoService";
    /// The Service is of a type that has no endpoints.
    pub const INVALID_SERVICE_TYPE: &str = "InvalidServiceType";
    /// [`super::READY`] of a ServiceExport is True.
    pub const EXPORTED: &str = "Exported";
    /// The time is that at which causeway of the hub first saw the ServiceExport, or its creation
    /// shortly before.
    pub const FIRST_SEEN: &str = "FirstSeen";
    /// The ServiceExport or ServiceImport is being processed.
    pub const PENDING: &str = "Pending";
    /// The service cannot be exported, or not imported everywhere.
    pub const FAILED: &str = "Failed";
    /// The cluster is being taken out of the clusterset, and with it what it exports.
    pub const NOT_JOINED: &str = "NotJoined";
    /// The cluster exports more than it may; older exports keep their place.
    pub const QUOTA_EXCEEDED: &str = "QuotaExceeded";
    /// A cluster cannot import the service: it has none of its address families.
    pub const IP_FAMILY_NOT_SUPPORTED: &str = "IPFamilyNotSupported";
    /// A cluster cannot import the service: another Service has the name of the one that would stand for it.
    pub const SERVICE_CONFLICT: &str = "ServiceConflict";
    /// One of Karmada's policies is to propagate the Service that causeway has delivered already; only in an Event.
    pub const POLICY_CONFLICT: &str = "PolicyConflict";
    /// A ServiceExport is on a hub that is not one of its own members; only in an Event.
    pub const NOT_A_MEMBER: &str = "NotAMember";
    /// [`super::CONFLICT`] is False.
    pub const NO_CONFLICTS: &str = "NoConflicts";
}

/// The status of a condition that holds.
pub const TRUE: &str = "True";
/// The status of a condition that does not hold.
pub const FALSE: &str = "False";

/// The condition of that type, if there is one.
pub fn find<'a>(conditions: &'a [Condition], type_: &str) -> Option<&'a Condition> {
    conditions.iter().find(|condition| condition.type_ == type_)
}

/// Whether the condition of that type is there and True.
pub fn is_true(conditions: &[Condition], type_: &str) -> bool {
    find(conditions, type_).is_some_and(|condition| condition.status == TRUE)
}
