//! Packets from outside to the address of an entry cluster's load balancer. kube-proxy answers at
//! the address, as it does behind the load balancer of a cloud.

use causeway_tests::{SOON, Space, eventually, multi_cluster_service, same};
use k8s_openapi::api::core::v1::Service;
use serde_json::json;

use super::client::Client;
use super::networks::{none_failed, route};
use super::{answering_at, env, said_by, web};
use causeway_tests::Cluster;

const ADDRESS: &str = "203.0.113.40";

#[tokio::test]
async fn address_of_an_entry_cluster_leads_to_pods_of_both_providers() {
    let Some(env) = env().await else { return };
    let space = env.fleet.space("entry").await;
    let [one, two, entry] = ["member1", "member2", "member3"].map(|name| env.fleet.member(name));
    web().create(env.fleet.hub(), &space).await;
    let first = space.pod("foo", one.name()).await;
    let second = space.pod("foo", two.name()).await;
    let exposed = multi_cluster_service("foo").type_("LoadBalancer");
    let exposed = exposed.providers([one.name(), two.name()]);
    exposed.consumers([entry.name()]).create(&space).await;
    is_balanced(&space, entry).await;
    // Nobody but the entry cluster knows the address.
    let outside = one;
    route(outside, ADDRESS, entry).await;
    space.set_ingress(entry, json!({"ip": ADDRESS})).await;
    let listed = "jsonpath={.status.loadBalancer.ingress[*].ip}";
    space.shows("hub", ["mcs", "foo"], listed, ADDRESS).await;
    let url = format!("http://{ADDRESS}");
    let both = said_by(&[(&first, one.name()), (&second, two.name())]);
    is_answered_by(outside, &url, &both).await;

    first.network().kill().await;
    first.set_ready(false).await;
    let left = said_by(&[(&second, two.name())]);
    is_answered_by(outside, &url, &left).await;
    let client = Client::start(&env.fleet, outside, &url);
    let began = std::time::SystemTime::now();
    for _ in 0..10 {
        client.answered_by(&left, began).await;
        assert_eq!(answering_at(outside, &url).await, left);
    }
    none_failed(
        "a provider was killed, and it is noticed",
        &client.stop().await,
    );
    space.shows("hub", ["mcs", "foo"], listed, ADDRESS).await;
}

/// Waits until the entry cluster has its Service of type LoadBalancer.
async fn is_balanced(space: &Space<'_>, entry: &Cluster) {
    let services = space.api::<Service>(entry);
    eventually("the entry cluster has its Service", SOON, || async {
        let service = services.get("foo").await.map_err(|e| e.to_string())?;
        let type_ = service.spec.and_then(|spec| spec.type_);
        same(type_.as_deref(), &Some("LoadBalancer"))
    })
    .await;
}

async fn is_answered_by(cluster: &Cluster, url: &str, expected: &[String]) {
    eventually(
        &format!("{url} is answered by {expected:?}"),
        SOON,
        || async { same(answering_at(cluster, url).await, &expected) },
    )
    .await;
}
