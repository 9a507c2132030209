//! `kubectl mcs status -w`: first all, then what changes, as `kubectl get -w` does it.
//!
//! Everything comes from watches: of the hub's MultiClusterServices and Clusters, and of the ServiceExports and ServiceImports in each member.
//! What no watch shows, how the members hold a service that Karmada manages, is read again when its MultiClusterService changes.

mod changes;
mod follower;

use std::collections::{BTreeMap, BTreeSet};

use causeway::api::multicluster::{ServiceExport, ServiceImport};
use causeway::api::{Cluster, MultiClusterService};
use futures::{Stream, StreamExt as _};
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt as _;
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{self, Event, watcher};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use self::changes::Printer;
use self::follower::{Follower, MemberChange, events_of};
use super::{Query, Snapshot, StatusError, karmada, members, misplaced};
use crate::api_server::{RequestError, root_cause};
use crate::output::{self, Reader};
use crate::screen::Screen;

/// Changes that wait to be shown; a watch that has more waits.
const WAITING: usize = 1024;

/// What a watch says.
enum Change {
    Service(Result<Event<MultiClusterService>, watcher::Error>),
    Cluster(Result<Event<Cluster>, watcher::Error>),
    /// A ServiceExport or ServiceImport on the hub.
    OnHub,
    /// Of a member, from the follower of this number.
    Member(String, u64, MemberChange),
}

/// Shows the status and what changes of it, until nobody reads it any more.
pub(super) async fn run(query: &Query<'_>, snapshot: Snapshot) -> Result<bool, StatusError> {
    let screen = Screen::stdout(query.args.color.color);
    let mut printer = Printer::new(query.args.output.format, screen);
    let first = query.report(&snapshot);
    query.found(&first)?;
    let mut reader = output::stream(&printer.next(&first, Timestamp::now())?)?;
    query.note_empty(&first)?;
    let (sender, mut received) = mpsc::channel(WAITING);
    let mut live = Live::new(query, snapshot, sender);
    let _watches = live.watch_hub().await;
    live.engage();
    while reader == Reader::Reads {
        let Some(change) = received.recv().await else {
            break;
        };
        live.take(change)?;
        while let Ok(change) = received.try_recv() {
            live.take(change)?;
        }
        live.settle().await;
        let report = query.report(&live.snapshot);
        let text = printer.next(&report, Timestamp::now())?;
        if !text.is_empty() {
            reader = output::stream(&text)?;
        }
    }
    Ok(true)
}

/// Tasks that end with their owner.
struct Watches(Vec<JoinHandle<()>>);

impl Drop for Watches {
    fn drop(&mut self) {
        self.0.iter().for_each(JoinHandle::abort);
    }
}

/// The objects that a status rests on, kept up by watches.
struct Live<'a> {
    query: &'a Query<'a>,
    snapshot: Snapshot,
    sender: mpsc::Sender<Change>,
    followers: BTreeMap<String, Follower>,
    /// How many followers there have been.
    numbered: u64,
    /// The members of which something changed.
    touched: BTreeSet<String>,
    services_changed: bool,
    clusters_changed: bool,
    hub_changed: bool,
    /// Why a watch of the hub failed last.
    failure: String,
}

impl<'a> Live<'a> {
    fn new(query: &'a Query<'a>, snapshot: Snapshot, sender: mpsc::Sender<Change>) -> Self {
        Self {
            query,
            snapshot,
            sender,
            followers: BTreeMap::new(),
            numbered: 0,
            touched: BTreeSet::new(),
            services_changed: false,
            clusters_changed: false,
            hub_changed: false,
            failure: String::new(),
        }
    }

    /// Watches the hub. What somebody exports there is watched where the hub serves it and the person may see it.
    async fn watch_hub(&self) -> Watches {
        let config = watcher::Config {
            field_selector: self.query.by_name(),
            ..watcher::Config::default()
        };
        let services = watcher(self.query.services(), config).default_backoff();
        let mut watches = vec![self.forward(services.map(Change::Service))];
        if self.snapshot.clusters.is_none() {
            return Watches(watches);
        }
        let clusters = watcher(self.query.clusters(), watcher::Config::default());
        let clusters = clusters.default_backoff();
        watches.push(self.forward(clusters.map(Change::Cluster)));
        let (hub, wanted) = (&self.query.hub, self.query.wanted());
        if let Ok(Some((version, _))) = wanted.served_in::<ServiceExport>(hub).await {
            let exports = events_of::<ServiceExport>(hub, version, &wanted);
            watches.push(self.forward(exports.map(|_| Change::OnHub)));
        }
        if let Ok(Some((version, _))) = wanted.served_in::<ServiceImport>(hub).await {
            let imports = events_of::<ServiceImport>(hub, version, &wanted);
            watches.push(self.forward(imports.map(|_| Change::OnHub)));
        }
        Watches(watches)
    }

    fn forward(&self, changes: impl Stream<Item = Change> + Send + 'static) -> JoinHandle<()> {
        let sender = self.sender.clone();
        tokio::spawn(async move {
            futures::pin_mut!(changes);
            while let Some(change) = changes.next().await {
                if sender.send(change).await.is_err() {
                    return;
                }
            }
        })
    }

    /// Follows the members that take part as their Clusters are now; one whose Cluster changed is connected again.
    fn engage(&mut self) {
        let clusters = self.snapshot.clusters.as_ref();
        let clusters = clusters.map(|clusters| clusters.objects());
        let parts = clusters.into_iter().flatten().filter(members::takes_part);
        let mut former = std::mem::take(&mut self.followers);
        for cluster in parts {
            let name = cluster.name_any();
            let same = former.remove(&name).filter(|one| one.is_for(&cluster));
            let follower = same.unwrap_or_else(|| {
                self.numbered += 1;
                let held = self.snapshot.readings.get(&name);
                let held = held.and_then(|reading| reading.as_ref().ok());
                let (hub, wanted) = (self.query.hub.clone(), self.query.wanted());
                let (sender, number) = (self.sender.clone(), self.numbered);
                let report = move |name: String, change| {
                    let sender = sender.clone();
                    async move {
                        let change = Change::Member(name, number, change);
                        sender.send(change).await.is_ok()
                    }
                };
                Follower::start(number, hub, cluster, wanted, held, report)
            });
            self.followers.insert(name, follower);
        }
        let followers = &self.followers;
        let readings = &mut self.snapshot.readings;
        readings.retain(|name, _| followers.contains_key(name));
    }

    fn take(&mut self, change: Change) -> Result<(), StatusError> {
        match change {
            Change::Service(Ok(event)) => {
                self.services_changed |= !matches!(event, Event::Init | Event::InitApply(_));
                self.snapshot.services.take(event);
            }
            Change::Cluster(Ok(event)) => {
                self.clusters_changed |= !matches!(event, Event::Init | Event::InitApply(_));
                if let Some(clusters) = &mut self.snapshot.clusters {
                    clusters.take(event);
                }
            }
            Change::Service(Err(error)) | Change::Cluster(Err(error)) => self.failed(&error)?,
            Change::OnHub => self.hub_changed = true,
            Change::Member(name, number, change) => {
                let follower = self.followers.get_mut(&name);
                if let Some(follower) = follower.filter(|one| one.number() == number) {
                    follower.take(change);
                    self.touched.insert(name);
                }
            }
        }
        Ok(())
    }

    /// Brings what rests on several objects up to date.
    async fn settle(&mut self) {
        if std::mem::take(&mut self.clusters_changed) {
            self.engage();
            self.hub_changed = true;
        }
        for name in std::mem::take(&mut self.touched) {
            let reading = self.followers.get(&name).and_then(Follower::reading);
            if let Some(reading) = reading {
                self.snapshot.readings.insert(name, reading);
            }
        }
        let hub = &self.query.hub;
        let wanted = self.query.wanted();
        if std::mem::take(&mut self.services_changed) {
            let services = self.snapshot.services.objects();
            let insecure = wanted.allow_insecure;
            self.snapshot.karmadas = karmada::read(hub, &services, false, insecure).await;
        }
        if std::mem::take(&mut self.hub_changed)
            && let Some(clusters) = &self.snapshot.clusters
        {
            let read = misplaced::read(hub, &clusters.objects(), &wanted).await;
            self.snapshot.misplaced = read.unwrap_or_default();
        }
    }

    /// A watch of the hub that is refused ends the command; another failure is noted, and the watch begins again.
    fn failed(&mut self, error: &watcher::Error) -> Result<(), StatusError> {
        if let Some(refused @ RequestError::NotAllowed { .. }) =
            follower::failure(&self.query.hub, error)
        {
            return Err(refused.into());
        }
        let why = root_cause(error);
        if why != self.failure {
            output::progress(format_args!("a watch failed, trying again: {why}"))?;
            self.failure = why;
        }
        Ok(())
    }
}
