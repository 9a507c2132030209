//! `causeway-controller`: see [`causeway_controller`].

use std::collections::BTreeSet;
use std::io;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use causeway::process::args::own_namespace;
use causeway::process::backoff::Backoff;
use causeway::process::liveness::Heartbeat;
use causeway::process::readiness::Awaited;
use causeway::process::supervise::{Tasks, with_causes};
use causeway::process::traces::Tracer;
use causeway::process::{self, Process, kube_client};
use causeway_controller::args::{Args, Config};
use causeway_controller::controller::{Controller, Parts, STALLED};
use causeway_controller::event::{self, Event};
use causeway_controller::event_recorder::EventRecorder;
use causeway_controller::failure::Classify as _;
use causeway_controller::fleet::Fleet;
use causeway_controller::hub_identity::{self, Hub};
use causeway_controller::hub_watches::{HubWatches, Reports};
use causeway_controller::lease::{self, Leadership, Lease};
use causeway_controller::metrics::{self, Metrics};
use causeway_controller::watch::{self, Connect, RelistRequests};
use causeway_controller::{hostnames, member, seal};
use causeway_engine::observed::Index;
use causeway_engine::plan::STANDBY_AFTER;
use causeway_engine::plan::Settings;
use causeway_engine::seal::Seal;
use causeway_engine::write_queue::{WriteLimits, WriteQueue};
use clap::Parser as _;
use http::HeaderValue;
use kube::Client;
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::mpsc;
use tokio::sync::watch::{self as watch_channel, Receiver};
use tokio_util::sync::CancellationToken;

/// Glibc keeps what a relist used; this allocator gives it back.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Between being unready and ending there is nothing to wait for: nobody sends the controller
/// requests.
const UNREADY_WAIT: Duration = Duration::ZERO;
const WRITES_AT_ONCE: usize = 32;

fn main() -> ExitCode {
    process::main(Args::parse().check(), run)
}

async fn run(config: Config) -> anyhow::Result<()> {
    let mut process = Process::start(config.admin).await?;
    let tracer = process.trace("causeway-controller", &config.traces)?;
    let metrics = Metrics::default();
    process
        .metrics
        .register(|registry| metrics.register(registry));
    if let Some(directory) = config.credentials.tunnel_tls_dir.clone() {
        let register = |registry: &mut _| metrics::register_certificate(directory, registry);
        process.metrics.register(register);
    }
    let hub_known = process.readiness.awaits("the hub's API server");
    let reports = Reports::new(
        &process.readiness,
        &metrics,
        &config.credentials.secret_namespaces,
    );
    let heartbeat = process.liveness.heartbeat("loop", STALLED);
    let election = lease::Settings {
        transitions: metrics.lease_transitions(),
        progress: Some(heartbeat.clone()),
        readiness: Some(process.readiness.clone()),
        ..lease::Settings::default()
    };
    let agent = kube_client::replica("causeway-controller", &election.identity)?;
    let access = kube_client::replica_config(&config.hub, agent.clone())?;
    let client = Client::try_from(access.clone())?;
    // Over a connection of its own, which no thread holds up that a change is stuck in.
    let of_lease = Client::try_from(access.clone())?;
    let connect: Connect = Arc::new(move || Client::try_from(access.clone()).classified());
    let start = Start {
        config,
        threads: Handle::current(),
        election,
        agent,
        client,
        of_lease,
        connect,
        heartbeat,
        tasks: process.tasks.clone(),
        metrics,
        tracer,
    };
    let changes = ChangesThread::start()?;
    changes.spawn(&process.tasks, start.run(hub_known, reports));
    Ok(process.run(UNREADY_WAIT).await?)
}

/// A thread of its own for changes: they go from task to task, and none of these takes long. What
/// takes long is a list, and what has to answer although a change is stuck is the admin server and
/// the lease: other threads do those. Both check the loop's heartbeat.
///
/// It is the one worker of a runtime with threads: such a worker turns to the task that was woken
/// last, so that a write is on its way before the next one is encoded.
struct ChangesThread(Option<Runtime>);

impl ChangesThread {
    fn start() -> io::Result<Self> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("changes")
            .enable_all()
            .build()?;
        Ok(Self(Some(runtime)))
    }

    /// Runs the controller, and all tasks that it spawns.
    fn spawn(&self, tasks: &Tasks, controller: impl Future<Output = ()> + Send + 'static) {
        let _here = self.0.as_ref().map(Runtime::enter);
        tasks.spawn("controller", controller);
    }
}

impl Drop for ChangesThread {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

/// Parts from which the controller starts.
struct Start {
    config: Config,
    threads: Handle,
    election: lease::Settings,
    agent: HeaderValue,
    client: Client,
    of_lease: Client,
    connect: Connect,
    heartbeat: Heartbeat,
    tasks: Tasks,
    metrics: Metrics,
    tracer: Tracer,
}

impl Start {
    /// Runs the controller as soon as the hub answers, until the process ends.
    async fn run(self, hub_known: Awaited, reports: Reports) {
        let shutdown = self.tasks.shutdown();
        let Some((hub, seal)) = shutdown.run_until_cancelled(self.hub_and_seal()).await else {
            return;
        };
        hub_known.ready();
        if seal.is_none() {
            self.await_seal();
        }
        let written = CancellationToken::new();
        let leadership = self.stand_for_election(written.clone());
        let (events, received) = mpsc::channel(event::WAITING);
        let parts = Parts {
            index: Index::new(&hub.uid),
            settings: settings(&self.config, seal),
            fleet: self.fleet(&events),
            write_queue: WriteQueue::new(write_limits(&self.config)),
            hub_relist_requests: self.watch_hub(&hub, &events, reports),
            keeps_clusters: self.follow_identity(&hub),
            hostnames: self.look_up_hostnames(&events),
            write_deadline: self.config.member_timeout,
            event_recorder: EventRecorder::new(
                self.tasks.clone(),
                self.election.identity,
                leadership.clone(),
            ),
            leadership,
            hub: self.client,
            heartbeat: self.heartbeat,
            tasks: self.tasks,
            metrics: self.metrics,
            tracer: self.tracer,
        };
        let controller = Controller::new(parts, events).run(received, shutdown);
        lease::cancel_after(controller, written).await;
    }

    /// Waits for the hub, and returns its identity and the seal.
    async fn hub_and_seal(&self) -> (Hub, Option<Seal>) {
        let Self {
            client,
            config,
            heartbeat,
            ..
        } = self;
        let hub = until_answered(heartbeat, || async { Ok(Hub::get(client).await?) });
        let hub = hub.await;
        (
            hub,
            until_answered(heartbeat, || keep_seal(client, config)).await,
        )
    }

    /// Ends the process as soon as the hub allows the key of the seal to be read.
    fn await_seal(&self) {
        let namespace = seal_namespace(&self.config);
        let readable = seal::until_readable(self.client.clone(), namespace, seal::EVERY);
        let shutdown = self.tasks.shutdown();
        self.tasks
            .spawn("export seal", stopping(readable, shutdown));
    }

    /// Keeps the Lease, by the threads that do not run changes, until `written` is cancelled.
    fn stand_for_election(&self, written: CancellationToken) -> Receiver<Leadership> {
        let (lease, leadership) = match &self.config.lease {
            Some((namespace, name)) => {
                let (client, settings) = (self.of_lease.clone(), self.election.clone());
                Lease::new(client, namespace, name, settings)
            }
            None => Lease::alone(),
        };
        let _threads = self.threads.enter();
        self.tasks.spawn("lease", async move {
            lease.run(written.cancelled()).await;
        });
        leadership
    }

    /// Starts the watches of the hub, and returns the sender of requests for another list.
    fn watch_hub(
        &self,
        hub: &Hub,
        events: &mpsc::Sender<Event>,
        reports: Reports,
    ) -> watch_channel::Sender<RelistRequests> {
        let (sender, relist_requests) = watch_channel::channel(RelistRequests::default());
        let watches = HubWatches {
            client: &self.client,
            uid: &hub.uid,
            relist_requests,
            connect: Arc::clone(&self.connect),
            tasks: &self.tasks,
            events,
            metrics: &self.metrics,
            profile_namespaces: &self.config.credentials.profile_namespaces,
            providers: self.config.credentials.providers.names(),
        };
        watches.start(reports);
        sender
    }

    /// Follows the identity of the hub, and returns whether its Cluster objects are causeway's to
    /// keep.
    fn follow_identity(&self, hub: &Hub) -> Receiver<bool> {
        let (keeps, keeps_clusters) = watch_channel::channel(hub.keeps_clusters);
        let (client, uid) = (self.client.clone(), hub.uid.clone());
        let same_hub = hub_identity::follow(client, uid, keeps, hub_identity::EVERY);
        let shutdown = self.tasks.shutdown();
        self.tasks
            .spawn("hub identity", stopping(same_hub, shutdown));
        keeps_clusters
    }

    /// Looks up hostnames of load balancers, by the threads that do not run changes.
    fn look_up_hostnames(
        &self,
        events: &mpsc::Sender<Event>,
    ) -> watch_channel::Sender<BTreeSet<Box<str>>> {
        let (sender, hostnames) = watch_channel::channel(BTreeSet::new());
        let looked_up = hostnames::run(hostnames, events.clone());
        let _threads = self.threads.enter();
        let shutdown = self.tasks.shutdown();
        self.tasks.spawn("hostnames", async move {
            shutdown.run_until_cancelled(looked_up).await;
        });
        sender
    }

    fn fleet(&self, events: &mpsc::Sender<Event>) -> Fleet {
        let members = member::Settings {
            unreadable: self.metrics.unreadable(),
            agent: self.agent.clone(),
            watch: watch::Settings {
                limits: self.config.member_limits,
                long_lists: Some(self.threads.clone()),
                ..watch::Settings::default()
            },
            ..member::Settings::default()
        };
        Fleet::new(
            self.config.credentials.clone(),
            members,
            events.clone(),
            self.tasks.clone(),
        )
    }
}

/// The seal of what is written on exports. A hub that refuses it is served all the same: then what
/// clusters say of the age of their exports counts.
///
/// # Errors
/// Where the hub does not answer.
async fn keep_seal(client: &Client, config: &Config) -> anyhow::Result<Option<Seal>> {
    let namespace = seal_namespace(config);
    match seal::keep(client, &namespace).await {
        Err(error) if is_answer(&error) => {
            let why = with_causes(error.as_ref());
            tracing::warn!(
                namespace,
                name = seal::SECRET,
                kind = "Secret",
                error = why,
                "seal not loaded, conflicting exports are ordered by the age that their clusters \
                 report; apply the manifests of this version, or let causeway-controller get and \
                 update the Secret; the process restarts once it can"
            );
            Ok(None)
        }
        kept => kept.map(Some),
    }
}

/// Returns the namespace of the Secret that holds the key of the seal.
fn seal_namespace(config: &Config) -> String {
    let lease = config.lease.as_ref();
    lease.map_or_else(own_namespace, |(namespace, _)| namespace.clone())
}

fn is_answer(error: &anyhow::Error) -> bool {
    match error.downcast_ref::<kube::Error>() {
        Some(kube::Error::Api(status)) => status.code < 500 && status.code != 429,
        Some(_) => false,
        None => true,
    }
}

fn settings(config: &Config, seal: Option<Seal>) -> Settings {
    Settings {
        protection: config.protection.clone(),
        service_grace: config.service_grace,
        provider_ttl: config.provider_ttl,
        unreachable: config.unreachable,
        standby_after: STANDBY_AFTER,
        publish_exports: config.publish_exports,
        quota: config.quota,
        seal,
    }
}

fn write_limits(config: &Config) -> WriteLimits {
    WriteLimits {
        qps: config.member_qps,
        burst: config.member_qps,
        width: WRITES_AT_ONCE,
        conflict_pause: config.conflict_pause,
    }
}

const DEADLINE: Duration = Duration::from_secs(10);

/// Ends a task that has no end of its own with the process.
async fn stopping<E>(
    task: impl Future<Output = Result<(), E>>,
    shutdown: CancellationToken,
) -> Result<(), E> {
    shutdown.run_until_cancelled(task).await.unwrap_or(Ok(()))
}

/// Repeats requests to the hub until it answers, and beats at each.
async fn until_answered<T, F>(heartbeat: &Heartbeat, request: impl Fn() -> F) -> T
where
    F: Future<Output = anyhow::Result<T>>,
{
    let mut backoff = Backoff::new(Duration::from_millis(200), Duration::from_secs(10));
    loop {
        heartbeat.beat();
        match tokio::time::timeout(DEADLINE, request()).await {
            Ok(Ok(answer)) => return answer,
            Ok(Err(error)) => {
                let why = with_causes(error.as_ref());
                tracing::warn!(cluster = "hub", error = why, "hub not usable yet, retrying");
            }
            Err(_) => tracing::warn!(cluster = "hub", "hub unreachable, retrying"),
        }
        tokio::time::sleep(backoff.pause()).await;
    }
}
