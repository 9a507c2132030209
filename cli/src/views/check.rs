//! Checks of an installation, from its objects.

mod certificate;
mod diagnosis;
#[cfg(test)]
mod tests;

use std::fmt;

use serde::Serialize;

pub(crate) use self::diagnosis::diagnose;
use crate::term::exit::ExitState;
use crate::term::table::Table;

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

impl fmt::Display for Check {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}: {}", self.name, self.message)?;
        match &self.remedy {
            Some(remedy) => write!(out, "; {remedy}"),
            None => Ok(()),
        }
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

    pub(crate) fn healthy(name: impl Into<String>, message: impl Into<String>) -> Self {
        Self::new(name, State::Healthy, message)
    }

    pub(crate) fn unhealthy(name: impl Into<String>, message: impl Into<String>) -> Self {
        Self::new(name, State::Unhealthy, message)
    }

    pub(crate) fn skipped(name: impl Into<String>, message: impl Into<String>) -> Self {
        Self::new(name, State::Skipped, message)
    }

    /// Returns a check of a part that could not be read.
    pub(crate) fn unchecked(name: impl Into<String>, why: impl fmt::Display) -> Self {
        Self::new(name, State::Unknown, format!("not checked: {why}"))
    }

    pub(crate) fn remedy(mut self, remedy: impl Into<String>) -> Self {
        self.remedy = Some(remedy.into());
        self
    }
}
