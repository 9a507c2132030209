//! Lists of a slice of which a bounded number of elements is stored: the smallest elements take
//! up to forty times their bytes in memory.

use causeway::api::lists::first_entries;
use serde::{Deserialize, Deserializer};

/// Adds an element to a list, unless that has `MOST` already.
pub(super) fn add<const MOST: usize, T>(all: &mut Vec<T>, element: T) {
    if all.len() < MOST {
        all.push(element);
    }
}

/// Reads a list and returns its first `MOST` elements; `null` is an empty list. Elements beyond
/// them are decoded and dropped: a malformed one makes the slice unread. For `deserialize_with`.
pub(super) fn list<'de, const MOST: usize, T, D>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    T: Deserialize<'de>,
    D: Deserializer<'de>,
{
    first_entries(deserializer, MOST)
}
