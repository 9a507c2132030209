//! Reaches one member: who it is, what it holds, and whether it answers.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use causeway::api::multicluster::{ServiceExport, ServiceImport};
use causeway::api::{bounds, labels};
use causeway::domain::path::{self, PathLease};
use causeway::domain::{ClusterName, KubernetesVersion};
use causeway::process::backoff::Backoff;
use causeway_engine::model::served::Served;
use causeway_engine::model::slice::{
    ObservedSlice, ServiceNames, SliceDecoder, SliceScope, WireSlice,
};
use causeway_engine::model::{
    Failure, FailureKind, Generation, Identity, MemberEvent, ObservedNode,
};
use futures::FutureExt;
use futures::future::pending;
use http::HeaderValue;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Namespace, Node, Service};
use kube::core::PartialObjectMeta;
use kube::{Api, Client, Resource};
use prometheus_client::metrics::counter::Counter;
use serde::de::DeserializeOwned;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at, sleep, timeout};

use crate::event::Event;
use crate::failure::Classify as _;
use crate::lookup::cluster_uid;
use crate::watch as watches;
use crate::watch::{Connect, Decoder, Json, RelistRequests, Scope, SharedGuard, Watch};

mod bounded;
mod cluster_id;
mod connection;
mod discovery;
mod pace;

use self::cluster_id::LastId;
pub use self::connection::Connector;
use self::discovery::Discovery;
use self::pace::Pace;

/// Settings of the watches of a member.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The time between two probes. After a failure the next one comes sooner.
    pub probe_every: Duration,
    /// Maximum time of a probe.
    pub probe_deadline: Duration,
    /// After how long the definition of ServiceImport is read again although it is served as
    /// before, and the member's id in its clusterset.
    pub schema_every: Duration,
    /// The patience of the watches.
    pub watch: watches::Settings,
    /// Counts the objects that cannot be read.
    pub unreadable: Counter,
    /// User agent of the clients.
    pub agent: HeaderValue,
}

/// User agent of the clients of a controller without a name.
const NAMELESS: &str = concat!("causeway-controller/", env!("CARGO_PKG_VERSION"));

impl Default for Settings {
    fn default() -> Self {
        Self {
            probe_every: Duration::from_secs(10),
            probe_deadline: Duration::from_secs(5),
            schema_every: Duration::from_secs(600),
            watch: watches::Settings::default(),
            unreadable: Counter::default(),
            agent: HeaderValue::from_static(NAMELESS),
        }
    }
}

/// One in so many probes asks for the version, too, and each that is answered after one that was
/// not.
const VERSION_EVERY: u32 = 3;

/// Maximum time of a request for the member's id. Nothing waits for it, and many members start at
/// once.
const ID_DEADLINE: Duration = Duration::from_secs(30);

/// After how long a schema that is about to be published is looked for again.
const SCHEMA_AGAIN: Duration = Duration::from_secs(1);

/// A member whose watches report to the controller.
pub struct Member {
    /// Name of its Cluster.
    pub name: ClusterName,
    /// Client of its API server.
    pub client: Client,
    /// Makes another client for it, for a thread of its own.
    pub connect: Connect,
    /// Generation of its engagement, which every event carries.
    pub generation: Generation,
    /// Receiver of what is observed.
    pub events: mpsc::Sender<Event>,
    /// Requests to list again.
    pub relist_requests: watch::Receiver<RelistRequests>,
    /// Whether its Nodes are needed.
    pub needs_nodes: watch::Receiver<bool>,
    /// Whether the reports of causeway-agent are needed.
    pub needs_paths: watch::Receiver<bool>,
    /// Scope of the watches of its EndpointSlices, once it is known.
    pub slice_scope: watch::Receiver<Option<SliceScope>>,
    /// Settings of all members.
    pub settings: Settings,
}

impl Member {
    /// Reports the state of the member until the receiver is gone or the future is dropped. Its
    /// watches list when `relist_requests` change.
    ///
    /// The member's identity is read first. Then its Services, EndpointSlices and Namespaces are
    /// watched, its ServiceExports and ServiceImports as long as it serves them, and its Nodes as
    /// long as they are needed. A small request every few seconds detects a server that hangs or
    /// serves more than before, which a watch alone does not show. If another cluster answers,
    /// everything begins again.
    pub async fn run(self) {
        let mut health = Health::default();
        let mut identified = self.identify(&mut health).await;
        while let Some(identity) = identified {
            let (reconnect, reconnections) = watch::channel(Instant::now());
            identified = tokio::select! {
                () = self.watch(reconnections.clone()) => None,
                () = self.follow_nodes(reconnections.clone()) => None,
                () = self.follow_paths(reconnections.clone()) => None,
                () = self.follow_clusterset(&identity.uid, reconnections) => None,
                () = self.follow_id(&identity.uid) => None,
                another = self.probe(&mut health, identity.clone(), reconnect) => match another {
                    Some(identity) => self.tell_identity(identity).await,
                    None => None,
                },
            };
        }
    }

    /// Asks until it is known who the member is, and tells it; `None` when nobody listens any more.
    async fn identify(&self, health: &mut Health) -> Option<Identity> {
        let watch = &self.settings.watch;
        let mut backoff = Backoff::new(watch.first_retry, watch.last_retry.min(pace::LONGEST));
        loop {
            match self.ask_identity().await {
                Ok(identity) => {
                    let identity = self.tell_identity(identity).await?;
                    self.tell_health(health.answered()).await?;
                    return Some(identity);
                }
                Err(failure) => {
                    self.tell_health(health.failed(failure)).await?;
                    sleep(backoff.pause()).await;
                }
            }
        }
    }

    async fn ask_identity(&self) -> Result<Identity, Failure> {
        let uid = self.ask_uid().await?;
        self.ask_version(uid).await
    }

    /// The cluster of this UID, in the version that it gives now.
    async fn ask_version(&self, uid: String) -> Result<Identity, Failure> {
        let version = timeout(
            self.settings.probe_deadline,
            self.client.apiserver_version(),
        )
        .await;
        let version = version.map_err(|_| Failure::timeout())?.classified()?;
        // Without a version the member is unknown: that of an old one would withdraw its endpoints.
        let unread = || Failure::new(FailureKind::Other, "its /version names no release");
        Ok(Identity {
            uid,
            release: KubernetesVersion::of(&version).ok_or_else(unread)?,
            version: bounds::foreign(&version.git_version),
        })
    }

    async fn ask_uid(&self) -> Result<String, Failure> {
        cluster_uid(&self.client, self.settings.probe_deadline).await
    }

    /// Probes until nobody listens any more, or another cluster answers. A member that answers
    /// again has its watches connect again at once, but for those that connected after the last
    /// probe that failed. Now and then a probe also asks for the version, for an upgrade behind a
    /// load balancer need not fail any probe.
    async fn probe(
        &self,
        health: &mut Health,
        mut identity: Identity,
        reconnect: watch::Sender<Instant>,
    ) -> Option<Identity> {
        let pace = Pace::new(self.settings.probe_every);
        let mut pause = self.settings.probe_every;
        let mut probes = 0_u32;
        let mut failed_at = Instant::now();
        loop {
            sleep(pause).await;
            let begun = Instant::now();
            probes = probes.wrapping_add(1);
            let may_differ = health.misses > 0 || probes.is_multiple_of(VERSION_EVERY);
            let change = match self.ask_uid().await {
                Ok(uid) if uid != identity.uid => match self.ask_version(uid).await {
                    Ok(another) => return Some(another),
                    Err(failure) => health.failed(failure),
                },
                Ok(uid) => {
                    // It answers, whether or not it gives its version.
                    if may_differ
                        && let Ok(now) = self.ask_version(uid).await
                        && now != identity
                    {
                        identity = now.clone();
                        self.tell(MemberEvent::VersionChanged(now)).await?;
                    }
                    health.answered()
                }
                Err(failure) => health.failed(failure),
            };
            if health.misses > 0 {
                failed_at = Instant::now();
            }
            if matches!(change, Some(Ok(()))) {
                reconnect.send_replace(failed_at);
            }
            self.tell_health(change).await?;
            pause = pace.pause(health.misses, begun.elapsed());
        }
    }

    /// Ticks of the probes' pace, the first after a while.
    fn ticks(&self, first: Duration) -> Interval {
        let mut ticks = interval_at(Instant::now() + first, self.settings.probe_every);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        ticks
    }

    fn watch_of<K>(&self, api: Api<K>, reconnections: &watch::Receiver<Instant>) -> Watch<K>
    where
        K: Resource<DynamicType: Default> + DeserializeOwned + Debug + Send + 'static,
    {
        self.watch_by(Json, api, reconnections)
    }

    fn watch_by<K, D>(
        &self,
        decoder: D,
        api: Api<K>,
        reconnections: &watch::Receiver<Instant>,
    ) -> Watch<K, D>
    where
        K: Resource<DynamicType: Default> + Debug + Send + 'static,
        D: Decoder<K>,
    {
        Watch {
            cluster: self.name.as_str().into(),
            reconnect: Some(reconnections.clone()),
            relist_requests: Some(self.relist_requests.clone()),
            connect: Some(self.connect.clone()),
            unreadable: self.settings.unreadable.clone(),
            ..Watch::read_by(decoder, api, self.settings.watch.clone())
        }
    }

    /// Watches until nobody listens any more.
    async fn watch(&self, reconnections: watch::Receiver<Instant>) {
        let of = |event| self.event(event);
        let services = Watch {
            never_empty: true,
            ..self.watch_of(Api::<Service>::all(self.client.clone()), &reconnections)
        };
        let services = services.run(
            |service| service,
            |signal| of(MemberEvent::Services(signal)),
            self.events.clone(),
        );
        let slices = self.follow_slices(&reconnections);
        let namespaces = Api::<PartialObjectMeta<Namespace>>::all(self.client.clone());
        let namespaces = Watch {
            metadata_only: true,
            never_empty: true,
            ..self.watch_of(namespaces, &reconnections)
        };
        let namespaces = namespaces.run(
            whole_namespace,
            |signal| of(MemberEvent::Namespaces(signal)),
            self.events.clone(),
        );
        tokio::join!(services, slices, namespaces);
    }

    /// Watches the EndpointSlices of the scope until nobody listens any more. Other watches begin
    /// if the scope becomes that of all, or of some.
    async fn follow_slices(&self, reconnections: &watch::Receiver<Instant>) {
        let mut scopes = self.slice_scope.clone();
        let mut last = None;
        loop {
            let known = scopes.wait_for(Option::is_some).await;
            // Nobody can request another scope any more.
            let Some(scope) = known.ok().and_then(|scope| scope.clone()).or(last) else {
                return pending().await;
            };
            last = Some(scope.clone());
            let is_named = |scope: &SliceScope| matches!(scope, SliceScope::Named(_));
            let was_named = is_named(&scope);
            let other = |now: &Option<SliceScope>| {
                now.as_ref().is_some_and(|now| is_named(now) != was_named)
            };
            let begun = MemberEvent::SliceScope(scope.clone());
            if self.tell(begun).await.is_none() {
                return;
            }
            let all = match scope {
                SliceScope::All => Box::pin(self.watch_all_slices(reconnections)).left_future(),
                SliceScope::Named(names) => {
                    Box::pin(self.watch_named_slices(names, reconnections)).right_future()
                }
            };
            tokio::select! {
                () = all => return,
                Ok(_) = scopes.wait_for(other) => {}
            }
        }
    }

    async fn watch_all_slices(&self, reconnections: &watch::Receiver<Instant>) {
        let api = Api::<WireSlice>::all(self.client.clone());
        let watch = self.watch_by(SliceDecoder::default(), api, reconnections);
        let wrap = |signal| self.event(MemberEvent::Slices(signal));
        watch
            .run(ObservedSlice::from, wrap, self.events.clone())
            .await;
    }

    /// Watches the EndpointSlices that Kubernetes makes for Services of some names, and those that
    /// it does not make.
    async fn watch_named_slices(
        &self,
        names: Arc<ServiceNames>,
        reconnections: &watch::Receiver<Instant>,
    ) {
        let api = || Api::<WireSlice>::all(self.client.clone());
        let watch = || self.watch_by(SliceDecoder::default(), api(), reconnections);
        let (name, generation) = (self.name.clone(), self.generation);
        let rescoped = move |names, slices| Event::Member {
            name: name.clone(),
            generation,
            event: MemberEvent::Rescoped(names, slices),
        };
        let scope = Scope {
            wanted: self.slice_scope.clone(),
            names,
            service: |slice: &WireSlice| slice.service_name().clone(),
            rescoped: Box::new(rescoped),
        };
        let named = watch().run_in(
            Some(scope),
            ObservedSlice::from,
            |signal| self.event(MemberEvent::Slices(signal)),
            self.events.clone(),
        );
        let others = Watch {
            labels: Some(SliceScope::of_others()),
            ..watch()
        };
        let others = others.run(
            ObservedSlice::from,
            |signal| self.event(MemberEvent::OtherSlices(signal)),
            self.events.clone(),
        );
        tokio::join!(named, others);
    }

    /// Watches the Nodes while they are needed, until nobody listens any more.
    async fn follow_nodes(&self, reconnections: watch::Receiver<Instant>) {
        // The index drops the Nodes when the need ends.
        let watch = || {
            let nodes = Watch {
                never_empty: true,
                ..self.watch_of(Api::<Node>::all(self.client.clone()), &reconnections)
            };
            nodes.run(
                ObservedNode::read,
                |signal| self.event(MemberEvent::Nodes(signal)),
                self.events.clone(),
            )
        };
        while_needed(self.needs_nodes.clone(), watch).await;
    }

    /// Watches the reports of causeway-agent while they are needed, until nobody listens any more.
    async fn follow_paths(&self, reconnections: watch::Receiver<Instant>) {
        // The controller ignores reports between the end of a need and the next one.
        let watch = || {
            let leases = Api::<Lease>::namespaced(self.client.clone(), path::NAMESPACE);
            let reports = Watch {
                labels: Some(format!("{}={}", labels::MANAGED_BY, path::REPORTER)),
                ..self.watch_of(leases, &reconnections)
            };
            reports.run(
                |lease| PathLease::read(&lease),
                |signal| self.event(MemberEvent::Paths(signal)),
                self.events.clone(),
            )
        };
        while_needed(self.needs_paths.clone(), watch).await;
    }

    /// Reads the member's id in its clusterset again and again, until nobody listens any more. A
    /// failure reports nothing: the id that is recorded stays.
    async fn follow_id(&self, uid: &str) {
        let settings = &self.settings;
        let mut last = LastId::default();
        loop {
            // Between readings it takes no space in the member's task.
            let read = Box::pin(cluster_id::read(&self.client, uid, ID_DEADLINE)).await;
            let pause = match read {
                Ok(id) => {
                    if let Some(id) = last.note(id)
                        && self.tell(MemberEvent::ClusterId(id)).await.is_none()
                    {
                        return;
                    }
                    settings.schema_every
                }
                Err(failure) => {
                    tracing::debug!(cluster = %self.name, error = %failure, "id in the clusterset not read");
                    match failure.kind {
                        // Members that were joined by an earlier version do not grant it.
                        FailureKind::Forbidden => settings.schema_every,
                        _ => settings.probe_every * VERSION_EVERY,
                    }
                }
            };
            sleep(pause).await;
        }
    }

    /// Asks what of the clusterset's API is served, and watches that, until nobody listens any
    /// more. What the watches of one version tell comes before it is reported that another is
    /// served.
    async fn follow_clusterset(&self, uid: &str, reconnections: watch::Receiver<Instant>) {
        let settings = &self.settings;
        let mut discovery = Discovery::new(
            self.name.clone(),
            uid.to_owned(),
            self.client.clone(),
            settings.probe_deadline,
            settings.schema_every,
        );
        let mut ticks = self.ticks(Duration::ZERO);
        let mut served = Served::default();
        let new_guard = || watches::new_guard(settings.watch.confirmation_interval, false);
        let mut guards = [new_guard(), new_guard()];
        loop {
            let news = async {
                loop {
                    if discovery.awaits_schema() {
                        sleep(settings.probe_every.min(SCHEMA_AGAIN)).await;
                    } else {
                        ticks.tick().await;
                    }
                    match discovery.look().await {
                        Some(Ok(news)) if news.versions() != served.versions() => break Some(news),
                        // The watches go on.
                        Some(Ok(news)) => self.tell(MemberEvent::Served(news)).await?,
                        Some(Err(failure)) => {
                            self.tell(MemberEvent::NotDiscovered(failure)).await?;
                        }
                        None => {}
                    }
                }
            };
            let news = tokio::select! {
                () = self.watch_clusterset(&served, &guards, reconnections.clone()) => None,
                news = news => news,
            };
            let Some(news) = news else { return };
            served = news.clone();
            // What is served in no version has gone with its definition. Another version shows the
            // same objects.
            for (guard, version) in guards.iter_mut().zip(served.versions()) {
                if version.is_none() {
                    *guard = new_guard();
                }
            }
            if self.tell(MemberEvent::Served(news)).await.is_none() {
                return;
            }
        }
    }

    /// Watches what is served of the clusterset's API until nobody listens any more.
    async fn watch_clusterset(
        &self,
        served: &Served,
        [exports_guard, imports_guard]: &[SharedGuard; 2],
        reconnections: watch::Receiver<Instant>,
    ) {
        let exports = served.exports.map(|version| {
            let api = Api::<ServiceExport>::all_with(self.client.clone(), &version);
            let watch = Watch {
                guard: Some(exports_guard.clone()),
                ..self.watch_of(api, &reconnections)
            };
            watch.run(
                |export| export,
                |signal| self.event(MemberEvent::Exports(signal)),
                self.events.clone(),
            )
        });
        let imports = served.imports.map(|served| {
            let api = Api::<ServiceImport>::all_with(self.client.clone(), &served.version);
            let watch = Watch {
                guard: Some(imports_guard.clone()),
                ..self.watch_of(api, &reconnections)
            };
            watch.run(
                |import| import,
                |signal| self.event(MemberEvent::Imports(signal)),
                self.events.clone(),
            )
        });
        tokio::join!(
            exports.map_or_else(|| pending().left_future(), FutureExt::right_future),
            imports.map_or_else(|| pending().left_future(), FutureExt::right_future),
        );
    }

    /// Tells who the member is.
    async fn tell_identity(&self, identity: Identity) -> Option<Identity> {
        let event = MemberEvent::Identified(identity.clone());
        self.tell(event).await?;
        Some(identity)
    }

    async fn tell_health(&self, change: Option<Result<(), Failure>>) -> Option<()> {
        match change {
            Some(outcome) => self.tell(MemberEvent::Probed(outcome)).await,
            None => Some(()),
        }
    }

    async fn tell(&self, event: MemberEvent) -> Option<()> {
        self.events.send(self.event(event)).await.ok()
    }

    fn event(&self, event: MemberEvent) -> Event {
        Event::Member {
            name: self.name.clone(),
            generation: self.generation,
            event,
        }
    }
}

fn whole_namespace(meta: PartialObjectMeta<Namespace>) -> Namespace {
    Namespace {
        metadata: meta.metadata,
        ..Namespace::default()
    }
}

/// Whether the member answers, as it was reported last.
#[derive(Debug, Default)]
struct Health {
    reported: Option<Result<(), Failure>>,
    misses: u32,
}

impl Health {
    /// One miss may be chance; a connection that is refused is not.
    const MISSES: u32 = 2;

    fn answered(&mut self) -> Option<Result<(), Failure>> {
        self.misses = 0;
        self.change(Ok(()))
    }

    fn failed(&mut self, failure: Failure) -> Option<Result<(), Failure>> {
        self.misses += 1;
        let sure = failure.is_connection() && failure.kind != FailureKind::Timeout;
        // Before anything was reported there is nothing to be careful with.
        let known_well = self.reported == Some(Ok(()));
        if known_well && !sure && self.misses < Self::MISSES {
            return None;
        }
        self.change(Err(failure))
    }

    fn change(&mut self, outcome: Result<(), Failure>) -> Option<Result<(), Failure>> {
        if self.reported.as_ref() == Some(&outcome) {
            return None;
        }
        self.reported = Some(outcome.clone());
        Some(outcome)
    }
}

/// Runs the watch while it is needed, until nobody listens any more. Each end of the need ends it,
/// even if the need is back already.
async fn while_needed<F: Future<Output = ()>>(
    mut needed: watch::Receiver<bool>,
    watch: impl Fn() -> F,
) {
    while needed.wait_for(|needed| *needed).await.is_ok() {
        // Most members need none: on the heap it takes no space in their tasks.
        tokio::select! {
            () = Box::pin(watch()) => return,
            Ok(()) = needed.changed() => {}
        }
    }
    // Nobody can need it any more.
    pending().await
}

#[cfg(test)]
mod tests;
