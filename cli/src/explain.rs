//! `kubectl mcs explain`: where each endpoint of a service is, and why it is not where it should be.

mod gather;
mod judge;
mod ports;
mod ranges;
mod report;
mod scene;
mod standing;
#[cfg(test)]
mod tests;
mod text;

use crate::args::{ExplainArgs, Format, HubArgs};
use crate::ask::{ApiServer, AskError};
use crate::hub::DEFINE;
use crate::say;

/// A service could not be explained.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ExplainError {
    #[error(transparent)]
    Ask(#[from] AskError),
    #[error("output: {0}")]
    Io(#[from] std::io::Error),
    #[error("output: {0}")]
    Json(#[from] serde_json::Error),
    #[error("output: {0}")]
    Yaml(#[from] serde_saphyr::ser::Error),
    #[error("the hub serves no {0}; it gets the definition by {DEFINE}")]
    NoApi(&'static str),
}

/// Explains a service; says whether every ready endpoint is in every consumer.
pub(crate) async fn run(hub: &HubArgs, args: &ExplainArgs) -> Result<bool, ExplainError> {
    let hub = ApiServer::hub(hub).await?;
    let scene = gather::scene(&hub, args).await?;
    let explanation = judge::explain(&scene);
    let text = match args.output {
        Some(Format::Json) => serde_json::to_string_pretty(&explanation)?,
        Some(Format::Yaml) => serde_saphyr::to_string(&explanation)?,
        None => text::render(&explanation, args.endpoints),
    };
    say::result(text.trim_end())?;
    Ok(explanation.ready)
}
