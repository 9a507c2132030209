//! Service that a member should hold.

mod balancer;

use std::collections::BTreeMap;
use std::sync::Arc;

use causeway::api::labels;
use causeway::domain::{ServiceKey, ServicePort};
use k8s_openapi::api::core::v1::{
    self as core, ClientIPConfig, Service, ServiceSpec, SessionAffinityConfig,
};
use serde_json::{Map, Value, json};

pub(crate) use self::balancer::Balancer;
use super::capabilities::Capabilities;
use super::entry::CompanionType;
use crate::model::object::{new_meta, own_labels};
use crate::observed::selector::Selector;
use crate::observed::service::{PortShape, ServiceKind, ServiceShape, ServiceView};
use crate::problem::ServiceProblem;

/// External traffic policy of a companion.
const LOCAL: &str = "Local";

/// Service that a member should hold.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum DesiredService {
    /// Service of another writer, used as it is.
    Foreign,
    /// Conflicting Service, which stays as it is and gets no endpoints.
    Conflict(ServiceProblem),
    /// Service that causeway maintains.
    Own(Box<OwnService>),
}

/// Service that causeway maintains in a member.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct OwnService {
    /// Desired ports, selector and settings.
    pub shape: ServiceShape,
    /// Owner on whose behalf it exists.
    pub owner: String,
    /// Additional content, if it stands for an imported service.
    pub derived: Option<Derived>,
    /// Additional content, if it is a companion.
    pub companion: Option<Companion>,
    /// Additional content in an entry cluster. All but companions and these are of type ClusterIP.
    pub balancer: Option<Box<Balancer>>,
}

/// Additional content of a companion.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Companion {
    /// Service that it is the entry to.
    of: Arc<str>,
    type_: CompanionType,
    /// Address families of that Service, the primary one first.
    families: Vec<Box<str>>,
}

/// Additional content of a Service that stands for an imported service.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Derived {
    /// Imported service.
    pub of: String,
    /// Internal traffic policy, Cluster or Local; `None` where the member has no such field.
    pub internal_traffic_policy: Option<String>,
    /// Only address family, if it is made with one.
    pub family: Option<String>,
    /// Addresses that it had before, if it is recreated.
    pub addresses: Vec<String>,
}

/// Place of a Service in a member, with the existing Service.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Site<'a> {
    /// Hub, by the UID of its kube-system namespace.
    pub hub: &'a str,
    /// Namespace and name of the Service.
    pub key: &'a ServiceKey,
    /// Existing Service.
    pub observed: Option<&'a ServiceView>,
    /// Fields that the member's Kubernetes version stores.
    pub capabilities: Capabilities,
}

/// Returns the Service that a member should hold, given the existing one.
///
/// A derived Service, of whichever hub, stands for another service: its traffic must not reach the
/// endpoints of this one.
pub(crate) fn desired(
    site: &Site<'_>,
    hub_service: &ServiceView,
    ports: &[PortShape],
    provider: bool,
    owner: &str,
) -> DesiredService {
    let (key, observed) = (site.key, site.observed);
    let of_other = observed.and_then(|service| service.derived_for.as_deref());
    if let Some(of) = of_other {
        return DesiredService::Conflict(ServiceProblem::StandsFor {
            service: key.clone(),
            of: of.to_owned(),
        });
    }
    let is_ours = |service: &ServiceView| service.is_delivered_by(site.hub);
    if !observed.is_none_or(is_ours) {
        return DesiredService::Foreign;
    }
    let selector = if provider {
        hub_service.shape.selector.clone()
    } else {
        no_backends()
    };
    let shape = ServiceShape {
        load_balancer: false,
        ports: ports.to_vec(),
        selector,
        traffic_distribution: site
            .capabilities
            .preference(&hub_service.shape.traffic_distribution),
        ..hub_service.shape.clone()
    };
    let own = OwnService {
        shape,
        owner: owner.to_owned(),
        derived: None,
        companion: None,
        balancer: None,
    };
    DesiredService::Own(own.into())
}

/// Returns the companion of a member's Service: it has the same ports and selects the same pods,
/// and each node leads to the pods on itself.
pub(crate) fn companion(
    key: &ServiceKey,
    service: &ServiceView,
    type_: CompanionType,
    owner: String,
) -> OwnService {
    OwnService {
        shape: ServiceShape {
            load_balancer: type_ == CompanionType::LoadBalancer,
            ..service.shape.clone()
        },
        owner,
        derived: None,
        companion: Some(Companion {
            of: key.name.clone(),
            type_,
            families: service.ip_families.clone(),
        }),
        balancer: None,
    }
}

/// Returns a selector that matches nothing. Without any selector the member's controllers would
/// leave stale slices behind.
fn no_backends() -> Selector {
    [(labels::NO_LOCAL_BACKENDS, "true")].into_iter().collect()
}

impl DesiredService {
    /// Returns the Service of an entry cluster: causeway's own gets a load balancer, and for that
    /// a virtual address. A Service of another writer stays as it is.
    pub(crate) fn of_entry_cluster(mut self, hub_service: &ServiceView) -> Self {
        if let Self::Own(own) = &mut self {
            own.shape.kind = ServiceKind::ClusterIp;
            own.shape.load_balancer = true;
            own.balancer = Some(Box::new(Balancer::of(hub_service)));
        }
        self
    }

    /// Returns the exposed ports that the member's Service offers, under its own names for them,
    /// and its problem, if it has one.
    pub(crate) fn ports_offered(
        &self,
        observed: Option<&ServiceView>,
        key: &ServiceKey,
        exposed: &[PortShape],
    ) -> (Vec<ServicePort>, Option<ServiceProblem>) {
        match (self, observed) {
            (Self::Foreign, Some(service)) => foreign_ports(service, key, exposed),
            (Self::Conflict(why), _) => (Vec::new(), Some(why.clone())),
            _ => (
                exposed.iter().map(|shape| shape.port.clone()).collect(),
                None,
            ),
        }
    }

    /// Whether the member's Service is, or will be, headless.
    pub(crate) fn is_headless(&self, observed: Option<&ServiceView>) -> bool {
        let kind = match self {
            Self::Own(own) => Some(own.shape.kind),
            Self::Foreign => observed.map(|service| service.shape.kind),
            Self::Conflict(_) => None,
        };
        kind == Some(ServiceKind::Headless)
    }

    /// Returns the traffic preference of the member's Service.
    pub(crate) fn traffic_distribution<'a>(
        &'a self,
        observed: Option<&'a ServiceView>,
    ) -> Option<&'a str> {
        match self {
            Self::Own(own) => own.shape.traffic_distribution.as_deref(),
            Self::Conflict(_) => None,
            Self::Foreign => {
                observed.and_then(|service| service.shape.traffic_distribution.as_deref())
            }
        }
    }
}

fn foreign_ports(
    service: &ServiceView,
    key: &ServiceKey,
    exposed: &[PortShape],
) -> (Vec<ServicePort>, Option<ServiceProblem>) {
    if service.is_external_name() {
        return (Vec::new(), Some(ServiceProblem::ExternalName(key.clone())));
    }
    let ports = service.ports();
    let wanted = |port: &ServicePort| exposed.iter().any(|shape| shape.port.id == port.id);
    let offered: Vec<_> = ports.iter().filter(|port| wanted(port)).cloned().collect();
    let missing: Vec<_> = exposed
        .iter()
        .filter(|shape| !offered.iter().any(|port| port.id == shape.port.id))
        .map(|shape| shape.port.clone())
        .collect();
    let problem = (!missing.is_empty()).then(|| ServiceProblem::MissingPorts {
        service: key.clone(),
        missing,
        has: ports,
    });
    (offered, problem)
}

impl OwnService {
    /// Makes a companion one of that type, unless it is one already.
    pub(super) fn ask_for(&mut self, type_: CompanionType) {
        if type_ == CompanionType::LoadBalancer {
            self.shape.load_balancer = true;
            if let Some(companion) = &mut self.companion {
                companion.type_ = type_;
            }
        }
    }

    /// Whether the member's Service equals the desired one.
    pub(crate) fn is_met_by(&self, observed: &ServiceView) -> bool {
        let companion = self.companion.as_ref();
        let is_local = observed.node_ports.as_ref().map(|ports| ports.is_local);
        let is_entry = companion.is_none() || is_local == Some(true);
        let balancer = self.balancer.as_ref();
        is_entry
            && balancer.is_none_or(|balancer| balancer.is_met_by(observed))
            && self.has_primary_family_of(observed)
            && companion.map(|companion| &*companion.of) == observed.companion_of.as_deref()
            && self.shape.is_like(&observed.shape)
            && observed.owner.as_deref() == Some(self.owner.as_str())
            && self
                .derived
                .as_ref()
                .is_none_or(|derived| derived.is_met_by(observed))
    }

    /// Whether the member's Service can be updated to the desired one. Otherwise it has to be
    /// recreated: an address cannot be taken away, nor its family changed.
    pub(crate) fn can_become(&self, observed: &ServiceView) -> bool {
        self.shape.kind == observed.shape.kind && self.has_primary_family_of(observed)
    }

    /// Whether a companion has the primary address family that it should have.
    fn has_primary_family_of(&self, observed: &ServiceView) -> bool {
        let companion = self.companion.as_ref();
        let primary = companion.and_then(|companion| companion.families.first());
        primary.is_none_or(|primary| observed.ip_families.first() == Some(primary))
    }

    /// Returns the object to create.
    pub(crate) fn object(&self, key: &ServiceKey, hub: &str) -> Service {
        let shape = &self.shape;
        let (derived, companion) = (self.derived.as_ref(), self.companion.as_ref());
        let addresses = derived.map(|derived| derived.addresses.clone());
        let addresses = addresses.filter(|addresses| !addresses.is_empty());
        let headless = shape.kind == ServiceKind::Headless;
        let families = match companion {
            Some(companion) => companion
                .families
                .iter()
                .map(|one| one.to_string())
                .collect(),
            None => Vec::from_iter(derived.and_then(|derived| derived.family.clone())),
        };
        let mut service = Service {
            metadata: new_meta(key, self.labels(hub), self.annotations()),
            spec: Some(ServiceSpec {
                cluster_ip: match &addresses {
                    _ if headless => Some("None".to_owned()),
                    Some(addresses) => addresses.first().cloned(),
                    None => None,
                },
                cluster_ips: addresses.filter(|_| !headless),
                ip_families: Some(families).filter(|families| !families.is_empty()),
                internal_traffic_policy: derived
                    .and_then(|derived| derived.internal_traffic_policy.clone()),
                ports: Some(shape.ports.iter().map(port).collect()),
                selector: Some(shape.selector.to_map()).filter(|selector| !selector.is_empty()),
                session_affinity: Some(shape.session_affinity.clone()),
                session_affinity_config: shape.affinity_seconds.map(affinity_config),
                traffic_distribution: shape.traffic_distribution.clone(),
                publish_not_ready_addresses: Some(shape.publish_not_ready_addresses),
                ip_family_policy: Some(family_policy(shape).to_owned()),
                type_: companion.map(|companion| companion.type_.as_str().to_owned()),
                external_traffic_policy: companion.map(|_| LOCAL.to_owned()),
                ..ServiceSpec::default()
            }),
            status: None,
        };
        if let Some(balancer) = &self.balancer {
            balancer.fill(&mut service);
        }
        service
    }

    fn labels(&self, hub: &str) -> BTreeMap<String, String> {
        let of = self.derived.as_ref().map(|derived| derived.of.clone());
        let of = of.map(|of| (labels::MULTICLUSTER_SERVICE_NAME.to_owned(), of));
        own_labels(hub).into_iter().chain(of).collect()
    }

    fn annotations(&self) -> BTreeMap<String, String> {
        let of = self.companion.as_ref().map(|companion| &companion.of);
        let of = of.map(|of| (labels::COMPANION_OF.to_owned(), of.to_string()));
        let owner = (labels::OWNER.to_owned(), self.owner.clone());
        [owner].into_iter().chain(of).collect()
    }

    /// Returns a merge patch that turns the observed Service into the desired one. The API server
    /// refuses it if the Service has another resourceVersion by then.
    pub(crate) fn patch(&self, observed: &ServiceView, key: &ServiceKey, hub: &str) -> Value {
        let desired = self.object(key, hub);
        let mut annotations = desired.metadata.annotations;
        let mut spec = ServiceSpec {
            cluster_ip: None,
            cluster_ips: None,
            ip_families: None,
            ..desired.spec.unwrap_or_default()
        };
        if observed.shape.load_balancer {
            annotations = Some(self.annotations());
            spec.load_balancer_class = None;
        }
        let removed = observed.shape.selector.iter();
        let removed = removed.map(|(label, _)| (label.to_owned(), Value::Null));
        let selector: Map<String, Value> = removed.collect();
        // Null removes a field, unless the desired object has it.
        let mut patch = json!({
            "metadata": { "resourceVersion": observed.resource_version },
            "spec": {
                "type": "ClusterIP",
                "selector": selector,
                "sessionAffinityConfig": null,
                "trafficDistribution": null,
            },
        });
        // The API server permits ranges to load balancers alone. It drops the other fields itself.
        let request = observed.balancer.as_ref();
        let is_restricted = request.is_some_and(|request| !request.source_ranges.is_empty());
        if self.balancer.is_some() || is_restricted && self.companion.is_none() {
            patch["spec"]["loadBalancerSourceRanges"] = Value::Null;
        }
        let labels = desired.metadata.labels;
        let metadata = json!({ "labels": labels, "annotations": annotations });
        let desired = json!({ "metadata": metadata, "spec": spec });
        json_patch::merge(&mut patch, &desired);
        patch
    }
}

impl Derived {
    fn is_met_by(&self, observed: &ServiceView) -> bool {
        let wanted = self.internal_traffic_policy.as_deref();
        wanted.is_none_or(|wanted| observed.internal_traffic_policy.as_deref() == Some(wanted))
    }
}

/// Returns the family policy. The member's own families decide: a cluster of one family cannot
/// require two.
fn family_policy(shape: &ServiceShape) -> &'static str {
    if shape.dual_stack {
        "PreferDualStack"
    } else {
        "SingleStack"
    }
}

/// Returns the configuration of a session affinity of `seconds`.
pub(crate) fn affinity_config(seconds: i32) -> SessionAffinityConfig {
    SessionAffinityConfig {
        client_ip: Some(ClientIPConfig {
            timeout_seconds: Some(seconds),
        }),
    }
}

fn port(shape: &PortShape) -> core::ServicePort {
    core::ServicePort {
        name: Some(shape.port.name.to_string()).filter(|name| !name.is_empty()),
        protocol: Some(shape.port.id.protocol.to_string()),
        port: i32::from(shape.port.id.number),
        target_port: Some(shape.target.clone()),
        app_protocol: shape.app_protocol.clone(),
        node_port: None,
    }
}

#[cfg(test)]
mod tests;
