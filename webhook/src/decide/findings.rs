use causeway::domain::{FieldError, FieldErrors};

use super::{Decision, Refusal};

/// What becomes of a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Severity {
    /// The object is refused.
    Refused,
    /// It would be refused, were this no dry run: what is missing may be part of the same dry run.
    Tried,
    /// The object is accepted with a warning.
    Warned,
}

/// How much rests on something that may be out of date.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stake {
    /// A warning: not worth failing for.
    Warning,
    /// A refusal, or any answer at all.
    Refusal,
}

/// What has to be looked at live before the answer is sure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Doubts {
    /// The Service of the name.
    pub service: Option<Stake>,
    /// The clusters.
    pub clusters: Option<Stake>,
}

impl Doubts {
    /// The most that rests on anything in doubt; `None` where nothing is.
    pub fn stake(&self) -> Option<Stake> {
        self.service.max(self.clusters)
    }
}

/// An answer, and how sure it is.
#[derive(Clone, Debug)]
pub struct Verdict {
    /// The answer.
    pub decision: Decision,
    /// What it rests on that may be out of date.
    pub doubts: Doubts,
}

/// How many warnings an answer gives.
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

/// What the rules find.
#[derive(Debug, Default)]
pub(super) struct Findings {
    pub(super) errors: FieldErrors,
    pub(super) warnings: Warnings,
    pub(super) doubts: Doubts,
}

impl Findings {
    /// Adds a fault, as severe as it is; says how much rests on it.
    pub(super) fn fault(&mut self, error: FieldError, severity: Severity) -> Stake {
        match severity {
            Severity::Refused => {
                self.errors.push(error);
                return Stake::Refusal;
            }
            Severity::Tried => {
                let said = format!("{} (refused without dry run)", error.remark());
                self.warnings.push(said);
            }
            Severity::Warned => self.warnings.push(error.remark()),
        }
        Stake::Warning
    }

    pub(super) fn doubt_service(&mut self, stake: Stake) {
        self.doubts.service = self.doubts.service.max(Some(stake));
    }

    pub(super) fn doubt_clusters(&mut self, stake: Stake) {
        self.doubts.clusters = self.doubts.clusters.max(Some(stake));
    }

    pub(super) fn verdict(self, name: &str) -> Verdict {
        let Self {
            errors,
            warnings,
            doubts,
        } = self;
        let warnings = warnings.into_list();
        let decision = if errors.is_empty() {
            Decision::Allow { warnings }
        } else {
            let name = name.to_owned();
            let refusal = Refusal::Fields { name, errors };
            Decision::Deny { refusal, warnings }
        };
        Verdict { decision, doubts }
    }
}
