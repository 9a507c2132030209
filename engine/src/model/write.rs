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
use super::slice::Path;

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

/// One write.
#[derive(Clone, Debug, PartialEq)]
pub struct Write {
    /// What it writes.
    pub object: ObjectId,
    /// How.
    pub action: Action,
    /// What a person is told once it is done.
    pub events: Vec<ObjectEvent>,
}

impl Write {
    /// A write of which nobody is told.
    pub fn new(object: ObjectId, action: Action) -> Self {
        Self {
            object,
            action,
            events: Vec::new(),
        }
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
    /// A copy in a member: the service it belongs to, which way it serves, and its name.
    Slice(ServiceKey, Path, Arc<str>),
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

/// What is to be done to an object.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Make the namespace.
    CreateNamespace(Box<Namespace>),
    /// Make the Service.
    CreateService(Box<Service>),
    /// Make the copy.
    CreateSlice(Box<EndpointSlice>),
    /// Replace the copy; the object bears the observed resourceVersion.
    ReplaceSlice(Box<EndpointSlice>),
    /// Make the export.
    CreateExport(Box<ServiceExport>),
    /// Make the import.
    CreateImport(Box<ServiceImport>),
    /// Merge into the object, or its status; the patch bears the observed resourceVersion.
    Merge(Value),
    /// Delete that version of the object.
    Delete {
        /// Its UID.
        uid: Box<str>,
        /// Its resourceVersion.
        resource_version: Box<str>,
    },
}

/// What the API server answered to a write that it carried out.
#[derive(Clone, Debug)]
pub enum Ack {
    /// The namespace as stored.
    Namespace(Box<Namespace>),
    /// The Service as stored.
    Service(Box<Service>),
    /// The copy as stored.
    Slice(Box<EndpointSlice>),
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
            Self::Slice(..) => "EndpointSlice",
            Self::ServiceExport(..) | Self::ServiceExportStatus(..) => "ServiceExport",
            Self::ServiceImport(..) | Self::ServiceImportStatus(..) => "ServiceImport",
            Self::MultiClusterService(_) | Self::MultiClusterServiceStatus(_) => {
                "MultiClusterService"
            }
            Self::Cluster(_) | Self::ClusterStatus(_) => "Cluster",
        }
    }
}

/// The kind and the name, as a person writes them.
impl fmt::Display for ObjectId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = self.kind();
        match self {
            Self::Namespace(name) | Self::Slice(_, _, name) => write!(out, "{kind} {name}"),
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
    pub fn changed_nothing(&self, action: &Action) -> bool {
        let before = match action {
            Action::ReplaceSlice(slice) => slice.metadata.resource_version.as_deref(),
            Action::Merge(patch) => patch["metadata"]["resourceVersion"].as_str(),
            _ => None,
        };
        let meta = match self {
            Self::Namespace(object) => &object.metadata,
            Self::Service(object) => &object.metadata,
            Self::Slice(object) => &object.metadata,
            Self::ServiceExport(object) => &object.metadata,
            Self::ServiceImport(object) => &object.metadata,
            Self::MultiClusterService(object) => &object.metadata,
            Self::Cluster(object) => &object.metadata,
            Self::Deleted(_) => return false,
        };
        before.is_some() && before == meta.resource_version.as_deref()
    }
}

impl Action {
    /// Merges into the status of that version of an object.
    pub fn status(resource_version: &str, status: Value) -> Self {
        Self::Merge(json!({"metadata": {"resourceVersion": resource_version}, "status": status}))
    }

    /// The cluster whose slice a copy is made from, where this makes or replaces one.
    pub fn source_cluster(&self) -> Option<&str> {
        let (Self::CreateSlice(slice) | Self::ReplaceSlice(slice)) = self else {
            return None;
        };
        let all = slice.metadata.labels.as_ref()?;
        all.get(labels::SOURCE_CLUSTER).map(String::as_str)
    }

    /// The verb, as metrics and logs name it.
    pub fn verb(&self) -> &'static str {
        match self {
            Self::CreateNamespace(_)
            | Self::CreateService(_)
            | Self::CreateSlice(_)
            | Self::CreateExport(_)
            | Self::CreateImport(_) => "create",
            Self::ReplaceSlice(_) => "update",
            Self::Merge(_) => "patch",
            Self::Delete { .. } => "delete",
        }
    }
}
