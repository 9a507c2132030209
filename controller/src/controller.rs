//! The one loop: folds in what happened, plans what is due, sends what may be written.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use causeway::domain::{ClusterName, ServiceKey};
use causeway::process::readiness::Awaited;
use causeway::process::supervise::Tasks;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::Client;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::announce::Announcer;
use crate::apply::apply;
use crate::ask;
use crate::event::{Event, Generation, HubEvent, MemberEvent};
use crate::failure::Failure;
use crate::fleet::{Fleet, Outcome as Engagement};
use crate::index::member::Member;
use crate::index::slice::SliceRole;
use crate::index::{Index, Item, Standing};
use crate::lease::Leadership;
use crate::metrics::Metrics;
use crate::outbox::{Announcement, Dispatch, Lane, Outbox, WriteResult};
use crate::plan::Settings;
use crate::queue::Queue;
use crate::reconcile::{ClusterOutcome, Now, reconcile_cluster, reconcile_service};
use crate::watch::Signal;

/// Events folded in, and items planned, before the other gets its turn.
const TURN: usize = 256;

/// What the loop works with.
pub struct Parts {
    /// All that is known.
    pub index: Index,
    /// What the controller was started with.
    pub settings: Settings,
    /// The members.
    pub fleet: Fleet,
    /// What is to be written.
    pub outbox: Outbox,
    /// The hub.
    pub hub: Client,
    /// How long a write may take.
    pub write_deadline: Duration,
    /// Whether this process may write.
    pub leadership: watch::Receiver<Leadership>,
    /// The tasks of the process.
    pub tasks: Tasks,
    /// Where Kubernetes Events are handed in.
    pub announcer: Announcer,
    /// The metrics.
    pub metrics: Metrics,
    /// Whether the hub's Cluster objects are causeway's to keep.
    pub keeps_clusters: bool,
    /// Whether the hub serves Karmada's Works.
    pub works_served: bool,
    /// Held until the hub's lists are complete.
    pub hub_lists: Option<Awaited>,
}

/// The loop and its state.
pub struct Controller {
    parts: Parts,
    events: mpsc::Sender<Event>,
    queue: Queue,
    writes: JoinSet<WriteResult>,
    asked: HashSet<ServiceKey>,
    sources_changed: HashMap<ServiceKey, SourceChange>,
    leads: bool,
}

struct SourceChange {
    since: Instant,
    written: bool,
}

impl Controller {
    /// A controller that has heard nothing; answers to its own questions come back by `events`.
    pub fn new(parts: Parts, events: mpsc::Sender<Event>) -> Self {
        Self {
            parts,
            events,
            queue: Queue::default(),
            writes: JoinSet::new(),
            asked: HashSet::new(),
            sources_changed: HashMap::new(),
            leads: false,
        }
    }

    /// Runs until `shutdown`.
    pub async fn run(mut self, mut events: mpsc::Receiver<Event>, shutdown: CancellationToken) {
        let mut leadership = self.parts.leadership.clone();
        self.note_leadership(&leadership.borrow_and_update().clone());
        while !shutdown.is_cancelled() {
            let pause = self.pause(&leadership);
            tokio::select! {
                biased;
                () = shutdown.cancelled() => break,
                changed = leadership.changed() => {
                    if changed.is_err() { break }
                }
                Some(result) = self.writes.join_next(), if !self.writes.is_empty() => self.joined(result),
                event = events.recv() => match event {
                    Some(event) => self.fold(event),
                    None => break,
                },
                () = self.queue.wait() => {}
                () = tokio::time::sleep_until(pause) => {}
            }
            self.turn(&mut events, &leadership.borrow_and_update().clone());
        }
    }

    /// When the loop has to go on although nothing happens.
    fn pause(&self, leadership: &watch::Receiver<Leadership>) -> Instant {
        let now = Instant::now();
        let idle = now + Duration::from_secs(10);
        let rate = self.parts.outbox.next_at(now).filter(|_| self.leads);
        let claim = match *leadership.borrow() {
            Leadership::Leader { until } if self.leads => Some(until),
            _ => None,
        };
        rate.into_iter().chain(claim).fold(idle, Instant::min)
    }

    fn turn(&mut self, events: &mut mpsc::Receiver<Event>, leadership: &Leadership) {
        self.note_leadership(leadership);
        for _ in 0..TURN {
            let Ok(event) = events.try_recv() else { break };
            self.fold(event);
        }
        while let Some(result) = self.writes.try_join_next() {
            self.joined(result);
        }
        let now = Now::read();
        for item in self.parts.index.take_dirty() {
            self.queue.now(item, now.instant);
        }
        for _ in 0..TURN {
            let Some(item) = self.queue.take() else { break };
            self.reconcile(item, now);
        }
        self.send(now.instant);
        self.measure(now.instant);
    }

    /// Leadership gates writing, here alone. What is under way when it ends is dropped.
    fn note_leadership(&mut self, leadership: &Leadership) {
        let leads = leadership.may_write(Instant::now());
        if leads == self.leads {
            return;
        }
        self.leads = leads;
        self.parts.metrics.leader(leads);
        tracing::info!(leads, "leadership changed");
        self.writes.abort_all();
        self.writes = JoinSet::new();
        self.parts.outbox.clear();
        self.sources_changed.clear();
        if leads {
            self.parts.index.mark_all_services();
            self.parts.index.mark_all_clusters();
        }
    }

    fn fold(&mut self, event: Event) {
        let now = Now::read();
        match event {
            Event::Hub(event) => self.fold_hub(event, now),
            Event::Member {
                name,
                generation,
                event,
            } => self.fold_member(&name, generation, event, now),
            Event::Asked { key, exists } => self.answered(key, exists),
            Event::WorksSought { key, found } => self.works_sought(key, found, now),
        }
    }

    fn fold_hub(&mut self, event: HubEvent, now: Now) {
        let event = match event {
            HubEvent::Secrets(namespace, signal) => {
                for name in self.parts.fleet.note_secrets(&namespace, signal) {
                    self.engage(&name);
                }
                return;
            }
            other => other,
        };
        let touched = match &event {
            HubEvent::Clusters(signal) => self.parts.fleet.note_clusters(signal),
            _ => Default::default(),
        };
        self.parts.index.fold_hub(event, now.wall);
        for name in touched {
            self.engage(&name);
        }
        if self.parts.index.hub.is_listed()
            && let Some(awaited) = self.parts.hub_lists.take()
        {
            awaited.ready();
        }
    }

    fn engage(&mut self, name: &ClusterName) {
        let index = &mut self.parts.index;
        match self.parts.fleet.reconsider(name) {
            Engagement::Unchanged => return,
            Engagement::Engaged(generation) => match index.members.get_mut(name) {
                Some(member) => member.engage_again(generation),
                None => {
                    index.members.insert(name.clone(), Member::new(generation));
                }
            },
            Engagement::Disengaged => {
                index.members.remove(name);
            }
            Engagement::Refused(why) => {
                tracing::warn!(cluster = %name, why, "a member cannot be engaged");
                let member = index
                    .members
                    .entry(name.clone())
                    .or_insert_with(|| Member::new(0));
                member.refusals.configuration = Some(why);
            }
        }
        index.mark(Item::Cluster(name.clone()));
        index.mark_all_services();
    }

    fn fold_member(
        &mut self,
        name: &ClusterName,
        generation: Generation,
        event: MemberEvent,
        now: Now,
    ) {
        if self
            .parts
            .index
            .members
            .get(name)
            .is_none_or(|member| member.generation != generation)
        {
            return;
        }
        self.parts.metrics.member_event(name, now.wall);
        if let MemberEvent::Slices(Signal::Applied(slice) | Signal::Deleted(slice)) = &event
            && let SliceRole::Source(key, _) = &slice.role
            && self.leads
            && self
                .parts
                .index
                .hub
                .multi_cluster_services
                .contains_key(key)
        {
            let change = SourceChange {
                since: now.instant,
                written: false,
            };
            self.sources_changed.entry(key.clone()).or_insert(change);
        }
        let stood = self.parts.index.standing(name);
        self.parts.index.fold_member(name, event, now.wall);
        let stands = self.parts.index.standing(name);
        if stands != stood {
            tracing::info!(cluster = %name, ?stands, "a member changed");
            self.parts.metrics.member_state(name, state_of(&stands));
            if stands == Standing::Synced {
                self.parts.outbox.reset(&Lane::Member(name.clone()));
            }
        }
    }

    fn answered(&mut self, key: ServiceKey, exists: Result<bool, Failure>) {
        self.asked.remove(&key);
        match exists {
            Ok(false)
                if !self
                    .parts
                    .index
                    .hub
                    .multi_cluster_services
                    .contains_key(&key) =>
            {
                tracing::info!(service = %key, "leftovers are collected: the hub has no MultiClusterService of that name");
                self.parts.index.hub.confirmed_gone.insert(key.clone());
                self.parts.index.mark(Item::Service(key));
            }
            Ok(_) => {}
            Err(failure) => {
                tracing::warn!(service = %key, %failure, "the hub could not be asked for a MultiClusterService");
                self.queue
                    .at(Item::Service(key), Instant::now() + ask::AGAIN);
            }
        }
    }

    fn works_sought(&mut self, key: ServiceKey, found: Result<bool, Failure>, now: Now) {
        self.asked.remove(&key);
        if !self
            .parts
            .index
            .hub
            .multi_cluster_services
            .contains_key(&key)
        {
            return;
        }
        match found {
            Ok(found) => {
                let known = self
                    .parts
                    .index
                    .hub
                    .karmada_works
                    .insert(key.clone(), found);
                if known != Some(found) {
                    self.parts.index.mark(Item::Service(key.clone()));
                }
                if found {
                    self.seek_works(&key, ask::WORKS_AGAIN);
                }
            }
            Err(failure) => {
                tracing::warn!(service = %key, %failure, "the hub could not be asked for Karmada's Works");
                self.queue.at(Item::Service(key), now.instant + ask::AGAIN);
            }
        }
    }

    fn reconcile(&mut self, item: Item, now: Now) {
        if !self.parts.index.hub.is_listed() || !self.leads {
            if let Item::Cluster(name) = &item {
                self.forget_if_gone(name, now);
            }
            return;
        }
        match &item {
            Item::Service(key) => self.reconcile_service(key, now),
            Item::Cluster(name) => {
                let keeps = self.parts.keeps_clusters;
                match reconcile_cluster(&self.parts.index, &mut self.parts.outbox, name, keeps, now)
                {
                    ClusterOutcome::Stays => {}
                    ClusterOutcome::LookAgain(at) => self.queue.at(item, at),
                    ClusterOutcome::Gone(left) => self.forget(name, &left),
                }
            }
        }
    }

    fn reconcile_service(&mut self, key: &ServiceKey, now: Now) {
        if self.parts.works_served && !self.knows_works(key) {
            return self.seek_works(key, Duration::ZERO);
        }
        let parts = &mut self.parts;
        let outcome = reconcile_service(&parts.index, &mut parts.outbox, &parts.settings, key, now);
        if let Some(at) = outcome.again_at {
            self.queue.at(Item::Service(key.clone()), at);
        }
        if outcome.ask_hub && self.asked.insert(key.clone()) {
            let question = ask::multi_cluster_service(
                self.parts.hub.clone(),
                key.clone(),
                self.events.clone(),
            );
            self.parts.tasks.spawn_job("ask", question);
        }
        let index = &mut self.parts.index;
        if !index.owns_any(key) {
            index.hub.confirmed_gone.remove(key);
        }
        if outcome.settled
            && let Some(change) = self.sources_changed.remove(key)
            && change.written
        {
            self.parts
                .metrics
                .propagated(now.instant.saturating_duration_since(change.since));
        }
    }

    /// Whether it is known if Karmada's own controllers carry the service.
    fn knows_works(&self, key: &ServiceKey) -> bool {
        let hub = &self.parts.index.hub;
        hub.karmada_works.contains_key(key) || !hub.multi_cluster_services.contains_key(key)
    }

    fn seek_works(&mut self, key: &ServiceKey, after: Duration) {
        let mcs = self.parts.index.hub.multi_cluster_services.get(key);
        let Some(id) = mcs.and_then(|mcs| mcs.permanent_id.clone()) else {
            self.parts
                .index
                .hub
                .karmada_works
                .insert(key.clone(), false);
            return self.parts.index.mark(Item::Service(key.clone()));
        };
        if self.asked.insert(key.clone()) {
            let question = ask::works(
                self.parts.hub.clone(),
                key.clone(),
                id,
                after,
                self.events.clone(),
            );
            self.parts.tasks.spawn_job("ask", question);
        }
    }

    /// A follower cleans nothing; it forgets a member once the leader has had its time.
    fn forget_if_gone(&mut self, name: &ClusterName, now: Now) {
        let mut nothing = Outbox::new(crate::outbox::Limits {
            qps: 1.0,
            burst: 0.0,
            width: 0,
        });
        match reconcile_cluster(&self.parts.index, &mut nothing, name, false, now) {
            ClusterOutcome::Stays => {}
            ClusterOutcome::LookAgain(at) => self.queue.at(Item::Cluster(name.clone()), at),
            ClusterOutcome::Gone(left) => self.forget(name, &left),
        }
    }

    /// The member has left: what it provided is withdrawn elsewhere.
    fn forget(&mut self, name: &ClusterName, left: &[ServiceKey]) {
        if !left.is_empty() {
            tracing::warn!(cluster = %name, ?left, "a member left before it was cleaned; these services are left in it");
        }
        self.parts.fleet.disengage(name);
        self.parts.index.forget(name);
        self.parts.outbox.reset(&Lane::Member(name.clone()));
        self.parts.metrics.forget_member(name);
    }

    fn send(&mut self, now: Instant) {
        if !self.leads {
            return;
        }
        let Parts {
            index,
            fleet,
            outbox,
            hub,
            write_deadline,
            ..
        } = &mut self.parts;
        let open = |lane: &Lane| match lane {
            Lane::Hub => Some(0),
            Lane::Member(name) if index.standing(name) == Standing::Synced => {
                fleet.client(name).map(|(_, generation)| generation)
            }
            Lane::Member(_) => None,
        };
        for dispatch in outbox.ready(now, open) {
            let client = match &dispatch.lane {
                Lane::Hub => Some(hub.clone()),
                Lane::Member(name) => fleet.client(name).map(|(client, _)| client.clone()),
            };
            if let Some(client) = client {
                let deadline = *write_deadline;
                self.writes.spawn(async move {
                    let answer = apply(
                        &client,
                        &dispatch.write.object,
                        &dispatch.write.action,
                        deadline,
                    )
                    .await;
                    WriteResult { dispatch, answer }
                });
            }
        }
    }

    fn joined(&mut self, result: Result<WriteResult, tokio::task::JoinError>) {
        match result {
            Ok(result) => self.written(result),
            Err(error) if error.is_cancelled() => {}
            Err(error) => std::panic::resume_unwind(error.into_panic()),
        }
    }

    fn written(&mut self, result: WriteResult) {
        let now = Now::read();
        let retry = self.parts.outbox.finished(&result, now.instant, now.wall);
        let WriteResult {
            dispatch:
                Dispatch {
                    lane,
                    generation,
                    item,
                    write,
                },
            answer,
        } = result;
        let cluster = match &lane {
            Lane::Hub => "hub",
            Lane::Member(name) => name.as_str(),
        };
        let (kind, verb) = (write.object.kind(), write.action.verb());
        self.parts
            .metrics
            .wrote(cluster, kind, verb, answer.as_ref().err());
        match answer {
            Ok(ack) => {
                tracing::debug!(cluster, kind, verb, object = ?write.object, "written");
                if let (Item::Service(key), Lane::Member(_)) = (&item, &lane)
                    && let Some(change) = self.sources_changed.get_mut(key)
                {
                    change.written = true;
                }
                let current = match &lane {
                    Lane::Hub => true,
                    Lane::Member(name) => self
                        .parts
                        .index
                        .members
                        .get(name)
                        .is_some_and(|member| member.generation == generation),
                };
                if current {
                    self.parts.index.fold_ack(&lane, ack, now.wall);
                }
                self.announce(&item, write.announcements);
            }
            Err(failure) => {
                self.parts.metrics.retried();
                tracing::warn!(cluster, kind, verb, object = ?write.object, %failure, "a write failed");
                if let Some(at) = retry {
                    self.queue.at(item.clone(), at);
                }
            }
        }
        self.queue.now(item, now.instant);
    }

    fn announce(&self, item: &Item, announcements: Vec<Announcement>) {
        let Item::Service(key) = item else { return };
        let uid = self
            .parts
            .index
            .hub
            .multi_cluster_services
            .get(key)
            .map(|mcs| mcs.uid.to_string());
        let about = ObjectReference {
            api_version: Some("networking.karmada.io/v1alpha1".to_owned()),
            kind: Some("MultiClusterService".to_owned()),
            namespace: Some(key.namespace.to_string()),
            name: Some(key.name.to_string()),
            uid,
            ..ObjectReference::default()
        };
        for announcement in announcements {
            self.parts.announcer.announce(about.clone(), announcement);
        }
    }

    fn measure(&self, now: Instant) {
        let oldest = self
            .queue
            .oldest()
            .map(|since| now.saturating_duration_since(since));
        self.parts
            .metrics
            .queue(self.queue.len(), oldest.unwrap_or_default());
    }
}

fn state_of(standing: &Standing) -> crate::metrics::MemberState {
    use crate::metrics::MemberState;
    match standing {
        Standing::Synced => MemberState::Synced,
        Standing::Syncing | Standing::NotJoined => MemberState::Syncing,
        Standing::Unreachable { .. } | Standing::Refused(_) | Standing::LeftOut(_) => {
            MemberState::Unreachable
        }
    }
}
