//! Carries out one write: a POST for what is new, an update or a deletion only of the very version that was observed.
//!
//! A create that comes too late meets what is there already, an update or a deletion that comes too late
//! meets another resourceVersion: neither can undo what a successor wrote.

mod slices;

use std::fmt::Debug;
use std::time::Duration;

use causeway::api::multicluster::{ServiceExport, ServiceImport, Version};
use causeway::api::ownership::copied_label_removal;
use causeway::api::{self, DNSEndpoint, labels};
use causeway::domain::ServiceKey;
use causeway_engine::model::{
    Ack, DeletedObject, Failure, FailureKind, ObservedVersion, Operation, SliceId,
};
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::{Endpoints, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::core::{DynamicResourceScope, Request};
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::failure::{Classify as _, classify, is_absence};

/// Carries out a write within `deadline`.
///
/// # Errors
/// [`Failure`] where the API server refuses, does not answer in time, or is not reached. Whether the write was
/// carried out is then unknown; the watches will tell.
pub async fn apply(
    client: &Client,
    operation: &Operation,
    deadline: Duration,
) -> Result<Ack, Failure> {
    match tokio::time::timeout(deadline, execute(&Cluster(client), operation)).await {
        Ok(answer) => answer,
        Err(_) => Err(Failure::timeout()),
    }
}

async fn execute(to: &Cluster<'_>, operation: &Operation) -> Result<Ack, Failure> {
    use Operation::*;
    match operation {
        CreateNamespace(_, it) => create(Ack::Namespace, to.all(), it).await,
        CreateService(key, it) => create(Ack::Service, to.of(key), it).await,
        CreateSlice(id, it) => slices::create(to.0, id, it).await,
        CreateExport(version, key, it) => {
            create(Ack::ServiceExport, to.exports(version, key), it).await
        }
        CreateImport(version, key, it) => {
            create(Ack::ServiceImport, to.imports(version, key), it).await
        }
        ReplaceSlice(id, it) => slices::replace(to.0, id, it).await,
        PatchService(key, patch) => merge(Ack::Service, to.of(key), &key.name, patch).await,
        PatchExportStatus(version, key, patch) => {
            let exports = to.exports(version, key);
            merge_status(Ack::ServiceExport, exports, &key.name, patch).await
        }
        PatchImport(version, key, patch) => {
            let imports = to.imports(version, key);
            merge(Ack::ServiceImport, imports, &key.name, patch).await
        }
        PatchImportStatus(version, key, patch) => {
            let imports = to.imports(version, key);
            merge_status(Ack::ServiceImport, imports, &key.name, patch).await
        }
        PatchMultiClusterService(key, patch) => {
            merge(Ack::MultiClusterService, to.of(key), &key.name, patch).await
        }
        PatchMultiClusterServiceStatus(key, patch) => {
            merge_status(Ack::MultiClusterService, to.of(key), &key.name, patch).await
        }
        CreateDnsEndpoint(key, it) => create(Ack::DnsEndpoint, to.of(key), it).await,
        PatchDnsEndpoint(key, patch) => merge(Ack::DnsEndpoint, to.of(key), &key.name, patch).await,
        DeleteDnsEndpoint(key, observed) => {
            let uid = delete(
                to.of::<DNSEndpoint>(key),
                "DNSEndpoint",
                &key.name,
                observed,
            )
            .await?;
            let key = key.clone();
            Ok(Ack::Deleted(DeletedObject::DnsEndpoint { key, uid }))
        }
        CreateCluster(_, it) => create(Ack::Cluster, to.all(), it).await,
        DeleteCluster(name, observed) => {
            delete(to.all::<api::Cluster>(), "Cluster", name.as_str(), observed).await?;
            Ok(Ack::Deleted(DeletedObject::Cluster))
        }
        PatchCluster(name, patch) => merge(Ack::Cluster, to.all(), name.as_str(), patch).await,
        PatchClusterStatus(name, patch) => {
            merge_status(Ack::Cluster, to.all(), name.as_str(), patch).await
        }
        DeleteService(key, observed) => {
            let uid = delete(to.of::<Service>(key), "Service", &key.name, observed).await?;
            let key = key.clone();
            Ok(Ack::Deleted(DeletedObject::Service { key, uid }))
        }
        DeleteSlice(id, observed) => delete_slice(to, id, observed).await,
        DeleteResidue(id, observed, hub) => {
            remove_copied_labels(to.of(&id.service), &id.service.name, hub).await?;
            delete_slice(to, id, observed).await
        }
        DeleteExport(version, key, observed) => {
            let exports = to.exports(version, key);
            let uid = delete(exports, "ServiceExport", &key.name, observed).await?;
            let key = key.clone();
            Ok(Ack::Deleted(DeletedObject::ServiceExport { key, uid }))
        }
        DeleteImport(version, key, observed) => {
            let imports = to.imports(version, key);
            let uid = delete(imports, "ServiceImport", &key.name, observed).await?;
            let key = key.clone();
            Ok(Ack::Deleted(DeletedObject::ServiceImport { key, uid }))
        }
    }
}

/// The objects of a cluster.
struct Cluster<'a>(&'a Client);

impl Cluster<'_> {
    fn all<K: Resource<DynamicType = ()>>(&self) -> Api<K> {
        Api::all(self.0.clone())
    }

    fn of<K>(&self, key: &ServiceKey) -> Api<K>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
    {
        Api::namespaced(self.0.clone(), &key.namespace)
    }

    fn slices(&self, id: &SliceId) -> Api<EndpointSlice> {
        self.of(&id.service)
    }

    fn exports(&self, version: &Version, key: &ServiceKey) -> Api<ServiceExport> {
        self.versioned(version, key)
    }

    fn imports(&self, version: &Version, key: &ServiceKey) -> Api<ServiceImport> {
        self.versioned(version, key)
    }

    /// The objects of a kind that is served in several versions.
    fn versioned<K>(&self, version: &Version, key: &ServiceKey) -> Api<K>
    where
        K: Resource<Scope = DynamicResourceScope, DynamicType = Version>,
    {
        Api::namespaced_with(self.0.clone(), &key.namespace, version)
    }
}

fn post() -> PostParams {
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

async fn create<K>(ack: fn(Box<K>) -> Ack, api: Api<K>, object: &K) -> Result<Ack, Failure>
where
    K: Resource + Clone + DeserializeOwned + Serialize + Debug,
{
    let stored = api.create(&post(), object).await.classified()?;
    let name = object.meta().name.as_deref().unwrap_or_default();
    named(stored, name).map(|stored| ack(stored.into()))
}

async fn merge<K>(
    ack: fn(Box<K>) -> Ack,
    api: Api<K>,
    name: &str,
    patch: &Value,
) -> Result<Ack, Failure>
where
    K: Resource + Clone + DeserializeOwned + Debug,
{
    let patch = Patch::Merge(patch);
    let stored = api
        .patch(name, &patch_params(), &patch)
        .await
        .classified()?;
    named(stored, name).map(|stored| ack(stored.into()))
}

async fn merge_status<K: Resource + DeserializeOwned>(
    ack: fn(Box<K>) -> Ack,
    api: Api<K>,
    name: &str,
    patch: &Value,
) -> Result<Ack, Failure> {
    let patch = Patch::Merge(patch);
    let stored = api
        .patch_status(name, &patch_params(), &patch)
        .await
        .classified()?;
    named(stored, name).map(|stored| ack(stored.into()))
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

async fn delete_slice(
    to: &Cluster<'_>,
    id: &SliceId,
    observed: &ObservedVersion,
) -> Result<Ack, Failure> {
    let slices = to.slices(id);
    let uid = delete(slices, "EndpointSlice", &id.name, observed).await?;
    let (key, name) = (id.service.clone(), id.name.clone());
    Ok(Ack::Deleted(DeletedObject::Slice { key, name, uid }))
}

/// Removes that hub's label, and what came with it, from the Endpoints of a Service, if they exist.
async fn remove_copied_labels(api: Api<Endpoints>, name: &str, hub: &str) -> Result<(), Failure> {
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

/// Deletes that version of an object. An object that does not exist counts as deleted, as does one that the API server answers
/// with, or with a Status Success. Returns its UID.
async fn delete<K: Resource>(
    api: Api<K>,
    kind: &str,
    name: &str,
    observed: &ObservedVersion,
) -> Result<Box<str>, Failure> {
    let preconditions = Preconditions {
        uid: Some(observed.uid.to_string()),
        resource_version: Some(observed.resource_version.to_string()),
    };
    let params = DeleteParams {
        preconditions: Some(preconditions),
        ..DeleteParams::default()
    };
    let request = Request::new(api.resource_url()).delete(name, &params);
    let request = request.map_err(kube::Error::BuildRequest).classified()?;
    let is_deleted = match api.into_client().request::<DeletionAnswer>(request).await {
        Err(error) if is_absence(&error, name) => true,
        Err(error) => return Err(classify(&error)),
        Ok(answer) => answer.proves_deletion(kind, name),
    };
    let deleted = || observed.uid.clone();
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
