//! Carries out one write: a POST for what is new, an update or a deletion only of the very version that was observed.
//!
//! A create that comes too late meets what is there already, an update or a deletion that comes too late
//! meets another resourceVersion: neither can undo what a successor wrote.

use std::fmt::{self, Debug};
use std::sync::Arc;
use std::time::Duration;

use causeway::api::multicluster::{ServiceExport, ServiceImport, Version};
use causeway::api::{self, labels};
use causeway::domain::{ClusterName, ServiceKey};
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::{Namespace, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::core::DynamicResourceScope;
use kube::{Api, Client, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::index::slice::Path;

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

/// Carries out a write within `deadline`.
///
/// # Errors
/// [`Failure`] where the API server refuses, does not answer in time, or is not reached. Whether the write was
/// carried out is then unknown; the watches will tell.
pub async fn apply(
    client: &Client,
    object: &ObjectId,
    action: &Action,
    deadline: Duration,
) -> Result<Ack, Failure> {
    match tokio::time::timeout(deadline, execute(client, object, action)).await {
        Ok(answer) => answer.map_err(Failure::from),
        Err(_) => Err(Failure::timeout()),
    }
}

async fn execute(client: &Client, object: &ObjectId, action: &Action) -> Result<Ack, kube::Error> {
    let post = PostParams {
        field_manager: Some(labels::MANAGER.to_owned()),
        ..PostParams::default()
    };
    match (object, action) {
        (_, Action::CreateNamespace(namespace)) => {
            let stored = Api::<Namespace>::all(client.clone())
                .create(&post, namespace)
                .await?;
            Ok(Ack::Namespace(stored.into()))
        }
        (ObjectId::Service(key), Action::CreateService(service)) => Ok(Ack::Service(
            api_of::<Service>(client, key)
                .create(&post, service)
                .await?
                .into(),
        )),
        (ObjectId::Slice(key, ..), Action::CreateSlice(slice)) => Ok(Ack::Slice(
            api_of::<EndpointSlice>(client, key)
                .create(&post, slice)
                .await?
                .into(),
        )),
        (ObjectId::Slice(key, _, name), Action::ReplaceSlice(slice)) => Ok(Ack::Slice(
            api_of::<EndpointSlice>(client, key)
                .replace(name, &post, slice)
                .await?
                .into(),
        )),
        (ObjectId::ServiceExport(version, key), Action::CreateExport(export)) => {
            let api = versioned::<ServiceExport>(client, key, version);
            Ok(Ack::ServiceExport(api.create(&post, export).await?.into()))
        }
        (ObjectId::ServiceImport(version, key), Action::CreateImport(import)) => {
            let api = versioned::<ServiceImport>(client, key, version);
            Ok(Ack::ServiceImport(api.create(&post, import).await?.into()))
        }
        (object, Action::Merge(patch)) => merge(client, object, patch).await,
        (
            object,
            Action::Delete {
                uid,
                resource_version,
            },
        ) => delete(client, object, uid, resource_version).await,
        (object, action) => Err(mismatch(object, action)),
    }
}

async fn merge(client: &Client, object: &ObjectId, patch: &Value) -> Result<Ack, kube::Error> {
    let params = PatchParams {
        field_manager: Some(labels::MANAGER.to_owned()),
        ..PatchParams::default()
    };
    let patch = Patch::Merge(patch);
    match object {
        ObjectId::Service(key) => Ok(Ack::Service(
            api_of::<Service>(client, key)
                .patch(&key.name, &params, &patch)
                .await?
                .into(),
        )),
        ObjectId::ServiceExportStatus(version, key) => {
            let api = versioned::<ServiceExport>(client, key, version);
            let stored = api.patch_status(&key.name, &params, &patch).await?;
            Ok(Ack::ServiceExport(stored.into()))
        }
        ObjectId::ServiceImport(version, key) => {
            let api = versioned::<ServiceImport>(client, key, version);
            let stored = api.patch(&key.name, &params, &patch).await?;
            Ok(Ack::ServiceImport(stored.into()))
        }
        ObjectId::ServiceImportStatus(version, key) => {
            let api = versioned::<ServiceImport>(client, key, version);
            let stored = api.patch_status(&key.name, &params, &patch).await?;
            Ok(Ack::ServiceImport(stored.into()))
        }
        ObjectId::MultiClusterService(key) => {
            let api = api_of::<api::MultiClusterService>(client, key);
            Ok(Ack::MultiClusterService(
                api.patch(&key.name, &params, &patch).await?.into(),
            ))
        }
        ObjectId::MultiClusterServiceStatus(key) => {
            let api = api_of::<api::MultiClusterService>(client, key);
            Ok(Ack::MultiClusterService(
                api.patch_status(&key.name, &params, &patch).await?.into(),
            ))
        }
        ObjectId::Cluster(name) => {
            let api = Api::<api::Cluster>::all(client.clone());
            Ok(Ack::Cluster(
                api.patch(name.as_str(), &params, &patch).await?.into(),
            ))
        }
        ObjectId::ClusterStatus(name) => {
            let api = Api::<api::Cluster>::all(client.clone());
            Ok(Ack::Cluster(
                api.patch_status(name.as_str(), &params, &patch)
                    .await?
                    .into(),
            ))
        }
        ObjectId::Namespace(_) | ObjectId::Slice(..) | ObjectId::ServiceExport(..) => {
            Err(mismatch(object, &Action::Merge(Value::Null)))
        }
    }
}

async fn delete(
    client: &Client,
    object: &ObjectId,
    uid: &str,
    version: &str,
) -> Result<Ack, kube::Error> {
    let preconditions = Preconditions {
        uid: Some(uid.to_owned()),
        resource_version: Some(version.to_owned()),
    };
    let params = DeleteParams {
        preconditions: Some(preconditions),
        ..DeleteParams::default()
    };
    let (key, uid) = match object {
        ObjectId::Service(key)
        | ObjectId::Slice(key, ..)
        | ObjectId::ServiceExport(_, key)
        | ObjectId::ServiceImport(_, key) => (key.clone(), uid.into()),
        other => {
            let action = Action::Delete {
                uid: uid.into(),
                resource_version: version.into(),
            };
            return Err(mismatch(other, &action));
        }
    };
    Ok(Ack::Deleted(match object {
        ObjectId::ServiceExport(version, _) => {
            let api = versioned::<ServiceExport>(client, &key, version);
            gone(api.delete(&key.name, &params).await)?;
            DeletedObject::ServiceExport { key, uid }
        }
        ObjectId::ServiceImport(version, _) => {
            let api = versioned::<ServiceImport>(client, &key, version);
            gone(api.delete(&key.name, &params).await)?;
            DeletedObject::ServiceImport { key, uid }
        }
        ObjectId::Slice(_, _, name) => {
            gone(
                api_of::<EndpointSlice>(client, &key)
                    .delete(name, &params)
                    .await,
            )?;
            let name = name.clone();
            DeletedObject::Slice { key, name, uid }
        }
        _ => {
            gone(
                api_of::<Service>(client, &key)
                    .delete(&key.name, &params)
                    .await,
            )?;
            DeletedObject::Service { key, uid }
        }
    }))
}

/// What was to be deleted and is not there is deleted.
fn gone<T>(answer: Result<T, kube::Error>) -> Result<(), kube::Error> {
    match answer {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        Err(other) => Err(other),
    }
}

fn api_of<K>(client: &Client, key: &ServiceKey) -> Api<K>
where
    K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>
        + Clone
        + DeserializeOwned
        + Serialize
        + Debug,
{
    Api::namespaced(client.clone(), &key.namespace)
}

/// The objects of a kind that is served in several versions.
fn versioned<K>(client: &Client, key: &ServiceKey, version: &Version) -> Api<K>
where
    K: Resource<Scope = DynamicResourceScope, DynamicType = Version>,
{
    Api::namespaced_with(client.clone(), &key.namespace, version)
}

fn mismatch(object: &ObjectId, action: &Action) -> kube::Error {
    let what = format!("a {} cannot take the verb {}", object.kind(), action.verb());
    kube::Error::Service(what.into())
}
