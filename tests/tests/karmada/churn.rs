//! A rollout without end.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use causeway_tests::fixtures::RunningPod;
use causeway_tests::{Cluster, SOON, Space, eventually};
use tokio::task::JoinHandle;
use tokio::time::interval;

/// Pods do not start faster in earnest. A copy gives way to Karmada's slice at a moment at which
/// that holds what the provider has: there is none where pods are replaced faster than Karmada
/// follows.
const PACE: Duration = Duration::from_secs(2);

/// Pods of foo in one member come and go until it is ended, one at a time.
pub(crate) struct Churn {
    on: Arc<AtomicBool>,
    rounds: Arc<AtomicUsize>,
    task: JoinHandle<Vec<RunningPod>>,
}

impl Churn {
    pub(crate) fn begin(space: &Space<'static>, member: &'static Cluster) -> Self {
        let (on, rounds) = (
            Arc::new(AtomicBool::new(true)),
            Arc::<AtomicUsize>::default(),
        );
        let space = Space::existing(space.fleet(), space.name());
        let task = tokio::spawn(roll(space, member, Arc::clone(&on), Arc::clone(&rounds)));
        Self { on, rounds, task }
    }

    /// Returns the number of replaced pods.
    pub(crate) fn rounds(&self) -> usize {
        self.rounds.load(Ordering::Relaxed)
    }

    /// Ends it; the pods that are left.
    pub(crate) async fn end(self) -> Vec<RunningPod> {
        self.on.store(false, Ordering::Relaxed);
        self.task.await.expect("the churn")
    }
}

async fn roll(
    space: Space<'static>,
    member: &'static Cluster,
    on: Arc<AtomicBool>,
    rounds: Arc<AtomicUsize>,
) -> Vec<RunningPod> {
    let mut pods: Vec<RunningPod> = Vec::new();
    let mut pace = interval(PACE);
    while on.load(Ordering::Relaxed) {
        pace.tick().await;
        let new = space.backends("foo").create(member).await;
        let ip = new[0].ip().to_owned();
        eventually("Kubernetes has the new pod in a slice", SOON, async || {
            space.ready_addresses(member, "foo").await.contains(&ip)
        })
        .await;
        for old in pods.drain(..) {
            old.delete().await;
        }
        pods = new;
        rounds.fetch_add(1, Ordering::Relaxed);
    }
    pods
}
