//! The connected agents, by the name in their certificates.

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use causeway::domain::ClusterName;
use h2::client::SendRequest;
use http::{Method, Request, StatusCode, Uri};
use k8s_openapi::jiff::Timestamp;
use parking_lot::Mutex;
use serde::{Serialize, Serializer};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::hello::{AGENT, API, Answer, REASON, printable};
use crate::limits::Limits;
use crate::metrics::Metrics;
use crate::splice::Stream;

/// Number of names that are remembered after their agents have gone.
const REMEMBERED: usize = 4096;

/// Origin of a connection of an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Address of the agent, or of the last proxy before this process.
    Address(SocketAddr),
    /// The hub's API server. Headers that name an address are not trusted.
    ApiServer,
}

impl fmt::Display for Origin {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(address) => address.fmt(out),
            Self::ApiServer => out.write_str("through the API server"),
        }
    }
}

impl Origin {
    /// Returns the words that follow `last` or `an agent`.
    pub(crate) fn words(&self) -> String {
        match self {
            Self::Address(address) => format!("from {}", address.ip()),
            Self::ApiServer => self.to_string(),
        }
    }
}

impl Serialize for Origin {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// A connection of an agent.
#[derive(Debug)]
pub struct Agent {
    /// Its origin.
    pub from: Origin,
    /// Its answer to the introduction.
    pub answer: Answer,
    /// Time at which it was accepted.
    pub since: Timestamp,
    /// End of its certificate.
    pub expires: Timestamp,
    /// Whether it enrolled, and renews its certificate.
    pub renews: bool,
    /// Sends requests to it.
    pub requests: SendRequest<Bytes>,
    /// Permits of its streams.
    pub streams: Arc<Semaphore>,
    /// Last round trip, in microseconds.
    pub round_trip: Arc<AtomicU64>,
    /// Cancelled when a further connection takes its place.
    pub replaced: CancellationToken,
}

/// End of a stream in a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Destination {
    /// The API server.
    ApiServer,
    /// The agent itself.
    Agent,
}

/// A stream to a member. It occupies its place until it is dropped.
#[derive(Debug)]
pub struct Opened {
    /// Both halves.
    pub stream: Stream,
    /// Place among the streams of the connection.
    pub place: OwnedSemaphorePermit,
}

/// Reason why no stream was opened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// No agent of that name has connected since this process began.
    #[error("its agent is not connected to causeway-tunnel: not since its start")]
    Unknown,
    /// The agent was connected and is not.
    #[error("its agent is not connected to causeway-tunnel: since {since}, last {}", from.words())]
    Disconnected {
        /// Time of the disconnect, in seconds.
        since: Timestamp,
        /// Last origin.
        from: Origin,
    },
    /// All streams are in use.
    #[error("its agent has {0} streams open, which is the maximum")]
    Busy(u32),
    /// The agent did not answer.
    #[error("its agent did not answer within {}s", .0.as_secs())]
    Unanswered(Duration),
    /// The connection ended meanwhile.
    #[error("the connection of its agent ended")]
    Lost,
    /// The agent refused.
    #[error("its agent answered {status}: {reason}")]
    Refused {
        /// Its answer.
        status: StatusCode,
        /// Its reason, printable.
        reason: String,
    },
    /// The agent knows no streams to itself.
    #[error("its agent, of version {version}, is too old to give credentials: update it")]
    TooOld {
        /// Its version.
        version: String,
    },
}

impl Refusal {
    /// Returns the answer to the client (RFC 9110, section 15.6).
    pub fn status(&self) -> StatusCode {
        match self {
            Self::Unanswered(_) => StatusCode::GATEWAY_TIMEOUT,
            Self::TooOld { .. } => StatusCode::NOT_IMPLEMENTED,
            Self::Refused { status, .. } if *status == StatusCode::NOT_IMPLEMENTED => *status,
            Self::Refused { .. } => StatusCode::BAD_GATEWAY,
            _ => StatusCode::SERVICE_UNAVAILABLE,
        }
    }

    /// Returns the value of the label `reason` in metrics.
    pub fn label(&self) -> &'static str {
        match self {
            Self::Unknown | Self::Disconnected { .. } => "disconnected",
            Self::Busy(_) => "busy",
            Self::Unanswered(_) => "unanswered",
            Self::Lost => "lost",
            Self::Refused { .. } | Self::TooOld { .. } => "refused",
        }
    }
}

/// The connected agents. Clones share them.
#[derive(Clone, Debug)]
pub struct Registry {
    members: Arc<Mutex<BTreeMap<ClusterName, Member>>>,
    metrics: Metrics,
}

#[derive(Debug, Default)]
struct Member {
    /// Oldest first.
    agents: Vec<Arc<Agent>>,
    last: Option<(Timestamp, Origin)>,
}

/// A connection in the registry, until it is dropped.
#[derive(Debug)]
pub struct Registered {
    registry: Registry,
    name: ClusterName,
    agent: Arc<Agent>,
}

impl Drop for Registered {
    fn drop(&mut self) {
        let mut members = self.registry.members.lock();
        if let Some(member) = members.get_mut(&self.name) {
            member.agents.retain(|one| !Arc::ptr_eq(one, &self.agent));
            member.last = Some((now(), self.agent.from));
            let metrics = &self.registry.metrics;
            metrics.agents_of(&self.name, member.agents.len());
        }
        let gone = |member: &&Member| member.agents.is_empty();
        if members.values().filter(gone).count() > REMEMBERED {
            let gone = members.iter().filter(|(_, member)| gone(member));
            let longest = gone.min_by_key(|(_, member)| member.last.map(|(since, _)| since));
            if let Some(name) = longest.map(|(name, _)| name.clone()) {
                members.remove(&name);
                self.registry.metrics.agent_forgotten(&name);
            }
        }
    }
}

impl Registry {
    /// Creates a registry without agents.
    pub fn new(metrics: &Metrics) -> Self {
        Self {
            members: Arc::default(),
            metrics: metrics.clone(),
        }
    }

    /// Adds a connection. At the limit it takes the place of the oldest one of its name.
    pub fn add(&self, name: &ClusterName, agent: Agent, limits: &Limits) -> Registered {
        let agent = Arc::new(agent);
        let mut members = self.members.lock();
        let agents = &mut members.entry(name.clone()).or_default().agents;
        agents.push(agent.clone());
        let excess = agents.len().saturating_sub(limits.agents_of_a_name);
        for oldest in agents.drain(..excess) {
            oldest.replaced.cancel();
        }
        self.metrics.agents_of(name, agents.len());
        drop(members);
        Registered {
            registry: self.clone(),
            name: name.clone(),
            agent,
        }
    }

    /// Opens a stream to a member, by its newest connection that gives one.
    ///
    /// # Errors
    /// [`Refusal`].
    pub async fn open(
        &self,
        name: &ClusterName,
        destination: Destination,
        limits: &Limits,
    ) -> Result<Opened, Refusal> {
        let agents = {
            let members = self.members.lock();
            let member = members.get(name).ok_or(Refusal::Unknown)?;
            if let ([], Some((since, from))) = (&*member.agents, member.last) {
                return Err(Refusal::Disconnected { since, from });
            }
            member.agents.clone()
        };
        let mut refusal = Refusal::Unknown;
        for agent in agents.iter().rev() {
            let Ok(place) = agent.streams.clone().try_acquire_owned() else {
                refusal = Refusal::Busy(limits.streams);
                continue;
            };
            let opened = timeout(limits.answer, connect(agent, destination)).await;
            match opened.unwrap_or(Err(Refusal::Unanswered(limits.answer))) {
                Ok(stream) => return Ok(Opened { stream, place }),
                Err(Refusal::Lost) => refusal = Refusal::Lost,
                Err(other) => return Err(other),
            }
        }
        Err(refusal)
    }

    /// Returns the end of the certificate of a connected agent, the first to end, in seconds of
    /// Unix time: among the agents that renew theirs, or among the others. Of an agent with several
    /// certificates the latest counts; connections by earlier ones end by themselves.
    pub fn first_end(&self, renews: bool) -> Option<i64> {
        let members = self.members.lock();
        let agents = members.values().filter_map(|member| {
            let agents = member.agents.iter();
            agents.max_by_key(|agent| agent.expires)
        });
        let agents = agents.filter(|agent| agent.renews == renews);
        agents.map(|agent| agent.expires.as_second()).min()
    }

    /// Returns the members as `/tunnels` shows them.
    pub fn shown(&self, limits: &Limits) -> Vec<Shown> {
        let members = self.members.lock();
        let members = members.iter().map(|(name, member)| {
            let last = member.last.filter(|_| member.agents.is_empty());
            let agents = member.agents.iter();
            Shown {
                name: name.to_string(),
                disconnected_since: last.map(|(since, _)| since.to_string()),
                last_from: last.map(|(_, from)| from),
                connections: agents.map(|agent| agent.shown(limits)).collect(),
            }
        });
        members.collect()
    }
}

impl Agent {
    fn streams_in_use(&self, limits: &Limits) -> usize {
        let streams = usize::try_from(limits.streams).unwrap_or(usize::MAX);
        streams.saturating_sub(self.streams.available_permits())
    }

    fn shown(&self, limits: &Limits) -> ShownAgent {
        ShownAgent {
            from: self.from,
            since: self.since.to_string(),
            agent: self.answer.agent.clone(),
            api: self.answer.api.clone(),
            streams: self.streams_in_use(limits),
            round_trip_micros: self.round_trip.load(Ordering::Relaxed),
            certificate_expires: self.expires.to_string(),
            certificate_renews: self.renews,
        }
    }
}

async fn connect(agent: &Agent, destination: Destination) -> Result<Stream, Refusal> {
    let mut request = Request::new(());
    *request.method_mut() = Method::CONNECT;
    *request.uri_mut() = Uri::from_static(match destination {
        Destination::ApiServer => API,
        Destination::Agent => AGENT,
    });
    let lost = |_| Refusal::Lost;
    let mut requests = agent.requests.clone().ready().await.map_err(lost)?;
    let (answer, send) = requests.send_request(request, false).map_err(lost)?;
    let answer = answer.await.map_err(lost)?;
    if answer.status().is_success() {
        let receive = answer.into_body();
        return Ok(Stream { send, receive });
    }
    let is_unknown = matches!(
        answer.status(),
        StatusCode::FORBIDDEN | StatusCode::NOT_FOUND
    );
    if destination == Destination::Agent && is_unknown {
        let version = agent.answer.agent.clone();
        return Err(Refusal::TooOld { version });
    }
    let reason = answer.headers().get(REASON);
    let reason = reason.and_then(|reason| reason.to_str().ok());
    Err(Refusal::Refused {
        status: answer.status(),
        reason: printable(reason.unwrap_or("(no reason)")),
    })
}

/// Returns the current time, to the second.
pub fn now() -> Timestamp {
    let now = Timestamp::now();
    Timestamp::from_second(now.as_second()).unwrap_or(now)
}

/// A member as `/tunnels` shows it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Shown {
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    disconnected_since: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_from: Option<Origin>,
    connections: Vec<ShownAgent>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ShownAgent {
    from: Origin,
    since: String,
    agent: String,
    api: String,
    streams: usize,
    round_trip_micros: u64,
    certificate_expires: String,
    certificate_renews: bool,
}
