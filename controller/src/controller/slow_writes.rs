//! Log lines of clusters with slow writes: the first at once, then one a minute.

use std::collections::HashMap;
use std::time::{Duration, Instant};

/// From so long on a write is slow.
const SLOW: Duration = Duration::from_secs(2);
/// Interval of the log lines of one cluster.
const EVERY: Duration = Duration::from_secs(60);

/// Time of the last slow-write log line, by cluster.
#[derive(Debug, Default)]
pub(super) struct SlowWrites(HashMap<String, Instant>);

impl SlowWrites {
    /// Whether a write is slow, and nothing was said of its cluster for a while.
    pub(super) fn is_news(&mut self, cluster: &str, taken: Duration, now: Instant) -> bool {
        if taken < SLOW {
            return false;
        }
        let said = self.0.get(cluster);
        let is_news = said.is_none_or(|said| now.saturating_duration_since(*said) >= EVERY);
        if is_news {
            self.0.insert(cluster.to_owned(), now);
        }
        is_news
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slow_writes_into_a_cluster_are_said_once_a_minute() {
        let (mut writes, now) = (SlowWrites::default(), Instant::now());
        let second = Duration::from_secs(1);
        assert!(!writes.is_news("member1", second, now));
        assert!(writes.is_news("member1", 3 * second, now));
        assert!(writes.is_news("member2", 3 * second, now));
        assert!(!writes.is_news("member1", 3 * second, now + 59 * second));
        assert!(writes.is_news("member1", 3 * second, now + 60 * second));
    }
}
