//! Why a request to an API server failed, in words that stay the same while the trouble does, and when to try again.

use std::error::Error as StdError;
use std::fmt;
use std::hash::{BuildHasher as _, RandomState};
use std::io;
use std::time::Duration;

use kube::core::Status;

/// A failed request. Equal failures read the same: no port, time or counter is part of the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// What sort of failure it is.
    pub kind: FailureKind,
    message: Box<str>,
}

/// The sorts of failures that are told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FailureKind {
    /// Nothing listens at the address.
    Refused,
    /// No answer in time.
    Timeout,
    /// The connection could not be made, or broke.
    Network,
    /// The TLS handshake failed, by a certificate that is not trusted for one.
    Tls,
    /// 401: the credentials are not accepted.
    Unauthorized,
    /// 403: the credentials do not suffice, or admission refused.
    Forbidden,
    /// 404 of the resource itself: the API server does not serve it.
    NotServed,
    /// 409: the object has changed since it was read.
    Conflict,
    /// 409: an object of that name is there already.
    AlreadyExists,
    /// 404 of the object.
    NotFound,
    /// 400, 413, 422: the request is not acceptable and will not become so.
    Invalid,
    /// 422: a Service asks for an address that another has. That of a deleted Service is given back a moment after its watches
    /// have told of the deletion.
    AddressTaken,
    /// 429: too many requests.
    TooMany,
    /// 5xx: the API server is in trouble.
    Server,
    /// 410: the resourceVersion or the page is no longer kept.
    Expired,
    /// It sends more than is listened to.
    Excess,
    /// Anything else.
    Other,
}

impl FailureKind {
    /// The kind, as metrics name it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Refused => "refused",
            Self::Timeout => "timeout",
            Self::Network => "network",
            Self::Tls => "tls",
            Self::Unauthorized => "unauthorized",
            Self::Forbidden => "forbidden",
            Self::NotServed => "not_served",
            Self::Conflict => "conflict",
            Self::AlreadyExists => "already_exists",
            Self::NotFound => "not_found",
            Self::Invalid => "invalid",
            Self::AddressTaken => "address_taken",
            Self::TooMany => "too_many",
            Self::Server => "server",
            Self::Expired => "expired",
            Self::Excess => "excess",
            Self::Other => "other",
        }
    }
}

impl Failure {
    /// A failure of that kind with that text.
    pub fn new(kind: FailureKind, message: impl Into<Box<str>>) -> Self {
        Self {
            kind,
            message: message.into(),
        }
    }

    /// A deadline passed without an answer.
    pub fn timeout() -> Self {
        Self::new(FailureKind::Timeout, "no answer in time")
    }

    /// The failure that a Status object tells of.
    pub fn from_status(status: &Status) -> Self {
        let (kind, message) = of_status(status);
        Self {
            kind,
            message: message.into(),
        }
    }

    /// Whether the API server as a whole is in trouble or out of reach, rather than this one request.
    pub fn is_connection(&self) -> bool {
        matches!(
            self.kind,
            FailureKind::Refused
                | FailureKind::Timeout
                | FailureKind::Network
                | FailureKind::Tls
                | FailureKind::Unauthorized
                | FailureKind::Server
        )
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.message)
    }
}

impl StdError for Failure {}

impl From<kube::Error> for Failure {
    fn from(error: kube::Error) -> Self {
        match &error {
            kube::Error::Api(status) => Self::from_status(status),
            kube::Error::SerdeError(error) => unreadable(error),
            other => Self::from_chain(other),
        }
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::from_chain(&error)
    }
}

impl From<serde_json::Error> for Failure {
    fn from(error: serde_json::Error) -> Self {
        unreadable(&error)
    }
}

impl Failure {
    fn from_chain(error: &(dyn StdError + 'static)) -> Self {
        let (kind, message) = chain(error).find_map(of_error).unwrap_or_else(|| {
            (
                FailureKind::Other,
                chain(error).last().unwrap_or(error).to_string(),
            )
        });
        Self {
            kind,
            message: message.into(),
        }
    }
}

fn unreadable(error: &serde_json::Error) -> Failure {
    Failure::new(
        FailureKind::Other,
        format!("the answer cannot be read: {error}"),
    )
}

fn of_status(status: &Status) -> (FailureKind, String) {
    let text = status.message.as_str();
    let names_an_object = status
        .details
        .as_ref()
        .is_some_and(|details| !details.name.is_empty());
    match (status.code, status.reason.as_str()) {
        (401, _) => (FailureKind::Unauthorized, "unauthorized".to_owned()),
        (403, _) => (FailureKind::Forbidden, format!("forbidden: {text}")),
        (404, _) if names_an_object => (FailureKind::NotFound, text.to_owned()),
        (404, _) => (
            FailureKind::NotServed,
            "the API server does not serve the resource".to_owned(),
        ),
        (409, "AlreadyExists") => (FailureKind::AlreadyExists, text.to_owned()),
        (409, _) => (FailureKind::Conflict, text.to_owned()),
        (410, _) => (
            FailureKind::Expired,
            "the resourceVersion is no longer kept".to_owned(),
        ),
        (422, _) if text.contains("provided IP is already allocated") => {
            (FailureKind::AddressTaken, text.to_owned())
        }
        (400 | 413 | 415 | 422, _) => (FailureKind::Invalid, text.to_owned()),
        (429, _) => (FailureKind::TooMany, "too many requests".to_owned()),
        (504, _) => (
            FailureKind::Timeout,
            "the API server got no answer in time".to_owned(),
        ),
        // An admission webhook that is down fails the requests for its objects, not the API server.
        (500, _) if text.contains("failed calling webhook") => {
            (FailureKind::Other, webhook_failure(text))
        }
        (500.., _) => (
            FailureKind::Server,
            format!("the API server answers {}", status.code),
        ),
        (code, _) => (
            FailureKind::Other,
            format!("the API server answers {code}: {text}"),
        ),
    }
}

/// Keeps the webhook's name and drops the rest, which holds addresses and ports.
fn webhook_failure(text: &str) -> String {
    match text.split('"').nth(1) {
        Some(name) => format!("its admission webhook {name} fails"),
        None => "its admission webhook fails".to_owned(),
    }
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

fn of_error(error: &(dyn StdError + 'static)) -> Option<(FailureKind, String)> {
    if let Some(tls) = error.downcast_ref::<rustls::Error>() {
        return Some((FailureKind::Tls, of_tls(tls)));
    }
    if let Some(io) = error.downcast_ref::<io::Error>() {
        return of_io(io).map(|(kind, message)| (kind, message.to_owned()));
    }
    if let Some(kube::Error::RustlsTls(error)) = error.downcast_ref::<kube::Error>() {
        return Some((FailureKind::Tls, error.to_string()));
    }
    if let Some(http) = error.downcast_ref::<hyper::Error>()
        && http.source().is_none()
        && (http.is_incomplete_message() || http.is_closed() || http.is_canceled())
    {
        return Some((FailureKind::Network, "the connection was lost".to_owned()));
    }
    // The connector's own error type is private; its text names the stage.
    (error.to_string() == "dns error").then(|| {
        (
            FailureKind::Network,
            "its host name cannot be resolved".to_owned(),
        )
    })
}

fn of_io(error: &io::Error) -> Option<(FailureKind, &'static str)> {
    use io::ErrorKind;
    // A kind around another error is judged by that one, which knows more.
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
        | ErrorKind::UnexpectedEof => Some((FailureKind::Network, "the connection was lost")),
        _ => None,
    }
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

/// Doubling pauses between attempts, with jitter: between half of the pause and the whole of it.
#[derive(Clone, Debug)]
pub struct Backoff {
    first: Duration,
    last: Duration,
    attempts: u32,
}

impl Backoff {
    /// Pauses that start at `first`, double, and stay at `last`.
    pub fn new(first: Duration, last: Duration) -> Self {
        Self {
            first,
            last,
            attempts: 0,
        }
    }

    /// How long to pause before the next attempt.
    pub fn pause(&mut self) -> Duration {
        let whole = self
            .first
            .saturating_mul(1 << self.attempts.min(20))
            .min(self.last);
        self.attempts = self.attempts.saturating_add(1);
        spread(whole / 2, whole)
    }

    /// The next pause is the first one again.
    pub fn reset(&mut self) {
        self.attempts = 0;
    }
}

/// A random duration between the two.
pub fn spread(least: Duration, most: Duration) -> Duration {
    let share = (random() >> 32) as f64 / f64::from(u32::MAX);
    least + most.saturating_sub(least).mul_f64(share)
}

/// A random number; not for secrets.
pub fn random() -> u64 {
    RandomState::new().hash_one(())
}

#[cfg(test)]
mod tests;
