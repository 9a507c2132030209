//! Nodes of a provider that come and go.

use std::time::SystemTime;

use causeway_tests::{Cluster, pod};
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use super::{Path, env, none_failed};
use crate::client::{Client, answers_of};
use crate::said_by;

#[tokio::test]
async fn roll_out_behind_node_ports_fails_no_request() {
    let Some(env) = env().await else { return };
    let space = env.fleet.space("roll").await;
    let mut path = Path::set_up(&env, &space, ["member1", "member2"]).await;
    let url = path.url().await;
    let client = Client::start(&env.fleet, path.consumer, &url);
    let begun = SystemTime::now();
    // Each pod is replaced by one on the other node.
    for number in 0..path.pods.len() {
        let node = path.provider.node_name_of(1);
        let fresh = pod(&format!("fresh-{number}"), "foo").on_node(&node);
        let fresh = fresh.create(path.provider, &space).await;
        let said = said_by(&[(&fresh, path.provider.name())]);
        client.answered_by(&said, begun).await;
        let old = path.pods.remove(0);
        old.terminate().await;
        path.pods.push(fresh);
        path.is_answered_by(&path.said()).await;
        old.delete().await;
    }
    let requests = client.stop().await;
    none_failed("roll-out behind node ports", &requests);
    assert!(answers_of(&requests, &path.said()) > 0);
}

#[tokio::test]
async fn node_that_is_added_is_used_and_no_request_fails() {
    let Some(env) = env().await else { return };
    let space = env.fleet.space("added").await;
    let mut path = Path::set_up(&env, &space, ["member1", "member2"]).await;
    let client = Client::start(&env.fleet, path.consumer, &path.url().await);
    let node = path.provider.add_spare_node().await;
    let begun = SystemTime::now();
    let fresh = pod("fresh", "foo").on_node(&node);
    let fresh = fresh.create(path.provider, &space).await;
    let said = said_by(&[(&fresh, "member1")]);
    client.answered_by(&said, begun).await;
    path.pods.push(fresh);
    path.is_answered_by(&path.said()).await;
    let requests = client.stop().await;
    none_failed("a node is added", &requests);
}

#[tokio::test]
async fn lost_node_of_another_network_is_left_out() {
    let Some(env) = env().await else { return };
    let space = env.fleet.space("node").await;
    let path = Path::set_up(&env, &space, ["member1", "member2"]).await;
    let node = path.provider.node_name_of(1);
    let other = pod("other", "foo").on_node(&node);
    let other = other.create(path.provider, &space).await;
    let mut all = [path.said(), said_by(&[(&other, "member1")])].concat();
    all.sort();
    path.is_answered_by(&all).await;
    set_node_ready(path.provider, &node, "Unknown").await;
    path.is_answered_by(&path.said()).await;
    set_node_ready(path.provider, &node, "True").await;
    path.is_answered_by(&all).await;
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
