use causeway::domain::{FieldError, FieldErrors};

use super::{Decision, Denial};

/// Consequence of a violation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Severity {
    /// The object is denied.
    Denied,
    /// It would be denied, were this no dry run: what is missing may be part of the same dry run.
    DryRun,
    /// The object is accepted with a warning.
    Warned,
}

/// Effect of an unconfirmed observation on the decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Impact {
    /// A warning: not worth an error.
    Warning,
    /// A denial, or any answer at all.
    Denial,
}

/// Observations behind a decision that may be out of date, which a live request must confirm.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unconfirmed {
    /// The Service of the name.
    pub service: Option<Impact>,
    /// The clusters.
    pub clusters: Option<Impact>,
}

impl Unconfirmed {
    /// The most that rests on anything unconfirmed; `None` where all is confirmed.
    pub fn impact(&self) -> Option<Impact> {
        self.service.max(self.clusters)
    }
}

/// A decision, and what of it is unconfirmed.
#[derive(Clone, Debug)]
pub struct Validation {
    /// The decision.
    pub decision: Decision,
    /// Observations behind it that may be out of date.
    pub unconfirmed: Unconfirmed,
}

/// Maximum number of warnings in an answer.
const WARNINGS_MAX: usize = 10;

/// The first warnings, and how many more there are.
#[derive(Debug, Default)]
pub(super) struct Warnings {
    shown: Vec<String>,
    more: usize,
}

impl Warnings {
    pub(super) fn push(&mut self, warning: String) {
        if self.shown.len() < WARNINGS_MAX {
            self.shown.push(warning);
        } else {
            self.more += 1;
        }
    }

    fn into_list(self) -> Vec<String> {
        let rest = (self.more > 0).then(|| format!("{} more warnings are not shown", self.more));
        self.shown.into_iter().chain(rest).collect()
    }
}

/// Violations that the rules find.
#[derive(Debug, Default)]
pub(super) struct Violations {
    pub(super) errors: FieldErrors,
    pub(super) warnings: Warnings,
    pub(super) unconfirmed: Unconfirmed,
}

impl Violations {
    /// Adds a violation, as severe as it is, and returns what it decides.
    pub(super) fn add(&mut self, error: FieldError, severity: Severity) -> Impact {
        match severity {
            Severity::Denied => {
                self.errors.push(error);
                return Impact::Denial;
            }
            Severity::DryRun => {
                let warning = format!("{} (refused without dry run)", error.remark());
                self.warnings.push(warning);
            }
            Severity::Warned => self.warnings.push(error.remark()),
        }
        Impact::Warning
    }

    pub(super) fn unconfirmed_service(&mut self, impact: Impact) {
        self.unconfirmed.service = self.unconfirmed.service.max(Some(impact));
    }

    pub(super) fn unconfirmed_clusters(&mut self, impact: Impact) {
        self.unconfirmed.clusters = self.unconfirmed.clusters.max(Some(impact));
    }

    pub(super) fn into_validation(self, name: &str) -> Validation {
        let Self {
            errors,
            warnings,
            unconfirmed,
        } = self;
        let warnings = warnings.into_list();
        let decision = if errors.is_empty() {
            Decision::Allow { warnings }
        } else {
            let name = name.to_owned();
            let denial = Denial::Fields { name, errors };
            Decision::Deny { denial, warnings }
        };
        Validation {
            decision,
            unconfirmed,
        }
    }
}
