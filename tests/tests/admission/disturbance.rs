//! A webhook that goes, comes back, and gets new certificates; a hub that loses its Cluster
//! objects. One at a time.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use causeway::api::MultiClusterService;
use causeway_tests::{SOON, eventually};
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;
use tokio::sync::{Mutex, MutexGuard, OnceCell};

use crate::hub::{Hub, holds, mcs};

/// A hub for one test at a time.
async fn disturbed() -> (&'static Hub, MutexGuard<'static, ()>) {
    static HUB: OnceCell<Hub> = OnceCell::const_new();
    static TURN: Mutex<()> = Mutex::const_new(());
    let turn = TURN.lock().await;
    let hub = HUB.get_or_init(|| Hub::start(async |_| ())).await;
    (hub, turn)
}

#[tokio::test]
async fn missing_webhook_refuses_creates_and_holds_up_nothing_else() {
    let (hub, _turn) = disturbed().await;
    let shop = hub.shop().await;
    let mut manifest = mcs("foo", json!({}));
    manifest["metadata"]["finalizers"] = json!(["example.com/clean"]);
    shop.apply(&manifest).await.ok();
    hub.webhook.process().terminate();
    let exit = hub.webhook.process().exited(SOON).await;
    assert!(exit.success(), "SIGTERM is an orderly end: {exit:?}");

    let refused = shop
        .patch(
            "foo",
            &json!({"spec": {"consumerClusters": [{"name": "a"}]}}),
        )
        .await
        .refused();
    holds(&refused, &["failed calling webhook"]);
    shop.kubectl(["annotate", "mcs", "foo", "note=x"])
        .await
        .ok();
    shop.kubectl(["delete", "mcs", "foo", "--wait=false"])
        .await
        .ok();
    shop.patch("foo", &json!({"metadata": {"finalizers": null}}))
        .await
        .ok();
    holds(
        &shop.kubectl(["get", "mcs", "foo"]).await.refused(),
        &["not found"],
    );

    hub.webhook.restart().await;
    eventually("the webhook is asked again", SOON, || async {
        shop.apply(&mcs("foo", json!({}))).await.exit.success()
    })
    .await;
    hub.webhook.process().kill().await;
    hub.webhook.restart().await;
    eventually("the webhook is asked again after a crash", SOON, || async {
        let patch = json!({"spec": {"consumerClusters": [{"name": "a"}]}});
        shop.patch("foo", &patch).await.exit.success()
    })
    .await;
    let log = std::fs::read_to_string(hub.webhook.process().log()).expect("the log");
    for word in ["forbidden", "panicked", "ERROR"] {
        assert!(!log.contains(word), "{word} in the log:\n{log}");
    }
}

/// Lays a directory out as the kubelet does, its contents unchanged.
fn as_mounted(directory: &Path) {
    let first = directory.join("..first");
    std::fs::create_dir(&first).expect("a directory");
    for file in ["tls.crt", "tls.key"] {
        std::fs::copy(directory.join(file), first.join(file)).expect("a copy");
    }
    symlink("..first", directory.join("..data")).expect("a link");
    for file in ["tls.crt", "tls.key"] {
        let link = directory.join(format!("{file}.new"));
        symlink(Path::new("..data").join(file), &link).expect("a link");
        std::fs::rename(link, directory.join(file)).expect("a swap");
    }
}

#[tokio::test]
async fn certificates_are_swapped_while_objects_are_written() {
    let (hub, _turn) = disturbed().await;
    let shop = hub.shop().await;
    shop.apply(&mcs("foo", json!({}))).await.ok();
    let directory = hub.webhook.tls().to_path_buf();
    as_mounted(&directory);

    let stop = Arc::new(AtomicBool::new(false));
    let writers: Vec<_> = (0..3)
        .map(|writer| {
            let api: Api<MultiClusterService> = shop.space.api(shop.hub);
            let stop = Arc::clone(&stop);
            tokio::spawn(async move {
                let mut written = 0;
                while !stop.load(Ordering::Relaxed) {
                    written += 1;
                    let label = json!({"metadata": {"labels": {format!("writer-{writer}"): written.to_string()}}});
                    let patch = Patch::Merge(label);
                    let params = PatchParams::default();
                    let patched = api.patch("foo", &params, &patch).await;
                    patched.unwrap_or_else(|error| panic!("write {written} was lost: {error}"));
                }
                written
            })
        })
        .collect();
    let rotations = async || {
        let metrics = hub.webhook.metrics().await;
        metrics
            .get("causeway_certificate_rotations_total", &[])
            .unwrap_or_default()
    };
    let before = rotations().await;
    for turn in 1..=3_u32 {
        let name = format!("..turn-{turn}");
        let validity = Duration::from_secs(3600 * u64::from(turn));
        hub.installation.write_certificate(
            &directory.join(&name),
            &hub.installation.certificate(validity),
        );
        symlink(&name, directory.join("..data_tmp")).expect("a link");
        std::fs::rename(directory.join("..data_tmp"), directory.join("..data")).expect("a swap");
        eventually("the new certificate is taken up", SOON, || async {
            let now = rotations().await;
            if now >= before + f64::from(turn) {
                Ok(())
            } else {
                Err(now.to_string())
            }
        })
        .await;
    }
    stop.store(true, Ordering::Relaxed);
    for writer in writers {
        let written = writer.await.expect("no write was lost");
        assert!(written > 3, "only {written} writes");
    }
    hub.webhook.restart().await;
    eventually(
        "a new connection trusts the new certificate",
        SOON,
        || async {
            shop.patch(
                "foo",
                &json!({"metadata": {"labels": {"after": "restart"}}}),
            )
            .await
            .exit
            .success()
        },
    )
    .await;
}

#[tokio::test]
async fn hub_without_clusters_is_served_and_their_arrival_noticed() {
    let (hub, _turn) = disturbed().await;
    let shop = hub.shop().await;
    let crd = "clusters.cluster.karmada.io";
    let definition = hub
        .cluster()
        .kubectl(["get", "crd", crd, "-o", "json"])
        .await
        .ok();
    hub.cluster().kubectl(["delete", "crd", crd]).await.ok();
    hub.webhook.restart().await;
    let named = |name: &str| mcs("foo", json!({"providerClusters": [{"name": name}]}));
    eventually("a name passes without a warning", SOON, || async {
        let applied = shop.apply(&named("nowhere")).await;
        if applied.exit.success() && applied.stderr.is_empty() {
            Ok(())
        } else {
            Err(applied.stderr)
        }
    })
    .await;

    let mut definition: serde_json::Value = serde_json::from_str(&definition).expect("JSON");
    definition["metadata"] = json!({"name": crd});
    definition
        .as_object_mut()
        .expect("an object")
        .remove("status");
    hub.cluster()
        .kubectl_with(["create", "-f", "-"], definition.to_string())
        .await
        .ok();
    let mut turn = 0;
    eventually("an unknown name is warned of", SOON * 2, || {
        turn += 1;
        let manifest = named(&format!("nowhere-{turn}"));
        let shop = &shop;
        async move {
            let stderr = shop.apply(&manifest).await.stderr;
            if stderr.contains("no Cluster is named") {
                Ok(())
            } else {
                Err(stderr)
            }
        }
    })
    .await;
}
