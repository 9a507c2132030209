//! Outcome of moves between Karmada and causeway. Programs parse the serialized form: field names
//! are stable.

use std::fmt;

use causeway::domain::{ClusterName, ServiceKey};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::ResourceExt as _;
use serde::Serialize;

use super::step::Step;
use crate::observe::connect::ConnectError;
use crate::observe::service::Snapshot;

/// Possible writes, and the unfinished rest.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Plan {
    pub steps: Vec<Step>,
    pub left: Vec<Left>,
}

impl Plan {
    /// Returns a plan with writes and without a rest.
    pub(crate) fn steps(steps: Vec<Step>) -> Self {
        Self {
            steps,
            left: Vec::new(),
        }
    }

    /// Whether the move is complete.
    pub(crate) fn is_empty(&self) -> bool {
        self.steps.is_empty() && self.left.is_empty()
    }
}

/// Unfinished part of a move, with the reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Left {
    /// Member of the object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub member: Option<String>,
    /// Name of the EndpointSlice, if the object is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub endpoint_slice: Option<String>,
    pub message: String,
    /// Whether the member could not be read, so that what remains there is unknown.
    #[serde(skip)]
    pub is_unread: bool,
}

impl Left {
    /// Returns the rest for a slice in a member.
    pub(crate) fn slice(member: &str, slice: &EndpointSlice, why: String) -> Self {
        Self {
            endpoint_slice: Some(slice.name_any()),
            ..Self::member(member, why)
        }
    }

    /// Returns the rest for another object in a member.
    pub(crate) fn member(member: &str, why: String) -> Self {
        Self {
            member: Some(member.to_owned()),
            ..Self::hub(why)
        }
    }

    /// Returns the rest for a member that could not be read. `whose` names the manager of the
    /// objects that may remain there.
    pub(crate) fn unread(
        snapshot: &Snapshot,
        member: &str,
        whose: &str,
        why: &ConnectError,
    ) -> Self {
        let remedy = match why {
            // Its message names the flag.
            ConnectError::OfAgent(_) => "",
            // Without the Cluster of a provider, its endpoints are withdrawn.
            _ if takes_part(snapshot, member) => "; make it readable to you",
            _ => "; make it readable to you, or remove its Cluster",
        };
        let why = format!("cannot be read, so objects of {whose} may remain there: {why}{remedy}");
        Self {
            is_unread: true,
            ..Self::member(member, why)
        }
    }

    /// Returns the rest for an object on the hub.
    pub(crate) fn hub(why: String) -> Self {
        Self {
            member: None,
            endpoint_slice: None,
            message: why,
            is_unread: false,
        }
    }
}

/// Whether a member may be a provider or a consumer of the service.
pub(crate) fn takes_part(snapshot: &Snapshot, name: &str) -> bool {
    let (Some(desired), Ok(name)) = (snapshot.desired(), ClusterName::try_from(name)) else {
        return true;
    };
    desired.providers.includes(&name) || desired.consumers.includes(&name)
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

/// Final state of a move.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) enum State {
    /// The move is complete.
    Done,
    /// Dry run: nothing was written.
    Planned,
    /// The move is incomplete. The same command continues it.
    Unfinished,
    /// The move was refused or stopped.
    Refused,
}

/// Write that was carried out, or that a dry run plans.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Written {
    /// Member of the write. Absent for the hub.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub member: Option<String>,
    /// Equivalent kubectl command.
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

/// Outcome for one service.
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
    /// Returns an outcome without writes.
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

    /// Whether the move needs no further command.
    pub(crate) fn is_complete(&self) -> bool {
        matches!(self.state, State::Done | State::Planned)
    }

    /// Whether all members that matter to a plan were read.
    pub(crate) fn is_known(&self) -> bool {
        self.state != State::Planned || self.left.iter().all(|left| !left.is_unread)
    }

    /// Returns the outcome and the unfinished rest as text lines.
    pub(crate) fn lines(&self) -> Vec<String> {
        let first = format!("{}/{}: {}", self.namespace, self.name, self.message);
        let left = self.left.iter().map(|left| format!("  left: {left}"));
        std::iter::once(first).chain(left).collect()
    }
}

/// Outcome for all services.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Report {
    /// Whether all moves are complete.
    pub done: bool,
    pub dry_run: bool,
    pub services: Vec<Outcome>,
}

impl Report {
    /// Builds the report from the outcomes of all services.
    pub(crate) fn new(dry_run: bool, services: Vec<Outcome>) -> Self {
        Self {
            done: services.iter().all(Outcome::is_complete),
            dry_run,
            services,
        }
    }

    /// Returns a summary such as `2 of 3 services adopted; not: shop/foo, shop/bar`.
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
    snapshot: &Snapshot,
    plans: &[Plan],
    obstacle: fn(&Snapshot) -> Option<String>,
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
    use crate::observe::fixtures::healthy;

    #[test]
    fn plan_with_an_unread_member_is_unknown() {
        let known = Left::member("a", "not confirmed".to_owned());
        let why = ConnectError::Timeout(5);
        let unread = Left::unread(&healthy(), "b", "Karmada", &why);
        for (state, left, is_known) in [
            (State::Planned, vec![], true),
            (State::Planned, vec![known.clone()], true),
            (State::Planned, vec![known, unread.clone()], false),
            (State::Unfinished, vec![unread], true),
        ] {
            let outcome = Outcome::new(&ServiceKey::new("shop", "foo"), state, "");
            let outcome = Outcome { left, ..outcome };
            assert_eq!(outcome.is_known(), is_known, "{outcome:?}");
        }
    }

    #[test]
    fn unread_member_has_a_remedy() {
        let snapshot = healthy();
        let of_agent = |name: &str| ConnectError::OfAgent(name.to_owned());
        let late = ConnectError::Timeout(5);
        let readable = "within 5 s; make it readable to you";
        let removed = "within 5 s; make it readable to you, or remove its Cluster";
        for (name, why, end) in [
            ("a", &late, readable),
            ("b", &late, readable),
            ("former", &late, removed),
            ("b", &ConnectError::NoReference, "; make it readable to you"),
            ("b", &of_agent("b"), ": --member-kubeconfig b=FILE"),
            ("former", &of_agent("c"), ": --member-kubeconfig c=FILE"),
        ] {
            let left = Left::unread(&snapshot, name, "Karmada", why).to_string();
            assert!(left.ends_with(end), "{left}");
        }
    }

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
