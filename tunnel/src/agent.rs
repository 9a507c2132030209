//! The side of the member: connections to the replicas of causeway-tunnel, and the streams that
//! they open to the API server.

mod api_server;
mod connection;
mod dial;
mod enrolment;
mod servers;

use std::sync::Arc;
use std::time::Duration;

use causeway::process::backoff::Backoff;
use causeway::process::supervise::{Tasks, with_causes};
use hyper_util::client::proxy::matcher::Matcher;
use rustls::ClientConfig;
use tokio::sync::oneshot;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use self::connection::ConnectionError;
use self::servers::Servers;
use crate::credentials::Credentials;
use crate::splice::Shared;
use crate::tokens::Issuer;

pub use self::api_server::{AccessError, ApiServer};
pub use self::dial::{Address, AddressError};
pub use self::enrolment::Enrolment;

/// Bound of the first pause between attempts to connect.
const FIRST: Duration = Duration::from_millis(500);
/// Maximum pause of a process that works meanwhile.
const LONGEST: Duration = Duration::from_secs(30);
/// Maximum pause of an agent without a connection: its member is unreachable.
const LONGEST_CUT_OFF: Duration = Duration::from_secs(5);

/// Both ends that an agent joins.
#[derive(Debug)]
pub struct Peers {
    /// Route to causeway-tunnel.
    pub route: Route,
    /// Proxies by which causeway-tunnel or the hub's API server is reached.
    pub proxies: Matcher,
    /// `HOST:PORT` of the API server.
    pub api: String,
    /// Issuer of tokens for the controller, if it receives any.
    pub tokens: Option<Issuer>,
}

/// Route from an agent to causeway-tunnel.
#[derive(Clone, Debug)]
pub enum Route {
    /// The agent dials causeway-tunnel.
    Dialled(Address),
    /// The agent dials the hub's API server, whose Service proxy passes all bytes on.
    ApiServer(ApiServer),
}

/// An agent. Clones are the same.
#[derive(Clone)]
pub struct Agent(Arc<Inner>);

struct Inner {
    peers: Arc<Peers>,
    credentials: Arc<Credentials<ClientConfig>>,
    shared: Shared,
    servers: Servers,
    /// Cancelled when the agent closes its connections.
    ending: CancellationToken,
    connections: TaskTracker,
    tasks: Tasks,
}

impl Agent {
    /// Creates an agent.
    pub fn new(
        peers: impl Into<Arc<Peers>>,
        credentials: Arc<Credentials<ClientConfig>>,
        shared: Shared,
        tasks: Tasks,
    ) -> Self {
        Self(Arc::new(Inner {
            peers: peers.into(),
            credentials,
            servers: Servers::new(&shared.metrics),
            shared,
            ending: CancellationToken::new(),
            connections: TaskTracker::new(),
            tasks,
        }))
    }

    /// Keeps a connection to each replica until the agent ends.
    pub async fn run(self) {
        let agent = self.0;
        let ending = agent.ending.clone();
        if ending.run_until_cancelled(connect(&agent)).await.is_none() {
            // Connections end by themselves.
            agent.tasks.shutdown().cancelled().await;
        }
    }

    /// Closes the connections once their streams have ended, at the latest after the time of the
    /// [limit](crate::limits::Limits::drain).
    pub async fn drain(self) {
        self.0.ending.cancel();
        self.0.connections.close();
        self.0.connections.wait().await;
    }

    /// Waits until a replica of causeway-tunnel is connected, and not about to end.
    pub async fn connected(&self) {
        self.0.servers.wait_until(true).await;
    }
}

/// Connects whenever a further replica is needed. Never ends.
async fn connect(agent: &Arc<Inner>) {
    let mut backoff = Backoff::new(FIRST, LONGEST);
    // Agents of one name beyond the maximum replace each other.
    let mut after_short = Backoff::new(FIRST, LONGEST);
    let mut last = String::new();
    loop {
        agent.servers.needed().await;
        let lost = agent.servers.take_lost();
        if lost.has_stayed {
            after_short.reset();
        }
        if lost.was_short {
            pause(&agent.servers, &mut after_short).await;
        }
        // A change during the handshake counts, too.
        let certificate = agent.credentials.certificate();
        let is_new = match dial::dial(agent).await {
            Ok(tls) => {
                let (introduced, is_new) = oneshot::channel();
                let connection = connection::serve(agent.clone(), tls, certificate, introduced);
                agent.spawn(connection);
                is_new.await.unwrap_or(false)
            }
            Err(error) => {
                agent.shared.metrics.connection_failed(error.label());
                let error = with_causes(&error);
                match error == last {
                    true => tracing::debug!(error, "causeway-tunnel not reached"),
                    false => tracing::warn!(error, "causeway-tunnel not reached"),
                }
                last = error;
                false
            }
        };
        match is_new {
            true => {
                backoff.reset();
                last.clear();
            }
            false => pause(&agent.servers, &mut backoff).await,
        }
    }
}

/// Pauses after a failed attempt or a short connection. An agent with a connection takes longer:
/// each attempt may be a whole handshake with the replica that it is connected to.
async fn pause(servers: &Servers, backoff: &mut Backoff) {
    match servers.is_connected() {
        true => tokio::select! {
            () = sleep(backoff.pause_within(LONGEST)) => {}
            () = servers.wait_until(false) => {}
        },
        false => sleep(backoff.pause_within(LONGEST_CUT_OFF)).await,
    }
}

impl Inner {
    /// Runs a connection until it ends, at the latest until the shutdown.
    fn spawn(
        self: &Arc<Self>,
        connection: impl Future<Output = Result<(), ConnectionError>> + Send + 'static,
    ) {
        let agent = self.clone();
        let connection = self.connections.track_future(connection);
        self.tasks.spawn_job("connection", async move {
            let shutdown = agent.tasks.shutdown();
            let connection = agent.tasks.catch_panic("connection", connection);
            match shutdown.run_until_cancelled(connection).await {
                Some(Ok(Err(error))) => {
                    agent.shared.metrics.connection_failed(error.label());
                    tracing::warn!(error = with_causes(&error), "connection lost");
                }
                Some(Ok(Ok(()))) => tracing::info!("connection closed by causeway-tunnel"),
                Some(Err(_)) | None => {}
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::timeout;

    use super::servers::Connected;
    use super::*;
    use crate::hello::Hello;
    use crate::metrics::Metrics;

    #[tokio::test]
    async fn agent_that_loses_its_last_connection_ends_its_pause() {
        let lost = |connected: Connected| {
            drop(connected);
            None
        };
        assert!(pause_ends_by(lost).await);
    }

    #[tokio::test]
    async fn agent_whose_last_connection_drains_ends_its_pause() {
        let drained = |connected: Connected| {
            connected.drains();
            Some(connected)
        };
        assert!(pause_ends_by(drained).await);
    }

    /// Whether that end of the last connection ends a pause.
    async fn pause_ends_by(end: impl FnOnce(Connected) -> Option<Connected>) -> bool {
        let servers = Servers::new(&Metrics::default());
        let hello = Hello {
            server: "tunnel-0".to_owned(),
            replicas: 2,
            protocol: 1,
        };
        let connected = servers.add(&hello).expect("the first");
        let mut backoff = Backoff::new(FIRST, LONGEST);
        for _ in 0..8 {
            backoff.pause_within(LONGEST);
        }
        let (ended, _kept) = tokio::join!(
            timeout(Duration::from_millis(300), pause(&servers, &mut backoff)),
            async { end(connected) }
        );
        ended.is_ok()
    }
}
