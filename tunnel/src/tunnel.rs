//! The side of the hub: connections of agents, and the fronts for clients.

mod agents;
mod bootstrap;
mod enrolment;
mod front;
mod refusals;
mod shares;
mod upgrade;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use causeway::listener::{canonical, listen};
use causeway::process::supervise::Tasks;
use rustls::ServerConfig;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use self::agents::Places;
use self::front::Client;
use self::shares::Shares;
use crate::credentials::Credentials;
use crate::hello::Hello;
use crate::registry::Registry;
use crate::splice::Shared;

pub use self::enrolment::{Enrolment, Signer, SignerError};
pub use self::front::AuthenticatedFront;

/// Pause after a failed accept, such as without a free file descriptor.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Error of an address that cannot be listened on.
#[derive(Debug, thiserror::Error)]
#[error("causeway-tunnel cannot listen on {address}")]
pub struct BindError {
    address: SocketAddr,
    source: io::Error,
}

/// Listens on an address; port 0 takes a free one.
///
/// # Errors
/// [`BindError`] if the address is not available.
pub async fn bind(address: SocketAddr) -> Result<TcpListener, BindError> {
    let bound = listen(address).await;
    bound.map_err(|source| BindError { address, source })
}

/// One replica of causeway-tunnel. Clones are the same.
#[derive(Clone)]
pub struct Tunnel(Arc<Inner>);

struct Inner {
    hello: Hello,
    credentials: Arc<Credentials<ServerConfig>>,
    shared: Shared,
    registry: Registry,
    agents: Arc<Semaphore>,
    handshakes: Arc<Semaphore>,
    enrolments: Arc<Semaphore>,
    clients: Arc<Semaphore>,
    authenticated: AuthenticatedPlaces,
    /// Places of clients that wait for their refusal.
    refusals: Semaphore,
    /// Streams of clients of the authenticated front: they leave the controller its own.
    shares: Shares,
    /// Connections of agents, with those that are not introduced yet and those that drain.
    agents_of_names: Shares,
    /// Cancelled when agents are to connect to other replicas.
    draining: CancellationToken,
    /// Connections of clients and agents.
    connections: TaskTracker,
    tasks: Tasks,
}

/// Places of clients of the authenticated front. They take none of the controller or of agents.
struct AuthenticatedPlaces {
    clients: Arc<Semaphore>,
    handshakes: Arc<Semaphore>,
}

impl Tunnel {
    /// Creates a replica that introduces itself by `hello`.
    pub fn new(
        hello: Hello,
        credentials: Arc<Credentials<ServerConfig>>,
        shared: Shared,
        registry: Registry,
        tasks: Tasks,
    ) -> Self {
        let limits = &shared.limits;
        Self(Arc::new(Inner {
            agents: Arc::new(Semaphore::new(limits.agents)),
            handshakes: Arc::new(Semaphore::new(limits.handshakes)),
            enrolments: Arc::new(Semaphore::new(limits.enrolments)),
            clients: Arc::new(Semaphore::new(limits.clients)),
            authenticated: AuthenticatedPlaces {
                clients: Arc::new(Semaphore::new(limits.authenticated_clients)),
                handshakes: Arc::new(Semaphore::new(limits.handshakes)),
            },
            refusals: Semaphore::new(limits.refusals),
            shares: Shares::default(),
            agents_of_names: Shares::default(),
            hello,
            credentials,
            shared,
            registry,
            draining: CancellationToken::new(),
            connections: TaskTracker::new(),
            tasks,
        }))
    }

    /// Accepts agents that dial this replica, until the drain, and gives them certificates if it
    /// can.
    pub async fn serve_agents(self, listener: TcpListener, enrolment: Option<Arc<Enrolment>>) {
        self.accept_agents(listener, enrolment, agents::serve_dialled)
            .await;
    }

    /// Accepts agents that come through the hub's API server, until the drain. They take the same
    /// places as others, and do not enrol.
    pub async fn serve_upgraded_agents(self, listener: TcpListener) {
        self.accept_agents(listener, None, agents::serve_upgraded)
            .await;
    }

    async fn accept_agents<F, A>(
        self,
        listener: TcpListener,
        enrolment: Option<Arc<Enrolment>>,
        serve: F,
    ) where
        F: Fn(Arc<Inner>, TcpStream, SocketAddr, Places, Option<Arc<Enrolment>>) -> A,
        A: Future<Output = ()> + Send + 'static,
    {
        let draining = self.0.draining.clone();
        let accept = accept(&listener, |socket, from| {
            let place = self.0.agents.clone().try_acquire_owned();
            let handshake = self.0.handshakes.clone().try_acquire_owned();
            let (Ok(place), Ok(handshake)) = (place, handshake) else {
                self.0.shared.metrics.connection_failed("full");
                return;
            };
            let places = Places { place, handshake };
            let enrolment = enrolment.clone();
            self.0
                .spawn(serve(self.0.clone(), socket, from, places, enrolment));
        });
        tokio::select! {
            () = accept => {}
            () = draining.cancelled() => {}
        }
        drop(listener);
        self.0.tasks.shutdown().cancelled().await;
    }

    /// Accepts clients until the shutdown.
    pub async fn serve_clients(self, listener: TcpListener) {
        let accept = accept(&listener, |socket, _| {
            let Ok(place) = self.0.clients.clone().try_acquire_owned() else {
                self.0.shared.metrics.stream_failed("full");
                return;
            };
            let client = Client {
                place,
                passwords: None,
            };
            self.0
                .spawn(front::serve_plain(self.0.clone(), socket, client));
        });
        let shutdown = self.0.tasks.shutdown();
        shutdown.run_until_cancelled(accept).await;
    }

    /// Accepts clients of the authenticated front until the shutdown.
    pub async fn serve_authenticated(self, listener: TcpListener, front: AuthenticatedFront) {
        let places = &self.0.authenticated;
        let accept = accept(&listener, |socket, _| {
            let place = places.clients.clone().try_acquire_owned();
            let handshake = places.handshakes.clone().try_acquire_owned();
            let (Ok(place), Ok(handshake)) = (place, handshake) else {
                self.0.shared.metrics.client_refused("full");
                return;
            };
            let (tunnel, front) = (self.0.clone(), front.clone());
            self.0.spawn(front::serve_authenticated(
                tunnel, socket, front, place, handshake,
            ));
        });
        let shutdown = self.0.tasks.shutdown();
        shutdown.run_until_cancelled(accept).await;
    }

    /// Sends agents to other replicas, and waits until their streams have ended, for the time of
    /// the [limit](crate::limits::Limits::drain).
    pub async fn drain(self) {
        self.0.draining.cancel();
        self.0.connections.close();
        let drain = self.0.shared.limits.drain;
        if timeout(drain, self.0.connections.wait()).await.is_err() {
            let streams = self.0.connections.len();
            tracing::info!(connections = streams, "drain ended with open connections");
        }
    }
}

impl Inner {
    /// Runs a connection until it ends, at the latest until the shutdown.
    fn spawn(self: &Arc<Self>, connection: impl Future<Output = ()> + Send + 'static) {
        let tasks = self.tasks.clone();
        // On the heap it takes its size once: each function that it is handed to has room for it.
        let connection = self.connections.track_future(Box::pin(connection));
        self.tasks.spawn_job("connection", async move {
            // A panic is logged and counted, and ends no other connection.
            let connection = tasks.catch_panic("connection", connection);
            tasks.shutdown().run_until_cancelled(connection).await;
        });
    }
}

async fn accept(listener: &TcpListener, mut accepted: impl FnMut(TcpStream, SocketAddr)) {
    loop {
        match listener.accept().await {
            Ok((socket, from)) => accepted(socket, canonical(from)),
            Err(error) => {
                tracing::warn!(%error, "accept failed");
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}
