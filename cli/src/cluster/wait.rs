//! Waits for the state of one object by a watch.

use std::fmt::{self, Debug};

use futures::{StreamExt as _, pin_mut};
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::watch_object;
use kube::{Api, Resource};
use serde::de::DeserializeOwned;
use tokio::time::{Instant, timeout_at};

use crate::cluster::api_server::root_cause;

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
