//! Carries out one write: a POST for what is new, an update or a deletion only of the very version
//! that was observed.
//!
//! A create that comes too late meets what is there already, an update or a deletion that comes too
//! late meets another resourceVersion: neither can undo what a successor wrote.

mod slices;

use std::fmt::Debug;
use std::time::Duration;

use causeway::api::multicluster::{ServiceExport, ServiceImport, Version};
use causeway::api::ownership::copied_label_removal;
use causeway::api::{self, DNSEndpoint, labels};
use causeway::domain::{ClusterName, ServiceKey};
use causeway_engine::model::{
    Ack, DeletedObject, Failure, FailureKind, ObservedVersion, Operation, SliceId,
};
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::{Endpoints, Namespace, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::core::Request;
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::failure::{Classify as _, classify, is_absence};

/// Carries out a write within `deadline`.
///
/// # Errors
/// [`Failure`] where the API server refuses, does not answer in time, or is not reached. Whether
/// the write was carried out is then unknown; the watches will tell.
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
        CreateNamespace(name, it) => to.namespace(name).create(it).await,
        CreateService(key, it) => to.service(key).create(it).await,
        PatchService(key, patch) => to.service(key).merge(patch).await,
        DeleteService(key, observed) => {
            let deleted = |key, uid| DeletedObject::Service { key, uid };
            to.service(key).delete(key, observed, deleted).await
        }
        CreateSlice(id, it) => slices::create(to.0, id, it).await,
        ReplaceSlice(id, it) => slices::replace(to.0, id, it).await,
        DeleteSlice(id, observed) => delete_slice(to, id, observed).await,
        DeleteResidue(id, observed, hub) => {
            remove_copied_labels(to.of(&id.service), &id.service.name, hub).await?;
            delete_slice(to, id, observed).await
        }
        CreateExport(version, key, it) => to.export(version, key).create(it).await,
        PatchExportStatus(version, key, patch) => to.export(version, key).merge_status(patch).await,
        DeleteExport(version, key, observed) => {
            let deleted = |key, uid| DeletedObject::ServiceExport { key, uid };
            to.export(version, key).delete(key, observed, deleted).await
        }
        CreateImport(version, key, it) => to.import(version, key).create(it).await,
        PatchImport(version, key, patch) => to.import(version, key).merge(patch).await,
        PatchImportStatus(version, key, patch) => to.import(version, key).merge_status(patch).await,
        DeleteImport(version, key, observed) => {
            let deleted = |key, uid| DeletedObject::ServiceImport { key, uid };
            to.import(version, key).delete(key, observed, deleted).await
        }
        PatchMultiClusterService(key, patch) => to.mcs(key).merge(patch).await,
        PatchMultiClusterServiceStatus(key, patch) => to.mcs(key).merge_status(patch).await,
        CreateDnsEndpoint(key, it) => to.dns_endpoint(key).create(it).await,
        PatchDnsEndpoint(key, patch) => to.dns_endpoint(key).merge(patch).await,
        DeleteDnsEndpoint(key, observed) => {
            let deleted = |key, uid| DeletedObject::DnsEndpoint { key, uid };
            to.dns_endpoint(key).delete(key, observed, deleted).await
        }
        CreateCluster(name, it) => to.cluster(name).create(it).await,
        PatchCluster(name, patch) => to.cluster(name).merge(patch).await,
        PatchClusterStatus(name, patch) => to.cluster(name).merge_status(patch).await,
        DeleteCluster(name, observed) => {
            delete(to.cluster(name).api, "Cluster", name.as_str(), observed).await?;
            Ok(Ack::Deleted(DeletedObject::Cluster))
        }
    }
}

/// The objects of a cluster.
struct Cluster<'a>(&'a Client);

impl Cluster<'_> {
    fn namespace<'a>(&self, name: &'a str) -> Object<'a, Namespace> {
        let api = Api::all(self.0.clone());
        Object::new(api, "Namespace", name, Ack::Namespace)
    }

    fn service<'a>(&self, key: &'a ServiceKey) -> Object<'a, Service> {
        Object::new(self.of(key), "Service", &key.name, Ack::Service)
    }

    fn export<'a>(&self, version: &Version, key: &'a ServiceKey) -> Object<'a, ServiceExport> {
        let api = Api::namespaced_with(self.0.clone(), &key.namespace, version);
        Object::new(api, "ServiceExport", &key.name, Ack::ServiceExport)
    }

    fn import<'a>(&self, version: &Version, key: &'a ServiceKey) -> Object<'a, ServiceImport> {
        let api = Api::namespaced_with(self.0.clone(), &key.namespace, version);
        Object::new(api, "ServiceImport", &key.name, Ack::ServiceImport)
    }

    fn mcs<'a>(&self, key: &'a ServiceKey) -> Object<'a, api::MultiClusterService> {
        let ack = Ack::MultiClusterService;
        Object::new(self.of(key), "MultiClusterService", &key.name, ack)
    }

    fn dns_endpoint<'a>(&self, key: &'a ServiceKey) -> Object<'a, DNSEndpoint> {
        Object::new(self.of(key), "DNSEndpoint", &key.name, Ack::DnsEndpoint)
    }

    fn cluster<'a>(&self, name: &'a ClusterName) -> Object<'a, api::Cluster> {
        let api = Api::all(self.0.clone());
        Object::new(api, "Cluster", name.as_str(), Ack::Cluster)
    }

    fn of<K>(&self, key: &ServiceKey) -> Api<K>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
    {
        Api::namespaced(self.0.clone(), &key.namespace)
    }
}

/// Object of a cluster that is written. `ack` wraps the stored object.
struct Object<'a, K> {
    api: Api<K>,
    kind: &'static str,
    name: &'a str,
    ack: fn(Box<K>) -> Ack,
}

impl<'a, K: Resource + Clone + DeserializeOwned + Debug> Object<'a, K> {
    fn new(api: Api<K>, kind: &'static str, name: &'a str, ack: fn(Box<K>) -> Ack) -> Self {
        Self {
            api,
            kind,
            name,
            ack,
        }
    }

    async fn create(self, object: &K) -> Result<Ack, Failure>
    where
        K: Serialize,
    {
        let stored = self.api.create(&post(), object).await.classified()?;
        let name = object.meta().name.as_deref().unwrap_or_default();
        named(stored, name).map(|stored| (self.ack)(stored.into()))
    }

    async fn merge(self, patch: &Value) -> Result<Ack, Failure> {
        let (params, patch) = (patch_params(), Patch::Merge(patch));
        let stored = self.api.patch(self.name, &params, &patch).await;
        named(stored.classified()?, self.name).map(|stored| (self.ack)(stored.into()))
    }

    async fn merge_status(self, patch: &Value) -> Result<Ack, Failure> {
        let (params, patch) = (patch_params(), Patch::Merge(patch));
        let stored = self.api.patch_status(self.name, &params, &patch).await;
        named(stored.classified()?, self.name).map(|stored| (self.ack)(stored.into()))
    }

    /// Deletes the observed version of the object. `key` identifies it in the answer.
    async fn delete(
        self,
        key: &ServiceKey,
        observed: &ObservedVersion,
        deleted: fn(ServiceKey, Box<str>) -> DeletedObject,
    ) -> Result<Ack, Failure> {
        let uid = delete(self.api, self.kind, self.name, observed).await?;
        Ok(Ack::Deleted(deleted(key.clone(), uid)))
    }
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

async fn delete_slice(
    to: &Cluster<'_>,
    id: &SliceId,
    observed: &ObservedVersion,
) -> Result<Ack, Failure> {
    let slices = to.of::<EndpointSlice>(&id.service);
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

/// Deletes that version of an object. An object that does not exist counts as deleted, as does one
/// that the API server answers with, or with a Status Success. Returns its UID.
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
