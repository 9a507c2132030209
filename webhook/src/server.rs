//! The server: accepts TLS connections and ends without losing a request.
//!
//! A client goes on using idle connections to a process that is about to end. So every answer of a
//! terminating process carries `Connection: close`, and the client connects to another replica. The
//! server closes connections at the very end alone, when none was used for a while. A request that
//! is sent in that moment is lost: HTTP/1.1 cannot prevent that.
//!
//! `axum::serve` does not serve: it neither limits connections nor closes them in this order.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use causeway::listener::{canonical, listen};
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

/// Pause after a failed accept, such as without a free file descriptor.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Error of an address that cannot be listened on.
#[derive(Debug, thiserror::Error)]
#[error("the webhook cannot listen on {address}")]
pub struct BindError {
    address: SocketAddr,
    source: io::Error,
}

/// A webhook that listens.
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
    /// [`BindError`] if the address is not available.
    pub async fn bind(
        address: SocketAddr,
        tls: ServerConfig,
        webhook: Webhook,
    ) -> Result<Self, BindError> {
        let bound = async {
            let listener = listen(address).await?;
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

    /// Returns the drain, which the process awaits before the shutdown.
    pub fn drain(&self) -> Drain {
        self.drain.clone()
    }

    /// Serves until the shutdown, and then until all requests in flight are answered.
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
        // The kernel has accepted these connections already.
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
                // Without a slot, dropping the stream closes it.
                let Some(slot) = connections.slot() else {
                    return;
                };
                let connection = Connection {
                    tls: self.tls.clone(),
                    router: self.router.clone(),
                    drain: self.drain.clone(),
                    tasks: tasks.clone(),
                    peer: canonical(peer),
                    slot,
                };
                tasks.spawn_job("connection", connection.serve(stream));
                // Takes more than a moment only if an evicted one is still being answered.
                let evicted = connections.evicted_are_gone();
                if timeout(TICK, evicted).await.is_err() {
                    tracing::debug!("connection limit exceeded: evicted ones are still open");
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

/// Whether the client closed a connection before it was accepted.
fn is_the_clients(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionRefused
    )
}
