//! Watches of one API server, for as long as all of them last.

use std::fmt::Debug;

use causeway::api::multicluster::Version;
use futures::{Stream, StreamExt as _, pin_mut};
use kube::runtime::watcher::{self, Event};
use kube::{Api, Resource};
use serde::de::DeserializeOwned;
use tokio::sync::mpsc;

use super::link::{Kind, Link};
use super::pace::{self, Broken, ClustersetKind, LOOK_AGAIN};
use super::scope::Scope;
use super::touched::Touched;
use crate::cluster::api_server::{ApiServer, RequestError};

/// Part of the observed state that one API server fills.
pub(super) trait View: Sized + 'static {
    /// Identity of the part and its connection.
    type Id: Clone + Send + Sync + 'static;

    /// Returns the state of the watches.
    fn link(&mut self) -> &mut Link;
}

/// Change of a part, applied by its owner.
pub(crate) type Apply<V> = Box<dyn FnOnce(&mut V) -> Touched + Send>;

/// Change with the id of its part.
pub(super) type Sent<V> = (<V as View>::Id, Apply<V>);

/// Version in which an API server serves a kind of the Multi-Cluster Services API, if any, or the
/// refusal of the list.
pub(super) type Served = Result<Option<Version>, RequestError>;

/// Watches of one API server.
pub(super) struct Reader<'a, V: View> {
    pub server: &'a ApiServer,
    pub scope: &'a Scope,
    pub changes: &'a mpsc::Sender<Sent<V>>,
    pub id: V::Id,
}

impl<V: View> Reader<'_, V> {
    /// Sends a change. The receiver is gone only at the end of the command.
    pub(super) async fn send(&self, apply: impl FnOnce(&mut V) -> Touched + Send + 'static) {
        let change = (self.id.clone(), Box::new(apply) as Apply<V>);
        self.changes.send(change).await.ok();
    }

    /// Follows the objects of one kind until the watch breaks.
    pub(super) async fn follow<K>(
        &self,
        kind: Kind,
        api: Api<K>,
        config: watcher::Config,
        apply: fn(&mut V, Event<K>) -> Touched,
    ) -> Broken
    where
        K: Resource + Clone + Debug + DeserializeOwned + Send + 'static,
    {
        let events = pace::events(self.server, api, config);
        self.follow_events(kind, events, || None, apply).await
    }

    /// Applies events until the first error. The result of `begin` is applied before the end of
    /// each list.
    async fn follow_events<K: Send + 'static>(
        &self,
        kind: Kind,
        events: impl Stream<Item = Result<Event<K>, Broken>>,
        begin: impl Fn() -> Option<Apply<V>>,
        apply: fn(&mut V, Event<K>) -> Touched,
    ) -> Broken {
        pin_mut!(events);
        while let Some(event) = events.next().await {
            let event = match event {
                Ok(event) => event,
                Err(broken) => return broken,
            };
            let is_done = matches!(event, Event::InitDone);
            let begin = begin().filter(|_| is_done);
            self.send(move |view| {
                let mut touched = begin.map(|begin| begin(view)).unwrap_or_default();
                let is_listed = is_done && view.link().listed(kind);
                touched.add(apply(view, event));
                touched.link |= is_listed;
                touched
            })
            .await;
        }
        Broken {
            why: self.server.unreachable("the watch has ended".to_owned()),
            unlisted: false,
        }
    }

    /// Follows a kind of the Multi-Cluster Services API in the newest served version. If the kind
    /// is not served or the list is refused, `served` gets `Ok(None)` or the refusal, and the next
    /// attempt follows after 10 seconds.
    pub(super) async fn follow_served<K>(
        &self,
        kind: Kind,
        served: fn(&mut V, Served) -> Touched,
        apply: fn(&mut V, Event<K>) -> Touched,
    ) -> RequestError
    where
        K: ClustersetKind,
    {
        loop {
            let unserved = match pace::served::<K>(self.server).await {
                Ok(Some(version)) => {
                    let events = self.scope.events::<K>(self.server, version);
                    let begin = || -> Option<Apply<V>> {
                        Some(Box::new(move |view| served(view, Ok(Some(version)))))
                    };
                    match self.follow_events(kind, events, begin, apply).await.why {
                        why @ RequestError::NotAllowed { .. } => Err(why),
                        why => return why,
                    }
                }
                Ok(None) => Ok(None),
                Err(error) => return error,
            };
            self.send(move |view| {
                let mut touched = served(view, unserved);
                touched.link |= view.link().listed(kind);
                touched
            })
            .await;
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }
}
