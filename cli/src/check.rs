//! `kubectl mcs check`: checks that causeway is installed correctly and running.

mod certificate;
mod creation;
mod diagnosis;
pub(crate) mod gather;
pub(crate) mod rights;
#[cfg(test)]
mod tests;

use serde::Serialize;

use crate::api_server::{ApiServer, RequestError};
use crate::args::{CheckArgs, HubArgs};
use crate::exit::{CommandError, ExitState, PROBLEM};
use crate::output;
use crate::output::OutputError;
use crate::table::Table;

/// Failed check of an installation.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CheckError {
    #[error(transparent)]
    Request(#[from] RequestError),
    #[error(transparent)]
    Output(#[from] OutputError),
}

impl CommandError for CheckError {
    fn exit_code(&self) -> u8 {
        match self {
            Self::Request(error) => error.exit_code(),
            _ => PROBLEM,
        }
    }
}

/// Result of one check of an installation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) enum State {
    /// The checked part is correct.
    Healthy,
    /// The checked part is correct, with a risk that causeway cannot remove.
    Warning,
    /// The checked part is wrong.
    Unhealthy,
    /// The checked part could not be read.
    Unknown,
    /// The check does not apply to this installation.
    Skipped,
}

/// One check of an installation. Programs read this format, and its field names must not change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Check {
    pub name: String,
    pub state: State,
    pub message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
}

/// Checks of an installation or of a member.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    /// Whether no check is [`State::Unhealthy`].
    pub healthy: bool,
    pub checks: Vec<Check>,
}

/// Checks an installation and prints the report. Returns the exit state of its checks.
pub(crate) async fn run(hub: &HubArgs, args: &CheckArgs) -> Result<ExitState, CheckError> {
    let hub = ApiServer::hub(hub).await?;
    let report = examine(&hub, args).await?;
    output::report(&report, args.output.format, || report.render())?;
    Ok(report.exit_state())
}

/// Checks an installation.
///
/// # Errors
/// [`CheckError`] if the hub does not respond.
pub(crate) async fn examine(hub: &ApiServer, args: &CheckArgs) -> Result<Report, CheckError> {
    let installation = gather::read(hub, args).await?;
    Ok(Report::new(diagnosis::diagnose(&installation)))
}

impl Report {
    /// Creates a report from checks.
    pub(crate) fn new(checks: Vec<Check>) -> Self {
        let healthy = checks.iter().all(|check| check.state != State::Unhealthy);
        Self { healthy, checks }
    }

    /// Returns the combined exit state of all checks.
    pub(crate) fn exit_state(&self) -> ExitState {
        let is_known = |check: &Check| check.state != State::Unknown;
        ExitState::new(self.healthy, self.checks.iter().all(is_known))
    }

    /// Renders the report as a table for users.
    pub(crate) fn render(&self) -> String {
        let mut table = Table::new(["CHECK", "STATE", "MESSAGE"]);
        for check in &self.checks {
            let remedy = check.remedy.iter().map(|remedy| format!("-> {remedy}"));
            let state = format!("{:?}", check.state);
            table.row([check.name.clone(), state, check.message.clone()], remedy);
        }
        table.render()
    }
}

impl Check {
    pub(crate) fn new(name: impl Into<String>, state: State, message: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            state,
            message: message.into(),
            remedy: None,
        }
    }

    pub(crate) fn remedy(mut self, remedy: impl Into<String>) -> Self {
        self.remedy = Some(remedy.into());
        self
    }
}
