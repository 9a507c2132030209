//! Queue of writes, by cluster: the latest write of each object. Every cluster has a back-off, a
//! rate and a width of its own, so the failure of one cluster does not affect others.
//!
//! This module neither sends requests nor reads a clock.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::by_item::ByItem;
use crate::model::map::{HashMap, HashSet};
use crate::model::{
    Dispatch, Failure, FailureKind, Generation, Item, ObjectId, TargetCluster, Write, WriteResult,
};
use crate::write_conflict::{WriteConflict, WriteConflicts};

pub(crate) use self::retry::FailedWrite;
use self::retry::backoff;

/// Result of enqueueing a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Enqueued {
    /// The write waits for its turn.
    Accepted,
    /// An earlier write of the object is under way; enqueue again when it has ended.
    UnderWay,
    /// The write is too early; enqueue again at that time. No earlier write of the object waits on
    /// behalf of the item.
    Later(Instant),
}

/// Limits of the writes to a target.
#[derive(Clone, Copy, Debug)]
pub struct WriteLimits {
    /// Writes a second, on average.
    pub qps: f64,
    /// Writes at once after a pause; at least one.
    pub burst: f64,
    /// Writes under way at one time.
    pub width: usize,
    /// First pause of a write whose object another writer changes back as often as it is written.
    pub conflict_pause: Duration,
}

/// Queues of all clusters.
#[derive(Debug)]
pub struct WriteQueue {
    limits: WriteLimits,
    queues: BTreeMap<TargetCluster, ClusterQueue>,
    /// Number of writes under way for an item.
    busy: HashMap<Item, usize>,
    /// Conflicts with other writers. Writes of a conflict are held.
    pub write_conflicts: WriteConflicts,
}

#[derive(Debug, Default)]
struct ClusterQueue {
    waiting: BTreeMap<u64, Waiting>,
    places: HashMap<ObjectId, u64>,
    /// Writes from each provider. Providers take turns, so that none of them delays the others.
    of_providers: BTreeMap<Box<str>, Lane>,
    /// Provider that had the last turn, while writes wait.
    last_provider: Option<Box<str>>,
    /// Time at which a write of each provider was last taken, if recently.
    taken: HashMap<Box<str>, Instant>,
    /// Places of the waiting writes of an item.
    of_items: HashMap<Item, BTreeSet<u64>>,
    next_place: u64,
    under_way: HashMap<ObjectId, UnderWay>,
    failed: ByItem<ObjectId, FailedWrite>,
    started: HashMap<ObjectId, Instant>,
    tokens: f64,
    refilled: Option<Instant>,
    open: bool,
}

/// Places of the writes from one provider.
#[derive(Debug, Default)]
struct Lane {
    /// Places by namespace, and by Cluster. They take turns, so that the services of none of them
    /// delay others.
    of_namespaces: BTreeMap<Arc<str>, BTreeSet<u64>>,
    /// Namespace or Cluster that had the last turn, while writes wait.
    last_namespace: Option<Arc<str>>,
}

#[derive(Debug)]
struct Waiting {
    item: Item,
    write: Write,
    /// Provider whose slice is copied; empty for writes other than copies.
    provider: Box<str>,
}

#[derive(Debug)]
struct UnderWay {
    /// Item whose plan requests the write.
    item: Item,
    /// Engagement of the member by which it is sent.
    generation: Generation,
    /// Whether another write of the object was enqueued meanwhile.
    enqueued: bool,
}

/// Consequences of the end of a write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Finished {
    /// Whether the write failed: it was refused, or changed nothing.
    is_failed: bool,
    /// Whether another write of the object was enqueued while this one was under way, and must be
    /// enqueued again.
    pub(crate) enqueued: bool,
    /// Number of failures in a row, if the failure is unlikely to pass by itself in a moment.
    pub lasting_attempts: Option<u32>,
    /// Conflict, if it was carried out again and again and another writer changes the object back
    /// each time.
    pub write_conflict: Option<WriteConflict>,
}

/// Minimum time between two writes of a copy: later changes are folded, the first one is sent at
/// once.
const FOLD: Duration = Duration::from_millis(100);
/// Time after which an item enqueues a write again while another item writes the same object: many
/// services need one namespace. All of them are marked once it is there.
const SHARED: Duration = Duration::from_secs(10);
/// Share of the burst that is reserved for frugal providers: their change does not wait for the
/// next writes of a provider that floods the queue.
const RESERVE: f64 = 0.1;
/// Number of writes that defines a frugal provider: none of its writes was taken for the time that
/// this many take at the rate of the cluster.
const FRUGAL: f64 = 10.0;
/// Failure of a write that changed nothing. Sending it again at once would go on for ever.
const IGNORED: &str = "the API server took the write and left the object as it was";

impl WriteQueue {
    /// Returns an empty queue.
    pub fn new(limits: WriteLimits) -> Self {
        // A write takes a whole token.
        let burst = limits.burst.max(1.0);
        let limits = WriteLimits { burst, ..limits };
        Self {
            limits,
            queues: BTreeMap::new(),
            busy: HashMap::default(),
            write_conflicts: WriteConflicts::new(limits.conflict_pause),
        }
    }

    /// Removes the waiting writes of an item in the queue of a cluster. The next writes replace
    /// them.
    pub(crate) fn retract(&mut self, target: &TargetCluster, item: &Item) {
        if let Some(state) = self.queues.get_mut(target) {
            state.withdraw(item, |_| true);
        }
    }

    /// Enqueues a write.
    pub fn enqueue(
        &mut self,
        target: &TargetCluster,
        item: &Item,
        write: Write,
        now: Instant,
    ) -> Enqueued {
        let burst = self.limits.burst;
        let state = self
            .queues
            .entry(target.clone())
            .or_insert_with(|| ClusterQueue::new(burst));
        match state.under_way.get_mut(write.object()) {
            Some(under_way) if under_way.item == *item => {
                under_way.enqueued = true;
                return Enqueued::UnderWay;
            }
            Some(_) => return Enqueued::Later(now + SHARED),
            None => {}
        }
        let retry = state
            .failed
            .get(write.object())
            .map(|failed| failed.retry_at);
        let unfold = state
            .started
            .get(write.object())
            .map(|started| *started + FOLD);
        let held = self.write_conflicts.held_until(target, &write, now);
        if held.is_some() {
            self.write_conflicts.note_held(target, write.object());
        }
        if let Some(at) = retry.max(unfold).max(held).filter(|at| *at > now) {
            // A write that waits since before is no longer desired.
            state.withdraw_own(write.object(), item);
            return Enqueued::Later(at);
        }
        if state.waits_for_other(write.object(), item) {
            return Enqueued::Later(now + SHARED);
        }
        state.put(item.clone(), write);
        Enqueued::Accepted
    }

    /// Returns the writes that may start now, in the clusters that `open` permits.
    pub fn ready(
        &mut self,
        now: Instant,
        open: impl Fn(&TargetCluster) -> Option<Generation>,
    ) -> Vec<Dispatch> {
        let mut all = Vec::new();
        let limits = self.limits;
        let waiting = self.queues.iter_mut();
        for (target, state) in waiting.filter(|(_, state)| !state.waiting.is_empty()) {
            let generation = open(target);
            state.open = generation.is_some();
            let Some(generation) = generation else {
                continue;
            };
            state.drop_old_starts(now, limits);
            for (item, write) in state.take(now, limits, generation) {
                *self.busy.entry(item.clone()).or_default() += 1;
                all.push(Dispatch {
                    target: target.clone(),
                    generation,
                    item,
                    write,
                });
            }
        }
        all
    }

    /// Returns the time at which the next cluster that waits for its rate may go on. A
    /// target that was closed the last time waits for another event.
    pub fn next_at(&self, now: Instant) -> Option<Instant> {
        let limits = self.limits;
        let open = self.queues.values().filter(|state| state.open);
        open.filter_map(|state| state.next_at(now, limits)).min()
    }

    /// Records the end of a write. A write that changed nothing has failed: it was only sent
    /// because something had to change.
    pub fn finished(&mut self, result: &WriteResult, now: Instant) -> Finished {
        let Dispatch {
            target,
            generation,
            item,
            write,
        } = &result.dispatch;
        let Some(state) = self.queues.get_mut(target) else {
            return Finished::default();
        };
        // The member may have been removed, and joined again, meanwhile.
        let under_way = state.under_way.get(write.object());
        if under_way.is_none_or(|one| one.generation != *generation) {
            return Finished::default();
        }
        let under_way = state.under_way.remove(write.object());
        let enqueued = under_way.is_some_and(|under_way| under_way.enqueued);
        self.note_idle(item);
        let failed = self.note_answer(result, now);
        let mut finished = Finished {
            is_failed: failed.is_some(),
            enqueued,
            lasting_attempts: failed
                .filter(|failed| failed.counts())
                .map(|failed| failed.attempts),
            write_conflict: None,
        };
        if !finished.is_failed {
            finished.write_conflict = self.write_conflicts.note(target, item, write, now);
        }
        finished
    }

    fn note_idle(&mut self, item: &Item) {
        if let Some(count) = self.busy.get_mut(item) {
            *count -= 1;
            if *count == 0 {
                self.busy.remove(item);
            }
        }
    }

    /// Records the answer. Returns the failed write, if it failed.
    fn note_answer(&mut self, result: &WriteResult, now: Instant) -> Option<&FailedWrite> {
        let Dispatch {
            target,
            item,
            write,
            ..
        } = &result.dispatch;
        let state = self.queues.get_mut(target)?;
        let mut failure = match &result.answer {
            Err(failure) => failure.clone(),
            Ok(ack) if ack.changed_nothing(write.operation()) => {
                Failure::new(FailureKind::Other, IGNORED)
            }
            Ok(_) => {
                state.failed.remove(write.object());
                return None;
            }
        };
        let before = state.failed.get(write.object());
        let attempts = before.map_or(0, |failed| failed.attempts) + 1;
        // A text that differs each time is renewed ever more seldom.
        if let Some(before) = before
            && before.failure.is_alike(&failure)
            && !attempts.is_power_of_two()
        {
            failure = before.failure.clone();
        }
        let retry_at = now + backoff(attempts);
        let failed = FailedWrite {
            attempts,
            failure,
            retry_at,
        };
        let object = write.object();
        state.failed.insert(item, object.clone(), failed);
        state.failed.get(object)
    }

    /// Returns the failed write of an object in a cluster, as far as it counts as failed. Several
    /// items may request it.
    pub(crate) fn failure_of(
        &self,
        target: &TargetCluster,
        object: &ObjectId,
    ) -> Option<&FailedWrite> {
        let failed = self.queues.get(target)?.failed.get(object);
        failed.filter(|failed| failed.counts())
    }

    /// Drops the writes that an item no longer desires: they neither wait nor count as failed.
    /// Desired writes retain their places, so that an object that changes all the time gets its
    /// turn.
    pub(crate) fn keep_only(&mut self, item: &Item, wanted: &BTreeMap<TargetCluster, Vec<Write>>) {
        let clusters = self.queues.iter_mut();
        for (target, state) in clusters.filter(|(_, state)| state.holds_any_of(item)) {
            let wanted = wanted.get(target).into_iter().flatten();
            let wanted: HashSet<_> = wanted.map(Write::object).collect();
            state
                .failed
                .retain_of(item, |object| wanted.contains(object));
            state.withdraw(item, |write| !wanted.contains(write.object()));
        }
    }

    /// Returns the time before which a write is not sent, because it counts as failed or another
    /// writer changes its object back as often as it is written.
    pub(crate) fn paused_until(
        &self,
        target: &TargetCluster,
        write: &Write,
        now: Instant,
    ) -> Option<Instant> {
        let state = self.queues.get(target);
        let failed = state.and_then(|state| state.failed.get(write.object()));
        let failed = failed.filter(|failed| failed.counts() && now < failed.retry_at);
        let retry = failed.map(|failed| failed.retry_at);
        retry.max(self.write_conflicts.held_until(target, write, now))
    }

    /// Whether a write for the item is under way in any target.
    pub(crate) fn is_busy_with(&self, item: &Item) -> bool {
        self.busy.contains_key(item)
    }

    /// Whether a write for the item waits or is under way in any target.
    pub fn holds(&self, item: &Item) -> bool {
        let mut clusters = self.queues.values();
        self.is_busy_with(item) || clusters.any(|state| state.of_items.contains_key(item))
    }

    /// Drops the back-offs of a member that answers again.
    pub fn reset(&mut self, target: &TargetCluster) {
        if let Some(state) = self.queues.get_mut(target) {
            state.failed = ByItem::default();
        }
    }

    /// Drops the queue of a member that is removed. None of its writes waits, counts as failed or
    /// is under way any more.
    pub fn remove(&mut self, target: &TargetCluster) {
        let Some(removed) = self.queues.remove(target) else {
            return;
        };
        for under_way in removed.under_way.into_values() {
            self.note_idle(&under_way.item);
        }
    }

    /// Drops all state after the loss of leadership: nothing waits and nothing is under way any
    /// more.
    pub fn clear(&mut self) {
        self.queues.clear();
        self.busy.clear();
        self.write_conflicts.clear();
    }
}

impl WriteLimits {
    /// Returns the time without writes after which a provider is frugal.
    fn frugal(self) -> Duration {
        Duration::try_from_secs_f64(FRUGAL / self.qps).unwrap_or(Duration::MAX)
    }
}

impl Lane {
    fn insert(&mut self, item: &Item, place: u64) {
        let places = self.of_namespaces.entry(namespace_of(item)).or_default();
        places.insert(place);
    }

    fn remove(&mut self, item: &Item, place: u64) {
        let namespace = namespace_of(item);
        if let Some(places) = self.of_namespaces.get_mut(&namespace) {
            places.remove(&place);
            if places.is_empty() {
                self.of_namespaces.remove(&namespace);
            }
        }
    }

    /// Returns the first place of the namespace whose turn it is.
    fn take_turn(&mut self) -> Option<u64> {
        let last = self.last_namespace.as_ref();
        let (namespace, places) = in_turn(&self.of_namespaces, last).next()?;
        let (namespace, place) = (namespace.clone(), places.first().copied());
        self.last_namespace = Some(namespace);
        place
    }
}

/// Lists the entries in turn: first those after the one that had the last turn.
fn in_turn<'a, K: Ord, V>(
    all: &'a BTreeMap<K, V>,
    last: Option<&'a K>,
) -> impl Iterator<Item = (&'a K, &'a V)> {
    let after = last.map_or(Bound::Unbounded, Bound::Excluded);
    all.range::<K, _>((after, Bound::Unbounded)).chain(all)
}

/// Returns the namespace of a service, or the name of a Cluster.
fn namespace_of(item: &Item) -> Arc<str> {
    match item {
        Item::Service(key) => key.namespace.clone(),
        Item::Cluster(name) => name.as_str().into(),
    }
}

impl ClusterQueue {
    fn new(burst: f64) -> Self {
        Self {
            tokens: burst,
            ..Self::default()
        }
    }

    /// Whether a write of the object waits on behalf of another item.
    fn waits_for_other(&self, object: &ObjectId, item: &Item) -> bool {
        let place = self.places.get(object);
        let waiting = place.and_then(|place| self.waiting.get(place));
        waiting.is_some_and(|waiting| waiting.item != *item)
    }

    /// Whether a write of the item waits, or has failed.
    fn holds_any_of(&self, item: &Item) -> bool {
        self.of_items.contains_key(item) || self.failed.has(item)
    }

    /// Removes the waiting writes of an item that are `unwanted`.
    fn withdraw(&mut self, item: &Item, unwanted: impl Fn(&Write) -> bool) {
        let own = self.of_items.get(item).into_iter().flatten();
        let goes = |place: &u64| {
            self.waiting
                .get(place)
                .is_some_and(|one| unwanted(&one.write))
        };
        let going: Vec<_> = own.copied().filter(goes).collect();
        for place in going {
            self.remove(place);
        }
    }

    /// Removes the waiting write of an object if it waits on behalf of the item.
    fn withdraw_own(&mut self, object: &ObjectId, item: &Item) {
        let place = self.places.get(object).copied();
        let waiting = place.and_then(|place| self.waiting.get(&place));
        let is_own = waiting.is_some_and(|waiting| waiting.item == *item);
        if let Some(place) = place.filter(|_| is_own) {
            self.remove(place);
        }
    }

    /// Adds a write. It takes the place of an earlier write of the object that still waits.
    fn put(&mut self, item: Item, write: Write) {
        let known = self.places.get(write.object()).copied();
        let place = known.unwrap_or_else(|| {
            self.next_place += 1;
            self.next_place
        });
        self.remove(place);
        let provider: Box<str> = write
            .operation()
            .source_cluster()
            .unwrap_or_default()
            .into();
        self.places.insert(write.object().clone(), place);
        self.of_items.entry(item.clone()).or_default().insert(place);
        let lane = self.of_providers.entry(provider.clone()).or_default();
        lane.insert(&item, place);
        let waiting = Waiting {
            item,
            write,
            provider,
        };
        self.waiting.insert(place, waiting);
    }

    fn remove(&mut self, place: u64) -> Option<Waiting> {
        let waiting = self.waiting.remove(&place)?;
        self.places.remove(waiting.write.object());
        if let Entry::Occupied(mut own) = self.of_items.entry(waiting.item.clone()) {
            own.get_mut().remove(&place);
            if own.get().is_empty() {
                own.remove();
            }
        }
        if let Some(lane) = self.of_providers.get_mut(&waiting.provider) {
            lane.remove(&waiting.item, place);
            if lane.of_namespaces.is_empty() {
                self.of_providers.remove(&waiting.provider);
            }
        }
        Some(waiting)
    }

    /// Returns the next write of the provider whose turn it is, writes other than copies first.
    /// Among the writes of one provider, namespaces take turns. The order within an item is
    /// retained. While only the reserve is left, it is the turn of frugal providers.
    fn next(&mut self, now: Instant, limits: WriteLimits) -> Option<Waiting> {
        let last = self.last_provider.as_ref();
        let has_tokens = |provider: &str| self.tokens >= self.needed(provider, now, limits);
        let (provider, _) = in_turn(&self.of_providers, last).find(|(name, _)| has_tokens(name))?;
        let provider = provider.clone();
        let place = self.of_providers.get_mut(&provider)?.take_turn()?;
        let item = &self.waiting.get(&place)?.item;
        let first = *self.of_items.get(item)?.first()?;
        self.last_provider = Some(provider.clone());
        self.taken.insert(provider, now);
        self.remove(first)
    }

    /// Returns the number of tokens that the provider's turn requires.
    fn needed(&self, provider: &str, now: Instant, limits: WriteLimits) -> f64 {
        match self.frugal_at(provider, limits).is_none_or(|at| at <= now) {
            true => 1.0,
            false => 1.0 + (RESERVE * limits.burst).floor(),
        }
    }

    /// Returns the time at which the provider is frugal again, if a write of it was taken recently.
    fn frugal_at(&self, provider: &str, limits: WriteLimits) -> Option<Instant> {
        let taken = self.taken.get(provider)?;
        Some(*taken + limits.frugal())
    }

    /// Returns the time at which writes that wait only for the rate may go on.
    fn next_at(&self, now: Instant, limits: WriteLimits) -> Option<Instant> {
        if self.under_way.len() >= limits.width {
            return None;
        }
        let refilled = |tokens: f64| {
            let missing = (tokens - self.tokens).max(0.0);
            now + Duration::from_secs_f64(missing / limits.qps)
        };
        let of_provider = |provider: &str| {
            let frugal = self.frugal_at(provider, limits).unwrap_or(now);
            let by_rate = refilled(self.needed(provider, now, limits));
            by_rate.min(refilled(1.0).max(frugal))
        };
        let providers = self.of_providers.keys();
        providers.map(|provider| of_provider(provider)).min()
    }

    fn take(
        &mut self,
        now: Instant,
        limits: WriteLimits,
        generation: Generation,
    ) -> Vec<(Item, Write)> {
        let elapsed = self.refilled.map_or(Duration::ZERO, |refilled| {
            now.saturating_duration_since(refilled)
        });
        self.tokens = (self.tokens + elapsed.as_secs_f64() * limits.qps).min(limits.burst);
        self.refilled = Some(now);
        let mut taken = Vec::new();
        while self.under_way.len() < limits.width {
            let Some(Waiting { item, write, .. }) = self.next(now, limits) else {
                break;
            };
            self.tokens -= 1.0;
            let under_way = UnderWay {
                item: item.clone(),
                generation,
                enqueued: false,
            };
            self.under_way.insert(write.object().clone(), under_way);
            self.started.insert(write.object().clone(), now);
            taken.push((item, write));
        }
        if self.of_providers.is_empty() {
            self.last_provider = None;
        }
        taken
    }

    fn drop_old_starts(&mut self, now: Instant, limits: WriteLimits) {
        if self.started.len() > 1024 {
            self.started
                .retain(|_, started| now.saturating_duration_since(*started) < FOLD);
        }
        self.taken
            .retain(|_, taken| now.saturating_duration_since(*taken) < limits.frugal());
    }
}

mod retry;

#[cfg(test)]
mod tests;
