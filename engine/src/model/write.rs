//! Writes: one object, one operation, and the answer of the API server.

use std::fmt;
use std::sync::Arc;

use causeway::api::multicluster::{ServiceExport, ServiceImport, Version};
use causeway::api::{self, DNSEndpoint, ownership};
use causeway::domain::{ClusterName, ServiceKey};
use k8s_openapi::api::core::v1::{Namespace, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use serde::Serialize;
use serde_json::{Value, json};

use super::event::Generation;
use super::failure::Failure;
use super::item::Item;
use super::slice::{ContentHash, Exposure, ObservedSlice};

/// Cluster that is written to.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum TargetCluster {
    /// Hub.
    Hub,
    /// Member.
    Member(ClusterName),
}

impl TargetCluster {
    /// Returns the cluster's name, as metrics and logs have it.
    pub fn name(&self) -> &str {
        match self {
            Self::Hub => "hub",
            Self::Member(name) => name.as_str(),
        }
    }
}

/// Write of one object: an operation, and the Events that report it.
#[derive(Clone, Debug, PartialEq)]
pub struct Write {
    object: ObjectId,
    operation: Operation,
    events: Vec<ObjectEvent>,
}

impl Write {
    /// Returns a write that no Event reports.
    pub fn new(object: ObjectId, operation: Operation) -> Self {
        Self {
            object,
            operation,
            events: Vec::new(),
        }
    }

    /// Returns the creation of an object other than a copy.
    pub(crate) fn create(object: ObjectId, manifest: &impl Serialize) -> Self {
        Self::new(object, Operation::Create(json!(manifest)))
    }

    /// Returns the patch of an object.
    pub(crate) fn patch(object: ObjectId, patch: Value) -> Self {
        Self::new(object, Operation::Patch(patch))
    }

    /// Returns the deletion of that version of an object.
    pub(crate) fn delete(object: ObjectId, uid: &str, resource_version: &str) -> Self {
        let observed = ObservedVersion {
            uid: uid.into(),
            resource_version: resource_version.into(),
        };
        Self::new(object, Operation::Delete(observed))
    }

    /// Returns the same write, which these Events report once it is carried out.
    #[must_use]
    pub(crate) fn with_events(mut self, events: impl IntoIterator<Item = ObjectEvent>) -> Self {
        self.events.extend(events);
        self
    }

    /// Returns the object that is written.
    pub fn object(&self) -> &ObjectId {
        &self.object
    }

    /// Returns the operation.
    pub fn operation(&self) -> &Operation {
        &self.operation
    }

    /// Returns the Events to record once the write is carried out.
    pub fn events(&self) -> &[ObjectEvent] {
        &self.events
    }
}

/// Event on a hub object that reports a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectEvent {
    /// Whether it is a warning, which a person should check.
    pub warning: bool,
    /// Reason, in CamelCase.
    pub reason: String,
    /// Message for a person.
    pub note: String,
}

/// Write that may start now.
#[derive(Clone, Debug)]
pub struct Dispatch {
    /// Cluster that is written to.
    pub target: TargetCluster,
    /// Engagement of the member; 0 for the hub.
    pub generation: Generation,
    /// Item on whose behalf it is written.
    pub item: Item,
    /// Write to carry out.
    pub write: Write,
}

/// Result of a write.
#[derive(Debug)]
pub struct WriteResult {
    /// Dispatch that ended.
    pub dispatch: Dispatch,
    /// Answer of the API server, or the failure.
    pub answer: Result<Ack, Failure>,
}

/// Object that causeway writes, in one cluster.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ObjectId {
    /// Namespace of a member.
    Namespace(Arc<str>),
    /// Service of a member.
    Service(ServiceKey),
    /// Copy in a member.
    Slice(SliceId),
    /// ServiceExport of a member, in the version that it serves.
    ServiceExport(Version, ServiceKey),
    /// Status of a ServiceExport.
    ServiceExportStatus(Version, ServiceKey),
    /// ServiceImport of a member, in the version that it serves.
    ServiceImport(Version, ServiceKey),
    /// Status of a ServiceImport.
    ServiceImportStatus(Version, ServiceKey),
    /// Metadata of a MultiClusterService on the hub.
    MultiClusterService(ServiceKey),
    /// Status of a MultiClusterService on the hub.
    MultiClusterServiceStatus(ServiceKey),
    /// DNSEndpoint on the hub, of the name of its MultiClusterService.
    DnsEndpoint(ServiceKey),
    /// Metadata of a Cluster on the hub.
    Cluster(ClusterName),
    /// Status of a Cluster on the hub.
    ClusterStatus(ClusterName),
}

/// Copy in a member: its service, the exposure that it serves, and its name.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SliceId {
    /// Service that it belongs to.
    pub service: ServiceKey,
    /// Exposure that it serves.
    pub exposure: Exposure,
    /// Its name.
    pub name: Arc<str>,
}

/// Observed version of an object: a deletion applies to this version only.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObservedVersion {
    /// Its UID.
    pub uid: Box<str>,
    /// Its resourceVersion.
    pub resource_version: Box<str>,
}

/// Operation on an object. Every patch and replacement has the observed resourceVersion.
#[derive(Clone, Debug, PartialEq)]
pub enum Operation {
    /// Create the object of this JSON, which is no copy.
    Create(Value),
    /// Create a copy of that content.
    CreateSlice(Box<EndpointSlice>, ContentHash),
    /// Replace a copy by one of that content.
    ReplaceSlice(Box<EndpointSlice>, ContentHash),
    /// Patch the object, or its status.
    Patch(Value),
    /// Delete that version of the object.
    Delete(ObservedVersion),
    /// Remove that hub's label from the Endpoints of a Service, then delete an empty slice to which
    /// Kubernetes copied the label as well.
    DeleteResidue(ObservedVersion, Box<str>),
}

/// Answer of the API server to a write that it carried out.
#[derive(Clone, Debug)]
pub enum Ack {
    /// The namespace as stored.
    Namespace(Box<Namespace>),
    /// The Service as stored.
    Service(Box<Service>),
    /// The copy as stored.
    Slice(Box<ObservedSlice>),
    /// The ServiceExport as stored.
    ServiceExport(Box<ServiceExport>),
    /// The ServiceImport as stored.
    ServiceImport(Box<ServiceImport>),
    /// The MultiClusterService as stored.
    MultiClusterService(Box<api::MultiClusterService>),
    /// The DNSEndpoint as stored.
    DnsEndpoint(Box<DNSEndpoint>),
    /// The Cluster as stored.
    Cluster(Box<api::Cluster>),
    /// The deletion of the object of that UID was accepted. Its finalizers may last.
    Deleted(ObjectId, Box<str>),
}

impl ObjectId {
    /// Returns the kind, as metrics and logs name it.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Namespace(_) => "Namespace",
            Self::Service(_) => "Service",
            Self::Slice(_) => "EndpointSlice",
            Self::ServiceExport(..) | Self::ServiceExportStatus(..) => "ServiceExport",
            Self::ServiceImport(..) | Self::ServiceImportStatus(..) => "ServiceImport",
            Self::MultiClusterService(_) | Self::MultiClusterServiceStatus(_) => {
                "MultiClusterService"
            }
            Self::DnsEndpoint(_) => "DNSEndpoint",
            Self::Cluster(_) | Self::ClusterStatus(_) => "Cluster",
        }
    }

    /// Whether only the status of the object is written.
    pub fn is_status(&self) -> bool {
        match self {
            Self::ServiceExportStatus(..)
            | Self::ServiceImportStatus(..)
            | Self::MultiClusterServiceStatus(_)
            | Self::ClusterStatus(_) => true,
            Self::Namespace(_)
            | Self::Service(_)
            | Self::Slice(_)
            | Self::ServiceExport(..)
            | Self::ServiceImport(..)
            | Self::MultiClusterService(_)
            | Self::DnsEndpoint(_)
            | Self::Cluster(_) => false,
        }
    }

    /// Returns its namespace, if it has one.
    pub fn namespace(&self) -> Option<&str> {
        self.key().map(|key| &*key.namespace)
    }

    /// Returns its name.
    pub fn name(&self) -> &str {
        match self {
            Self::Namespace(name) | Self::Slice(SliceId { name, .. }) => name,
            Self::Cluster(name) | Self::ClusterStatus(name) => name.as_str(),
            other => other.key().map_or("", |key| &*key.name),
        }
    }

    /// Returns the service that it belongs to.
    fn key(&self) -> Option<&ServiceKey> {
        match self {
            Self::Namespace(_) | Self::Cluster(_) | Self::ClusterStatus(_) => None,
            Self::Slice(SliceId { service: key, .. })
            | Self::Service(key)
            | Self::ServiceExport(_, key)
            | Self::ServiceExportStatus(_, key)
            | Self::ServiceImport(_, key)
            | Self::ServiceImportStatus(_, key)
            | Self::MultiClusterService(key)
            | Self::MultiClusterServiceStatus(key)
            | Self::DnsEndpoint(key) => Some(key),
        }
    }
}

/// Writes the kind and the name, as a person writes them.
impl fmt::Display for ObjectId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of = if self.is_status() {
            "the status of "
        } else {
            ""
        };
        write!(out, "{of}{} {}", self.kind(), self.name())
    }
}

impl Ack {
    /// Whether the object has the same version as before the write: the API server dropped unknown
    /// fields, or its admission undid the change.
    pub(crate) fn changed_nothing(&self, operation: &Operation) -> bool {
        let before = match operation {
            Operation::ReplaceSlice(slice, _) => slice.metadata.resource_version.as_deref(),
            other => other
                .patch()
                .and_then(|patch| patch["metadata"]["resourceVersion"].as_str()),
        };
        let meta = match self {
            Self::Namespace(object) => &object.metadata,
            Self::Service(object) => &object.metadata,
            Self::Slice(slice) => {
                let after = slice.resource_version().to_string();
                return before == Some(&*after);
            }
            Self::ServiceExport(object) => &object.metadata,
            Self::ServiceImport(object) => &object.metadata,
            Self::MultiClusterService(object) => &object.metadata,
            Self::DnsEndpoint(object) => &object.metadata,
            Self::Cluster(object) => &object.metadata,
            Self::Deleted(..) => return false,
        };
        before.is_some() && before == meta.resource_version.as_deref()
    }
}

/// Returns a patch of the status of that version of an object.
pub(crate) fn status_patch(resource_version: &str, status: Value) -> Value {
    json!({"metadata": {"resourceVersion": resource_version}, "status": status})
}

impl Operation {
    /// Returns the patch, if this is one.
    pub fn patch(&self) -> Option<&Value> {
        match self {
            Self::Patch(patch) => Some(patch),
            _ => None,
        }
    }

    /// Returns the cluster from whose slice a copy is made, if this creates or replaces one.
    pub(crate) fn source_cluster(&self) -> Option<&str> {
        let (Self::CreateSlice(slice, _) | Self::ReplaceSlice(slice, _)) = self else {
            return None;
        };
        ownership::source_member(&slice.metadata)
    }

    /// Returns the verb, as metrics and logs name it.
    pub fn verb(&self) -> &'static str {
        match self {
            Self::Create(_) | Self::CreateSlice(..) => "create",
            Self::ReplaceSlice(..) => "update",
            Self::Patch(_) => "patch",
            Self::Delete(_) | Self::DeleteResidue(..) => "delete",
        }
    }
}
