//! A client of one member.

use std::time::Duration;

use causeway::target::{CA_BUNDLE, Target};
use causeway_engine::model::{Failure, FailureKind};
use http::header::{HeaderValue, USER_AGENT};
use kube::Client;

use super::bounded::Bounded;
use super::transport::transport;
use crate::failure::classify;
use crate::watch;

/// A connection on which nothing was observed for this much longer than a watch lasts is dead.
const READ_MARGIN: Duration = Duration::from_secs(30);

/// A client for the member, which gives up connecting after `timeout` and calls itself `agent`. Requests are not retried by it, and
/// each needs a deadline of its own; an answer that is too long is an error. To be called within a tokio runtime.
///
/// # Errors
/// [`Failure`] where the certificates cannot be used, or the system has none and the Secret neither.
pub fn client(target: &Target, timeout: Duration, agent: &HeaderValue) -> Result<Client, Failure> {
    let mut config = target.config();
    let by_system = config.root_cert.is_none();
    config.connect_timeout = Some(timeout);
    let patience = watch::Settings::default();
    config.read_timeout = Some(patience.watch_timeout + patience.margin + READ_MARGIN);
    config.reset_reader_on_write = true;
    config.headers.push((USER_AGENT, agent.clone()));
    let namespace = config.default_namespace.clone();
    let service = transport(&config).map_err(|error| match error {
        kube::Error::RustlsTls(why) if by_system => Failure::new(
            FailureKind::Tls,
            format!(
                "the system's certificate authorities cannot be used ({why}); \
                 give the CA of the API server in the Secret's key {CA_BUNDLE}"
            ),
        ),
        other => classify(&other),
    })?;
    Ok(Client::new(Bounded(service), namespace))
}
