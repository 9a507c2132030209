//! ServiceExports and ServiceImports as the index holds them.

use std::collections::BTreeMap;

use causeway::api::multicluster::{
    ClusterOfSet, ServiceExport, ServiceExportSpec, ServiceImport, ServiceImportSpec,
    ServiceImportStatus,
};
use causeway::api::ownership::{self, Marks, NAMESPACE_OWNER, NATIVE_OWNER};
use causeway::api::{bounds, labels};
use causeway::domain::{Consumers, Failover, FieldError, FieldErrors};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta};
use k8s_openapi::jiff::Timestamp;
use string_cache::DefaultAtom;

use super::reach::DeclaredReach;
use crate::model::defaults::{self, Annotations, Defaults, Effective};
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
    pub reach: Option<DeclaredReach>,
    /// Clusters that import it.
    pub consumers: Consumers,
    /// Errors in its annotations, and fields of its spec that cannot be read. The values are
    /// ignored, except an unreadable `reach`, which counts as unknown.
    pub(crate) misread: FieldErrors,
    /// Its annotations for which its namespace may have defaults.
    annotations: Option<Box<Annotations>>,
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
    /// Reads an export from the wire, with the defaults of its namespace. Returns `None` for one
    /// without an identity, which no API server sends.
    pub(crate) fn read(export: &ServiceExport, defaults: Option<Defaults<'_>>) -> Option<Self> {
        let meta = &export.metadata;
        let status = export.status.clone().unwrap_or_default();
        let annotations = meta.annotations.as_ref();
        let annotations = annotations.map(|all| defaults::named(all, &labels::OF_EXPORTS));
        let annotations = annotations.filter(|all| !all.is_empty());
        let mut view = Self {
            failover: Failover::default(),
            reach: None,
            consumers: Consumers::default(),
            misread: FieldErrors::default(),
            annotations: annotations.map(Box::new),
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
        };
        view.read_annotations(defaults);
        Some(view)
    }

    /// Reads the annotations of the export again, with other defaults of its namespace.
    pub(super) fn read_annotations(&mut self, defaults: Option<Defaults<'_>>) {
        let effective = Effective::new(self.annotations.as_deref(), defaults);
        let meta = &effective.meta;
        let (failover, mut misread) = Failover::of_export(meta, &self.spec.cluster_selectors);
        let annotations = meta.annotations.as_ref();
        let consumers = annotations.and_then(|all| all.get(labels::CONSUMERS));
        let consumers = consumers.map(String::as_str);
        self.consumers = Consumers::read(consumers, &mut |error| misread.push(error));
        self.reach = DeclaredReach::of_service(meta, |error| misread.push(error));
        effective.place(&mut misread);
        let unreadable = self.spec.unreadable.iter();
        misread.extend(unreadable.map(|(field, value)| {
            let detail = "must be as manifests/crds/member/ defines it";
            FieldError::invalid(format!("spec.{field}"), value.as_str(), detail)
        }));
        (self.failover, self.misread) = (failover, misread);
    }

    /// Whether this hub's causeway created it because the Services of its namespace are exported.
    pub(crate) fn is_of_namespace(&self, hub: &str) -> bool {
        let is_owner = |owner: &str| owner.starts_with(NAMESPACE_OWNER);
        self.hub.as_deref() == Some(hub) && self.owner.as_deref().is_some_and(is_owner)
    }
}

/// Maximum size of the exported labels and annotations of an import, and of those that record
/// failover and consumers, in bytes. The rest is for causeway's other annotations.
pub(crate) const EXPORTED_MAX: usize = bounds::ANNOTATIONS - 16 * 1024;

/// Lists the annotations by which an import records failover and consumers, with their values.
pub(crate) fn recorded(
    failover: &Failover,
    consumers: &Consumers,
) -> impl Iterator<Item = (&'static str, String)> {
    let consumers = consumers.annotation();
    let failover = failover.annotations();
    failover.chain(consumers.map(|all| (labels::CONSUMERS, all)))
}

/// Returns the size of the annotations by which an import records failover and consumers, in bytes.
pub(crate) fn recorded_size(failover: &Failover, consumers: &Consumers) -> usize {
    let all = recorded(failover, consumers);
    all.map(|(name, value)| name.len() + value.len()).sum()
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
