//! The ServiceImport that a member should hold, and the Service that stands for it.

use std::collections::BTreeMap;

use causeway::api::condition::reason;
use causeway::api::labels;
use causeway::api::multicluster::{
    CLUSTER_SET_IP, HEADLESS, ServiceImport, ServiceImportSpec, ServicePort as WirePort, Version,
};
use causeway::domain::{Consumers, Failover, PortId, Protocol, ServiceKey, ServicePort};
use k8s_openapi::api::core::v1::{ClientIPConfig, SessionAffinityConfig};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use serde_json::{Map, Value, json};

use super::merge::{ImportPort, ImportShape};
use crate::index::clusterset::ImportView;
use crate::index::selector::Selector;
use crate::index::service::{PortShape, ServiceKind, ServiceShape, ServiceView};
use crate::model::served::{ImportFields, ServedImports};
use crate::plan::release::Release;
use crate::plan::service::{Derived, OwnService, ServiceProblem};

/// What is to become of a member's ServiceImport.
#[derive(Clone, Debug, PartialEq)]
pub enum ImportPlan {
    /// Somebody else made it; it stays as it is.
    Foreign,
    /// Its addresses are not known yet; what is there stays.
    Later,
    /// This.
    Own(Box<OwnImport>),
}

/// A ServiceImport that causeway keeps in a member.
#[derive(Clone, Debug, PartialEq)]
pub struct OwnImport {
    /// What it says.
    pub spec: ServiceImportSpec,
    /// The exported labels.
    pub labels: BTreeMap<String, String>,
    /// The exported annotations.
    pub annotations: BTreeMap<String, String>,
    /// What it records of the annotations of exports.
    pub failover: Failover,
    /// The same of who imports the service.
    pub consumers: Consumers,
    /// On whose behalf it is there.
    pub owner: String,
    /// The name of the Service that stands for it, if there is one.
    pub service: Option<String>,
    /// Why it has no addresses, though it should have.
    pub unready: Option<Unready>,
}

/// Why an import has no addresses: the reason and message of its Ready condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unready {
    /// The reason, in CamelCase.
    pub reason: &'static str,
    /// What is wrong, for a person.
    pub message: String,
}

impl Unready {
    /// The member has none of the service's address families.
    pub fn unsupported(families: &[Box<str>]) -> Self {
        Self {
            reason: reason::IP_FAMILY_NOT_SUPPORTED,
            message: format!(
                "the service has {}, which this cluster has not",
                families.join(" and ")
            ),
        }
    }

    /// A Service of the name that is to stand for the import is not causeway's, or stands for something else.
    pub fn conflict(why: &ServiceProblem) -> Self {
        Self {
            reason: reason::SERVICE_CONFLICT,
            message: format!("this cluster {why}"),
        }
    }
}

const NONE: &str = "None";
const CLIENT_IP: &str = "ClientIP";
const DEFAULT_POLICY: &str = "Cluster";
const DEFAULT_AFFINITY_SECONDS: i32 = 10_800;

/// Says what a member's import should be, given the name of the Service that stands for it, and that Service.
pub fn plan(
    served: ServedImports,
    shape: &ImportShape,
    owner: &str,
    (service, derived): (&ServiceKey, Option<&ServiceView>),
    unready: Option<Unready>,
) -> ImportPlan {
    let wanted = kind(shape);
    let derived = derived.filter(|service| service.shape.kind == wanted && !service.deleting);
    let (ips, families) = match derived {
        _ if unready.is_some() => (&[][..], &shape.ip_families),
        Some(_) if shape.headless => (&[][..], &shape.ip_families),
        Some(service) if !service.cluster_ips.is_empty() => {
            (&*service.cluster_ips, &service.ip_families)
        }
        _ => return ImportPlan::Later,
    };
    let own = OwnImport {
        spec: spec(shape, served.fields, ips, families),
        labels: shape.labels.clone(),
        annotations: shape.annotations.clone(),
        failover: shape.failover.clone(),
        consumers: shape.consumers.clone(),
        owner: owner.to_owned(),
        service: unready.is_none().then(|| service.name.to_string()),
        unready,
    };
    ImportPlan::Own(own.into())
}

fn spec(
    shape: &ImportShape,
    fields: ImportFields,
    ips: &[Box<str>],
    families: &[Box<str>],
) -> ServiceImportSpec {
    let texts = |all: &[Box<str>], most: usize| -> Vec<String> {
        all.iter().take(most).map(ToString::to_string).collect()
    };
    let config = shape.affinity_seconds.map(|seconds| SessionAffinityConfig {
        client_ip: Some(ClientIPConfig {
            timeout_seconds: Some(seconds),
        }),
    });
    ServiceImportSpec {
        ports: shape.ports.iter().map(wire_port).collect(),
        ips: texts(ips, if fields.two_ips { 2 } else { 1 }),
        type_: if shape.headless {
            HEADLESS
        } else {
            CLUSTER_SET_IP
        }
        .to_owned(),
        session_affinity: Some(shape.session_affinity.clone()),
        session_affinity_config: config,
        ip_families: texts(families, if fields.ip_families { 2 } else { 0 }),
        internal_traffic_policy: shape
            .internal_traffic_policy
            .clone()
            .filter(|_| fields.internal_traffic_policy),
        traffic_distribution: shape
            .traffic_distribution
            .clone()
            .filter(|_| fields.traffic_distribution),
    }
}

fn kind(shape: &ImportShape) -> ServiceKind {
    match shape.headless {
        true => ServiceKind::Headless,
        false => ServiceKind::ClusterIp,
    }
}

/// Why the Service that a member has cannot stand for the imported one: it is not the one that causeway derived for it, whatever its
/// name. Its clients do not ask for the imported service, and the imported service's are not to reach its pods.
pub fn conflict(
    key: &ServiceKey,
    derived: &ServiceKey,
    service: &ServiceView,
    hub: &str,
) -> ServiceProblem {
    ServiceProblem::NameTaken {
        service: derived.clone(),
        imported: key.clone(),
        delivered: service.is_delivered_by(hub),
    }
}

fn wire_port(port: &ImportPort) -> WirePort {
    WirePort {
        name: Some(port.port.name.to_string()).filter(|name| !name.is_empty()),
        protocol: Some(port.port.id.protocol.to_string()),
        app_protocol: port.app_protocol.clone(),
        port: i32::from(port.port.id.number),
    }
}

/// The port of the Service that stands for the imported one.
pub fn port_shape(port: &ImportPort) -> PortShape {
    PortShape {
        port: port.port.clone(),
        target: IntOrString::Int(i32::from(port.port.id.number)),
        app_protocol: port.app_protocol.clone(),
    }
}

/// What an import says; where it names no ports, those that the exports agreed on.
pub fn shape_of(import: &ImportView, merged: Option<&ImportShape>) -> ImportShape {
    let spec = &import.spec;
    let affinity = spec
        .session_affinity
        .clone()
        .unwrap_or_else(|| NONE.to_owned());
    let seconds = spec
        .session_affinity_config
        .as_ref()
        .and_then(|config| config.client_ip.as_ref()?.timeout_seconds);
    let own: Vec<_> = spec.ports.iter().filter_map(read_port).collect();
    let of_merged = merged.map(|merged| merged.ports.clone());
    let exported = |annotation: &str, all: &BTreeMap<String, String>| {
        let names = import.annotations.get(annotation).map(String::as_str);
        let names = names.unwrap_or_default().split(',');
        let known = names.filter_map(|name| all.get_key_value(name));
        known
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect()
    };
    ImportShape {
        headless: spec.type_ == HEADLESS,
        ports: match own.is_empty() {
            true => of_merged.unwrap_or_default(),
            false => own,
        },
        affinity_seconds: (affinity == CLIENT_IP)
            .then(|| seconds.unwrap_or(DEFAULT_AFFINITY_SECONDS)),
        session_affinity: affinity,
        ip_families: spec
            .ip_families
            .iter()
            .map(|family| family.as_str().into())
            .collect(),
        internal_traffic_policy: spec.internal_traffic_policy.clone(),
        traffic_distribution: spec.traffic_distribution.clone(),
        labels: exported(labels::EXPORTED_LABELS, &import.labels),
        annotations: exported(labels::EXPORTED_ANNOTATIONS, &import.annotations),
        failover: merged.map_or_else(
            || recorded_failover(import),
            |merged| merged.failover.clone(),
        ),
        consumers: merged.map_or_else(
            || recorded_consumers(import),
            |merged| merged.consumers.clone(),
        ),
    }
}

/// What an import records of the annotations of exports.
pub fn recorded_failover(import: &ImportView) -> Failover {
    let annotation = |name: &str| import.annotations.get(name).map(String::as_str);
    // Causeway wrote them; what somebody has made of them since is passed over.
    Failover::read(annotation, &mut drop)
}

/// What an import records of who imports the service.
pub fn recorded_consumers(import: &ImportView) -> Consumers {
    let annotation = import.annotations.get(labels::CONSUMERS);
    Consumers::read(annotation.map(String::as_str), &mut drop)
}

/// What a member holds of an imported service: its import says the ports, what only it bears, and what the Service that stands
/// for it cannot say (its member may know fewer preferences); the Service says the rest, for it is what clients use.
pub fn record(import: Option<&ImportView>, derived: Option<&ServiceView>) -> Option<ImportShape> {
    let said = import.map(|import| shape_of(import, None));
    let Some(service) = derived else {
        return said;
    };
    let ports = service.shape.ports.iter().map(ImportPort::of).collect();
    let used = ImportShape {
        ip_families: families_wanted(service),
        ..ImportShape::of(service, ports)
    };
    let Some(said) = said else {
        return Some(used);
    };
    let ports = ImportShape::grown_from(&said, Some(&used)).ports;
    let policy = used
        .internal_traffic_policy
        .filter(|policy| policy != DEFAULT_POLICY);
    Some(ImportShape {
        ports,
        internal_traffic_policy: said.internal_traffic_policy.or(policy),
        traffic_distribution: said.traffic_distribution.or(used.traffic_distribution),
        labels: said.labels,
        annotations: said.annotations,
        failover: said.failover,
        consumers: said.consumers,
        ..used
    })
}

/// The families that a Service asks for: a cluster of one family gives it no more than that.
fn families_wanted(service: &ServiceView) -> Vec<Box<str>> {
    let mut families = service.ip_families.clone();
    if let ([only], true) = (families.as_slice(), service.shape.dual_stack) {
        let other = if **only == *"IPv4" { "IPv6" } else { "IPv4" };
        families.push(other.into());
    }
    families
}

fn read_port(port: &WirePort) -> Option<ImportPort> {
    let protocol = match port.protocol.as_deref() {
        None | Some("") => Protocol::Tcp,
        Some(text) => text.parse().ok()?,
    };
    let number = u16::try_from(port.port).ok()?;
    Some(ImportPort {
        port: ServicePort {
            id: PortId { protocol, number },
            name: port.name.clone().unwrap_or_default().into(),
        },
        app_protocol: port.app_protocol.clone(),
    })
}

/// The Service that stands for an imported one. It has no selector: its endpoints are copies, and nothing but copies.
///
/// Its address families are given by the first write: of two the member has those that it can, of one that one. Addresses
/// outlive the Service, where the import still names them.
pub fn derived_service(
    key: &ServiceKey,
    shape: &ImportShape,
    owner: &str,
    observed: Option<&ServiceView>,
    addresses: &[String],
    release: Release,
) -> OwnService {
    let first = observed.and_then(|service| service.ip_families.first());
    let only = Some(&shape.ip_families).filter(|families| families.len() == 1);
    let only = only.and_then(|families| families.first());
    // The first family of a Service cannot change: where it is not the one that is left, both stay.
    let keeps_both = only.is_some()
        && first.is_some_and(|first| Some(first) != only)
        && observed.is_some_and(|service| service.shape.dual_stack);
    let dual_stack = shape.ip_families.len() > 1 || keeps_both;
    OwnService {
        shape: ServiceShape {
            kind: kind(shape),
            load_balancer: false,
            ports: shape.ports.iter().map(port_shape).collect(),
            selector: Selector::default(),
            session_affinity: shape.session_affinity.clone(),
            affinity_seconds: shape.affinity_seconds,
            traffic_distribution: release.preference(&shape.traffic_distribution),
            publish_not_ready_addresses: false,
            dual_stack,
        },
        owner: owner.to_owned(),
        derived: Some(Derived {
            of: key.name.to_string(),
            internal_traffic_policy: release.internal_traffic_policy(Some(
                shape
                    .internal_traffic_policy
                    .clone()
                    .unwrap_or_else(|| DEFAULT_POLICY.to_owned()),
            )),
            family: only.filter(|_| !dual_stack).map(ToString::to_string),
            addresses: addresses
                .iter()
                .take(if dual_stack { 2 } else { 1 })
                .cloned()
                .collect(),
        }),
    }
}

/// The reference by which copies belong to an import (KEP-1645, "Using EndpointSlice objects to track endpoints").
pub fn owner_reference(key: &ServiceKey, version: Version, import: &ImportView) -> OwnerReference {
    OwnerReference {
        api_version: version.api_version(),
        kind: "ServiceImport".to_owned(),
        name: key.name.to_string(),
        uid: import.uid.to_string(),
        controller: Some(false),
        block_owner_deletion: None,
    }
}

impl OwnImport {
    /// Whether the member's import is what it should be.
    pub fn is_met_by(&self, observed: &ImportView, hub: &str) -> bool {
        let changes = |wanted: &BTreeMap<String, Value>, stored: &BTreeMap<String, String>| {
            wanted.iter().any(|(name, value)| match value {
                Value::Null => stored.contains_key(name),
                value => stored.get(name).map(String::as_str) != value.as_str(),
            })
        };
        self.spec == observed.spec
            && !changes(&self.label_changes(observed, hub), &observed.labels)
            && !changes(&self.annotation_changes(observed), &observed.annotations)
    }

    /// The object to make.
    pub fn object(&self, key: &ServiceKey, version: Version, hub: &str) -> ServiceImport {
        let metadata = ObjectMeta {
            name: Some(key.name.to_string()),
            namespace: Some(key.namespace.to_string()),
            labels: Some(self.own_labels(hub)),
            annotations: Some(self.own_annotations()),
            ..ObjectMeta::default()
        };
        ServiceImport::new(version, metadata, self.spec.clone())
    }

    /// A merge patch that makes the observed import what it should be, and fails if it is not that version any more. Type,
    /// addresses and families change in one write.
    pub fn patch(&self, observed: &ImportView, hub: &str) -> Value {
        json!({
            "metadata": {
                "resourceVersion": observed.resource_version,
                "labels": self.label_changes(observed, hub),
                "annotations": self.annotation_changes(observed),
            },
            "spec": spec_with_nulls(&self.spec),
        })
    }

    fn own_labels(&self, hub: &str) -> BTreeMap<String, String> {
        let own = [(labels::MANAGED_BY, labels::MANAGER), (labels::HUB, hub)];
        let own = own.map(|(name, value)| (name.to_owned(), value.to_owned()));
        self.labels.clone().into_iter().chain(own).collect()
    }

    fn own_annotations(&self) -> BTreeMap<String, String> {
        let names = |all: &BTreeMap<String, String>| {
            all.keys().map(String::as_str).collect::<Vec<_>>().join(",")
        };
        let mut own = self.annotations.clone();
        own.insert(labels::OWNER.to_owned(), self.owner.clone());
        let recorded = self.failover.annotations();
        let consumers = self.consumers.annotation();
        let recorded = recorded.chain(consumers.map(|all| (labels::CONSUMERS, all)));
        let service = self.service.clone();
        let recorded = recorded.chain(service.map(|name| (labels::DERIVED_SERVICE, name)));
        own.extend(recorded.map(|(name, value)| (name.to_owned(), value)));
        for (annotation, all) in [
            (labels::EXPORTED_LABELS, &self.labels),
            (labels::EXPORTED_ANNOTATIONS, &self.annotations),
        ] {
            if !all.is_empty() {
                own.insert(annotation.to_owned(), names(all));
            }
        }
        own
    }

    fn label_changes(&self, observed: &ImportView, hub: &str) -> BTreeMap<String, Value> {
        let wanted = self.own_labels(hub);
        with_removals(wanted, observed, labels::EXPORTED_LABELS)
    }

    fn annotation_changes(&self, observed: &ImportView) -> BTreeMap<String, Value> {
        let own = self.own_annotations();
        let mut changes = with_removals(own, observed, labels::EXPORTED_ANNOTATIONS);
        let records = [
            labels::EXPORTED_LABELS,
            labels::EXPORTED_ANNOTATIONS,
            labels::CONSUMERS,
            labels::DERIVED_SERVICE,
        ];
        for annotation in records.into_iter().chain(Failover::ANNOTATIONS) {
            if observed.annotations.contains_key(annotation) {
                changes.entry(annotation.to_owned()).or_insert(Value::Null);
            }
        }
        changes
    }
}

/// What was exported before, and is no more, goes; what others wrote stays.
fn with_removals(
    wanted: BTreeMap<String, String>,
    observed: &ImportView,
    record: &str,
) -> BTreeMap<String, Value> {
    let before = observed.annotations.get(record).map(String::as_str);
    let before = before.unwrap_or_default().split(',');
    let gone = before.filter(|name| !name.is_empty() && !wanted.contains_key(*name));
    let gone: Vec<_> = gone.map(|name| (name.to_owned(), Value::Null)).collect();
    let wanted = wanted.into_iter().map(|(name, value)| (name, json!(value)));
    wanted.chain(gone).collect()
}

fn spec_with_nulls(spec: &ServiceImportSpec) -> Value {
    let mut fields = match serde_json::to_value(spec) {
        Ok(Value::Object(fields)) => fields,
        _ => Map::new(),
    };
    for field in [
        "ips",
        "sessionAffinity",
        "sessionAffinityConfig",
        "ipFamilies",
        "internalTrafficPolicy",
        "trafficDistribution",
    ] {
        fields.entry(field).or_insert(Value::Null);
    }
    Value::Object(fields)
}
