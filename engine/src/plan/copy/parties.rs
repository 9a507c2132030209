//! On whose behalf copies are made, from whom, and for whom.

use std::cell::RefCell;
use std::sync::Arc;

use causeway::domain::{ClusterName, Ranges, ServiceKey, ServicePort};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

use super::Standing;
use crate::index::member::Member;
use crate::model::slice::Path;
use crate::plan::release::Release;
use crate::plan::tiers::{Frontend, Readiness, Tiers};

/// On whose behalf copies are made.
#[derive(Clone, Copy, Debug)]
pub struct Origin<'a> {
    /// The hub, by the UID of its kube-system namespace.
    pub hub: &'a str,
    /// The owner, `<kind>/<uid>`.
    pub owner: &'a str,
    /// The service.
    pub key: &'a ServiceKey,
    /// Which way the copies serve.
    pub path: Path,
    /// The name of the Service that they belong to.
    pub service: &'a str,
    /// Whether they bear the label by which clusterset tools find the endpoints of a service.
    pub multicluster: bool,
    /// The import that they belong to.
    pub import: Option<&'a OwnerReference>,
}

/// A consumer, as far as its copies are concerned.
#[derive(Clone, Copy, Debug)]
pub struct Consumer<'a> {
    /// Its name.
    pub name: &'a ClusterName,
    /// The exposed ports of its Service, under its own names: kube-proxy joins Service and slice by name.
    pub ports: &'a [ServicePort],
    /// The traffic preference of its Service.
    pub traffic_distribution: Option<&'a str>,
    /// Its release of Kubernetes.
    pub release: Release,
    /// Its tiers of providers; none where it uses all of them alike.
    pub tiers: Option<&'a Tiers>,
}

impl Consumer<'_> {
    /// How the endpoints of that provider are to stand; none where it is not used.
    pub(super) fn standing(&self, provider: &ClusterName) -> Option<Standing> {
        self.tiers
            .map_or(Some(Standing::Ready), |tiers| tiers.standing(provider))
    }
}

/// A provider, as far as copies of its slices are concerned.
#[derive(Clone, Debug)]
pub struct Provider<'a> {
    /// Its name.
    pub name: &'a ClusterName,
    /// What is known of it; `None` where it is not known what it provides.
    pub member: Option<&'a Member>,
    /// The ports of its Service.
    pub ports: Vec<ServicePort>,
    /// Which of its addresses are copied.
    pub ranges: Arc<Ranges>,
    /// What was counted for the consumers so far, few of which differ.
    counted: RefCell<Vec<Counted>>,
}

/// The readiness of a provider for consumers whose Services lead to the same.
#[derive(Clone, Debug)]
struct Counted {
    ports: Box<[ServicePort]>,
    families: [bool; 2],
    readiness: Option<Readiness>,
}

impl<'a> Provider<'a> {
    /// A provider of which `member` is known.
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

    /// Returns how many of its endpoints are ready of those that come to be behind a consumer's
    /// Service; `None` where that is not known.
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
