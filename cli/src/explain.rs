//! `kubectl mcs explain`: where each endpoint of a service is, and why it is not where it should be.
//!
//! The engine says it, by the controller's own plan over what was read here. What the plan does not know is added: whether the
//! controller runs, and how far Karmada propagates the Service.

#[cfg(test)]
mod tests;
pub(crate) mod text;

use causeway::domain::ServiceKey;
use causeway_engine::explain::{ConsumerReport, Diagnosis, Explanation, Reason, explain};
use causeway_engine::plan::Settings;
use k8s_openapi::jiff::Timestamp;
use serde::Serialize;

use crate::api_server::{ApiServer, RequestError};
use crate::args::{ExplainArgs, HubArgs};
use crate::lease::{self, Controller};
use crate::output;
use crate::output::OutputError;
use crate::snapshot::gather::{self, GatherError};
use crate::snapshot::{self, Snapshot};

/// A service could not be explained.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ExplainError {
    #[error(transparent)]
    Request(#[from] RequestError),
    #[error(transparent)]
    Gather(#[from] GatherError),
    #[error(transparent)]
    Output(#[from] OutputError),
}

/// Whether every ready endpoint of a service is in every consumer, and what is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Health {
    pub ready: bool,
    /// What is so, in one line.
    pub message: String,
}

/// The health of a service that Karmada manages, by what the members hold.
///
/// # Errors
/// Where the hub cannot be asked.
pub(crate) async fn read_health(
    hub: &ApiServer,
    key: &ServiceKey,
    allow_insecure: bool,
) -> Result<Health, ExplainError> {
    let snapshot = gather::read(hub, key, allow_insecure).await?;
    Ok(health(&snapshot, &explained(&snapshot)))
}

/// The same of what was read and explained already.
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

/// Which providers the consumers of a service use first, by one of its names.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Serving {
    /// The name by which clients reach it.
    pub address: String,
    /// The clusters whose clients may reach it.
    pub consumers: Vec<ConsumerReport>,
}

/// Explains a service; says whether every ready endpoint is in every consumer.
pub(crate) async fn run(hub: &HubArgs, args: &ExplainArgs) -> Result<bool, ExplainError> {
    let hub = ApiServer::hub(hub).await?;
    let key = ServiceKey::new(hub.config.default_namespace.as_str(), args.name.as_str());
    let explanation = examine(&hub, &key, args).await?;
    output::report(&explanation, args.output.format, || {
        text::render(&explanation, args.endpoints)
    })?;
    Ok(explanation.ready)
}

/// What is so of a service, the controller of that Lease included.
///
/// # Errors
/// Where the hub cannot be asked.
pub(crate) async fn examine(
    hub: &ApiServer,
    key: &ServiceKey,
    args: &ExplainArgs,
) -> Result<Explanation, ExplainError> {
    let snapshot = gather::read(hub, key, args.insecure.allow_insecure_members).await?;
    let controller = Controller::read(hub, &args.controller.lease).await?;
    let mut explanation = explained(&snapshot);
    if let Some(problem) = controller.problem(Timestamp::now()) {
        explanation.add(Diagnosis::new(Reason::ControllerNotRunning, problem).fix(lease::REMEDY));
    }
    Ok(explanation)
}

/// Which providers the consumers of a service use first: for each exposure in which they do not use all alike, its address and its
/// consumers.
pub(crate) async fn serving(
    hub: &ApiServer,
    key: &ServiceKey,
    allow_insecure: bool,
) -> Result<Vec<Serving>, ExplainError> {
    let snapshot = gather::read(hub, key, allow_insecure).await?;
    let exposures = explained(&snapshot).exposures.into_iter();
    let serving = exposures.map(|exposure| Serving {
        address: exposure.address,
        consumers: exposure.consumers,
    });
    let chooses = |one: &Serving| {
        one.consumers
            .iter()
            .any(|consumer| consumer.tiers.is_some())
    };
    Ok(serving.filter(chooses).collect())
}

/// What the engine says of what was read, and what Karmada says of its own propagation.
pub(crate) fn explained(snapshot: &Snapshot) -> Explanation {
    let (hub, members) = snapshot.lists();
    let settings = Settings::reported(&hub, &members, &snapshot.key);
    let mut explanation = explain(&hub, &members, &settings, &snapshot.key, snapshot::now());
    if let Some(unapplied) = &snapshot.unapplied {
        let diagnosis = Diagnosis::new(Reason::NotPropagated, unapplied.message.as_str());
        explanation.add(diagnosis.fix(unapplied.remedy.as_str()));
    }
    explanation
}
