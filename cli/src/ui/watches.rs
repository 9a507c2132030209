//! Watches of one API server, for as long as all of them stand.

use std::fmt::Debug;
use std::time::Duration;

use causeway::api::multicluster::Version;
use futures::{StreamExt as _, pin_mut};
use kube::api::ListParams;
use kube::core::DynamicResourceScope;
use kube::runtime::watcher::{self, Error as WatchError, Event, watcher};
use kube::{Api, Resource, ResourceExt as _};
use serde::de::DeserializeOwned;
use tokio::sync::mpsc;

use super::change::Change;
use crate::api_server::{ApiServer, RequestError, root_cause};

/// After how long a kind that is not served, or forbidden, is looked for again.
const LOOK_AGAIN: Duration = Duration::from_secs(10);
/// The time between two probes.
const PROBE_EVERY: Duration = Duration::from_secs(2);
/// How long a probe may take.
const PROBE_WITHIN: Duration = Duration::from_secs(3);
/// How long it takes until a lost API server is tried again, at first and at last.
const FIRST_RETRY: Duration = Duration::from_millis(250);
const LAST_RETRY: Duration = Duration::from_secs(2);

/// Growing pauses between attempts.
pub(super) struct Pauses(Duration);

impl Pauses {
    pub(super) fn new() -> Self {
        Self(FIRST_RETRY)
    }

    /// An attempt has succeeded.
    pub(super) fn reset(&mut self) {
        self.0 = FIRST_RETRY;
    }

    /// The next one.
    pub(super) fn next(&mut self) -> Duration {
        let pause = self.0;
        self.0 = (pause * 2).min(LAST_RETRY);
        pause
    }
}

/// One API server, and who is to know what it shows.
pub(super) struct Watched<'a> {
    pub server: &'a ApiServer,
    pub changes: &'a mpsc::Sender<Change>,
    /// The one namespace that is looked at, if not all are.
    pub namespace: Option<&'a str>,
}

impl Watched<'_> {
    /// Tells a change; nobody listens any more when the program ends.
    pub(super) async fn tell(&self, change: Change) {
        self.changes.send(change).await.ok();
    }

    /// A namespaced kind, in the namespaces that are looked at.
    pub(super) fn api<K>(&self) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>,
    {
        let client = self.server.client.clone();
        match self.namespace {
            Some(namespace) => Api::namespaced(client, namespace),
            None => Api::all(client),
        }
    }

    /// Tells what happens to the objects of one kind, until its watch breaks.
    pub(super) async fn follow<K>(
        &self,
        api: Api<K>,
        config: watcher::Config,
        change: impl Fn(Event<K>) -> Change,
    ) -> RequestError
    where
        K: Resource + Clone + Debug + DeserializeOwned + Send + 'static,
    {
        let events = watcher(api, config);
        pin_mut!(events);
        while let Some(event) = events.next().await {
            match event {
                Ok(event) => {
                    let event = event.modify(|object| object.managed_fields_mut().clear());
                    self.tell(change(event)).await;
                }
                // The state that it continued from is no longer kept: it lists again by itself.
                Err(WatchError::WatchError(status)) if status.code == 410 => {}
                Err(error) => return self.failure(error),
            }
        }
        self.ended()
    }

    /// The same of a kind of the Multi-Cluster Services API, in the newest version that is served. Where none is, or it may not be
    /// listed, that is said, and it is looked for every now and then.
    pub(super) async fn follow_served<K>(
        &self,
        served: impl Fn(Option<Version>) -> Change,
        change: impl Fn(Event<K>) -> Change,
    ) -> RequestError
    where
        K: Resource<DynamicType = Version, Scope = DynamicResourceScope>
            + Clone
            + Debug
            + DeserializeOwned
            + Send
            + 'static,
    {
        loop {
            match self.version_of::<K>().await {
                Ok(Some(version)) => {
                    self.tell(served(Some(version))).await;
                    let api = self.api_in::<K>(version);
                    return self.follow(api, watcher::Config::default(), change).await;
                }
                Ok(None) => self.tell(served(None)).await,
                Err(error) => return error,
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }

    fn api_in<K>(&self, version: Version) -> Api<K>
    where
        K: Resource<DynamicType = Version, Scope = DynamicResourceScope>,
    {
        let client = self.server.client.clone();
        match self.namespace {
            Some(namespace) => Api::namespaced_with(client, namespace, &version),
            None => Api::all_with(client, &version),
        }
    }

    async fn version_of<K>(&self) -> Result<Option<Version>, RequestError>
    where
        K: Resource<DynamicType = Version, Scope = DynamicResourceScope>
            + Clone
            + Debug
            + DeserializeOwned,
    {
        let one = ListParams::default().limit(1);
        for version in Version::ALL {
            let api = self.api_in::<K>(version);
            match self.server.request(api.list_metadata(&one)).await {
                Ok(_) => return Ok(Some(version)),
                Err(RequestError::NotFound { .. }) => {}
                Err(RequestError::NotAllowed { .. }) => return Ok(None),
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }

    /// Asks the API server every other second, for a watch alone does not show one that hangs, until it does not answer.
    pub(super) async fn probe<F>(&self, ask: impl Fn() -> F) -> RequestError
    where
        F: Future<Output = Result<(), RequestError>>,
    {
        loop {
            tokio::time::sleep(PROBE_EVERY).await;
            match tokio::time::timeout(PROBE_WITHIN, ask()).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => return error,
                Err(_) => {
                    return self
                        .unreachable(format!("no answer within {} s", PROBE_WITHIN.as_secs()));
                }
            }
        }
    }

    fn failure(&self, error: WatchError) -> RequestError {
        match error {
            WatchError::InitialListFailed(error)
            | WatchError::WatchStartFailed(error)
            | WatchError::WatchFailed(error) => self.server.failure(&error),
            WatchError::WatchError(status) => self.server.failure(&kube::Error::Api(status)),
            error @ WatchError::NoResourceVersion => self.unreachable(root_cause(&error)),
        }
    }

    fn ended(&self) -> RequestError {
        self.unreachable("the watch has ended".to_owned())
    }

    pub(super) fn unreachable(&self, why: String) -> RequestError {
        RequestError::Unreachable {
            side: self.server.side,
            url: self.server.url(),
            why,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_two_seconds_and_begin_again_after_a_success() {
        let mut pauses = Pauses::new();
        let first: Vec<_> = (0..5).map(|_| pauses.next().as_millis()).collect();
        assert_eq!(first, [250, 500, 1000, 2000, 2000]);
        pauses.reset();
        assert_eq!(pauses.next(), FIRST_RETRY);
    }
}
