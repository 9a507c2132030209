//! The connections that are open: where each one is, how long it may stay there, and which one goes when there is no
//! room for another.
//!
//! A connection costs memory whether it is used or not, so there is a limit to them. Beyond it the one that is missed
//! least makes room for the new one: were new ones refused instead, whoever opens enough idle connections would shut out
//! the API server. The API server's own are in use, are answered within milliseconds, and are made anew when they are gone.
//!
//! No connection has a timer of its own. [`Connections::sweep`], called once a [`TICK`], finds those that are overdue, so
//! what a request costs here are a few atomic stores.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::task::Context;
use std::time::Duration;

use futures::task::AtomicWaker;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;

use crate::load::FREE;
use crate::metrics::{Metrics, TurnedAway};

/// How often connections are looked at.
pub(crate) const TICK: Duration = Duration::from_millis(250);

const TICKS_A_SECOND: u64 = 4;

/// For the handshake, and for each request head once it has begun.
const HEAD_LIMIT: u64 = 10 * TICKS_A_SECOND;

/// For a first request when the process is about to end: who has just connected may be about to ask.
const LAST_HEAD_LIMIT: u64 = 2 * TICKS_A_SECOND;

/// For a body, and a second more for each MiB of it that has arrived: the least pace.
const BODY_LIMIT: u64 = 5 * TICKS_A_SECOND;

/// For a body in all. An API server waits for 10 s unless its configuration says otherwise.
const WHOLE_BODY_LIMIT: u64 = 10 * TICKS_A_SECOND;

/// For large bodies before it to be done with.
const WAIT_LIMIT: u64 = 5 * TICKS_A_SECOND;

/// For an answer to be taken.
const SEND_LIMIT: u64 = 10 * TICKS_A_SECOND;

/// Before a first request and between requests: longer than clients keep idle connections (Go: 90 s, also those that it
/// made in advance), so that none is closed under a request that is just being sent.
const IDLE_LIMIT: u64 = 150 * TICKS_A_SECOND;

/// For the other side to close after this one did.
const CLOSE_LIMIT: u64 = 2 * TICKS_A_SECOND;

/// How long a connection is spared when room is needed, as far as possible: an honest one needs less for a handshake, a
/// head or a body.
const GRACE: u64 = 2 * TICKS_A_SECOND;

const MIB: u64 = 1024 * 1024;

/// Where a connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// In the handshake.
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

const PHASES: [Phase; 9] = [
    Phase::Handshake,
    Phase::Unused,
    Phase::Head,
    Phase::Body,
    Phase::Wait,
    Phase::Answer,
    Phase::Send,
    Phase::Idle,
    Phase::Closing,
];
const PHASE_BITS: u32 = 4;

impl Phase {
    /// How many ticks a connection may be here, having received that much of a body; `None` where it is causeway's turn.
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

    /// How little a connection would be missed that has been here for so many ticks, the greatest first; `None` where it stays.
    fn dispensable(self, age: u64) -> Option<(u8, u64)> {
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

/// What a connection is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// End once nothing is under way.
    Finish,
    /// End now, or as soon as the request that is being answered is.
    Leave,
}

const FINISH: u8 = 1;
const LEAVE: u8 = 2;

/// How far a connection is, told by the connection itself and read by whoever may end it.
#[derive(Debug, Default)]
pub struct Progress {
    clock: Arc<AtomicU64>,
    /// The phase in the low bits, the tick in which it began above them.
    state: AtomicU64,
    /// How much of the body has arrived.
    received: AtomicU64,
    orders: AtomicU8,
    body_is_cut: AtomicBool,
    body_is_unread: AtomicBool,
    waker: AtomicWaker,
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

    pub(crate) fn enter(&self, phase: Phase) {
        let now = self.clock.load(Ordering::Relaxed);
        self.state
            .store(now << PHASE_BITS | phase as u64, Ordering::Relaxed);
    }

    pub(crate) fn phase(&self) -> Phase {
        self.read().0
    }

    /// A request head is complete.
    pub(crate) fn request_begins(&self) {
        self.received.store(0, Ordering::Relaxed);
        self.enter(Phase::Body);
    }

    /// So much of the body has arrived in all.
    pub(crate) fn received(&self, bytes: usize) {
        self.received.store(bytes as u64, Ordering::Relaxed);
    }

    /// Whether the rest of the body is not waited for.
    pub(crate) fn is_body_cut(&self) -> bool {
        self.body_is_cut.load(Ordering::Relaxed)
    }

    /// The rest of the body is not waited for.
    pub(crate) fn cut_body(&self) {
        self.body_is_cut.store(true, Ordering::Relaxed);
    }

    /// A request was answered before all of it had arrived.
    pub(crate) fn leave_body_unread(&self) {
        self.body_is_unread.store(true, Ordering::Relaxed);
    }

    /// Whether a request was answered before all of it had arrived.
    pub(crate) fn is_body_unread(&self) -> bool {
        self.body_is_unread.load(Ordering::Relaxed)
    }

    /// What the connection is told, each order once; it is woken for the next one.
    pub(crate) fn next_order(&self, context: &Context<'_>) -> Option<Order> {
        self.waker.register(context.waker());
        if self.orders.load(Ordering::Acquire) == 0 {
            return None;
        }
        let orders = self.orders.swap(0, Ordering::AcqRel);
        Some(if orders & LEAVE != 0 {
            Order::Leave
        } else {
            Order::Finish
        })
    }

    /// The phase, and for how many ticks.
    fn read(&self) -> (Phase, u64) {
        let state = self.state.load(Ordering::Relaxed);
        let now = self.clock.load(Ordering::Relaxed);
        let phase = PHASES.get((state & ((1 << PHASE_BITS) - 1)) as usize);
        (
            *phase.unwrap_or(&Phase::Closing),
            now.saturating_sub(state >> PHASE_BITS),
        )
    }

    fn is_leaving(&self) -> bool {
        self.orders.load(Ordering::Relaxed) & LEAVE != 0
    }

    fn tell(&self, order: Order) {
        let order = match order {
            Order::Finish => FINISH,
            Order::Leave => LEAVE,
        };
        self.orders.fetch_or(order, Ordering::AcqRel);
        self.waker.wake();
    }

    fn is_overdue(&self, ending: bool) -> bool {
        let (phase, age) = self.read();
        let received = self.received.load(Ordering::Relaxed);
        phase
            .limit(received, ending)
            .is_some_and(|limit| age > limit)
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
    /// Whether somebody waits for connections to go.
    is_awaited: bool,
    by_number: HashMap<u64, Arc<Progress>>,
}

/// A connection's place among those that are open, until it is dropped.
pub(crate) struct Place {
    number: u64,
    progress: Arc<Progress>,
    connections: Arc<Connections>,
}

impl Place {
    pub(crate) fn progress(&self) -> &Arc<Progress> {
        &self.progress
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut open = self.connections.open();
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

    /// A place for a new connection; `None` where there is no room and nobody makes any.
    pub(crate) fn place(self: &Arc<Self>) -> Option<Place> {
        let mut open = self.open();
        if open.by_number.len() >= self.max && !self.cut_one(&open, dispensable) {
            self.metrics.turned_away(TurnedAway::Full);
            return None;
        }
        let number = open.next;
        open.next += 1;
        let progress = Arc::new(Progress::new(Arc::clone(&self.clock)));
        open.by_number.insert(number, Arc::clone(&progress));
        drop(open);
        self.metrics.connection_opened();
        Some(Place {
            number,
            progress,
            connections: Arc::clone(self),
        })
    }

    /// Ends the connection that is missed least; `false` where none can be spared.
    pub(crate) fn make_room(&self) -> bool {
        self.cut_one(&self.open(), dispensable)
    }

    /// No longer waits for the body that has been arriving for longest; `false` where none has for long.
    pub(crate) fn cut_slowest_body(&self) -> bool {
        self.cut_one(&self.open(), slow_body)
    }

    fn cut_one(&self, open: &Open, rank: impl Fn(&Progress) -> Option<(u8, u64)>) -> bool {
        let staying = open
            .by_number
            .values()
            .filter(|progress| !progress.is_leaving());
        let ranked = staying.filter_map(|progress| Some((rank(progress)?, progress)));
        let Some((_, cut)) = ranked.max_by_key(|(rank, _)| *rank) else {
            return false;
        };
        cut.tell(Order::Leave);
        self.metrics.turned_away(TurnedAway::Room);
        true
    }

    /// Lets a [`TICK`] pass, and ends what is overdue.
    pub(crate) fn sweep(&self) {
        self.clock.fetch_add(1, Ordering::Relaxed);
        let open = self.open();
        let mut waiting = false;
        for progress in open.by_number.values() {
            waiting |= progress.phase() == Phase::Wait;
            if !progress.is_leaving() && progress.is_overdue(open.ending) {
                if !matches!(
                    progress.phase(),
                    Phase::Unused | Phase::Idle | Phase::Closing
                ) {
                    self.metrics.turned_away(TurnedAway::Slow);
                }
                progress.tell(Order::Leave);
            }
        }
        if waiting {
            self.cut_one(&open, |progress| {
                let is_large = progress.received.load(Ordering::Relaxed) > FREE as u64;
                slow_body(progress).filter(|_| is_large)
            });
        }
    }

    /// Ends all connections, each once nothing is under way on it.
    pub(crate) fn finish(&self) {
        let mut open = self.open();
        open.ending = true;
        for progress in open.by_number.values() {
            progress.tell(Order::Finish);
        }
    }

    /// Waits until no connection is open; somebody has to sweep meanwhile.
    pub(crate) async fn all_gone(&self) {
        self.at_most(0).await;
    }

    /// Waits until those that were told to make room have done so.
    pub(crate) async fn settle(&self) {
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

    /// Whether that many connections are open at most; if not, each one that goes is told from now on.
    fn are_at_most(&self, number: usize) -> bool {
        let mut open = self.open();
        open.is_awaited = open.by_number.len() > number;
        !open.is_awaited
    }

    fn open(&self) -> MutexGuard<'_, Open> {
        self.open.lock()
    }
}

fn dispensable(progress: &Progress) -> Option<(u8, u64)> {
    let (phase, age) = progress.read();
    phase.dispensable(age)
}

/// A body that has been arriving for longer than an honest one needs.
fn slow_body(progress: &Progress) -> Option<(u8, u64)> {
    let (phase, age) = progress.read();
    (phase == Phase::Body && age >= GRACE).then_some((0, age))
}

#[cfg(test)]
mod tests;
