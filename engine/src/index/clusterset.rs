//! ServiceExports and ServiceImports as the index keeps them.

use std::collections::BTreeMap;

use causeway::api::labels;
use causeway::api::multicluster::{
    ServiceExport, ServiceExportSpec, ServiceImport, ServiceImportSpec, ServiceImportStatus,
};
use causeway::api::ownership::{self, Marks, NATIVE_OWNER};
use causeway::domain::{Consumers, Failover, FieldErrors};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta};
use k8s_openapi::jiff::Timestamp;
use string_cache::DefaultAtom;

use crate::model::slice::Path;

/// A ServiceExport of a member.
#[derive(Clone, Debug, PartialEq)]
pub struct ExportView {
    /// Its UID.
    pub uid: Box<str>,
    /// Its resourceVersion, as it has to be given back.
    pub resource_version: Box<str>,
    /// The generation of its spec.
    pub generation: i64,
    /// When it was made: of exports that disagree the oldest decides.
    pub created: Option<Timestamp>,
    /// Whether it is terminating.
    pub deleting: bool,
    /// The hub whose causeway keeps it, where one does.
    pub hub: Option<DefaultAtom>,
    /// What causeway wrote on it before somebody applied over it.
    pub marks: Option<Box<Marks>>,
    /// On whose behalf causeway wrote it.
    pub owner: Option<Box<str>>,
    /// What it says.
    pub spec: ServiceExportSpec,
    /// What its annotations ask for.
    pub failover: Failover,
    /// Who imports it.
    pub consumers: Consumers,
    /// What is wrong in its annotations, and is passed over.
    pub misread: FieldErrors,
    /// The conditions that its status holds.
    pub conditions: Vec<Condition>,
}

/// A ServiceImport of a member.
#[derive(Clone, Debug, PartialEq)]
pub struct ImportView {
    /// Its UID.
    pub uid: Box<str>,
    /// Its resourceVersion, as it has to be given back.
    pub resource_version: Box<str>,
    /// The generation of its spec.
    pub generation: i64,
    /// Whether it is terminating.
    pub deleting: bool,
    /// The hub whose causeway keeps it, where one does.
    pub hub: Option<DefaultAtom>,
    /// What causeway wrote on it before somebody applied over it.
    pub marks: Option<Box<Marks>>,
    /// On whose behalf causeway wrote it.
    pub owner: Option<Box<str>>,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Its annotations.
    pub annotations: BTreeMap<String, String>,
    /// What it says.
    pub spec: ServiceImportSpec,
    /// What its status holds.
    pub status: ServiceImportStatus,
    /// Whether nobody but causeway, of whichever hub, can have written its status.
    pub is_status_ours: bool,
}

impl ExportView {
    /// Reads an export from the wire; `None` for one without an identity, which no API server sends.
    pub fn read(export: &ServiceExport) -> Option<Self> {
        let meta = &export.metadata;
        let (failover, mut misread) = Failover::of(meta);
        let consumers = meta.annotations.as_ref();
        let consumers = consumers.and_then(|all| all.get(labels::CONSUMERS));
        let consumers = consumers.map(String::as_str);
        let consumers = Consumers::read(consumers, &mut |error| misread.push(error));
        Some(Self {
            failover,
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
            conditions: export.status.clone().unwrap_or_default().conditions,
        })
    }
}

impl ImportView {
    /// Reads an import from the wire; `None` for one without an identity, which no API server sends.
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
        })
    }
}

impl ExportView {
    /// Which way it serves, where this hub's causeway wrote it.
    pub fn path(&self, hub: &str) -> Option<Path> {
        path(&self.hub, &self.owner, hub)
    }
}

impl ImportView {
    /// Which way it serves, where this hub's causeway wrote it and it is nobody else's by now.
    pub fn path(&self, hub: &str) -> Option<Path> {
        path(&self.hub, &self.owner, hub)
    }
}

fn path(writer: &Option<DefaultAtom>, owner: &Option<Box<str>>, hub: &str) -> Option<Path> {
    let is_native = |owner: &str| owner.starts_with(NATIVE_OWNER);
    (writer.as_deref() == Some(hub)).then(|| match owner.as_deref().is_some_and(is_native) {
        true => Path::Native,
        false => Path::Clusterset,
    })
}

fn owner_of(meta: &ObjectMeta) -> Option<Box<str>> {
    let owner = meta.annotations.as_ref()?.get(labels::OWNER)?;
    Some(owner.as_str().into())
}
