//! Objects that were observed deleted.

use std::collections::VecDeque;

/// UIDs of the objects that were last observed deleted. The answer to a write may come after the
/// watch showed the object deleted: it does not restore the object.
#[derive(Debug, Default)]
pub(crate) struct Tombstones(VecDeque<Box<str>>);

impl Tombstones {
    const KEPT: usize = 256;

    /// Notes that the object was observed deleted.
    pub(crate) fn add(&mut self, uid: &str) {
        self.0.truncate(Self::KEPT - 1);
        self.0.push_front(uid.into());
    }

    /// Whether the object was observed deleted.
    pub(crate) fn contains(&self, uid: &str) -> bool {
        self.0.iter().any(|kept| **kept == *uid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_deletions_are_kept_and_no_more() {
        let mut tombstones = Tombstones::default();
        for uid in 0..=Tombstones::KEPT {
            tombstones.add(&uid.to_string());
        }
        assert!(!tombstones.contains("0") && tombstones.contains("1"));
        assert_eq!(tombstones.0.len(), Tombstones::KEPT);
    }
}
