//! What an explanation holds; also the form that programs read.

use std::collections::BTreeSet;
use std::fmt;
use std::net::IpAddr;

use serde::Serialize;

use super::reason::{Diagnosis, Reason};
use crate::model::slice::Path;
use crate::plan::tiers::{TierState, Tiers};

/// Where the endpoints of a service are.
#[derive(Debug, Serialize)]
pub struct Explanation {
    /// The namespace of the service.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Whether every ready endpoint is in every consumer, there is one, and nothing is known to be wrong.
    pub ready: bool,
    /// What concerns the service as a whole.
    pub diagnoses: Vec<Diagnosis>,
    /// The names under which other clusters reach it.
    pub exposures: Vec<ExposureReport>,
}

/// A name under which a service reaches other clusters.
#[derive(Debug, Serialize)]
pub struct ExposureReport {
    /// What exposes it: a MultiClusterService, or ServiceExports.
    #[serde(serialize_with = "exposure")]
    pub exposure: Path,
    /// The name by which clients reach it.
    pub address: String,
    /// What concerns it as a whole.
    pub diagnoses: Vec<Diagnosis>,
    /// The clusters whose clients may reach it.
    pub consumers: Vec<ConsumerReport>,
    /// The clusters whose pods back it.
    pub providers: Vec<ProviderReport>,
}

/// A cluster whose clients may reach a service.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ConsumerReport {
    /// Its name.
    pub cluster: String,
    /// Which providers it uses first; absent where it uses all of them alike.
    #[serde(flatten)]
    pub tiers: Option<TiersReport>,
    /// What is so of it.
    pub diagnoses: Vec<Diagnosis>,
}

/// Which providers a consumer uses first.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TiersReport {
    /// The tiers that serve it, nearest first.
    pub serving_from: Vec<TierReport>,
    /// The tiers that serve it where those have no ready endpoint, nearest first, then what cannot be reached.
    pub standby: Vec<TierReport>,
}

/// Some of the providers of a service.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TierReport {
    /// The word of the tier.
    pub tier: String,
    /// The clusters that are in it.
    pub clusters: Vec<String>,
    /// How many of their endpoints are ready.
    pub ready: usize,
    /// How many endpoints they have, but for those that terminate.
    pub endpoints: usize,
}

/// A cluster whose pods back a service.
#[derive(Debug, Serialize)]
pub struct ProviderReport {
    /// Its name.
    pub cluster: String,
    /// What is so of it.
    pub diagnoses: Vec<Diagnosis>,
    /// Its endpoints; where it cannot be read, those that the consumers hold.
    pub endpoints: Vec<EndpointReport>,
}

/// An endpoint of a provider.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EndpointReport {
    /// Its addresses.
    pub addresses: Vec<IpAddr>,
    /// The EndpointSlice in the provider; absent where only what the consumers hold is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slice: Option<String>,
    /// Its node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// Its zone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
    /// Whether it takes traffic.
    pub ready: bool,
    /// Whether it would, were it not terminating.
    pub serving: bool,
    /// Whether its pod is being deleted.
    pub terminating: bool,
    /// What became of it in each consumer.
    pub consumers: Vec<ConsumerState>,
}

/// What became of an endpoint in a consumer.
#[derive(Debug, Serialize)]
pub struct ConsumerState {
    /// The consumer.
    pub cluster: String,
    /// Whether it is there.
    pub state: EndpointState,
    /// The EndpointSlice in the consumer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slice: Option<String>,
    /// Why.
    #[serde(flatten)]
    pub diagnosis: Diagnosis,
}

/// Whether an endpoint is in a consumer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum EndpointState {
    /// An EndpointSlice of the consumer holds it.
    Present,
    /// None does.
    Missing,
}

impl ConsumerState {
    /// Whether it is there, or is to be used nowhere in the consumer.
    fn is_as_it_should_be(&self) -> bool {
        self.state == EndpointState::Present || self.diagnosis.reason == Reason::NotPreferred
    }
}

impl TiersReport {
    pub(super) fn of(tiers: &Tiers) -> Self {
        let report = |all: &[TierState]| {
            let filled = all.iter().filter(|state| !state.clusters.is_empty());
            filled.map(TierReport::of).collect()
        };
        let mut standby: Vec<_> = report(tiers.standby());
        standby.extend((!tiers.unreachable.is_empty()).then(|| TierReport {
            tier: "unreachable".to_owned(),
            clusters: tiers.unreachable.iter().map(ToString::to_string).collect(),
            ready: 0,
            endpoints: 0,
        }));
        Self {
            serving_from: report(tiers.carrying()),
            standby,
        }
    }
}

impl TierReport {
    fn of(state: &TierState) -> Self {
        Self {
            tier: state.name(),
            clusters: state.clusters.iter().map(ToString::to_string).collect(),
            ready: state.readiness.ready,
            endpoints: state.readiness.total,
        }
    }
}

/// `region (member2, member3): 3 of 4 ready`.
impl fmt::Display for TierReport {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} ({})", self.tier, self.clusters.join(", "))?;
        match self.endpoints {
            0 => Ok(()),
            all => write!(out, ": {} of {all} ready", self.ready),
        }
    }
}

fn exposure<S: serde::Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(match path {
        Path::Native => "Native",
        Path::Clusterset => "ClusterSet",
    })
}

impl Explanation {
    pub(super) fn new(
        (namespace, name): (&str, &str),
        diagnoses: Vec<Diagnosis>,
        exposures: Vec<ExposureReport>,
    ) -> Self {
        let mut explanation = Self {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            ready: false,
            diagnoses,
            exposures,
        };
        explanation.ready = explanation.is_ready();
        explanation
    }

    /// Adds what is known from elsewhere of the service as a whole.
    pub fn add(&mut self, diagnosis: Diagnosis) {
        self.diagnoses.insert(0, diagnosis);
        self.ready = self.is_ready();
    }

    fn is_ready(&self) -> bool {
        let of_endpoints = self.consumer_states(|endpoint| endpoint.ready);
        let mut of_endpoints = of_endpoints.into_iter();
        self.of_clusters().all(Diagnosis::is_healthy)
            && of_endpoints.all(|one| one.is_as_it_should_be() && one.diagnosis.is_healthy())
    }

    /// Whether it is not ready, and members that could not be read are the only reason.
    pub fn is_wrong_only_where_unread(&self) -> bool {
        let is_unread = |one: &Diagnosis| one.reason == Reason::MemberNotRead;
        let of_endpoints = self.consumer_states(|endpoint| endpoint.ready);
        !self.ready
            && self
                .of_clusters()
                .all(|one| one.is_healthy() || is_unread(one))
            && of_endpoints.into_iter().all(|one| {
                is_unread(&one.diagnosis)
                    || (one.is_as_it_should_be() && one.diagnosis.is_healthy())
            })
    }

    /// What is said of the service and of its clusters.
    fn of_clusters(&self) -> impl Iterator<Item = &Diagnosis> {
        let of_exposures = self.exposures.iter().flat_map(|exposure| {
            let consumers = exposure.consumers.iter().flat_map(|one| &one.diagnoses);
            let providers = exposure.providers.iter().flat_map(|one| &one.diagnoses);
            exposure.diagnoses.iter().chain(consumers).chain(providers)
        });
        self.diagnoses.iter().chain(of_exposures)
    }

    /// What became of these endpoints in each consumer.
    pub fn consumer_states(&self, of: impl Fn(&EndpointReport) -> bool) -> Vec<&ConsumerState> {
        let providers = self
            .exposures
            .iter()
            .flat_map(|exposure| &exposure.providers);
        let endpoints = providers.flat_map(|provider| &provider.endpoints);
        let chosen = endpoints.filter(|endpoint| of(endpoint));
        chosen.flat_map(|endpoint| &endpoint.consumers).collect()
    }

    /// All that is said, of these endpoints too.
    pub fn diagnoses_with(&self, of: impl Fn(&EndpointReport) -> bool) -> Vec<&Diagnosis> {
        let states = self.consumer_states(of).into_iter();
        let of_endpoints = states.map(|state| &state.diagnosis);
        self.of_clusters().chain(of_endpoints).collect()
    }

    /// What is wrong, once each.
    pub fn unhealthy(&self) -> Vec<String> {
        let all = self.diagnoses_with(|endpoint| endpoint.ready).into_iter();
        let unhealthy = all.filter(|one| !one.is_healthy());
        let distinct: BTreeSet<_> = unhealthy.map(|one| one.message.clone()).collect();
        distinct.into_iter().collect()
    }
}
