//! Open connections: their phases, the time limit of each phase, and the choice of the one to
//! evict.
//!
//! A connection costs memory whether it is used or not, so their number is limited. Beyond the
//! limit a new connection evicts the least recently active one. A limit that rejected new ones, as
//! one of tower does, would let enough idle connections shut out the API server. The API server's
//! own connections are in use, and it replaces those that are evicted.
//!
//! The time limits are not those of hyper and tower-http: hyper's limit of a request head also runs
//! between requests, and tower-http has one for body, decision and answer together.
//!
//! A connection has no timer. [`Connections::sweep`] finds the overdue ones once a [`TICK`], so a
//! request costs a few uncontended locks.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Context;
use std::time::Duration;

use futures::task::AtomicWaker;
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::limits::FREE;
use crate::metrics::Metrics;

/// Interval of the checks of connections.
pub(crate) const TICK: Duration = Duration::from_millis(250);

const TICKS_A_SECOND: u64 = 4;

/// Time limit of the handshake, and of a request head once it has begun.
const HEAD_LIMIT: u64 = 10 * TICKS_A_SECOND;

/// Time limit of a first request at the end of the process: a new connection may be about to send
/// it.
const LAST_HEAD_LIMIT: u64 = 2 * TICKS_A_SECOND;

/// Time limit of a body; each MiB that has arrived adds a second.
const BODY_LIMIT: u64 = 5 * TICKS_A_SECOND;

/// Time limit of a whole body: the default time-out of a webhook call.
const WHOLE_BODY_LIMIT: u64 = 10 * TICKS_A_SECOND;

/// Time limit of a body that waits for memory.
const WAIT_LIMIT: u64 = 5 * TICKS_A_SECOND;

/// Time limit of sending an answer.
const SEND_LIMIT: u64 = 10 * TICKS_A_SECOND;

/// Time limit of an idle connection, before its first request or between requests. Clients close
/// theirs earlier (Go: 90 s, also those that it dialled in advance), so no connection is closed
/// while a request is being sent.
const IDLE_LIMIT: u64 = 150 * TICKS_A_SECOND;

/// Time for the client to close after the webhook did.
const CLOSE_LIMIT: u64 = 2 * TICKS_A_SECOND;

/// Age below which a connection is evicted last: an honest client needs less for a handshake, a
/// head or a body.
const GRACE: u64 = 2 * TICKS_A_SECOND;

const MIB: u64 = 1024 * 1024;

/// Phase of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Handshake.
    #[default]
    Handshake,
    /// Idle before the first request.
    Unused,
    /// Request head.
    Head,
    /// Request body.
    Body,
    /// Wait of a large body for memory.
    Wait,
    /// Decision about a request.
    Answer,
    /// Sending of an answer.
    Send,
    /// Idle between requests.
    Idle,
    /// Last answer, and wait for the client to close.
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

    /// Returns the rank for eviction after `age` ticks, the highest first; `None` if the connection
    /// stays.
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
    /// After the request that is under way.
    WhenIdle,
    /// Now; after the answer if a request is being decided.
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
    /// Number of bytes of the body that have arrived.
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

    /// Records how many bytes of the body have arrived.
    pub(crate) fn received(&self, bytes: usize) {
        self.state.lock().received = bytes;
    }

    /// Whether the rest of the body is cut off.
    pub(crate) fn is_body_cut(&self) -> bool {
        self.state.lock().is_body_cut
    }

    /// Cuts off the rest of the body.
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

    /// Takes the request to close the connection; the next one wakes it.
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

    /// Applies `of` to the state and to the age of the phase, in ticks.
    fn rank<T>(&self, of: impl FnOnce(&State, u64) -> T) -> T {
        let state = self.state.lock();
        of(&state, self.now().saturating_sub(state.since))
    }
}

/// Open connections.
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
    by_number: HashMap<u64, Arc<Progress>>,
}

/// Registration of an open connection, until it is dropped.
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
    pub(crate) fn rejected(&self, reason: &'static str) {
        self.connections.metrics.connection_rejected(reason);
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut open = self.connections.open.lock();
        open.by_number.remove(&self.number);
        self.connections.metrics.connection_closed();
        self.connections.gone.notify_waiters();
    }
}

impl Connections {
    /// Creates a limit of `max` connections.
    pub(crate) fn new(max: usize, metrics: Metrics) -> Self {
        Self {
            clock: Arc::default(),
            open: Mutex::default(),
            gone: Notify::new(),
            max,
            metrics,
        }
    }

    /// Registers a new connection; `None` if the limit is reached and no connection can be evicted.
    pub(crate) fn slot(self: &Arc<Self>) -> Option<Slot> {
        let mut open = self.open.lock();
        if open.by_number.len() >= self.max && !self.evict(&open, least_recently_active) {
            self.metrics.connection_rejected("full");
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

    /// Evicts the least recently active connection; false if all are being answered.
    pub(crate) fn evict_least_recently_active(&self) -> bool {
        self.evict(&self.open.lock(), least_recently_active)
    }

    /// Cuts off the body that has been arriving for longest; false if none has been for long.
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
        self.metrics.connection_rejected("evicted");
        true
    }

    /// Advances the clock by a [`TICK`] and closes overdue connections.
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
                    self.metrics.connection_rejected("slow");
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

    /// Closes all connections, each after the request that is under way.
    pub(crate) fn close_when_idle(&self) {
        let mut open = self.open.lock();
        open.ending = true;
        for progress in open.by_number.values() {
            progress.close(Close::WhenIdle);
        }
    }

    /// Waits until no connection is open. Needs [`Self::sweep`] meanwhile.
    pub(crate) async fn all_gone(&self) {
        self.at_most(0).await;
    }

    /// Waits until the evicted connections are closed.
    pub(crate) async fn evicted_are_gone(&self) {
        self.at_most(self.max).await;
    }

    async fn at_most(&self, number: usize) {
        loop {
            let gone = self.gone.notified();
            tokio::pin!(gone);
            gone.as_mut().enable();
            if self.open.lock().by_number.len() <= number {
                return;
            }
            gone.await;
        }
    }
}

/// Ranks connections for eviction.
fn least_recently_active(state: &State, age: u64) -> Option<(u8, u64)> {
    state.phase.eviction_rank(age)
}

/// Ranks the bodies that have been arriving for longer than an honest client needs.
fn slow_body(state: &State, age: u64) -> Option<(u8, u64)> {
    (state.phase == Phase::Body && age >= GRACE).then_some((0, age))
}

#[cfg(test)]
mod tests;
