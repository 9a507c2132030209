//! ServiceExports and ServiceImports as the index holds them.

use std::collections::BTreeMap;

use causeway::api::multicluster::{
    ClusterOfSet, ServiceExport, ServiceExportSpec, ServiceImport, ServiceImportSpec,
    ServiceImportStatus,
};
use causeway::api::ownership::{self, Marks, NATIVE_OWNER};
use causeway::api::{bounds, labels};
use causeway::domain::{Consumers, Failover, FieldErrors, Reach};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta};
use k8s_openapi::jiff::Timestamp;
use string_cache::DefaultAtom;

use crate::model::slice::Exposure;

/// A ServiceExport of a member.
#[derive(Clone, Debug, PartialEq)]
pub struct ExportView {
    /// Its UID.
    pub uid: Box<str>,
    /// Its resourceVersion, which writes send back unchanged.
    pub resource_version: Box<str>,
    /// Generation of its spec.
    pub generation: i64,
    /// Creation time. The oldest of conflicting exports takes precedence.
    pub created: Option<Timestamp>,
    /// Whether it is terminating.
    pub deleting: bool,
    /// UID of the hub whose causeway manages it, if one does.
    pub hub: Option<DefaultAtom>,
    /// Labels and annotations that causeway left on it, if it is foreign now.
    pub marks: Option<Box<Marks>>,
    /// Owner on whose behalf causeway wrote it ([`labels::OWNER`]).
    pub owner: Option<Box<str>>,
    /// Its spec.
    pub spec: ServiceExportSpec,
    /// Failover settings of its annotations.
    pub failover: Failover,
    /// Way by which clusters of other networks reach its endpoints; `None` where the Cluster
    /// decides.
    pub reach: Option<Reach>,
    /// Clusters that import it.
    pub consumers: Consumers,
    /// Errors in its annotations; the values are ignored.
    pub(crate) misread: FieldErrors,
    /// Conditions of its status.
    pub conditions: Vec<Condition>,
    /// Clusters of its status.
    pub(crate) clusters: Vec<ClusterOfSet>,
    /// Program other than causeway that writes its status.
    pub(crate) status_writer: Option<Box<str>>,
}

/// A ServiceImport of a member.
#[derive(Clone, Debug, PartialEq)]
pub struct ImportView {
    /// Its UID.
    pub uid: Box<str>,
    /// Its resourceVersion, which writes send back unchanged.
    pub resource_version: Box<str>,
    /// Generation of its spec.
    pub generation: i64,
    /// Whether it is terminating.
    pub deleting: bool,
    /// UID of the hub whose causeway manages it, if one does.
    pub hub: Option<DefaultAtom>,
    /// Labels and annotations that causeway left on it, if it is foreign now.
    pub marks: Option<Box<Marks>>,
    /// Owner on whose behalf causeway wrote it ([`labels::OWNER`]).
    pub owner: Option<Box<str>>,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Its annotations.
    pub annotations: BTreeMap<String, String>,
    /// Its spec.
    pub spec: ServiceImportSpec,
    /// Its status.
    pub status: ServiceImportStatus,
    /// Whether nobody but causeway, of whichever hub, can have written its status.
    pub(crate) is_status_ours: bool,
    /// Program other than causeway that writes its status.
    pub(crate) status_writer: Option<Box<str>>,
}

impl ExportView {
    /// Reads an export from the wire. Returns `None` for one without an identity, which no API
    /// server sends.
    pub fn read(export: &ServiceExport) -> Option<Self> {
        let meta = &export.metadata;
        let selectors = &export.spec.cluster_selectors;
        let (failover, mut misread) = Failover::of_export(meta, selectors);
        let consumers = meta.annotations.as_ref();
        let consumers = consumers.and_then(|all| all.get(labels::CONSUMERS));
        let consumers = consumers.map(String::as_str);
        let consumers = Consumers::read(consumers, &mut |error| misread.push(error));
        let reach = Reach::of_service(meta, |error| misread.push(error));
        let status = export.status.clone().unwrap_or_default();
        Some(Self {
            failover,
            reach,
            consumers,
            misread,
            uid: meta.uid.as_deref()?.into(),
            resource_version: meta.resource_version.as_deref()?.into(),
            generation: meta.generation.unwrap_or_default(),
            created: meta.creation_timestamp.as_ref().map(|time| time.0),
            deleting: meta.deletion_timestamp.is_some(),
            hub: ownership::managing_hub(meta).map(Into::into),
            marks: Marks::read(meta).map(Box::new),
            owner: owner_of(meta),
            spec: export.spec.clone(),
            conditions: status.conditions,
            clusters: status.clusters,
            status_writer: status_writer(meta),
        })
    }
}

impl ImportView {
    /// Reads an import from the wire. Returns `None` for one without an identity, which no API
    /// server sends.
    pub fn read(import: &ServiceImport) -> Option<Self> {
        let meta = &import.metadata;
        Some(Self {
            uid: meta.uid.as_deref()?.into(),
            resource_version: meta.resource_version.as_deref()?.into(),
            generation: meta.generation.unwrap_or_default(),
            deleting: meta.deletion_timestamp.is_some(),
            hub: ownership::managing_hub(meta).map(Into::into),
            marks: Marks::read(meta).map(Box::new),
            owner: owner_of(meta),
            labels: meta.labels.clone().unwrap_or_default(),
            annotations: meta.annotations.clone().unwrap_or_default(),
            spec: import.spec.clone(),
            status: import.status.clone().unwrap_or_default(),
            is_status_ours: ownership::has_no_other_status(meta),
            status_writer: status_writer(meta),
        })
    }
}

impl ExportView {
    /// Returns the exposure that it serves, if this hub's causeway manages it. `None` once it is
    /// foreign.
    pub fn exposure(&self, hub: &str) -> Option<Exposure> {
        exposure(&self.hub, &self.owner, hub)
    }
}

impl ImportView {
    /// Returns the exposure that it serves, if this hub's causeway manages it. `None` once it is
    /// foreign.
    pub fn exposure(&self, hub: &str) -> Option<Exposure> {
        exposure(&self.hub, &self.owner, hub)
    }
}

fn exposure(writer: &Option<DefaultAtom>, owner: &Option<Box<str>>, hub: &str) -> Option<Exposure> {
    let is_native = |owner: &str| owner.starts_with(NATIVE_OWNER);
    (writer.as_deref() == Some(hub)).then(|| match owner.as_deref().is_some_and(is_native) {
        true => Exposure::Native,
        false => Exposure::Clusterset,
    })
}

/// Returns the program other than causeway, and than Karmada, that writes the status of an object.
fn status_writer(meta: &ObjectMeta) -> Option<Box<str>> {
    let status_writer =
        ownership::other_status_writer(meta).filter(|_| !ownership::is_karmadas(meta))?;
    Some(bounds::foreign(status_writer).into())
}

fn owner_of(meta: &ObjectMeta) -> Option<Box<str>> {
    let owner = meta.annotations.as_ref()?.get(labels::OWNER)?;
    Some(owner.as_str().into())
}
