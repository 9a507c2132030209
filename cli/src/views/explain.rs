//! Explanations of services: the place of each endpoint, and the reason that one is missing.
//!
//! The engine explains the objects that were read, with the controller's own plan. This module adds
//! facts that the plan does not include: whether the controller runs, and the state of Karmada's
//! propagation of the Service.

#[cfg(test)]
mod tests;
pub(crate) mod text;

use causeway_engine::explain::{
    ConsumerReport, Diagnosis, EndpointReport, EndpointState, Explanation, ExposureReport, explain,
};
use causeway_engine::plan::Settings;
use causeway_engine::reasons::Reason;
use k8s_openapi::jiff::Timestamp;
use serde::Serialize;

use crate::cluster::lease::{self, Controller};
use crate::observe::service::{self, Snapshot};
use crate::observe::verification::{self, Verification};
use crate::term::age;

/// Health of a service that Karmada manages: whether every consumer has every ready endpoint, and
/// the problems.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Health {
    pub ready: bool,
    /// Summary in one line.
    pub message: String,
}

/// Returns the health of a service that Karmada manages, from the objects in the members.
pub(crate) fn health(snapshot: &Snapshot, explanation: &Explanation) -> Health {
    let state = match explanation.unhealthy().as_slice() {
        [] => ", and every ready endpoint is in every consumer".to_owned(),
        unhealthy => format!(": {}", unhealthy.join("; ")),
    };
    Health {
        ready: explanation.ready,
        message: format!(
            "Karmada's own controllers carry it{state}; for causeway to carry it: {}",
            snapshot.adopt()
        ),
    }
}

/// Providers that the consumers of a service use first, for one of its addresses.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Serving {
    /// Name by which clients reach the service.
    pub address: String,
    /// Clusters whose clients may reach the service.
    pub consumers: Vec<ConsumerReport>,
}

/// Explanation with the last result of `verify`. Programs read this format, and its field names
/// must not change.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Answer<'a> {
    #[serde(flatten)]
    explanation: &'a Explanation,
    #[serde(skip_serializing_if = "Option::is_none")]
    verified: Option<Verified<'a>>,
    /// Reason that the last result is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    verified_unknown: Option<&'a str>,
}

/// Last result of `verify` with its summary.
#[derive(Serialize)]
struct Verified<'a> {
    #[serde(flatten)]
    last: &'a Verification,
    summary: String,
}

impl<'a> Answer<'a> {
    /// Combines an explanation with the last result of `verify`, or with the reason that it is
    /// unknown.
    pub(crate) fn new(explanation: &'a Explanation, verified: &'a verification::Read) -> Self {
        let last = verified.as_ref().ok().and_then(Option::as_ref);
        Self {
            explanation,
            verified: last.map(|last| Verified {
                last,
                summary: last.summary(),
            }),
            verified_unknown: verified.as_ref().err().map(String::as_str),
        }
    }

    pub(crate) fn render(&self, endpoints: bool) -> String {
        let mut text = text::render(self.explanation, endpoints);
        if let Some(Verified { last, summary }) = &self.verified {
            let age = age::since(last.time, Timestamp::now());
            text.push_str(&format!("\nverified {age} ago: {summary}\n"));
        }
        if let Some(why) = self.verified_unknown {
            text.push_str(&format!("\nlast result of verify is unknown: {why}\n"));
        }
        text
    }
}

/// Ready endpoints of a service in one consumer, for one address.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct ConsumerEndpoints {
    /// Name by which clients reach the service.
    pub address: String,
    pub consumer: String,
    /// Number of ready endpoints, or `None` if the consumer could not be read.
    pub ready: Option<usize>,
}

/// State of a service in its consumers.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Exposed {
    /// Exposures with consumers that prefer some providers.
    pub serving: Vec<Serving>,
    pub endpoints: Vec<ConsumerEndpoints>,
}

/// Returns the endpoints that each consumer of a service has, and the providers that it uses first.
pub(crate) fn exposed(snapshot: &Snapshot) -> Exposed {
    let exposures = explained(snapshot).exposures;
    let endpoints = exposures.iter();
    let endpoints = endpoints.flat_map(|exposure| endpoints_of(snapshot, exposure));
    let endpoints = endpoints.collect();
    let serving = exposures.into_iter().map(|exposure| Serving {
        address: exposure.address,
        consumers: exposure.consumers,
    });
    let chooses = |one: &Serving| {
        one.consumers
            .iter()
            .any(|consumer| consumer.tiers.is_some())
    };
    Exposed {
        serving: serving.filter(chooses).collect(),
        endpoints,
    }
}

/// Counts the ready endpoints of each consumer.
fn endpoints_of(snapshot: &Snapshot, exposure: &ExposureReport) -> Vec<ConsumerEndpoints> {
    let providers = exposure.providers.iter();
    let endpoints = providers.flat_map(|provider| &provider.endpoints);
    let ready: Vec<_> = endpoints.filter(|endpoint| endpoint.ready).collect();
    let of = |consumer: &ConsumerReport| {
        let is_read = matches!(snapshot.members.get(&consumer.cluster), Some(Ok(_)));
        let has = |endpoint: &&&EndpointReport| {
            endpoint
                .consumers
                .iter()
                .any(|one| one.cluster == consumer.cluster && one.state == EndpointState::Present)
        };
        ConsumerEndpoints {
            address: exposure.address.clone(),
            consumer: consumer.cluster.clone(),
            ready: is_read.then(|| ready.iter().filter(has).count()),
        }
    };
    exposure.consumers.iter().map(of).collect()
}

/// Returns the engine's explanation of a snapshot, with the state of Karmada's propagation.
pub(crate) fn explained(snapshot: &Snapshot) -> Explanation {
    let (hub, members) = snapshot.lists();
    let settings = Settings::reported(&hub, &members, &snapshot.key);
    let mut explanation = explain(&hub, &members, &settings, &snapshot.key, service::now());
    if let Some(unapplied) = &snapshot.unapplied {
        let diagnosis = Diagnosis::new(Reason::NotPropagated, unapplied.message.as_str());
        explanation.add(diagnosis.fix(unapplied.remedy.as_str()));
    }
    explanation
}

/// Returns [`explained`] with the problem of a controller that does not run.
pub(crate) fn explained_with(
    snapshot: &Snapshot,
    controller: &Controller,
    now: Timestamp,
) -> Explanation {
    let mut explanation = explained(snapshot);
    if let Some(problem) = controller.problem(now) {
        explanation.add(not_running(&problem));
    }
    explanation
}

/// Returns the diagnosis of a controller that does not run.
pub(crate) fn not_running(problem: &str) -> Diagnosis {
    Diagnosis::new(Reason::ControllerNotRunning, problem).fix(lease::REMEDY)
}
