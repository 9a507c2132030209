//! What is written: one object, one action, and what the API server answers.

use std::fmt;
use std::sync::Arc;

use causeway::api::multicluster::{ServiceExport, ServiceImport, Version};
use causeway::api::{self, labels};
use causeway::domain::{ClusterName, ServiceKey};
use k8s_openapi::api::core::v1::{Namespace, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use serde_json::{Value, json};

use super::event::Generation;
use super::failure::Failure;
use super::item::Item;
use super::slice::{ObservedSlice, Path};

/// A cluster that is written to.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Lane {
    /// The hub.
    Hub,
    /// A member.
    Member(ClusterName),
}

impl Lane {
    /// The cluster's name, as metrics and logs have it.
    pub fn name(&self) -> &str {
        match self {
            Self::Hub => "hub",
            Self::Member(name) => name.as_str(),
        }
    }
}

/// One write: an operation, and the Event that reports it.
#[derive(Clone, Debug, PartialEq)]
pub struct Write {
    object: ObjectId,
    operation: Operation,
    events: Vec<ObjectEvent>,
}

impl Write {
    /// A write that no Event reports.
    pub fn new(operation: Operation) -> Self {
        Self {
            object: operation.object(),
            operation,
            events: Vec::new(),
        }
    }

    /// The same write, reported by these Events once it is done.
    #[must_use]
    pub fn telling(mut self, events: impl IntoIterator<Item = ObjectEvent>) -> Self {
        self.events.extend(events);
        self
    }

    /// What it writes.
    pub fn object(&self) -> &ObjectId {
        &self.object
    }

    /// How.
    pub fn operation(&self) -> &Operation {
        &self.operation
    }

    /// The message for a person once it is done.
    pub fn events(&self) -> &[ObjectEvent] {
        &self.events
    }
}

/// An event on a hub object that tells of something that became so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectEvent {
    /// Whether a person ought to look.
    pub warning: bool,
    /// The reason, in CamelCase.
    pub reason: String,
    /// What happened, for a person.
    pub note: String,
}

/// A write that may start now.
#[derive(Clone, Debug)]
pub struct Dispatch {
    /// Where.
    pub lane: Lane,
    /// In which engagement of the member; 0 for the hub.
    pub generation: Generation,
    /// On whose behalf.
    pub item: Item,
    /// What.
    pub write: Write,
}

/// How a write ended.
#[derive(Debug)]
pub struct WriteResult {
    /// What was dispatched.
    pub dispatch: Dispatch,
    /// The answer.
    pub answer: Result<Ack, Failure>,
}

/// One object that causeway writes, in one cluster.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ObjectId {
    /// A namespace of a member.
    Namespace(Arc<str>),
    /// A Service of a member.
    Service(ServiceKey),
    /// A copy in a member.
    Slice(SliceId),
    /// A ServiceExport of a member, in the version that it serves.
    ServiceExport(Version, ServiceKey),
    /// The status of a ServiceExport.
    ServiceExportStatus(Version, ServiceKey),
    /// A ServiceImport of a member, in the version that it serves.
    ServiceImport(Version, ServiceKey),
    /// The status of a ServiceImport.
    ServiceImportStatus(Version, ServiceKey),
    /// The metadata of a MultiClusterService on the hub.
    MultiClusterService(ServiceKey),
    /// The status of a MultiClusterService on the hub.
    MultiClusterServiceStatus(ServiceKey),
    /// The metadata of a Cluster on the hub.
    Cluster(ClusterName),
    /// The status of a Cluster on the hub.
    ClusterStatus(ClusterName),
}

/// A copy in a member: the service it belongs to, which way it serves, and its name.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SliceId {
    /// The service.
    pub service: ServiceKey,
    /// Which way it serves.
    pub path: Path,
    /// Its name.
    pub name: Arc<str>,
}

/// The version of an object that was observed: what is deleted has to be of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObservedVersion {
    /// Its UID.
    pub uid: Box<str>,
    /// Its resourceVersion.
    pub resource_version: Box<str>,
}

/// What is to be done to which object: one variant for each thing that causeway does. Every patch and replacement bears the observed
/// resourceVersion.
#[derive(Clone, Debug, PartialEq)]
pub enum Operation {
    /// Make the namespace of that name in a member.
    CreateNamespace(Arc<str>, Box<Namespace>),
    /// Make a Service in a member.
    CreateService(ServiceKey, Box<Service>),
    /// Merge into a Service of a member.
    PatchService(ServiceKey, Value),
    /// Delete a Service of a member.
    DeleteService(ServiceKey, ObservedVersion),
    /// Make a copy.
    CreateSlice(SliceId, Box<EndpointSlice>),
    /// Replace a copy.
    ReplaceSlice(SliceId, Box<EndpointSlice>),
    /// Delete a copy.
    DeleteSlice(SliceId, ObservedVersion),
    /// Remove that hub's label from the Endpoints of a Service, then delete an empty slice to which Kubernetes copied it, too.
    DeleteResidue(SliceId, ObservedVersion, Box<str>),
    /// Make a ServiceExport in a member, in the version that it serves.
    CreateExport(Version, ServiceKey, Box<ServiceExport>),
    /// Merge into the status of a ServiceExport.
    PatchExportStatus(Version, ServiceKey, Value),
    /// Delete a ServiceExport.
    DeleteExport(Version, ServiceKey, ObservedVersion),
    /// Make a ServiceImport in a member, in the version that it serves.
    CreateImport(Version, ServiceKey, Box<ServiceImport>),
    /// Merge into a ServiceImport.
    PatchImport(Version, ServiceKey, Value),
    /// Merge into the status of a ServiceImport.
    PatchImportStatus(Version, ServiceKey, Value),
    /// Delete a ServiceImport.
    DeleteImport(Version, ServiceKey, ObservedVersion),
    /// Merge into a MultiClusterService on the hub.
    PatchMultiClusterService(ServiceKey, Value),
    /// Merge into the status of a MultiClusterService on the hub.
    PatchMultiClusterServiceStatus(ServiceKey, Value),
    /// Merge into a Cluster on the hub.
    PatchCluster(ClusterName, Value),
    /// Merge into the status of a Cluster on the hub.
    PatchClusterStatus(ClusterName, Value),
}

/// What the API server answered to a write that it carried out.
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
    /// The Cluster as stored.
    Cluster(Box<api::Cluster>),
    /// The object is deleted.
    Deleted(DeletedObject),
}

/// An object whose deletion was accepted.
#[derive(Clone, Debug)]
pub enum DeletedObject {
    /// A Service.
    Service {
        /// Which one.
        key: ServiceKey,
        /// Its UID.
        uid: Box<str>,
    },
    /// A ServiceExport.
    ServiceExport {
        /// Which one.
        key: ServiceKey,
        /// Its UID.
        uid: Box<str>,
    },
    /// A ServiceImport.
    ServiceImport {
        /// Which one.
        key: ServiceKey,
        /// Its UID.
        uid: Box<str>,
    },
    /// A copy.
    Slice {
        /// The service it belonged to.
        key: ServiceKey,
        /// Its name.
        name: Arc<str>,
        /// Its UID.
        uid: Box<str>,
    },
}

impl ObjectId {
    /// The kind, as metrics and logs name it.
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
            Self::Cluster(_) | Self::ClusterStatus(_) => "Cluster",
        }
    }

    /// The namespace that it is in, if it is in one.
    pub fn namespace(&self) -> Option<&str> {
        self.key().map(|key| &*key.namespace)
    }

    /// Its name.
    pub fn name(&self) -> &str {
        match self {
            Self::Namespace(name) | Self::Slice(SliceId { name, .. }) => name,
            Self::Cluster(name) | Self::ClusterStatus(name) => name.as_str(),
            other => other.key().map_or("", |key| &*key.name),
        }
    }

    /// The service that it is of.
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
            | Self::MultiClusterServiceStatus(key) => Some(key),
        }
    }
}

/// The kind and the name, as a person writes them.
impl fmt::Display for ObjectId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = self.kind();
        match self {
            Self::Namespace(name) | Self::Slice(SliceId { name, .. }) => {
                write!(out, "{kind} {name}")
            }
            Self::Service(key)
            | Self::ServiceExport(_, key)
            | Self::ServiceImport(_, key)
            | Self::MultiClusterService(key) => write!(out, "{kind} {}", key.name),
            Self::ServiceExportStatus(_, key)
            | Self::ServiceImportStatus(_, key)
            | Self::MultiClusterServiceStatus(key) => {
                write!(out, "the status of {kind} {}", key.name)
            }
            Self::Cluster(name) => write!(out, "{kind} {name}"),
            Self::ClusterStatus(name) => write!(out, "the status of {kind} {name}"),
        }
    }
}

impl Ack {
    /// Whether the object is of the same version as before the write: the API server dropped what it does not know, or
    /// something in it undid the change.
    pub fn changed_nothing(&self, operation: &Operation) -> bool {
        let before = match operation {
            Operation::ReplaceSlice(_, slice) => slice.metadata.resource_version.as_deref(),
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
            Self::Cluster(object) => &object.metadata,
            Self::Deleted(_) => return false,
        };
        before.is_some() && before == meta.resource_version.as_deref()
    }
}

/// A patch of the status of that version of an object.
pub fn status_patch(resource_version: &str, status: Value) -> Value {
    json!({"metadata": {"resourceVersion": resource_version}, "status": status})
}

impl Operation {
    /// The object.
    fn object(&self) -> ObjectId {
        match self {
            Self::CreateNamespace(name, _) => ObjectId::Namespace(name.clone()),
            Self::CreateService(key, _)
            | Self::PatchService(key, _)
            | Self::DeleteService(key, _) => ObjectId::Service(key.clone()),
            Self::CreateSlice(id, _)
            | Self::ReplaceSlice(id, _)
            | Self::DeleteSlice(id, _)
            | Self::DeleteResidue(id, ..) => ObjectId::Slice(id.clone()),
            Self::CreateExport(version, key, _) | Self::DeleteExport(version, key, _) => {
                ObjectId::ServiceExport(*version, key.clone())
            }
            Self::PatchExportStatus(version, key, _) => {
                ObjectId::ServiceExportStatus(*version, key.clone())
            }
            Self::CreateImport(version, key, _)
            | Self::PatchImport(version, key, _)
            | Self::DeleteImport(version, key, _) => ObjectId::ServiceImport(*version, key.clone()),
            Self::PatchImportStatus(version, key, _) => {
                ObjectId::ServiceImportStatus(*version, key.clone())
            }
            Self::PatchMultiClusterService(key, _) => ObjectId::MultiClusterService(key.clone()),
            Self::PatchMultiClusterServiceStatus(key, _) => {
                ObjectId::MultiClusterServiceStatus(key.clone())
            }
            Self::PatchCluster(name, _) => ObjectId::Cluster(name.clone()),
            Self::PatchClusterStatus(name, _) => ObjectId::ClusterStatus(name.clone()),
        }
    }

    /// What is merged, where this merges.
    pub fn patch(&self) -> Option<&Value> {
        match self {
            Self::PatchService(_, patch)
            | Self::PatchExportStatus(_, _, patch)
            | Self::PatchImport(_, _, patch)
            | Self::PatchImportStatus(_, _, patch)
            | Self::PatchMultiClusterService(_, patch)
            | Self::PatchMultiClusterServiceStatus(_, patch)
            | Self::PatchCluster(_, patch)
            | Self::PatchClusterStatus(_, patch) => Some(patch),
            _ => None,
        }
    }

    /// Which version is deleted, where this deletes.
    pub fn deleted(&self) -> Option<&ObservedVersion> {
        match self {
            Self::DeleteService(_, observed)
            | Self::DeleteSlice(_, observed)
            | Self::DeleteResidue(_, observed, _)
            | Self::DeleteExport(_, _, observed)
            | Self::DeleteImport(_, _, observed) => Some(observed),
            _ => None,
        }
    }

    /// The cluster whose slice a copy is made from, where this makes or replaces one.
    pub fn source_cluster(&self) -> Option<&str> {
        let (Self::CreateSlice(_, slice) | Self::ReplaceSlice(_, slice)) = self else {
            return None;
        };
        let all = slice.metadata.labels.as_ref()?;
        all.get(labels::SOURCE_CLUSTER).map(String::as_str)
    }

    /// The verb, as metrics and logs name it.
    pub fn verb(&self) -> &'static str {
        match self {
            Self::CreateNamespace(..)
            | Self::CreateService(..)
            | Self::CreateSlice(..)
            | Self::CreateExport(..)
            | Self::CreateImport(..) => "create",
            Self::ReplaceSlice(..) => "update",
            Self::DeleteService(..)
            | Self::DeleteSlice(..)
            | Self::DeleteResidue(..)
            | Self::DeleteExport(..)
            | Self::DeleteImport(..) => "delete",
            Self::PatchService(..)
            | Self::PatchExportStatus(..)
            | Self::PatchImport(..)
            | Self::PatchImportStatus(..)
            | Self::PatchMultiClusterService(..)
            | Self::PatchMultiClusterServiceStatus(..)
            | Self::PatchCluster(..)
            | Self::PatchClusterStatus(..) => "patch",
        }
    }
}
