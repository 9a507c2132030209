//! Somebody who writes MultiClusterServices at a steady rate, and notices every request that fails.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use causeway::api::MultiClusterService;
use causeway_tests::seen::Seen;
use causeway_tests::{Space, multi_cluster_service, service};
use futures::future::join_all;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::json;
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval_at};

/// Objects that are written beside each other, each twice a second: 50 requests a second that the
/// webhook checks.
const OBJECTS: u32 = 25;
const PERIOD: Duration = Duration::from_millis(500);

/// A writer at work.
pub(crate) struct Writer {
    stop: Arc<AtomicBool>,
    writing: JoinSet<Seen>,
}

impl Writer {
    /// Makes the Services, and begins.
    pub(crate) async fn start(space: &Space<'_>) -> Self {
        let hub = space.fleet().hub();
        let names: Vec<_> = (0..OBJECTS).map(|number| format!("foo-{number}")).collect();
        let services = names
            .iter()
            .map(|name| service(name).port("http", 80).create(hub, space));
        join_all(services).await;
        let stop = Arc::new(AtomicBool::new(false));
        let client = hub.unrepeating_client();
        let mut writing = JoinSet::new();
        for (name, number) in names.into_iter().zip(0..) {
            let api = Api::namespaced(client.clone(), space.name());
            let begin = Instant::now() + PERIOD * number / OBJECTS;
            writing.spawn(write(api, name, begin, Arc::clone(&stop)));
        }
        Self { stop, writing }
    }

    /// Ends it.
    pub(crate) async fn stop(self) -> Seen {
        self.stop.store(true, Ordering::Relaxed);
        let mut all = Seen::default();
        for seen in self.writing.join_all().await {
            all.add(seen);
        }
        all
    }
}

/// Creates an object, changes its spec and its labels, deletes it, and begins again.
async fn write(
    api: Api<MultiClusterService>,
    name: String,
    begin: Instant,
    stop: Arc<AtomicBool>,
) -> Seen {
    let mut seen = Seen::default();
    let mut turns = interval_at(begin.into(), PERIOD);
    turns.set_missed_tick_behavior(MissedTickBehavior::Burst);
    let spec = Patch::Merge(json!({"spec": {"consumerClusters": [{"name": "elsewhere"}]}}));
    let label = Patch::Merge(json!({"metadata": {"labels": {"tier": "gold"}}}));
    let object = multi_cluster_service(&name).object();
    let created = PostParams::default();
    let patched = PatchParams::default();
    while !stop.load(Ordering::Relaxed) {
        turns.tick().await;
        check(&mut seen, "create", api.create(&created, &object)).await;
        turns.tick().await;
        let patch = api.patch(&name, &patched, &spec);
        check(&mut seen, "change the spec of", patch).await;
        turns.tick().await;
        let patch = api.patch(&name, &patched, &label);
        check(&mut seen, "label", patch).await;
        // No webhook is asked.
        if let Err(error) = api.delete(&name, &DeleteParams::default()).await {
            seen.errors.push(format!("cannot delete {name}: {error}"));
        }
    }
    seen
}

async fn check<T>(seen: &mut Seen, what: &str, request: impl Future<Output = kube::Result<T>>) {
    if let Err(error) = seen.time(request).await {
        seen.errors.push(format!("cannot {what} one: {error}"));
    }
}
