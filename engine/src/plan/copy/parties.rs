//! On whose behalf copies are made, from whom, and for whom.

use std::cell::OnceCell;
use std::sync::Arc;

use causeway::domain::{ClusterName, Ranges, ServiceKey, ServicePort};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

use super::{Standing, candidates};
use crate::index::member::Member;
use crate::model::slice::Path;
use crate::plan::release::Release;
use crate::plan::tiers::{Readiness, Tiers};

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
    readiness: OnceCell<Option<Readiness>>,
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
            readiness: OnceCell::new(),
        }
    }

    /// How many of the endpoints that it gives are ready, whatever a consumer's ports; `None` where it is not known what it provides.
    pub fn readiness(&self, key: &ServiceKey) -> Option<Readiness> {
        *self.readiness.get_or_init(|| {
            let sources = self.member.map(|member| candidates(member, key));
            let copied = sources.map(|all| all.filter_map(|(_, source)| source.ok()));
            copied.map(|all| Readiness::of(all.map(|source| &**source), &self.ranges))
        })
    }
}
