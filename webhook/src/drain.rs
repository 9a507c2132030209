//! The drain: requests that still arrive while the process is terminating.
//!
//! An API server learns of endpoints that go some time after they went, the longer the larger the cluster is, and keeps
//! idle connections for later. So the end waits until nothing arrives any more, rather than for a fixed time. It is
//! patient: connections are kept, so an endpoint that is still known may be without a new one for seconds.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

/// Without a request for this long, nobody sends any more: two seconds until a kubelet has noticed, with the readiness
/// probe of the manifests, and five until everybody knows.
const QUIET: Duration = Duration::from_secs(7);

/// The end does not wait for longer: some client may send for ever.
const LONGEST: Duration = Duration::from_secs(15);

/// The requests that arrive while the process is terminating. Clones are the same.
#[derive(Clone, Debug, Default)]
pub struct Drain(Arc<Notify>);

impl Drain {
    /// A request has arrived.
    pub(crate) fn request_arrived(&self) {
        self.0.notify_one();
    }

    /// Waits until no request has arrived for seven seconds; for fifteen seconds at most.
    pub async fn completed(self) {
        let begun = Instant::now();
        let mut last = begun;
        while timeout_at(end(begun, last), self.0.notified())
            .await
            .is_ok()
        {
            last = Instant::now();
            if last >= begun + LONGEST {
                break;
            }
        }
        if end(begun, last) == begun + LONGEST {
            tracing::info!("drain ended while requests still arrive");
        }
    }
}

/// Returns the end of a drain that began at `begun`, if the last request of all arrived at `last`.
fn end(begun: Instant, last: Instant) -> Instant {
    (last + QUIET).min(begun + LONGEST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drain_ends_seven_seconds_after_the_last_request_and_after_fifteen_at_most() {
        let begun = Instant::now();
        let after = |seconds| begun + Duration::from_secs(seconds);
        for (last, expected) in [(0, 7), (1, 8), (6, 13), (8, 15), (9, 15), (14, 15)] {
            assert_eq!(end(begun, after(last)), after(expected), "{last}");
        }
    }
}
