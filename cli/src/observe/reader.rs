//! Watches of one API server, for as long as all of them last.

use std::fmt::Debug;
use std::sync::Arc;

use causeway::api::multicluster::Version;
use causeway::domain::ServiceKey;
use futures::future::BoxFuture;
use futures::{Stream, StreamExt as _, pin_mut};
use kube::runtime::watcher::{self, Event};
use kube::{Api, Resource};
use serde::de::DeserializeOwned;

use super::link::{Kind, Link};
use super::pace::{self, Broken, ClustersetKind, LOOK_AGAIN};
use super::scope::Scope;
use super::store::{Store, key_of};
use super::touched::Touched;
use crate::cluster::api_server::{ApiServer, RequestError};

/// Part of the observed state that one API server fills.
pub(super) trait View: Sized + 'static {
    /// Whether every service depends on the kinds that the API server serves.
    const CONCERNS_ALL: bool;

    /// Refusal of a list, for reports.
    type Refusal: PartialEq + Send + 'static;

    /// Returns the state of the watches.
    fn link(&mut self) -> &mut Link;

    /// Returns the refusal of a list.
    fn refusal(why: RequestError) -> Self::Refusal;
}

/// Change of a part, applied by its owner.
pub(crate) type Apply<V> = Box<dyn FnOnce(&mut V) -> Touched + Send>;

/// Sends a change of a part to its owner, as soon as there is room.
pub(super) type Outlet<V> = Arc<dyn Fn(Apply<V>) -> BoxFuture<'static, ()> + Send + Sync>;

/// Objects of a kind of the Multi-Cluster Services API, by the service of their name.
#[derive(Debug)]
pub(crate) struct Followed<K, E> {
    pub objects: Store<ServiceKey, K>,
    /// Version in which the API server serves the kind, if any, or the refusal of the list.
    served: Result<Option<Version>, E>,
}

impl<K: Resource, E: PartialEq> Followed<K, E> {
    /// Returns the kind before the first answer.
    pub(super) fn new() -> Self {
        Self {
            objects: Store::new(key_of),
            served: Ok(None),
        }
    }

    /// Returns the served version.
    pub(super) fn version(&self) -> Option<Version> {
        self.served.as_ref().ok().copied().flatten()
    }

    /// Returns the refusal of the list.
    pub(super) fn refusal(&self) -> Option<&E> {
        self.served.as_ref().err()
    }

    /// Returns the objects of a service, none while the list is refused.
    pub(super) fn of(&self, key: &ServiceKey) -> impl Iterator<Item = &K> {
        let is_read = self.served.is_ok();
        self.objects.of(key).filter(move |_| is_read)
    }

    /// Applies an event.
    pub(crate) fn apply(&mut self, event: Event<K>) -> Touched {
        let services = self.objects.apply(event);
        Touched {
            node_needs: !services.is_empty(),
            ..Touched::services(services)
        }
    }

    /// Records the served version or the refusal. Without a version the kind has no objects. A
    /// refusal retains the last observed ones.
    pub(crate) fn serve(&mut self, served: Result<Option<Version>, E>) -> Touched {
        let mut touched = Touched::default();
        if matches!(served, Ok(None)) {
            self.apply(Event::Init);
            touched = self.apply(Event::InitDone);
        }
        touched.link = served != self.served;
        self.served = served;
        touched
    }
}

/// Watches of one API server.
pub(super) struct Reader<'a, V: View> {
    pub server: &'a ApiServer,
    pub scope: &'a Scope,
    pub outlet: &'a Outlet<V>,
}

impl<V: View> Reader<'_, V> {
    /// Sends a change.
    pub(super) async fn send(&self, apply: impl FnOnce(&mut V) -> Touched + Send + 'static) {
        (self.outlet)(Box::new(apply)).await;
    }

    /// Sends a change for a kind that cannot be read and is no longer awaited. Waits for the next
    /// attempt.
    async fn postpone(&self, kind: Kind, apply: impl FnOnce(&mut V) -> Touched + Send + 'static) {
        self.send(move |view| {
            let mut touched = apply(view);
            touched.link |= view.link().listed(kind);
            touched
        })
        .await;
        tokio::time::sleep(LOOK_AGAIN).await;
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
        self.follow_events(kind, events, apply).await
    }

    /// Applies events until the first error.
    async fn follow_events<K: Send + 'static>(
        &self,
        kind: Kind,
        events: impl Stream<Item = Result<Event<K>, Broken>>,
        apply: impl Fn(&mut V, Event<K>) -> Touched + Copy + Send + 'static,
    ) -> Broken {
        pin_mut!(events);
        while let Some(event) = events.next().await {
            let event = match event {
                Ok(event) => event,
                Err(broken) => return broken,
            };
            let is_done = matches!(event, Event::InitDone);
            self.send(move |view| {
                let is_listed = is_done && view.link().listed(kind);
                let mut touched = apply(view, event);
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

    /// Follows a kind that the user may be unable to read: applies `unread` if the list is refused
    /// or the kind is not served, and calls `follow` again after 10 seconds.
    pub(super) async fn follow_readable<F: Future<Output = Broken>>(
        &self,
        kind: Kind,
        follow: impl Fn() -> F,
        unread: fn(&mut V, &RequestError) -> Touched,
    ) -> RequestError {
        loop {
            let why = match pace::relisting(&follow).await.why {
                why @ RequestError::NotFound { .. } => why,
                why if why.is_missing_right() => why,
                why => return why,
            };
            self.postpone(kind, move |view| unread(view, &why)).await;
        }
    }

    /// Follows a kind of the Multi-Cluster Services API in the newest served version. If the kind
    /// is not served or the list is refused, the next attempt follows after 10 seconds.
    pub(super) async fn follow_served<K>(
        &self,
        kind: Kind,
        part: fn(&mut V) -> &mut Followed<K, V::Refusal>,
    ) -> RequestError
    where
        K: ClustersetKind,
    {
        let serve = move |view: &mut V, served| {
            let touched = part(view).serve(served);
            Touched {
                all: V::CONCERNS_ALL && touched.link,
                ..touched
            }
        };
        loop {
            let unserved = match pace::served::<K>(self.server).await {
                Ok(Some(version)) => {
                    // The version counts from the end of the first list in it.
                    let apply = move |view: &mut V, event: Event<K>| {
                        let mut touched = match event {
                            Event::InitDone => serve(view, Ok(Some(version))),
                            _ => Touched::default(),
                        };
                        touched.add(part(view).apply(event));
                        // Imports select no node ports.
                        touched.node_needs &= kind == Kind::ServiceExport;
                        touched
                    };
                    let follow = || {
                        let events = self.scope.events::<K>(self.server, version);
                        self.follow_events(kind, events, apply)
                    };
                    match pace::relisting(follow).await.why {
                        why if why.is_missing_right() => Err(why),
                        why => return why,
                    }
                }
                Ok(None) => Ok(None),
                Err(error) => return error,
            };
            let unserved = unserved.map_err(V::refusal);
            self.postpone(kind, move |view| serve(view, unserved)).await;
        }
    }
}
