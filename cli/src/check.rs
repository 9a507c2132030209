//! `kubectl mcs check`: whether causeway is installed as it should be, and at work.

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

/// An installation could not be checked.
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

/// How one check of an installation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) enum State {
    /// As it should be.
    Healthy,
    /// As it should be, with a risk that causeway cannot remove.
    Warning,
    /// Not as it should be.
    Unhealthy,
    /// It could not be read.
    Unknown,
    /// It does not apply to this installation.
    Skipped,
}

/// One check of an installation; also the form that programs read, so names of fields stay as they are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Check {
    pub name: String,
    pub state: State,
    pub message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
}

/// The checks of an installation, or of a member.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    /// Whether nothing is known to be wrong.
    pub healthy: bool,
    pub checks: Vec<Check>,
}

/// Checks an installation, and returns the exit state of its checks.
pub(crate) async fn run(hub: &HubArgs, args: &CheckArgs) -> Result<ExitState, CheckError> {
    let hub = ApiServer::hub(hub).await?;
    let report = examine(&hub, args).await?;
    output::report(&report, args.output.format, || report.render())?;
    Ok(report.exit_state())
}

/// Checks an installation.
///
/// # Errors
/// Where the hub cannot be asked.
pub(crate) async fn examine(hub: &ApiServer, args: &CheckArgs) -> Result<Report, CheckError> {
    let installation = gather::read(hub, args).await?;
    Ok(Report::new(diagnosis::diagnose(&installation)))
}

impl Report {
    /// The report of these checks.
    pub(crate) fn new(checks: Vec<Check>) -> Self {
        let healthy = checks.iter().all(|check| check.state != State::Unhealthy);
        Self { healthy, checks }
    }

    /// Exit state of all checks together.
    pub(crate) fn exit_state(&self) -> ExitState {
        let is_known = |check: &Check| check.state != State::Unknown;
        ExitState::new(self.healthy, self.checks.iter().all(is_known))
    }

    /// The form that people read.
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
