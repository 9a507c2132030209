//! Carries out one write: a POST for what is new, an update or a deletion only of the very version
//! that was observed.
//!
//! A create that comes too late meets what is there already, an update or a deletion that comes too
//! late meets another resourceVersion: neither can undo what a successor wrote.

mod slices;

use std::time::Duration;

use causeway::api::labels;
use causeway::api::ownership::copied_label_removal;
use causeway::domain::ServiceKey;
use causeway_engine::model::slice::ObservedSlice;
use causeway_engine::model::{
    Ack, Failure, FailureKind, ObjectId, ObservedVersion, Operation, Write,
};
use k8s_openapi::api::core::v1::Endpoints;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::core::Request;
use kube::{Api, Client, Resource};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use crate::failure::{Classify as _, classify, is_absence};

/// Carries out a write within `deadline`.
///
/// # Errors
/// [`Failure`] where the API server refuses, does not answer in time, or is not reached. Whether
/// the write was carried out is then unknown; the watches will tell.
pub async fn apply(client: &Client, write: &Write, deadline: Duration) -> Result<Ack, Failure> {
    match tokio::time::timeout(deadline, execute(client, write)).await {
        Ok(answer) => answer,
        Err(_) => Err(Failure::timeout()),
    }
}

async fn execute(client: &Client, write: &Write) -> Result<Ack, Failure> {
    match write.object() {
        ObjectId::Namespace(_) => send(client, &(), write, Ack::Namespace).await,
        ObjectId::Service(_) => send(client, &(), write, Ack::Service).await,
        ObjectId::Slice(id) => {
            if let Operation::DeleteResidue(_, hub) = write.operation() {
                remove_copied_labels(client, &id.service, hub).await?;
            }
            let ack = |slice: Box<EndpointSlice>| Ack::Slice(ObservedSlice::read(&slice).into());
            send(client, &(), write, ack).await
        }
        ObjectId::ServiceExport(version, _) | ObjectId::ServiceExportStatus(version, _) => {
            send(client, version, write, Ack::ServiceExport).await
        }
        ObjectId::ServiceImport(version, _) | ObjectId::ServiceImportStatus(version, _) => {
            send(client, version, write, Ack::ServiceImport).await
        }
        ObjectId::MultiClusterService(_) | ObjectId::MultiClusterServiceStatus(_) => {
            send(client, &(), write, Ack::MultiClusterService).await
        }
        ObjectId::DnsEndpoint(_) => send(client, &(), write, Ack::DnsEndpoint).await,
        ObjectId::Cluster(_) | ObjectId::ClusterStatus(_) => {
            send(client, &(), write, Ack::Cluster).await
        }
    }
}

/// Sends the request of a write. `version` is that of the kind, and `ack` wraps the stored object.
async fn send<K: Resource + DeserializeOwned>(
    client: &Client,
    version: &K::DynamicType,
    write: &Write,
    ack: fn(Box<K>) -> Ack,
) -> Result<Ack, Failure> {
    let (object, name) = (write.object(), write.object().name());
    let requests = Request::new(K::url_path(version, object.namespace()));
    let request = match write.operation() {
        Operation::Create(manifest) => {
            let body = serde_json::to_vec(manifest).classified()?;
            requests.create(&post(), body)
        }
        Operation::CreateSlice(slice, _) => {
            let request = |body| requests.create(&post(), body);
            return slices::store(client, slice, name, request).await;
        }
        Operation::ReplaceSlice(slice, _) => {
            let request = |body| requests.replace(name, &post(), body);
            return slices::store(client, slice, name, request).await;
        }
        Operation::Patch(patch) => {
            let (params, patch) = (patch_params(), Patch::Merge(patch));
            match object.is_status() {
                true => requests.patch_subresource("status", name, &params, &patch),
                false => requests.patch(name, &params, &patch),
            }
        }
        Operation::Delete(observed) | Operation::DeleteResidue(observed, _) => {
            return delete(client, &requests, object, observed).await;
        }
    };
    let request = request.map_err(kube::Error::BuildRequest).classified()?;
    let stored = client.request::<K>(request).await.classified()?;
    named(stored, name).map(|stored| ack(stored.into()))
}

/// Returns the parameters of a request that stores an object as causeway.
pub(crate) fn post() -> PostParams {
    PostParams {
        field_manager: Some(labels::MANAGER.to_owned()),
        ..PostParams::default()
    }
}

fn patch_params() -> PatchParams {
    PatchParams {
        field_manager: Some(labels::MANAGER.to_owned()),
        ..PatchParams::default()
    }
}

/// The object that an API server stored. An answer that names another, or none, proves no write.
fn named<K: Resource>(stored: K, name: &str) -> Result<K, Failure> {
    let is_named = stored.meta().name.as_deref() == Some(name);
    is_named.then_some(stored).ok_or_else(no_proof)
}

fn no_proof() -> Failure {
    let text = "the answer is neither the object nor a Status Success";
    Failure::new(FailureKind::Other, text)
}

/// Removes that hub's label, and what came with it, from the Endpoints of a Service, if they exist.
async fn remove_copied_labels(client: &Client, key: &ServiceKey, hub: &str) -> Result<(), Failure> {
    let api: Api<Endpoints> = Api::namespaced(client.clone(), &key.namespace);
    let name = &*key.name;
    let endpoints = match api.get_metadata(name).await {
        Err(error) if is_absence(&error, name) => return Ok(()),
        found => found.classified()?,
    };
    let Some(removal) = copied_label_removal(&endpoints.metadata, hub) else {
        return Ok(());
    };
    let patch = Patch::Merge(removal);
    let patched = api.patch_metadata(name, &patch_params(), &patch).await;
    patched.map(drop).classified()
}

/// Deletes that version of an object. An object that does not exist counts as deleted, as does one
/// that the API server answers with, or with a Status Success.
async fn delete(
    client: &Client,
    requests: &Request,
    object: &ObjectId,
    observed: &ObservedVersion,
) -> Result<Ack, Failure> {
    let name = object.name();
    let preconditions = Preconditions {
        uid: Some(observed.uid.to_string()),
        resource_version: Some(observed.resource_version.to_string()),
    };
    let params = DeleteParams {
        preconditions: Some(preconditions),
        ..DeleteParams::default()
    };
    let request = requests.delete(name, &params);
    let request = request.map_err(kube::Error::BuildRequest).classified()?;
    let is_deleted = match client.request::<DeletionAnswer>(request).await {
        Err(error) if is_absence(&error, name) => true,
        Err(error) => return Err(classify(&error)),
        Ok(answer) => answer.proves_deletion(object.kind(), name),
    };
    let deleted = || Ack::Deleted(object.clone(), observed.uid.clone());
    is_deleted.then(deleted).ok_or_else(no_proof)
}

/// Answer to a deletion, as far as it is read: a Status or the object.
#[derive(Deserialize)]
struct DeletionAnswer {
    kind: Option<String>,
    /// Text of a Status, or the status of the object.
    status: Option<Box<RawValue>>,
    details: Option<Named>,
    metadata: Option<Named>,
}

#[derive(Deserialize)]
struct Named {
    name: Option<String>,
}

impl DeletionAnswer {
    fn proves_deletion(&self, kind: &str, name: &str) -> bool {
        let named = |by: &Option<Named>| by.as_ref().and_then(|by| by.name.clone());
        match self.kind.as_deref() {
            Some("Status") => {
                let status = self.status.as_ref().map(|status| status.get());
                let deleted = named(&self.details);
                status == Some(r#""Success""#) && deleted.is_none_or(|deleted| deleted == name)
            }
            of => of == Some(kind) && named(&self.metadata).as_deref() == Some(name),
        }
    }
}

#[cfg(test)]
mod tests;
