//! Pauses between attempts to connect: exponential, with full jitter.

use std::time::Duration;

const FIRST: Duration = Duration::from_millis(500);
const LONGEST: Duration = Duration::from_secs(30);
/// Doublings from the first pause to beyond the longest.
const DOUBLINGS: u32 = 6;

/// Pauses between attempts to connect.
#[derive(Debug, Default)]
pub struct Backoff {
    failures: u32,
}

impl Backoff {
    /// Returns the pause after another failed attempt. `random` of all values spreads agents evenly:
    /// the pause is between nothing and the bound, which doubles with each failure.
    pub fn after_failure(&mut self, random: u32) -> Duration {
        let bound = FIRST.saturating_mul(1 << self.failures).min(LONGEST);
        self.failures = (self.failures + 1).min(DOUBLINGS);
        bound.mul_f64(f64::from(random) / f64::from(u32::MAX))
    }

    /// Records a success.
    pub fn succeeded(&mut self) {
        self.failures = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bound_doubles_from_half_a_second_to_thirty() {
        let mut backoff = Backoff::default();
        let pauses: Vec<_> = (0..9).map(|_| backoff.after_failure(u32::MAX)).collect();
        let seconds: Vec<_> = pauses.iter().map(Duration::as_secs_f64).collect();
        assert_eq!(seconds, [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0, 30.0]);
        assert_eq!(backoff.after_failure(0), Duration::ZERO);
        backoff.succeeded();
        assert_eq!(backoff.after_failure(u32::MAX), FIRST);
    }
}
