//! Lists in which an entry may repeat, compared entry by entry.

use std::borrow::Borrow;
use std::collections::{HashMap, HashSet};
use std::hash::Hash;

/// Counts the occurrences of each entry.
pub(super) fn times<T: Eq + Hash>(entries: impl Iterator<Item = T>) -> HashMap<T, usize> {
    let mut times = HashMap::new();
    for entry in entries {
        *times.entry(entry).or_default() += 1;
    }
    times
}

/// Takes one occurrence of an entry; false if there is none left.
pub(super) fn take<T, Q>(times: &mut HashMap<T, usize>, entry: &Q) -> bool
where
    T: Eq + Hash + Borrow<Q>,
    Q: Eq + Hash + ?Sized,
{
    match times.get_mut(entry) {
        Some(left) if *left > 0 => {
            *left -= 1;
            true
        }
        _ => false,
    }
}

/// Whether a list repeats an entry. It hardly ever does, so this needs no hashes.
pub(super) fn has_repetition(entries: &[&str]) -> bool {
    let mut sorted = entries.to_vec();
    sorted.sort_unstable();
    sorted.windows(2).any(|pair| pair[0] == pair[1])
}

/// Returns the entries that repeat an earlier one, with their indices. A stored entry does not
/// count, as often as it is stored.
pub(super) fn repeated<'a>(entries: &[&'a str], stored: &[&str]) -> Vec<(usize, &'a str)> {
    if !has_repetition(entries) {
        return Vec::new();
    }
    let mut stored = times(stored.iter().copied());
    let mut seen = HashSet::new();
    let entries = entries.iter().copied().enumerate();
    let repeated = entries.filter(|(_, entry)| {
        let is_stored = take(&mut stored, *entry);
        !seen.insert(*entry) && !is_stored
    });
    repeated.collect()
}
