//! `kubectl mcs check`: whether causeway is installed as it should be, and at work.

mod gather;
mod judge;
mod rights;
#[cfg(test)]
mod tests;

use serde::Serialize;

use crate::args::{CheckArgs, HubArgs};
use crate::ask::{ApiServer, AskError};
use crate::say;
use crate::say::OutputError;
use crate::table::Table;

/// An installation could not be checked.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CheckError {
    #[error(transparent)]
    Ask(#[from] AskError),
    #[error(transparent)]
    Output(#[from] OutputError),
}

/// How one part of an installation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
enum State {
    /// As it should be.
    Well,
    /// Not as it should be.
    Wrong,
    /// It could not be looked at, or is not there to be looked at.
    Unknown,
}

/// One part of an installation; also the form that programs read, so names of fields stay as they are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct Part {
    name: String,
    state: State,
    message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    remedy: Option<String>,
}

#[derive(Debug, Serialize)]
struct Report {
    /// Whether nothing is known to be wrong.
    well: bool,
    checks: Vec<Part>,
}

/// Checks an installation; says whether nothing is known to be wrong.
pub(crate) async fn run(hub: &HubArgs, args: &CheckArgs) -> Result<bool, CheckError> {
    let hub = ApiServer::hub(hub).await?;
    let seen = gather::seen(&hub, args).await?;
    let checks = judge::judge(&seen);
    let well = checks.iter().all(|part| part.state != State::Wrong);
    let report = Report { well, checks };
    say::report(&report, args.output.format, || render(&report))?;
    Ok(well)
}

fn render(report: &Report) -> String {
    let mut table = Table::new(["CHECK", "STATE", "MESSAGE"]);
    for part in &report.checks {
        let remedy = part.remedy.iter().map(|remedy| format!("-> {remedy}"));
        let state = format!("{:?}", part.state);
        table.row([part.name.clone(), state, part.message.clone()], remedy);
    }
    table.render()
}

impl Part {
    fn new(name: impl Into<String>, state: State, message: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            state,
            message: message.into(),
            remedy: None,
        }
    }

    fn mend(mut self, remedy: impl Into<String>) -> Self {
        self.remedy = Some(remedy.into());
        self
    }
}
