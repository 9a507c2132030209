//! Follows a kind that not every hub serves: asks whether it does, and watches the kind while it
//! does.

use std::fmt::Debug;
use std::time::Duration;

use causeway_engine::model::{Failure, HubEvent, Signal};
use kube::{Api, Client, Resource};
use prometheus_client::metrics::counter::Counter;
use serde::de::{DeserializeOwned, IgnoredAny};
use tokio::sync::{mpsc, watch};
use tokio::time::sleep;

use super::discovery::Discovery;
use super::report::Report;
use crate::event::Event;
use crate::lookup::{self, Resources, UnservedResources};
use crate::watch::{Connect, RelistRequests, Settings, Watch};

/// Maximum time of a discovery request.
const DEADLINE: Duration = Duration::from_secs(5);

/// A kind that a hub may serve or not.
pub(super) struct Kind<K, T> {
    /// Its API group.
    pub(super) group: &'static str,
    /// The versions in which it may be served, the preferred first.
    pub(super) versions: &'static [&'static str],
    /// Its plural.
    pub(super) plural: &'static str,
    /// Label selector of the objects that matter.
    pub(super) selector: Option<String>,
    /// Whether nothing but the metadata is read.
    pub(super) metadata_only: bool,
    /// Its objects in one of the versions.
    pub(super) api: Box<dyn Fn(Client, &'static str) -> Api<K> + Send + Sync>,
    /// Function that reads an object.
    pub(super) read: Box<dyn Fn(K) -> T + Send + Sync>,
    /// Tells whether it is served.
    pub(super) served: Box<dyn Fn(bool) -> HubEvent + Send + Sync>,
    /// Sends what its watch reports.
    pub(super) reported: Box<dyn Fn(Signal<T>) -> HubEvent + Send + Sync>,
}

/// Follows one such kind.
pub(super) struct Follower {
    /// The hub.
    pub(super) client: Client,
    /// UID of the hub's kube-system namespace.
    pub(super) uid: String,
    /// The lists that are requested of its watches.
    pub(super) relist_requests: watch::Receiver<RelistRequests>,
    /// Makes a client with connections of its own.
    pub(super) connect: Connect,
    /// Counts the objects that cannot be read.
    pub(super) unreadable: Counter,
    /// Report of the watch. While it fails, its objects stay as they were last observed.
    pub(super) report: Report,
}

impl Follower {
    /// Tells whether the hub serves the kind, and while it does, which objects there are, until
    /// nobody listens any more. A definition that comes or goes is noticed within half a minute, by
    /// a small request; a hub without it costs nothing else.
    pub(super) async fn run<K, T>(self, kind: Kind<K, T>, events: mpsc::Sender<Event>)
    where
        K: Resource<DynamicType: Default> + DeserializeOwned + Debug + Send + 'static,
    {
        let mut discovery = Discovery::new(kind.plural);
        let mut version = None;
        loop {
            let news = async {
                loop {
                    sleep(discovery.pause()).await;
                    let observed = self.ask(&kind, discovery.is_unserved()).await;
                    if let Some(news) = discovery.note(observed) {
                        break news;
                    }
                }
            };
            let news = tokio::select! {
                () = self.watch(&kind, version, &events) => return,
                news = news => news,
            };
            version = news;
            tracing::info!(resource = kind.plural, version, "hub discovery changed");
            let event = Event::Hub((kind.served)(version.is_some()));
            if events.send(event).await.is_err() {
                return;
            }
        }
    }

    /// Returns the version in which the hub serves the kind, if any. The group is requested before
    /// its versions: most hubs have none of it. `None` is proven by the hub, except where it
    /// `is_unserved` already.
    async fn ask<K, T>(
        &self,
        kind: &Kind<K, T>,
        is_unserved: bool,
    ) -> Result<Option<&'static str>, Failure> {
        let group = format!("/apis/{}", kind.group);
        let mut unserved = kind.versions.to_vec();
        if kind.versions.len() == 1 || self.get::<IgnoredAny>(&group).await?.is_some() {
            for version in kind.versions {
                let path = format!("{group}/{version}");
                let Some(list) = self.get::<Resources>(&path).await? else {
                    continue;
                };
                if list.has(kind.plural) {
                    return Ok(Some(version));
                }
                unserved.retain(|one| one != version);
            }
        }
        if !is_unserved {
            let Self { client, uid, .. } = self;
            let unserved = UnservedResources {
                group: kind.group,
                versions: &unserved,
                plurals: &[kind.plural],
            };
            lookup::prove_unserved(client, uid, unserved, DEADLINE).await?;
        }
        Ok(None)
    }

    async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<Option<T>, Failure> {
        lookup::document(&self.client, path, DEADLINE).await
    }

    async fn watch<K, T>(
        &self,
        kind: &Kind<K, T>,
        version: Option<&'static str>,
        events: &mpsc::Sender<Event>,
    ) where
        K: Resource<DynamicType: Default> + DeserializeOwned + Debug + Send + 'static,
    {
        let Some(version) = version else {
            self.report.note_unserved();
            return events.closed().await;
        };
        let api = (kind.api)(self.client.clone(), version);
        let watch = Watch {
            labels: kind.selector.clone(),
            metadata_only: kind.metadata_only,
            connect: Some(self.connect.clone()),
            relist_requests: Some(self.relist_requests.clone()),
            unreadable: self.unreadable.clone(),
            ..Watch::new(api, Settings::default())
        };
        watch
            .run(
                |object| (kind.read)(object),
                |signal| {
                    self.report.note(&signal);
                    Event::Hub((kind.reported)(signal))
                },
                events.clone(),
            )
            .await;
    }
}
