//! Entry clusters of a MultiClusterService of type LoadBalancer. The tests play the load balancers:
//! they write the status of Services.

use causeway_tests::{Space, multi_cluster_service, service};
use serde_json::json;

use super::space;

const LISTED: &str = "jsonpath={.status.loadBalancer.ingress[*].ip}";
const TYPE: &str = "jsonpath={.spec.type}";

/// Gives the Service of a cluster that address.
async fn balance(space: &Space<'_>, member: &str, ip: &str) {
    let member = space.member(member);
    space.set_ingress(member, json!({ "ip": ip })).await;
}

/// Exposes `foo`, whose pods are in member1, through member2 and member3.
async fn expose(space: &Space<'_>) {
    let hub = service("foo").port("http", 80).type_("LoadBalancer");
    let hub = hub.with(|spec| {
        spec.load_balancer_class = Some("example.com/none".to_owned());
        spec.load_balancer_source_ranges = Some(vec!["192.0.2.0/24".to_owned()]);
    });
    hub.create(space.hub(), space).await;
    let exposed = multi_cluster_service("foo").type_("LoadBalancer");
    let exposed = exposed.providers(["member1"]);
    exposed
        .consumers(["member2", "member3"])
        .create(space)
        .await;
}

#[tokio::test]
async fn entry_clusters_get_load_balancers_and_lose_them() {
    let space = space("entries").await;
    expose(&space).await;
    let pod = space.pod("foo", "member1").await;
    let asked = "jsonpath={.spec.type} {.spec.loadBalancerClass} {.spec.loadBalancerSourceRanges[*]} {.spec.externalTrafficPolicy}";
    for entry in ["member2", "member3"] {
        space.reaches(entry, "foo", &[pod.ip()]).await;
        let expected = "LoadBalancer example.com/none 192.0.2.0/24 Cluster";
        space.shows(entry, ["svc", "foo"], asked, expected).await;
    }
    space
        .shows("member1", ["svc", "foo"], TYPE, "ClusterIP")
        .await;
    balance(&space, "member2", "203.0.113.1").await;
    space
        .shows("hub", ["mcs", "foo"], LISTED, "203.0.113.1")
        .await;
    let message = space.says("foo", "Ready", "True|Ready|").await;
    let name = space.name();
    let start = format!("{name}/foo has 1 of 2 entry clusters in its status, backed by 1 cluster");
    assert!(message.starts_with(&start), "{message}");
    let missing = format!(
        "no load balancer of entry cluster member3 has given Service {name}/foo an address since "
    );
    assert!(message.contains(&missing), "{message}");
    balance(&space, "member3", "203.0.113.2").await;
    let both = "203.0.113.1 203.0.113.2";
    space.shows("hub", ["mcs", "foo"], LISTED, both).await;

    pod.set_ready(false).await;
    space.shows("hub", ["mcs", "foo"], LISTED, "").await;
    pod.set_ready(true).await;
    space.shows("hub", ["mcs", "foo"], LISTED, both).await;

    space
        .edit("foo", r#"{"consumerClusters":[{"name":"member3"}]}"#)
        .await;
    space.is_gone(space.member("member2"), "svc", "foo").await;
    space
        .shows("hub", ["mcs", "foo"], LISTED, "203.0.113.2")
        .await;
    space.delete("foo").await;
    for member in ["member1", "member3"] {
        space.is_gone(space.member(member), "svc", "foo").await;
        space.is_clean(member).await;
    }
}

#[tokio::test]
async fn own_service_of_an_entry_cluster_stays_as_it_is() {
    let space = space("entryown").await;
    let own = service("foo").port("http", 80).without_selector();
    own.create(space.member("member3"), &space).await;
    expose(&space).await;
    let pod = space.pod("foo", "member1").await;
    space.reaches("member2", "foo", &[pod.ip()]).await;
    balance(&space, "member2", "203.0.113.3").await;
    space
        .shows("hub", ["mcs", "foo"], LISTED, "203.0.113.3")
        .await;
    let message = space.says("foo", "Ready", "True|Ready|").await;
    let name = space.name();
    let why = format!(
        "Service {name}/foo of entry cluster member3 was made by somebody else and is not of type LoadBalancer \
         (in member3: kubectl -n {name} patch service foo"
    );
    assert!(message.contains(&why), "{message}");
    space
        .shows("member3", ["svc", "foo"], TYPE, "ClusterIP")
        .await;
    let patch = r#"{"spec":{"type":"LoadBalancer"}}"#;
    let patch = ["patch", "svc", "foo", "--type=merge", "-p", patch];
    space.kubectl(space.member("member3"), patch).await;
    balance(&space, "member3", "203.0.113.4").await;
    let both = "203.0.113.3 203.0.113.4";
    space.shows("hub", ["mcs", "foo"], LISTED, both).await;
    space.reaches("member3", "foo", &[pod.ip()]).await;
}
