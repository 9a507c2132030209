//! Reload of files that change while the process runs.

use std::error::Error;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::supervise::with_causes;

/// Interval of the reads.
const POLL: Duration = Duration::from_secs(1);

/// Calls `read` once a second until the shutdown, and `apply` with contents that differ from those
/// in use, `seen` at first. Logs a failure once, when it occurs twice in a row: two files that are
/// being replaced do not match for a moment.
pub async fn reload<T: PartialEq, E: Error + 'static>(
    what: &'static str,
    mut seen: T,
    read: impl Fn() -> Result<T, E>,
    apply: impl Fn(&T) -> Result<(), E>,
    shutdown: CancellationToken,
) {
    let mut last: Option<(String, u32)> = None;
    loop {
        tokio::select! {
            () = shutdown.cancelled() => return,
            () = tokio::time::sleep(POLL) => {}
        }
        let loaded = read().and_then(|new| {
            if new != seen {
                apply(&new)?;
                seen = new;
            }
            Ok(())
        });
        last = loaded.err().map(|error| {
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
