use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

use causeway::api::MultiClusterService;
use causeway_certs::Names;
use causeway_tests::{Running, SOON, eventually, multi_cluster_service, service};
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::json;
use tokio::task::JoinHandle;

use crate::hub::{Hub, issuer, rotations, stage};

/// Changes an object again and again; ends with the number of changes, or panics with the first
/// that failed.
struct Writer {
    stop: Arc<AtomicBool>,
    writing: JoinHandle<u32>,
}

impl Writer {
    async fn start(stage: &'static Hub) -> Self {
        let space = stage.fleet.space("rotation").await;
        let hub = stage.hub();
        service("foo").port("http", 80).create(hub, &space).await;
        let api = Api::<MultiClusterService>::namespaced(hub.unrepeating_client(), space.name());
        let object = multi_cluster_service("foo").object();
        let created = api.create(&PostParams::default(), &object).await;
        created.expect("a MultiClusterService");
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let writing = tokio::spawn(async move {
            // It goes with everything in it.
            let _space = space;
            let mut written = 0;
            while !stopped.load(Ordering::Relaxed) {
                written += 1;
                let label = json!({"metadata": {"labels": {"written": written.to_string()}}});
                let params = PatchParams::default();
                let patched = api.patch("foo", &params, &Patch::Merge(label)).await;
                patched.unwrap_or_else(|error| panic!("write {written} was lost: {error:?}"));
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            written
        });
        Self { stop, writing }
    }

    async fn stop(self) -> u32 {
        self.stop.store(true, Ordering::Relaxed);
        self.writing.await.expect("no write was lost")
    }
}

/// Whoever trusts what any caBundle holds now is served by every webhook, over a new connection.
async fn all_are_known(stage: &Hub, webhooks: &[Running]) {
    for bundle in stage.bundles().await {
        for webhook in webhooks {
            let called = stage.call(webhook, &bundle).await;
            called.unwrap_or_else(|error| panic!("{error}; trusted: {:?}", bundle.authorities));
        }
    }
}

#[tokio::test]
async fn leaves_and_authorities_are_renewed_without_a_failure() {
    let (stage, _turn) = stage().await;
    let webhooks = [
        stage.short_lived(30, 10).start().await,
        stage.short_lived(30, 10).start().await,
    ];
    stage.register(&webhooks[0]).await;
    stage.settled(2).await;
    stage.installation.asked(&webhooks[0]).await;
    let first = issuer(&stage.stored().await);
    let writer = Writer::start(stage).await;
    let begun = Instant::now();
    let mut leaves = 0;
    let mut successor_seen = false;
    while begun.elapsed() < Duration::from_secs(60) {
        all_are_known(stage, &webhooks).await;
        let stored = stage.stored().await;
        let now = SystemTime::now();
        let leaf = stored.leaf(&Names::default(), now).expect("a good leaf");
        let ends = leaf.issuer.period().until;
        assert!(leaf.period.until <= ends, "a leaf outlives its authority");
        successor_seen |= stored.next(now).is_some();
        leaves = rotations(&webhooks[1]).await as u32;
        let replaced = leaf.issuer != first;
        let forgotten = !stored.trust(now).contains(&first);
        if replaced && forgotten && leaves >= 3 {
            break;
        }
    }
    let written = writer.stop().await;
    assert!(
        leaves >= 3 && successor_seen,
        "{leaves} leaves, successor seen: {successor_seen}"
    );
    assert!(
        !stage
            .stored()
            .await
            .trust(SystemTime::now())
            .contains(&first)
    );
    assert!(written > 50, "only {written} writes");
    for webhook in &webhooks {
        let log = std::fs::read_to_string(webhook.process().log()).expect("the log");
        assert!(!log.contains("certificates repaired"), "{log}");
    }
}

#[tokio::test]
async fn requested_rotation_is_made() {
    let (stage, _turn) = stage().await;
    let webhooks = [
        stage.short_lived(360_000, 50).start().await,
        stage.short_lived(360_000, 50).start().await,
    ];
    stage.register(&webhooks[0]).await;
    stage.settled(2).await;
    let first = issuer(&stage.stored().await);
    let taken_up = async |times: f64| {
        for webhook in &webhooks {
            eventually("the new leaf is served", SOON, || async {
                let now = rotations(webhook).await;
                (now >= times).then_some(()).ok_or(now)
            })
            .await;
        }
        let secret = stage.secrets().get("causeway-webhook-tls").await.unwrap();
        let annotations = secret.metadata.annotations.unwrap_or_default();
        assert!(!annotations.contains_key("mcs.causeway.dev/rotate"));
    };
    stage.rotate("leaf").await;
    taken_up(1.0).await;
    assert_eq!(issuer(&stage.stored().await), first);
    stage.rotate("ca").await;
    taken_up(2.0).await;
    let second = issuer(&stage.stored().await);
    assert_ne!(second, first);
    let stored = stage.settled(2).await;
    assert_eq!(stored.trust(SystemTime::now()), [second, first]);
    all_are_known(stage, &webhooks).await;
}
