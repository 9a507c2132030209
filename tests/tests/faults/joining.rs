//! Members that join, leave, or change.

use std::time::Duration;

use causeway_tests::audit::AuditedWrite;
use causeway_tests::causeway::{Installation, MEMBERS_NAMESPACE};
use causeway_tests::eventually::throughout;
use causeway_tests::{Fleet, SOON, multi_cluster_service, service};
use k8s_openapi::ByteString;
use serde_json::json;

use super::{Environment, NOTICED, cleaned, own_objects, reaches, says};

#[tokio::test]
async fn removed_member_is_cleaned_and_its_endpoints_are_withdrawn() {
    let env = Environment::start(2, &[]).await;
    let (space, _) = env.foo("leave").await;
    env.installation
        .kubectl_mcs(["unjoin", "member1"])
        .await
        .ok();
    cleaned(&space, env.member("member1"), SOON).await;
    reaches(&space, env.member("member2"), &[], SOON).await;
    let message = says(&space, "Ready", "False|ServiceAppliedFailed|", SOON).await;
    assert_eq!(message, "1 of 2 clusters: member1 is not joined");
}

#[tokio::test]
async fn a_member_that_joins_later_is_served_at_once() {
    let env = Environment::start(2, &[]).await;
    let (space, addresses) = env.foo("later").await;
    env.installation
        .kubectl_mcs(["unjoin", "member2"])
        .await
        .ok();
    cleaned(&space, env.member("member2"), SOON).await;
    env.installation.join(env.member("member2")).await;
    reaches(&space, env.member("member2"), &addresses, SOON).await;
    says(&space, "Ready", "True|Ready|", SOON).await;
}

#[tokio::test]
async fn changed_credentials_need_no_restart_and_withdraw_nothing() {
    let env = Environment::start(2, &[]).await;
    let (space, addresses) = env.foo("secret").await;
    let secrets = kube::Api::<k8s_openapi::api::core::v1::Secret>::namespaced(
        env.hub().client(),
        MEMBERS_NAMESPACE,
    );
    let good = secrets.get("member1").await.expect("the Secret is there");
    let set_token = async |token: ByteString| {
        let patch = serde_json::json!({"data": {"token": token}});
        let params = kube::api::PatchParams::default();
        secrets
            .patch("member1", &params, &kube::api::Patch::Merge(patch))
            .await
            .expect("it is stored");
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
    env.cluster_says("member1", "True|Synced|").await;
    says(&space, "Ready", "True|Ready|", NOTICED).await;
}

#[tokio::test]
async fn a_cluster_that_is_joined_twice_counts_once() {
    let env = Environment::start(2, &[]).await;
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
    env.cluster_says("member2", "True|Synced|").await;
    assert_eq!(
        space.ready_addresses(env.member("member2"), "foo").await,
        addresses
    );
    env.hub()
        .kubectl(["delete", "cluster", "twin", "--timeout=20s"])
        .await
        .ok();
    assert_eq!(
        space.ready_addresses(env.member("member2"), "foo").await,
        addresses
    );
    assert_ne!(
        own_objects(&space, env.member("member2")).await,
        Vec::<String>::new()
    );
}

#[tokio::test]
async fn namespace_is_created_only_with_the_right_and_stays() {
    let env = Environment::start(1, &[]).await;
    let space = causeway_tests::Space::create(&env.fleet, "made", &[env.hub()]).await;
    let member = env.member("member1");
    let kubeconfig = member.kubeconfig().display().to_string();
    let join = [
        "join",
        "member1",
        "--member-kubeconfig",
        &kubeconfig,
        "--allow-namespace-creation",
    ];
    env.installation.kubectl_mcs(join).await.ok();
    service("foo")
        .port("http", 80)
        .create(env.hub(), &space)
        .await;
    multi_cluster_service("foo").create(&space).await;
    says(&space, "Ready", "True|Ready|", SOON).await;
    let label = "jsonpath={.metadata.labels.app\\.kubernetes\\.io/managed-by}";
    let made = member
        .kubectl(["get", "ns", space.name(), "-o", label])
        .await
        .ok();
    assert_eq!(made, "causeway");
    env.hub()
        .kubectl(["delete", "mcs", "foo", "-n", space.name(), "--timeout=20s"])
        .await
        .ok();
    member.kubectl(["get", "ns", space.name()]).await.ok();
}

#[tokio::test]
async fn hub_as_its_own_member_keeps_its_service() {
    let env = Environment::start(1, &[]).await;
    env.installation.join(env.hub()).await;
    let space = env.fleet.space("self").await;
    service("foo")
        .port("http", 80)
        .create(env.hub(), &space)
        .await;
    multi_cluster_service("foo").create(&space).await;
    let pods = space
        .backends("foo")
        .count(1)
        .create(env.member("member1"))
        .await;
    let expected = [pods[0].ip().to_owned()];
    reaches(&space, env.hub(), &expected, SOON).await;
    env.hub()
        .kubectl(["delete", "mcs", "foo", "-n", space.name(), "--timeout=20s"])
        .await
        .ok();
    cleaned(&space, env.member("member1"), SOON).await;
    reaches(&space, env.hub(), &[], SOON).await;
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
}

#[tokio::test]
async fn name_of_another_cluster_is_refused_even_after_a_restart() {
    let env = Environment::start(3, &[]).await;
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
        env.controller.restart().await;
    }
    env.cluster_says("member3", "True|Synced|").await;
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
            .kubectl(["delete", "cluster", name, "--timeout=40s"])
            .await
            .ok();
    }
    let labels = json!({ "metadata": { "labels": { "mcs.causeway.dev/cluster": "member2" } } });
    env.patch_secret("member3", labels).await;
    let again = format!(
        "{{apiVersion: cluster.karmada.io/v1alpha1, kind: Cluster, metadata: {{name: member2}}, spec: {spec}}}"
    );
    env.hub().apply(&again).await.ok();
    env.cluster_says("member2", "True|Synced|").await;
    reaches(&space, env.member("member3"), &addresses, SOON).await;
}

#[tokio::test]
async fn foreign_cluster_definition_is_only_read() {
    let fleet = Fleet::builder().members(2).start().await;
    let installation = Installation::new(&fleet).await;
    let hub = fleet.hub();
    let definition = "crd/clusters.cluster.karmada.io";
    let marks = ["app.kubernetes.io/managed-by-", "app.kubernetes.io/name-"];
    let unmark = ["label", definition].into_iter().chain(marks);
    hub.kubectl(unmark).await.ok();
    let controller = installation.controller().start().await;
    let mark = hub.mark().await;
    for member in fleet.members() {
        installation.join_by_hand(hub, member, |_, _| {}).await;
    }
    let env = Environment {
        controller,
        installation,
        fleet,
    };
    let (space, addresses) = env.foo("read").await;
    let writes = env.hub().writes_since(mark, "causeway-controller").await;
    let clusters: Vec<_> = writes
        .iter()
        .filter(|write| write.resource == "clusters")
        .collect();
    assert_eq!(clusters, Vec::<&AuditedWrite>::new());
    assert!(
        writes
            .iter()
            .any(|write| write.resource == "multiclusterservices")
    );

    // No finalizer holds the Cluster: the member is cleaned after it is gone, and what it gave is withdrawn then.
    env.hub()
        .kubectl(["delete", "cluster", "member1", "--timeout=5s"])
        .await
        .ok();
    cleaned(&space, env.member("member1"), SOON).await;
    reaches(&space, env.member("member2"), &[], SOON).await;
    joins_again(&env).await;
    reaches(&space, env.member("member2"), &addresses, SOON).await;
}

async fn joins_again(env: &Environment) {
    let member = env.member("member1");
    env.hub()
        .kubectl(["delete", "secret", "member1", "-n", MEMBERS_NAMESPACE])
        .await
        .ok();
    env.installation
        .join_by_hand(env.hub(), member, |_, _| {})
        .await;
}
