//! Lists in which an entry may stand several times, compared entry by entry.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::hash::Hash;

/// Counts the occurrences of each entry.
pub(super) fn times<T: Eq + Hash>(entries: impl Iterator<Item = T>) -> HashMap<T, usize> {
    let mut times = HashMap::new();
    for entry in entries {
        *times.entry(entry).or_default() += 1;
    }
    times
}

/// Takes one of an entry away; says whether there was one.
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
