//! Pauses between the probes of a member. Pure, but for the jitter.

use std::time::Duration;

use causeway::process::backoff::spread;

/// Maximum pause after the first failure. It doubles with each further one in a row. Many members
/// fail at once where what they have in common restarts, such as causeway-tunnel: each is noticed
/// soon after it answers again.
const FIRST: Duration = Duration::from_secs(1);
/// Maximum pause after a failure, however long an outage lasts.
pub(super) const LONGEST: Duration = Duration::from_secs(5);
/// Doublings from the first pause to beyond the longest.
const DOUBLINGS: u32 = 3;

/// Pace of the probes of a member.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    every: Duration,
}

impl Pace {
    /// Creates the pace of probes that begin at this interval while all is well. They begin as
    /// often during an outage, or more often.
    pub(super) fn new(every: Duration) -> Self {
        Self { every }
    }

    /// Returns the pause after a probe that took this long, the last of so many failures in a row.
    pub(super) fn pause(self, failures: u32, took: Duration) -> Duration {
        let usual = self.every.saturating_sub(took);
        match failures.checked_sub(1) {
            Some(failed) => {
                let most = FIRST
                    .saturating_mul(1 << failed.min(DOUBLINGS))
                    .min(LONGEST);
                spread(most / 2, most).min(usual)
            }
            None => usual,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVERY: Duration = Duration::from_secs(10);

    #[test]
    fn failures_bring_the_next_probes_forward() {
        let pace = Pace::new(EVERY);
        let at_once = Duration::ZERO;
        for (failures, least, most) in [
            (0, 10.0, 10.0),
            (1, 0.5, 1.0),
            (2, 1.0, 2.0),
            (3, 2.0, 4.0),
            (4, 2.5, 5.0),
            (u32::MAX, 2.5, 5.0),
        ] {
            let pause = pace.pause(failures, at_once).as_secs_f64();
            assert!((least..=most).contains(&pause), "{failures}: {pause}");
        }
    }

    #[test]
    fn probes_begin_at_their_interval_however_long_they_take() {
        let pace = Pace::new(EVERY);
        for (failures, took, most) in [(0, 3, 7), (0, 12, 0), (3, 9, 1), (9, 5, 5)] {
            let pause = pace.pause(failures, Duration::from_secs(took));
            assert!(pause <= Duration::from_secs(most), "{failures} {took}");
        }
        let short = Pace::new(Duration::from_millis(20));
        assert!(short.pause(1, Duration::ZERO) <= Duration::from_millis(20));
    }

    #[test]
    fn outage_of_any_length_is_noticed_within_five_seconds_of_its_end() {
        let pace = Pace::new(EVERY);
        for outage in [1, 2, 3, 30, 3600].map(Duration::from_secs) {
            for _ in 0..100 {
                let (mut at, mut failures) = (Duration::ZERO, 1);
                while at < outage {
                    at += pace.pause(failures, Duration::ZERO);
                    failures += 1;
                }
                assert!(at <= outage + LONGEST, "{outage:?}: {at:?}");
            }
        }
    }
}
