//! Failures of clients.

use std::error::Error as StdError;
use std::io;

use causeway::api::absence::absent_object;
use causeway::target::{PROXY_CA_BUNDLE, ProxyError};
use causeway_engine::model::{Failure, FailureKind};
use http::StatusCode;

/// A result whose error is one of a client.
pub trait Classify<T> {
    /// The same with what the error means.
    ///
    /// # Errors
    /// What [`classify`] makes of it.
    fn classified(self) -> Result<T, Failure>;
}

impl<T, E: StdError + 'static> Classify<T> for Result<T, E> {
    fn classified(self) -> Result<T, Failure> {
        self.map_err(|error| classify(&error))
    }
}

/// Returns the failure that a client's error means: that of an API server's answer, or the deepest
/// cause that has a message.
pub fn classify(error: &(dyn StdError + 'static)) -> Failure {
    match error.downcast_ref::<kube::Error>() {
        Some(kube::Error::Api(status)) => return Failure::from_status(status),
        Some(kube::Error::SerdeError(error)) => return unreadable(error),
        _ => {}
    }
    if let Some(error) = error.downcast_ref::<serde_json::Error>() {
        return unreadable(error);
    }
    if let Some(failure) = chain(error).find_map(of_error) {
        return failure;
    }
    if chain(error).any(is_lost_connection) {
        return Failure::new(FailureKind::Network, LOST);
    }
    let last = chain(error).last().unwrap_or(error);
    Failure::quoting(FailureKind::Other, "", &last.to_string())
}

/// Whether an API server answered that the object of this name does not exist.
pub fn is_absence(error: &kube::Error, name: &str) -> bool {
    matches!(error, kube::Error::Api(status) if absent_object(status) == Some(name))
}

/// An answer that is not what was asked for.
pub(crate) fn unreadable(error: &(dyn StdError + 'static)) -> Failure {
    let message = "the answer cannot be read";
    Failure::quoting(FailureKind::Other, message, &error.to_string())
}

/// An error and its causes, also those that an `io::Error` wraps without naming them as its source.
fn chain<'a>(
    error: &'a (dyn StdError + 'static),
) -> impl Iterator<Item = &'a (dyn StdError + 'static)> {
    const DEPTH: usize = 16;
    std::iter::successors(Some(error), |&error| {
        match error.downcast_ref::<io::Error>() {
            Some(io) => io.get_ref().map(|inner| inner as &(dyn StdError + 'static)),
            None => error.source(),
        }
    })
    .take(DEPTH)
}

fn of_error(error: &(dyn StdError + 'static)) -> Option<Failure> {
    if let Some(proxy) = error.downcast_ref::<ProxyError>() {
        return Some(of_proxy(proxy));
    }
    if let Some(tls) = error.downcast_ref::<rustls::Error>() {
        return Some(Failure::new(FailureKind::Tls, of_tls(tls)));
    }
    if let Some(io) = error.downcast_ref::<io::Error>() {
        return of_io(io).map(|(kind, message)| Failure::new(kind, message));
    }
    if let Some(kube::Error::RustlsTls(error)) = error.downcast_ref::<kube::Error>() {
        return Some(Failure::new(FailureKind::Tls, error.to_string()));
    }
    // The connector's own error type is private; its text names the stage.
    let unresolved = "its host name cannot be resolved";
    let is_unresolved = error.to_string() == "dns error";
    is_unresolved.then(|| Failure::new(FailureKind::Network, unresolved))
}

const LOST: &str = "the connection was lost";

/// Whether hyper gave a request up with its connection. The error may have a cause, which is no
/// more than a text.
fn is_lost_connection(error: &(dyn StdError + 'static)) -> bool {
    error
        .downcast_ref::<hyper::Error>()
        .is_some_and(|http| http.is_incomplete_message() || http.is_closed() || http.is_canceled())
}

fn of_io(error: &io::Error) -> Option<(FailureKind, &'static str)> {
    use io::ErrorKind;
    // A kind around another error is classified by that one, which knows more.
    if error
        .get_ref()
        .is_some_and(|inner| chain(inner).any(|cause| of_error(cause).is_some()))
    {
        return None;
    }
    match error.kind() {
        ErrorKind::ConnectionRefused => Some((FailureKind::Refused, "connection refused")),
        ErrorKind::TimedOut => Some((FailureKind::Timeout, "no answer in time")),
        ErrorKind::HostUnreachable
        | ErrorKind::NetworkUnreachable
        | ErrorKind::AddrNotAvailable => Some((FailureKind::Network, "no route to its address")),
        ErrorKind::ConnectionReset
        | ErrorKind::ConnectionAborted
        | ErrorKind::BrokenPipe
        | ErrorKind::NotConnected
        | ErrorKind::UnexpectedEof => Some((FailureKind::Network, LOST)),
        _ => None,
    }
}

fn of_proxy(error: &ProxyError) -> Failure {
    let (proxy, why) = match error {
        ProxyError::Unusable { proxy, why } => (proxy, why),
        ProxyError::Tunnel { status, reason } => {
            // Waiting helps against all reasons but this one.
            let kind = match *status {
                StatusCode::NOT_IMPLEMENTED => FailureKind::Invalid,
                _ => FailureKind::Network,
            };
            let (message, detail) = reason.split_once(": ").unwrap_or((reason, ""));
            let failure = Failure::quoting(kind, message, detail);
            // Each replica of causeway-tunnel gives another detail, and a status is written once.
            return match *status {
                StatusCode::SERVICE_UNAVAILABLE => failure.of_any_replica(),
                _ => failure,
            };
        }
        _ => return Failure::new(FailureKind::Network, error.to_string()),
    };
    let why = classify(&**why);
    let remedy = match why.kind {
        FailureKind::Tls => {
            format!("; give the proxy's CA in the key {PROXY_CA_BUNDLE} of the Cluster's Secret")
        }
        _ => String::new(),
    };
    let kind = match why.is_connection() {
        true => why.kind,
        false => FailureKind::Network,
    };
    Failure::new(kind, format!("{proxy}: {why}{remedy}"))
}

fn of_tls(error: &rustls::Error) -> String {
    use rustls::{CertificateError, Error};
    match error {
        Error::InvalidCertificate(why) => match why {
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
                "its certificate has expired".into()
            }
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
                "its certificate is not valid yet".into()
            }
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                "its certificate is for another name".into()
            }
            _ => "certificate not trusted".into(),
        },
        Error::InvalidMessage(_) => "it does not speak TLS".into(),
        other => format!("TLS handshake failed: {other}"),
    }
}

#[cfg(test)]
mod tests;
