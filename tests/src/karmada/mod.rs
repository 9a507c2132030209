//! Karmada, as it behaves beside others: what carries MultiClusterServices and propagates Services
//! there, written from what its sources do (karmada-io/karmada, v1.19), against the hub and the
//! members of a fleet. Each module names the files that it follows.
//!
//! It is to do harm where Karmada does. What it leaves out makes no difference to others: Events,
//! rate limits, overrides, priorities, `preserveResourcesOnDeletion`, clusters that are not ready
//! (a member that does not answer fails requests, which are tried again), and caches: it reads what
//! is stored, where Karmada may read what was.
//!
//! Its webhooks have no part here: identities that they would give are given by whoever makes an
//! object.

mod binding;
mod collect;
mod dispatch;
mod execution;
mod mcs;
pub mod names;
mod objects;
mod observer;
mod plane;
mod queue;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use futures::FutureExt as _;
use futures::future::LocalBoxFuture;
use kube::{Client, Config, ResourceExt as _};
use parking_lot::Mutex;
use tokio::runtime::Builder;
use tokio::sync::oneshot;
use tokio::task::{JoinSet, LocalSet};

pub use objects::{
    BindingStatus, ClusterAffinity, ClusterResult, ConflictResolution, DEFINITIONS,
    ObjectReference, Placement, ResourceBinding, ResourceBindingSpec, TargetCluster, Work,
    WorkSpec, WorkStatus, Workload,
};
pub use observer::Observer;

use crate::{Cluster, Fleet, SOON, Space, eventually, paths};
use plane::{Member, Plane};
use queue::Key;

/// A Karmada control plane on the hub of a fleet, with all its members.
pub struct Karmada {
    settings: Settings,
    gate: AtomicBool,
    process: Mutex<Option<Process>>,
}

/// Applies Karmada's definitions to a hub, and what causeway's manifests add on a Karmada control
/// plane.
pub async fn define(hub: &Cluster) {
    hub.apply(DEFINITIONS).await.ok();
    hub.create_namespace("karmada-cluster").await;
    let rights = paths::repository().join("manifests/hub/options/karmada.yaml");
    let apply = ["apply", "-f", &rights.display().to_string()];
    hub.kubectl(apply).await.ok();
}

impl Karmada {
    /// Brings Karmada's definitions and the execution namespaces of all members. Nothing runs yet.
    /// The definition of MultiClusterService is whoever's it is: it must be there before the gate
    /// is on.
    pub async fn install(fleet: &Fleet) {
        let hub = fleet.hub();
        define(hub).await;
        let established = ["wait", "--for=condition=Established", "crd"];
        let crds = ["works.work.karmada.io", "resourcebindings.work.karmada.io"];
        hub.kubectl(established.into_iter().chain(crds)).await.ok();
        for member in fleet.members() {
            let name = names::execution_space(member.name());
            hub.create_namespace(&name).await;
        }
    }

    /// [`Karmada::install`], and starts its controllers; the feature gate `MultiClusterService` is
    /// off, as it is by default.
    pub async fn start(fleet: &Fleet) -> Self {
        Self::install(fleet).await;
        Self::run(fleet, None)
    }

    /// Controllers that see nothing but this namespace, so that tests which share a fleet have each
    /// their own, after one [`Karmada::install`].
    pub fn within(space: &Space<'_>) -> Self {
        Self::run(space.fleet(), Some(space.name()))
    }

    fn run(fleet: &Fleet, within: Option<&str>) -> Self {
        let members = fleet.members().iter();
        let members = members.map(|member| (member.name().to_owned(), member.config()));
        let settings = Settings {
            hub: fleet.hub().config(),
            members: members.collect(),
            within: within.map(Arc::from),
        };
        let karmada = Self {
            settings,
            gate: AtomicBool::new(false),
            process: Mutex::default(),
        };
        karmada.resume();
        karmada
    }

    /// Starts karmada-controller-manager again with the feature gate `MultiClusterService` on or
    /// off (`cmd/controller-manager/app/controllermanager.go`). Off, nobody carries
    /// MultiClusterServices or takes finalizers of their Works away; Works are executed all the
    /// same.
    pub fn gate(&self, on: bool) {
        self.stop();
        self.gate.store(on, Ordering::Relaxed);
        self.resume();
    }

    /// Kills it, wherever it is. What was asked of an API server may still be done.
    pub fn stop(&self) {
        *self.process.lock() = None;
    }

    /// Starts it again after [`Karmada::stop`]. It remembers nothing.
    pub fn resume(&self) {
        let gate = self.gate.load(Ordering::Relaxed);
        *self.process.lock() = Some(Process::start(self.settings.clone(), gate));
    }

    /// Applies a PropagationPolicy to a Service of the hub. Panics if a MultiClusterService claimed
    /// it: no policy propagates it then.
    pub async fn propagate(
        &self,
        space: &Space<'_>,
        service: &str,
        clusters: &[&str],
        resolution: ConflictResolution,
    ) {
        let plane = self.settings.plane();
        let key = Key {
            namespace: space.name().to_owned(),
            name: service.to_owned(),
        };
        eventually("the policy propagates the Service", SOON, async || {
            binding::propagate(&plane, &key, clusters, resolution).await
        })
        .await;
    }
}

/// Karmada's Works on a hub that belong to a MultiClusterService, of all clusters.
pub async fn works_of(hub: &Cluster, space: &Space<'_>, service: &str) -> Vec<Work> {
    let plane = Plane {
        hub: hub.client(),
        members: Arc::new([]),
        within: None,
    };
    let labels = [
        (names::SERVICE_NAMESPACE, space.name()),
        (names::SERVICE_NAME, service),
    ];
    let works = plane.works(&labels).await;
    works.unwrap_or_else(|e| panic!("cannot list Works: {e}"))
}

/// Waits until the execution controllers have reported what became of every Work of a
/// MultiClusterService, which is the last that is written of it while nothing changes; the versions
/// then, by namespace and name. Whoever waits has seen the endpoints arrive: all Works are there.
pub async fn at_rest(
    hub: &Cluster,
    space: &Space<'_>,
    service: &str,
) -> Vec<(String, Option<String>)> {
    eventually("the Works are at rest", SOON, async || {
        let works = works_of(hub, space, service).await;
        let version = |work: &Work| (format!("{:?}", Key::of(work)), work.resource_version());
        match works.iter().find(|work| !work.is_executed()) {
            Some(work) => Err(format!("{:?}", version(work))),
            None => Ok(works.iter().map(version).collect()),
        }
    })
    .await
}

#[derive(Clone)]
struct Settings {
    hub: Config,
    members: Vec<(String, Config)>,
    within: Option<Arc<str>>,
}

impl Settings {
    /// With clients of the runtime that it is called in.
    fn plane(&self) -> Plane {
        let client = |config: &Config| Client::try_from(config.clone()).expect("a client");
        let members = self.members.iter().map(|(name, config)| Member {
            name: name.clone(),
            client: client(config),
        });
        Plane {
            within: self.within.clone(),
            hub: client(&self.hub),
            members: members.collect(),
        }
    }

    async fn run(self, gate: bool) {
        let plane = self.plane();
        let mut controllers = vec![binding::run(plane.clone()).boxed_local()];
        for member in plane.members.iter() {
            controllers.push(execution::run(plane.clone(), member.clone()).boxed_local());
            if gate {
                controllers.push(collect::run(plane.clone(), member.clone()).boxed_local());
            }
        }
        if gate {
            controllers.push(mcs::run(plane.clone()).boxed_local());
            controllers.push(dispatch::run(plane).boxed_local());
        }
        LocalSet::new().run_until(all(controllers)).await;
    }
}

async fn all(controllers: Vec<LocalBoxFuture<'static, ()>>) {
    let mut tasks = JoinSet::new();
    for controller in controllers {
        tasks.spawn_local(controller);
    }
    while let Some(ended) = tasks.join_next().await {
        ended.expect("controllers do not panic");
    }
}

/// A thread with a runtime of its own, so that what a test does cannot hold it up. It ends where it
/// is dropped.
struct Process {
    running: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Process {
    fn start(settings: Settings, gate: bool) -> Self {
        let (running, dropped) = oneshot::channel::<()>();
        let thread = std::thread::spawn(move || {
            let runtime = Builder::new_current_thread().enable_all().build();
            let run = async {
                tokio::select! { () = settings.run(gate) => {}, _ = dropped => {} }
            };
            runtime.expect("a runtime").block_on(run);
        });
        Self {
            running: Some(running),
            thread: Some(thread),
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        drop(self.running.take());
        let ended = self.thread.take().map(JoinHandle::join);
        if matches!(ended, Some(Err(_))) && !std::thread::panicking() {
            panic!("Karmada's controllers panicked");
        }
    }
}
