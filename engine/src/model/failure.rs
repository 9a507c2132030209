//! Why a request to an API server failed, in words that stay the same while the failure does.

use std::error::Error as StdError;
use std::fmt;

use kube::core::Status;

/// A failed request. Equal failures read the same: no port, time or counter is part of the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// What sort of failure it is.
    pub kind: FailureKind,
    message: Box<str>,
}

/// The sorts of failures that are distinguished.
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
    /// have shown the deletion.
    AddressTaken,
    /// 429: too many requests.
    TooMany,
    /// 5xx: the API server fails.
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

    /// Whether the API server as a whole fails or is out of reach, rather than this one request.
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

#[cfg(test)]
mod tests;
