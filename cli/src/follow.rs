//! Following one object until it is as wished.

use std::fmt::{self, Debug};

use futures::{StreamExt as _, pin_mut};
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::watch_object;
use kube::{Api, Resource};
use serde::de::DeserializeOwned;
use tokio::time::{Instant, timeout_at};

use crate::ask::root_cause;

/// The deadline came first.
#[derive(Debug)]
pub(crate) struct Late {
    /// Why the watch failed last, if it did.
    trouble: Option<String>,
}

impl fmt::Display for Late {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.trouble {
            Some(trouble) => write!(out, " (watching it failed: {trouble})"),
            None => Ok(()),
        }
    }
}

/// Watches one object, `None` where it is not there, until `look` finds what it looks for.
///
/// A watch that breaks is taken up again.
///
/// # Errors
/// [`Late`] at the deadline.
pub(crate) async fn one<K, T>(
    api: Api<K>,
    name: &str,
    deadline: Instant,
    mut look: impl FnMut(Option<&K>) -> Option<T>,
) -> Result<T, Late>
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    let changes = watch_object(api, name).default_backoff();
    pin_mut!(changes);
    let mut trouble = None;
    while let Ok(Some(change)) = timeout_at(deadline, changes.next()).await {
        match change {
            Ok(object) => {
                trouble = None;
                if let Some(found) = look(object.as_ref()) {
                    return Ok(found);
                }
            }
            Err(error) => trouble = Some(root_cause(&error)),
        }
    }
    Err(Late { trouble })
}
