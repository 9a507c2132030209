//! The one loop: applies what happened, plans what is due, sends what may be written.

mod lookups;
mod members;
mod misplaced;
mod paths;
mod slow_writes;
mod writes;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::{Duration, Instant};

use causeway::domain::{ClusterName, ServiceKey};
use causeway::process::liveness::Heartbeat;
use causeway::process::supervise::Tasks;
use causeway::process::traces::{Span, Tracer};
use causeway_engine::model::{Item, ProfileId, TargetCluster, TimePoint, WriteResult};
use causeway_engine::observed::{CountChanges, Index};
use causeway_engine::plan::{CopyCache, Settings};
use causeway_engine::reconcile::{ClusterOutcome, Reconciler};
use causeway_engine::write_queue::WriteQueue;
use kube::Client;
use tokio::sync::{mpsc, watch};
use tokio::task::{AbortHandle, JoinSet};
use tokio_util::sync::CancellationToken;

use self::slow_writes::SlowWrites;
use crate::clock;
use crate::event::Event;
use crate::event_recorder::EventRecorder;
use crate::fleet::Fleet;
use crate::lease::Leadership;
use crate::lookup::LookupQueue;
use crate::metrics::Metrics;
use crate::queue::Queue;
use crate::traces::Traces;
use crate::watch::RelistRequests;

/// Events applied before what they mean is planned.
const TURN: usize = 256;
/// Maximum time for which events are applied before the items that they concern are planned. A long
/// list takes that time alone.
const APPLYING: Duration = Duration::from_millis(10);
/// Maximum time for which items are planned before writes are sent and events are applied.
const PLANNING: Duration = Duration::from_millis(2);
/// Time without a turn of the loop after which `/livez` fails and the process gives up the Lease. A
/// start with 1,000,000 copies takes 20 s of CPU, in many turns.
pub const STALLED: Duration = Duration::from_secs(60);
/// Longest pause between two turns.
const IDLE: Duration = Duration::from_secs(10);
/// Name of the hub in metrics.
const HUB: &str = "hub";
/// Parts of the loop.
pub struct Parts {
    /// All that is known.
    pub index: Index,
    /// Settings of the process.
    pub settings: Settings,
    /// The members.
    pub fleet: Fleet,
    /// Writes that wait or are under way.
    pub write_queue: WriteQueue,
    /// The hub.
    pub hub: Client,
    /// Requests to the watches of the hub.
    pub hub_relist_requests: watch::Sender<RelistRequests>,
    /// Maximum time of a write.
    pub write_deadline: Duration,
    /// Whether this process may write.
    pub leadership: watch::Receiver<Leadership>,
    /// Sign of life of the loop, for `/livez` and the Lease.
    pub heartbeat: Heartbeat,
    /// The tasks of the process.
    pub tasks: Tasks,
    /// Recorder of Kubernetes Events.
    pub event_recorder: EventRecorder,
    /// The metrics.
    pub metrics: Metrics,
    /// Tracer of writes.
    pub tracer: Tracer,
    /// Hostnames whose addresses are looked up ([`crate::hostnames`]).
    pub hostnames: watch::Sender<BTreeSet<Box<str>>>,
    /// Whether the hub's Cluster objects are causeway's to keep.
    pub keeps_clusters: watch::Receiver<bool>,
}

/// The loop and its state.
pub struct Controller {
    parts: Parts,
    events: mpsc::Sender<Event>,
    queue: Queue,
    copy_cache: CopyCache,
    /// `None` where leadership ended before the answer.
    writes: JoinSet<Option<Written>>,
    lookups: LookupQueue,
    bindings: LookupQueue,
    sources_changed: HashMap<ServiceKey, SourceChange>,
    slow_writes: SlowWrites,
    traces: Traces,
    leads: bool,
    /// Jobs that note at reports on paths, by the member that reports.
    path_notes: HashMap<ClusterName, AbortHandle>,
    /// Reasons for which no Cluster is made of a ClusterProfile, as Events reported them.
    refused_profiles: BTreeMap<ProfileId, String>,
}

/// A write that was answered, or was not: after how long, and its span.
struct Written {
    result: WriteResult,
    taken: Duration,
    span: Option<Span>,
}

struct SourceChange {
    since: Instant,
    /// Time at which a copy was last acknowledged.
    written: Option<Instant>,
}

impl Controller {
    /// A controller of an empty index; the results of its lookups come back by `events`.
    pub fn new(parts: Parts, events: mpsc::Sender<Event>) -> Self {
        Self {
            traces: Traces::new(parts.tracer.clone()),
            parts,
            events,
            queue: Queue::default(),
            copy_cache: CopyCache::default(),
            writes: JoinSet::new(),
            lookups: LookupQueue::default(),
            bindings: LookupQueue::default(),
            sources_changed: HashMap::new(),
            slow_writes: SlowWrites::default(),
            path_notes: HashMap::new(),
            leads: false,
            refused_profiles: BTreeMap::new(),
        }
    }

    /// Runs until `shutdown`.
    pub async fn run(mut self, mut events: mpsc::Receiver<Event>, shutdown: CancellationToken) {
        let mut leadership = self.parts.leadership.clone();
        self.note_leadership(&leadership.borrow_and_update().clone());
        while !shutdown.is_cancelled() {
            self.parts.heartbeat.beat();
            let pause = self.pause(&leadership);
            tokio::select! {
                biased;
                () = shutdown.cancelled() => break,
                changed = leadership.changed() => {
                    if changed.is_err() { break }
                }
                Some(result) = self.writes.join_next(), if !self.writes.is_empty() => self.joined(result),
                event = events.recv() => match event {
                    Some(event) => self.apply(event),
                    None => break,
                },
                () = self.queue.wait() => {}
                () = tokio::time::sleep_until(pause.into()) => {}
            }
            let begun = Instant::now();
            self.turn(&mut events, &leadership.borrow_and_update().clone());
            if begun.elapsed() >= PLANNING {
                // Much is to be done: others have their turn, too.
                tokio::task::yield_now().await;
            }
        }
    }

    /// Returns the time at which the loop goes on although nothing happens. It is early enough for
    /// a heartbeat within [`STALLED`].
    fn pause(&self, leadership: &watch::Receiver<Leadership>) -> Instant {
        let now = Instant::now();
        let idle = now + IDLE;
        let rate = self.parts.write_queue.next_at(now).filter(|_| self.leads);
        let claim = match *leadership.borrow() {
            Leadership::Leader { until } if self.leads => Some(until.into_std()),
            _ => None,
        };
        rate.into_iter().chain(claim).fold(idle, Instant::min)
    }

    fn turn(&mut self, events: &mut mpsc::Receiver<Event>, leadership: &Leadership) {
        self.parts.metrics.begins_to_work(Instant::now());
        self.note_leadership(leadership);
        if self.parts.keeps_clusters.has_changed().unwrap_or_default() {
            self.parts.keeps_clusters.mark_unchanged();
            self.parts.index.mark_all_clusters();
        }
        let applied_until = Instant::now() + APPLYING;
        for _ in 0..TURN {
            let Ok(event) = events.try_recv() else { break };
            self.apply(event);
            if Instant::now() >= applied_until {
                break;
            }
        }
        while let Some(result) = self.writes.try_join_next() {
            self.joined(result);
        }
        for (name, scope) in self.parts.index.take_slice_scopes() {
            self.parts.fleet.watch_slices(&name, scope);
        }
        let now = clock::now();
        self.parts.index.apply_quota(&self.parts.settings.quota);
        for (item, priority) in self.parts.index.take_marked() {
            self.queue.push(item, priority, now.instant);
        }
        self.record_misplaced();
        self.queue.catch_up();
        let planned_until = Instant::now() + PLANNING;
        while let Some(item) = self.queue.take() {
            self.reconcile(item, now);
            self.list_again();
            if Instant::now() >= planned_until {
                break;
            }
        }
        if let Some(hostnames) = self.parts.index.take_hostnames() {
            self.parts.hostnames.send_replace(hostnames);
        }
        self.send(now.instant);
        self.traces.sweep(now.instant);
        self.measure();
    }

    /// Leadership gates writing, here; each write is checked again when it is sent
    /// ([`crate::lease::while_leading`]).
    fn note_leadership(&mut self, leadership: &Leadership) {
        self.lead(leadership.may_write(Instant::now().into()));
    }

    /// Begins to write, or stops. What is under way then is dropped.
    fn lead(&mut self, leads: bool) {
        if leads == self.leads {
            return;
        }
        self.leads = leads;
        self.parts.metrics.leader(leads);
        tracing::info!(leads, "leadership changed");
        self.writes.abort_all();
        self.writes = JoinSet::new();
        self.parts.write_queue.clear();
        self.lookups.clear();
        self.bindings.clear();
        self.sources_changed.clear();
        self.traces.clear();
        self.end_path_notes();
        if leads {
            self.begin_term();
            self.parts.index.drop_confirmed_absences();
            self.note_ttls();
            self.parts.index.mark_all_services();
            self.parts.index.mark_all_clusters();
            self.note_all_paths();
        } else {
            let counts = self.parts.index.drop_counts();
            self.show_counts(counts);
        }
    }

    /// Notes which members have been unreachable for longer than the provider TTL.
    fn note_ttls(&mut self) {
        let (ttl, now) = (self.parts.settings.provider_ttl, clock::now());
        let names: Vec<_> = self.parts.index.member_names().cloned().collect();
        for name in &names {
            self.parts.index.note_ttl(name, ttl, now);
        }
    }

    /// Shows counts of services that changed.
    fn show_counts(&self, counts: CountChanges) {
        let Parts { metrics, index, .. } = &self.parts;
        for (counted, count) in counts {
            metrics.services(counted, count);
        }
        metrics.share_deviation(index.share_deviation());
    }

    /// Has the hub listed again: another leader may have seen what its watches have not shown yet.
    fn begin_term(&mut self) {
        let requests = &self.parts.hub_relist_requests;
        requests.send_modify(|requests| requests.term += 1);
        let term = requests.borrow().term;
        self.parts.index.begin_term(term);
    }

    fn apply(&mut self, event: Event) {
        let now = clock::now();
        self.parts.metrics.begins_to_work(now.instant);
        match event {
            Event::Hub(event) => self.apply_hub(event, now),
            Event::Member {
                name,
                generation,
                event,
            } => self.apply_member(&name, generation, event, now),
            Event::Credentials {
                name,
                round,
                outcome,
            } => self.apply_credentials(&name, round, outcome),
            Event::LookedUp { key, exists } => self.looked_up(key, exists),
            Event::Propagated { key, outcome } => self.propagated(&key, outcome),
            Event::Resolved { host, addresses } => {
                self.parts.index.apply_resolved(&host, addresses);
            }
            Event::Writer {
                cluster,
                key,
                slice,
                found,
            } => self.writer_found(cluster, key, slice, found),
        }
        self.list_again();
        for (name, needs) in self.parts.index.take_needs() {
            self.parts.fleet.note_needs(&name, needs);
        }
    }

    /// Requests the second lists that the index needs.
    fn list_again(&mut self) {
        let second_list = |requests: &mut RelistRequests| requests.second_list += 1;
        for target in self.parts.index.take_second_lists() {
            match target {
                TargetCluster::Hub => self.parts.hub_relist_requests.send_modify(second_list),
                TargetCluster::Member(name) => self.parts.fleet.relist(&name, second_list),
            }
        }
    }

    fn reconcile(&mut self, item: Item, now: TimePoint) {
        // Lists of other members change the number, too.
        if let Item::Cluster(name) = &item
            && self.parts.index.cluster(name).is_some()
        {
            self.show_suspended_deletions(name.as_str());
        }
        if !self.parts.index.is_hub_listed() || !self.leads {
            if let Item::Cluster(name) = &item {
                self.forget_if_gone(name, now);
            }
            return;
        }
        match &item {
            Item::Service(key) => self.reconcile_service(key, now),
            Item::Cluster(name) => {
                let ttl = self.parts.settings.provider_ttl;
                if let Some(expiry) = self.parts.index.note_ttl(name, ttl, now) {
                    self.queue.at(item.clone(), expiry.instant);
                }
                let keeps = *self.parts.keeps_clusters.borrow();
                let mut reconciler = Reconciler {
                    index: &self.parts.index,
                    write_queue: &mut self.parts.write_queue,
                    now,
                };
                match reconciler.cluster(name, keeps) {
                    ClusterOutcome::Stays => {}
                    ClusterOutcome::LookAgain(at) => self.queue.at(item, at),
                    ClusterOutcome::Removed(left) => self.forget(name, &left),
                }
            }
        }
    }

    fn reconcile_service(&mut self, key: &ServiceKey, now: TimePoint) {
        let parts = &mut self.parts;
        let mut reconciler = Reconciler {
            index: &parts.index,
            write_queue: &mut parts.write_queue,
            now,
        };
        let mut outcome = reconciler.service(&parts.settings, key, &mut self.copy_cache);
        let counts = outcome.note(&mut parts.index, key, now);
        self.show_counts(counts);
        if let Some(at) = outcome.again_at {
            self.queue.at(Item::Service(key.clone()), at);
        }
        if outcome.look_up {
            self.look_up(key, now.instant);
        }
        self.look_up_binding(key, now.instant);
        self.look_up_writers(key);
        self.parts.metrics.undecided(outcome.undecided);
        let index = &mut self.parts.index;
        if !index.owns_native(key) {
            index.drop_confirmed_absence(key);
        }
        if outcome.settled {
            self.settled(key);
        }
    }

    /// All of a service is written into every member. The status on the hub, where it changes, ends
    /// its trace.
    fn settled(&mut self, key: &ServiceKey) {
        if let Some(change) = self.sources_changed.remove(key)
            && let Some(written) = change.written
        {
            let taken = written.saturating_duration_since(change.since);
            let exemplar = self.traces.exemplar(key);
            self.parts.metrics.propagated(taken, exemplar);
        }
        if self.traces.is_on() && !self.parts.write_queue.holds(&Item::Service(key.clone())) {
            self.traces.settled(key);
        }
    }

    fn measure(&self) {
        let (keys, oldest) = (self.queue.len(), self.queue.oldest());
        self.parts.metrics.queue(keys, oldest);
        self.show_suspended_deletions(HUB);
    }
}

#[cfg(test)]
mod tests;
