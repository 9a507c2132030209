//! The way of requests to a member.
//!
//! This is what `kube::client::ClientBuilder` makes of a configuration, but for three things. A
//! connection reads into a small buffer: hyper's own grows to 400 KiB with a list, and stays as
//! large under the watch that follows, which is a MiB for each member. Nothing is retried, as every
//! caller retries in its own way. And a proxy is verified by its own certificates, and named where
//! it refuses.

use std::io::IoSlice;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::header::AUTHORIZATION;
use http::uri::Scheme;
use http::{Request, Response, Uri};
use hyper::body::Incoming;
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper::upgrade::Upgraded;
use hyper_rustls::{
    DefaultServerNameResolver, FixedServerNameResolver, HttpsConnector, ResolveServerName,
};
use hyper_timeout::TimeoutConnector;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::{Connected, Connection};
use hyper_util::rt::TokioExecutor;
use kube::Config;
use kube::client::{Body, ConfigExt as _};
use rustls::ClientConfig;
use tokio::sync::watch;
use tower::util::BoxCloneService;
use tower::{BoxError, Layer as _, Service, ServiceExt as _, service_fn};

use super::pinned::Pinned;
use super::proxy::direct;
use super::{Proxy, Target, Token};

/// Bytes that a connection reads at one time, and the longest head of an answer: as much as a TLS
/// record holds.
const READ_BUFFER: usize = 16 * 1024;

/// Service that sends requests to a member.
pub type Requests = BoxCloneService<Request<Body>, Response<Incoming>, BoxError>;

/// Makes services that send requests to one member, each with connections of its own. What TLS
/// needs is read once for all of them, and a connection may resume the session of another.
#[derive(Clone)]
pub struct Transport {
    config: Config,
    /// Name by which the member's certificate is verified.
    names: Arc<dyn ResolveServerName + Send + Sync>,
    /// None where the member is asked without TLS.
    tls: Option<Arc<ClientConfig>>,
    /// The proxy, with what TLS to it needs.
    proxy: Option<(Proxy, Arc<ClientConfig>)>,
}

/// Error of certificates by which a member or its proxy is to be verified.
#[derive(Debug, thiserror::Error)]
pub enum TransportError {
    /// Those of the member.
    #[error("the member cannot be verified")]
    Member(#[source] kube::Error),
    /// Those of its proxy.
    #[error("its proxy cannot be verified")]
    Proxy(#[source] kube::Error),
}

/// Returns what TLS to a member needs. A bundle of its Secret or ClusterProfile may have its own
/// certificate.
fn member_tls(target: &Target, config: &Config) -> kube::Result<ClientConfig> {
    let mut tls = config.rustls_client_config()?;
    if !target.insecure && !target.certificates.is_empty() {
        let pinned = Pinned::new(&target.certificates);
        let pinned = pinned.map_err(|error| kube::Error::Service(error.into()))?;
        let mut dangerous = tls.dangerous();
        dangerous.set_certificate_verifier(Arc::new(pinned));
    }
    Ok(tls)
}

impl Transport {
    /// Reads what TLS to a target and its proxy needs. `config` is [`Target::config`] with the
    /// caller's timeouts and headers.
    ///
    /// # Errors
    /// [`TransportError`] if the certificates cannot be used, or neither the system nor the Secret
    /// has any.
    pub fn new(target: &Target, config: Config) -> Result<Self, TransportError> {
        let is_plain = target.url.scheme() == Some(&Scheme::HTTP);
        let tls = match is_plain {
            true => None,
            false => Some(member_tls(target, &config).map_err(TransportError::Member)?),
        };
        let tls = tls.map(Arc::new);
        let proxy = target.proxy.clone().map(|proxy| {
            let tls = match (proxy.uses_tls(), &tls) {
                (false, Some(tls)) => tls.clone(),
                _ => Arc::new(proxy.tls().map_err(TransportError::Proxy)?),
            };
            Ok((proxy, tls))
        });
        let names: Arc<dyn ResolveServerName + Send + Sync> = match &target.server_name {
            Some(name) => Arc::new(FixedServerNameResolver::new(name.clone())),
            None => Arc::new(DefaultServerNameResolver::default()),
        };
        Ok(Self {
            names,
            tls,
            proxy: proxy.transpose()?,
            config,
        })
    }

    /// Returns the next service. Each request bears the token of its moment, so a renewed token
    /// ends no connection. Must be called within a tokio runtime.
    ///
    /// # Errors
    /// The headers of the configuration cannot be sent.
    pub fn requests(&self, token: &watch::Receiver<Token>) -> kube::Result<Requests> {
        let Some((proxy, proxy_tls)) = self.proxy.clone() else {
            return self.secured(direct(), token);
        };
        if proxy.speaks_socks() {
            let through = move |member| proxy.clone().by_socks(proxy_tls.clone(), member);
            return self.secured(service_fn(through), token);
        }
        let through = move |member| {
            let tunnel = proxy.clone().by_connect(proxy_tls.clone(), member);
            async { tunnel.await.map(Tunnel) }
        };
        self.secured(service_fn(through), token)
    }

    /// The service over connections of that connector, with TLS to the member inside.
    fn secured<C>(&self, connector: C, token: &watch::Receiver<Token>) -> kube::Result<Requests>
    where
        C: Service<Uri, Error: Into<BoxError>> + Clone + Send + Sync + 'static,
        C::Response: Connection + Read + Write + Send + Unpin + 'static,
        C::Future: Send + 'static,
    {
        match &self.tls {
            Some(tls) => {
                let names = self.names.clone();
                let connector = HttpsConnector::new(connector, tls.clone(), false, names);
                self.over(connector, token)
            }
            None => self.over(connector, token),
        }
    }

    fn over<C>(&self, connector: C, token: &watch::Receiver<Token>) -> kube::Result<Requests>
    where
        C: Service<Uri, Error: Into<BoxError>> + Clone + Send + Sync + 'static,
        C::Response: Connection + Read + Write + Send + Unpin + 'static,
        C::Future: Send + 'static,
    {
        let config = &self.config;
        let mut connector = TimeoutConnector::new(connector);
        connector.set_connect_timeout(config.connect_timeout);
        connector.set_read_timeout(config.read_timeout);
        connector.set_write_timeout(config.write_timeout);
        connector.set_reset_reader_on_write(config.reset_reader_on_write);
        let client = Client::builder(TokioExecutor::new())
            .http1_read_buf_exact_size(READ_BUFFER)
            .build::<_, Body>(connector)
            .map_err(BoxError::from);
        let client = config.extra_headers_layer()?.layer(client);
        let token = token.clone();
        let client = client.map_request(move |mut request: Request<Body>| {
            let authorization = token.borrow().header();
            request.headers_mut().insert(AUTHORIZATION, authorization);
            request
        });
        Ok(config.base_uri_layer().layer(client).boxed_clone())
    }
}

/// A connection that a proxy has given away.
struct Tunnel(Upgraded);

impl Connection for Tunnel {
    fn connected(&self) -> Connected {
        Connected::new()
    }
}

impl Read for Tunnel {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, buffer)
    }
}

impl Write for Tunnel {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_flush(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }

    fn is_write_vectored(&self) -> bool {
        self.0.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.0).poll_write_vectored(context, parts)
    }
}

#[cfg(test)]
mod tests;
