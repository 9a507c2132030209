//! The watches of one API server, for as long as all of them stand.

use std::fmt::Debug;
use std::time::Duration;

use causeway::api::multicluster::Version;
use futures::{StreamExt as _, pin_mut};
use kube::core::NamespaceResourceScope;
use kube::runtime::watcher::{self, Event};
use kube::{Api, Resource};
use serde::de::DeserializeOwned;
use tokio::sync::mpsc;

use super::change::Change;
use crate::api_server::{ApiServer, RequestError};
use crate::watches::{self, ClustersetKind, Pauses};

/// After how long a kind that is not served, or forbidden, is looked for again.
pub(super) const LOOK_AGAIN: Duration = Duration::from_secs(10);
/// The time between two probes.
const PROBE_EVERY: Duration = Duration::from_secs(2);
/// How long a probe may take.
const PROBE_WITHIN: Duration = Duration::from_secs(3);

/// How long it takes until a lost API server is tried again.
pub(super) fn pauses() -> Pauses {
    Pauses::new(Duration::from_millis(250), Duration::from_secs(2))
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
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        self.server.api(self.namespace)
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
        self.follow_lists(api, config, || None, change).await
    }

    /// The same, with `listed` at the end of each list.
    async fn follow_lists<K>(
        &self,
        api: Api<K>,
        config: watcher::Config,
        listed: impl Fn() -> Option<Change>,
        change: impl Fn(Event<K>) -> Change,
    ) -> RequestError
    where
        K: Resource + Clone + Debug + DeserializeOwned + Send + 'static,
    {
        let events = watches::events(self.server, api, config);
        pin_mut!(events);
        while let Some(event) = events.next().await {
            match event {
                Ok(event) => {
                    if matches!(event, Event::InitDone)
                        && let Some(listed) = listed()
                    {
                        self.tell(listed).await;
                    }
                    self.tell(change(event)).await;
                }
                Err(broken) => return broken.why,
            }
        }
        self.server.unreachable("the watch has ended".to_owned())
    }

    /// The same of a kind of the Multi-Cluster Services API, in the newest version that is served. Where none is, or it may not be
    /// listed, that is said, and it is looked for every now and then.
    pub(super) async fn follow_served<K>(
        &self,
        served: impl Fn(Option<Version>) -> Change,
        change: impl Fn(Event<K>) -> Change,
    ) -> RequestError
    where
        K: ClustersetKind,
    {
        loop {
            match watches::served::<K>(self.server).await {
                Ok(Some(version)) => {
                    let api = self.server.api_in::<K>(version, self.namespace);
                    let listed = || Some(served(Some(version)));
                    let all = watcher::Config::default();
                    match self.follow_lists(api, all, listed, &change).await {
                        RequestError::NotAllowed { .. } => {}
                        why => return why,
                    }
                }
                Ok(None) => {}
                Err(error) => return error,
            }
            self.tell(served(None)).await;
            tokio::time::sleep(LOOK_AGAIN).await;
        }
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
                    let why = format!("no answer within {} s", PROBE_WITHIN.as_secs());
                    return self.server.unreachable(why);
                }
            }
        }
    }
}
