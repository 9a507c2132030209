//! What came of moving services between Karmada and causeway; also the form that programs read, so names of fields stay as they are.

use std::fmt;

use causeway::domain::ServiceKey;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::ResourceExt as _;
use serde::Serialize;

use super::step::Step;

/// What may be written now, and what is to be waited for.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Plan {
    pub steps: Vec<Step>,
    pub left: Vec<Left>,
}

impl Plan {
    /// Writes, and nothing to wait for.
    pub(crate) fn steps(steps: Vec<Step>) -> Self {
        Self {
            steps,
            left: Vec::new(),
        }
    }

    /// Whether all is done.
    pub(crate) fn is_empty(&self) -> bool {
        self.steps.is_empty() && self.left.is_empty()
    }
}

/// Something that is not done, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Left {
    /// The member that it is in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub member: Option<String>,
    /// The EndpointSlice, where it is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub endpoint_slice: Option<String>,
    pub message: String,
}

impl Left {
    /// A slice of a member.
    pub(crate) fn slice(member: &str, slice: &EndpointSlice, why: String) -> Self {
        Self {
            member: Some(member.to_owned()),
            endpoint_slice: Some(slice.name_any()),
            message: why,
        }
    }

    /// Something else of a member.
    pub(crate) fn member(member: &str, why: String) -> Self {
        Self {
            member: Some(member.to_owned()),
            endpoint_slice: None,
            message: why,
        }
    }

    /// Something on the hub.
    pub(crate) fn hub(why: String) -> Self {
        Self {
            member: None,
            endpoint_slice: None,
            message: why,
        }
    }
}

impl fmt::Display for Left {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.member, &self.endpoint_slice) {
            (Some(member), Some(slice)) => {
                write!(out, "{member}: EndpointSlice {slice}: {}", self.message)
            }
            (Some(member), None) => write!(out, "{member}: {}", self.message),
            (None, _) => out.write_str(&self.message),
        }
    }
}

/// How it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) enum State {
    /// All is done.
    Done,
    /// Nothing was written, as requested.
    Planned,
    /// Part of it is done; the same command goes on with it.
    Unfinished,
    /// Nothing was done, or no more.
    Refused,
}

/// A write that was made, or would be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Written {
    /// The member that it is written in; the hub without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub member: Option<String>,
    /// The command that does the same.
    pub command: String,
}

impl From<&Step> for Written {
    fn from(step: &Step) -> Self {
        Self {
            member: step.member().map(ToOwned::to_owned),
            command: step.command(),
        }
    }
}

/// What came of one service.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Outcome {
    pub namespace: String,
    pub name: String,
    pub state: State,
    pub message: String,
    pub commands: Vec<Written>,
    pub left: Vec<Left>,
}

impl Outcome {
    /// Nothing yet.
    pub(crate) fn new(key: &ServiceKey, state: State, message: impl Into<String>) -> Self {
        Self {
            namespace: key.namespace.to_string(),
            name: key.name.to_string(),
            state,
            message: message.into(),
            commands: Vec::new(),
            left: Vec::new(),
        }
    }

    /// Whether nothing is left to do.
    pub(crate) fn is_complete(&self) -> bool {
        matches!(self.state, State::Done | State::Planned)
    }

    /// The lines for a person: what came of it, and what is left.
    pub(crate) fn lines(&self) -> Vec<String> {
        let first = format!("{}/{}: {}", self.namespace, self.name, self.message);
        let left = self.left.iter().map(|left| format!("  left: {left}"));
        std::iter::once(first).chain(left).collect()
    }
}

/// What came of all of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Report {
    /// Whether all of it is done.
    pub done: bool,
    pub dry_run: bool,
    pub services: Vec<Outcome>,
}

impl Report {
    /// Sums up.
    pub(crate) fn new(dry_run: bool, services: Vec<Outcome>) -> Self {
        Self {
            done: services.iter().all(Outcome::is_complete),
            dry_run,
            services,
        }
    }

    /// `2 of 3 services adopted; not: shop/foo, shop/bar`.
    pub(crate) fn summary(&self, word: &str) -> String {
        let names = self.services.iter().filter(|one| !one.is_complete());
        let names: Vec<_> = names
            .map(|one| format!("{}/{}", one.namespace, one.name))
            .collect();
        let count = self.services.len();
        let plural = if count == 1 { "" } else { "s" };
        let rest = match names.as_slice() {
            [] => String::new(),
            names => format!("; not: {}", names.join(", ")),
        };
        format!(
            "{} of {count} service{plural} {word}{rest}",
            count - names.len()
        )
    }
}

/// Renders plans as a dry run does.
#[cfg(test)]
pub(crate) fn golden(
    snapshot: &crate::observe::service::Snapshot,
    plans: &[Plan],
    obstacle: fn(&crate::observe::service::Snapshot) -> Option<String>,
) -> String {
    let outcomes = plans.iter().map(|plan| Outcome {
        commands: plan.steps.iter().map(Written::from).collect(),
        left: plan.left.clone(),
        ..Outcome::new(
            &snapshot.key,
            State::Planned,
            format!("{:?}", obstacle(snapshot)),
        )
    });
    let outcomes: Vec<_> = outcomes.collect();
    let lines = outcomes.iter().flat_map(Outcome::lines);
    let lines: Vec<_> = lines.collect();
    crate::golden::both(&lines.join("\n"), &Report::new(true, outcomes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_names_what_is_not_done() {
        let key = |name: &str| ServiceKey::new("shop", name);
        let services = vec![
            Outcome::new(&key("a"), State::Done, "adopted"),
            Outcome::new(&key("b"), State::Unfinished, "not all"),
            Outcome::new(&key("c"), State::Refused, "no"),
        ];
        let report = Report::new(false, services);
        assert!(!report.done);
        assert_eq!(
            report.summary("adopted"),
            "1 of 3 services adopted; not: shop/b, shop/c"
        );
        let report = Report::new(true, vec![Outcome::new(&key("a"), State::Planned, "")]);
        assert!(report.done);
        assert_eq!(
            report.summary("would be adopted"),
            "1 of 1 service would be adopted"
        );
    }
}
