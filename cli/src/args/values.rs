//! Values that are more than text, and what is said of those that are malformed.

use std::time::Duration;

use causeway::domain::{MalformedDuration, parse_duration};

/// The Lease of the controller, if it has one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Lease(pub Option<(String, String)>);

/// What a value should look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Malformed {
    #[error("write it as NAMESPACE/NAME")]
    Lease,
    #[error("write it as https://webhook.example:9443")]
    Url,
    #[error("write it as registry.example/team, without https://")]
    Registry,
    #[error("a tag is of letters, digits, dots, dashes and underscores")]
    Tag,
    #[error(
        "write it as the nodes' labels have it: at most 63 letters, digits, dots, dashes and underscores"
    )]
    Place,
}

pub(super) fn duration(text: &str) -> Result<Duration, MalformedDuration> {
    parse_duration(text)
}

/// A region or a zone: the value of a node's label (Kubernetes, "Labels and Selectors").
pub(super) fn place(text: &str) -> Result<String, Malformed> {
    let outer = |c: char| c.is_ascii_alphanumeric();
    let inner = |c: char| outer(c) || "-_.".contains(c);
    let is_place = text.len() <= 63
        && text.chars().all(inner)
        && text.starts_with(outer)
        && text.ends_with(outer);
    is_place.then(|| text.to_owned()).ok_or(Malformed::Place)
}

pub(super) fn lease(text: &str) -> Result<Lease, Malformed> {
    match text.split_once('/') {
        _ if text.is_empty() => Ok(Lease(None)),
        Some((namespace, name))
            if !namespace.is_empty() && !name.is_empty() && !name.contains('/') =>
        {
            Ok(Lease(Some((namespace.to_owned(), name.to_owned()))))
        }
        _ => Err(Malformed::Lease),
    }
}
