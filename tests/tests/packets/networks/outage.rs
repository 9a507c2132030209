//! Traffic between networks while something is away.

use std::time::SystemTime;

use causeway::api::labels;
use causeway_tests::multi_cluster_service;

use super::{Path, env, env_alone, is_answered_by, none_failed, said_in, web};
use crate::client::Client;

#[tokio::test]
async fn traffic_between_networks_continues_without_hub_and_controller() {
    let Some(env) = env_alone().await else { return };
    let space = env.fleet.space("stopped").await;
    let mut path = Path::set_up(&env, &space, ["member1", "member2"]).await;
    let client = Client::start(&env.fleet, path.consumer, &path.url().await);
    env.controller.process().kill().await;
    env.webhook().process().kill().await;
    env.fleet.hub().stop().await;
    // The proxy of a node follows the pods of the node by itself.
    let begun = SystemTime::now();
    let fresh = space.backends("foo").create(path.provider).await;
    client
        .answered_by(&said_in(path.provider, &fresh), begun)
        .await;
    let old = std::mem::replace(&mut path.pods, fresh);
    for pod in &old {
        pod.terminate().await;
    }
    path.is_answered_by(&path.said()).await;
    for pod in &old {
        pod.delete().await;
    }
    let requests = client.stop().await;
    env.fleet.hub().start().await;
    env.webhook().restart().await;
    env.controller.restart().await;
    none_failed("hub, webhook and controller are stopped", &requests);
}

#[tokio::test]
async fn standby_of_another_network_takes_over() {
    let Some(env) = env().await else { return };
    let space = env.fleet.space("tiers").await;
    let [far, near] = ["member1", "member2"].map(|name| env.fleet.member(name));
    for cluster in [env.fleet.hub(), far, near] {
        web().create(cluster, &space).await;
    }
    let near_pods = space.backends("foo").count(2).create(near).await;
    let far_pods = space.backends("foo").count(2).create(far).await;
    let exposed = multi_cluster_service("foo").providers(["member1", "member2"]);
    let exposed = exposed.consumers(["member2"]);
    let exposed = exposed.annotation(labels::PREFER, "local, any");
    exposed.create(&space).await;
    is_answered_by(near, &space, &said_in(near, &near_pods)).await;
    for pod in &near_pods {
        pod.set_ready(false).await;
    }
    is_answered_by(near, &space, &said_in(far, &far_pods)).await;
}
