//! Clients of one member.

use std::time::Duration;

use causeway::target::{CA_BUNDLE, PROXY_CA_BUNDLE, Target, Token, Transport, TransportError};
use causeway_engine::model::{Failure, FailureKind};
use http::header::{HeaderValue, USER_AGENT};
use kube::Client;
use tokio::sync::watch;

use super::bounded::Bounded;
use crate::failure::{Classify as _, classify};
use crate::watch::Settings;

/// A connection on which nothing was observed for this much longer than a watch lasts is dead.
const READ_MARGIN: Duration = Duration::from_secs(30);

/// Makes clients of one member, each with connections of its own.
#[derive(Clone)]
pub struct Connector {
    transport: Transport,
    /// Token of the next request.
    token: watch::Receiver<Token>,
    namespace: String,
}

impl Connector {
    /// Returns a source of clients that give up connecting after `timeout` and send `agent`. Each
    /// request bears the token of its moment, so a renewed token ends no connection. They retry no
    /// request, and each request needs a deadline of its own; an answer that is too long
    /// is an error.
    ///
    /// # Errors
    /// [`Failure`] if the certificates of the member or its proxy cannot be used, or neither the
    /// system nor the Secret has any.
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
        let namespace = config.default_namespace.clone();
        let transport = Transport::new(target, config).map_err(unverified)?;
        Ok(Self {
            transport,
            token,
            namespace,
        })
    }

    /// The next client. To be called within a tokio runtime.
    ///
    /// # Errors
    /// [`Failure`] where the credentials cannot be used.
    pub fn client(&self) -> Result<Client, Failure> {
        let requests = self.transport.requests(&self.token).classified()?;
        Ok(Client::new(Bounded(requests), self.namespace.clone()))
    }
}

/// Returns the failure of certificates that cannot be used.
fn unverified(error: TransportError) -> Failure {
    let (of, key, why) = match error {
        TransportError::Member(why) => ("API server", CA_BUNDLE, why),
        TransportError::Proxy(why) => ("proxy", PROXY_CA_BUNDLE, why),
    };
    // A Secret's certificates were read with it: what fails is the system's.
    match why {
        kube::Error::RustlsTls(why) => Failure::new(
            FailureKind::Tls,
            format!(
                "the system's certificate authorities cannot be used ({why}); \
                 give the CA of the {of} in the Secret's key {key}"
            ),
        ),
        other => classify(&other),
    }
}
