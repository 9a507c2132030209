//! Objects from before there was a webhook.

use causeway::api::labels::{MIN_READY, PREFER};
use causeway_tests::{Fleet, service};
use serde_json::{Value, json};

use crate::hub::{Shop, holds, hub, mcs};

const NAMESPACE: &str = "old";

/// Returns an object that the current rules refuse.
fn wrong() -> Value {
    json!({
        "ports": [{"name": "Old", "port": 0}, {"name": "http", "port": 80}, {"name": "http", "port": 81}],
        "providerClusters": [{"name": "clusterB"}],
        "consumerClusters": [{"name": "a"}], "range": {"clusterNames": ["b"]},
    })
}

pub(crate) async fn create_all(fleet: &Fleet) {
    let hub = fleet.hub();
    hub.kubectl(["create", "namespace", NAMESPACE]).await.ok();
    let space = causeway_tests::Space::existing(fleet, NAMESPACE);
    service("repaired")
        .port("http", 80)
        .create(hub, &space)
        .await;
    let names = ["touched", "repaired", "going", "deprecated", "preferring"];
    let mut items = names.map(|name| mcs(name, wrong()));
    items[0]["metadata"]["finalizers"] = json!(["example.com/old"]);
    items[2]["metadata"]["finalizers"] = json!(["example.com/old"]);
    items[3] = mcs("deprecated", json!({"range": {"clusterNames": ["a", "b"]}}));
    items[4]["metadata"]["annotations"] = json!({PREFER: "near", MIN_READY: "0%"});
    let list = json!({"apiVersion": "v1", "kind": "List", "items": items});
    hub.kubectl_with(["create", "-n", NAMESPACE, "-f", "-"], list.to_string())
        .await
        .ok();
}

#[tokio::test]
async fn an_old_object_may_be_touched_everywhere_but_in_its_spec() {
    let old = Shop::existing(hub().await, NAMESPACE);
    old.kubectl(["label", "mcs", "touched", "tier=gold"])
        .await
        .ok();
    let id = old.permanent_id("touched").await;
    old.kubectl(["annotate", "mcs", "touched", "note=x"])
        .await
        .ok();
    old.patch("touched", &json!({"metadata": {"finalizers": []}}))
        .await
        .ok();
    let status = json!({"status": {"conditions": []}}).to_string();
    old.kubectl([
        "patch",
        "mcs",
        "touched",
        "--subresource=status",
        "--type=merge",
        "-p",
        &status,
    ])
    .await
    .ok();
    let object = old.get("touched").await;
    assert_eq!(
        object["spec"],
        mcs("touched", wrong())["spec"],
        "the spec stays as it was"
    );
    assert_eq!(old.permanent_id("touched").await, id);
    old.kubectl(["delete", "mcs", "touched", "--timeout=180s"])
        .await
        .ok();
}

#[tokio::test]
async fn one_stored_error_may_be_repaired_while_others_stay() {
    let old = Shop::existing(hub().await, NAMESPACE);
    let ports = |first: Value| json!({"spec": {"ports": [first, {"name": "http", "port": 80}, {"name": "http", "port": 81}]}});
    let refused = old
        .patch("repaired", &ports(json!({"name": "grpc", "port": 9})))
        .await
        .refused();
    assert_eq!(
        refused.trim_end(),
        "The MultiClusterService \"repaired\" is invalid: spec.ports[0].name: Invalid value: \"grpc\": \
         Service old/repaired has no port named \"grpc\"; it has http 80/TCP"
    );
    old.patch(
        "repaired",
        &json!({"spec": {"ports": [{"name": "http", "port": 80}, {"name": "http", "port": 81}]}}),
    )
    .await
    .ok();
    old.patch(
        "repaired",
        &json!({"spec": {"providerClusters": [{"name": "b"}]}}),
    )
    .await
    .ok();
    let refused = old
        .patch(
            "repaired",
            &json!({"spec": {"consumerClusters": [{"name": "clusterC"}]}}),
        )
        .await
        .refused();
    holds(
        &refused,
        &["spec.consumerClusters[0].name: Invalid value: \"clusterC\""],
    );
    old.patch("repaired", &json!({"spec": {"range": null}}))
        .await
        .ok();
}

#[tokio::test]
async fn one_stored_annotation_may_be_repaired_while_others_stay() {
    let old = Shop::existing(hub().await, NAMESPACE);
    let annotate = async |name: &str, value: &str| {
        let patch = json!({"metadata": {"annotations": {name: value}}});
        old.patch("preferring", &patch).await
    };
    old.kubectl(["label", "mcs", "preferring", "tier=gold"])
        .await
        .ok();
    holds(
        &annotate(PREFER, "far").await.refused(),
        &["metadata.annotations[mcs.causeway.dev/prefer]: Unsupported value: \"far\""],
    );
    annotate(PREFER, "region, any").await.ok();
    annotate(MIN_READY, "50%").await.ok();
}

#[tokio::test]
async fn an_old_object_on_its_way_out_is_not_held_up() {
    let old = Shop::existing(hub().await, NAMESPACE);
    old.kubectl(["delete", "mcs", "going", "--wait=false"])
        .await
        .ok();
    old.patch(
        "going",
        &json!({"spec": {"providerClusters": [{"name": "clusterZ"}]}}),
    )
    .await
    .ok();
    old.patch("going", &json!({"metadata": {"finalizers": null}}))
        .await
        .ok();
    let gone = old.kubectl(["get", "mcs", "going"]).await.refused();
    holds(&gone, &["not found"]);
}

#[tokio::test]
async fn an_old_deprecated_object_is_converted_when_its_spec_changes() {
    let old = Shop::existing(hub().await, NAMESPACE);
    old.kubectl(["label", "mcs", "deprecated", "tier=gold"])
        .await
        .ok();
    assert_eq!(
        old.get("deprecated").await["spec"]["range"]["clusterNames"],
        json!(["a", "b"])
    );
    let patched = old
        .patch(
            "deprecated",
            &json!({"spec": {"providerClusters": [{"name": "a"}]}}),
        )
        .await;
    holds(
        &patched.stderr,
        &["spec.range.clusterNames is deprecated and was converted"],
    );
    patched.ok();
    let object = old.get("deprecated").await;
    assert_eq!(
        object["spec"]["consumerClusters"],
        json!([{"name": "a"}, {"name": "b"}])
    );
    assert!(object["spec"].get("range").is_none(), "{object:#}");
}
