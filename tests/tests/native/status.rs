//! Status of a MultiClusterService.

use causeway_tests::health::{in_argo_cd, in_kstatus, stored};
use causeway_tests::{multi_cluster_service, service};
use serde_json::Value;

use super::Stage;

#[tokio::test]
async fn the_status_reads_as_the_guide_shows_it() {
    let stage = Stage::new("reads").await;
    stage.serve_http().await;
    stage.ready().await;
    let described = stage.hub_kubectl(["describe", "mcs", "foo"]).await;
    for line in [
        "Message:               EndpointSlices are propagated to target clusters.",
        "Reason:                EndpointSliceAppliedSuccess",
        "Type:                  EndpointSliceApplied",
        "Message:               Service is propagated to target clusters.",
        "Message:               EndpointSlice are dispatched successfully",
    ] {
        assert!(described.contains(line), "{line:?} is not in\n{described}");
    }
    let row = stage
        .hub_kubectl(["get", "mcs", "foo", "--no-headers"])
        .await;
    let columns: Vec<_> = row.split_whitespace().collect();
    assert_eq!(
        columns[..5],
        ["foo", "CrossCluster", "member1", "member2", "True"],
        "{row}"
    );
}

#[tokio::test]
async fn every_condition_names_the_generation_that_it_speaks_of() {
    let stage = Stage::new("generation").await;
    service("foo")
        .port("http", 80)
        .port("metrics", 9090)
        .create(stage.hub(), &stage.space)
        .await;
    stage.carry_from_member1_to_member2().await;
    stage.ready().await;
    stage.edit_spec(r#"{"ports":[{"port":80}]}"#).await;
    let seen = "jsonpath={.metadata.generation} {.status.conditions[*].observedGeneration}";
    stage
        .prints(stage.hub(), ["get", "mcs", "foo", "-o", seen], "2 2 2 2 2")
        .await;
}

#[tokio::test]
async fn a_cluster_that_is_not_joined_is_named() {
    let stage = Stage::new("unknown").await;
    service("foo")
        .port("http", 80)
        .create(stage.hub(), &stage.space)
        .await;
    multi_cluster_service("foo")
        .providers(["member1"])
        .consumers(["member2", "atlantis"])
        .create(&stage.space)
        .await;
    let message = stage
        .condition("Ready", "False", "ServiceAppliedFailed")
        .await;
    assert_eq!(message, "1 of 3 clusters: atlantis is not joined");
}

#[tokio::test]
async fn member_in_pull_mode_without_credentials_is_left_out_and_named() {
    let stage = Stage::new("pull").await;
    let cluster = "{apiVersion: cluster.karmada.io/v1alpha1, kind: Cluster, metadata: {name: puller}, spec: {syncMode: Pull}}";
    stage.hub().apply(cluster).await.ok();
    service("foo")
        .port("http", 80)
        .create(stage.hub(), &stage.space)
        .await;
    multi_cluster_service("foo")
        .providers(["member1"])
        .consumers(["member2", "puller"])
        .create(&stage.space)
        .await;
    let message = stage.ready().await;
    let name = stage.space.name();
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
    let stage = Stage::new("missing").await;
    stage.carry_from_member1_to_member2().await;
    let message = stage.condition("Ready", "False", "ServiceNotFound").await;
    assert_eq!(
        message,
        format!(
            "the hub has no Service {}/foo; nothing of it is offered to other clusters",
            stage.space.name()
        )
    );
    service("foo")
        .port("http", 80)
        .create(stage.hub(), &stage.space)
        .await;
    stage.ready().await;
}

#[tokio::test]
async fn argo_cd_and_flux_see_a_service_and_a_member_as_they_are() {
    let stage = Stage::new("gitops").await;
    let of_service = ["mcs", "foo", "-n", stage.space.name()];
    stage.carry_from_member1_to_member2().await;
    let message = stage.condition("Ready", "False", "ServiceNotFound").await;
    let object = stored(stage.hub(), &of_service).await;
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
        .create(stage.hub(), &stage.space)
        .await;
    stage.ready().await;
    let of_member = ["cluster.cluster.karmada.io", "member1"];
    for args in [of_service.as_slice(), &of_member] {
        let object = stored(stage.hub(), args).await;
        assert_eq!(in_argo_cd(&object).status, "Healthy", "{object}");
        assert_eq!(in_kstatus(&object).status, "Current", "{object}");
    }
}

#[tokio::test]
async fn the_addresses_of_the_providers_load_balancers_are_gathered() {
    let stage = Stage::new("balancer").await;
    service("foo")
        .port("http", 80)
        .type_("LoadBalancer")
        .create(stage.hub(), &stage.space)
        .await;
    for (member, ip) in [("member1", "203.0.113.1"), ("member2", "203.0.113.2")] {
        service("foo")
            .port("http", 80)
            .type_("LoadBalancer")
            .create(stage.member(member), &stage.space)
            .await;
        let status = format!(r#"{{"status":{{"loadBalancer":{{"ingress":[{{"ip":"{ip}"}}]}}}}}}"#);
        stage
            .kubectl(
                stage.member(member),
                [
                    "patch",
                    "svc",
                    "foo",
                    "--subresource=status",
                    "--type=merge",
                    "-p",
                    &status,
                ],
            )
            .await;
    }
    multi_cluster_service("foo")
        .type_("LoadBalancer")
        .providers(["member1", "member2"])
        .create(&stage.space)
        .await;
    stage.ready().await;
    let gathered = "jsonpath={.status.loadBalancer.ingress[*].ip}";
    stage
        .prints(
            stage.hub(),
            ["get", "mcs", "foo", "-o", gathered],
            "203.0.113.1 203.0.113.2",
        )
        .await;
    stage.gone(stage.member("member3"), "svc", "foo").await;
}

#[tokio::test]
async fn protected_namespace_is_untouched_without_a_webhook() {
    let stage = Stage::new("protected").await;
    let object = "{apiVersion: networking.karmada.io/v1alpha1, kind: MultiClusterService, metadata: {name: kubernetes, namespace: default}, spec: {types: [CrossCluster]}}";
    stage.hub().apply(object).await.ok();
    causeway_tests::eventually("it is refused", causeway_tests::SOON, async || {
        let text = stage
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
    stage
        .hub()
        .kubectl(["delete", "mcs", "kubernetes", "-n", "default"])
        .await
        .ok();
}
