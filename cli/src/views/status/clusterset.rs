//! State of the services that members export and import. Programs parse the serialized form: field
//! names are stable.

use std::collections::{BTreeMap, BTreeSet};

use causeway::api::multicluster::{ServiceExport, ServiceImport, ServicePort};
use causeway::api::{condition, labels, ownership};
use causeway_engine::reasons::Reason;
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::jiff::Timestamp;
use kube::{Resource, ResourceExt as _};
use serde::Serialize;

use super::condition::{ConditionReport, readiness};
use crate::observe::service::{Held, Readings};

/// Service that members export or import (multicluster.x-k8s.io).
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ExportedReport {
    pub namespace: String,
    pub name: String,
    /// True if every export is valid and exported. False with reason NoExport if no member exports
    /// the service. Exports in conflict are served and count as ready.
    pub ready: bool,
    /// Exported, NoExport, or the reason of the first export that is not ready.
    pub reason: String,
    /// Empty if the service is ready.
    pub message: String,
    /// ClusterSetIP or Headless. Empty if no member imports the service.
    #[serde(rename = "type")]
    pub type_: String,
    /// Imported ports, each as `name port/protocol`.
    pub ports: Vec<String>,
    /// Members with a ServiceExport.
    pub exporters: Vec<String>,
    /// Members with a ServiceImport.
    pub importers: Vec<String>,
    /// Disagreement of the exports.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub conflict: Option<ConflictReport>,
    /// Members that export or import the service.
    pub clusters: Vec<ClusterReport>,
}

/// Disagreement of exports. The message names the export that wins.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct ConflictReport {
    /// Reason such as PortConflict. Commas join several reasons.
    pub reason: String,
    pub message: String,
}

/// Export and import of a service in one member.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ClusterReport {
    pub name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub export: Option<ExportReport>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub import: Option<ImportReport>,
    /// Service derived from the import. Reported for one named service only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub derived: Option<DerivedReport>,
    /// Imported EndpointSlices by source cluster. Reported for one named service only.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<SourceReport>,
}

/// State of a ServiceExport.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ExportReport {
    pub ready: bool,
    pub reason: String,
    pub message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created: Option<Timestamp>,
    /// Whether causeway created the export for a MultiClusterService.
    pub published: bool,
    pub conditions: Vec<ConditionReport>,
}

/// State of a ServiceImport.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ImportReport {
    #[serde(rename = "type")]
    pub type_: String,
    pub ips: Vec<String>,
    pub ports: Vec<String>,
    /// Exporting clusters that the status of the import records.
    pub clusters: Vec<String>,
    /// Whether another program or a user owns the import. Causeway never writes such an import.
    pub foreign: bool,
    pub conditions: Vec<ConditionReport>,
}

/// Service that is derived from an import.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct DerivedReport {
    pub name: String,
    /// Cluster IPs. Empty for a headless Service.
    pub addresses: Vec<String>,
}

/// Slices and endpoints that a member imports from one cluster.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct SourceReport {
    pub cluster: String,
    pub slices: usize,
    pub endpoints: usize,
}

const NO_EXPORT: &str = "NoExport";

/// Builds the report of each exported or imported service, sorted by namespace and name.
pub(crate) fn exported(readings: &Readings) -> Vec<ExportedReport> {
    let read = readings
        .iter()
        .filter_map(|(name, reading)| Some((name.as_str(), reading.as_ref().ok()?)));
    let read: BTreeMap<_, _> = read.collect();
    let all_are_read = read.len() == readings.len();
    let exports = read.values().flat_map(|held| held.exports.iter().map(key));
    let imports = read.values().flat_map(|held| held.imports.iter().map(key));
    let keys: BTreeSet<_> = exports.chain(imports).collect();
    let ids = ids(&read);
    let reports = keys.into_iter().map(|key| {
        let clusters = read
            .iter()
            .filter_map(|(name, held)| cluster(name, held, &key, &ids));
        let clusters = clusters.collect();
        let is_read = |name: &str| read.contains_key(name);
        report(key, clusters, all_are_read, is_read)
    });
    reports.collect()
}

type Key = (String, String);

/// Names of Clusters, by the ids of their members in the clusterset.
type Ids<'a> = BTreeMap<&'a str, &'a str>;

/// Maps the cluster ids in the labels of copied slices to names of Clusters. An exporter without
/// slices is reported by its id.
fn ids<'a>(read: &BTreeMap<&str, &'a Held>) -> Ids<'a> {
    let slices = read.values().flat_map(|held| &held.slices);
    let ids = slices.filter_map(|slice| {
        let id = slice.labels().get(labels::SOURCE_CLUSTER)?;
        Some((id.as_str(), ownership::source_member(slice.meta())?))
    });
    ids.collect()
}

fn key<K: Resource>(object: &K) -> Key {
    (object.namespace().unwrap_or_default(), object.name_any())
}

fn report(
    (namespace, name): Key,
    clusters: Vec<ClusterReport>,
    all_are_read: bool,
    is_read: impl Fn(&str) -> bool,
) -> ExportedReport {
    let exports = || {
        let all = clusters.iter();
        all.filter_map(|cluster| Some((&cluster.name, cluster.export.as_ref()?)))
    };
    let imports = || {
        let all = clusters.iter();
        all.filter_map(|cluster| Some((&cluster.name, cluster.import.as_ref()?)))
    };
    let unready = exports().find(|(_, export)| !export.ready);
    // Exporters that an import records may be clusters of another hub. A read of a cluster
    // overrides the record. Causeway does not maintain the status of a foreign import.
    let is_recorded = imports().any(|(_, import)| {
        !import.foreign && import.clusters.iter().any(|cluster| !is_read(cluster))
    });
    let (ready, reason, message) = match unready {
        Some((cluster, export)) => {
            let message = format!("{cluster}: {}", export.message);
            (false, export.reason.clone(), message)
        }
        None if exports().next().is_none() && all_are_read && !is_recorded => {
            let message = "no member exports it; make a ServiceExport where its pods run";
            (false, NO_EXPORT.to_owned(), message.to_owned())
        }
        None => (true, Reason::Exported.into(), String::new()),
    };
    let shape = imports().next().map(|(_, import)| import);
    ExportedReport {
        namespace,
        name,
        ready,
        reason,
        message,
        type_: shape.map(|import| import.type_.clone()).unwrap_or_default(),
        ports: shape.map(|import| import.ports.clone()).unwrap_or_default(),
        exporters: exports().map(|(name, _)| name.clone()).collect(),
        importers: imports().map(|(name, _)| name.clone()).collect(),
        conflict: exports().find_map(|(_, export)| conflict(export)),
        clusters,
    }
}

fn conflict(export: &ExportReport) -> Option<ConflictReport> {
    let mut conditions = export.conditions.iter();
    let conflict =
        conditions.find(|one| one.type_ == condition::CONFLICT && one.status == condition::TRUE)?;
    Some(ConflictReport {
        reason: conflict.reason.clone(),
        message: conflict.message.clone(),
    })
}

fn cluster(name: &str, held: &Held, wanted: &Key, ids: &Ids<'_>) -> Option<ClusterReport> {
    let export = held.exports.iter().find(|export| key(*export) == *wanted);
    let import = held.imports.iter().find(|import| key(*import) == *wanted);
    if export.is_none() && import.is_none() {
        return None;
    }
    let (namespace, service) = wanted;
    let derived = held.services.iter().find(|one| {
        one.namespace().as_ref() == Some(namespace)
            && one.labels().get(labels::MULTICLUSTER_SERVICE_NAME) == Some(service)
    });
    Some(ClusterReport {
        name: name.to_owned(),
        export: export.map(export_report),
        import: import.map(|import| import_report(import, ids)),
        derived: derived.map(derived_report),
        sources: sources(&held.slices, wanted),
    })
}

fn export_report(export: &ServiceExport) -> ExportReport {
    let conditions = export.status.clone().unwrap_or_default().conditions;
    let deleting = export.metadata.deletion_timestamp.is_some();
    let ready = readiness(&conditions, export.metadata.generation, false);
    // Condition Valid=False is the cause of the missing readiness, so it is reported first.
    let invalid = condition::find(&conditions, condition::VALID)
        .filter(|valid| valid.status == condition::FALSE && !ready.ready);
    let (reason, message) = match invalid {
        _ if deleting => (
            Reason::Deleting.into(),
            "the ServiceExport is being deleted".to_owned(),
        ),
        Some(valid) => (valid.reason.clone(), valid.message.clone()),
        None => (ready.reason, ready.message),
    };
    ExportReport {
        ready: ready.ready && !deleting,
        reason,
        message,
        created: export.creation_timestamp().map(|time| time.0),
        published: is_causeways(export),
        conditions: conditions.into_iter().map(ConditionReport::from).collect(),
    }
}

fn import_report(import: &ServiceImport, ids: &Ids<'_>) -> ImportReport {
    let status = import.status.clone().unwrap_or_default();
    let conditions = status.conditions.into_iter();
    let clusters = status.clusters.into_iter().map(|one| {
        let name = ids.get(one.cluster.as_str());
        name.map_or(one.cluster, |name| (*name).to_owned())
    });
    ImportReport {
        type_: import.spec.type_.clone(),
        ips: import.spec.ips.clone(),
        ports: import.spec.ports.iter().map(port).collect(),
        clusters: clusters.collect(),
        foreign: !is_causeways(import),
        conditions: conditions.map(ConditionReport::from).collect(),
    }
}

fn port(port: &ServicePort) -> String {
    let protocol = port.protocol.as_deref().unwrap_or("TCP");
    match port.name.as_deref().unwrap_or_default() {
        "" => format!("{}/{protocol}", port.port),
        name => format!("{name} {}/{protocol}", port.port),
    }
}

fn is_causeways<K: Resource>(object: &K) -> bool {
    ownership::managing_hub(object.meta()).is_some()
}

fn derived_report(service: &Service) -> DerivedReport {
    let spec = service.spec.as_ref();
    let addresses = spec.and_then(|spec| spec.cluster_ips.clone());
    let mut addresses = addresses.unwrap_or_default();
    addresses.retain(|address| address != "None");
    DerivedReport {
        name: service.name_any(),
        addresses,
    }
}

/// Counts imported slices and endpoints by source cluster.
fn sources(slices: &[EndpointSlice], (namespace, service): &Key) -> Vec<SourceReport> {
    let mut sources: BTreeMap<&str, SourceReport> = BTreeMap::new();
    for slice in slices {
        let labels = slice.labels();
        let is_of_it = slice.namespace().as_ref() == Some(namespace)
            && labels.get(labels::MULTICLUSTER_SERVICE_NAME) == Some(service);
        let cluster = ownership::source_member(slice.meta());
        let Some(cluster) = cluster.filter(|_| is_of_it) else {
            continue;
        };
        let source = sources.entry(cluster).or_insert_with(|| SourceReport {
            cluster: cluster.to_owned(),
            slices: 0,
            endpoints: 0,
        });
        source.slices += 1;
        source.endpoints += slice.endpoints.len();
    }
    sources.into_values().collect()
}

#[cfg(test)]
mod tests;
