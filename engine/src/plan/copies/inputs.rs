//! Owner, provider and consumer of copies.

use std::cell::RefCell;
use std::sync::Arc;

use causeway::domain::{ClusterName, Ranges, ServiceKey, ServicePort};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

use super::EndpointRole;
use crate::model::slice::Exposure;
use crate::observed::member::Member;
use crate::plan::capabilities::Capabilities;
use crate::plan::tiers::{Frontend, Readiness, Tiers};

/// Owner on whose behalf copies are made.
#[derive(Clone, Copy, Debug)]
pub struct Origin<'a> {
    /// Hub, by the UID of its kube-system namespace.
    pub hub: &'a str,
    /// Owner, `<kind>/<uid>`.
    pub owner: &'a str,
    /// Service.
    pub key: &'a ServiceKey,
    /// Exposure that the copies serve.
    pub exposure: Exposure,
    /// Name of the Service that the copies belong to.
    pub service: &'a str,
    /// Whether the copies bear the label by which clusterset tools find the endpoints of a service.
    pub multicluster: bool,
    /// Import that the copies belong to.
    pub import: Option<&'a OwnerReference>,
}

/// Consumer, as far as its copies are concerned.
#[derive(Clone, Copy, Debug)]
pub struct Consumer<'a> {
    /// Name of the cluster.
    pub name: &'a ClusterName,
    /// Exposed ports of its Service, under its own names: kube-proxy joins Service and slice by
    /// name.
    pub ports: &'a [ServicePort],
    /// Traffic preference of its Service.
    pub traffic_distribution: Option<&'a str>,
    /// Fields that the cluster's Kubernetes version stores.
    pub capabilities: Capabilities,
    /// Tiers of its providers; `None` where it uses all of them alike.
    pub tiers: Option<&'a Tiers>,
}

impl Consumer<'_> {
    /// Returns the role of that provider's endpoints in the consumer; `None` where they are not
    /// used.
    pub(super) fn role(&self, provider: &ClusterName) -> Option<EndpointRole> {
        self.tiers
            .map_or(Some(EndpointRole::Ready), |tiers| tiers.role(provider))
    }
}

/// Provider, as far as copies of its slices are concerned.
#[derive(Clone, Debug)]
pub struct Provider<'a> {
    /// Name of the cluster.
    pub name: &'a ClusterName,
    /// Observed state of the provider; `None` while its endpoints are unknown.
    pub member: Option<&'a Member>,
    /// Ports of its Service.
    pub ports: Vec<ServicePort>,
    /// Address ranges that are copied.
    pub ranges: Arc<Ranges>,
    /// Readiness that was counted for consumers so far, few of which differ.
    counted: RefCell<Vec<Counted>>,
}

/// Readiness of a provider for consumers whose Services lead to the same ports and families.
#[derive(Clone, Debug)]
struct Counted {
    ports: Box<[ServicePort]>,
    families: [bool; 2],
    readiness: Option<Readiness>,
}

impl<'a> Provider<'a> {
    /// Returns a provider with its observed state.
    pub fn new(
        name: &'a ClusterName,
        member: Option<&'a Member>,
        ports: Vec<ServicePort>,
        ranges: Arc<Ranges>,
    ) -> Self {
        Self {
            name,
            member,
            ports,
            ranges,
            counted: RefCell::default(),
        }
    }

    /// Returns the readiness of the provider's endpoints that a consumer's Service leads to; `None`
    /// where that is unknown.
    pub fn readiness(&self, key: &ServiceKey, frontend: &Frontend<'_>) -> Option<Readiness> {
        let member = self.member?;
        let families = [frontend.ipv4, frontend.ipv6];
        let mut counted = self.counted.borrow_mut();
        let is_same = |one: &&Counted| *one.ports == *frontend.ports && one.families == families;
        if let Some(known) = counted.iter().find(is_same) {
            return known.readiness;
        }
        let readiness = Readiness::of(member, key, &self.ports, &self.ranges, frontend);
        counted.push(Counted {
            ports: frontend.ports.into(),
            families,
            readiness,
        });
        readiness
    }
}
