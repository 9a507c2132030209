//! Keeps up with one kind of object of one API server: lists it, then watches it, for ever.
//!
//! This is not `kube::runtime::watcher`, because that does not tell when a broken watch is connected again, hides
//! bookmarks, and lists from whatever cache it likes. Here an absence is evidence (no copy is withdrawn without
//! it), so lists are most recent and complete, and it is known at any time whether the watch stands.
//!
//! # Guarantees
//! - [`Signal::Listed`] holds all that the API server held at one moment not before the request.
//! - After [`Signal::Connected`], and until [`Signal::Failed`], changes are told as they happen.
//! - A list that lacks more than ten objects and more than a fifth of what was there is not believed to that extent:
//!   its objects are told one by one, and what is missing is gone only if a second list, asked for over a new connection
//!   half a minute later, says the same.
//! - A silent connection is given up: a server ends each watch by itself, one that does not is not there any more.

use std::fmt;
use std::marker::PhantomData;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::io::AsyncBufReadExt as _;
use kube::core::{Request, Status};
use kube::{Api, Client, Resource};
use prometheus_client::metrics::counter::Counter;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep_until, timeout, timeout_at};

use self::guard::{Guard, Id, Verdict};
pub use self::settings::Settings;
use self::source::{Source, identity};
use crate::failure::{Backoff, Failure, FailureKind, spread};

mod guard;
mod settings;
mod source;

/// Makes a client with connections of its own.
pub type Connect = Arc<dyn Fn() -> Result<Client, Failure> + Send + Sync>;

/// What a watch tells.
#[derive(Debug)]
pub enum Signal<K> {
    /// All objects that there are, from a complete list of the most recent state: replaces what was known.
    Listed(Vec<K>),
    /// So many objects are missing from a list that it was not believed; they are taken to be there until a second list has been
    /// asked for.
    Held(usize),
    /// The object was made or changed.
    Applied(K),
    /// The object is gone; this is its last state.
    Deleted(K),
    /// The API server accepted the watch: from here on changes arrive. Told after every reconnection.
    Connected,
    /// The API server is not being watched; it is being tried again. Told once, and again when the reason changes.
    Failed(Failure),
}

impl<K> Signal<K> {
    /// The same signal with other objects.
    pub fn map<T>(self, mut convert: impl FnMut(K) -> T) -> Signal<T> {
        match self {
            Self::Listed(objects) => Signal::Listed(objects.into_iter().map(convert).collect()),
            Self::Held(missing) => Signal::Held(missing),
            Self::Applied(object) => Signal::Applied(convert(object)),
            Self::Deleted(object) => Signal::Deleted(convert(object)),
            Self::Connected => Signal::Connected,
            Self::Failed(failure) => Signal::Failed(failure),
        }
    }
}

/// A watch that lived this long was a good one.
const STEADY: Duration = Duration::from_secs(5);
/// The buffer for a line is given back when one longer than this has been read.
const KEPT_BUFFER: usize = 256 * 1024;

/// One kind of object of one API server, to be watched.
pub struct Watch<K> {
    api: Api<K>,
    labels: Option<String>,
    fields: Option<String>,
    metadata_only: bool,
    settings: Settings,
    reconnect: Option<watch::Receiver<u64>>,
    connect: Option<Connect>,
    unreadable: Counter,
}

impl<K> Watch<K>
where
    K: Resource<DynamicType: Default> + DeserializeOwned + fmt::Debug,
{
    /// A watch of all that `api` covers.
    pub fn new(api: Api<K>, settings: Settings) -> Self {
        Self {
            api,
            labels: None,
            fields: None,
            metadata_only: false,
            settings,
            reconnect: None,
            connect: None,
            unreadable: Counter::default(),
        }
    }

    /// Only objects whose labels match the selector.
    #[must_use]
    pub fn labels(self, selector: impl Into<String>) -> Self {
        Self {
            labels: Some(selector.into()),
            ..self
        }
    }

    /// Only objects whose fields match the selector.
    #[must_use]
    pub fn fields(self, selector: impl Into<String>) -> Self {
        Self {
            fields: Some(selector.into()),
            ..self
        }
    }

    /// Asks for the objects' metadata alone; `K` is then a `PartialObjectMeta`.
    #[must_use]
    pub fn metadata_only(self) -> Self {
        Self {
            metadata_only: true,
            ..self
        }
    }

    /// Whenever the value changes, a running request or pause is given up and the API server is asked anew at once.
    #[must_use]
    pub fn reconnect_on(self, reconnect: watch::Receiver<u64>) -> Self {
        Self {
            reconnect: Some(reconnect),
            ..self
        }
    }

    /// A list that is not believed is asked for again by such a client.
    #[must_use]
    pub fn confirming_by(self, connect: Connect) -> Self {
        Self {
            connect: Some(connect),
            ..self
        }
    }

    /// Counts the objects that cannot be read. They are logged and passed over, and missing from lists.
    #[must_use]
    pub fn counting(self, unreadable: Counter) -> Self {
        Self { unreadable, ..self }
    }

    /// Runs until the receiver of `events` is gone. Each object goes through `read` as it comes, each signal
    /// through `wrap`.
    pub async fn run<T, E>(
        self,
        read: impl Fn(K) -> T,
        wrap: impl Fn(Signal<T>) -> E,
        events: mpsc::Sender<E>,
    ) {
        let backoff = Backoff::new(self.settings.first_retry, self.settings.last_retry);
        let listener = events.clone();
        let guard = Guard::new(self.settings.disbelief);
        let mut loop_ = Loop {
            guard,
            connect: self.connect,
            source: Source {
                request: Request::new(self.api.resource_url()),
                client: self.api.into_client(),
                labels: self.labels,
                fields: self.fields,
                metadata_only: self.metadata_only,
                settings: self.settings,
                unreadable: self.unreadable,
                objects: PhantomData,
            },
            reconnect: self.reconnect,
            backoff,
            outage: None,
            connected_at: None,
            read,
            wrap,
            events,
        };
        tokio::select! {
            () = loop_.run() => {}
            // A quiet watch would not find out before the next change.
            () = listener.closed() => {}
        }
    }
}

/// Nobody listens any more.
struct Closed;

/// How a watch request ended.
#[derive(Debug)]
enum End {
    /// The API server ended it, or the connection was closed.
    Over,
    /// It was asked for.
    Reconnect,
    /// Something was missed, or not believed, that only a list can tell.
    Lost,
    /// It was refused or broke.
    Broken(Failure),
}

struct Loop<K, R, W, E> {
    source: Source<K>,
    guard: Guard,
    connect: Option<Connect>,
    reconnect: Option<watch::Receiver<u64>>,
    backoff: Backoff,
    outage: Option<Failure>,
    connected_at: Option<Instant>,
    read: R,
    wrap: W,
    events: mpsc::Sender<E>,
}

impl<K, R, W, T, E> Loop<K, R, W, E>
where
    K: Resource<DynamicType: Default> + DeserializeOwned,
    R: Fn(K) -> T,
    W: Fn(Signal<T>) -> E,
{
    async fn run(&mut self) {
        while let Ok(version) = self.list().await {
            if self.follow(version).await.is_err() {
                return;
            }
        }
    }

    /// Lists until it succeeds, and gives the resourceVersion to watch from.
    async fn list(&mut self) -> Result<String, Closed> {
        self.connect_anew();
        loop {
            let read = |object: K| (self.guard.id(object.meta()), (self.read)(object));
            let listed = tokio::select! {
                listed = self.source.list(read) => listed,
                () = asked(&mut self.reconnect) => continue,
            };
            match listed {
                Ok((objects, version)) => {
                    self.tell_list(objects).await?;
                    return Ok(version);
                }
                Err(failure) => self.fail(failure).await?,
            }
        }
    }

    /// What was not believed is not asked for again over the connection that said it.
    fn connect_anew(&mut self) {
        let Some(connect) = self
            .connect
            .as_ref()
            .filter(|_| self.guard.ask_at().is_some())
        else {
            return;
        };
        match connect() {
            Ok(client) => self.source.client = client,
            Err(failure) => {
                tracing::warn!(%failure, "no new connection can be made for a second list")
            }
        }
    }

    async fn tell_list(&mut self, objects: Vec<(Option<Id>, T)>) -> Result<(), Closed> {
        let present = objects.iter().filter_map(|(id, _)| *id).collect();
        let objects = objects.into_iter().map(|(_, object)| object);
        match self.guard.judge(present, Instant::now()) {
            Verdict::Believed => self.tell(Signal::Listed(objects.collect())).await,
            Verdict::Held(missing) => {
                let kind = K::kind(&K::DynamicType::default()).into_owned();
                tracing::warn!(
                    kind,
                    missing,
                    "a list lacks much of what was there; it is asked for again before that is believed"
                );
                for object in objects {
                    self.tell(Signal::Applied(object)).await?;
                }
                self.tell(Signal::Held(missing)).await
            }
        }
    }

    /// Watches from `version` on, over as many connections as it takes, until a new list is needed.
    async fn follow(&mut self, mut version: String) -> Result<(), Closed> {
        loop {
            let end = self.watch(&mut version).await?;
            let steady = self
                .connected_at
                .take()
                .is_some_and(|at| at.elapsed() >= STEADY);
            if steady {
                self.backoff.reset();
            }
            tracing::debug!(kind = %K::kind(&K::DynamicType::default()), ?end, steady, "watch ended");
            match end {
                End::Reconnect => {}
                End::Over | End::Broken(_) if steady && !end.is_expiry() => {}
                End::Lost => return Ok(()),
                End::Over => self.pause().await,
                End::Broken(failure) if failure.kind == FailureKind::Expired => {
                    if !steady {
                        self.pause().await;
                    }
                    return Ok(());
                }
                End::Broken(failure) => self.fail(failure).await?,
            }
        }
    }

    /// One watch request, from `version` on, which moves with what is told.
    async fn watch(&mut self, version: &mut String) -> Result<End, Closed> {
        let most = self.source.settings.watch_timeout;
        let lifetime = spread(most.mul_f64(5.0 / 6.0), most);
        let opened = tokio::select! {
            opened = timeout(self.source.settings.connect_deadline, self.source.open(version, lifetime)) => opened,
            () = asked(&mut self.reconnect) => return Ok(End::Reconnect),
        };
        let stream = match opened {
            Ok(Ok(stream)) => stream,
            Ok(Err(failure)) => return Ok(End::Broken(failure)),
            Err(_) => return Ok(End::Broken(Failure::timeout())),
        };
        self.outage = None;
        self.connected_at = Some(Instant::now());
        self.tell(Signal::Connected).await?;
        let mut stream = pin!(stream);
        let dead_at = Instant::now() + lifetime + self.source.settings.margin;
        let ask_at = self.guard.ask_at();
        let mut line = Vec::new();
        loop {
            line.clear();
            line.shrink_to(KEPT_BUFFER);
            let read = tokio::select! {
                read = timeout_at(dead_at, stream.read_until(b'\n', &mut line)) => read,
                () = asked(&mut self.reconnect) => return Ok(End::Reconnect),
                () = at(ask_at) => return Ok(End::Lost),
            };
            match read {
                Ok(Ok(0)) => return Ok(End::Over),
                Ok(Ok(_)) => {
                    if let Some(end) = self.take(&line, version).await? {
                        return Ok(end);
                    }
                }
                Ok(Err(error)) => return Ok(End::Broken(error.into())),
                Err(_) => return Ok(End::Broken(Failure::timeout())),
            }
        }
    }

    /// Takes one line of a watch; some lines end it.
    async fn take(&mut self, line: &[u8], version: &mut String) -> Result<Option<End>, Closed> {
        let event = match serde_json::from_slice::<WatchLine<'_>>(line) {
            Ok(event) => event,
            // The connection was cut within the line.
            Err(error) if error.is_eof() => return Ok(Some(End::Over)),
            Err(error) => return Ok(Some(End::Broken(error.into()))),
        };
        if event.kind == "ERROR" {
            let failure = match serde_json::from_str::<Status>(event.object.get()) {
                Ok(status) => Failure::from_status(&status),
                Err(error) => error.into(),
            };
            return Ok(Some(End::Broken(failure)));
        }
        if event.kind == "BOOKMARK" {
            move_on(version, identity(event.object).resource_version);
            return Ok(None);
        }
        let Some(object) = self.source.decode(event.object) else {
            move_on(version, identity(event.object).resource_version);
            return Ok((event.kind == "DELETED").then_some(End::Lost));
        };
        let newer = object.meta().resource_version.clone();
        match event.kind {
            "ADDED" | "MODIFIED" => {
                self.guard.applied(object.meta());
                self.tell(Signal::Applied((self.read)(object))).await?;
            }
            "DELETED" => {
                self.guard.deleted(object.meta());
                self.tell(Signal::Deleted((self.read)(object))).await?;
            }
            _ => {}
        }
        move_on(version, newer);
        Ok(None)
    }

    /// Tells of a failure that has not been told yet, and pauses.
    async fn fail(&mut self, failure: Failure) -> Result<(), Closed> {
        if self.outage.as_ref() != Some(&failure) {
            self.outage = Some(failure.clone());
            self.tell(Signal::Failed(failure)).await?;
        }
        self.pause().await;
        Ok(())
    }

    async fn pause(&mut self) {
        tokio::select! {
            () = tokio::time::sleep(self.backoff.pause()) => {}
            () = asked(&mut self.reconnect) => self.backoff.reset(),
        }
    }

    async fn tell(&self, signal: Signal<T>) -> Result<(), Closed> {
        self.events
            .send((self.wrap)(signal))
            .await
            .map_err(|_| Closed)
    }
}

impl End {
    fn is_expiry(&self) -> bool {
        matches!(self, Self::Broken(failure) if failure.kind == FailureKind::Expired)
    }
}

fn move_on(version: &mut String, newer: Option<String>) {
    if let Some(newer) = newer.filter(|newer| !newer.is_empty()) {
        *version = newer;
    }
}

/// Waits until then; for ever where there is no such time.
async fn at(time: Option<Instant>) {
    match time {
        Some(time) => sleep_until(time).await,
        None => std::future::pending().await,
    }
}

/// Waits until a new connection is asked for.
async fn asked(reconnect: &mut Option<watch::Receiver<u64>>) {
    if let Some(reconnect) = reconnect
        && reconnect.changed().await.is_ok()
    {
        return;
    }
    std::future::pending().await
}

#[derive(Deserialize)]
struct WatchLine<'a> {
    #[serde(rename = "type")]
    kind: &'a str,
    #[serde(borrow)]
    object: &'a RawValue,
}

#[cfg(test)]
pub(crate) mod tests;
