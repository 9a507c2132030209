//! Heartbeats of a process's threads and loops, which `/livez` checks.

use std::fmt;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// The heartbeats that `/livez` checks. Clones share the same heartbeats.
#[derive(Clone, Debug, Default)]
pub struct Liveness(Arc<Mutex<Vec<Weak<Pulse>>>>);

impl Liveness {
    /// Adds a heartbeat. `/livez` fails while the last beat is `limit` old or older, and ignores
    /// the heartbeat once all its clones are dropped.
    pub fn heartbeat(&self, source: &'static str, limit: Duration) -> Heartbeat {
        let heartbeat = Heartbeat::new(source, limit);
        let mut pulses = self.0.lock();
        pulses.retain(|pulse| pulse.strong_count() > 0);
        pulses.push(Arc::downgrade(&heartbeat.0));
        heartbeat
    }

    /// Returns the heartbeats whose last beat is too old.
    pub fn stalled(&self) -> Vec<Stalled> {
        let pulses = self.0.lock();
        let pulses = pulses.iter().filter_map(Weak::upgrade);
        pulses
            .filter_map(|pulse| Heartbeat(pulse).stalled())
            .collect()
    }
}

/// Sign of life of one thread or loop. Clones share the same time.
#[derive(Clone, Debug)]
pub struct Heartbeat(Arc<Pulse>);

#[derive(Debug)]
struct Pulse {
    source: &'static str,
    limit: Duration,
    last: Mutex<Instant>,
}

impl Heartbeat {
    /// Returns a heartbeat that has just beaten and that `/livez` does not check.
    pub fn new(source: &'static str, limit: Duration) -> Self {
        Self(Arc::new(Pulse {
            source,
            limit,
            last: Mutex::new(Instant::now()),
        }))
    }

    /// Records a sign of life.
    pub fn beat(&self) {
        *self.0.last.lock() = Instant::now();
    }

    /// Returns the age of the last beat if it has reached the limit.
    pub fn stalled(&self) -> Option<Stalled> {
        let age = self.0.last.lock().elapsed();
        (age >= self.0.limit).then_some(Stalled {
            source: self.0.source,
            age,
        })
    }
}

/// A thread or loop without a sign of life.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stalled {
    source: &'static str,
    age: Duration,
}

impl fmt::Display for Stalled {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} stalled for {}s", self.source, self.age.as_secs())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn late_heartbeat_stalls_until_it_beats_or_is_dropped() {
        let liveness = Liveness::default();
        let _steady = liveness.heartbeat("steady", Duration::from_secs(3600));
        let stalled = || liveness.stalled().into_iter().map(|one| one.to_string());
        assert_eq!(stalled().count(), 0);
        let late = ["late", "later"].map(|source| liveness.heartbeat(source, Duration::ZERO));
        let all = ["late stalled for 0s", "later stalled for 0s"];
        assert!(stalled().eq(all));
        drop(late);
        assert_eq!(stalled().count(), 0);

        let heartbeat = Heartbeat::new("loop", Duration::from_secs(60));
        *heartbeat.0.last.lock() -= Duration::from_secs(61);
        assert!(heartbeat.stalled().is_some());
        heartbeat.beat();
        assert_eq!(heartbeat.stalled(), None);
    }
}
