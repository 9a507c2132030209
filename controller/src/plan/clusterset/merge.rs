//! What the exports of one service agree on, and what they do not (KEP-1645, "Constraints and Conflict Resolution").
//!
//! Precedence is by the age of the ServiceExport, the oldest first, ties by the name of the cluster. Ports are the union, first
//! by name, then by protocol and number; everything else is as the oldest has it.

mod conflicts;
mod metadata;

use std::collections::BTreeMap;

use causeway::api::multicluster::ServiceExportSpec;
use causeway::domain::{ClusterName, ServicePort};
use k8s_openapi::jiff::Timestamp;

pub use self::conflicts::{Conflict, conflict_text};
use crate::index::service::{PortShape, ServiceKind, ServiceView};

/// One valid export.
#[derive(Clone, Copy, Debug)]
pub struct Constituent<'a> {
    /// The cluster that exports.
    pub cluster: &'a ClusterName,
    /// When the ServiceExport was made; one of which that is not known counts as the youngest.
    pub created: Option<Timestamp>,
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
    /// The ports; no two have one name, or one protocol and number.
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

/// What came of merging.
#[derive(Clone, Debug, PartialEq)]
pub struct Merged<'a> {
    /// What is imported.
    pub shape: ImportShape,
    /// What the exports disagree on.
    pub conflicts: Vec<Conflict>,
    /// The exporters, those of the oldest exports first.
    pub clusters: Vec<&'a ClusterName>,
}

/// Merges the exports of one service, in whatever order they are given; `None` where there are none.
pub fn merge<'a>(constituents: &[Constituent<'a>]) -> Option<Merged<'a>> {
    let mut by_age = constituents.to_vec();
    by_age.sort_by_key(|one| (one.created.unwrap_or(Timestamp::MAX), one.cluster));
    let oldest = by_age.first()?;
    let shape = &oldest.service.shape;
    let (labels, annotations) = metadata::exported(oldest.spec);
    Some(Merged {
        shape: ImportShape {
            headless: shape.kind == ServiceKind::Headless,
            ports: named(union(by_age.iter().map(|one| one.service))),
            session_affinity: shape.session_affinity.clone(),
            affinity_seconds: shape.affinity_seconds,
            ip_families: oldest.service.ip_families.clone(),
            internal_traffic_policy: oldest
                .service
                .internal_traffic_policy
                .as_deref()
                .map(ToOwned::to_owned),
            traffic_distribution: shape.traffic_distribution.clone(),
            labels,
            annotations,
        },
        conflicts: conflicts::find(&by_age),
        clusters: by_age.iter().map(|one| one.cluster).collect(),
    })
}

fn union<'a>(services: impl Iterator<Item = &'a ServiceView>) -> Vec<ImportPort> {
    let mut ports = Vec::new();
    for shape in services.flat_map(|service| &service.shape.ports) {
        add(&mut ports, ImportPort::of(shape));
    }
    ports
}

/// Adds a port, unless an older one bears its name or has its protocol and number.
fn add(ports: &mut Vec<ImportPort>, port: ImportPort) {
    let clashes =
        |other: &ImportPort| other.port.name == port.port.name || other.port.id == port.port.id;
    if !ports.iter().any(clashes) {
        ports.push(port);
    }
}

/// A Service of several ports must name them all: a port without a name is called after its protocol and number. Where that
/// name is another port's, the nameless one is left out.
fn named(ports: Vec<ImportPort>) -> Vec<ImportPort> {
    if ports.len() < 2 {
        return ports;
    }
    let taken: Vec<_> = ports.iter().map(|port| port.port.name.clone()).collect();
    let name = |mut port: ImportPort| {
        if port.port.name.is_empty() {
            let id = port.port.id;
            let name = format!("{}-{}", id.protocol.as_str().to_lowercase(), id.number);
            port.port.name = name.into();
            return Some(port).filter(|port| !taken.contains(&port.port.name));
        }
        Some(port)
    };
    ports.into_iter().filter_map(name).collect()
}

impl ImportPort {
    fn of(shape: &PortShape) -> Self {
        Self {
            port: shape.port.clone(),
            app_protocol: shape.app_protocol.clone(),
        }
    }
}

impl ImportShape {
    /// What becomes of what is imported while one of its exporters is unknown: ports may be added, nothing else moves.
    #[must_use]
    pub fn grown_from(record: &Self, merged: Option<&Self>) -> Self {
        let mut ports = record.ports.clone();
        for port in merged.into_iter().flat_map(|merged| &merged.ports) {
            add(&mut ports, port.clone());
        }
        Self {
            ports: named(ports),
            ..record.clone()
        }
    }
}

#[cfg(test)]
mod tests;
