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
use crate::term::exit::{Failure, PROBLEM, UNKNOWN};
use crate::term::output::{self, OutputError};

/// Interval of [`none_left`].
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Expired deadline of a wait.
#[derive(Debug)]
pub(crate) struct TimedOut {
    /// Reason that the state at the deadline is unknown, if any.
    unread: Option<String>,
}

impl TimedOut {
    /// Whether the state at the deadline is unknown.
    pub(crate) fn is_unread(&self) -> bool {
        self.unread.is_some()
    }

    /// Returns [`UNKNOWN`] if the state at the deadline is unknown, otherwise [`PROBLEM`].
    pub(crate) fn exit_code(&self) -> u8 {
        match self.is_unread() {
            true => UNKNOWN,
            false => PROBLEM,
        }
    }
}

impl fmt::Display for TimedOut {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.unread {
            Some(why) => write!(out, " (watch failed: {why})"),
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
    let mut unread = Some("no answer".to_owned());
    while let Ok(Some(change)) = timeout_at(deadline, changes.next()).await {
        match change {
            Ok(object) => {
                unread = None;
                if let Some(found) = condition(object.as_ref()) {
                    return Ok(found);
                }
            }
            Err(error) => unread = Some(root_cause(&error)),
        }
    }
    Err(TimedOut { unread })
}

/// Watches one object until `look` returns a value, like [`until`]. Prints each new state, which
/// `look` returns as an error, behind `waiting`.
///
/// # Errors
/// [`TimedOut`] at the deadline, with the last state. The state of an object that was never read is
/// `None`.
pub(crate) async fn until_shown<K, T, S>(
    api: Api<K>,
    name: &str,
    deadline: Instant,
    waiting: &str,
    mut look: impl FnMut(Option<&K>) -> Result<T, S>,
) -> Result<Result<T, (TimedOut, Option<S>)>, OutputError>
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
    S: Display + PartialEq,
{
    let (mut shown, mut last) = (Ok(()), None);
    let found = until(api, name, deadline, |object| {
        let state = match look(object) {
            Ok(found) => return Some(found),
            Err(state) => state,
        };
        if last.as_ref() != Some(&state) && shown.is_ok() {
            shown = output::progress(format_args!("waiting for {waiting}{state}"));
        }
        last = Some(state);
        None
    });
    let found = found.await;
    shown?;
    Ok(found.map_err(|late| (late, last)))
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

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Namespace;
    use kube::{Client, Config};

    use super::*;

    #[tokio::test]
    async fn state_that_was_never_read_is_unknown() {
        let nowhere = Config::new(http::Uri::from_static("http://127.0.0.1:1"));
        let namespaces = Api::<Namespace>::all(Client::try_from(nowhere).expect("a client"));
        let deadline = Instant::now() + Duration::from_millis(100);
        let waited = until(namespaces, "shop", deadline, |_| Some(())).await;
        let late = waited.expect_err("nobody answers");
        assert_eq!((late.is_unread(), late.exit_code()), (true, UNKNOWN));
        let read = TimedOut { unread: None };
        assert_eq!(read.exit_code(), PROBLEM);
    }
}
