//! Services of the hub and of the members, as the index holds them.

use std::fmt;

use causeway::api::ownership::{self, Marks, NATIVE_OWNER};
use causeway::api::{bounds, labels};
use causeway::domain::{PortId, ServiceKey, ServicePort, is_qualified};
use k8s_openapi::api::core::v1::{LoadBalancerIngress, Service, ServiceSpec};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use k8s_openapi::jiff::Timestamp;
use string_cache::DefaultAtom;

use super::ingress;
use super::selector::Selector;
use crate::model::memory::fitted;
use crate::model::slice::Exposure;

/// Observed state of a Service.
#[derive(Clone, Debug, PartialEq)]
pub struct ServiceView {
    /// Its UID.
    pub uid: Box<str>,
    /// Its resourceVersion, which writes send back unchanged.
    pub resource_version: Box<str>,
    /// Creation time.
    pub created: Option<Timestamp>,
    /// Whether it is terminating.
    pub deleting: bool,
    /// UID of the hub whose causeway manages it, if one does.
    pub hub: Option<DefaultAtom>,
    /// Labels and annotations that causeway left on it, if it is foreign now.
    pub marks: Option<Box<Marks>>,
    /// Owner on whose behalf causeway wrote it ([`labels::OWNER`]).
    pub owner: Option<Box<str>>,
    /// Name of the exported service that causeway derived it for, if it is a `derived-` Service.
    pub(crate) derived_for: Option<Box<str>>,
    /// Name of the Service that it is the companion of, if it is one.
    pub(crate) companion_of: Option<Box<str>>,
    /// Whether Karmada propagated it ([`labels::KARMADA_MANAGED`]).
    pub(crate) by_karmada: bool,
    /// Last observed writer other than causeway, if causeway manages the Service.
    pub other_writer: Option<Box<str>>,
    /// Whether one of Karmada's policies claims it ([`labels::POLICY_IDS`]).
    pub has_policy: bool,
    /// Part of its spec that causeway copies.
    pub shape: ServiceShape,
    /// Cluster or Local.
    pub internal_traffic_policy: Option<Box<str>>,
    /// Address families that the API server assigned, the primary one first: IPv4, IPv6.
    pub ip_families: Vec<Box<str>>,
    /// Virtual addresses, in the order of the families; none for a headless Service.
    pub cluster_ips: Vec<Box<str>>,
    /// Addresses of its load balancer, in normal form.
    pub ingress: Vec<LoadBalancerIngress>,
    /// Ports of which its load balancer reports an error on each address.
    pub(crate) refused_ports: Box<[PortId]>,
    /// Entry by ports of the nodes, if it has one.
    pub(crate) node_ports: Option<Box<NodePorts>>,
    /// Request to its load balancer, if it is of type LoadBalancer.
    pub(crate) balancer: Option<Box<BalancerRequest>>,
}

/// Part of a Service of type LoadBalancer that its load balancer reads.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct BalancerRequest {
    /// Class of the load balancer; the cluster's default one if absent.
    pub(crate) class: Option<Box<str>>,
    /// Ranges of the client addresses that it lets through; all if empty.
    pub(crate) source_ranges: Vec<Box<str>>,
    /// Annotations of the known load balancers ([`labels::is_of_load_balancer`]).
    pub(crate) annotations: Vec<(Box<str>, Box<str>)>,
}

impl BalancerRequest {
    fn read(service: &Service) -> Option<Box<Self>> {
        let spec = service.spec.as_ref()?;
        if spec.type_.as_deref() != Some("LoadBalancer") {
            return None;
        }
        let ranges = spec.load_balancer_source_ranges.iter().flatten();
        let annotations = service.metadata.annotations.iter().flatten();
        let annotations = annotations.filter(|(name, _)| labels::is_of_load_balancer(name));
        let annotations =
            annotations.map(|(name, value)| (name.as_str().into(), value.as_str().into()));
        Some(Box::new(Self {
            class: spec.load_balancer_class.as_deref().map(Into::into),
            source_ranges: fitted(ranges.map(|range| range.as_str().into()).collect()),
            annotations: fitted(annotations.collect()),
        }))
    }
}

/// Maximum number of ports of a Service that are read. Ports are compared in pairs, and members
/// make these lists.
const PORTS_MAX: usize = 4096;

/// Maximum number of addresses of a load balancer that are read. Addresses are compared in pairs,
/// and members make these lists.
const INGRESS_MAX: usize = 1000;

/// Entry to a Service from outside its cluster.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct NodePorts {
    /// Whether a node leads to endpoints on itself alone (`externalTrafficPolicy: Local`).
    pub(crate) is_local: bool,
    /// Ports of the nodes, one for each port of the Service.
    pub(crate) ports: Vec<(PortId, i32)>,
}

impl NodePorts {
    fn read(spec: &ServiceSpec) -> Option<Box<Self>> {
        let types = ["NodePort", "LoadBalancer"];
        let type_ = spec.type_.as_deref().filter(|one| types.contains(one));
        let ports = spec.ports.iter().flatten().take(PORTS_MAX);
        let ports = ports.filter_map(|port| Some((ServicePort::read(port)?.id, port.node_port?)));
        type_.map(|_| {
            Box::new(Self {
                is_local: spec.external_traffic_policy.as_deref() == Some("Local"),
                ports: fitted(ports.collect()),
            })
        })
    }

    /// Returns the port of the nodes that leads to a port of the Service; `None` while it has none.
    pub(crate) fn get(&self, port: PortId) -> Option<i32> {
        let mut ports = self.ports.iter();
        let (_, number) = ports.find(|(id, _)| *id == port)?;
        Some(*number)
    }
}

/// Part of a Service's spec that causeway copies, with the API server's defaults filled in.
#[derive(Clone, Debug, PartialEq)]
pub struct ServiceShape {
    /// Way in which clients reach it.
    pub kind: ServiceKind,
    /// Whether it requests a load balancer.
    pub load_balancer: bool,
    /// Its ports.
    pub ports: Vec<PortShape>,
    /// Selector of its pods; selects none when empty.
    pub selector: Selector,
    /// None or ClientIP.
    pub session_affinity: String,
    /// Time for which a client stays with an endpoint, in seconds.
    pub(crate) affinity_seconds: Option<i32>,
    /// Preference such as PreferClose.
    pub traffic_distribution: Option<String>,
    /// Whether endpoints count before they are ready.
    pub publish_not_ready_addresses: bool,
    /// Whether it requests both address families.
    pub dual_stack: bool,
}

/// Way in which clients reach a Service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServiceKind {
    /// By a virtual address.
    ClusterIp,
    /// By the endpoints' own addresses.
    Headless,
    /// By another name; it has no endpoints.
    ExternalName,
}

impl fmt::Display for ServiceKind {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::ClusterIp => "ClusterIP",
            Self::Headless => "headless",
            Self::ExternalName => "ExternalName",
        })
    }
}

/// A port of a Service as it is copied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortShape {
    /// Protocol, number and name.
    pub port: ServicePort,
    /// Port of the pods.
    pub target: IntOrString,
    /// Application protocol.
    pub app_protocol: Option<String>,
}

/// Value of `clusterIP` of a headless Service.
const HEADLESS_IP: &str = "None";
pub(crate) const CLIENT_IP: &str = "ClientIP";
pub(crate) const DEFAULT_AFFINITY_SECONDS: i32 = 10_800;

impl ServiceView {
    /// Reads a Service from the wire. Returns `None` for one without an identity, which no API
    /// server sends.
    pub fn read(service: &Service) -> Option<Self> {
        let meta = &service.metadata;
        let annotation = |name: &str| meta.annotations.as_ref().and_then(|all| all.get(name));
        let has_label = |name: &str| {
            let labels = meta.labels.as_ref();
            labels.is_some_and(|all| all.contains_key(name))
        };
        let spec = service.spec.as_ref()?;
        let boxed = |all: &Option<Vec<String>>| -> Vec<Box<str>> {
            let all = all.iter().flatten().filter(|one| *one != HEADLESS_IP);
            fitted(all.map(|one| one.as_str().into()).collect())
        };
        let status = service.status.as_ref();
        let load_balancer = status.and_then(|status| status.load_balancer.as_ref());
        let reported = load_balancer.and_then(|status| status.ingress.as_ref());
        let reported = reported.into_iter().flatten().take(INGRESS_MAX);
        let manager = ownership::managing_hub(meta);
        Some(Self {
            uid: meta.uid.as_deref()?.into(),
            resource_version: meta.resource_version.as_deref()?.into(),
            created: meta.creation_timestamp.as_ref().map(|time| time.0),
            deleting: meta.deletion_timestamp.is_some(),
            hub: manager.map(Into::into),
            other_writer: manager
                .and_then(|_| ownership::other_writer(meta, ""))
                .map(|manager| bounds::foreign(manager).into()),
            marks: Marks::read(meta).map(Box::new),
            owner: annotation(labels::OWNER).map(|owner| owner.as_str().into()),
            derived_for: ownership::derived_for(meta).map(Into::into),
            companion_of: ownership::companion_of(meta).map(Into::into),
            by_karmada: ownership::is_karmadas(meta),
            has_policy: labels::POLICY_IDS.iter().any(|id| has_label(id)),
            shape: ServiceShape::read(spec),
            internal_traffic_policy: spec.internal_traffic_policy.as_deref().map(Into::into),
            ip_families: boxed(&spec.ip_families),
            cluster_ips: boxed(&spec.cluster_ips),
            ingress: fitted(ingress::normal(reported.clone())),
            refused_ports: ingress::refused_ports(reported),
            node_ports: NodePorts::read(spec),
            balancer: BalancerRequest::read(service),
        })
    }

    /// Whether this is a Service that causeway, for that hub, delivered under its own name.
    pub(crate) fn is_delivered_by(&self, hub: &str) -> bool {
        let stands_for_another = self.derived_for.is_some() || self.companion_of.is_some();
        self.hub.as_deref() == Some(hub) && !stands_for_another
    }

    /// Whether that hub's causeway made it as a companion, on behalf of a MultiClusterService or,
    /// in the other exposure, of ServiceExports.
    pub(crate) fn is_companion_by(&self, hub: &str, exposure: Exposure) -> bool {
        let is_native = |owner: &str| owner.starts_with(NATIVE_OWNER);
        let is_native = self.owner.as_deref().is_some_and(is_native);
        let is_ours = self.hub.as_deref() == Some(hub) && self.companion_of.is_some();
        is_ours && is_native == (exposure == Exposure::Native)
    }

    /// Whether some hub's causeway manages it, or did until it became foreign.
    pub(crate) fn is_marked(&self) -> bool {
        self.hub.is_some() || self.marks.is_some()
    }

    /// Whether causeway derived it for the exported service of that key, or may have: a Service
    /// that became foreign may have lost the record of it.
    pub(crate) fn may_stand_for(&self, key: &ServiceKey) -> bool {
        self.derived_for.as_deref() == Some(&*key.name) || self.marks.is_some()
    }

    /// Whether this is the Service that causeway derived, for that hub, for the exported service of
    /// that key.
    pub(crate) fn is_derived_for(&self, key: &ServiceKey, hub: &str) -> bool {
        self.hub.as_deref() == Some(hub) && self.derived_for.as_deref() == Some(&*key.name)
    }

    /// Whether it is an alias of another host, without endpoints.
    pub(crate) fn is_external_name(&self) -> bool {
        self.shape.kind == ServiceKind::ExternalName
    }

    /// Returns the ports, by name, number and protocol.
    pub fn ports(&self) -> Vec<ServicePort> {
        self.shape
            .ports
            .iter()
            .map(|shape| shape.port.clone())
            .collect()
    }
}

impl ServiceShape {
    /// Whether two shapes request the same, in any order of the ports.
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        let all_in =
            |one: &Self, other: &Self| one.ports.iter().all(|port| other.ports.contains(port));
        let are_same = self.ports == other.ports || all_in(self, other) && all_in(other, self);
        are_same && self.beside_ports() == other.beside_ports()
    }

    fn beside_ports(&self) -> impl PartialEq {
        let Self {
            kind,
            load_balancer,
            ports: _,
            selector,
            session_affinity,
            affinity_seconds,
            traffic_distribution,
            publish_not_ready_addresses,
            dual_stack,
        } = self;
        let flags = [load_balancer, publish_not_ready_addresses, dual_stack];
        let affinity = (session_affinity, affinity_seconds);
        (kind, flags, selector, affinity, traffic_distribution)
    }

    fn read(spec: &ServiceSpec) -> Self {
        let kind = match (spec.type_.as_deref(), spec.cluster_ip.as_deref()) {
            (Some("ExternalName"), _) => ServiceKind::ExternalName,
            (_, Some("None")) => ServiceKind::Headless,
            _ => ServiceKind::ClusterIp,
        };
        let session_affinity = spec
            .session_affinity
            .clone()
            .unwrap_or_else(|| "None".to_owned());
        let seconds = spec
            .session_affinity_config
            .as_ref()
            .and_then(|config| config.client_ip.as_ref()?.timeout_seconds);
        let sticks = session_affinity == CLIENT_IP;
        let ports = spec.ports.iter().flatten().take(PORTS_MAX);
        let selector = spec.selector.iter().flatten();
        let selector = selector.map(|(label, value)| (label.as_str(), value.as_str()));
        Self {
            kind,
            load_balancer: spec.type_.as_deref() == Some("LoadBalancer"),
            ports: fitted(ports.filter_map(PortShape::read).collect()),
            selector: selector.collect(),
            affinity_seconds: sticks.then(|| seconds.unwrap_or(DEFAULT_AFFINITY_SECONDS)),
            session_affinity,
            traffic_distribution: spec.traffic_distribution.clone(),
            publish_not_ready_addresses: spec.publish_not_ready_addresses.unwrap_or_default(),
            dual_stack: matches!(
                spec.ip_family_policy.as_deref(),
                Some("PreferDualStack" | "RequireDualStack")
            ),
        }
    }
}

impl PortShape {
    /// Reads a port; `None` for one that no API server stores ([`ServicePort::read`]).
    fn read(port: &k8s_openapi::api::core::v1::ServicePort) -> Option<Self> {
        let app_protocol = port.app_protocol.clone();
        let is_valid = app_protocol.as_deref().is_none_or(is_qualified);
        Some(Self {
            port: ServicePort::read(port).filter(|_| is_valid)?,
            target: match &port.target_port {
                None | Some(IntOrString::Int(0)) => IntOrString::Int(port.port),
                Some(target) => target.clone(),
            },
            app_protocol,
        })
    }
}
