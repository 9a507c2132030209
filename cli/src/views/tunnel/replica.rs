//! Answer of a replica of causeway-tunnel to `/tunnels`.

use k8s_openapi::jiff::Timestamp;
use serde::Deserialize;

/// Maximum number of members of an answer. A replica holds 4,096 agents and remembers 4,096 names.
const MEMBERS_MAX: usize = 8192;
/// Maximum number of connections of a member: a replica holds four.
const CONNECTIONS_MAX: usize = 16;

/// Error of an answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AnswerError {
    #[error("it does not answer as causeway-tunnel: {0}")]
    Json(#[from] serde_json::Error),
    #[error("it names more members or connections than a replica holds")]
    TooMany,
}

/// Member whose agent is, or was, connected to a replica.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Shown {
    pub name: String,
    pub disconnected_since: Option<Timestamp>,
    pub last_from: Option<String>,
    pub connections: Vec<Connection>,
}

/// Connection of an agent.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Connection {
    pub from: String,
    pub since: Timestamp,
    pub agent: String,
    pub streams: u32,
    /// Zero before the first PING.
    pub round_trip_micros: u64,
    /// End of the agent's certificate.
    pub certificate_expires: Option<Timestamp>,
    /// Whether the agent renews it.
    #[serde(default)]
    pub certificate_renews: bool,
}

/// Parses an answer.
pub(crate) fn parse(text: &str) -> Result<Vec<Shown>, AnswerError> {
    let members: Vec<Shown> = serde_json::from_str(text)?;
    let is_bounded = members.len() <= MEMBERS_MAX
        && members
            .iter()
            .all(|member| member.connections.len() <= CONNECTIONS_MAX);
    is_bounded.then_some(members).ok_or(AnswerError::TooMany)
}
