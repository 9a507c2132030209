//! Content of an explanation, which is also the form that programs read.

use std::collections::BTreeSet;
use std::net::IpAddr;

use causeway::domain::ClusterName;
use serde::Serialize;

use crate::messages::Diagnosis;
use crate::model::slice::Exposure;
use crate::plan::providers::Readiness;
use crate::plan::shares::Shares;
use crate::plan::tiers::{TierState, Tiers};
use crate::reasons::Reason;

/// Locations of the endpoints of a service.
#[derive(Debug, Serialize)]
pub struct Explanation {
    /// Namespace of the service.
    pub namespace: String,
    /// Name of the service.
    pub name: String,
    /// Whether at least one endpoint is ready, every ready one is in every consumer, and no problem
    /// is known.
    pub ready: bool,
    /// Diagnoses of the service as a whole.
    pub diagnoses: Vec<Diagnosis>,
    /// Names under which other clusters reach the service.
    pub exposures: Vec<ExposureReport>,
}

/// Name under which a service reaches other clusters.
#[derive(Debug, Serialize)]
pub struct ExposureReport {
    /// Kind of the exposing object: a MultiClusterService, or ServiceExports.
    pub exposure: Exposure,
    /// Name by which clients reach the service.
    pub address: String,
    /// Annotations of the MultiClusterService whose values its Namespace gives.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub defaults: Vec<DefaultReport>,
    /// Diagnoses of the exposure as a whole.
    pub diagnoses: Vec<Diagnosis>,
    /// Clusters whose clients may reach the service.
    pub consumers: Vec<ConsumerReport>,
    /// Clusters whose pods back the service.
    pub providers: Vec<ProviderReport>,
}

/// Annotation whose value comes from a Namespace of the hub.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DefaultReport {
    /// Name of the annotation.
    pub annotation: String,
    /// Value, also if it is invalid.
    pub value: String,
    /// Name of the Namespace.
    pub namespace: String,
}

/// Cluster whose clients may reach a service.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ConsumerReport {
    /// Name of the cluster.
    pub cluster: String,
    /// Failover tiers of its providers; absent if it uses all of them alike.
    #[serde(flatten)]
    pub tiers: Option<TiersReport>,
    /// Shares of its providers; absent if none are requested or applied.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub shares: Vec<ShareReport>,
    /// Diagnoses of the cluster.
    pub diagnoses: Vec<Diagnosis>,
}

/// Failover tiers of a consumer's providers.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TiersReport {
    /// Tiers that serve the consumer, nearest first.
    pub serving_from: Vec<TierReport>,
    /// Tiers that serve it if those have no ready endpoint, nearest first, then the unreachable
    /// providers.
    pub standby: Vec<TierReport>,
}

/// Tier of the providers of a service.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TierReport {
    /// Word of the tier.
    pub tier: String,
    /// Clusters in the tier.
    pub clusters: Vec<String>,
    /// Number of ready endpoints.
    pub ready: usize,
    /// Number of endpoints, except those that terminate.
    pub endpoints: usize,
}

/// Share of a provider in a consumer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ShareReport {
    /// Name of the provider.
    pub cluster: String,
    /// Wanted share of the endpoints, in percent.
    pub wanted: u64,
    /// Real share, in percent.
    pub real: u64,
    /// Number of endpoints that are ready in the consumer.
    pub ready: u64,
    /// Number of ready endpoints of the provider that are standby endpoints in the consumer.
    pub standby: u64,
}

/// Cluster whose pods back a service.
#[derive(Debug, Serialize)]
pub struct ProviderReport {
    /// Name of the cluster.
    pub cluster: String,
    /// Way by which clusters of other networks reach it, if the service or its Cluster declares
    /// one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reach: Option<&'static str>,
    /// Diagnoses of the cluster.
    pub diagnoses: Vec<Diagnosis>,
    /// Endpoints of the cluster; if it cannot be read, those that the consumers hold.
    pub endpoints: Vec<EndpointReport>,
}

/// Endpoint of a provider.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EndpointReport {
    /// Addresses of the endpoint.
    pub addresses: Vec<IpAddr>,
    /// EndpointSlice in the provider; absent if only the content of the consumers is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slice: Option<String>,
    /// Node of the endpoint.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// Zone of the endpoint.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
    /// Whether the endpoint takes traffic.
    pub ready: bool,
    /// Whether the endpoint would take traffic if it were not terminating.
    pub serving: bool,
    /// Whether the pod of the endpoint is being deleted.
    pub terminating: bool,
    /// State of the endpoint in each consumer.
    pub consumers: Vec<ConsumerState>,
}

/// State of an endpoint in a consumer.
#[derive(Debug, Serialize)]
pub struct ConsumerState {
    /// Name of the consumer.
    pub cluster: String,
    /// Whether the endpoint is in the consumer.
    pub state: EndpointState,
    /// EndpointSlice in the consumer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slice: Option<String>,
    /// Reason for the state.
    #[serde(flatten)]
    pub diagnosis: Diagnosis,
}

/// Presence of an endpoint in a consumer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum EndpointState {
    /// An EndpointSlice of the consumer holds the endpoint.
    Present,
    /// No EndpointSlice of the consumer holds the endpoint.
    Missing,
}

impl ConsumerState {
    /// Whether nothing is to be done: the endpoint is in the consumer, or the consumer uses it in
    /// no tier.
    fn is_healthy(&self) -> bool {
        let is_in_place = self.state == EndpointState::Present;
        let is_due = self.diagnosis.reason != Reason::NotPreferred;
        (is_in_place || !is_due) && self.diagnosis.is_healthy()
    }
}

impl TiersReport {
    pub(super) fn of(tiers: &Tiers) -> Self {
        let of =
            |state: &TierState| TierReport::of(&state.name(), &state.clusters, state.readiness);
        let nothing = Readiness::default();
        let unreachable = TierReport::of("unreachable", &tiers.unreachable, nothing);
        let silent = TierReport::of("silent", tiers.no_path.keys(), nothing);
        let standby = tiers.standby().iter().filter_map(of);
        Self {
            serving_from: tiers.active().iter().filter_map(of).collect(),
            standby: standby.chain(unreachable).chain(silent).collect(),
        }
    }
}

impl TierReport {
    /// Returns the report of a tier; `None` without clusters.
    fn of<'a>(
        tier: &str,
        clusters: impl IntoIterator<Item = &'a ClusterName>,
        readiness: Readiness,
    ) -> Option<Self> {
        let clusters = clusters.into_iter().map(ToString::to_string);
        let clusters: Vec<_> = clusters.collect();
        (!clusters.is_empty()).then(|| Self {
            tier: tier.to_owned(),
            clusters,
            ready: readiness.ready,
            endpoints: readiness.total,
        })
    }
}

impl ShareReport {
    pub(super) fn all(shares: &Shares) -> Vec<Self> {
        let percent = |hundredths: u64| (hundredths + 50) / 100;
        let all = shares.all.iter().map(|share| Self {
            cluster: share.name.to_string(),
            wanted: percent(share.wanted),
            real: percent(share.real()),
            ready: share.chosen,
            standby: share.ready.saturating_sub(share.chosen),
        });
        all.collect()
    }
}

impl Explanation {
    /// Adds a diagnosis of the service as a whole that the caller made.
    pub fn add(&mut self, diagnosis: Diagnosis) {
        self.diagnoses.insert(0, diagnosis);
        self.ready = self.is_healthy_but_for(&[]);
    }

    /// Whether the service is not ready, and members, a Namespace, a ServiceImport or names that
    /// could not be read are the only reason.
    pub fn is_wrong_only_where_unread(&self) -> bool {
        let unread = [
            Reason::MemberNotRead,
            Reason::NamespaceNotRead,
            Reason::ImportNotRead,
            Reason::NameNotRead,
        ];
        !self.ready && self.is_healthy_but_for(&unread)
    }

    /// Whether all ready endpoints are in place and no problem is known, except the excused ones.
    pub(super) fn is_healthy_but_for(&self, excused: &[Reason]) -> bool {
        let is_excused = |one: &Diagnosis| excused.contains(&one.reason);
        let states = self.consumer_states(|endpoint| endpoint.ready);
        let is_good = |state: &&ConsumerState| state.is_healthy() || is_excused(&state.diagnosis);
        let mut of_clusters = self.of_clusters();
        of_clusters.all(|one| one.is_healthy() || is_excused(one)) && states.iter().all(is_good)
    }

    /// Iterates over the diagnoses of the service and of its clusters.
    fn of_clusters(&self) -> impl Iterator<Item = &Diagnosis> {
        let of_exposures = self.exposures.iter().flat_map(|exposure| {
            let consumers = exposure.consumers.iter().flat_map(|one| &one.diagnoses);
            let providers = exposure.providers.iter().flat_map(|one| &one.diagnoses);
            exposure.diagnoses.iter().chain(consumers).chain(providers)
        });
        self.diagnoses.iter().chain(of_exposures)
    }

    /// Returns the states of the selected endpoints in each consumer.
    pub fn consumer_states(&self, of: impl Fn(&EndpointReport) -> bool) -> Vec<&ConsumerState> {
        let providers = self.exposures.iter().flat_map(|one| &one.providers);
        let endpoints = providers.flat_map(|provider| &provider.endpoints);
        let chosen = endpoints.filter(|endpoint| of(endpoint));
        chosen.flat_map(|endpoint| &endpoint.consumers).collect()
    }

    /// Returns all diagnoses, including those of the selected endpoints.
    pub fn diagnoses_with(&self, of: impl Fn(&EndpointReport) -> bool) -> Vec<&Diagnosis> {
        let states = self.consumer_states(of).into_iter();
        let of_endpoints = states.map(|state| &state.diagnosis);
        self.of_clusters().chain(of_endpoints).collect()
    }

    /// Returns the distinct messages of all problems.
    pub fn unhealthy(&self) -> Vec<String> {
        let mut all = self.diagnoses_with(|endpoint| endpoint.ready);
        all.retain(|one| !one.is_healthy());
        let distinct: BTreeSet<_> = all.into_iter().map(|one| &one.message).collect();
        distinct.into_iter().cloned().collect()
    }
}
