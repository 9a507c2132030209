//! Pauses between attempts to connect: exponential, with full jitter.

use std::time::Duration;

const FIRST: Duration = Duration::from_millis(500);
/// Maximum pause of a process that works meanwhile.
pub const LONGEST: Duration = Duration::from_secs(30);
/// Maximum pause of an agent without a connection: its member is unreachable.
pub const LONGEST_CUT_OFF: Duration = Duration::from_secs(5);
/// Doublings from the first pause to beyond the longest.
const DOUBLINGS: u32 = 6;

/// Pauses between attempts to connect.
#[derive(Debug, Default)]
pub struct Backoff {
    failures: u32,
}

impl Backoff {
    /// Returns the pause after another failed attempt. `random` of all values spreads agents
    /// evenly: the pause is between nothing and the bound, which doubles with each failure up to
    /// `longest`.
    pub fn after_failure(&mut self, longest: Duration, random: u32) -> Duration {
        let bound = FIRST.saturating_mul(1 << self.failures).min(longest);
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
    fn bound_doubles_from_half_a_second_to_the_longest() {
        for (longest, expected) in [
            (LONGEST, [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0]),
            (LONGEST_CUT_OFF, [0.5, 1.0, 2.0, 4.0, 5.0, 5.0, 5.0, 5.0]),
        ] {
            let mut backoff = Backoff::default();
            let pauses = expected.map(|_| backoff.after_failure(longest, u32::MAX).as_secs_f64());
            assert_eq!(pauses, expected);
            assert_eq!(backoff.after_failure(longest, 0), Duration::ZERO);
            backoff.succeeded();
            assert_eq!(backoff.after_failure(longest, u32::MAX), FIRST);
        }
    }
}
