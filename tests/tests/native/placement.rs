//! Providers and consumers, and changes of them.

use causeway_tests::{multi_cluster_service, service};

use super::Stage;

#[tokio::test]
async fn every_cluster_provides_to_every_other_where_none_is_named() {
    let stage = Stage::new("all").await;
    service("foo")
        .port("http", 80)
        .create(stage.hub(), &stage.space)
        .await;
    multi_cluster_service("foo").create(&stage.space).await;
    let mut addresses = Vec::new();
    for member in ["member1", "member2", "member3"] {
        let pods = stage.pods(member, 1).await;
        addresses.push(pods[0].ip().to_owned());
    }
    for member in ["member1", "member2", "member3"] {
        stage.reaches(member, &addresses).await;
    }
    stage.ready().await;
}

#[tokio::test]
async fn provider_turned_consumer_uses_other_providers_only() {
    let stage = Stage::new("role").await;
    service("foo")
        .port("http", 80)
        .create(stage.hub(), &stage.space)
        .await;
    multi_cluster_service("foo")
        .providers(["member1", "member2"])
        .consumers(["member1", "member2"])
        .create(&stage.space)
        .await;
    let one = stage.pods("member1", 1).await;
    let two = stage.pods("member2", 1).await;
    stage.reaches("member2", &[one[0].ip(), two[0].ip()]).await;
    stage
        .edit_spec(r#"{"providerClusters":[{"name":"member1"}]}"#)
        .await;
    stage.reaches("member2", &[one[0].ip()]).await;
    stage.reaches("member1", &[one[0].ip()]).await;
    stage
        .edit_spec(r#"{"providerClusters":[{"name":"member1"},{"name":"member2"}]}"#)
        .await;
    stage.reaches("member1", &[one[0].ip(), two[0].ip()]).await;
    stage.ready().await;
}

#[tokio::test]
async fn a_consumer_or_provider_that_is_taken_out_is_cleaned() {
    let stage = Stage::new("out").await;
    service("foo")
        .port("http", 80)
        .create(stage.hub(), &stage.space)
        .await;
    multi_cluster_service("foo")
        .providers(["member1", "member3"])
        .consumers(["member2"])
        .create(&stage.space)
        .await;
    let one = stage.pods("member1", 1).await;
    let three = stage.pods("member3", 1).await;
    stage
        .reaches("member2", &[one[0].ip(), three[0].ip()])
        .await;
    stage
        .edit_spec(r#"{"providerClusters":[{"name":"member1"}]}"#)
        .await;
    stage.reaches("member2", &[one[0].ip()]).await;
    stage.clean("member3").await;
    stage
        .edit_spec(r#"{"consumerClusters":[{"name":"member3"}]}"#)
        .await;
    stage.clean("member2").await;
    stage.reaches("member3", &[one[0].ip()]).await;
}

#[tokio::test]
async fn a_deletion_cleans_every_member_before_the_object_goes() {
    let stage = Stage::new("delete").await;
    service("foo")
        .port("http", 80)
        .create(stage.hub(), &stage.space)
        .await;
    multi_cluster_service("foo").create(&stage.space).await;
    let pods = stage.pods("member1", 1).await;
    stage.reaches("member3", &[pods[0].ip()]).await;
    let finalizers = "jsonpath={.metadata.finalizers[*]}";
    stage
        .prints(
            stage.hub(),
            ["get", "mcs", "foo", "-o", finalizers],
            "mcs.causeway.dev/cleanup",
        )
        .await;
    stage
        .hub_kubectl(["delete", "mcs", "foo", "--timeout=20s"])
        .await;
    for member in ["member1", "member2", "member3"] {
        let kinds = "services,endpointslices";
        let own = "--selector=app.kubernetes.io/managed-by=causeway,endpointslice.kubernetes.io/managed-by!=endpointslice-controller.k8s.io";
        let left = stage
            .kubectl(stage.member(member), ["get", kinds, own, "-o", "name"])
            .await;
        assert_eq!(left.trim(), "", "{member}");
        let namespace = stage
            .member(member)
            .kubectl(["get", "ns", stage.space.name(), "-o", "name"])
            .await
            .ok();
        assert!(
            namespace.contains(stage.space.name()),
            "the namespace of {member} stays"
        );
    }
}

#[tokio::test]
async fn a_service_that_was_there_before_survives_the_deletion() {
    let stage = Stage::new("survive").await;
    service("foo")
        .port("http", 80)
        .create(stage.hub(), &stage.space)
        .await;
    service("foo")
        .port("http", 80)
        .create(stage.member("member1"), &stage.space)
        .await;
    stage.carry_from_member1_to_member2().await;
    stage.ready().await;
    stage
        .hub_kubectl(["delete", "mcs", "foo", "--timeout=20s"])
        .await;
    stage.clean("member2").await;
    stage
        .prints(
            stage.member("member1"),
            ["get", "svc", "foo", "-o", "jsonpath={.spec.ports[*].port}"],
            "80",
        )
        .await;
}
