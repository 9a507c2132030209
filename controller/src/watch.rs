//! Keeps up with one kind of object of one API server: lists it, then watches it, for ever.
//!
//! This is not `kube::runtime::watcher`, because that does not tell when a broken watch is
//! connected again, hides bookmarks, and lists from whatever cache it likes. Here an absence is
//! evidence (no copy is withdrawn without it), so lists are most recent and complete, and it is
//! known at any time whether the watch stands.
//!
//! # Guarantees
//! - [`Signal::Listed`] holds all that the API server held at one moment not before the request.
//! - After [`Signal::Connected`], and until [`Signal::Failed`], changes are reported as they
//!   happen. If an API server ends a watch within five seconds, they are reported after a pause, of
//!   [`Settings::last_retry`] at most. The log says so once five watches in a row ended like this.
//! - After [`Signal::Failed`], a watch without a new list is reported as connected after a second,
//!   or when it ends in order; not if the API server refuses its version by an event.
//! - Where the deletion guard ([`causeway_engine::evidence::relist`]) suspends the deletions that a
//!   list suggests, the objects of the list are reported one by one, and a second list is requested
//!   over a new connection half a minute later.
//! - An API server that sends more than [`Limits`] allow fails; what was reported of it stays as it
//!   was, and no more of it is read.
//! - A silent connection is dropped, and what was missed is requested over a new one: an API server
//!   sends bookmarks, and ends each watch by itself; one that does neither is not there any more.

use std::fmt;
use std::marker::PhantomData;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use causeway::process::backoff::Backoff;
use causeway_engine::evidence::relist::DeletionGuard;
use causeway_engine::model::{Signal, Term};
use kube::core::Request;
use kube::{Api, Resource};
use prometheus_client::metrics::counter::Counter;
use serde::de::DeserializeOwned;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

pub use self::decoder::{Decoder, Json};
use self::follow::Follower;
pub(crate) use self::follow::is_before;
pub(crate) use self::limits::Counted;
pub use self::limits::Limits;
pub use self::relist_requests::{Connect, RelistRequests};
pub use self::scope::Scope;
use self::scope::Scoped;
pub use self::settings::Settings;
use self::source::Source;

mod decoder;
mod follow;
mod limits;
mod list;
mod relist_requests;
mod scope;
mod settings;
mod source;

/// One kind of object of one API server, to be watched.
pub struct Watch<K, D = Json> {
    /// Reads the objects.
    pub decoder: D,
    /// Name of the member in the log; `hub` unless set.
    pub cluster: Arc<str>,
    /// The objects.
    pub api: Api<K>,
    /// Label selector of the objects; none for all.
    pub labels: Option<String>,
    /// Whether only the metadata of the objects is requested; `K` is then a `PartialObjectMeta`.
    pub metadata_only: bool,
    /// Time limits and bounds.
    pub settings: Settings,
    /// Ends a pause whenever the value changes, and a request that is older than the value: another
    /// one begins at once. A watch that has begun again meanwhile goes on.
    pub reconnect: Option<watch::Receiver<Instant>>,
    /// Requests to list, one whenever a number grows.
    pub relist_requests: Option<watch::Receiver<RelistRequests>>,
    /// Whether every API server has an object of this kind: the deletions of an empty list are then
    /// suspended.
    pub never_empty: bool,
    /// Makes clients for second lists.
    pub connect: Option<Connect>,
    /// Guard of an earlier watch of the same objects, with which lists are compared.
    pub guard: Option<SharedGuard>,
    /// Counts the objects that cannot be read. They are logged and skipped, and missing from
    /// lists.
    pub unreadable: Counter,
}

/// A deletion guard that outlives its watch.
pub type SharedGuard = Arc<Mutex<DeletionGuard>>;

impl<K> Watch<K>
where
    K: Resource<DynamicType: Default> + DeserializeOwned + fmt::Debug + Send + 'static,
{
    /// A watch of all that `api` covers, read as JSON.
    pub fn new(api: Api<K>, settings: Settings) -> Self {
        Self::read_by(Json, api, settings)
    }
}

impl<K, D> Watch<K, D>
where
    K: Resource<DynamicType: Default> + fmt::Debug + Send + 'static,
    D: Decoder<K>,
{
    /// A watch of all that `api` covers.
    pub fn read_by(decoder: D, api: Api<K>, settings: Settings) -> Self {
        Self {
            decoder,
            cluster: "hub".into(),
            api,
            labels: None,
            metadata_only: false,
            settings,
            reconnect: None,
            relist_requests: None,
            never_empty: false,
            connect: None,
            guard: None,
            unreadable: Counter::default(),
        }
    }

    /// Runs until the receiver of `events` is gone. Each object goes through `read` as it comes,
    /// each signal through `wrap`.
    pub async fn run<T, E>(
        self,
        read: impl Fn(K) -> T,
        wrap: impl Fn(Signal<T>) -> E,
        events: mpsc::Sender<E>,
    ) {
        self.run_in(None, read, wrap, events).await;
    }

    /// Runs like [`Watch::run`]; in a scope, over the objects of names that may change meanwhile.
    pub async fn run_in<T, E>(
        self,
        scope: Option<Scope<K, T, E>>,
        read: impl Fn(K) -> T,
        wrap: impl Fn(Signal<T>) -> E,
        events: mpsc::Sender<E>,
    ) {
        let scoped = scope.map(Scoped::new);
        let backoff = Backoff::new(self.settings.first_retry, self.settings.last_retry);
        let listener = events.clone();
        let interval = self.settings.confirmation_interval;
        let new = || new_guard(interval, self.never_empty);
        let guard = self.guard.unwrap_or_else(new);
        let mut follower = Follower {
            guard,
            connect: self.connect,
            source: Source {
                request: Request::new(self.api.resource_url()),
                client: self.api.into_client(),
                labels: scoped.as_ref().map(Scoped::selector).or(self.labels),
                metadata_only: self.metadata_only,
                settings: self.settings,
                unreadable: self.unreadable,
                logged: 0,
                decoder: self.decoder,
                objects: PhantomData,
            },
            reconnect: self.reconnect,
            requested: self
                .relist_requests
                .as_ref()
                .map_or_else(RelistRequests::default, |requests| *requests.borrow()),
            relist_requests: self.relist_requests,
            listed_term: Term::default(),
            cluster: self.cluster,
            backoff,
            version: String::new(),
            outage: None,
            outage_ends_at: None,
            connected_at: None,
            early_ends: 0,
            silent_ends: 0,
            proof_pause: Duration::ZERO,
            scoped,
            read,
            wrap,
            events,
        };
        tokio::select! {
            () = follower.run() => {}
            // A quiet watch would not find out before the next change.
            () = listener.closed() => {}
        }
    }
}

/// A deletion guard that has observed nothing, for [`Watch::guard`].
pub fn new_guard(confirmation_interval: Duration, never_empty: bool) -> SharedGuard {
    let guard = DeletionGuard::new(confirmation_interval, never_empty);
    Arc::new(Mutex::new(guard))
}

#[cfg(test)]
pub(crate) mod tests;
