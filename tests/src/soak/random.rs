//! Choices that a seed decides, so that a run can be played again.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::soak;

const SEED: &str = "CAUSEWAY_SOAK_SEED";
const OF_THE_SHORT_FORM: u64 = 7;

/// The seed of this run: `CAUSEWAY_SOAK_SEED`, or one of the clock; the short form always makes the
/// same choices.
pub fn seed() -> u64 {
    match std::env::var(SEED) {
        Ok(text) => text
            .parse()
            .unwrap_or_else(|_| panic!("{SEED}={text:?} is no number")),
        Err(_) if soak().is_none() => OF_THE_SHORT_FORM,
        Err(_) => {
            let since = SystemTime::now().duration_since(UNIX_EPOCH);
            u64::from(since.expect("a time after 1970").subsec_nanos())
        }
    }
}

/// A sequence of choices (splitmix64, which is short and good enough for that).
pub struct Random(u64);

impl Random {
    /// The choices of that seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `limit`.
    pub fn below(&mut self, limit: usize) -> usize {
        let limit = u64::try_from(limit).expect("a small number");
        usize::try_from(self.next() % limit).expect("a small number")
    }

    /// Whether something happens that does so once in `times`.
    pub fn once_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    /// One of these.
    pub fn of<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.below(all.len())]
    }

    /// Some of these, in their order; perhaps none, perhaps all.
    pub fn some<T: Copy>(&mut self, all: &[T]) -> Vec<T> {
        all.iter().copied().filter(|_| self.once_in(2)).collect()
    }

    /// A time between these.
    pub fn between(&mut self, least: Duration, most: Duration) -> Duration {
        let span = usize::try_from((most - least).as_millis()).expect("a short time");
        least + Duration::from_millis(u64::try_from(self.below(span + 1)).expect("a short time"))
    }
}
