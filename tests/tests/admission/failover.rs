//! The annotations of failover, as people set them with kubectl.

use causeway::api::labels::{MIN_READY, PREFER, UNREACHABLE};
use causeway_tests::service;
use serde_json::{Value, json};

use crate::hub::{Hub, holds, hub, mcs};

fn preferring(name: &str, preference: &str, fields: Value) -> Value {
    let mut manifest = mcs(name, fields);
    manifest["metadata"]["annotations"] = json!({PREFER: preference});
    manifest
}

#[tokio::test]
async fn annotations_alone_are_validated_like_fields() {
    let shop = hub().await.shop().await;
    let mut wrong = preferring("foo", "near, any", json!({"ports": [{"port": 81}]}));
    wrong["metadata"]["annotations"][MIN_READY] = json!("50");
    holds(
        &shop.apply(&wrong).await.refused(),
        &[
            "The MultiClusterService \"foo\" is invalid: \n",
            "* spec.ports[0].port: Invalid value: 81: ",
            "* metadata.annotations[mcs.causeway.dev/min-ready]: Invalid value: \"50\": a percentage from 1% to 100%",
            "* metadata.annotations[mcs.causeway.dev/prefer]: Unsupported value: \"near\": supported values: \"local\", ",
        ],
    );
    let right = shop
        .apply(&preferring("foo", "local, any", json!({})))
        .await;
    assert_eq!(right.stderr, "");
    right.ok();

    let annotate = async |text: &str| {
        shop.kubectl(["annotate", "--overwrite", "mcs", "foo", text])
            .await
    };
    let is_refused = async |name: &str, value: &str, words: &str| {
        let refused = annotate(&format!("{name}={value}")).await.refused();
        holds(
            &refused,
            &[&format!("metadata.annotations[{name}]: {words}")],
        );
    };
    is_refused(PREFER, "local, local", "Duplicate value: \"local\"").await;
    is_refused(PREFER, "", "Unsupported value: \"\"").await;
    is_refused(MIN_READY, "101%", "Invalid value: \"101%\"").await;
    is_refused(UNREACHABLE, "drop", "Unsupported value: \"drop\"").await;
    let annotations = shop.get("foo").await["metadata"]["annotations"].clone();
    assert_eq!(annotations[PREFER], "local, any");

    annotate(&format!("{MIN_READY}=50%")).await.ok();
    let alone = annotate(&format!("{PREFER}-")).await;
    holds(
        &alone.stderr,
        &[
            "Warning: metadata.annotations[mcs.causeway.dev/min-ready]: has no effect unless Namespace ",
            " has mcs.causeway.dev/prefer; or set that too",
        ],
    );
    alone.ok();
    let other = annotate("note=x").await;
    assert_eq!(other.stderr, "");
    other.ok();
}

#[tokio::test]
async fn a_preference_on_a_headless_service_is_refused() {
    let shop = hub().await.empty_shop().await;
    let headless = service("foo").port("http", 80).headless();
    headless.create(shop.hub, &shop.space).await;
    let words = format!(
        "metadata.annotations[mcs.causeway.dev/prefer]: Invalid value: \"local, any\": Service {}/foo is headless: it has no \
         proxy that chooses; remove the annotation",
        shop.space.name()
    );
    let preferring = preferring("foo", "local, any", json!({}));
    holds(&shop.apply(&preferring).await.refused(), &[&words]);
    shop.apply(&mcs("foo", json!({}))).await.ok();
    holds(&shop.apply(&preferring).await.refused(), &[&words]);

    // One that is made again, with an address, is known at once.
    shop.kubectl(["delete", "service", "foo"]).await.ok();
    shop.add_service("foo").await;
    shop.apply(&preferring).await.ok();
}

#[tokio::test]
async fn unjoined_preferred_cluster_is_warned_of_or_refused() {
    let cluster = json!({"apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster", "metadata": {"name": "near"},
        "spec": {"syncMode": "Push"}});
    let hub = Hub::start_with(&["--unknown-cluster=deny"], async |fleet| {
        fleet.hub().apply(&cluster.to_string()).await.ok();
    })
    .await;
    let shop = hub.shop().await;
    let unknown = "no Cluster is named \"far\"; join it, or correct the name";
    let refused = shop
        .apply(&preferring(
            "foo",
            "local, cluster/near, cluster/far",
            json!({}),
        ))
        .await
        .refused();
    holds(
        &refused,
        &[&format!(
            "metadata.annotations[mcs.causeway.dev/prefer]: Invalid value: \"cluster/far\": {unknown}"
        )],
    );
    let known = shop
        .apply(&preferring("foo", "local, cluster/near", json!({})))
        .await;
    assert_eq!(known.stderr, "");
    known.ok();

    let lenient = self::hub().await.shop().await;
    let warned = lenient
        .apply(&preferring("foo", "local, cluster/far", json!({})))
        .await;
    holds(
        &warned.stderr,
        &[&format!(
            "Warning: metadata.annotations[mcs.causeway.dev/prefer]: {unknown}"
        )],
    );
    warned.ok();
}
