//! Pauses between attempts: exponential, with jitter.

use std::hash::{BuildHasher as _, RandomState};
use std::time::Duration;

/// Pauses between attempts, whose bound doubles with each one.
#[derive(Clone, Debug)]
pub struct Backoff {
    first: Duration,
    last: Duration,
    attempts: u32,
}

impl Backoff {
    /// Bounds that start at `first`, double, and stay at `last`.
    pub fn new(first: Duration, last: Duration) -> Self {
        Self {
            first,
            last,
            attempts: 0,
        }
    }

    /// Returns the pause before the next attempt, between half of its bound and the bound.
    pub fn pause(&mut self) -> Duration {
        let bound = self.bound();
        spread(bound / 2, bound)
    }

    /// Returns the pause before the next attempt, with full jitter: between nothing and its bound,
    /// `longest` at most.
    pub fn pause_within(&mut self, longest: Duration) -> Duration {
        spread(Duration::ZERO, self.bound().min(longest))
    }

    fn bound(&mut self) -> Duration {
        let bound = self.first.saturating_mul(1 << self.attempts.min(20));
        self.attempts = self.attempts.saturating_add(1);
        bound.min(self.last)
    }

    /// Returns the number of pauses since the start or the last reset.
    pub fn attempts(&self) -> u32 {
        self.attempts
    }

    /// Resets the bound to the first one.
    pub fn reset(&mut self) {
        self.attempts = 0;
    }
}

/// A random duration between the two.
pub fn spread(least: Duration, most: Duration) -> Duration {
    let share = (random() >> 32) as f64 / f64::from(u32::MAX);
    least + most.saturating_sub(least).mul_f64(share)
}

/// A random number; not for secrets.
pub fn random() -> u64 {
    RandomState::new().hash_one(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_last_one_and_begin_again() {
        let mut backoff = Backoff::new(Duration::from_millis(200), Duration::from_secs(30));
        for whole in [
            200, 400, 800, 1_600, 3_200, 6_400, 12_800, 25_600, 30_000, 30_000,
        ] {
            let whole = Duration::from_millis(whole);
            let pause = backoff.pause();
            assert!(
                pause >= whole / 2 && pause <= whole,
                "{pause:?} of {whole:?}"
            );
        }
        backoff.reset();
        assert!(backoff.pause() <= Duration::from_millis(200));
    }

    #[test]
    fn full_jitter_spreads_over_a_bound_that_doubles() {
        for (longest, bounds) in [
            (30, [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0]),
            (5, [0.5, 1.0, 2.0, 4.0, 5.0, 5.0, 5.0, 5.0]),
        ] {
            let longest = Duration::from_secs(longest);
            let mut backoff = Backoff::new(Duration::from_millis(500), Duration::from_secs(30));
            for bound in bounds.map(Duration::from_secs_f64) {
                let pauses = (0..1000).map(|_| backoff.clone().pause_within(longest));
                let pauses: Vec<_> = pauses.collect();
                assert!(pauses.iter().all(|pause| *pause <= bound), "{bound:?}");
                assert!(pauses.iter().any(|pause| *pause > bound.mul_f64(0.9)));
                assert!(pauses.iter().any(|pause| *pause < bound.mul_f64(0.1)));
                backoff.pause_within(longest);
            }
        }
    }
}
