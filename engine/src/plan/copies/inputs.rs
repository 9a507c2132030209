//! Owner and consumer of copies.

use causeway::domain::{ClusterName, Network, ServiceKey, ServicePort};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

use crate::model::slice::Exposure;
use crate::observed::Index;
use crate::plan::capabilities::Capabilities;
use crate::plan::shares::{Shares, Subset};
use crate::plan::tiers::{EndpointRole, Tiers};

/// Owner on whose behalf copies are made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Origin<'a> {
    /// Observed state.
    pub index: &'a Index,
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
pub(crate) struct Consumer<'a> {
    /// Name of the cluster.
    pub name: &'a ClusterName,
    /// Network of its pods.
    pub network: &'a Network,
    /// Exposed ports of its Service, under its own names: kube-proxy joins Service and slice by
    /// name.
    pub ports: &'a [ServicePort],
    /// Traffic preference of its Service.
    pub traffic_distribution: Option<&'a str>,
    /// Whether its Service is headless: its copies are labelled, and no entry of another network
    /// leads to it.
    pub is_headless: bool,
    /// Fields that the cluster's Kubernetes version stores.
    pub capabilities: Capabilities,
    /// Tiers of its providers; `None` where it uses all of them alike.
    pub tiers: Option<&'a Tiers>,
    /// Shares of its providers; `None` where none are requested.
    pub shares: Option<&'a Shares>,
}

impl Consumer<'_> {
    /// Returns the role of that provider's endpoints in the consumer; `None` where they are not
    /// used.
    pub(super) fn role(&self, provider: &ClusterName) -> Option<EndpointRole> {
        self.tiers
            .map_or(Some(EndpointRole::Ready), |tiers| tiers.role(provider))
    }

    /// Returns the choice among that provider's endpoints of this role; `None` if all of them have
    /// the role.
    pub(super) fn subset(&self, provider: &ClusterName, role: EndpointRole) -> Option<Subset> {
        let shares = self.shares.filter(|_| role == EndpointRole::Ready)?;
        shares.subset(provider)
    }
}
