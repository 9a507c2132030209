//! Clients of one member.

use std::sync::Arc;
use std::time::Duration;

use causeway::target::{CA_BUNDLE, Target, Token};
use causeway_engine::model::{Failure, FailureKind};
use http::header::{HeaderValue, USER_AGENT};
use http::uri::Scheme;
use kube::client::ConfigExt as _;
use kube::{Client, Config};
use rustls::ClientConfig;
use tokio::sync::watch;

use super::bounded::Bounded;
use super::transport::transport;
use crate::failure::{Classify as _, classify};
use crate::watch::Settings;

/// A connection on which nothing was observed for this much longer than a watch lasts is dead.
const READ_MARGIN: Duration = Duration::from_secs(30);

/// Makes clients of one member, each with connections of its own. What TLS needs is read once for all of them, and a connection
/// may resume the session of another.
#[derive(Clone)]
pub struct Connector {
    config: Config,
    /// Token of the next request.
    token: watch::Receiver<Token>,
    /// None where nothing is asked over TLS.
    tls: Option<Arc<ClientConfig>>,
}

impl Connector {
    /// Returns a source of clients that give up connecting after `timeout` and send `agent`. Each
    /// request bears the token of its moment, so a renewed token ends no connection. They retry no
    /// request, and each request needs a deadline of its own; an answer that is too long
    /// is an error.
    ///
    /// # Errors
    /// [`Failure`] if the certificates cannot be used, or neither the system nor the Secret has
    /// any.
    pub fn new(
        target: &Target,
        token: watch::Receiver<Token>,
        timeout: Duration,
        agent: &HeaderValue,
    ) -> Result<Self, Failure> {
        let mut config = target.config();
        config.connect_timeout = Some(timeout);
        let patience = Settings::default();
        config.read_timeout = Some(patience.watch_timeout + patience.margin + READ_MARGIN);
        config.reset_reader_on_write = true;
        config.headers.push((USER_AGENT, agent.clone()));
        let is_plain = config.cluster_url.scheme() == Some(&Scheme::HTTP);
        let tls = match is_plain && config.proxy_url.is_none() {
            true => None,
            false => Some(Arc::new(tls(&config)?)),
        };
        Ok(Self { config, token, tls })
    }

    /// The next client. To be called within a tokio runtime.
    ///
    /// # Errors
    /// [`Failure`] where the credentials cannot be used.
    pub fn client(&self) -> Result<Client, Failure> {
        let service = transport(&self.config, self.tls.as_ref(), &self.token).classified()?;
        let namespace = self.config.default_namespace.clone();
        Ok(Client::new(Bounded(service), namespace))
    }
}

fn tls(config: &Config) -> Result<ClientConfig, Failure> {
    let by_system = config.root_cert.is_none();
    config.rustls_client_config().map_err(|error| match error {
        kube::Error::RustlsTls(why) if by_system => Failure::new(
            FailureKind::Tls,
            format!(
                "the system's certificate authorities cannot be used ({why}); \
                 give the CA of the API server in the Secret's key {CA_BUNDLE}"
            ),
        ),
        other => classify(&other),
    })
}
