//! Providers and consumers, and changes of them.

use causeway_tests::{multi_cluster_service, service};

use super::space;

#[tokio::test]
async fn every_cluster_provides_to_every_other_where_none_is_named() {
    let space = space("all").await;
    service("foo")
        .port("http", 80)
        .create(space.hub(), &space)
        .await;
    multi_cluster_service("foo").create(&space).await;
    let mut addresses = Vec::new();
    for member in ["member1", "member2", "member3"] {
        let pods = space.pods("foo", member, 1).await;
        addresses.push(pods[0].ip().to_owned());
    }
    for member in ["member1", "member2", "member3"] {
        space.reaches(member, "foo", &addresses).await;
    }
    space.says("foo", "Ready", "True|Ready|").await;
}

#[tokio::test]
async fn provider_turned_consumer_uses_other_providers_only() {
    let space = space("role").await;
    space
        .expose("foo", ["member1", "member2"], ["member1", "member2"])
        .await;
    let one = space.pods("foo", "member1", 1).await;
    let two = space.pods("foo", "member2", 1).await;
    space
        .reaches("member2", "foo", &[one[0].ip(), two[0].ip()])
        .await;
    space
        .edit("foo", r#"{"providerClusters":[{"name":"member1"}]}"#)
        .await;
    space.reaches("member2", "foo", &[one[0].ip()]).await;
    space.reaches("member1", "foo", &[one[0].ip()]).await;
    space
        .edit(
            "foo",
            r#"{"providerClusters":[{"name":"member1"},{"name":"member2"}]}"#,
        )
        .await;
    space
        .reaches("member1", "foo", &[one[0].ip(), two[0].ip()])
        .await;
    space.says("foo", "Ready", "True|Ready|").await;
}

#[tokio::test]
async fn a_consumer_or_provider_that_is_taken_out_is_cleaned() {
    let space = space("out").await;
    space
        .expose("foo", ["member1", "member3"], ["member2"])
        .await;
    let one = space.pods("foo", "member1", 1).await;
    let three = space.pods("foo", "member3", 1).await;
    space
        .reaches("member2", "foo", &[one[0].ip(), three[0].ip()])
        .await;
    space
        .edit("foo", r#"{"providerClusters":[{"name":"member1"}]}"#)
        .await;
    space.reaches("member2", "foo", &[one[0].ip()]).await;
    space.is_clean("member3").await;
    space
        .edit("foo", r#"{"consumerClusters":[{"name":"member3"}]}"#)
        .await;
    space.is_clean("member2").await;
    space.reaches("member3", "foo", &[one[0].ip()]).await;
}

#[tokio::test]
async fn a_deletion_cleans_every_member_before_the_object_goes() {
    let space = space("delete").await;
    service("foo")
        .port("http", 80)
        .create(space.hub(), &space)
        .await;
    multi_cluster_service("foo").create(&space).await;
    let pods = space.pods("foo", "member1", 1).await;
    space.reaches("member3", "foo", &[pods[0].ip()]).await;
    let finalizers = "jsonpath={.metadata.finalizers[*]}";
    space
        .shows(
            "hub",
            ["mcs", "foo"],
            finalizers,
            "mcs.causeway.dev/cleanup",
        )
        .await;
    space
        .on_hub(["delete", "mcs", "foo", "--timeout=180s"])
        .await;
    for member in ["member1", "member2", "member3"] {
        let kinds = "services,endpointslices";
        let own = "--selector=app.kubernetes.io/managed-by=causeway,endpointslice.kubernetes.io/managed-by!=endpointslice-controller.k8s.io";
        let left = space
            .kubectl(space.member(member), ["get", kinds, own, "-o", "name"])
            .await;
        assert_eq!(left.trim(), "", "{member}");
        let namespace = space
            .member(member)
            .kubectl(["get", "ns", space.name(), "-o", "name"])
            .await
            .ok();
        assert!(
            namespace.contains(space.name()),
            "the namespace of {member} stays"
        );
    }
}

#[tokio::test]
async fn a_service_that_was_there_before_survives_the_deletion() {
    let space = space("survive").await;
    service("foo")
        .port("http", 80)
        .create(space.hub(), &space)
        .await;
    service("foo")
        .port("http", 80)
        .create(space.member("member1"), &space)
        .await;
    space.offer("foo", ["member1"], ["member2"]).await;
    space.says("foo", "Ready", "True|Ready|").await;
    space
        .on_hub(["delete", "mcs", "foo", "--timeout=180s"])
        .await;
    space.is_clean("member2").await;
    space
        .shows(
            "member1",
            ["svc", "foo"],
            "jsonpath={.spec.ports[*].port}",
            "80",
        )
        .await;
}
