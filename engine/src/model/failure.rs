//! Reasons why a request to an API server failed. The text is stable while the failure is the same.

use std::collections::BTreeSet;
use std::error::Error as StdError;
use std::fmt;

use causeway::api::absence::absent_object;
use causeway::api::bounds;
use kube::core::Status;

/// Failed request: one line of bounded length.
///
/// Failures are equal if they have the same kind, the same message of ours, and the same words
/// without digits in the text of the other program. A request id, a time, an address or a counter
/// in that text does not make each refusal another one.
#[derive(Clone, Debug)]
pub struct Failure {
    /// Kind of failure.
    pub kind: FailureKind,
    message: Box<str>,
    /// Text of another program, such as the API server, if it is repeated.
    detail: Box<str>,
    /// Whether that text is excluded from comparisons, as one that may have been cut: another part
    /// of it may be left each time.
    detail_varies: bool,
}

impl PartialEq for Failure {
    fn eq(&self, other: &Self) -> bool {
        self.is_alike(other) && self.words() == other.words()
    }
}

impl Eq for Failure {}

/// Kinds of failures that are distinguished.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FailureKind {
    /// No process listens at the address.
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
    /// 409: an object of that name already exists.
    AlreadyExists,
    /// 404 of the object.
    NotFound,
    /// 400, 413, 422: the request is not acceptable and will not become so.
    Invalid,
    /// 422: a Service requests an address that another one has. The API server releases the address
    /// of a deleted Service a moment after watches have reported the deletion.
    AddressTaken,
    /// 429: too many requests.
    TooMany,
    /// 5xx: the API server fails.
    Server,
    /// 410: the resourceVersion or the page is no longer kept.
    Expired,
    /// The API server sends more than the limits allow.
    Excess,
    /// Anything else.
    Other,
}

impl FailureKind {
    /// Returns the kind, as metrics name it.
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
    /// Returns a failure of that kind, with a message of ours.
    pub fn new(kind: FailureKind, message: impl AsRef<str>) -> Self {
        Self::quoting(kind, message.as_ref(), "")
    }

    /// Returns a failure of that kind, with a message of ours (may be empty) before a text of
    /// another program.
    pub fn quoting(kind: FailureKind, message: &str, detail: &str) -> Self {
        Self {
            kind,
            message: bounds::foreign(message).into(),
            detail: bounds::foreign(detail).into(),
            detail_varies: detail.len() >= bounds::FOREIGN_TEXT,
        }
    }

    /// Excludes the text of the other program from comparisons, because each of its replicas
    /// writes another text.
    #[must_use]
    pub fn of_any_replica(self) -> Self {
        Self {
            detail_varies: true,
            ..self
        }
    }

    /// Whether two failures have the same kind and the same message of ours, whatever the other
    /// program wrote.
    pub(crate) fn is_alike(&self, other: &Self) -> bool {
        (self.kind, &self.message) == (other.kind, &other.message)
    }

    /// Returns the words that are compared. Their order is not: an API server may list its reasons
    /// in any order.
    fn words(&self) -> BTreeSet<&str> {
        let compared = match self.detail_varies {
            true => "",
            false => &*self.detail,
        };
        let words = compared.split_whitespace();
        let words = words.map(|word| word.trim_matches(|letter: char| !letter.is_alphanumeric()));
        words
            .filter(|word| !word.contains(|letter: char| letter.is_ascii_digit()))
            .collect()
    }

    /// Returns the failure of a deadline that passed without an answer.
    pub fn timeout() -> Self {
        Self::new(FailureKind::Timeout, "no answer in time")
    }

    /// Returns the failure that a Status object reports.
    pub fn from_status(status: &Status) -> Self {
        use FailureKind::*;
        let text = status.message.as_str();
        let quoted = |kind| Self::quoting(kind, "", text);
        match (status.code, status.reason.as_str()) {
            (401, _) => Self::new(Unauthorized, "unauthorized"),
            (403, _) => Self::quoting(Forbidden, "forbidden", text),
            (404, _) if absent_object(status).is_some() => quoted(NotFound),
            (404, _) => Self::new(NotServed, "the API server does not serve the resource"),
            (409, "AlreadyExists") => quoted(AlreadyExists),
            (409, _) => quoted(Conflict),
            (410, _) => Self::new(Expired, "the resourceVersion is no longer kept"),
            (422, _) if text.contains("provided IP is already allocated") => quoted(AddressTaken),
            (400 | 413 | 415 | 422, _) => quoted(Invalid),
            (429, _) => Self::new(TooMany, "too many requests"),
            (504, _) => Self::new(Timeout, "the API server got no answer in time"),
            // An admission webhook that is down fails the requests for its objects, not the API
            // server.
            (500, _) if text.contains("failed calling webhook") => webhook_failure(text),
            (500.., _) => Self::new(Server, format!("the API server answers {}", status.code)),
            (code, _) => Self::quoting(Other, &format!("the API server answers {code}"), text),
        }
    }

    /// Replaces the last failure. Retains the last one, with its text, if the two are equal.
    pub fn note(self, last: &mut Option<Self>) {
        if last.as_ref() != Some(&self) {
            *last = Some(self);
        }
    }

    /// Whether the API server as a whole fails or is unreachable, rather than this one request.
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
        let colon = match self.message.is_empty() || self.detail.is_empty() {
            true => "",
            false => ": ",
        };
        write!(out, "{}{colon}{}", self.message, self.detail)
    }
}

impl StdError for Failure {}

/// Returns the failure of an admission webhook, with the webhook's name. Drops the rest of the
/// text, which contains addresses and ports.
fn webhook_failure(text: &str) -> Failure {
    let message = match text.split('"').nth(1) {
        Some(name) => format!("its admission webhook {name} fails"),
        None => "its admission webhook fails".to_owned(),
    };
    Failure::new(FailureKind::Other, message)
}

#[cfg(test)]
mod tests;
