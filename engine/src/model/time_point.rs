//! Time of an event, by two clocks: the monotonic clock measures, and the wall clock is for people.

use std::cmp::Ordering;
use std::fmt;
use std::time::{Duration, Instant};

use k8s_openapi::jiff::{SignedDuration, Timestamp};

/// Time of an event. The monotonic clock alone compares points and measures the time between them:
/// the wall clock may be set, forward or back, by any time. The time of the wall clock is for
/// messages alone.
#[derive(Clone, Copy, Debug)]
pub struct TimePoint {
    /// Time of the monotonic clock.
    pub instant: Instant,
    /// Time that the wall clock showed.
    pub wall: Timestamp,
}

/// Duration that is longer than any process runs.
const FAR: Duration = Duration::from_secs(30 * 365 * 24 * 60 * 60);

impl TimePoint {
    /// Returns the point that is later by `duration`.
    #[must_use]
    pub fn after(self, duration: Duration) -> Self {
        let signed = SignedDuration::try_from(duration).unwrap_or(SignedDuration::MAX);
        Self {
            instant: self.instant + duration.min(FAR),
            wall: self.wall.saturating_add(signed).unwrap_or(Timestamp::MAX),
        }
    }

    /// Returns the time since `earlier`; zero if this point comes first.
    pub fn since(self, earlier: Self) -> Duration {
        self.instant.saturating_duration_since(earlier.instant)
    }

    /// Returns the point at which the wall clock showed that time if nobody set it; this point for
    /// a time in the future.
    #[must_use]
    pub(crate) fn back_to_wall(self, wall: Timestamp) -> Self {
        let ago = self.wall.duration_since(wall).max(SignedDuration::ZERO);
        let instant = self.instant.checked_sub(ago.unsigned_abs());
        match instant.filter(|_| ago > SignedDuration::ZERO) {
            Some(instant) => Self { instant, wall },
            None => self,
        }
    }

    /// Returns the point at which the wall clock will show that time if nobody sets it; this point
    /// for a time in the past.
    #[must_use]
    pub(crate) fn at_wall(self, wall: Timestamp) -> Self {
        let wait = wall.duration_since(self.wall);
        self.after(wait.max(SignedDuration::ZERO).unsigned_abs())
    }
}

impl PartialEq for TimePoint {
    fn eq(&self, other: &Self) -> bool {
        self.instant == other.instant
    }
}

impl Eq for TimePoint {}

impl PartialOrd for TimePoint {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for TimePoint {
    fn cmp(&self, other: &Self) -> Ordering {
        self.instant.cmp(&other.instant)
    }
}

/// Writes the time that the wall clock showed.
impl fmt::Display for TimePoint {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.wall, out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::now;

    const MINUTE: Duration = Duration::from_secs(60);

    #[test]
    fn points_are_measured_by_the_monotonic_clock_whatever_the_wall_clock_shows() {
        let hour = Duration::from_secs(3600);
        let first = now();
        for step in [
            -SignedDuration::from_hours(48),
            SignedDuration::from_hours(48),
        ] {
            let wall = first.wall.saturating_add(step).unwrap();
            let stepped = TimePoint {
                wall,
                ..first.after(Duration::from_secs(1))
            };
            assert!(first < stepped && stepped < first.after(hour));
            assert_eq!(stepped.since(first), Duration::from_secs(1));
            assert_eq!(first.since(stepped), Duration::ZERO);
            assert_eq!(stepped.after(hour).since(stepped), hour);
            assert_eq!(stepped.to_string(), wall.to_string());
        }
    }

    #[test]
    fn what_never_comes_is_far_away() {
        let now = now();
        let never = now.after(Duration::MAX);
        assert!(never.since(now) == FAR && never.wall == Timestamp::MAX);
        let past = now.at_wall(Timestamp::UNIX_EPOCH);
        assert_eq!(past, now);
        let soon = now
            .wall
            .saturating_add(SignedDuration::from_secs(5))
            .unwrap();
        assert_eq!(now.at_wall(soon).since(now), Duration::from_secs(5));
    }

    #[test]
    fn recorded_times_lie_in_the_past() {
        let now = now();
        let minute = SignedDuration::from_mins(1);
        let ago = now.wall.saturating_sub(minute).unwrap();
        let point = now.back_to_wall(ago);
        assert_eq!((now.since(point), point.wall), (MINUTE, ago));
        assert_eq!(point.after(MINUTE), now);
        let ahead = now.wall.saturating_add(minute).unwrap();
        assert_eq!(now.back_to_wall(ahead), now);
    }
}
