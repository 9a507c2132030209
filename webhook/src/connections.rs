//! The connections that are open: the phase of each, how long it may last, and which one is evicted for another.
//!
//! A connection costs memory whether it is used or not, so their number is limited. Beyond it the least recently active
//! one is evicted for the new one: were new ones rejected instead, whoever opens enough idle connections would shut out
//! the API server. The API server's own are in use, are answered within milliseconds, and are replaced when they are gone.
//!
//! No connection has a timer of its own. [`Connections::sweep`], called once a [`TICK`], finds those that are overdue, so
//! what a request costs here are a few uncontended locks.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Context;
use std::time::Duration;

use futures::task::AtomicWaker;
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::limits::FREE;
use crate::metrics::{ConnectionRejection, Metrics};

/// Interval of the checks of connections.
pub(crate) const TICK: Duration = Duration::from_millis(250);

const TICKS_A_SECOND: u64 = 4;

/// For the handshake, and for each request head once it has begun.
const HEAD_LIMIT: u64 = 10 * TICKS_A_SECOND;

/// For a first request when the process is about to end: who has just connected may be about to send it.
const LAST_HEAD_LIMIT: u64 = 2 * TICKS_A_SECOND;

/// For a body, and a second more for each MiB of it that has arrived: the least pace.
const BODY_LIMIT: u64 = 5 * TICKS_A_SECOND;

/// For a body in all. An API server waits for 10 s unless its configuration says otherwise.
const WHOLE_BODY_LIMIT: u64 = 10 * TICKS_A_SECOND;

/// For large bodies before it to be done with.
const WAIT_LIMIT: u64 = 5 * TICKS_A_SECOND;

/// For an answer to be received.
const SEND_LIMIT: u64 = 10 * TICKS_A_SECOND;

/// Before a first request and between requests: longer than clients keep idle connections (Go: 90 s, also those that it
/// made in advance), so that none is closed under a request that is just being sent.
const IDLE_LIMIT: u64 = 150 * TICKS_A_SECOND;

/// For the other side to close after this one did.
const CLOSE_LIMIT: u64 = 2 * TICKS_A_SECOND;

/// Age below which a connection is not evicted, as far as possible: an honest one needs less for a
/// handshake, a head or a body.
const GRACE: u64 = 2 * TICKS_A_SECOND;

const MIB: u64 = 1024 * 1024;

/// Phase of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Handshake.
    #[default]
    Handshake,
    /// Before its first request.
    Unused,
    /// A request head has begun.
    Head,
    /// The head of a request is complete, its body not yet.
    Body,
    /// A large body waits until others are done with.
    Wait,
    /// A request is being answered.
    Answer,
    /// The answer is being sent.
    Send,
    /// Between requests.
    Idle,
    /// At its end.
    Closing,
}

impl Phase {
    /// Returns the maximum number of ticks in this phase, after that much of a body; `None` if it
    /// is causeway's turn.
    fn limit(self, received: u64, ending: bool) -> Option<u64> {
        Some(match self {
            Self::Handshake | Self::Head => HEAD_LIMIT,
            Self::Unused if ending => LAST_HEAD_LIMIT,
            Self::Unused | Self::Idle => IDLE_LIMIT,
            Self::Wait => WAIT_LIMIT,
            Self::Body => (BODY_LIMIT + received * TICKS_A_SECOND / MIB).min(WHOLE_BODY_LIMIT),
            Self::Answer => return None,
            Self::Send => SEND_LIMIT,
            Self::Closing => CLOSE_LIMIT,
        })
    }

    /// The rank for eviction of a connection that has been here for so many ticks, the greatest first; `None` where it stays.
    fn eviction_rank(self, age: u64) -> Option<(u8, u64)> {
        let is_old = age >= GRACE;
        let rank = match self {
            Self::Closing => 5,
            Self::Handshake | Self::Unused | Self::Head if is_old => 4,
            Self::Idle if is_old => 3,
            Self::Body | Self::Send if is_old => 2,
            Self::Handshake | Self::Unused | Self::Head => 1,
            Self::Idle => 0,
            Self::Body | Self::Wait | Self::Answer | Self::Send => return None,
        };
        Some((rank, age))
    }
}

/// Time at which a connection must close.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Close {
    /// Once nothing is under way.
    WhenIdle,
    /// Now, or as soon as the request that is being answered is.
    Now,
}

/// Progress of a connection, which it reports to those that may close it.
#[derive(Debug, Default)]
pub struct Progress {
    clock: Arc<AtomicU64>,
    state: Mutex<State>,
    waker: AtomicWaker,
}

#[derive(Debug, Default)]
struct State {
    phase: Phase,
    /// The tick in which the phase began.
    since: u64,
    /// Bytes of the body that have arrived.
    received: usize,
    close: Option<Close>,
    is_body_cut: bool,
    is_body_unread: bool,
}

impl Progress {
    fn new(clock: Arc<AtomicU64>) -> Self {
        let progress = Self {
            clock,
            ..Self::default()
        };
        progress.enter(Phase::Handshake);
        progress
    }

    fn now(&self) -> u64 {
        self.clock.load(Ordering::Relaxed)
    }

    pub(crate) fn enter(&self, phase: Phase) {
        let mut state = self.state.lock();
        state.phase = phase;
        state.since = self.now();
    }

    pub(crate) fn phase(&self) -> Phase {
        self.state.lock().phase
    }

    /// Begins a request, whose head is complete.
    pub(crate) fn request_begins(&self, has_body: bool) {
        self.received(0);
        self.enter(Phase::Body);
        self.state.lock().is_body_unread = has_body;
    }

    /// So much of the body has arrived in all.
    pub(crate) fn received(&self, bytes: usize) {
        self.state.lock().received = bytes;
    }

    /// Whether the rest of the body is not waited for.
    pub(crate) fn is_body_cut(&self) -> bool {
        self.state.lock().is_body_cut
    }

    /// The rest of the body is not waited for.
    pub(crate) fn cut_body(&self) {
        self.state.lock().is_body_cut = true;
    }

    /// Records that the body has been read to its end.
    pub(crate) fn body_read(&self) {
        self.state.lock().is_body_unread = false;
    }

    /// Whether part of the last request has not been read.
    pub(crate) fn is_body_unread(&self) -> bool {
        self.state.lock().is_body_unread
    }

    /// Returns when the connection must close, once for each request to close; the next one wakes
    /// it.
    pub(crate) fn next_close(&self, context: &Context<'_>) -> Option<Close> {
        self.waker.register(context.waker());
        self.state.lock().close.take()
    }

    fn is_closing(&self) -> bool {
        self.state.lock().close == Some(Close::Now)
    }

    fn close(&self, when: Close) {
        let mut state = self.state.lock();
        state.close = state.close.max(Some(when));
        drop(state);
        self.waker.wake();
    }

    /// Applies `of` to the state and its age in ticks.
    fn rank<T>(&self, of: impl FnOnce(&State, u64) -> T) -> T {
        let state = self.state.lock();
        of(&state, self.now().saturating_sub(state.since))
    }
}

/// The connections that are open.
pub(crate) struct Connections {
    clock: Arc<AtomicU64>,
    open: Mutex<Open>,
    gone: Notify,
    max: usize,
    metrics: Metrics,
}

#[derive(Default)]
struct Open {
    next: u64,
    ending: bool,
    /// Whether connections are waited for to go.
    is_awaited: bool,
    by_number: HashMap<u64, Arc<Progress>>,
}

/// A connection among those that are open, until it is dropped.
pub(crate) struct Slot {
    number: u64,
    progress: Arc<Progress>,
    connections: Arc<Connections>,
}

impl Slot {
    pub(crate) fn progress(&self) -> &Arc<Progress> {
        &self.progress
    }

    /// Counts a connection that the webhook rejects.
    pub(crate) fn rejected(&self, why: ConnectionRejection) {
        self.connections.metrics.connection_rejected(why);
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut open = self.connections.open.lock();
        open.by_number.remove(&self.number);
        self.connections.metrics.connection_closed();
        if open.is_awaited {
            self.connections.gone.notify_waiters();
        }
    }
}

impl Connections {
    /// None yet, and never many more than that.
    pub(crate) fn new(max: usize, metrics: Metrics) -> Self {
        Self {
            clock: Arc::default(),
            open: Mutex::default(),
            gone: Notify::new(),
            max,
            metrics,
        }
    }

    /// A slot for a new connection; `None` where there is none and no connection can be evicted.
    pub(crate) fn slot(self: &Arc<Self>) -> Option<Slot> {
        let mut open = self.open.lock();
        if open.by_number.len() >= self.max && !self.evict(&open, least_recently_active) {
            self.metrics.connection_rejected(ConnectionRejection::Full);
            return None;
        }
        let number = open.next;
        open.next += 1;
        let progress = Arc::new(Progress::new(Arc::clone(&self.clock)));
        open.by_number.insert(number, Arc::clone(&progress));
        drop(open);
        self.metrics.connection_opened();
        Some(Slot {
            number,
            progress,
            connections: Arc::clone(self),
        })
    }

    /// Evicts the least recently active connection; `false` where all are being answered.
    pub(crate) fn evict_least_recently_active(&self) -> bool {
        self.evict(&self.open.lock(), least_recently_active)
    }

    /// No longer waits for the body that has been arriving for longest; `false` where none has for long.
    pub(crate) fn evict_slowest_body(&self) -> bool {
        self.evict(&self.open.lock(), slow_body)
    }

    fn evict(&self, open: &Open, rank: impl Fn(&State, u64) -> Option<(u8, u64)>) -> bool {
        let staying = open
            .by_number
            .values()
            .filter(|progress| !progress.is_closing());
        let ranked = staying.filter_map(|progress| Some((progress.rank(&rank)?, progress)));
        let Some((_, evicted)) = ranked.max_by_key(|(rank, _)| *rank) else {
            return false;
        };
        evicted.close(Close::Now);
        self.metrics
            .connection_rejected(ConnectionRejection::Evicted);
        true
    }

    /// Lets a [`TICK`] pass, and closes what is overdue.
    pub(crate) fn sweep(&self) {
        self.clock.fetch_add(1, Ordering::Relaxed);
        let open = self.open.lock();
        let mut waiting = false;
        for progress in open.by_number.values() {
            let is_overdue = |state: &State, age: u64| {
                let limit = state.phase.limit(state.received as u64, open.ending);
                limit.is_some_and(|limit| age > limit)
            };
            let phase = progress.phase();
            waiting |= phase == Phase::Wait;
            if !progress.is_closing() && progress.rank(is_overdue) {
                if !matches!(phase, Phase::Unused | Phase::Idle | Phase::Closing) {
                    self.metrics.connection_rejected(ConnectionRejection::Slow);
                }
                progress.close(Close::Now);
            }
        }
        if waiting {
            self.evict(&open, |state, age| {
                slow_body(state, age).filter(|_| state.received > FREE)
            });
        }
    }

    /// Closes all connections, each once nothing is under way on it.
    pub(crate) fn close_when_idle(&self) {
        let mut open = self.open.lock();
        open.ending = true;
        for progress in open.by_number.values() {
            progress.close(Close::WhenIdle);
        }
    }

    /// Waits until no connection is open; they have to be swept meanwhile.
    pub(crate) async fn all_gone(&self) {
        self.at_most(0).await;
    }

    /// Waits until those that were evicted are gone.
    pub(crate) async fn evicted_are_gone(&self) {
        self.at_most(self.max).await;
    }

    async fn at_most(&self, number: usize) {
        loop {
            let gone = self.gone.notified();
            tokio::pin!(gone);
            gone.as_mut().enable();
            if self.are_at_most(number) {
                return;
            }
            gone.await;
        }
    }

    /// Whether that many connections are open at most; if not, each one that goes is notified of from now on.
    fn are_at_most(&self, number: usize) -> bool {
        let mut open = self.open.lock();
        open.is_awaited = open.by_number.len() > number;
        !open.is_awaited
    }
}

fn least_recently_active(state: &State, age: u64) -> Option<(u8, u64)> {
    state.phase.eviction_rank(age)
}

/// A body that has been arriving for longer than an honest one needs.
fn slow_body(state: &State, age: u64) -> Option<(u8, u64)> {
    (state.phase == Phase::Body && age >= GRACE).then_some((0, age))
}

#[cfg(test)]
mod tests;
