//! The bound on bytes that the process holds for receivers that are slower than their senders.
//!
//! The window of a stream lets the other side send a mebibyte that nobody may read. The windows of
//! all streams together are more than the process may hold, so the bytes are counted as they
//! arrive. Each stream has a small allowance of its own. Beyond it, streams share the budget, and a
//! stream for which nothing is left is reset. Streams that are read hold next to nothing, so they
//! never need the budget that stuck streams have used up.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Bytes that each stream may hold whatever others hold.
pub const ALLOWANCE: usize = 64 * 1024;
/// Bytes that are counted for each chunk beside its content, so that tiny chunks are bounded too.
pub const CHUNK: usize = 128;

/// Bytes that the streams of the process may hold together beyond their allowances.
#[derive(Debug)]
pub struct Budget {
    free: AtomicUsize,
    total: usize,
}

impl Budget {
    /// Creates a budget.
    pub fn new(total: usize) -> Arc<Self> {
        let free = AtomicUsize::new(total);
        Arc::new(Self { free, total })
    }

    /// Returns the number of bytes in use.
    pub fn used(&self) -> usize {
        self.total - self.free.load(Ordering::Relaxed)
    }

    fn take(&self, bytes: usize) -> bool {
        let less = |free: usize| free.checked_sub(bytes);
        let taken = self
            .free
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
        taken.is_ok()
    }

    fn give_back(&self, bytes: usize) {
        self.free.fetch_add(bytes, Ordering::Relaxed);
    }
}

/// Bytes that one stream holds.
#[derive(Debug)]
pub struct Held {
    budget: Arc<Budget>,
    bytes: usize,
    max: usize,
}

impl Held {
    /// Creates the account of a stream, which may hold `max` bytes.
    pub fn new(budget: Arc<Budget>, max: usize) -> Self {
        Self {
            budget,
            bytes: 0,
            max,
        }
    }

    fn shared(bytes: usize) -> usize {
        bytes.saturating_sub(ALLOWANCE)
    }

    /// Counts a chunk; false if the stream may not hold it.
    #[must_use]
    pub fn hold(&mut self, length: usize) -> bool {
        let bytes = self.bytes + length + CHUNK;
        let may = bytes <= self.max
            && self
                .budget
                .take(Self::shared(bytes) - Self::shared(self.bytes));
        if may {
            self.bytes = bytes;
        }
        may
    }

    /// Gives back bytes of content that were written.
    pub fn written(&mut self, length: usize) {
        self.shrink(length);
    }

    /// Gives back what a chunk costs beside its content.
    pub fn chunk_done(&mut self) {
        self.shrink(CHUNK);
    }

    fn shrink(&mut self, bytes: usize) {
        let left = self.bytes.saturating_sub(bytes);
        self.budget
            .give_back(Self::shared(self.bytes) - Self::shared(left));
        self.bytes = left;
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.budget.give_back(Self::shared(self.bytes));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn streams_share_what_exceeds_their_allowance() {
        let budget = Budget::new(1000);
        let [mut one, mut other] = [(); 2].map(|()| Held::new(budget.clone(), usize::MAX));
        assert!(one.hold(ALLOWANCE - CHUNK) && budget.used() == 0);
        assert!(one.hold(1000 - CHUNK) && budget.used() == 1000);
        assert!(!one.hold(1), "the budget is used up");
        assert!(other.hold(ALLOWANCE - CHUNK), "the allowance is its own");
        assert!(!other.hold(0), "a chunk costs something without content");
        one.written(500);
        assert_eq!(budget.used(), 500);
        assert!(other.hold(0));
        drop(one);
        drop(other);
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn one_stream_holds_no_more_than_its_maximum() {
        let budget = Budget::new(usize::MAX);
        let mut held = Held::new(budget, 2 * ALLOWANCE);
        let chunks = (0..).take_while(|_| held.hold(1)).count();
        assert_eq!(chunks, 2 * ALLOWANCE / (CHUNK + 1));
    }

    proptest! {
        #[test]
        fn all_that_was_taken_is_given_back(chunks in prop::collection::vec(0..200_000_usize, 0..40)) {
            let budget = Budget::new(1 << 20);
            let mut held = Held::new(budget.clone(), usize::MAX);
            for length in chunks {
                if held.hold(length) && length % 3 == 0 {
                    held.written(length);
                    held.chunk_done();
                }
                prop_assert!(budget.used() <= 1 << 20);
            }
            drop(held);
            prop_assert_eq!(budget.used(), 0);
        }
    }
}
