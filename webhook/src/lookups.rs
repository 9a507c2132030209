//! Rate limit of requests to the hub.
//!
//! The TLS port may be open to callers without credentials, and each review of a Service that does
//! not exist costs the hub a request. Beyond the rate the webhook decides by its last observation
//! of the Service, or rejects the review.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::decide::ServiceFacts;

/// Maximum number of requests at once, after a pause.
const BURST: u32 = 100;

/// Interval that adds one request: 50 a second.
const INTERVAL: Duration = Duration::from_millis(20);

/// Maximum age of a reused observation.
const AGE_MAX: Duration = Duration::from_secs(2);

/// Maximum number of observations: those of [`AGE_MAX`] at the full rate, and of a burst.
const KEPT_MAX: usize = 256;

/// Token bucket of requests to the hub, and their last observations.
#[derive(Debug, Default)]
pub(crate) struct Lookups {
    /// Time at which the bucket is full.
    full_at: Option<Instant>,
    observed: HashMap<(Box<str>, Box<str>), Observation>,
}

#[derive(Debug)]
struct Observation {
    at: Instant,
    service: Option<Arc<ServiceFacts>>,
}

impl Lookups {
    /// Takes one request from the bucket; false if it is empty.
    pub(crate) fn may_send(&mut self) -> bool {
        self.may_send_at(Instant::now())
    }

    fn may_send_at(&mut self, now: Instant) -> bool {
        let full_at = self.full_at.map_or(now, |full_at| full_at.max(now)) + INTERVAL;
        if full_at.duration_since(now) > INTERVAL * BURST {
            return false;
        }
        self.full_at = Some(full_at);
        true
    }

    /// Returns an observation of a Service that is at most [`AGE_MAX`] old.
    pub(crate) fn recent(&self, namespace: &str, name: &str) -> Option<Option<Arc<ServiceFacts>>> {
        let observation = self.observed.get(&(namespace.into(), name.into()))?;
        (observation.at.elapsed() <= AGE_MAX).then(|| observation.service.clone())
    }

    /// Records an observation of a Service.
    pub(crate) fn record(&mut self, namespace: &str, name: &str, found: Option<Arc<ServiceFacts>>) {
        if self.observed.len() >= KEPT_MAX {
            self.observed
                .retain(|_, observation| observation.at.elapsed() <= AGE_MAX);
        }
        if self.observed.len() < KEPT_MAX {
            let at = Instant::now();
            let observation = Observation { at, service: found };
            self.observed
                .insert((namespace.into(), name.into()), observation);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rate_allows_a_burst_and_refills() {
        let mut lookups = Lookups::default();
        let begun = Instant::now();
        let mut sent = |now: Instant| (0..1000).filter(|_| lookups.may_send_at(now)).count();
        assert_eq!(sent(begun), 100);
        assert_eq!(sent(begun), 0);
        assert_eq!(sent(begun + Duration::from_secs(1)), 50);
        assert_eq!(sent(begun + Duration::from_secs(60)), 100);
    }

    #[test]
    fn observations_are_bounded_and_found_by_their_service() {
        let mut lookups = Lookups::default();
        assert_eq!(lookups.recent("shop", "foo"), None);
        lookups.record("shop", "foo", None);
        assert_eq!(lookups.recent("shop", "foo"), Some(None));
        assert_eq!(lookups.recent("shop", "bar"), None);
        for number in 0..10_000 {
            lookups.record("shop", &format!("s{number}"), None);
        }
        assert!(lookups.observed.len() <= KEPT_MAX);
    }
}
