//! Environment of one hub and some members without any server or clock: tests add objects as watch
//! events, the writes of the write_queue are carried out, and time passes when a test requests it.

mod again;
pub(crate) mod annotations;
mod events;
mod joining;
mod lists;
mod look;
pub(crate) mod networks;
pub(crate) mod objects;
mod paths;
mod restore;
mod scopes;
pub(crate) mod server;
mod works;

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use causeway::domain::path::PathLease;
use causeway::domain::protected::{DEFAULT_NAMESPACE, Protection};
use causeway::domain::{ClusterName, ServiceKey};
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

pub(crate) use self::events::{hub_event, member_event, signal};
use self::objects::{Kind, NAMESPACE, Object};
use self::server::Server;
use crate::diff::{Diff, Moment, diff};
use crate::model::slice::{SliceDecoder, SliceScope};
use crate::model::{
    Dispatch, Failure, FailureKind, HubEvent, Item, MemberEvent, MemberState, ObjectEvent,
    ReportedId, Signal, TargetCluster, TimePoint, Write, WriteResult,
};
use crate::observed::{Counted, Index, RejectedWrite};
use crate::plan::{CopyCache, Desired, Settings, plan};

/// Change of an environment, which it returns.
pub(crate) type Change = fn(&mut Environment) -> &mut Environment;
use crate::reconcile::{ClusterOutcome, Reconciler};
use crate::removal::Leftovers;
use crate::seal::Seal;
use crate::write_queue::{WriteLimits, WriteQueue};

pub(crate) const HUB_UID: &str = "hub-uid";
pub(crate) const CONFLICT_PAUSE: Duration = Duration::from_secs(300);
pub(crate) const GRACE: Duration = Duration::from_secs(300);

/// Kinds of which the hub's lists have to be complete.
const HUB_KINDS: [Kind; 4] = [Kind::Mcs, Kind::Service, Kind::Cluster, Kind::Namespace];
const MEMBER_KINDS: [Kind; 6] = [
    Kind::Node,
    Kind::Namespace,
    Kind::Service,
    Kind::Slice,
    Kind::Export,
    Kind::Import,
];

/// Clusters of a test, and the controller's view of them.
#[derive(Debug)]
pub(crate) struct Environment {
    pub(crate) index: Index,
    pub(crate) write_queue: WriteQueue,
    pub(crate) copy_cache: CopyCache,
    pub(crate) settings: Settings,
    pub(crate) hub: Server,
    pub(crate) members: BTreeMap<String, Server>,
    /// Writes since the last [`Environment::forget_writes`], including the failed ones.
    pub(crate) written: Vec<(String, Write)>,
    pub(crate) recorded: Vec<ObjectEvent>,
    /// Members that were removed, and what may be left in them.
    pub(crate) seen_out: Vec<(String, Leftovers)>,
    pub(crate) looked_up: BTreeSet<ServiceKey>,
    pub(crate) keeps_clusters: bool,
    /// Number of services under each label that any has had.
    pub(crate) counts: BTreeMap<Counted, usize>,
    /// Reports on paths, by the member that has them.
    pub(crate) paths: BTreeMap<String, Vec<PathLease>>,
    now: TimePoint,
    due: BTreeMap<Item, Instant>,
    /// Number of second lists.
    pub(crate) listed_again: usize,
    /// Times of the second lists that were requested.
    again: BTreeMap<TargetCluster, Instant>,
    /// Maximum number of objects of a kind that a cluster lists.
    forgetful: BTreeMap<(String, Kind), usize>,
    silent: BTreeSet<String>,
    /// Whether every Cluster requests that exposed EndpointSlices alone are watched.
    pub(crate) watches_exposed: bool,
    /// Scopes of the watches of EndpointSlices that the index requests.
    requested_scopes: BTreeMap<ClusterName, SliceScope>,
    /// Scopes that these watches have.
    scopes: BTreeMap<ClusterName, SliceScope>,
    pub(crate) releases: BTreeMap<String, (u32, u32)>,
    /// Ids of members in their clusterset.
    ids: BTreeMap<String, ReportedId>,
    unreachable: BTreeSet<String>,
    /// Whether the hub serves Works; `None` if it does not report that.
    serves_works: Option<bool>,
    /// Whether the hub reports its ServiceImports.
    pub(crate) says_imports: bool,
}

/// Returns an environment with a hub that has listed nothing, at a fixed time.
pub(crate) fn env() -> Environment {
    let wall: Timestamp = "2026-01-01T00:00:00Z".parse().expect("a time");
    let mut env = Environment {
        index: Index::new(HUB_UID),
        write_queue: write_queue(),
        copy_cache: CopyCache::default(),
        settings: Settings {
            protection: Protection::new(DEFAULT_NAMESPACE, []),
            service_grace: GRACE,
            publish_exports: false,
            seal: Some(Seal::new(b"the hub's")),
            ..Settings::default()
        },
        hub: Server::new("hub"),
        members: BTreeMap::new(),
        written: Vec::new(),
        recorded: Vec::new(),
        seen_out: Vec::new(),
        looked_up: BTreeSet::new(),
        keeps_clusters: false,
        counts: BTreeMap::new(),
        paths: BTreeMap::new(),
        now: TimePoint {
            instant: Instant::now(),
            wall,
        },
        due: BTreeMap::new(),
        again: BTreeMap::new(),
        listed_again: 0,
        forgetful: BTreeMap::new(),
        silent: BTreeSet::new(),
        watches_exposed: false,
        requested_scopes: BTreeMap::new(),
        scopes: BTreeMap::new(),
        releases: BTreeMap::new(),
        ids: BTreeMap::new(),
        unreachable: BTreeSet::new(),
        serves_works: Some(false),
        says_imports: true,
    };
    env.list_hub();
    env
}

fn write_queue() -> WriteQueue {
    WriteQueue::new(WriteLimits {
        qps: 1000.0,
        burst: 1000.0,
        width: 100,
        conflict_pause: CONFLICT_PAUSE,
    })
}

/// Returns the time of both clocks, which tests may read.
pub(crate) fn now() -> TimePoint {
    TimePoint {
        instant: Instant::now(),
        wall: Timestamp::now(),
    }
}

pub(crate) fn key(name: &str) -> ServiceKey {
    ServiceKey::new(NAMESPACE, name)
}

pub(crate) fn name(name: &str) -> ClusterName {
    ClusterName::try_from(name).expect("the name of a cluster")
}

fn clock(server: &mut Server, now: TimePoint) -> &mut Server {
    server.now = now.wall;
    server
}

// What people and clusters do.
impl Environment {
    fn list_hub(&mut self) {
        self.hub.unsent.clear();
        if let Some(served) = self.serves_works {
            self.hear_works(served);
        }
        if self.says_imports {
            self.list_hub_imports();
        }
        for kind in HUB_KINDS {
            let most = self.forgetful.get(&("hub".to_owned(), kind));
            let most = most.copied().unwrap_or(usize::MAX);
            let all = self.hub.all(kind).take(most).cloned().collect();
            self.index
                .apply_hub(hub_event(kind, Signal::Listed(all)), self.now);
        }
    }

    pub(crate) fn observe_hub(&mut self, event: HubEvent) -> &mut Self {
        self.index.apply_hub(event, self.now);
        self
    }

    pub(crate) fn observe(&mut self, cluster: &str, event: MemberEvent) -> &mut Self {
        self.index.apply_member(&name(cluster), event, self.now);
        self
    }

    pub(crate) fn on_hub(&mut self, object: Object) -> &mut Self {
        let object = self.with_scope(object);
        clock(&mut self.hub, self.now).put(object);
        self
    }

    pub(crate) fn on(&mut self, cluster: &str, object: Object) -> &mut Self {
        self.server(cluster).put(object);
        self
    }

    /// Merges `part` into an object of a member, as somebody who edits it does.
    pub(crate) fn amend(
        &mut self,
        cluster: &str,
        kind: Kind,
        name: &str,
        part: Value,
    ) -> &mut Self {
        let value = self.members[cluster].get(kind, NAMESPACE, name);
        let value = value.expect("an object").clone();
        self.on(cluster, Object { kind, value }.with(part))
    }

    /// Reports a slice of a member with endpoints that are no list of addresses.
    pub(crate) fn garble(&mut self, cluster: &str, name: &str) -> &mut Self {
        let stored = self.members[cluster].get(Kind::Slice, NAMESPACE, name);
        let mut stored = stored.expect("a slice").clone();
        stored["endpoints"] = json!([{"addresses": "all"}]);
        let text = stored.to_string();
        let wire = SliceDecoder::default().decode(causeway_wire::Object::Json(&text));
        let slice = wire.expect("the slice of a service").into();
        self.observe(cluster, MemberEvent::Slices(Signal::Applied(slice)))
    }

    /// Plays the load balancer of Service `foo` in a cluster: gives it these addresses.
    pub(crate) fn balance(&mut self, cluster: &str, ips: &[&str]) -> &mut Self {
        let ingress = ips.iter().map(|ip| json!({"ip": ip, "ipMode": "VIP"}));
        let status = json!({"loadBalancer": {"ingress": ingress.collect::<Vec<_>>()}});
        self.amend(cluster, Kind::Service, "foo", json!({ "status": status }))
    }

    pub(crate) fn off_hub(&mut self, kind: Kind, name: &str) -> &mut Self {
        let namespace = match kind {
            Kind::Cluster | Kind::Namespace => "",
            _ => NAMESPACE,
        };
        clock(&mut self.hub, self.now).delete(kind, namespace, name);
        self
    }

    pub(crate) fn off(&mut self, cluster: &str, kind: Kind, name: &str) -> &mut Self {
        let namespace = match kind {
            Kind::Namespace | Kind::Node => "",
            _ => NAMESPACE,
        };
        self.server(cluster).delete(kind, namespace, name);
        self
    }

    pub(crate) fn server(&mut self, cluster: &str) -> &mut Server {
        clock(self.members.get_mut(cluster).expect("a member"), self.now)
    }

    /// Holds back the reports of a member's watches, until [`Environment::reconnect`].
    pub(crate) fn silence(&mut self, cluster: &str) -> &mut Self {
        self.silent.insert(cluster.to_owned());
        self
    }

    pub(crate) fn reconnect(&mut self, cluster: &str) -> &mut Self {
        self.silent.remove(cluster);
        self
    }

    /// Makes a member unreachable.
    pub(crate) fn lose(&mut self, cluster: &str) -> &mut Self {
        self.unreachable.insert(cluster.to_owned());
        let refused = || Failure::new(FailureKind::Refused, "connection refused");
        self.observe(cluster, MemberEvent::Services(Signal::Failed(refused())))
            .observe(cluster, MemberEvent::Probed(Err(refused())))
    }

    /// Replaces the process by another one, which lists the API servers that answer.
    pub(crate) fn restart(&mut self) -> &mut Self {
        self.index = Index::new(HUB_UID);
        self.write_queue = write_queue();
        self.due.clear();
        self.again.clear();
        self.list_hub();
        let names: Vec<_> = self.members.keys().cloned().collect();
        for name in names {
            self.engage(&name);
            if self.unreachable.contains(&name) {
                self.lose(&name);
            } else {
                self.introduce(&name).list(&name);
            }
        }
        self
    }
}

// What the controller does.
impl Environment {
    pub(crate) fn now(&self) -> TimePoint {
        self.now
    }

    /// Applies the reports of the watches. Returns whether any arrived.
    pub(crate) fn deliver(&mut self) -> bool {
        let mut any = false;
        while let Some(change) = self.hub.unsent.pop_front() {
            any = true;
            let (kind, signal) = signal(change);
            self.index.apply_hub(hub_event(kind, signal), self.now);
        }
        let names: Vec<_> = self.members.keys().cloned().collect();
        for cluster in names {
            if self.silent.contains(&cluster) || self.unreachable.contains(&cluster) {
                continue;
            }
            while let Some(change) = self.server(&cluster).unsent.pop_front() {
                any = true;
                let (kind, signal) = signal(change);
                for event in self.watched(&cluster, kind, signal) {
                    self.observe(&cluster, event);
                }
            }
        }
        any | self.list_nodes() | self.follow_scopes()
    }

    /// Runs the controller for a second, in which everything that is under way ends.
    pub(crate) fn settle(&mut self) -> &mut Self {
        self.pass(Duration::from_secs(1))
    }

    /// Runs the controller while time passes.
    pub(crate) fn pass(&mut self, time: Duration) -> &mut Self {
        let end = self.now.instant + time;
        loop {
            self.work();
            let next = self.due.values().chain(self.again.values()).min().copied();
            let rate = self.write_queue.next_at(self.now.instant);
            match next
                .into_iter()
                .chain(rate)
                .min()
                .filter(|next| *next <= end)
            {
                Some(next) => self.advance(next),
                None => break,
            }
        }
        self.advance(end);
        self.work();
        self
    }

    /// Sets the wall clock of the controller's machine.
    pub(crate) fn set_clock(&mut self, by: SignedDuration) -> &mut Self {
        let wall = self.now.wall.saturating_add(by).expect("a time");
        self.now = TimePoint { wall, ..self.now };
        self
    }

    fn advance(&mut self, to: Instant) {
        let passed = to.saturating_duration_since(self.now.instant);
        self.now = self.now.after(passed);
    }

    /// Does all work that is possible without time passing.
    pub(crate) fn work(&mut self) -> &mut Self {
        for _ in 0..100 {
            let delivered = self.deliver() | self.list_again();
            let reconciled = self.reconcile();
            let wrote = self.write();
            if !delivered && !reconciled && !wrote {
                return self;
            }
        }
        panic!(
            "the controller comes to no rest: {:#?}",
            self.written.last()
        );
    }

    fn reconcile(&mut self) -> bool {
        self.index.apply_quota(&self.settings.quota);
        let mut items: BTreeSet<_> = self.index.take_marked().into_keys().collect();
        let now = self.now;
        items.extend(
            self.due
                .iter()
                .filter(|(_, at)| **at <= now.instant)
                .map(|(item, _)| item.clone()),
        );
        let any = !items.is_empty();
        for item in items {
            self.due.remove(&item);
            match &item {
                Item::Service(key) => {
                    let mut reconciler = Reconciler {
                        index: &self.index,
                        write_queue: &mut self.write_queue,
                        now,
                    };
                    let mut outcome = reconciler.service(&self.settings, key, &mut self.copy_cache);
                    assert_eq!(outcome.undecided, 0, "copies of {key} without a decision");
                    let counts = outcome.note(&mut self.index, key, now);
                    self.counts.extend(counts);
                    if outcome.look_up {
                        self.looked_up.insert(key.clone());
                    }
                    self.look_again(item, outcome.again_at);
                }
                Item::Cluster(name) => {
                    let ttl = self.settings.provider_ttl;
                    let expiry = self.index.note_ttl(name, ttl, now);
                    self.look_again(item.clone(), expiry.map(|at| at.instant));
                    let keeps = self.keeps_clusters;
                    let mut reconciler = Reconciler {
                        index: &self.index,
                        write_queue: &mut self.write_queue,
                        now,
                    };
                    match reconciler.cluster(name, keeps) {
                        ClusterOutcome::Stays => {}
                        ClusterOutcome::LookAgain(at) => self.look_again(item, Some(at)),
                        ClusterOutcome::Removed(left) => {
                            self.index.remove_cluster(name);
                            self.seen_out.push((name.to_string(), left));
                        }
                    }
                }
            }
        }
        any
    }

    fn look_again(&mut self, item: Item, at: Option<Instant>) {
        if let Some(at) = at {
            let due = self.due.entry(item).or_insert(at);
            *due = at.min(*due);
        }
    }

    fn dispatch(&mut self) -> Vec<Dispatch> {
        let index = &self.index;
        let open = |cluster: &TargetCluster| match cluster {
            TargetCluster::Hub => Some(0),
            TargetCluster::Member(name) => {
                (index.member_state(name) == MemberState::Synced).then_some(1)
            }
        };
        self.write_queue.ready(self.now.instant, open)
    }

    fn write(&mut self) -> bool {
        let dispatches = self.dispatch();
        let any = !dispatches.is_empty();
        for dispatch in dispatches {
            self.carry_out(dispatch);
        }
        any
    }

    /// Kills the process after some of its next writes have arrived, those whose bits are set.
    /// Another process takes over.
    pub(crate) fn crash(&mut self, arrived: u8) -> &mut Self {
        self.deliver();
        self.reconcile();
        for (number, dispatch) in self.dispatch().into_iter().enumerate() {
            if arrived >> (number % 8) & 1 == 1 {
                self.carry_out(dispatch);
            }
        }
        self.restart()
    }

    fn carry_out(&mut self, dispatch: Dispatch) {
        let Dispatch {
            target: cluster,
            item,
            write,
            ..
        } = dispatch.clone();
        let (to, server) = match &cluster {
            TargetCluster::Hub => ("hub".to_owned(), clock(&mut self.hub, self.now)),
            TargetCluster::Member(name) => (name.to_string(), self.server(name.as_str())),
        };
        let answer = server.apply(&write);
        let result = WriteResult { dispatch, answer };
        let finished = self.write_queue.finished(&result, self.now.instant);
        if let (TargetCluster::Member(name), Err(failure)) = (&cluster, &result.answer) {
            self.index.note_refusal(
                name,
                RejectedWrite {
                    item: &item,
                    write: &write,
                    failure,
                },
                finished.lasting_attempts,
            );
        }
        self.written.push((to, write.clone()));
        if let Ok(ack) = result.answer {
            self.index.apply_ack(&cluster, ack, self.now);
            self.recorded.extend_from_slice(write.events());
        }
        self.index.mark(item);
    }

    pub(crate) fn plan(&self, service: &str) -> Desired {
        let mut cache = CopyCache::default();
        let key = key(service);
        plan(&self.index, &self.settings, &key, self.now, &mut cache)
    }

    /// Returns the diff that the controller would write now.
    pub(crate) fn diff(&self, service: &str) -> Diff {
        let moment = Moment {
            now: self.now,
            busy: false,
        };
        diff(&self.plan(service), &self.index, &key(service), moment)
    }

    /// Returns the writes that the controller would send to a member now.
    pub(crate) fn writes(&self, service: &str, cluster: &str) -> Vec<Write> {
        let cluster = TargetCluster::Member(name(cluster));
        self.diff(service)
            .writes
            .remove(&cluster)
            .unwrap_or_default()
    }
}
