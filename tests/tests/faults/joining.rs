//! Members that join, leave, or change.

use std::time::Duration;

use causeway_tests::causeway::{Lent, MEMBERS_NAMESPACE};
use causeway_tests::{LONG, Space, addresses, throughout};
use k8s_openapi::ByteString;
use serde_json::json;

#[tokio::test]
async fn removed_member_is_cleaned_and_its_endpoints_are_withdrawn() {
    let env = Lent::take().await;
    let (space, _) = env.foo("leave").await;
    env.mcs(["unjoin", "member1"]).await.ok();
    space.is_clean("member1").await;
    space.reaches_none("member2", "foo").await;
    let message = space
        .says("foo", "Ready", "False|ServiceAppliedFailed|")
        .await;
    assert_eq!(message, "1 of 2 clusters: member1 is not joined");
    env.join(env.member("member1")).await;
}

#[tokio::test]
async fn a_member_that_joins_later_is_served_at_once() {
    let env = Lent::take().await;
    let (space, addresses) = env.foo("later").await;
    env.mcs(["unjoin", "member2"]).await.ok();
    space.is_clean("member2").await;
    env.installation.join(env.member("member2")).await;
    space.reaches("member2", "foo", &addresses).await;
    space.says("foo", "Ready", "True|Ready|").await;
}

#[tokio::test]
async fn changed_credentials_need_no_restart_and_withdraw_nothing() {
    let env = Lent::take().await;
    let (space, addresses) = env.foo("secret").await;
    let good = env.secrets().get("member1").await;
    let good = good.expect("the Secret is there");
    let set_token = async |token: ByteString| {
        let patch = json!({ "data": { "token": token } });
        env.patch_secret("member1", patch).await;
    };
    set_token(ByteString(b"wrong".to_vec())).await;
    env.cluster_says("member1", "False|Unreachable|unauthorized")
        .await;
    throughout(
        "member2 reaches both pods",
        Duration::from_secs(2),
        async || space.ready_addresses(env.member("member2"), "foo").await == addresses,
    )
    .await;
    let token = good
        .data
        .and_then(|data| data.get("token").cloned())
        .expect("it has a token");
    set_token(token).await;
    env.is_synced("member1").await;
    space.says("foo", "Ready", "True|Ready|").await;
}

#[tokio::test]
async fn a_cluster_that_is_joined_twice_counts_once() {
    let env = Lent::take().await;
    let (space, addresses) = env.foo("twice").await;
    let secret = env.secrets().get("member2").await.expect("a Secret");
    env.put_secret(MEMBERS_NAMESPACE, "twin", &secret).await;
    env.join_as("twin", env.member("member2").url(), "twin")
        .await;
    let message = env.cluster_says("twin", "False|Refused|").await;
    assert!(
        message.starts_with("is the same cluster as member2"),
        "{message}"
    );
    env.is_synced("member2").await;
    assert_eq!(
        space.ready_addresses(env.member("member2"), "foo").await,
        addresses
    );
    env.hub()
        .kubectl(["delete", "cluster", "twin", "--timeout=180s"])
        .await
        .ok();
    let delete = ["delete", "secret", "twin", "-n", MEMBERS_NAMESPACE];
    env.hub().kubectl(delete).await.ok();
    assert_eq!(
        space.ready_addresses(env.member("member2"), "foo").await,
        addresses
    );
    assert_ne!(space.own_objects("member2").await, Vec::<String>::new());
}

#[tokio::test]
async fn namespace_is_created_only_with_the_right_and_stays() {
    let env = Lent::take().await;
    let space = Space::create(&env.fleet, "made", &[env.hub()])
        .await
        .patient(LONG);
    let member = env.member("member1");
    let kubeconfig = member.kubeconfig().display().to_string();
    let join = [
        "join",
        "member1",
        "--member-kubeconfig",
        &kubeconfig,
        "--allow-namespace-creation",
    ];
    env.mcs(join).await.ok();
    space.expose("foo", ["member1"], ["member1"]).await;
    space.says("foo", "Ready", "True|Ready|").await;
    let label = "jsonpath={.metadata.labels.app\\.kubernetes\\.io/managed-by}";
    let made = member
        .kubectl(["get", "ns", space.name(), "-o", label])
        .await
        .ok();
    assert_eq!(made, "causeway");
    space.delete("foo").await;
    member.kubectl(["get", "ns", space.name()]).await.ok();
}

#[tokio::test]
async fn hub_as_its_own_member_keeps_its_service() {
    let env = Lent::take().await;
    env.installation.join(env.hub()).await;
    let space = env.space("self").await;
    let both = ["member1", "hub"];
    space.expose("foo", both, both).await;
    let pods = space.pods("foo", "member1", 1).await;
    space.reaches("hub", "foo", &addresses(&pods)).await;
    space.delete("foo").await;
    space.is_clean("member1").await;
    space.reaches_none("hub", "foo").await;
    let untouched = [
        "get",
        "svc",
        "foo",
        "-n",
        space.name(),
        "-o",
        "jsonpath={.metadata.labels}{.spec.selector}",
    ];
    assert_eq!(env.hub().kubectl(untouched).await.ok(), "{\"app\":\"foo\"}");
    env.mcs(["unjoin", "hub"]).await.ok();
}

#[tokio::test]
async fn name_of_another_cluster_is_refused_even_after_a_restart() {
    let env = Lent::take().await;
    let (space, addresses) = env.foo("other").await;
    let mark = env.member("member3").mark().await;
    let other = env.secrets().get("member3").await.expect("a Secret");
    env.patch_secret("member2", json!({ "data": other.data }))
        .await;
    let endpoint = json!({ "spec": { "apiEndpoint": env.member("member3").url() } });
    env.patch_cluster("member2", endpoint).await;
    for _ in 0..2 {
        let message = env.cluster_says("member2", "False|Refused|").await;
        assert!(
            message.starts_with("its API server is another cluster's now"),
            "{message}"
        );
        env.controller.restart_in_order().await;
    }
    env.is_synced("member3").await;
    let spec = ["get", "cluster", "member3", "-o", "jsonpath={.spec}"];
    let spec = env.hub().kubectl(spec).await.ok();
    let mut written = env.member("member3").writes_since(mark, "causeway").await;
    written.retain(|write| write.namespace == space.name());
    assert_eq!(written, []);
    assert_eq!(
        space.ready_addresses(env.member("member2"), "foo").await,
        addresses
    );

    // Joined again, the name is the other cluster's.
    for name in ["member2", "member3"] {
        env.hub()
            .kubectl(["delete", "cluster", name, "--timeout=180s"])
            .await
            .ok();
    }
    let labels = json!({ "metadata": { "labels": { "mcs.causeway.dev/cluster": "member2" } } });
    env.patch_secret("member3", labels).await;
    let again = format!(
        "{{apiVersion: cluster.karmada.io/v1alpha1, kind: Cluster, metadata: {{name: member2}}, spec: {spec}}}"
    );
    env.hub().apply(&again).await.ok();
    env.is_synced("member2").await;
    space.reaches("member3", "foo", &addresses).await;

    let delete = ["delete", "cluster", "member2", "--timeout=180s"];
    env.hub().kubectl(delete).await.ok();
    for name in ["member2", "member3"] {
        env.join(env.member(name)).await;
    }
}

#[tokio::test]
async fn foreign_cluster_definition_is_only_read() {
    let mut env = Lent::take().await;
    let definition = "crd/clusters.cluster.karmada.io";
    let marks = ["app.kubernetes.io/managed-by", "app.kubernetes.io/name"];
    let label = ["label", definition];
    for member in ["member1", "member2", "member3"] {
        env.mcs(["unjoin", member]).await.ok();
    }
    let none = marks.map(|mark| format!("{mark}-"));
    let unmark = label.into_iter().chain(none.iter().map(String::as_str));
    env.hub().kubectl(unmark).await.ok();
    let launch = env.installation.controller();
    env.relaunch(launch).await;
    let (hub, members) = (
        env.hub(),
        ["member1", "member2"].map(|name| env.member(name)),
    );
    let mark = hub.mark().await;
    for member in members {
        env.installation.join_by_hand(hub, member, |_, _| {}).await;
    }
    let (space, addresses) = env.foo("read").await;
    let writes = hub.writes_since(mark, "causeway-controller").await;
    let written = |resource: &str| writes.iter().filter(|one| one.resource == resource).count();
    assert_eq!(written("clusters"), 0, "{writes:?}");
    assert!(written("multiclusterservices") > 0);

    // No finalizer holds the Cluster: the member is cleaned after it is gone, and what it gave is
    // withdrawn then.
    let leaves = ["delete", "cluster", "member1", "--timeout=5s"];
    hub.kubectl(leaves).await.ok();
    space.is_clean("member1").await;
    space.reaches_none("member2", "foo").await;
    let secret = ["delete", "secret", "member1", "-n", MEMBERS_NAMESPACE];
    hub.kubectl(secret).await.ok();
    env.installation
        .join_by_hand(hub, members[0], |_, _| {})
        .await;
    space.reaches("member2", "foo", &addresses).await;

    let all = marks.map(|mark| format!("{mark}=causeway"));
    let mark = label.into_iter().chain(all.iter().map(String::as_str));
    hub.kubectl(mark).await.ok();
    for member in env.fleet.members() {
        env.join(member).await;
    }
}
