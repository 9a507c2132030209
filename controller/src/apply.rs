//! Carries out one write: a POST for what is new, an update or a deletion only of the very version that was observed.
//!
//! A create that comes too late meets what is there already, an update or a deletion that comes too late
//! meets another resourceVersion: neither can undo what a successor wrote.

use std::fmt::Debug;
use std::time::Duration;

use causeway::api::multicluster::{ServiceExport, ServiceImport, Version};
use causeway::api::{self, labels};
use causeway::domain::ServiceKey;
use causeway_engine::model::{Ack, Action, DeletedObject, Failure, ObjectId};
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::{Namespace, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::core::DynamicResourceScope;
use kube::{Api, Client, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::failure::Classify as _;

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
        Ok(answer) => answer.classified(),
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
