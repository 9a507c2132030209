//! The drain: requests that still arrive while the process is terminating.
//!
//! An API server learns of endpoints that go some time after they went, the longer the larger the cluster is, and keeps
//! idle connections for later. So the end waits until nothing arrives any more, rather than for a fixed time. It is
//! patient: connections are kept, so an endpoint that is still known may be without a new one for seconds.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::timeout;

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
        self.quiet_for(QUIET, LONGEST).await;
    }

    async fn quiet_for(&self, quiet: Duration, longest: Duration) {
        let arriving = async { while timeout(quiet, self.0.notified()).await.is_ok() {} };
        if timeout(longest, arriving).await.is_err() {
            tracing::info!("drain ended while requests still arrive");
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::{Instant, sleep_until};

    use super::*;

    #[test]
    fn a_drain_waits_for_seven_quiet_seconds_and_for_fifteen_at_most() {
        let second = Duration::from_secs;
        assert_eq!((QUIET, LONGEST), (second(7), second(15)));
    }

    #[tokio::test]
    async fn the_end_is_a_quiet_while_after_the_last_request_and_within_the_longest() {
        // A tenth of a second stands for one.
        let second = |seconds: u32| Duration::from_millis(100) * seconds;
        let cases: [(&[u32], u32); 5] = [
            (&[], 7),
            (&[1], 8),
            (&[6], 13),
            (&[1, 8], 15),
            (&[4, 8, 12, 14], 15),
        ];
        let ended = cases.map(async |(arrivals, expected)| {
            let drain = Drain::default();
            let begun = Instant::now();
            let arriving = async {
                for at in arrivals {
                    sleep_until(begun + second(*at)).await;
                    drain.request_arrived();
                }
            };
            let ends = async {
                drain.quiet_for(second(7), second(15)).await;
                begun.elapsed()
            };
            let (ended, ()) = tokio::join!(ends, arriving);
            assert!(ended >= second(expected), "{arrivals:?}: {ended:?}");
            assert!(ended < second(expected + 5), "{arrivals:?}: {ended:?}");
        });
        futures::future::join_all(ended).await;
    }
}
