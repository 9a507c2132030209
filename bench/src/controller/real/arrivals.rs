//! When changes arrive in the consumer, as a watcher of it sees them.

use std::pin::pin;
use std::sync::Arc;
use std::time::Instant;

use futures::TryStreamExt as _;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::Api;
use kube::api::{ListParams, WatchEvent, WatchParams};
use tokio::task::JoinHandle;

use super::super::sim::journal::Journal;
use super::place::{Place, change_of};

/// A watcher of the consumer, until it is dropped.
pub(super) struct Arrivals {
    /// What it saw, by service: its first slice is the one that changes.
    pub(super) journal: Arc<Journal>,
    task: JoinHandle<anyhow::Result<()>>,
}

impl Arrivals {
    /// Watches from now on.
    pub(super) async fn watch(place: &Place<'_>) -> anyhow::Result<Self> {
        let copies = place.copies_api();
        let one = ListParams::default().limit(1);
        let version = copies.list_metadata(&one).await?.metadata.resource_version;
        let version = version.unwrap_or_default();
        let journal = Arc::<Journal>::default();
        let task = tokio::spawn(follow(copies, version, Arc::clone(&journal)));
        Ok(Self { journal, task })
    }
}

impl Drop for Arrivals {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// # Errors
/// Where the watch cannot be opened or breaks. What is on its way then is lost.
async fn follow(
    copies: Api<EndpointSlice>,
    version: String,
    journal: Arc<Journal>,
) -> anyhow::Result<()> {
    let params = WatchParams::default();
    let mut events = pin!(copies.watch(&params, &version).await?);
    while let Some(event) = events.try_next().await? {
        let at = Instant::now();
        if let WatchEvent::Added(copy) | WatchEvent::Modified(copy) = event
            && let Some((id, change)) = change_of(&copy)
        {
            journal.copied(id, change, CONSUMER, at);
        }
    }
    Ok(())
}

/// As the journal counts members.
pub(super) const CONSUMER: u16 = 1;
