//! What the exports of one service agree on, and what they do not (KEP-1645, "Constraints and Conflict Resolution").
//!
//! The export that comes first decides; of two that are equal, the one in the cluster whose name comes first. Ports are the union of
//! all. Nothing here depends on the order in which clusters are heard, nor on the time.

mod conflict;
mod exported;
mod ports;

use std::collections::BTreeMap;

use causeway::api::multicluster::ServiceExportSpec;
use causeway::domain::{ClusterName, ServicePort};

pub use self::conflict::{Conflict, conflict_text};
use self::exported::Exported;
use self::ports::Union;
use super::precedence::Precedence;
use crate::index::service::{PortShape, ServiceKind, ServiceView};

/// One valid export of a service. A cluster has at most one.
#[derive(Clone, Copy, Debug)]
pub struct Constituent<'a> {
    /// The cluster that exports.
    pub cluster: &'a ClusterName,
    /// Its place among the exports.
    pub precedence: Precedence,
    /// What the ServiceExport says.
    pub spec: &'a ServiceExportSpec,
    /// The exported Service.
    pub service: &'a ServiceView,
}

/// What the clusters of the clusterset import.
#[derive(Clone, Debug, PartialEq)]
pub struct ImportShape {
    /// Whether the service is reached by its endpoints' own addresses.
    pub headless: bool,
    /// The ports: those of the oldest export in its order, then what the next adds. No two have one name, or one protocol and
    /// number.
    pub ports: Vec<ImportPort>,
    /// None or ClientIP.
    pub session_affinity: String,
    /// How long a client sticks to an endpoint, in seconds.
    pub affinity_seconds: Option<i32>,
    /// The address families, the first first.
    pub ip_families: Vec<Box<str>>,
    /// Cluster or Local.
    pub internal_traffic_policy: Option<String>,
    /// A preference such as PreferClose.
    pub traffic_distribution: Option<String>,
    /// The exported labels.
    pub labels: BTreeMap<String, String>,
    /// The exported annotations.
    pub annotations: BTreeMap<String, String>,
}

/// A port of an imported service.
#[derive(Clone, Debug, PartialEq)]
pub struct ImportPort {
    /// Protocol, number and name.
    pub port: ServicePort,
    /// The application protocol.
    pub app_protocol: Option<String>,
}

/// All exports of a service as one.
#[derive(Clone, Debug, PartialEq)]
pub struct Merged<'a> {
    /// What is imported.
    pub shape: ImportShape,
    /// What the exports disagree on, at most once a field.
    pub conflicts: Vec<Conflict>,
    /// The exporters, those of the oldest exports first.
    pub clusters: Vec<&'a ClusterName>,
}

/// Merges the exports of one service, in whatever order they are given; `None` where there are none.
pub fn merge<'a>(constituents: &[Constituent<'a>]) -> Option<Merged<'a>> {
    let mut by_age: Vec<_> = constituents.iter().copied().map(Export::new).collect();
    by_age.sort_by_key(|Export { export, .. }| (export.precedence, export.cluster));
    let mut union = Union::default();
    for export in &by_age {
        union.extend(export.ports());
    }
    let shape = by_age.first()?.shape(union.named());
    Some(Merged {
        conflicts: conflict::find(&by_age, &shape.ports),
        shape,
        clusters: by_age.iter().map(|export| export.export.cluster).collect(),
    })
}

/// What of an export's labels and annotations cannot be carried, and why.
pub fn left_out(spec: &ServiceExportSpec) -> Option<String> {
    Exported::read(spec).left_out()
}

/// An export, and what of its labels and annotations can be carried.
struct Export<'a> {
    export: Constituent<'a>,
    exported: Exported,
}

impl<'a> Export<'a> {
    fn new(export: Constituent<'a>) -> Self {
        Self {
            export,
            exported: Exported::read(export.spec),
        }
    }

    fn service(&self) -> &'a ServiceView {
        self.export.service
    }

    fn is_headless(&self) -> bool {
        self.service().shape.kind == ServiceKind::Headless
    }

    fn ports(&self) -> impl Iterator<Item = ImportPort> + use<'a> {
        self.service().shape.ports.iter().map(ImportPort::of)
    }

    fn shape(&self, ports: Vec<ImportPort>) -> ImportShape {
        ImportShape {
            labels: self.exported.labels.clone(),
            annotations: self.exported.annotations.clone(),
            ..ImportShape::of(self.service(), ports)
        }
    }
}

impl ImportPort {
    /// The port of a Service.
    pub fn of(shape: &PortShape) -> Self {
        Self {
            port: shape.port.clone(),
            app_protocol: shape.app_protocol.clone(),
        }
    }
}

impl ImportShape {
    /// What importing a Service by these ports means.
    pub fn of(service: &ServiceView, ports: Vec<ImportPort>) -> Self {
        let shape = &service.shape;
        Self {
            headless: shape.kind == ServiceKind::Headless,
            ports,
            session_affinity: shape.session_affinity.clone(),
            affinity_seconds: shape.affinity_seconds,
            ip_families: service.ip_families.clone(),
            internal_traffic_policy: service.internal_traffic_policy.as_deref().map(Into::into),
            traffic_distribution: shape.traffic_distribution.clone(),
            labels: BTreeMap::new(),
            annotations: BTreeMap::new(),
        }
    }

    /// What becomes of what is imported while one of its exporters is unknown: ports may be added, nothing else moves. A port
    /// without a name would have to be given one beside another, so nothing is added to it.
    #[must_use]
    pub fn grown_from(record: &Self, merged: Option<&Self>) -> Self {
        let mut grown = record.clone();
        let all_named = record.ports.iter().all(|port| !port.port.name.is_empty());
        if let Some(merged) = merged.filter(|_| all_named) {
            let mut union = Union::from(grown.ports);
            union.extend(merged.ports.iter().cloned());
            grown.ports = union.named();
        }
        grown
    }
}

#[cfg(test)]
mod tests;
