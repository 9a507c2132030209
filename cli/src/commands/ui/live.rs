//! Event loop: applies the changes of the watches and publishes the affected rows.
//!
//! The loop reports only on affected services. Services that a change of a cluster may affect are
//! queued behind services with changes of their own. Changes within 100 ms are published together.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use causeway::domain::ServiceKey;
use causeway_engine::explain::Explanation;
use causeway_engine::model::slice::Exposure;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

use super::feed::{self, Feed, Update};
use super::queue::Queue;
use crate::cluster::karmada::binding::{self, Unapplied};
use crate::cluster::lease;
use crate::observe::fleet::{Change, Fleet};
use crate::observe::follow::{Changes, Follow};
use crate::observe::link::ConnectionRow;
use crate::observe::service::{Readings, Snapshot};
use crate::observe::touched::Touched;
use crate::observe::verification::{self, Verification};
use crate::views::explain::{Answer, explained, health, not_running};
use crate::views::status::clusterset::{self, ExportedReport};
use crate::views::status::karmada::{Observations, Observed, is_karmadas};
use crate::views::status::report::{Report, Scope};
use crate::views::ui::{ClusterRow, ServerRow, ServiceRow, State, VerifyRow, row_key};

/// Minimum time between two publications. Changes in between are published together.
const GATHER: Duration = Duration::from_millis(100);
/// Time during which changes are collected after a quiet period, as a change rarely comes alone.
const SETTLE: Duration = Duration::from_millis(10);
/// Maximum time of reports on services before results are published.
const BUDGET: Duration = Duration::from_millis(40);
/// Maximum number of simultaneously changed services that have precedence. Larger sets come from a
/// list.
const BULK: usize = 32;
/// Maximum wait for members before the first reports on services.
const MEMBERS_WITHIN: Duration = Duration::from_secs(5);
/// Minimum time between two reads of the facts about a service with an open explanation.
const ASK_EVERY: Duration = Duration::from_secs(5);

/// State of the loop: observed objects and pending reports.
pub(super) struct Live {
    follow: Follow,
    queue: Queue,
    stale: Stale,
    feed: Arc<Feed>,
    notes: mpsc::Sender<Note>,
    server: ServerRow,
    /// Clusters whose rows may have changed.
    clusters: BTreeSet<String>,
    /// Facts about services, with the time of the read.
    asked: HashMap<ServiceKey, (Instant, Asked)>,
    /// Time of the first complete read of the hub.
    read: Option<Instant>,
    shown: Instant,
    due: Option<Instant>,
}

/// Fact that no watch provides.
#[derive(Debug)]
pub(super) enum Note {
    /// Problem of the controller according to its Lease.
    Controller(Option<String>),
    /// Facts about a service with an open explanation, with the start of the read.
    Asked(ServiceKey, Instant, Asked),
    /// Runs of `verify`.
    Verify(VerifyRow),
    /// Service whose run of `verify` ended.
    Verified(ServiceKey),
}

/// Last read facts about a service.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Asked {
    /// Failure of Karmada's own propagation of the Service.
    unapplied: Option<Unapplied>,
    verified: verification::Read,
}

impl Default for Asked {
    fn default() -> Self {
        Self {
            unapplied: None,
            verified: Ok(None),
        }
    }
}

/// Changes of clusters that may affect services.
#[derive(Debug, Default, PartialEq, Eq)]
struct Stale {
    all: bool,
    members: BTreeSet<String>,
    namespaces: BTreeSet<String>,
}

impl Live {
    pub(super) fn new(
        server: ServerRow,
        follow: Follow,
        feed: Arc<Feed>,
        notes: mpsc::Sender<Note>,
    ) -> Self {
        let now = Instant::now();
        Self {
            follow,
            queue: Queue::default(),
            stale: Stale::default(),
            feed,
            notes,
            server,
            clusters: BTreeSet::new(),
            asked: HashMap::new(),
            read: None,
            shown: now,
            due: Some(now),
        }
    }

    /// Publishes changes until all senders are gone.
    ///
    /// # Errors
    /// A row that cannot be serialized to JSON. No such row exists.
    pub(super) async fn run(
        mut self,
        mut changes: Changes,
        mut notes: mpsc::Receiver<Note>,
        mut requests: mpsc::Receiver<ServiceKey>,
    ) -> Result<(), serde_json::Error> {
        loop {
            let due = self.due.unwrap_or(self.shown);
            tokio::select! {
                biased;
                () = sleep_until(due), if self.due.is_some() => {
                    // Pending changes are published together.
                    while let Ok(change) = changes.try_recv() {
                        self.apply(change);
                    }
                    while let Ok(key) = requests.try_recv() {
                        self.explain(key);
                    }
                    self.show()?;
                }
                Some(change) = changes.recv() => self.apply(change),
                Some(note) = notes.recv() => self.note(note),
                Some(key) = requests.recv() => self.explain(key),
                else => return Ok(()),
            }
            // Lets the tasks run that send changes and read events.
            tokio::task::yield_now().await;
        }
    }

    /// Queues the report on a service with an open explanation, and reads the facts about it. Drops
    /// older facts about services whose explanations are closed.
    fn explain(&mut self, key: ServiceKey) {
        let open = self.feed.explained();
        self.asked
            .retain(|key, (at, _)| at.elapsed() < ASK_EVERY || open.contains(key));
        self.ask(&key);
        self.queue.soon(key);
        self.schedule();
    }

    fn schedule(&mut self) {
        let next = (self.shown + GATHER).max(Instant::now() + SETTLE);
        self.due.get_or_insert(next);
    }

    fn note(&mut self, note: Note) {
        match note {
            Note::Controller(problem) => {
                let remedy = problem.as_ref().map(|_| lease::REMEDY.to_owned());
                (self.server.problem, self.server.remedy) = (problem, remedy);
                for key in self.feed.explained() {
                    self.queue.soon(key);
                }
                self.schedule();
            }
            Note::Verify(row) => {
                self.server.verify = Some(row);
                self.schedule();
            }
            Note::Verified(key) => self.ask_now(&key),
            Note::Asked(key, begun, asked) => {
                let last = self.asked.get(&key);
                if last.is_some_and(|(at, _)| *at > begun) {
                    // A later read decides.
                    return;
                }
                let now = Instant::now();
                let last = self.asked.insert(key.clone(), (now, asked.clone()));
                if last.is_none_or(|(_, last)| last != asked) {
                    self.queue.soon(key);
                    self.schedule();
                }
            }
        }
    }

    fn apply(&mut self, change: Change) {
        let touched = self.follow.apply(change);
        let is_seen = touched.link
            || touched.nodes
            || touched.paths
            || touched.all
            || !touched.clusters.is_empty()
            || !touched.namespaces.is_empty();
        if is_seen {
            self.schedule();
        }
        let Touched {
            services,
            namespaces,
            clusters,
            all,
            link,
            nodes,
            paths,
            member,
            ..
        } = touched;
        self.stale.all |= all;
        self.stale.namespaces.extend(namespaces);
        self.clusters.extend(clusters);
        match member {
            Some(name) => {
                if link || paths {
                    self.clusters.insert(name.clone());
                }
                if link || nodes || paths {
                    self.stale.members.insert(name);
                }
            }
            None => {
                if link && self.follow.fleet.hub.link.row().connected {
                    self.read.get_or_insert_with(Instant::now);
                    // Reads fail while the hub is away.
                    for key in self.feed.explained() {
                        self.ask_now(&key);
                    }
                }
            }
        }
        self.services_changed(services);
    }

    /// Queues the services that depend on changed Services. `services` names Services and
    /// exposures.
    fn services_changed(&mut self, services: BTreeSet<ServiceKey>) {
        if services.is_empty() {
            return;
        }
        let is_bulk = services.len() > BULK;
        for service in services {
            for key in self.follow.fleet.concerned(service) {
                match is_bulk {
                    true => self.queue.later(key),
                    false => self.queue.soon(key),
                }
            }
        }
        self.schedule();
    }

    /// Queues once the services that the collected changes of clusters may affect.
    fn queue_stale(&mut self) {
        let stale = std::mem::take(&mut self.stale);
        if stale == Stale::default() {
            return;
        }
        for key in self.follow.fleet.exposed() {
            if stale.all
                || stale.namespaces.contains(&*key.namespace)
                || self.follow.fleet.takes_part(&key, &stale.members)
            {
                self.queue.later(key);
            }
        }
    }

    /// Whether reports can begin: hub and members are read, or the wait for members has timed out.
    fn is_open(&self) -> bool {
        let read = self.read.map(|read| read.elapsed());
        let is_late = read.is_some_and(|since| since > MEMBERS_WITHIN);
        let mut members = self.follow.fleet.members.values();
        self.server.synced
            || self.follow.fleet.hub.link.is_tried()
                && self.follow.fleet.hub.link.row().connected
                && (is_late || members.all(|member| member.link.is_tried()))
    }

    /// Publishes changed rows, as many as the time budget allows.
    fn show(&mut self) -> Result<(), serde_json::Error> {
        let begun = Instant::now();
        (self.due, self.shown) = (None, begun);
        let mut update = Update::default();
        self.follow.follow_needed_nodes();
        for name in std::mem::take(&mut self.clusters) {
            let row = self.cluster_row(&name);
            let row = row.as_ref().map(feed::json).transpose()?;
            update.clusters.insert(name, row);
        }
        let is_open = self.is_open();
        if is_open {
            self.queue_stale();
        }
        while is_open && begun.elapsed() < BUDGET {
            let Some(key) = self.queue.next() else {
                break;
            };
            self.report(&key, &mut update)?;
        }
        // The budget may end with the last service, and no later change may follow.
        self.server.synced |= is_open && self.queue.is_empty();
        self.server.connection = self.follow.fleet.hub.link.row().clone();
        update.server = Some(feed::json(&self.server)?);
        self.feed.publish(update)?;
        if !is_open {
            self.due = Some(begun + GATHER);
        } else if !self.queue.is_empty() {
            self.due = Some(Instant::now());
        }
        Ok(())
    }

    fn cluster_row(&self, name: &String) -> Option<ClusterRow> {
        let cluster = self.follow.fleet.hub.clusters.of(name).next()?;
        let report = Report::new(Scope::All, Some(std::slice::from_ref(cluster)), &[]);
        let report = report.members.into_iter().flatten().next()?;
        let member = self.follow.fleet.members.get(name);
        let connection = match member {
            Some(member) => member.link.row().clone(),
            // Members in Pull mode without credentials are not watched.
            None => ConnectionRow {
                connected: true,
                ..ConnectionRow::default()
            },
        };
        let clusters = &self.follow.fleet.hub.clusters;
        let paths = member.into_iter().flat_map(|member| &member.paths);
        let paths = paths.filter(|lease| clusters.has(&lease.source.to_string()));
        Some(ClusterRow::new(cluster, report, connection).with_paths(cluster, paths))
    }

    /// Adds the rows of a service, and sends its explanation if a client is subscribed.
    fn report(&mut self, key: &ServiceKey, update: &mut Update) -> Result<(), serde_json::Error> {
        let rows = [Exposure::Native, Exposure::Clusterset]
            .map(|path| row_key(path, &key.namespace, &key.name));
        let [native, exported] = rows;
        if !self.follow.fleet.exposes(key) {
            update.services.extend([(native, None), (exported, None)]);
            self.feed.show(key, feed::event("gone", "{}"));
            return Ok(());
        }
        let snapshot = self.snapshot(key);
        let mut explanation = explained(&snapshot);
        let row = native_row(&snapshot, &explanation);
        let row = row.as_ref().map(feed::json).transpose()?;
        update.services.insert(native, row);
        let row = exported_row(&self.follow.fleet, key, &explanation);
        let row = row.as_ref().map(feed::json).transpose()?;
        update.services.insert(exported, row);
        if self.feed.is_explained(key) {
            if let Some(problem) = &self.server.problem {
                explanation.add(not_running(problem));
            }
            let asked = self.asked.get(key).map(|(_, asked)| asked.clone());
            let verified = asked.unwrap_or_default().verified;
            let data = serde_json::to_string(&Answer::new(&explanation, &verified))?;
            self.feed.show(key, feed::event("explain", &data));
            self.ask(key);
        }
        Ok(())
    }

    fn snapshot(&self, key: &ServiceKey) -> Snapshot {
        let asked = self.asked.get(key);
        Snapshot {
            unapplied: asked.and_then(|(_, asked)| asked.unapplied.clone()),
            ..self.follow.fleet.snapshot(key)
        }
    }

    /// Reads the facts that no watch provides, unless the last read is younger than [`ASK_EVERY`].
    fn ask(&mut self, key: &ServiceKey) {
        let last = self.asked.get(key);
        if last.is_some_and(|(at, _)| at.elapsed() < ASK_EVERY) {
            return;
        }
        self.ask_now(key);
    }

    fn ask_now(&mut self, key: &ServiceKey) {
        let last = self.asked.get(key);
        let known = last.map(|(_, known)| known.clone()).unwrap_or_default();
        let is_karmada = self.follow.fleet.hub.karmada;
        let unapplied = known.unapplied.clone();
        let begun = Instant::now();
        self.asked.insert(key.clone(), (begun, known));
        let (hub, notes) = (self.follow.server().clone(), self.notes.clone());
        let key = key.clone();
        tokio::spawn(async move {
            let unapplied = match is_karmada {
                // The last value remains after a failed read.
                true => binding::unapplied(&hub, &key).await.unwrap_or(unapplied),
                false => None,
            };
            let verified = Verification::read(&hub, &key).await;
            let asked = Asked {
                unapplied,
                verified,
            };
            notes.send(Note::Asked(key, begun, asked)).await.ok();
        });
    }
}

fn native_row(snapshot: &Snapshot, explanation: &Explanation) -> Option<ServiceRow> {
    let mcs = snapshot.mcs.as_ref()?;
    let mut observations = Observations::new();
    if is_karmadas(mcs) {
        let observed = Observed {
            health: Some(health(snapshot, explanation)),
            ..Observed::default()
        };
        observations.insert(snapshot.key.clone(), observed);
    }
    // The explanation contains the participating clusters.
    let report = Report::new(Scope::One, None, std::slice::from_ref(mcs));
    let services = report.with_karmadas(&observations).services;
    let report = services.into_iter().next()?;
    let mut row = ServiceRow::native(report, explanation);
    if is_karmadas(mcs) && explanation.is_wrong_only_where_unread() {
        // The page shows a ready service as unknown if all its problems are unread parts.
        row.state = State::Ready;
    }
    Some(row)
}

/// Returns the row of an exported service. While all members with an export or import of it are
/// unread, the row has their last observed objects.
fn exported_row(fleet: &Fleet, key: &ServiceKey, explanation: &Explanation) -> Option<ServiceRow> {
    if !fleet.is_exported(key) {
        return None;
    }
    let readings = fleet.readings(key);
    if let Some(report) = exported_report(&readings) {
        return Some(ServiceRow::exported(report, explanation));
    }
    let (readings, lost) = fleet.last_readings(key, readings);
    let report = exported_report(&readings)?;
    Some(ServiceRow::lost(report, explanation, &lost))
}

fn exported_report(readings: &Readings) -> Option<ExportedReport> {
    clusterset::exported(readings).into_iter().next()
}

#[cfg(test)]
mod tests {
    use causeway_engine::reasons::Reason;
    use kube::ResourceExt as _;
    use kube::runtime::watcher::Event;
    use serde_json::json;

    use super::*;
    use crate::cluster::access::Side;
    use crate::fixtures::{cross, export, exported, ready, service, unreachable};
    use crate::golden;
    use crate::observe::connect::ConnectError;
    use crate::observe::fixtures::healthy;
    use crate::observe::follow::follow;
    use crate::observe::hub::Hub;
    use crate::observe::link::Kind;
    use crate::observe::member::Member;
    use crate::observe::scope;

    #[tokio::test]
    async fn facts_are_read_again_when_the_hub_is_back() {
        let begun = Instant::now();
        let (follow, _changes) = follow(unreachable(Side::Hub), scope::Scope::default());
        let (feed, _requests) = Feed::new();
        let feed = Arc::new(feed);
        let (sender, _notes) = mpsc::channel(1);
        let mut live = Live::new(ServerRow::default(), follow, feed.clone(), sender);
        let key = ServiceKey::new("shop", "foo");
        let _open = feed.explain(key.clone()).await;
        let back = |hub: &mut Hub| {
            hub.link.begin(&[Kind::Service]);
            Touched {
                link: hub.link.listed(Kind::Service),
                ..Touched::default()
            }
        };
        live.apply(Change::Hub(Box::new(back)));
        assert!(live.asked.contains_key(&key), "a read has begun");
        let failed = Asked {
            verified: Err("no answer".to_owned()),
            ..Asked::default()
        };
        for (begun, known) in [(begun, Asked::default()), (Instant::now(), failed.clone())] {
            live.note(Note::Asked(key.clone(), begun, failed.clone()));
            assert_eq!(live.asked[&key].1, known);
        }
    }

    #[test]
    fn exported_service_of_lost_members_remains_and_is_unread() {
        let key = ServiceKey::new("shop", "foo");
        let of_export = || {
            let mut member = Member::new(1);
            let exported = export("foo", exported());
            member.exports.apply(Event::Apply(exported));
            member
        };
        let mut refusing = of_export();
        refusing.link.begin(&[Kind::ServiceExport]);
        let why = ConnectError::NotAllowed("serviceexports is forbidden".to_owned());
        refusing.exports.serve(Err(why));
        refusing.link.listed(Kind::ServiceExport);
        let mut snapshot = healthy();
        snapshot.mcs = None;
        for name in ["a", "b"] {
            let why = ConnectError::Timeout(5);
            snapshot.members.insert(name.to_owned(), Err(why));
        }
        for member in [of_export(), refusing] {
            let mut fleet = Fleet::default();
            fleet.members.insert("a".to_owned(), member);
            fleet.members.insert("b".to_owned(), Member::new(2));
            let row = exported_row(&fleet, &key, &explained(&snapshot)).expect("a row");
            assert_eq!(row.state, State::Ready);
            assert_eq!(row.address, "foo.shop.svc.clusterset.local");
            let of_providers = row.providers.iter().flat_map(|one| &one.problem);
            let problems = row.problems.iter().chain(of_providers);
            let reasons: Vec<_> = problems.map(|one| one.reason).collect();
            assert_eq!(reasons, [Reason::MemberNotRead; 2], "{row:#?}");
            fleet.members.remove("a");
            assert!(exported_row(&fleet, &key, &explained(&snapshot)).is_none());
        }
    }

    #[test]
    fn unread_members_leave_a_row_of_karmadas_service_unknown() {
        let conditions = json!([ready("False", "ManagedByKarmada", "Works exist")]);
        let mut snapshot = healthy();
        let managed = snapshot.mcs.as_mut().expect("it");
        managed.status = service("foo", cross(&["a"], &["b"]), conditions).status;
        let late = Err(ConnectError::Timeout(5));
        snapshot.members.insert("b".to_owned(), late);
        let row = native_row(&snapshot, &explained(&snapshot)).expect("a row");
        assert_eq!(row.state, State::Ready);
        let of_consumers = row.consumers.iter().flat_map(|one| &one.problem);
        let problems = row.problems.iter().chain(of_consumers);
        let reasons: Vec<_> = problems.map(|one| one.reason).collect();
        assert_eq!(reasons, [Reason::MemberNotRead], "{row:#?}");
        snapshot.annotate("a", "mcs.causeway.dev/withdraw", "true");
        let row = native_row(&snapshot, &explained(&snapshot)).expect("a row");
        assert_eq!(row.state, State::NotReady);
    }

    #[test]
    fn golden_rows_of_the_page_are_kept() {
        golden::check_states("ui", |snapshot| {
            let mut explanation = explained(snapshot);
            let native = native_row(snapshot, &explanation);
            let exported = exported_report(&snapshot.members)
                .map(|report| ServiceRow::exported(report, &explanation));
            let clusters: Vec<_> = snapshot
                .clusters
                .iter()
                .filter_map(|cluster| {
                    let report = Report::new(Scope::All, Some(std::slice::from_ref(cluster)), &[]);
                    let report = report.members.into_iter().flatten().next()?;
                    let held = snapshot.members.get(&cluster.name_any());
                    let paths = held.into_iter().flatten().flat_map(|held| &held.paths);
                    let row = ClusterRow::new(cluster, report, ConnectionRow::default());
                    Some(row.with_paths(cluster, paths))
                })
                .collect();
            explanation.add(not_running("nobody holds the Lease"));
            let rows = serde_json::json!({
                "native": native, "exported": exported, "clusters": clusters, "explain": explanation,
            });
            golden::both("", &rows)
        });
    }
}
