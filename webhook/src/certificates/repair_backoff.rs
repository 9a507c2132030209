//! Back-off of repairs. The first five are immediate. If somebody undoes each of them, such as a
//! replica with another clock, they become rarer.

use std::time::{Duration, Instant};

const AT_ONCE: u32 = 5;
const FIRST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(30);
/// Time without a repair after which the back-off begins again.
const RESET_AFTER: Duration = Duration::from_secs(120);

/// Number and time of the last repairs.
#[derive(Debug, Default)]
pub(super) struct RepairBackoff {
    last: Option<Instant>,
    in_a_row: u32,
}

impl RepairBackoff {
    /// Returns the time that a repair must wait.
    pub(super) fn wait(&self, now: Instant) -> Duration {
        let Some(last) = self.last else {
            return Duration::ZERO;
        };
        let since = now.saturating_duration_since(last);
        if since >= RESET_AFTER || self.in_a_row < AT_ONCE {
            return Duration::ZERO;
        }
        let doubled = 1_u32
            .checked_shl(self.in_a_row - AT_ONCE)
            .unwrap_or(u32::MAX);
        FIRST
            .saturating_mul(doubled)
            .min(LONGEST)
            .saturating_sub(since)
    }

    /// Records a repair.
    pub(super) fn repaired(&mut self, now: Instant) {
        let is_reset = self
            .last
            .is_none_or(|last| now.saturating_duration_since(last) >= RESET_AFTER);
        self.in_a_row = if is_reset {
            1
        } else {
            self.in_a_row.saturating_add(1)
        };
        self.last = Some(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repairs_in_a_row_become_rarer() {
        let mut backoff = RepairBackoff::default();
        let mut now = Instant::now();
        let mut waits = Vec::new();
        for _ in 0..12 {
            let wait = backoff.wait(now);
            waits.push(wait.as_secs());
            now += wait;
            backoff.repaired(now);
        }
        assert_eq!(waits, [0, 0, 0, 0, 0, 1, 2, 4, 8, 16, 30, 30]);
        now += RESET_AFTER;
        assert_eq!(backoff.wait(now), Duration::ZERO);
        backoff.repaired(now);
        assert_eq!(backoff.wait(now), Duration::ZERO);
    }
}
