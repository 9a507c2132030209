//! Sentences and remedies that a person reads: one room for all of them.
//!
//! The plan decides, and its decisions are values. This module words them: it decides nothing.

pub(crate) mod cluster;
pub(crate) mod conflict;
mod copies;
mod diagnosis;
pub(crate) mod endpoints;
mod entry;
pub mod events;
pub(crate) mod explain;
pub(crate) mod exports;
pub(crate) mod member;
pub(crate) mod native;
pub(crate) mod problem;
mod progress;
pub(crate) mod remarks;
mod service;
mod tiers;
pub(crate) mod write;

use causeway::domain::ClusterName;

pub use self::diagnosis::Diagnosis;

/// Reason and message of a condition that holds.
pub(crate) type Text<'a> = (&'a str, &'a str);

/// Joins the names of clusters: `member1, member2`.
fn names<'a>(clusters: impl IntoIterator<Item = &'a ClusterName>) -> String {
    let names: Vec<_> = clusters.into_iter().map(ClusterName::as_str).collect();
    names.join(", ")
}

/// Joins the first `most` texts and the number of the others: `a, b and 3 more`.
fn first<T: AsRef<str>>(all: &[T], most: usize) -> String {
    let shown: Vec<_> = all.iter().take(most).map(AsRef::as_ref).collect();
    match all.len().saturating_sub(most) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

#[cfg(test)]
mod tests;
