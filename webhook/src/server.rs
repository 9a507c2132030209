//! The server: TLS connections, HTTP/1.1 on them, and an end that no request notices.
//!
//! A client that keeps connections goes on using those to a process that is about to end. So as soon as the process is
//! terminating every answer bears `Connection: close`, which makes the client connect again, to whoever is
//! there then. Connections are closed by the server itself only at the very end, when none was used for a while: a
//! request that is sent in that moment is lost, and HTTP/1.1 has no way to prevent it.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use causeway::process::supervise::Tasks;
use futures::FutureExt;
use rustls::ServerConfig;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::coop::unconstrained;
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};
use tokio_rustls::TlsAcceptor;

use crate::connection::Connection;
use crate::connections::{Connections, TICK};
use crate::drain::Drain;
use crate::service::{Webhook, router};

/// Pause after accepting a connection failed, as it does when file descriptors run out.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The webhook cannot listen.
#[derive(Debug, thiserror::Error)]
#[error("the webhook cannot listen on {address}")]
pub struct BindError {
    address: SocketAddr,
    source: io::Error,
}

/// The webhook, listening.
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
    tls: TlsAcceptor,
    router: Router,
    connections: Arc<Connections>,
    drain: Drain,
}

impl Server {
    /// Listens on that address; port 0 takes a free one.
    ///
    /// # Errors
    /// [`BindError`] where the address cannot be had.
    pub async fn bind(
        address: SocketAddr,
        tls: ServerConfig,
        webhook: Webhook,
    ) -> Result<Self, BindError> {
        let bound = async {
            let listener = TcpListener::bind(address).await?;
            let address = listener.local_addr()?;
            Ok((listener, address))
        };
        let (listener, address) = bound
            .await
            .map_err(|source| BindError { address, source })?;
        Ok(Self {
            listener,
            address,
            tls: TlsAcceptor::from(Arc::new(tls)),
            connections: Arc::clone(webhook.connections()),
            router: router(Arc::new(webhook)),
            drain: Drain::default(),
        })
    }

    /// Returns the address on which the server listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The drain of the server, to be waited for before the shutdown.
    pub fn drain(&self) -> Drain {
        self.drain.clone()
    }

    /// Serves until the shutdown, and then until the requests in flight are answered.
    pub async fn run(self, tasks: Tasks) {
        let shutdown = tasks.shutdown();
        let connections = Arc::clone(&self.connections);
        let mut ticks = interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                () = shutdown.cancelled() => break,
                _ = ticks.tick() => connections.sweep(),
                accepted = self.listener.accept() => self.accepted(accepted, &tasks).await,
            }
        }
        // Whoever is connected already, as far as the kernel is concerned, is served.
        while let Some(accepted) = unconstrained(self.listener.accept()).now_or_never() {
            self.accepted(accepted, &tasks).await;
        }
        drop(self.listener);
        connections.close_when_idle();
        loop {
            tokio::select! {
                () = connections.all_gone() => return,
                _ = ticks.tick() => connections.sweep(),
            }
        }
    }

    async fn accepted(&self, accepted: io::Result<(TcpStream, SocketAddr)>, tasks: &Tasks) {
        let connections = &self.connections;
        match accepted {
            Ok((stream, peer)) => {
                // Without a slot the stream is dropped, which closes it.
                let Some(slot) = connections.slot() else {
                    return;
                };
                let connection = Connection {
                    tls: self.tls.clone(),
                    router: self.router.clone(),
                    drain: self.drain.clone(),
                    tasks: tasks.clone(),
                    peer,
                    slot,
                };
                tasks.spawn_job("connection", connection.serve(stream));
                // Longer than a moment only where one that was evicted is still being answered.
                let evicted = connections.evicted_are_gone();
                if timeout(TICK, evicted).await.is_err() {
                    tracing::debug!("limit of connections exceeded: evicted ones are still open");
                }
            }
            Err(error) if is_the_clients(&error) => {}
            Err(error) => {
                tracing::warn!(%error, "accept failed");
                connections.evict_least_recently_active();
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// Whether a connection could not be accepted because it was over already.
fn is_the_clients(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionRefused
    )
}
