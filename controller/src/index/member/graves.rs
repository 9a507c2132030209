use std::collections::VecDeque;

/// The UIDs of the objects that were seen deleted last: an answer to a write that comes later brings none of them back.
#[derive(Debug, Default)]
pub(super) struct Graves(VecDeque<Box<str>>);

impl Graves {
    const KEPT: usize = 256;

    pub(super) fn bury(&mut self, uid: &str) {
        self.0.truncate(Self::KEPT - 1);
        self.0.push_front(uid.into());
    }

    pub(super) fn hold(&self, uid: &str) -> bool {
        self.0.iter().any(|buried| **buried == *uid)
    }
}
