//! Sentences about members in which the desired objects are not in place.

use std::fmt;

use super::{first_by, member};
use crate::problem::{MemberProblem, Tally};

impl Tally<'_> {
    /// Returns `1 of 3 consumers: member3 unreachable since ...`, the shortest problems first.
    pub(crate) fn message(&self) -> String {
        let mut texts: Vec<_> = self
            .problems
            .iter()
            .map(|(name, why)| format!("{name} {why}"))
            .collect();
        texts.sort_by_key(|text| (text.len(), text.clone()));
        let (failed, total, noun) = (self.problems.len(), self.total, self.noun);
        format!("{failed} of {total} {noun}: {}", first_by("; ", texts))
    }
}

/// Writes the text that follows the name of the member in a message.
impl fmt::Display for MemberProblem {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unusable(state) => out.write_str(&member::unusable(state).unwrap_or_default()),
            Self::Service(problem) => problem.fmt(out),
            Self::Write(problem) => problem.fmt(out),
            Self::NoService(key) => write!(out, "has no Service {key}"),
            Self::ServiceDeleting(key) => write!(out, "is deleting its Service {key}"),
            Self::NoSlice(key) => write!(out, "has no EndpointSlice of Service {}", key.name),
            Self::NotSeen(count) => {
                write!(
                    out,
                    "{count} EndpointSlices were written and are not seen back"
                )
            }
            Self::ClustersetHidden(failure) => {
                write!(
                    out,
                    "does not show its ServiceExports and ServiceImports ({failure})"
                )
            }
        }
    }
}
