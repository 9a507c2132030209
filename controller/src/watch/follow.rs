//! The way of one watch: list, watch, reconnect, list again.

use std::pin::{Pin, pin};
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::Duration;

use causeway::process::backoff::{Backoff, spread};
use causeway_engine::evidence::relist::{Conclusion, DeletionGuard, ObservedObject};
use causeway_engine::model::slice::ServiceNames;
use causeway_engine::model::{Failure, FailureKind, Signal, Term};
use causeway_wire::WatchEvent;
use futures::io::AsyncBufRead;
use kube::Resource;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep_until, timeout, timeout_at};

use super::SharedGuard;
use super::decoder::Decoder;
use super::list::Objects;
use super::relist_requests::{Connect, RelistRequests};
use super::scope::{Joined, Joining, Scoped};
use super::source::{Read, Source};
use crate::encoding::{self, Progress};
use crate::failure::classify;

/// A watch that lived this long was a good one.
const STEADY: Duration = Duration::from_secs(5);
/// Time for which a watch lasts before it ends an outage. An API server accepts a watch of an
/// expired version and refuses it by its first event. Others begin with what happened before.
const CATCHING_UP: Duration = Duration::from_secs(1);
/// Number of early ends in a row after which they are logged.
const EARLY_ENDS_LOGGED: u32 = 5;
/// Number of silent watches in a row after which they are logged.
const SILENT_ENDS_LOGGED: u32 = 2;
/// Maximum of [`Follower::proof_pause`].
const PROOF_PAUSE_MAX: Duration = Duration::from_secs(600);
/// The buffer for an event is given back when one longer than this has been read.
const KEPT_BUFFER: usize = 256 * 1024;
/// Bytes of an event around the object.
const ENVELOPE: usize = 128;

/// Nobody listens any more.
struct Closed;

/// End of a watch request.
#[derive(Debug)]
enum End {
    /// The API server ended it, or the connection was closed.
    Over,
    /// It was requested.
    Reconnect,
    /// Nothing came for so long that the connection is taken for dead.
    Silent,
    /// Deletions are to be confirmed, or a term begins: a list is needed.
    Relist,
    /// A deleted object cannot be read: a list is needed.
    Unread,
    /// It goes on with other names.
    Rescoped,
    /// It was refused or broke.
    Broken(Failure),
}

/// Object of a list with its hash; without its content if it cannot be read.
type Listed<T> = ((u64, ObservedObject), Option<(T, Option<Arc<str>>)>);

/// One watch at work.
pub(super) struct Follower<K, D, R, W, T, E> {
    pub(super) source: Source<K, D>,
    /// By which it is named in the log: the member, or `hub`.
    pub(super) cluster: Arc<str>,
    pub(super) guard: SharedGuard,
    pub(super) connect: Option<Connect>,
    pub(super) reconnect: Option<watch::Receiver<Instant>>,
    pub(super) relist_requests: Option<watch::Receiver<RelistRequests>>,
    /// The requests that the guard knows.
    pub(super) requested: RelistRequests,
    /// The last term in which a list began.
    pub(super) listed_term: Term,
    pub(super) backoff: Backoff,
    /// The version up to which everything was reported; empty before the initial list.
    pub(super) version: String,
    pub(super) outage: Option<Failure>,
    /// Time at which an outage ends if the watch lasts until then. A watch after a list ends it at
    /// once.
    pub(super) outage_ends_at: Option<Instant>,
    pub(super) connected_at: Option<Instant>,
    /// Number of watches in a row that ended within [`STEADY`], unless reported as failed.
    pub(super) early_ends: u32,
    /// Number of watches in a row that ended in silence, since the last event.
    pub(super) silent_ends: u32,
    /// Pause, besides the confirmation interval, before the next second list. It grows with each
    /// one that an unreadable object keeps from being proof.
    pub(super) proof_pause: Duration,
    /// Names that it covers, where it does not cover all.
    pub(super) scoped: Option<Scoped<K, T, E>>,
    pub(super) read: R,
    pub(super) wrap: W,
    pub(super) events: mpsc::Sender<E>,
}

impl<K, D, R, W, T, E> Follower<K, D, R, W, T, E>
where
    K: Resource<DynamicType: Default> + Send + 'static,
    D: Decoder<K>,
    R: Fn(K) -> T,
    W: Fn(Signal<T>) -> E,
{
    pub(super) async fn run(&mut self) {
        while self.list().await.is_ok() && self.follow().await.is_ok() {}
    }

    /// Lists until it succeeds.
    async fn list(&mut self) -> Result<(), Closed> {
        self.note_requests();
        let is_silent = self.lacks_term() && !self.version.is_empty();
        if self.guard().relist_at().is_some() || is_silent {
            self.connect_again();
        }
        loop {
            self.drop_names().await?;
            let term = self.requested.term;
            let guard = self.guard.clone();
            let service = self.scoped.as_ref().map(|scoped| scoped.scope.service);
            let read = |object: Read<K>, bytes| match object {
                Ok(object) => {
                    let observed = locked(&guard).object(object.meta(), bytes);
                    let service = service.map(|of| of(&object));
                    (observed, Some(((self.read)(object), service)))
                }
                Err(meta) => (locked(&guard).object(&meta, bytes), None),
            };
            let begun = Instant::now();
            let listed = tokio::select! {
                listed = self.source.list(self.connect.as_ref(), read) => listed,
                () = outdated(&mut self.reconnect, begun) => continue,
            };
            match listed {
                Ok((objects, version)) => {
                    self.report_list(objects, version, begun).await?;
                    return self.report_term(term).await;
                }
                Err(failure) => self.fail(failure).await?,
            }
        }
    }

    fn guard(&self) -> MutexGuard<'_, DeletionGuard> {
        locked(&self.guard)
    }

    /// Hands the requests for lists to the guard. Returns whether there was one.
    fn note_requests(&mut self) -> bool {
        let Some(requests) = &mut self.relist_requests else {
            return false;
        };
        let requests = *requests.borrow_and_update();
        let now = Instant::now().into_std();
        if requests.second_list != self.requested.second_list {
            self.guard().request_second_list(now);
        }
        if requests.confirm_deletions != self.requested.confirm_deletions {
            self.guard().confirm_deletions(now);
        }
        let known = std::mem::replace(&mut self.requested, requests);
        known
            != RelistRequests {
                retry: known.retry,
                ..requests
            }
    }

    /// Replaces a silent connection. Logs the second silent watch in a row: a proxy may buffer the
    /// events. No cheap request proves that, because every write changes the newest version.
    fn leave_silent(&mut self) {
        self.silent_ends = self.silent_ends.saturating_add(1);
        if self.silent_ends == SILENT_ENDS_LOGGED {
            let (cluster, kind) = (&*self.cluster, self.kind());
            tracing::warn!(cluster, kind, "watches are silent, changes may be late");
        }
        self.connect_again();
    }

    /// Goes on over a connection of its own: the one before was silent, or its list is to be
    /// confirmed.
    fn connect_again(&mut self) {
        let Some(connect) = &self.connect else { return };
        match connect() {
            Ok(client) => self.source.client = client,
            Err(failure) => {
                tracing::warn!(cluster = %self.cluster, error = %failure, "new connection failed")
            }
        }
    }

    /// Concludes from a list that began at `begun`. Returns also whether it retains unreadable
    /// objects that were observed before: a complete list would delete them.
    fn conclude(
        &mut self,
        objects: &[Listed<T>],
        went_back: bool,
        begun: Instant,
    ) -> (Conclusion, bool) {
        let present = objects.iter().map(|(object, _)| *object).collect();
        let unread = objects.iter().filter(|(_, object)| object.is_none());
        let unread: Vec<_> = unread.map(|((id, _), _)| *id).collect();
        let is_readable_again =
            unread.is_empty() && !std::mem::take(&mut self.proof_pause).is_zero();
        // An object that cannot be read exists: only a person confirms deletions by such a list.
        let mut guard = locked(&self.guard);
        let is_proof = unread.is_empty() || guard.is_confirmed_by_person();
        let keeps = guard.has_observed(unread.into_iter());
        let lacks = guard.is_lacking(&present);
        let is_suspect = went_back || (keeps && lacks);
        let now = Instant::now().into_std();
        let mut conclusion = guard.observe_list(present, is_suspect, begun.into_std(), now);
        if let Conclusion::Accepted { confirms } = &mut conclusion
            && *confirms
            && !is_proof
        {
            *confirms = false;
            // The object is unreadable until somebody corrects it.
            let interval = self.source.settings.confirmation_interval;
            self.proof_pause = (2 * self.proof_pause + interval).min(PROOF_PAUSE_MAX);
            guard.request_second_list(now + self.proof_pause);
        }
        // The list that waits out the pause may prove something now.
        if is_readable_again && guard.relist_at().is_some() {
            guard.request_second_list(now);
        }
        (conclusion, keeps && !lacks)
    }

    async fn report_list(
        &mut self,
        objects: Vec<Listed<T>>,
        version: String,
        begun: Instant,
    ) -> Result<(), Closed> {
        let went_back = is_before(&version, &self.version);
        self.version = version;
        self.outage_ends_at = Some(Instant::now());
        let (conclusion, keeps_unread) = self.conclude(&objects, went_back, begun);
        if let Some(scoped) = &mut self.scoped {
            let homes = objects.iter().filter_map(|((id, _), object)| {
                let (_, service) = object.as_ref()?;
                Some((*id, service.clone()?))
            });
            scoped.note_list(homes, matches!(conclusion, Conclusion::Accepted { .. }));
        }
        let objects = objects.into_iter();
        let objects = objects.filter_map(|(_, object)| Some(object?.0));
        match conclusion {
            Conclusion::Accepted { confirms } => {
                if keeps_unread {
                    for object in objects {
                        self.report(Signal::Applied(object)).await?;
                    }
                    self.report(Signal::DeletionsSuspended(0)).await?;
                } else {
                    self.report(Signal::Listed(objects.collect())).await?;
                }
                match confirms {
                    true => self.report(Signal::Confirmed).await,
                    false => Ok(()),
                }
            }
            Conclusion::Suspended { missing, of } => {
                let (cluster, kind) = (&*self.cluster, self.kind());
                tracing::warn!(cluster, kind, missing, of, went_back, "deletions suspended");
                for object in objects {
                    self.report(Signal::Applied(object)).await?;
                }
                self.report(Signal::DeletionsSuspended(missing)).await
            }
        }
    }

    /// Whether no list has begun in the term of the process.
    fn lacks_term(&self) -> bool {
        self.listed_term < self.requested.term
    }

    /// Reports that a list began in this term, once.
    async fn report_term(&mut self, term: Term) -> Result<(), Closed> {
        if term > self.listed_term {
            self.listed_term = term;
            self.report(Signal::Current(term)).await?;
        }
        Ok(())
    }

    /// Watches over as many connections as it takes, until a new list is needed.
    async fn follow(&mut self) -> Result<(), Closed> {
        while !self.lacks_term() {
            let end = self.watch().await?;
            match end {
                End::Over if self.outage_ends_at.is_some() => self.end_outage().await?,
                End::Rescoped => {}
                _ => self.outage_ends_at = None,
            }
            let steady = self
                .connected_at
                .take()
                .is_some_and(|at| at.elapsed() >= STEADY);
            if steady {
                self.backoff.reset();
                self.early_ends = 0;
            }
            tracing::debug!(cluster = %self.cluster, kind = self.kind(), ?end, steady, "watch ended");
            match end {
                End::Reconnect => {}
                // Where nobody answers the next request fails. Old API servers send no bookmarks of
                // a kind of which nothing has changed since they started: that they are silent is
                // no failure.
                End::Silent => self.leave_silent(),
                End::Broken(failure) if failure.kind == FailureKind::Excess => {
                    return self.fail(failure).await;
                }
                // An API server that always answers so is not listed without a pause.
                End::Unread
                | End::Broken(Failure {
                    kind: FailureKind::Expired,
                    ..
                }) => {
                    if !steady {
                        self.pause().await;
                    }
                    return Ok(());
                }
                End::Over | End::Broken(_) if steady => {}
                End::Relist => return Ok(()),
                End::Rescoped => continue,
                End::Over => self.pause().await,
                End::Broken(failure) => self.fail(failure).await?,
            }
            if self.went_back().await? {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Whether the API server's state is older than what was observed of it: a watch from a version
    /// that is still to come would be silent, or refused until it has come. It is asked until it
    /// answers: one that just starts refuses for a moment, and would take the watch in the next.
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
        let begun = Instant::now();
        let opened = tokio::select! {
            opened = timeout(self.source.settings.connect_deadline, self.source.open(&self.version, lifetime)) => opened,
            () = outdated(&mut self.reconnect, begun) => return Ok(End::Reconnect),
        };
        let stream = match opened {
            Ok(Ok(stream)) => stream,
            Ok(Err(failure)) => return Ok(End::Broken(failure)),
            Err(_) => return Ok(End::Broken(Failure::timeout())),
        };
        let now = Instant::now();
        self.connected_at = Some(now);
        let ends_at = *self.outage_ends_at.get_or_insert(now + CATCHING_UP);
        if self.outage.is_none() || ends_at <= now {
            self.end_outage().await?;
        }
        let dead_at = Instant::now() + lifetime + self.source.settings.margin;
        self.take_events(pin!(stream), begun, dead_at).await
    }

    /// Takes the events of a watch request of the time `begun` until it ends, `dead_at` at the
    /// latest.
    async fn take_events(
        &mut self,
        mut stream: Pin<&mut impl AsyncBufRead>,
        begun: Instant,
        dead_at: Instant,
    ) -> Result<End, Closed> {
        let relist_at = self.guard().relist_at().map(Instant::from_std);
        let silence = self.source.settings.silence;
        let most = self.source.settings.limits.object_bytes + ENVELOPE;
        let mut event = Vec::new();
        let mut joining = Joining::none();
        loop {
            let (arrived, silent_at) = (event.len(), Instant::now() + silence);
            let reading = encoding::read_event(stream.as_mut(), &mut event, most);
            let read = tokio::select! {
                read = timeout_at(dead_at.min(silent_at), reading) => read,
                () = outdated(&mut self.reconnect, begun) => return Ok(End::Reconnect),
                () = at(relist_at) => return Ok(End::Relist),
                () = at(self.outage_ends_at) => {
                    self.end_outage().await?;
                    continue;
                }
                () = changed(&mut self.relist_requests) => match self.note_requests() {
                    true if self.lacks_term() => return Ok(End::Relist),
                    true => return Ok(End::Reconnect),
                    false => continue,
                },
                names = differs(&mut self.scoped), if joining.is_none() => {
                    let known = self.scoped.as_ref().map(|scoped| scoped.scope.names.clone());
                    let known = known.unwrap_or_default();
                    if names.is_subset(&known) {
                        return self.rescope(names, None).await;
                    }
                    joining.begin(&self.source, names, &known, self.cluster.clone());
                    continue;
                }
                Joined { names, listed } = joining.next() => {
                    return self.rescope(names, Some(listed)).await;
                }
            };
            match read {
                Ok(Ok(Progress::Ended)) => return Ok(End::Over),
                Ok(Ok(Progress::TooLong)) => {
                    let excess = self.source.check_object(event.len());
                    return Ok(excess.err().map_or(End::Over, End::Broken));
                }
                Ok(Ok(Progress::Whole)) => {
                    if let Some(end) = self.take(&event).await? {
                        return Ok(end);
                    }
                    event.clear();
                    event.shrink_to(KEPT_BUFFER);
                }
                Ok(Err(error)) => return Ok(End::Broken(classify(&error))),
                // A long event is on its way.
                Err(_) if event.len() > arrived && Instant::now() < dead_at => {}
                Err(_) if Instant::now() < dead_at => return Ok(End::Silent),
                Err(_) => return Ok(End::Broken(Failure::timeout())),
            }
        }
    }

    /// Reports that the watch is connected, which ends an outage.
    async fn end_outage(&mut self) -> Result<(), Closed> {
        (self.outage, self.outage_ends_at) = (None, None);
        self.report(Signal::Connected).await
    }

    /// Drops the names that are not wanted any more before all are listed again.
    async fn drop_names(&mut self) -> Result<(), Closed> {
        // Before the initial list nothing is known of any name.
        let scoped = self.scoped.as_ref().filter(|_| !self.version.is_empty());
        if let Some(names) = scoped.and_then(Scoped::wanted_of_known) {
            self.rescope(names, None).await?;
        }
        Ok(())
    }

    /// Covers other names from now on: reports the objects of the new ones, and forgets those of
    /// names that are dropped.
    async fn rescope(
        &mut self,
        names: Arc<ServiceNames>,
        listed: Option<(Objects<K>, String)>,
    ) -> Result<End, Closed> {
        let Some(scoped) = &mut self.scoped else {
            return Ok(End::Over);
        };
        let (objects, version) = listed.unzip();
        let (gone, at) = scoped.rescope(names.clone(), &self.version, version.as_deref());
        self.source.labels = Some(scoped.selector());
        let mut slices = Vec::new();
        let (objects_held, bytes_held) = {
            let mut guard = locked(&self.guard);
            guard.forget(&gone);
            for (object, bytes) in objects.into_iter().flatten() {
                match object {
                    Ok(object) => {
                        scoped.note(guard.observe_applied(object.meta(), bytes), &object);
                        slices.push((self.read)(object));
                    }
                    Err(meta) => {
                        guard.observe_applied(&meta, bytes);
                    }
                }
            }
            guard.size()
        };
        let report = (scoped.scope.rescoped)(names, slices);
        self.events.send(report).await.map_err(|_| Closed)?;
        if let Err(failure) = self.source.check(objects_held, bytes_held) {
            return Ok(End::Broken(failure));
        }
        Ok(match at {
            Some(at) => {
                self.version = at;
                End::Rescoped
            }
            None => End::Relist,
        })
    }

    /// Takes one event of a watch; some end it.
    async fn take(&mut self, bytes: &[u8]) -> Result<Option<End>, Closed> {
        self.silent_ends = 0;
        let WatchEvent { kind, object } = match WatchEvent::read(bytes) {
            Ok(Some(event)) => event,
            Ok(None) => return Ok(Some(End::Over)),
            Err(error) => return Ok(Some(End::Broken(encoding::unreadable(error)))),
        };
        if kind == "ERROR" {
            return Ok(Some(End::Broken(encoding::failure(object))));
        }
        let version = || object.identity().resource_version;
        if kind == "BOOKMARK" {
            self.move_on(version());
            return Ok(None);
        }
        let Some(object) = self.source.decode(object) else {
            self.move_on(version());
            return Ok((kind == "DELETED").then_some(End::Unread));
        };
        let newer = object.meta().resource_version.clone();
        let scoped = self.scoped.as_ref();
        if scoped.is_some_and(|scoped| scoped.is_reported(&object, newer.as_deref())) {
            self.move_on(newer);
            return Ok(None);
        }
        match kind {
            "ADDED" | "MODIFIED" => {
                let id = self.guard().observe_applied(object.meta(), bytes.len());
                if let Some(scoped) = &mut self.scoped {
                    scoped.note(id, &object);
                }
                let (objects, bytes) = self.guard().size();
                if let Err(failure) = self.source.check(objects, bytes) {
                    return Ok(Some(End::Broken(failure)));
                }
                self.report(Signal::Applied((self.read)(object))).await?;
            }
            "DELETED" => {
                let id = self.guard().observe_deleted(object.meta());
                if let Some(scoped) = &mut self.scoped {
                    scoped.note_deleted(id);
                }
                self.report(Signal::Deleted((self.read)(object))).await?;
            }
            _ => {}
        }
        self.move_on(newer);
        Ok(None)
    }

    /// Reports a failure that has not been reported yet, and pauses.
    async fn fail(&mut self, failure: Failure) -> Result<(), Closed> {
        self.early_ends = 0;
        if self.outage.as_ref() != Some(&failure) {
            self.outage = Some(failure.clone());
            self.report(Signal::Failed(failure.clone())).await?;
        }
        let pause = match failure.kind {
            FailureKind::Excess => self.source.settings.excess_retry,
            _ => self.backoff.pause(),
        };
        self.pause_for(pause).await;
        Ok(())
    }

    /// Pauses after a watch that ended early, and counts it.
    async fn pause(&mut self) {
        self.early_ends = self.early_ends.saturating_add(1);
        if self.early_ends == EARLY_ENDS_LOGGED {
            let (cluster, kind) = (&*self.cluster, self.kind());
            tracing::warn!(cluster, kind, "watches end early, changes are late");
        }
        let pause = self.backoff.pause();
        self.pause_for(pause).await;
    }

    async fn pause_for(&mut self, pause: Duration) {
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = changed(&mut self.reconnect) => self.backoff.reset(),
            () = changed(&mut self.relist_requests) => {
                self.note_requests();
            }
        }
    }

    fn kind(&self) -> String {
        K::kind(&K::DynamicType::default()).into_owned()
    }

    fn move_on(&mut self, newer: Option<String>) {
        if let Some(newer) = newer.filter(|newer| !newer.is_empty()) {
            self.version = newer;
        }
    }

    async fn report(&self, signal: Signal<T>) -> Result<(), Closed> {
        self.events
            .send((self.wrap)(signal))
            .await
            .map_err(|_| Closed)
    }
}

fn locked(guard: &SharedGuard) -> MutexGuard<'_, DeletionGuard> {
    guard.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether one version is older than another; versions are comparable as numbers (KEP-5504). Others
/// are not compared, nor is 0, which stands for no version.
pub(crate) fn is_before(one: &str, other: &str) -> bool {
    let number = |text: &str| text.parse::<u64>().ok().filter(|number| *number > 0);
    number(one).is_some_and(|one| number(other).is_some_and(|other| one < other))
}

/// Waits until other names are wanted; for ever without names.
async fn differs<K, T, E>(scoped: &mut Option<Scoped<K, T, E>>) -> Arc<ServiceNames> {
    match scoped {
        Some(scoped) => scoped.differs().await,
        None => std::future::pending().await,
    }
}

/// Waits until then; for ever where there is no such time.
async fn at(time: Option<Instant>) {
    match time {
        Some(time) => sleep_until(time).await,
        None => std::future::pending().await,
    }
}

/// Waits until a request that began then is older than the value.
async fn outdated(value: &mut Option<watch::Receiver<Instant>>, begun: Instant) {
    loop {
        changed(value).await;
        if value.as_ref().is_some_and(|value| *value.borrow() > begun) {
            return;
        }
    }
}

/// Waits until the value changes; for ever where there is none.
async fn changed<T>(value: &mut Option<watch::Receiver<T>>) {
    if let Some(value) = value
        && value.changed().await.is_ok()
    {
        return;
    }
    std::future::pending().await
}
