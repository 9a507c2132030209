//! Requests that still arrive while the process is leaving.
//!
//! An API server learns of endpoints that go some time after they went, the longer the larger the cluster is, and keeps
//! idle connections for later. So the end waits until nothing arrives any more, rather than for a fixed time. It is
//! patient: connections are kept, so an endpoint that is still known may be without a new one for seconds.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::{Instant, sleep_until};

/// Without a request for this long, nobody sends any more: two seconds until a kubelet has noticed, with the readiness
/// probe of the manifests, and five until everybody knows.
const QUIET: Duration = Duration::from_secs(7);

/// The end does not wait for longer: somebody may ask for ever.
const LONGEST: Duration = Duration::from_secs(15);

/// When the last request arrived while the process was leaving. Clones are the same.
#[derive(Clone, Debug)]
pub struct Arrivals(Arc<Mutex<Instant>>);

impl Default for Arrivals {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(Instant::now())))
    }
}

impl Arrivals {
    /// A request has arrived.
    pub(crate) fn note(&self) {
        *self.0.lock() = Instant::now();
    }

    /// Waits until no request has arrived for seven seconds, counted from now on; for fifteen seconds at most.
    pub async fn cease(self) {
        let begun = Instant::now();
        loop {
            let last = *self.0.lock();
            let end = end(begun, last);
            if end <= Instant::now() {
                return;
            }
            sleep_until(end).await;
        }
    }
}

fn end(begun: Instant, last: Instant) -> Instant {
    (last.max(begun) + QUIET).min(begun + LONGEST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_is_seven_seconds_after_the_last_request_and_within_fifteen() {
        let second = Duration::from_secs;
        let begun = Instant::now() + second(60);
        for (last, expected) in [
            (begun - second(50), 7),
            (begun, 7),
            (begun + second(1), 8),
            (begun + second(8), 15),
            (begun + second(14), 15),
        ] {
            assert_eq!(end(begun, last) - begun, second(expected));
        }
    }

    #[tokio::test]
    async fn a_request_that_arrives_puts_the_end_off() {
        let arrivals = Arrivals::default();
        let begun = Instant::now();
        let noting = async {
            sleep_until(begun + Duration::from_secs(1)).await;
            arrivals.note();
        };
        tokio::join!(arrivals.clone().cease(), noting);
        assert!(begun.elapsed() >= Duration::from_secs(1) + QUIET);
    }
}
