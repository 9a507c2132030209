//! How fast repairs follow one another. The first are made at once; where somebody, or a replica with another clock, undoes
//! each of them, they become rarer.

use std::time::{Duration, Instant};

const AT_ONCE: u32 = 5;
const FIRST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(30);
/// So long without a repair, and the next is the first again.
const CALM: Duration = Duration::from_secs(120);

/// Remembers the repairs of late.
#[derive(Debug, Default)]
pub(super) struct Pace {
    last: Option<Instant>,
    in_a_row: u32,
}

impl Pace {
    /// How long a repair has to wait at a moment.
    pub(super) fn wait(&self, now: Instant) -> Duration {
        let Some(last) = self.last else {
            return Duration::ZERO;
        };
        let since = now.saturating_duration_since(last);
        if since >= CALM || self.in_a_row < AT_ONCE {
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

    /// A repair was made at that moment.
    pub(super) fn repaired(&mut self, now: Instant) {
        let calm = self
            .last
            .is_none_or(|last| now.saturating_duration_since(last) >= CALM);
        self.in_a_row = if calm {
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
    fn repairs_that_somebody_undoes_become_rarer_until_there_was_calm() {
        let mut pace = Pace::default();
        let mut now = Instant::now();
        let mut waits = Vec::new();
        for _ in 0..12 {
            let wait = pace.wait(now);
            waits.push(wait.as_secs());
            now += wait;
            pace.repaired(now);
        }
        assert_eq!(waits, [0, 0, 0, 0, 0, 1, 2, 4, 8, 16, 30, 30]);
        now += CALM;
        assert_eq!(pace.wait(now), Duration::ZERO);
        pace.repaired(now);
        assert_eq!(pace.wait(now), Duration::ZERO);
    }
}
