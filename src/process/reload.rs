//! Reload of files that change while the process runs.

use std::error::Error;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::supervise::with_causes;

/// Interval of the reads.
const POLL: Duration = Duration::from_secs(1);

/// Calls `load` once a second until the shutdown. Logs a failure once, when it occurs twice in a
/// row: two files that are being replaced do not match for a moment.
pub async fn reload<E: Error + 'static>(
    what: &'static str,
    mut load: impl FnMut() -> Result<(), E>,
    shutdown: CancellationToken,
) {
    let mut last: Option<(String, u32)> = None;
    loop {
        tokio::select! {
            () = shutdown.cancelled() => return,
            () = tokio::time::sleep(POLL) => {}
        }
        last = load().err().map(|error| {
            let error = with_causes(&error);
            let times = match last.take() {
                Some((before, times)) if before == error => times.saturating_add(1),
                _ => 1,
            };
            if times == 2 {
                tracing::error!(error, "{what} not reloaded, last valid one stays in use");
            }
            (error, times)
        });
    }
}
