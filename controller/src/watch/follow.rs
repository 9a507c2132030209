//! The way of one watch: list, watch, reconnect, list again.

use std::pin::pin;
use std::time::Duration;

use causeway_engine::model::{Failure, FailureKind, Signal};
use futures::io::{AsyncBufReadExt as _, AsyncReadExt as _};
use kube::Resource;
use kube::core::Status;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep_until, timeout, timeout_at};

use super::asks::{Asks, Connect};
use super::guard::{Guard, Known, Verdict};
use super::source::{Source, identity};
use crate::failure::{Backoff, classify, spread};

/// A watch that lived this long was a good one.
const STEADY: Duration = Duration::from_secs(5);
/// The buffer for a line is given back when one longer than this has been read.
const KEPT_BUFFER: usize = 256 * 1024;
/// Bytes of a line around the object.
const ENVELOPE: u64 = 64;

/// Nobody listens any more.
struct Closed;

/// How a watch request ended.
#[derive(Debug)]
enum End {
    /// The API server ended it, or the connection was closed.
    Over,
    /// It was asked for.
    Reconnect,
    /// Nothing was heard for so long that the connection is taken for dead.
    Silent,
    /// Something was missed, or not believed, that only a list can tell.
    Lost,
    /// It was refused or broke.
    Broken(Failure),
}

/// One watch at work.
pub(super) struct Follower<K, R, W, E> {
    pub(super) source: Source<K>,
    pub(super) guard: Guard,
    pub(super) connect: Option<Connect>,
    pub(super) reconnect: Option<watch::Receiver<u64>>,
    pub(super) asks: Option<watch::Receiver<Asks>>,
    /// What was asked for and done.
    pub(super) heeded: Asks,
    pub(super) backoff: Backoff,
    /// The version up to which everything was told; empty before the first list.
    pub(super) version: String,
    pub(super) outage: Option<Failure>,
    pub(super) connected_at: Option<Instant>,
    pub(super) read: R,
    pub(super) wrap: W,
    pub(super) events: mpsc::Sender<E>,
}

impl<K, R, W, T, E> Follower<K, R, W, E>
where
    K: Resource<DynamicType: Default> + DeserializeOwned,
    R: Fn(K) -> T,
    W: Fn(Signal<T>) -> E,
{
    pub(super) async fn run(&mut self) {
        while self.list().await.is_ok() && self.follow().await.is_ok() {}
    }

    /// Lists until it succeeds.
    async fn list(&mut self) -> Result<(), Closed> {
        if self.guard.ask_at().is_some() {
            self.connect_anew();
        }
        loop {
            let read =
                |object: K, bytes| (self.guard.object(object.meta(), bytes), (self.read)(object));
            let listed = tokio::select! {
                listed = self.source.list(read) => listed,
                () = asked(&mut self.reconnect) => continue,
            };
            match listed {
                Ok((objects, version)) => return self.tell_list(objects, version).await,
                Err(failure) => self.fail(failure).await?,
            }
        }
    }

    /// What is asked for is a second list, later or at once.
    fn heed(&mut self) {
        let Some(asks) = &mut self.asks else { return };
        let asks = *asks.borrow_and_update();
        let now = Instant::now();
        if asks.again != self.heeded.again {
            self.guard.ask_again(now);
        }
        if asks.release != self.heeded.release {
            self.guard.release(now);
        }
        self.heeded = asks;
    }

    /// Goes on over a connection of its own: the one before was silent, or said what was not believed.
    fn connect_anew(&mut self) {
        let Some(connect) = &self.connect else { return };
        match connect() {
            Ok(client) => self.source.client = client,
            Err(failure) => tracing::warn!(%failure, "no new connection can be made"),
        }
    }

    async fn tell_list(
        &mut self,
        objects: Vec<((u64, Known), T)>,
        version: String,
    ) -> Result<(), Closed> {
        let went_back = is_before(&version, &self.version);
        self.version = version;
        self.heed();
        let present = objects.iter().map(|(object, _)| *object).collect();
        let objects = objects.into_iter().map(|(_, object)| object);
        match self.guard.judge(present, went_back, Instant::now()) {
            Verdict::Believed { again } => {
                self.tell(Signal::Listed(objects.collect())).await?;
                match again {
                    true => self.tell(Signal::Confirmed).await,
                    false => Ok(()),
                }
            }
            Verdict::Held(missing) => {
                let kind = K::kind(&K::DynamicType::default()).into_owned();
                tracing::warn!(
                    kind,
                    missing,
                    went_back,
                    "a list lacks much of what was there, or is of an older state; it is asked for again before it is believed"
                );
                for object in objects {
                    self.tell(Signal::Applied(object)).await?;
                }
                self.tell(Signal::Held(missing)).await
            }
        }
    }

    /// Watches over as many connections as it takes, until a new list is needed.
    async fn follow(&mut self) -> Result<(), Closed> {
        loop {
            let end = self.watch().await?;
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
                // Where nobody answers the next request fails. Old API servers send no bookmarks of a kind of which nothing has
                // changed since they started: that they are silent is no failure.
                End::Silent => self.connect_anew(),
                End::Over | End::Broken(_) if steady && !end.is_expiry() => {}
                End::Lost => return Ok(()),
                End::Over => self.pause().await,
                End::Broken(failure) if failure.kind == FailureKind::Expired => {
                    if !steady {
                        self.pause().await;
                    }
                    return Ok(());
                }
                End::Broken(failure) if failure.kind == FailureKind::Excess => {
                    return self.fail(failure).await;
                }
                End::Broken(failure) => self.fail(failure).await?,
            }
            if self.went_back().await? {
                return Ok(());
            }
        }
    }

    /// Whether the API server's state is older than what was seen of it already: a watch from a version that is still to come
    /// would be silent, or refused until it has come. It is asked until it answers: one that just starts refuses for a moment, and
    /// would take the watch in the next.
    async fn went_back(&mut self) -> Result<bool, Closed> {
        loop {
            let newest = timeout(self.source.settings.connect_deadline, self.source.newest());
            let newest = newest.await.map_err(|_| Failure::timeout()).flatten();
            match newest {
                Ok(newest) => return Ok(is_before(&newest, &self.version)),
                Err(failure) => self.fail(failure).await?,
            }
        }
    }

    /// One watch request.
    async fn watch(&mut self) -> Result<End, Closed> {
        let most = self.source.settings.watch_timeout;
        let lifetime = spread(most.mul_f64(5.0 / 6.0), most);
        let opened = tokio::select! {
            opened = timeout(self.source.settings.connect_deadline, self.source.open(&self.version, lifetime)) => opened,
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
        let (ask_at, silence) = (self.guard.ask_at(), self.source.settings.silence);
        let most = self.source.settings.limits.object_bytes as u64 + ENVELOPE;
        let mut line = Vec::new();
        loop {
            let (arrived, silent_at) = (line.len(), Instant::now() + silence);
            let mut bounded = stream.as_mut().take(most - arrived as u64);
            let read = tokio::select! {
                read = timeout_at(dead_at.min(silent_at), bounded.read_until(b'\n', &mut line)) => read,
                () = asked(&mut self.reconnect) => return Ok(End::Reconnect),
                () = at(ask_at) => return Ok(End::Lost),
                () = asked(&mut self.asks) => {
                    self.heed();
                    return Ok(End::Reconnect);
                }
            };
            match read {
                Ok(Ok(0)) => return Ok(End::Over),
                Ok(Ok(_)) if line.len() as u64 == most && !line.ends_with(b"\n") => {
                    let excess = self.source.check_object(line.len());
                    return Ok(excess.err().map_or(End::Over, End::Broken));
                }
                Ok(Ok(_)) => {
                    if let Some(end) = self.take(&line).await? {
                        return Ok(end);
                    }
                    line.clear();
                    line.shrink_to(KEPT_BUFFER);
                }
                Ok(Err(error)) => return Ok(End::Broken(classify(&error))),
                // A long line is on its way.
                Err(_) if line.len() > arrived && Instant::now() < dead_at => {}
                Err(_) if Instant::now() < dead_at => return Ok(End::Silent),
                Err(_) => return Ok(End::Broken(Failure::timeout())),
            }
        }
    }

    /// Takes one line of a watch; some lines end it.
    async fn take(&mut self, line: &[u8]) -> Result<Option<End>, Closed> {
        let event = match serde_json::from_slice::<WatchLine<'_>>(line) {
            Ok(event) => event,
            // The connection was cut within the line.
            Err(error) if error.is_eof() => return Ok(Some(End::Over)),
            Err(error) => return Ok(Some(End::Broken(classify(&error)))),
        };
        if event.kind == "ERROR" {
            let failure = match serde_json::from_str::<Status>(event.object.get()) {
                Ok(status) => Failure::from_status(&status),
                Err(error) => classify(&error),
            };
            return Ok(Some(End::Broken(failure)));
        }
        if event.kind == "BOOKMARK" {
            self.move_on(identity(event.object).resource_version);
            return Ok(None);
        }
        let Some(object) = self.source.decode(event.object) else {
            self.move_on(identity(event.object).resource_version);
            return Ok((event.kind == "DELETED").then_some(End::Lost));
        };
        let newer = object.meta().resource_version.clone();
        match event.kind {
            "ADDED" | "MODIFIED" => {
                self.guard.applied(object.meta(), line.len());
                let (objects, bytes) = self.guard.holds();
                if let Err(failure) = self.source.check(objects, bytes) {
                    return Ok(Some(End::Broken(failure)));
                }
                self.tell(Signal::Applied((self.read)(object))).await?;
            }
            "DELETED" => {
                self.guard.deleted(object.meta());
                self.tell(Signal::Deleted((self.read)(object))).await?;
            }
            _ => {}
        }
        self.move_on(newer);
        Ok(None)
    }

    /// Tells of a failure that has not been told yet, and pauses.
    async fn fail(&mut self, failure: Failure) -> Result<(), Closed> {
        if self.outage.as_ref() != Some(&failure) {
            self.outage = Some(failure.clone());
            self.tell(Signal::Failed(failure.clone())).await?;
        }
        let pause = match failure.kind {
            FailureKind::Excess => self.source.settings.excess_retry,
            _ => self.backoff.pause(),
        };
        self.pause_for(pause).await;
        Ok(())
    }

    async fn pause(&mut self) {
        let pause = self.backoff.pause();
        self.pause_for(pause).await;
    }

    async fn pause_for(&mut self, pause: Duration) {
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = asked(&mut self.reconnect) => self.backoff.reset(),
            () = asked(&mut self.asks) => self.heed(),
        }
    }

    fn move_on(&mut self, newer: Option<String>) {
        if let Some(newer) = newer.filter(|newer| !newer.is_empty()) {
            self.version = newer;
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

/// Whether one version is older than another; versions are comparable as numbers (KEP-5504). Others are not compared, nor is 0,
/// which stands for no version.
fn is_before(one: &str, other: &str) -> bool {
    let number = |text: &str| text.parse::<u64>().ok().filter(|number| *number > 0);
    number(one).is_some_and(|one| number(other).is_some_and(|other| one < other))
}

/// Waits until then; for ever where there is no such time.
async fn at(time: Option<Instant>) {
    match time {
        Some(time) => sleep_until(time).await,
        None => std::future::pending().await,
    }
}

/// Waits until something is asked for.
async fn asked<T>(asks: &mut Option<watch::Receiver<T>>) {
    if let Some(asks) = asks
        && asks.changed().await.is_ok()
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
