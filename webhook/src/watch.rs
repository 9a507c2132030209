//! Watches of the hub, applied to the caches.

use std::pin::pin;
use std::time::Duration;

use causeway::process::readiness::Awaited;
use causeway::process::supervise::with_causes;
use futures::{Stream, StreamExt};
use kube::runtime::watcher::{Error, Event};
use prometheus_client::metrics::counter::Counter;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

/// Pause after the first error in a row; each further error doubles it.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// A cache that a watch fills.
pub(crate) trait Apply<K> {
    /// Applies an event, and returns whether the initial list is complete.
    fn apply(&mut self, event: Event<K>) -> bool;

    /// Handles a list that was answered by 404. Returns whether the API server serves no such kind,
    /// which counts as an initial list.
    fn not_served(&mut self) -> impl Future<Output = bool> + Send {
        std::future::ready(false)
    }
}

/// Applies the watch of `what` to a cache until the shutdown, and counts its failures. `listed` is
/// ready once the initial list is complete, or the kind is not served.
pub(crate) async fn follow<K>(
    (what, failures): (&'static str, Counter),
    events: impl Stream<Item = Result<Event<K>, Error>>,
    mut cache: impl Apply<K>,
    listed: Awaited,
    shutdown: CancellationToken,
) {
    let mut events = pin!(events);
    let mut listed = Some(listed);
    let mut pause = FIRST_PAUSE;
    loop {
        let event = tokio::select! {
            () = shutdown.cancelled() => return,
            event = events.next() => event,
        };
        let synced = match event {
            None => return,
            Some(Ok(event)) => {
                // The start of a list is no sign of life: it comes before the request.
                if !matches!(event, Event::Init) {
                    pause = FIRST_PAUSE;
                }
                cache.apply(event)
            }
            Some(Err(error)) => {
                let synced = is_not_found(&error) && within(cache.not_served()).await;
                if !synced {
                    failures.inc();
                    let why = with_causes(&error);
                    tracing::warn!(watch = what, error = why, "watch of the hub failed");
                    if let Some(listed) = &listed {
                        listed.is_blocked_by(why);
                    }
                }
                tokio::select! {
                    () = shutdown.cancelled() => return,
                    () = tokio::time::sleep(pause) => {}
                }
                pause = (pause * 2).min(LONGEST_PAUSE);
                synced
            }
        };
        if synced && let Some(listed) = listed.take() {
            listed.ready();
        }
    }
}

/// Returns false if there is no answer in time.
async fn within(answer: impl Future<Output = bool>) -> bool {
    timeout(LONGEST_PAUSE, answer).await.unwrap_or(false)
}

/// Whether the list or watch was answered by 404.
fn is_not_found(error: &Error) -> bool {
    match error {
        Error::InitialListFailed(kube::Error::Api(status))
        | Error::WatchStartFailed(kube::Error::Api(status)) => status.code == 404,
        _ => false,
    }
}
