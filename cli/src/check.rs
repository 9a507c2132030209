//! `kubectl mcs check`: whether causeway is installed as it should be, and at work.

mod diagnosis;
mod gather;
mod rights;
#[cfg(test)]
mod tests;

use serde::Serialize;

use crate::api_server::{ApiServer, RequestError};
use crate::args::{CheckArgs, HubArgs};
use crate::output;
use crate::output::OutputError;
use crate::table::Table;

/// An installation could not be checked.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CheckError {
    #[error(transparent)]
    Request(#[from] RequestError),
    #[error(transparent)]
    Output(#[from] OutputError),
}

/// How one check of an installation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
enum State {
    /// As it should be.
    Healthy,
    /// Not as it should be.
    Unhealthy,
    /// It could not be looked at, or is not there to be looked at.
    Unknown,
}

/// One check of an installation; also the form that programs read, so names of fields stay as they are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct Check {
    name: String,
    state: State,
    message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    remedy: Option<String>,
}

#[derive(Debug, Serialize)]
struct Report {
    /// Whether nothing is known to be wrong.
    healthy: bool,
    checks: Vec<Check>,
}

/// Checks an installation; says whether nothing is known to be wrong.
pub(crate) async fn run(hub: &HubArgs, args: &CheckArgs) -> Result<bool, CheckError> {
    let hub = ApiServer::hub(hub).await?;
    let installation = gather::read(&hub, args).await?;
    let checks = diagnosis::diagnose(&installation);
    let healthy = checks.iter().all(|check| check.state != State::Unhealthy);
    let report = Report { healthy, checks };
    output::report(&report, args.output.format, || render(&report))?;
    Ok(healthy)
}

fn render(report: &Report) -> String {
    let mut table = Table::new(["CHECK", "STATE", "MESSAGE"]);
    for check in &report.checks {
        let remedy = check.remedy.iter().map(|remedy| format!("-> {remedy}"));
        let state = format!("{:?}", check.state);
        table.row([check.name.clone(), state, check.message.clone()], remedy);
    }
    table.render()
}

impl Check {
    fn new(name: impl Into<String>, state: State, message: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            state,
            message: message.into(),
            remedy: None,
        }
    }

    fn remedy(mut self, remedy: impl Into<String>) -> Self {
        self.remedy = Some(remedy.into());
        self
    }
}
