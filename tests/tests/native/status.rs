//! Status of a MultiClusterService.

use causeway_tests::health::{in_argo_cd, in_kstatus, stored};
use causeway_tests::{multi_cluster_service, service};
use serde_json::{Value, json};

use super::space;

#[tokio::test]
async fn the_status_reads_as_the_guide_shows_it() {
    let space = space("reads").await;
    space.expose("foo", ["member1"], ["member2"]).await;
    space.says("foo", "Ready", "True|Ready|").await;
    let described = space.on_hub(["describe", "mcs", "foo"]).await;
    for line in [
        "Message:               EndpointSlices are propagated to target clusters.",
        "Reason:                EndpointSliceAppliedSuccess",
        "Type:                  EndpointSliceApplied",
        "Message:               Service is propagated to target clusters.",
        "Message:               EndpointSlice are dispatched successfully",
    ] {
        assert!(described.contains(line), "{line:?} is not in\n{described}");
    }
}

#[tokio::test]
async fn kubectl_get_shows_all_providers_and_consumers() {
    let space = space("columns").await;
    let (providers, consumers) = (["member1", "member2"], ["member2", "member3"]);
    space.expose("foo", providers, consumers).await;
    space.says("foo", "Ready", "True|Ready|").await;
    let row = space.on_hub(["get", "mcs", "foo", "--no-headers"]).await;
    let columns: Vec<_> = row.split_whitespace().collect();
    let expected = [
        "foo",
        r#"["CrossCluster"]"#,
        r#"[{"name":"member1"},{"name":"member2"}]"#,
        r#"[{"name":"member2"},{"name":"member3"}]"#,
        "True",
    ];
    assert_eq!(columns[..5], expected, "{row}");
}

#[tokio::test]
async fn every_condition_names_the_generation_that_it_speaks_of() {
    let space = space("generation").await;
    service("foo")
        .port("http", 80)
        .port("metrics", 9090)
        .create(space.hub(), &space)
        .await;
    space.offer("foo", ["member1"], ["member2"]).await;
    space.says("foo", "Ready", "True|Ready|").await;
    space.edit("foo", r#"{"ports":[{"port":80}]}"#).await;
    let seen = "jsonpath={.metadata.generation} {.status.conditions[*].observedGeneration}";
    space.shows("hub", ["mcs", "foo"], seen, "2 2 2 2 2").await;
}

#[tokio::test]
async fn a_cluster_that_is_not_joined_is_named() {
    let space = space("unknown").await;
    space
        .expose("foo", ["member1"], ["member2", "atlantis"])
        .await;
    let message = space
        .says("foo", "Ready", "False|ServiceAppliedFailed|")
        .await;
    assert_eq!(message, "1 of 3 clusters: atlantis is not joined");
}

#[tokio::test]
async fn member_in_pull_mode_without_credentials_is_left_out_and_named() {
    let space = space("pull").await;
    let cluster = "{apiVersion: cluster.karmada.io/v1alpha1, kind: Cluster, metadata: {name: puller}, spec: {syncMode: Pull}}";
    space.hub().apply(cluster).await.ok();
    space
        .expose("foo", ["member1"], ["member2", "puller"])
        .await;
    let message = space.says("foo", "Ready", "True|Ready|").await;
    let name = space.name();
    assert_eq!(
        message,
        format!(
            "{name}/foo is exposed in 1 cluster, backed by 1 cluster; no provider has a ready endpoint; \
             left out: puller (Pull mode without credentials)"
        )
    );
}

#[tokio::test]
async fn a_service_without_its_hub_service_says_so_and_recovers() {
    let space = space("missing").await;
    space.offer("foo", ["member1"], ["member2"]).await;
    let message = space.says("foo", "Ready", "False|ServiceNotFound|").await;
    assert_eq!(
        message,
        format!(
            "the hub has no Service {}/foo; nothing of it is offered to other clusters",
            space.name()
        )
    );
    service("foo")
        .port("http", 80)
        .create(space.hub(), &space)
        .await;
    space.says("foo", "Ready", "True|Ready|").await;
}

#[tokio::test]
async fn argo_cd_and_flux_see_a_service_and_a_member_as_they_are() {
    let space = space("gitops").await;
    let of_service = ["mcs", "foo", "-n", space.name()];
    space.offer("foo", ["member1"], ["member2"]).await;
    let message = space.says("foo", "Ready", "False|ServiceNotFound|").await;
    let object = stored(space.hub(), &of_service).await;
    let found = in_argo_cd(&object);
    assert_eq!(found.status, "Degraded");
    assert_eq!(found.message, format!("ServiceNotFound: {message}"));
    let found = in_kstatus(&object);
    assert_eq!(
        (found.status.as_str(), found.message),
        ("InProgress", message)
    );

    service("foo")
        .port("http", 80)
        .create(space.hub(), &space)
        .await;
    space.says("foo", "Ready", "True|Ready|").await;
    let of_member = ["cluster.cluster.karmada.io", "member1"];
    for args in [of_service.as_slice(), &of_member] {
        let object = stored(space.hub(), args).await;
        assert_eq!(in_argo_cd(&object).status, "Healthy", "{object}");
        assert_eq!(in_kstatus(&object).status, "Current", "{object}");
    }
}

#[tokio::test]
async fn the_addresses_of_the_providers_load_balancers_are_gathered() {
    let space = space("balancer").await;
    service("foo")
        .port("http", 80)
        .type_("LoadBalancer")
        .create(space.hub(), &space)
        .await;
    for (member, ip) in [("member1", "203.0.113.1"), ("member2", "203.0.113.2")] {
        service("foo")
            .port("http", 80)
            .type_("LoadBalancer")
            .create(space.member(member), &space)
            .await;
        let member = space.member(member);
        space.set_ingress(member, json!({ "ip": ip })).await;
    }
    multi_cluster_service("foo")
        .type_("LoadBalancer")
        .providers(["member1", "member2"])
        .create(&space)
        .await;
    space.says("foo", "Ready", "True|Ready|").await;
    let gathered = "jsonpath={.status.loadBalancer.ingress[*].ip}";
    space
        .shows("hub", ["mcs", "foo"], gathered, "203.0.113.1 203.0.113.2")
        .await;
    space.is_gone(space.member("member3"), "svc", "foo").await;
}

#[tokio::test]
async fn protected_namespace_is_untouched_without_a_webhook() {
    let space = space("protected").await;
    let object = "{apiVersion: networking.karmada.io/v1alpha1, kind: MultiClusterService, metadata: {name: kubernetes, namespace: default}, spec: {types: [CrossCluster]}}";
    space.hub().apply(object).await.ok();
    causeway_tests::eventually("it is refused", causeway_tests::SOON, async || {
        let text = space
            .hub()
            .kubectl(["get", "mcs", "kubernetes", "-n", "default", "-o", "json"])
            .await
            .ok();
        let object: Value = serde_json::from_str(&text).unwrap_or_default();
        let message = object["status"]["conditions"][0]["message"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        if message.starts_with("default/kubernetes is the API server") {
            Ok(())
        } else {
            Err(message)
        }
    })
    .await;
    space
        .hub()
        .kubectl(["delete", "mcs", "kubernetes", "-n", "default"])
        .await
        .ok();
}
