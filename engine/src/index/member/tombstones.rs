//! Objects that were seen deleted.

use std::collections::VecDeque;

/// The UIDs of the objects that were seen deleted last: an answer to a write that comes later brings none of them back.
#[derive(Debug, Default)]
pub(super) struct Tombstones(VecDeque<Box<str>>);

impl Tombstones {
    const KEPT: usize = 256;

    pub(super) fn add(&mut self, uid: &str) {
        self.0.truncate(Self::KEPT - 1);
        self.0.push_front(uid.into());
    }

    pub(super) fn contains(&self, uid: &str) -> bool {
        self.0.iter().any(|kept| **kept == *uid)
    }
}
