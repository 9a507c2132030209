use causeway::domain::{FieldError, FieldErrors, quoted};

use super::{Decision, Denial, Strictness};

/// Consequence of a violation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Severity {
    /// Denial.
    Denied,
    /// Warning in place of a denial: the same dry run may create or change the other object.
    DryRun,
    /// Warning.
    Warned,
}

impl Severity {
    /// Returns the severity of a violation that another object causes, such as the Service.
    pub(super) fn by_other_object(is_dry_run: bool) -> Self {
        if is_dry_run {
            Self::DryRun
        } else {
            Self::Denied
        }
    }

    /// Returns the severity of such a violation that a flag may turn into a warning.
    pub(super) fn by_policy(strictness: Strictness, is_dry_run: bool) -> Self {
        match strictness {
            Strictness::Warn => Self::Warned,
            Strictness::Deny => Self::by_other_object(is_dry_run),
        }
    }

    /// Returns the effect of a violation.
    pub(super) fn impact(self) -> Impact {
        match self {
            Self::Denied => Impact::Denial,
            Self::DryRun | Self::Warned => Impact::Warning,
        }
    }
}

/// Effect of an unconfirmed observation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Impact {
    /// A warning, for which a failed request is no error.
    Warning,
    /// A denial, or any decision at all.
    Denial,
}

/// Cached observations behind a decision, which a live request must confirm.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unconfirmed {
    /// The Service.
    pub service: Option<Impact>,
    /// The clusters.
    pub clusters: Option<Impact>,
}

impl Unconfirmed {
    /// Returns the greatest effect of an unconfirmed observation; `None` without any.
    pub fn impact(&self) -> Option<Impact> {
        self.service.max(self.clusters)
    }
}

/// Decision with its unconfirmed observations.
#[derive(Clone, Debug)]
pub struct Validation {
    /// Decision.
    pub decision: Decision,
    /// Unconfirmed observations.
    pub unconfirmed: Unconfirmed,
}

/// Maximum number of warnings in an answer.
const WARNINGS_MAX: usize = 10;

/// First warnings, and the number of further ones.
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

/// Violations of the rules.
#[derive(Debug, Default)]
pub(super) struct Violations {
    pub(super) errors: FieldErrors,
    pub(super) warnings: Warnings,
    pub(super) unconfirmed: Unconfirmed,
}

impl Violations {
    /// Adds a violation, and returns its effect.
    pub(super) fn add(&mut self, error: FieldError, severity: Severity) -> Impact {
        match severity {
            Severity::Denied => self.errors.push(error),
            Severity::DryRun => {
                let warning = format!("{} (refused without dry run)", error.remark());
                self.warnings.push(warning);
            }
            Severity::Warned => self.warnings.push(error.remark()),
        }
        severity.impact()
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
            let name = quoted(name).into_owned();
            let denial = Denial::Fields { name, errors };
            Decision::Deny { denial, warnings }
        };
        Validation {
            decision,
            unconfirmed,
        }
    }
}
