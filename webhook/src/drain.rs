//! The drain: the wait of a terminating process for requests to cease.
//!
//! An API server learns late of a removed endpoint, the later the larger the cluster is, and keeps
//! idle connections. So the process waits until no request arrives, not for a fixed time. The wait
//! is long: an API server may use a known endpoint again after seconds.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

/// Time without a request after which the drain ends: two seconds for the kubelet's readiness
/// probes of the manifests, and five until every API server knows.
const QUIET: Duration = Duration::from_secs(7);

/// Maximum duration of a drain: a client may send for ever.
const LONGEST: Duration = Duration::from_secs(15);

/// Requests that arrive while the process terminates. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Drain(Arc<Notify>);

impl Drain {
    /// Records that a request has arrived.
    pub(crate) fn request_arrived(&self) {
        self.0.notify_one();
    }

    /// Waits until no request has arrived for seven seconds, at most for fifteen.
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

/// Returns the end of a drain that began at `begun` and whose last request arrived at `last`.
fn end(begun: Instant, last: Instant) -> Instant {
    (last + QUIET).min(begun + LONGEST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drain_ends_7_s_after_the_last_request_and_after_15_s() {
        let begun = Instant::now();
        let after = |seconds| begun + Duration::from_secs(seconds);
        for (last, expected) in [(0, 7), (1, 8), (6, 13), (8, 15), (9, 15), (14, 15)] {
            assert_eq!(end(begun, after(last)), after(expected), "{last}");
        }
    }
}
