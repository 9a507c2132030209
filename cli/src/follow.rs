//! Following one object until it is as wished.

use std::fmt::Debug;

use futures::{StreamExt as _, pin_mut};
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::watch_object;
use kube::{Api, Resource};
use serde::de::DeserializeOwned;
use tokio::time::{Instant, timeout_at};

/// Watches one object, `None` where it is not there, until `look` finds what it looks for; `None` at the deadline.
///
/// A watch that breaks is taken up again.
pub(crate) async fn one<K, T>(
    api: Api<K>,
    name: &str,
    deadline: Instant,
    mut look: impl FnMut(Option<&K>) -> Option<T>,
) -> Option<T>
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    let changes = watch_object(api, name).default_backoff();
    pin_mut!(changes);
    while let Ok(Some(change)) = timeout_at(deadline, changes.next()).await {
        if let Ok(object) = change
            && let Some(found) = look(object.as_ref())
        {
            return Some(found);
        }
    }
    None
}
