//! Election of the controller's process that writes: the holder of a Lease
//! (coordination.k8s.io/v1).
//!
//! # Guarantees
//! - At most one process is [`Leadership::Leader`] at a time, as long as clocks *run* alike; what
//!   they show does not matter. A holder stops by itself [`Settings::renew_deadline`] after it
//!   *sent* its last good renewal; others wait [`Settings::duration`], which is longer, from when
//!   they *saw* it.
//! - The Lease is only ever replaced at the version that was read, so of two that reach for it one
//!   fails.
//! - A Lease that somebody deletes or empties counts as held until the claim of its last holder
//!   expires, to each process that had read it before.
//! - A process whose loop makes no progress ([`Settings::progress`]) neither renews nor takes the
//!   Lease.
//! - Every write checks that this process leads at the moment at which it is sent
//!   ([`while_leading`]), so one that was stopped for a while sends nothing that waited.
//! - A holder that is gone is followed within 15 s of its last renewal: [`Settings::duration`] from
//!   when that was seen, which is at the next look. On shutdown the Lease is released, and a
//!   successor takes over at its next look.

mod leadership;

use std::time::Duration;

use causeway::process::backoff::{random, spread};
use causeway::process::liveness::{Heartbeat, Stalled};
use causeway::process::readiness::Readiness;
use causeway_engine::model::{Failure, FailureKind};
use k8s_openapi::api::coordination::v1::{Lease as LeaseObject, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::Timestamp;
use kube::{Api, Client};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

pub use self::leadership::{Leadership, while_leading};
use crate::apply::post;
use crate::failure::Classify as _;
use crate::metrics::LeaseTransitions;

/// Interval at which a process that could take the Lease looks whether it is ready.
const READY_EVERY: Duration = Duration::from_millis(50);
/// Duration in a Lease that its holder released.
const RELEASED: Duration = Duration::from_secs(1);

/// Candidate for the Lease, and its time limits.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The name of this process in the Lease; no two processes may share one.
    pub identity: String,
    /// Time that others wait after they observed a renewal before they take the Lease.
    pub duration: Duration,
    /// Time that the holder goes on after its last renewal; less than `duration`.
    pub renew_deadline: Duration,
    /// The time between two renewals by the holder, give or take a quarter.
    pub period: Duration,
    /// The time between two looks at the Lease by the others, give or take a quarter.
    pub look: Duration,
    /// Maximum time of a request.
    pub request_deadline: Duration,
    /// Metric of the changes of the holder.
    pub transitions: LeaseTransitions,
    /// Heartbeat of the loop that writes.
    pub progress: Option<Heartbeat>,
    /// Readiness of the process: one that is not ready takes the Lease later than others.
    pub readiness: Option<Readiness>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            identity: identity(),
            duration: Duration::from_secs(12),
            renew_deadline: Duration::from_secs(10),
            period: Duration::from_secs(4),
            look: Duration::from_secs(2),
            request_deadline: Duration::from_secs(4),
            transitions: LeaseTransitions::default(),
            progress: None,
            readiness: None,
        }
    }
}

/// The host's name (in Kubernetes, the pod's) and something random, for a restarted pod may bear
/// the same name.
fn identity() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").ok();
    let host = host
        .or_else(|| std::env::var("HOSTNAME").ok())
        .unwrap_or_default();
    let host = if host.trim().is_empty() {
        "causeway-controller"
    } else {
        host.trim()
    };
    format!("{host}_{:016x}", random())
}

/// A candidate for leadership.
#[derive(Debug)]
pub struct Lease {
    leadership: watch::Sender<Leadership>,
    election: Option<Election>,
}

impl Lease {
    /// A candidate for the Lease of that name.
    pub fn new(
        client: Client,
        namespace: &str,
        name: &str,
        settings: Settings,
    ) -> (Self, watch::Receiver<Leadership>) {
        let election = Election {
            api: Api::namespaced(client, namespace),
            name: name.to_owned(),
            place: format!("{namespace}/{name}"),
            settings,
            seen: None,
            free_since: None,
            reported: None,
        };
        Self::candidate(Leadership::Follower { holder: None }, Some(election))
    }

    /// A leader without election, for where there is only one process.
    pub fn alone() -> (Self, watch::Receiver<Leadership>) {
        const FOR_EVER: Duration = Duration::from_secs(100 * 365 * 24 * 3600);
        let until = Instant::now() + FOR_EVER;
        Self::candidate(Leadership::Leader { until }, None)
    }

    fn candidate(
        first: Leadership,
        election: Option<Election>,
    ) -> (Self, watch::Receiver<Leadership>) {
        let (leadership, receiver) = watch::channel(first);
        let lease = Self {
            leadership,
            election,
        };
        (lease, receiver)
    }

    /// Stands for election until `shutdown` is there, then stops leading and releases the Lease.
    /// `shutdown` is to come when nothing is written any more, except Events.
    pub async fn run(self, shutdown: impl Future<Output = ()>) {
        let Self {
            leadership,
            election,
        } = self;
        let Some(mut election) = election else {
            shutdown.await;
            leadership.send_replace(Leadership::Follower { holder: None });
            return;
        };
        tokio::select! {
            () = election.stand(&leadership) => {}
            () = shutdown => {}
        }
        leadership.send_replace(Leadership::Follower { holder: None });
        election.release().await;
    }
}

/// Runs the loop that writes, and cancels `written` after it ends or panics. The loop and its
/// writes are dropped before, so that `written` may end [`Lease::run`].
pub async fn cancel_after(writer: impl Future<Output = ()>, written: CancellationToken) {
    let _written = written.drop_guard();
    writer.await;
}

#[derive(Debug)]
struct Election {
    api: Api<LeaseObject>,
    name: String,
    place: String,
    settings: Settings,
    seen: Option<Seen>,
    /// Time since which nobody else holds the Lease, until it is this process's.
    free_since: Option<Instant>,
    reported: Option<Failure>,
}

/// The Lease as it was read last.
#[derive(Clone, Debug)]
struct Seen {
    object: LeaseObject,
    /// Whether it is gone.
    is_gone: bool,
    /// The last holder that did not release it, and when its claim expires. It may still write
    /// after somebody deleted or emptied the Lease.
    held: Option<(String, Instant)>,
}

impl Seen {
    /// Returns the Lease that this process saw change `at` a time.
    fn new(object: LeaseObject, at: Instant, settings: &Settings) -> Self {
        let held = holder(&object).map(|holder| {
            let expires = at + duration(&object).unwrap_or(settings.duration);
            (holder.clone(), expires)
        });
        Self {
            object,
            is_gone: false,
            held,
        }
    }

    /// Returns what is seen after it, given the Lease as it is now.
    fn then(self, found: Option<LeaseObject>, now: Instant, settings: &Settings) -> Self {
        let Some(object) = found else {
            return Self {
                is_gone: true,
                ..self
            };
        };
        if !self.is_gone && self.object.spec == object.spec {
            return Self { object, ..self };
        }
        let is_emptied = holder(&object).is_none() && duration(&object) != Some(RELEASED);
        let seen = Self::new(object, now, settings);
        match is_emptied {
            true => Self {
                held: self.held,
                ..seen
            },
            false => seen,
        }
    }
}

/// Next step for a Lease.
#[derive(Debug, PartialEq)]
enum Move {
    /// There is none.
    Create,
    /// It is nobody's, or its holder has not renewed it in time.
    Take,
    /// It is this process's.
    Renew,
    /// Another process holds it.
    Wait { holder: String, expires: Instant },
}

impl Election {
    async fn stand(&mut self, leadership: &watch::Sender<Leadership>) {
        loop {
            let stalled = self.settings.progress.as_ref().and_then(Heartbeat::stalled);
            let pause = match stalled {
                Some(stalled) => self.step_down(leadership, &stalled),
                None => self.campaign(leadership).await,
            };
            sleep(pause).await;
        }
    }

    /// Stops leading, and lets the Lease expire: a write that was sent before may still arrive.
    /// Returns the pause before the next attempt.
    fn step_down(&mut self, leadership: &watch::Sender<Leadership>, stalled: &Stalled) -> Duration {
        let led = matches!(*leadership.borrow(), Leadership::Leader { .. });
        let follower = Leadership::Follower { holder: None };
        publish(leadership, follower, &self.place);
        self.forget_own();
        if led {
            tracing::error!(lease = self.place, error = %stalled, "lease not renewed");
        }
        self.jitter(self.settings.look)
    }

    /// Attempts to take or renew the Lease once, and returns the pause before the next attempt.
    async fn campaign(&mut self, leadership: &watch::Sender<Leadership>) -> Duration {
        let (begun, current) = (Instant::now(), leadership.borrow().clone());
        let patience = match current {
            Leadership::Leader { until } => until.saturating_duration_since(begun),
            Leadership::Follower { .. } => self.settings.duration,
        };
        let attempt = timeout(patience, self.attempt()).await;
        match attempt.unwrap_or(Err(Failure::timeout())) {
            Ok(next) => {
                self.reported = None;
                let pause = self.until_next(&next, begun.elapsed());
                publish(leadership, next, &self.place);
                pause
            }
            Err(failure) => {
                let until = match current {
                    Leadership::Leader { until } if Instant::now() < until => until,
                    _ => {
                        let follower = Leadership::Follower { holder: None };
                        publish(leadership, follower, &self.place);
                        Instant::now() + self.settings.period
                    }
                };
                self.forget_own();
                // It is read again at once where another process, or a person, changed it.
                let led = matches!(current, Leadership::Leader { .. });
                let is_changed = match failure.kind {
                    FailureKind::Conflict | FailureKind::AlreadyExists => true,
                    FailureKind::NotFound => led,
                    _ => false,
                };
                self.complain(failure);
                let pause = self.settings.period / if is_changed { 20 } else { 2 };
                self.jitter(pause)
                    .min(until.saturating_duration_since(Instant::now()))
            }
        }
    }

    /// One look at the Lease and the request that follows from it.
    async fn attempt(&mut self) -> Result<Leadership, Failure> {
        if !self.is_mine() {
            self.look().await?;
        }
        let now = Instant::now();
        match decide(self.seen.as_ref(), now, &self.settings) {
            Move::Wait { holder, .. } => {
                self.free_since = None;
                Ok(Leadership::Follower {
                    holder: Some(holder),
                })
            }
            next if next != Move::Renew && !self.may_take(now) => {
                self.until_ready().await;
                Ok(Leadership::Follower { holder: None })
            }
            next @ (Move::Create | Move::Take | Move::Renew) => {
                if next == Move::Create {
                    self.seen = None;
                }
                let claim = claim(
                    self.seen.as_ref().map(|seen| &seen.object),
                    &self.settings,
                    Timestamp::now(),
                );
                self.store(claim).await?;
                self.free_since = None;
                Ok(Leadership::Leader {
                    until: now + self.settings.renew_deadline,
                })
            }
        }
    }

    /// Whether this process may take a Lease that is free. One that is not ready, which could plan
    /// nothing, leaves it to another for the duration of a claim.
    fn may_take(&mut self, now: Instant) -> bool {
        let since = *self.free_since.get_or_insert(now);
        self.is_ready() || now.duration_since(since) >= self.settings.duration
    }

    fn is_ready(&self) -> bool {
        let readiness = self.settings.readiness.as_ref();
        readiness.is_none_or(|readiness| readiness.check().is_ok())
    }

    /// Waits until this process is ready, for the time between two looks at most.
    async fn until_ready(&self) {
        let end = Instant::now() + self.settings.look;
        while !self.is_ready() && Instant::now() < end {
            sleep(READY_EVERY).await;
        }
    }

    fn is_mine(&self) -> bool {
        self.seen
            .as_ref()
            .is_some_and(|seen| holder(&seen.object) == Some(&self.settings.identity))
    }

    async fn look(&mut self) -> Result<(), Failure> {
        let found = self.within_deadline(self.api.get_opt(&self.name)).await?;
        let (now, settings) = (Instant::now(), &self.settings);
        self.seen = match self.seen.take() {
            Some(seen) => Some(seen.then(found, now, settings)),
            None => found.map(|object| Seen::new(object, now, settings)),
        };
        self.show_transitions();
        Ok(())
    }

    fn show_transitions(&self) {
        let spec = self
            .seen
            .as_ref()
            .and_then(|seen| seen.object.spec.as_ref());
        if let Some(spec) = spec {
            let count = spec.lease_transitions.unwrap_or_default();
            self.settings.transitions.read(count);
        }
    }

    /// Creates or replaces the Lease. Whatever fails, it is read again before the next attempt.
    async fn store(&mut self, spec: LeaseSpec) -> Result<(), Failure> {
        let (api, name, params) = (&self.api, &self.name, post());
        let mut object = LeaseObject {
            spec: Some(spec),
            ..LeaseObject::default()
        };
        let stored = match &self.seen {
            None => {
                object.metadata.name = Some(name.clone());
                self.within_deadline(api.create(&params, &object)).await
            }
            Some(seen) => {
                object.metadata = seen.object.metadata.clone();
                let replaced = api.replace(name, &params, &object);
                self.within_deadline(replaced).await
            }
        };
        match stored {
            Ok(object) => {
                self.seen = Some(Seen::new(object, Instant::now(), &self.settings));
                self.show_transitions();
                Ok(())
            }
            Err(failure) => {
                self.forget_own();
                Err(failure)
            }
        }
    }

    /// Drops what this process observed of its own Lease, which may be out of date.
    fn forget_own(&mut self) {
        if self.is_mine() {
            self.seen = None;
        }
    }

    async fn within_deadline<T>(
        &self,
        request: impl Future<Output = kube::Result<T>>,
    ) -> Result<T, Failure> {
        match timeout(self.settings.request_deadline, request).await {
            Ok(answer) => answer.classified(),
            Err(_) => Err(Failure::timeout()),
        }
    }

    /// Returns the pause after an attempt that took `taken`. A leader's pause counts from the start
    /// of the attempt: its claim ends `renew_deadline` after the renewal was sent.
    fn until_next(&self, leadership: &Leadership, taken: Duration) -> Duration {
        match (
            leadership,
            decide(self.seen.as_ref(), Instant::now(), &self.settings),
        ) {
            (Leadership::Leader { .. }, _) => {
                self.jitter(self.settings.period).saturating_sub(taken)
            }
            (Leadership::Follower { .. }, Move::Wait { expires, .. }) => self
                .jitter(self.settings.look)
                .min(expires.saturating_duration_since(Instant::now())),
            // It has waited until it was ready.
            (Leadership::Follower { .. }, _) if self.free_since.is_some() => Duration::ZERO,
            (Leadership::Follower { .. }, _) => self.jitter(self.settings.look),
        }
    }

    fn jitter(&self, period: Duration) -> Duration {
        spread(period.mul_f64(0.75), period.mul_f64(1.25))
    }

    /// Says once why the Lease cannot be had. That another process was faster is no failure.
    fn complain(&mut self, failure: Failure) {
        let lost = matches!(
            failure.kind,
            FailureKind::Conflict | FailureKind::AlreadyExists
        );
        if !lost && self.reported.as_ref() != Some(&failure) {
            tracing::warn!(lease = self.place, error = %failure, "lease unavailable, retrying");
            self.reported = Some(failure);
        }
    }

    /// Gives the Lease back, if it is this process's. A failure means that a successor waits for
    /// its expiry.
    async fn release(&mut self) {
        let mut released = self.try_release().await;
        if released
            .as_ref()
            .is_err_and(|failure| failure.kind == FailureKind::Conflict)
        {
            released = self.try_release().await;
        }
        match released {
            Ok(true) => tracing::info!(lease = self.place, "lease released"),
            Ok(false) => {}
            Err(failure) => {
                tracing::warn!(lease = self.place, error = %failure, "lease release failed, it will expire")
            }
        }
    }

    async fn try_release(&mut self) -> Result<bool, Failure> {
        if !self.is_mine() {
            self.look().await?;
        }
        let Some(seen) = self.seen.as_ref().filter(|_| self.is_mine()) else {
            return Ok(false);
        };
        let spec = released(&seen.object, Timestamp::now());
        self.store(spec).await.map(|()| true)
    }
}

fn publish(leadership: &watch::Sender<Leadership>, next: Leadership, place: &str) {
    let previous = leadership.send_replace(next.clone());
    match (&previous, &next) {
        (Leadership::Follower { .. }, Leadership::Leader { .. }) => {
            tracing::info!(lease = place, "lease acquired");
        }
        (Leadership::Leader { .. }, Leadership::Follower { holder }) => {
            tracing::warn!(lease = place, holder, "lease lost");
        }
        (Leadership::Follower { holder: old }, Leadership::Follower { holder: new })
            if new.is_some() && old != new =>
        {
            tracing::info!(lease = place, holder = new, "lease held by another process");
        }
        _ => {}
    }
}

fn holder(object: &LeaseObject) -> Option<&String> {
    object
        .spec
        .as_ref()?
        .holder_identity
        .as_ref()
        .filter(|holder| !holder.is_empty())
}

fn decide(seen: Option<&Seen>, now: Instant, settings: &Settings) -> Move {
    let Some(seen) = seen else {
        return Move::Create;
    };
    let is_own = holder(&seen.object) == Some(&settings.identity);
    match &seen.held {
        _ if is_own && !seen.is_gone => Move::Renew,
        Some((holder, expires)) if !is_own && now < *expires => Move::Wait {
            holder: holder.clone(),
            expires: *expires,
        },
        _ if seen.is_gone => Move::Create,
        _ => Move::Take,
    }
}

fn duration(object: &LeaseObject) -> Option<Duration> {
    let seconds = object.spec.as_ref()?.lease_duration_seconds?;
    u64::try_from(seconds).ok().map(Duration::from_secs)
}

/// The Lease as this process holds it.
fn claim(object: Option<&LeaseObject>, settings: &Settings, now: Timestamp) -> LeaseSpec {
    let old = object.and_then(|object| object.spec.clone());
    let renewed = object.and_then(holder) == Some(&settings.identity);
    let transitions = old.as_ref().map(|old| old.lease_transitions.unwrap_or(0));
    let acquired = old
        .as_ref()
        .and_then(|old| old.acquire_time.clone())
        .filter(|_| renewed);
    LeaseSpec {
        holder_identity: Some(settings.identity.clone()),
        lease_duration_seconds: Some(
            i32::try_from(settings.duration.as_secs()).unwrap_or(i32::MAX),
        ),
        acquire_time: Some(acquired.unwrap_or(MicroTime(now))),
        renew_time: Some(MicroTime(now)),
        lease_transitions: Some(
            transitions.map_or(0, |count| count.saturating_add(i32::from(!renewed))),
        ),
        ..old.unwrap_or_default()
    }
}

/// The Lease as nobody's.
fn released(object: &LeaseObject, now: Timestamp) -> LeaseSpec {
    LeaseSpec {
        holder_identity: Some(String::new()),
        lease_duration_seconds: i32::try_from(RELEASED.as_secs()).ok(),
        renew_time: Some(MicroTime(now)),
        ..object.spec.clone().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests;
