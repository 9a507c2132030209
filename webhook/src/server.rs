//! The server: TLS connections, HTTP/1.1 on them, and an end that no request notices.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use causeway::process::supervise::Tasks;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use rustls::ServerConfig;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;

use crate::connection::Paced;
use crate::service::Webhook;

const HANDSHAKE_DEADLINE: Duration = Duration::from_secs(10);

/// How long no connection is accepted after accepting failed, as it does where file descriptors run out.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The webhook cannot listen.
#[derive(Debug, thiserror::Error)]
#[error("the webhook cannot listen on {address}: {source}")]
pub struct BindError {
    address: SocketAddr,
    source: io::Error,
}

/// The webhook, listening.
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
    tls: TlsAcceptor,
    webhook: Arc<Webhook>,
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
            webhook: Arc::new(webhook),
        })
    }

    /// Where the server listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until the shutdown, and then until the requests in flight are answered.
    pub async fn run(self, tasks: Tasks) {
        let shutdown = tasks.shutdown();
        let connections = GracefulShutdown::new();
        loop {
            let accepted = tokio::select! {
                () = shutdown.cancelled() => break,
                accepted = self.listener.accept() => accepted,
            };
            match accepted {
                Ok((stream, peer)) => {
                    let connection = Connection {
                        tls: self.tls.clone(),
                        webhook: Arc::clone(&self.webhook),
                        peer,
                        end: connections.watcher(),
                    };
                    tasks.spawn_job("connection", connection.serve(stream));
                }
                Err(error) => {
                    tracing::warn!("a connection could not be accepted: {error}");
                    sleep(ACCEPT_PAUSE).await;
                }
            }
        }
        drop(self.listener);
        connections.shutdown().await;
    }
}

struct Connection {
    tls: TlsAcceptor,
    webhook: Arc<Webhook>,
    peer: SocketAddr,
    end: Watcher,
}

impl Connection {
    async fn serve(self, stream: TcpStream) {
        let peer = self.peer;
        if let Err(error) = self.try_serve(stream).await {
            tracing::debug!(%peer, "connection ended: {error}");
        }
    }

    async fn try_serve(
        self,
        stream: TcpStream,
    ) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        stream.set_nodelay(true)?;
        let stream = timeout(HANDSHAKE_DEADLINE, self.tls.accept(stream)).await??;
        let stream = Paced::new(stream);
        let pace = stream.pace();
        let webhook = self.webhook;
        let service = service_fn(move |request| {
            let (webhook, pace) = (Arc::clone(&webhook), Arc::clone(&pace));
            pace.request_begins();
            async move {
                let response = webhook.respond(request).await;
                pace.request_ends();
                response
            }
        });
        let connection = http1::Builder::new()
            .header_read_timeout(None)
            .serve_connection(TokioIo::new(stream), service);
        self.end.watch(connection).await?;
        Ok(())
    }
}
