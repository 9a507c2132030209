//! `kubectl mcs status -w`: first all, then what changes, as `kubectl get -w` does it.
//!
//! Everything comes from watches: of the hub's MultiClusterServices and Clusters, and of the ServiceExports and ServiceImports there and in
//! each member; each kind is listed once. What no watch shows, how the members hold a service that Karmada manages, is read when its
//! MultiClusterService changes.

mod changes;
mod follower;

use std::collections::{BTreeMap, BTreeSet};

use causeway::api::multicluster::{ServiceExport, ServiceImport};
use causeway::api::{Cluster, MultiClusterService};
use futures::{Stream, StreamExt as _, pin_mut};
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt as _;
use kube::runtime::watcher::Event;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout_at};

use self::changes::Printer;
use self::follower::{Follower, MemberChange};
use super::mirror::Mirror;
use super::{Query, Snapshot, StatusError, karmada, members, misplaced};
use crate::api_server::RequestError;
use crate::connectivity::{self, READ_WITHIN};
use crate::exit::ExitState;
use crate::output::{self, Reader};
use crate::screen::Screen;
use crate::watches::{self, Broken, ClustersetKind};

/// Changes that wait to be shown; a watch that has more waits.
const WAITING: usize = 1024;

/// What a watch says.
enum Change {
    Service(Result<Event<MultiClusterService>, Broken>),
    Cluster(Result<Event<Cluster>, Broken>),
    HubExport(Event<ServiceExport>),
    HubImport(Event<ServiceImport>),
    /// Of a member, from the follower of this number.
    Member(String, u64, MemberChange),
}

/// Shows the status and what changes of it, until nobody reads it any more.
pub(super) async fn run(query: &Query<'_>) -> Result<ExitState, StatusError> {
    let screen = Screen::stdout(query.args.color.color);
    let format = query.args.output.format;
    let mut printer = Printer::new(format, screen);
    let (sender, mut received) = mpsc::channel(WAITING);
    let mut live = Live::new(query, sender);
    let _watches = live.watch_hub();
    live.read(&mut received).await?;
    let first = query.report(&live.snapshot);
    query.found(&first)?;
    let mut reader = output::stream(&printer.next(&first, Timestamp::now())?, format, screen)?;
    query.note_empty(&first)?;
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
            reader = output::stream(&text, format, screen)?;
        }
    }
    Ok(ExitState::Good)
}

/// Tasks that end with their owner.
struct Watches([JoinHandle<()>; 4]);

impl Drop for Watches {
    fn drop(&mut self) {
        self.0.iter().for_each(JoinHandle::abort);
    }
}

/// The objects that a status rests on, kept up by watches.
struct Live<'a> {
    query: &'a Query<'a>,
    snapshot: Snapshot,
    hub_exports: Mirror<ServiceExport>,
    hub_imports: Mirror<ServiceImport>,
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
    fn new(query: &'a Query<'a>, sender: mpsc::Sender<Change>) -> Self {
        Self {
            query,
            snapshot: Snapshot::new(Mirror::default(), Some(Mirror::default())),
            hub_exports: Mirror::default(),
            hub_imports: Mirror::default(),
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

    fn watch_hub(&self) -> Watches {
        let (query, hub) = (self.query, &self.query.hub);
        let by_name = watches::selected(query.selection().by_name());
        let services = watches::events(hub, query.services(), by_name);
        let clusters = watches::events(hub, query.clusters(), watches::selected(None));
        Watches([
            self.forward(services.map(Change::Service)),
            self.forward(clusters.map(Change::Cluster)),
            self.forward_served(Change::HubExport),
            self.forward_served(Change::HubImport),
        ])
    }

    fn forward(&self, changes: impl Stream<Item = Change> + Send + 'static) -> JoinHandle<()> {
        let sender = self.sender.clone();
        tokio::spawn(async move {
            pin_mut!(changes);
            while let Some(change) = changes.next().await {
                if sender.send(change).await.is_err() {
                    return;
                }
            }
        })
    }

    /// What somebody exports or imports on the hub. Where it serves no such kind, or the person may not see it, there is nothing.
    fn forward_served<K>(&self, change: fn(Event<K>) -> Change) -> JoinHandle<()>
    where
        K: ClustersetKind,
    {
        let (hub, selection) = (self.query.hub.clone(), self.query.selection());
        let sender = self.sender.clone();
        tokio::spawn(async move {
            if let Ok(Some(version)) = watches::served::<K>(&hub).await {
                let events = selection.events::<K>(&hub, version);
                pin_mut!(events);
                while let Some(event) = events.next().await {
                    match event {
                        Ok(event) => {
                            if sender.send(change(event)).await.is_err() {
                                return;
                            }
                        }
                        Err(broken) if broken.is_refusal() => break,
                        Err(_) => {}
                    }
                }
            }
            for event in [Event::Init, Event::InitDone] {
                sender.send(change(event)).await.ok();
            }
        })
    }

    /// Reads all for the first time: the hub, then the members, as far as they answer within 5 seconds.
    async fn read(&mut self, received: &mut mpsc::Receiver<Change>) -> Result<(), StatusError> {
        let by = Instant::now() + self.query.hub.answer_within;
        while !self.is_listed() {
            match timeout_at(by, received.recv()).await {
                Ok(Some(change)) => self.take(change)?,
                Ok(None) | Err(_) => return Err(self.query.hub.late().into()),
            }
        }
        self.settle().await;
        let by = Instant::now() + READ_WITHIN;
        while self.followers.values().any(|one| one.reading().is_none()) {
            match timeout_at(by, received.recv()).await {
                Ok(Some(change)) => self.take(change)?,
                Ok(None) | Err(_) => break,
            }
        }
        for (name, follower) in &self.followers {
            let reading = follower.reading();
            let reading = reading.unwrap_or_else(|| Err(connectivity::late()));
            self.snapshot.readings.insert(name.clone(), reading);
        }
        Ok(())
    }

    /// Whether it is known what the hub holds.
    fn is_listed(&self) -> bool {
        let clusters = self.snapshot.clusters.as_ref();
        self.snapshot.services.is_listed()
            && clusters.is_none_or(Mirror::is_listed)
            && self.hub_exports.is_listed()
            && self.hub_imports.is_listed()
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
                let (hub, selection) = (self.query.hub.clone(), self.query.selection());
                let (sender, number) = (self.sender.clone(), self.numbered);
                let report = move |name: String, change| {
                    let sender = sender.clone();
                    async move {
                        let change = Change::Member(name, number, change);
                        sender.send(change).await.is_ok()
                    }
                };
                let follower = Follower::start(number, hub, cluster, selection, report);
                match held {
                    Some(held) => follower.with_held(held),
                    None => follower,
                }
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
            Change::Service(Err(broken)) => match broken.why {
                RequestError::NotFound { .. } => return Err(StatusError::NoApi),
                why => self.failed(why, self.snapshot.services.is_listed())?,
            },
            Change::Cluster(Ok(event)) => {
                self.clusters_changed |= !matches!(event, Event::Init | Event::InitApply(_));
                if let Some(clusters) = &mut self.snapshot.clusters {
                    clusters.take(event);
                }
            }
            Change::Cluster(Err(broken)) => self.clusters_failed(broken)?,
            Change::HubExport(event) => {
                self.hub_changed |= !matches!(event, Event::Init | Event::InitApply(_));
                self.hub_exports.take(event);
            }
            Change::HubImport(event) => {
                self.hub_changed |= !matches!(event, Event::Init | Event::InitApply(_));
                self.hub_imports.take(event);
            }
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

    /// Who may not list Clusters sees none; where the hub serves none, there is none.
    fn clusters_failed(&mut self, broken: Broken) -> Result<(), StatusError> {
        let Some(clusters) = &mut self.snapshot.clusters else {
            return Ok(());
        };
        match broken.why {
            RequestError::NotFound { .. } => *clusters = Mirror::of(Vec::new()),
            RequestError::NotAllowed { .. } if !clusters.is_listed() => {
                self.snapshot.clusters = None;
            }
            why => {
                let is_listed = clusters.is_listed();
                self.failed(why, is_listed)?;
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
        let selection = self.query.selection();
        if std::mem::take(&mut self.services_changed) {
            let services = self.snapshot.services.objects();
            let insecure = selection.allow_insecure;
            self.snapshot.karmadas = karmada::read(hub, &services, false, insecure).await;
        }
        if std::mem::take(&mut self.hub_changed)
            && let Some(clusters) = &self.snapshot.clusters
        {
            let (exports, imports) = (self.hub_exports.objects(), self.hub_imports.objects());
            let read = misplaced::among(hub, &clusters.objects(), &exports, &imports).await;
            self.snapshot.unknown.clear();
            self.snapshot.misplaced =
                read.unwrap_or_else(|why| self.snapshot.unknown(super::MISPLACED, &why));
        }
    }

    /// A watch of the hub that is refused, or never listed anything, ends the command; another failure is noted, and the watch begins
    /// again.
    fn failed(&mut self, why: RequestError, is_listed: bool) -> Result<(), StatusError> {
        if !is_listed || matches!(why, RequestError::NotAllowed { .. }) {
            return Err(why.into());
        }
        let why = why.to_string();
        if why != self.failure {
            output::progress(format_args!("a watch failed, trying again: {why}"))?;
            self.failure = why;
        }
        Ok(())
    }
}
