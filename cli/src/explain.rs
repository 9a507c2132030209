//! `kubectl mcs explain`: where each endpoint of a service is, and why it is not where it should be.

pub(crate) mod gather;
mod judge;
mod ports;
mod ranges;
mod report;
pub(crate) mod scene;
mod standing;
#[cfg(test)]
pub(crate) mod tests;
mod text;

use causeway::domain::ServiceKey;

use crate::args::{ExplainArgs, HubArgs, Lease};
use crate::ask::{ApiServer, AskError};
use crate::hub::DEFINE;
use crate::say;
use crate::say::OutputError;

/// A service could not be explained.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ExplainError {
    #[error(transparent)]
    Ask(#[from] AskError),
    #[error(transparent)]
    Output(#[from] OutputError),
    #[error("the hub serves no {0}; it gets the definition by {DEFINE}")]
    NoApi(&'static str),
}

/// Whether every ready endpoint of a service is in every consumer, and what is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Judgement {
    pub ready: bool,
    /// What is so, in one line.
    pub message: String,
}

/// Judges a service by what the members hold.
///
/// # Errors
/// Where the hub cannot be asked.
pub(crate) async fn judgement(
    hub: &ApiServer,
    key: &ServiceKey,
    allow_insecure: bool,
) -> Result<Judgement, ExplainError> {
    let question = gather::Question {
        key: key.clone(),
        lease: &Lease(None),
        allow_insecure,
    };
    let scene = gather::scene(hub, &question).await?;
    let explanation = judge::explain(&scene);
    let wrong = explanation.wrong();
    let message = match wrong.as_slice() {
        [] => format!(
            "Karmada's own controllers carry it, and every ready endpoint is in every consumer; for causeway to carry it: {}",
            scene.adopt()
        ),
        wrong => format!(
            "Karmada's own controllers carry it: {}; for causeway to carry it: {}",
            wrong.join("; "),
            scene.adopt()
        ),
    };
    Ok(Judgement {
        ready: explanation.ready,
        message,
    })
}

/// Explains a service; says whether every ready endpoint is in every consumer.
pub(crate) async fn run(hub: &HubArgs, args: &ExplainArgs) -> Result<bool, ExplainError> {
    let hub = ApiServer::hub(hub).await?;
    let question = gather::Question {
        key: ServiceKey::new(hub.config.default_namespace.as_str(), args.name.as_str()),
        lease: &args.controller.lease,
        allow_insecure: args.insecure.allow_insecure_members,
    };
    let scene = gather::scene(&hub, &question).await?;
    let explanation = judge::explain(&scene);
    say::report(&explanation, args.output.format, || {
        text::render(&explanation, args.endpoints)
    })?;
    Ok(explanation.ready)
}
