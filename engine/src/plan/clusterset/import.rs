//! Desired ServiceImport of a member, and the derived Service that represents the imported one.

use std::collections::BTreeMap;

use causeway::api::labels;
use causeway::api::multicluster::{
    CLUSTER_SET_IP, HEADLESS, ServiceImport, ServiceImportSpec, ServicePort as WirePort, Version,
};
use causeway::domain::{Consumers, Failover, PortId, Protocol, ServiceKey, ServicePort};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use serde_json::{Map, Value, json};

use super::merge::{DEFAULT_POLICY, ImportShape};
use crate::model::object::{new_meta, own_labels};
use crate::model::served::{ImportFields, ServedImports};
use crate::observed::clusterset::{ImportView, recorded};
use crate::observed::selector::Selector;
use crate::observed::service::{
    CLIENT_IP, DEFAULT_AFFINITY_SECONDS, PortShape, ServiceKind, ServiceShape, ServiceView,
};
use crate::plan::capabilities::Capabilities;
use crate::plan::service::{Derived, OwnService, affinity_config};
use crate::problem::ServiceProblem;
use crate::reasons::Reason;

/// Plan for a member's ServiceImport.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ImportPlan {
    /// Somebody else created the import; causeway leaves it unchanged.
    Foreign,
    /// The addresses are not known yet; the observed import remains.
    Later,
    /// Causeway owns the import, which should equal this one.
    Own(Box<OwnImport>),
}

/// ServiceImport that causeway owns in a member.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct OwnImport {
    /// Desired spec.
    pub spec: ServiceImportSpec,
    /// Exported labels.
    pub labels: BTreeMap<String, String>,
    /// Exported annotations.
    pub annotations: BTreeMap<String, String>,
    /// Failover annotations of the exports, as the import records them.
    pub failover: Failover,
    /// Consumers of the service, as the import records them.
    pub consumers: Consumers,
    /// Object on whose behalf the import exists.
    pub owner: String,
    /// Name of the Service that represents the import, if one does.
    pub service: Option<String>,
    /// Reason why the import lacks the addresses that it should have.
    pub unready: Option<Unready>,
}

/// Reason why an import has no addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Unready {
    /// The member has none of the service's address families.
    Families(Vec<Box<str>>),
    /// Another Service has the derived name.
    Conflict(ServiceProblem),
}

impl Unready {
    /// Returns the reason of the import's Ready condition.
    pub(crate) fn reason(&self) -> Reason {
        match self {
            Self::Families(_) => Reason::IPFamilyNotSupported,
            Self::Conflict(_) => Reason::ServiceConflict,
        }
    }
}

const NONE: &str = "None";

/// Plans a member's import, given the name of the Service that represents it, and the observed
/// Service of that name.
pub(crate) fn plan(
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
        session_affinity_config: shape.affinity_seconds.map(affinity_config),
        ip_families: texts(families, if fields.ip_families { 2 } else { 0 }),
        internal_traffic_policy: shape
            .internal_traffic_policy
            .clone()
            .filter(|_| fields.internal_traffic_policy),
        traffic_distribution: shape
            .traffic_distribution
            .clone()
            .filter(|_| fields.traffic_distribution),
        cluster_selectors: match fields.cluster_selectors {
            true => shape.cluster_selectors.clone(),
            false => Vec::new(),
        },
    }
}

fn kind(shape: &ImportShape) -> ServiceKind {
    match shape.headless {
        true => ServiceKind::Headless,
        false => ServiceKind::ClusterIp,
    }
}

/// Returns the problem of a Service that has the derived name but is not the one that causeway
/// derived. Its clients do not request the imported service, and clients of the imported service
/// must not reach its pods.
pub(crate) fn conflict(
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

fn wire_port(port: &PortShape) -> WirePort {
    WirePort {
        name: Some(port.port.name.to_string()).filter(|name| !name.is_empty()),
        protocol: Some(port.port.id.protocol.to_string()),
        app_protocol: port.app_protocol.clone(),
        port: i32::from(port.port.id.number),
    }
}

/// Returns the shape that an import describes. If the import names no ports, the merged ports of
/// the exports apply. Failover and consumers are those of the exports, or those that the import
/// records if no export is known.
pub(crate) fn shape_of(import: &ImportView, merged: Option<&ImportShape>) -> ImportShape {
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
        cluster_selectors: spec.cluster_selectors.clone(),
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

/// Returns the failover annotations of the exports that an import records.
pub(crate) fn recorded_failover(import: &ImportView) -> Failover {
    let annotation = |name: &str| import.annotations.get(name).map(String::as_str);
    // Causeway wrote them; what somebody has made of them since is passed over.
    Failover::read(annotation, &mut drop)
}

/// Returns the consumers that an import records.
pub(crate) fn recorded_consumers(import: &ImportView) -> Consumers {
    let annotation = import.annotations.get(labels::CONSUMERS);
    Consumers::read(annotation.map(String::as_str), &mut drop)
}

/// Returns the shape of an imported service that a member holds.
///
/// The derived Service decides, because clients use it. The import decides the ports, to which the
/// Service may add some, and the fields that only the import has: labels, annotations, failover and
/// consumers. It also decides fields that the Service may lack, because the member may support
/// fewer preferences.
pub(crate) fn record(
    import: Option<&ImportView>,
    derived: Option<&ServiceView>,
) -> Option<ImportShape> {
    let said = import.map(|import| shape_of(import, None));
    let Some(service) = derived else {
        return said;
    };
    let ports = service.shape.ports.iter();
    let ports = ports.map(|one| ImportShape::port(one.port.clone(), one.app_protocol.clone()));
    let used = ImportShape {
        ip_families: families_wanted(service),
        ..ImportShape::of(service, ports.collect())
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
        cluster_selectors: said.cluster_selectors,
        labels: said.labels,
        annotations: said.annotations,
        failover: said.failover,
        consumers: said.consumers,
        ..used
    })
}

/// Returns the address families that a Service requests. A cluster of one family assigns only that
/// one.
fn families_wanted(service: &ServiceView) -> Vec<Box<str>> {
    let mut families = service.ip_families.clone();
    if let ([only], true) = (families.as_slice(), service.shape.dual_stack) {
        let other = if **only == *"IPv4" { "IPv6" } else { "IPv4" };
        families.push(other.into());
    }
    families
}

fn read_port(port: &WirePort) -> Option<PortShape> {
    let protocol = match port.protocol.as_deref() {
        None | Some("") => Protocol::Tcp,
        Some(text) => text.parse().ok()?,
    };
    let number = u16::try_from(port.port).ok()?;
    let read = ServicePort {
        id: PortId { protocol, number },
        name: port.name.clone().unwrap_or_default().into(),
    };
    Some(ImportShape::port(read, port.app_protocol.clone()))
}

/// State of a member in which a derived Service is to be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DerivedSite<'a> {
    /// Existing Service of the name.
    pub(crate) observed: Option<&'a ServiceView>,
    /// Addresses of the import.
    pub(crate) addresses: &'a [String],
    /// Fields that the member's Kubernetes version stores.
    pub(crate) capabilities: Capabilities,
}

/// Builds the derived Service, which represents an imported one. It has no selector: its endpoints
/// are copies and nothing else.
///
/// The first write fixes its address families: of two, the member assigns those that it supports; a
/// single family is requested by name. Addresses outlive the Service if the import still names
/// them.
pub(crate) fn derived_service(
    key: &ServiceKey,
    shape: &ImportShape,
    owner: &str,
    site: DerivedSite<'_>,
) -> OwnService {
    let DerivedSite {
        observed,
        addresses,
        capabilities,
    } = site;
    let first = observed.and_then(|service| service.ip_families.first());
    let only = Some(&shape.ip_families).filter(|families| families.len() == 1);
    let only = only.and_then(|families| families.first());
    // The first family of a Service cannot change: where it is not the one that is left, both are
    // requested, and the member assigns those that it supports.
    let keeps_both = only.is_some() && first.is_some_and(|first| Some(first) != only);
    let dual_stack = shape.ip_families.len() > 1 || keeps_both;
    OwnService {
        shape: ServiceShape {
            kind: kind(shape),
            load_balancer: false,
            ports: shape.ports.clone(),
            selector: Selector::default(),
            session_affinity: shape.session_affinity.clone(),
            affinity_seconds: shape.affinity_seconds,
            traffic_distribution: capabilities.preference(&shape.traffic_distribution),
            publish_not_ready_addresses: false,
            dual_stack,
        },
        owner: owner.to_owned(),
        companion: None,
        balancer: None,
        derived: Some(Derived {
            of: key.name.to_string(),
            internal_traffic_policy: capabilities.internal_traffic_policy(Some(
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

/// Returns the reference by which copies belong to an import (KEP-1645, "Using EndpointSlice
/// objects to track endpoints").
pub(crate) fn owner_reference(
    key: &ServiceKey,
    version: Version,
    import: &ImportView,
) -> OwnerReference {
    OwnerReference {
        api_version: version.api_version(),
        kind: "ServiceImport".to_owned(),
        name: key.name.to_string(),
        uid: import.uid.to_string(),
        controller: Some(false),
        block_owner_deletion: None,
    }
}

impl ImportPlan {
    /// Returns the reason why the import has no addresses, if the plan decides that.
    pub(crate) fn unready(&self) -> Option<&Unready> {
        match self {
            Self::Own(own) => own.unready.as_ref(),
            Self::Foreign | Self::Later => None,
        }
    }
}

impl OwnImport {
    /// Whether the observed import equals the desired one.
    pub(crate) fn is_met_by(&self, observed: &ImportView, hub: &str) -> bool {
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

    /// Returns the object to create.
    pub(crate) fn object(&self, key: &ServiceKey, version: Version, hub: &str) -> ServiceImport {
        let metadata = new_meta(key, self.own_labels(hub), self.own_annotations());
        ServiceImport::new(version, metadata, self.spec.clone())
    }

    /// Returns a merge patch that turns the observed import into the desired one. It fails if the
    /// resource version has changed. One write changes type, addresses and families.
    pub(crate) fn patch(&self, observed: &ImportView, hub: &str) -> Value {
        json!({
            "metadata": {
                "resourceVersion": observed.resource_version,
                "labels": self.label_changes(observed, hub),
                "annotations": self.annotation_changes(observed),
            },
            "spec": spec_with_nulls(&self.spec, &observed.spec),
        })
    }

    fn own_labels(&self, hub: &str) -> BTreeMap<String, String> {
        let exported = self.labels.clone().into_iter();
        exported.chain(own_labels(hub)).collect()
    }

    fn own_annotations(&self) -> BTreeMap<String, String> {
        let names = |all: &BTreeMap<String, String>| {
            all.keys().map(String::as_str).collect::<Vec<_>>().join(",")
        };
        let mut own = self.annotations.clone();
        own.insert(labels::OWNER.to_owned(), self.owner.clone());
        let recorded = recorded(&self.failover, &self.consumers);
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

/// Adds removals of names that were exported before and are exported no longer. Names that others
/// wrote remain.
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

fn spec_with_nulls(spec: &ServiceImportSpec, observed: &ServiceImportSpec) -> Value {
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
    if !observed.cluster_selectors.is_empty() {
        fields.entry("clusterSelectors").or_insert(Value::Null);
    }
    Value::Object(fields)
}
