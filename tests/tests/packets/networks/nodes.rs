//! Nodes of a provider that come and go.

use std::time::SystemTime;

use causeway_tests::{Cluster, pod};
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use super::{Stage, env, none_failed};
use crate::client::{Client, answers_of};
use crate::said_by;

#[tokio::test]
async fn roll_out_behind_node_ports_fails_no_request() {
    let Some(env) = env().await else { return };
    let space = env.fleet.space("roll").await;
    let mut stage = Stage::set_up(&env, &space, ["member1", "member2"]).await;
    let url = stage.url().await;
    let client = Client::start(&env.fleet, stage.consumer, &url);
    let begun = SystemTime::now();
    // Each pod is replaced by one on the other node.
    for number in 0..stage.pods.len() {
        let node = stage.provider.node_name_of(1);
        let fresh = pod(&format!("fresh-{number}"), "foo").on_node(&node);
        let fresh = fresh.create(stage.provider, &space).await;
        let said = said_by(&[(&fresh, stage.provider.name())]);
        client.answered_by(&said, begun).await;
        let old = stage.pods.remove(0);
        old.terminate().await;
        stage.pods.push(fresh);
        stage.is_answered_by(&stage.said()).await;
        old.delete().await;
    }
    let requests = client.stop().await;
    none_failed("roll-out behind node ports", &requests);
    assert!(answers_of(&requests, &stage.said()) > 0);
}

#[tokio::test]
async fn node_that_is_added_is_used_and_no_request_fails() {
    let Some(env) = env().await else { return };
    let space = env.fleet.space("added").await;
    let mut stage = Stage::set_up(&env, &space, ["member1", "member2"]).await;
    let client = Client::start(&env.fleet, stage.consumer, &stage.url().await);
    let node = stage.provider.add_spare_node().await;
    let begun = SystemTime::now();
    let fresh = pod("fresh", "foo").on_node(&node);
    let fresh = fresh.create(stage.provider, &space).await;
    let said = said_by(&[(&fresh, "member1")]);
    client.answered_by(&said, begun).await;
    stage.pods.push(fresh);
    stage.is_answered_by(&stage.said()).await;
    let requests = client.stop().await;
    none_failed("a node is added", &requests);
}

#[tokio::test]
async fn lost_node_of_another_network_is_left_out() {
    let Some(env) = env().await else { return };
    let space = env.fleet.space("node").await;
    let stage = Stage::set_up(&env, &space, ["member1", "member2"]).await;
    let node = stage.provider.node_name_of(1);
    let other = pod("other", "foo").on_node(&node);
    let other = other.create(stage.provider, &space).await;
    let mut all = [stage.said(), said_by(&[(&other, "member1")])].concat();
    all.sort();
    stage.is_answered_by(&all).await;
    set_node_ready(stage.provider, &node, "Unknown").await;
    stage.is_answered_by(&stage.said()).await;
    set_node_ready(stage.provider, &node, "True").await;
    stage.is_answered_by(&all).await;
}

/// Sets the condition Ready of a node.
async fn set_node_ready(cluster: &Cluster, node: &str, status: &str) {
    let nodes = Api::<Node>::all(cluster.client());
    let condition = json!({"type": "Ready", "status": status});
    let patch = Patch::Strategic(json!({"status": {"conditions": [condition]}}));
    let params = PatchParams::default();
    let patched = nodes.patch_status(node, &params, &patch);
    patched.await.expect("the status of the node is patched");
}
