//! Waits for the state of one object by a watch, and for that of several by reads.

use std::fmt::{self, Debug, Display};
use std::time::Duration;

use futures::{StreamExt as _, pin_mut};
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::watch_object;
use kube::{Api, Resource};
use serde::de::DeserializeOwned;
use tokio::time::{Instant, MissedTickBehavior, interval, timeout_at};

use crate::cluster::api_server::root_cause;
use crate::term::exit::Failure;
use crate::term::output;

/// Interval of [`none_left`].
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Expired deadline of a wait.
#[derive(Debug)]
pub(crate) struct TimedOut {
    /// Last error of the watch, if any.
    watch_error: Option<String>,
}

impl fmt::Display for TimedOut {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.watch_error {
            Some(watch_error) => write!(out, " (watch failed: {watch_error})"),
            None => Ok(()),
        }
    }
}

/// Watches one object until `condition` returns a value. The condition receives `None` if the
/// object does not exist.
///
/// A broken watch is restarted.
///
/// # Errors
/// [`TimedOut`] at the deadline.
pub(crate) async fn until<K, T>(
    api: Api<K>,
    name: &str,
    deadline: Instant,
    mut condition: impl FnMut(Option<&K>) -> Option<T>,
) -> Result<T, TimedOut>
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    let changes = watch_object(api, name).default_backoff();
    pin_mut!(changes);
    let mut watch_error = None;
    while let Ok(Some(change)) = timeout_at(deadline, changes.next()).await {
        match change {
            Ok(object) => {
                watch_error = None;
                if let Some(found) = condition(object.as_ref()) {
                    return Ok(found);
                }
            }
            Err(error) => watch_error = Some(root_cause(&error)),
        }
    }
    Err(TimedOut { watch_error })
}

/// Reads what is left every second, and prints each change behind `waiting`. Returns `None` once
/// nothing is left, or what is left at the deadline.
pub(crate) async fn none_left<T: Display>(
    deadline: Instant,
    waiting: &str,
    mut read: impl AsyncFnMut() -> Result<Option<T>, Failure>,
) -> Result<Option<T>, Failure> {
    let mut ticks = interval(POLL_INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut last = String::new();
    loop {
        ticks.tick().await;
        let left = read().await?;
        let Some(shown) = left.as_ref().map(ToString::to_string) else {
            return Ok(None);
        };
        if Instant::now() >= deadline {
            return Ok(left);
        }
        if shown != last {
            output::progress(format_args!("waiting for {waiting}{shown}"))?;
        }
        last = shown;
    }
}
