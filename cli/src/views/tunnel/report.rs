//! State of the agents of all members. Programs read this format, and its field names must not
//! change. Pure.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::jiff::{SignedDuration, Timestamp};
use serde::Serialize;

use super::replica::{Connection, Shown};
use crate::term::exit::ExitState;

/// Time before the end of a certificate from which the report notes it.
const CERTIFICATE_ENDS: SignedDuration = SignedDuration::from_hours(30 * 24);

/// The same for a certificate that the agent renews from half of its seven days on.
const RENEWAL_FAILS: SignedDuration = SignedDuration::from_hours(2 * 24);

/// State of the agents of all members.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Report {
    pub members: Vec<MemberReport>,
    /// Replicas of causeway-tunnel.
    pub replicas: usize,
    /// Parts that could not be read, with remedies.
    pub notes: Vec<String>,
}

/// Connections of the agent of one member.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct MemberReport {
    pub name: String,
    /// Whether the hub reaches the member through causeway-tunnel. Absent if Clusters could not be
    /// read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tunnelled: Option<bool>,
    /// Absent if unknown: no read replica has a connection, and another could not be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connected: Option<bool>,
    /// Time since which it is connected, or is not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// Addresses from which the agent comes, or came last.
    pub from: BTreeSet<String>,
    /// Replicas to which the agent is connected.
    pub replicas: usize,
    /// Longest round trip of all connections, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub round_trip_millis: Option<f64>,
    pub streams: u32,
    /// Versions of the agent.
    pub agent: BTreeSet<String>,
    /// End of the first certificate that ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub certificate_expires: Option<Timestamp>,
    /// Whether the agent renews that certificate.
    pub certificate_renews: bool,
}

impl Report {
    /// Combines the answers of all replicas with the names of the tunnelled Clusters. `clusters` is
    /// `None` if they could not be read.
    pub(crate) fn new(
        answers: &[Option<Vec<Shown>>],
        clusters: Option<&BTreeSet<String>>,
        notes: Vec<String>,
    ) -> Self {
        let mut members: BTreeMap<String, MemberReport> = BTreeMap::new();
        for name in clusters.into_iter().flatten() {
            members.entry(name.clone()).or_default();
        }
        for shown in answers.iter().flatten().flatten() {
            members.entry(shown.name.clone()).or_default().add(shown);
        }
        let is_complete = answers.iter().all(Option::is_some);
        for (name, member) in &mut members {
            member.name.clone_from(name);
            member.tunnelled = clusters.map(|clusters| clusters.contains(name));
            member.connected = match member.replicas {
                0 => is_complete.then_some(false),
                _ => Some(true),
            };
        }
        Self {
            members: members.into_values().collect(),
            replicas: answers.len(),
            notes,
        }
    }

    /// Whether every tunnelled member is connected, as far as is known.
    pub(crate) fn exit_state(&self) -> ExitState {
        let is_lost = |member: &MemberReport| {
            member.tunnelled == Some(true) && member.connected == Some(false)
        };
        let is_good = !self.members.iter().any(is_lost);
        ExitState::new(is_good, self.notes.is_empty())
    }
}

impl MemberReport {
    fn add(&mut self, shown: &Shown) {
        if shown.connections.is_empty() {
            if self.replicas == 0 {
                self.since = self.since.max(shown.disconnected_since);
                self.from.extend(shown.last_from.as_deref().map(host));
            }
            return;
        }
        if self.replicas == 0 {
            self.since = None;
            self.from.clear();
        }
        self.replicas += 1;
        for connection in &shown.connections {
            self.add_connection(connection);
        }
    }

    fn add_connection(&mut self, connection: &Connection) {
        let earlier = |one: Option<Timestamp>, other| one.map_or(other, |one| one.min(other));
        self.since = Some(earlier(self.since, connection.since));
        self.from.insert(host(&connection.from));
        self.streams = self.streams.saturating_add(connection.streams);
        self.agent.insert(connection.agent.clone());
        if let Some(expires) = connection.certificate_expires {
            // A connection by an earlier certificate ends by itself.
            if self.certificate_expires.is_none_or(|last| last < expires) {
                self.certificate_renews = connection.certificate_renews;
            }
            self.certificate_expires = self.certificate_expires.max(Some(expires));
        }
        if connection.round_trip_micros > 0 {
            let millis = connection.round_trip_micros as f64 / 1000.0;
            let longest = self.round_trip_millis.unwrap_or_default().max(millis);
            self.round_trip_millis = Some(longest);
        }
    }

    /// Whether the certificate ends soon.
    pub(crate) fn certificate_ends(&self, now: Timestamp) -> bool {
        let ends = self.certificate_expires;
        let before = match self.certificate_renews {
            true => RENEWAL_FAILS,
            false => CERTIFICATE_ENDS,
        };
        ends.is_some_and(|ends| ends.duration_since(now) < before)
    }
}

/// Returns the host of `HOST:PORT`.
fn host(address: &str) -> String {
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    host.trim_matches(['[', ']']).to_owned()
}

#[cfg(test)]
pub(crate) mod tests;
