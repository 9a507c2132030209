//! Clusters and Secrets of the hub that are invalid for a while, or gone too early.

use std::time::{Duration, Instant};

use causeway::domain::protected::DEFAULT_NAMESPACE;
use causeway_tests::audit::Mark;
use causeway_tests::causeway::{Lent, MEMBERS_NAMESPACE as NAMESPACE};
use causeway_tests::{Cluster, LONG, SOON, eventually, soak};
use k8s_openapi::ByteString;
use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec};
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::api::{DeleteParams, ListParams, PostParams};
use serde_json::json;
use tokio::net::TcpListener;
use tokio::time::timeout;

#[tokio::test]
async fn invalid_configuration_keeps_the_last_connection() {
    let env = Lent::take().await;
    let (space, mut addresses) = env.foo("wrong").await;
    let good = env.secrets().get("member1").await.expect("a Secret");
    let url = env.member("member1").url();
    let endpoint = |url: &str| json!({ "spec": { "apiEndpoint": url } });
    let reference = |name: &str| json!({ "spec": { "secretRef": { "name": name } } });
    let data = |key: &str, value: &ByteString| json!({ "data": { key: value } });
    let data_of = |key: &str| good.data.as_ref().expect("its data")[key].clone();
    let garbage = ByteString(b"no certificate".to_vec());
    let empty = ByteString(Vec::new());
    let of_cluster = [
        (endpoint("http://127.0.0.1:1"), endpoint(url)),
        (reference("nobody"), reference("member1")),
    ];
    let of_secret = [
        (
            data("caBundle", &garbage),
            data("caBundle", &data_of("caBundle")),
        ),
        (data("token", &empty), data("token", &data_of("token"))),
    ];
    let wrong = async |what: &str| {
        let said = env
            .cluster_says("member1", "False|InvalidConfiguration|")
            .await;
        assert!(
            said.contains("its last connection is kept"),
            "{what}: {said}"
        );
    };
    for (patch, back) in of_cluster {
        env.patch_cluster("member1", patch.clone()).await;
        wrong(&patch.to_string()).await;
        space.grows(&mut addresses).await;
        env.patch_cluster("member1", back).await;
        env.is_synced("member1").await;
    }
    for (patch, back) in of_secret {
        env.patch_secret("member1", patch.clone()).await;
        wrong(&patch.to_string()).await;
        space.grows(&mut addresses).await;
        env.patch_secret("member1", back).await;
        env.is_synced("member1").await;
    }
    let delete = ["delete", "secret", "member1", "-n", NAMESPACE];
    env.hub().kubectl(delete).await.ok();
    env.touch("member1").await;
    wrong("no Secret").await;
    space.grows(&mut addresses).await;
    env.put_secret(NAMESPACE, "member1", &good).await;
    env.is_synced("member1").await;
    space.grows(&mut addresses).await;
    space.says("foo", "Ready", "True|Ready|").await;
    env.join(env.member("member1")).await;
}

/// Creates a token of causeway's account in a member. It is valid until its Secret is deleted.
async fn new_token(member: &Cluster, name: &str) -> ByteString {
    let secret = format!(
        "{{apiVersion: v1, kind: Secret, type: kubernetes.io/service-account-token, metadata: {{name: {name}, \
         namespace: {DEFAULT_NAMESPACE}, annotations: {{kubernetes.io/service-account.name: causeway}}}}}}"
    );
    member.apply(&secret).await.ok();
    let secrets = Api::<Secret>::namespaced(member.client(), DEFAULT_NAMESPACE);
    eventually("the token is there", SOON, async || {
        let secret = secrets.get(name).await.map_err(|e| e.to_string())?;
        let token = secret.data.and_then(|mut data| data.remove("token"));
        token.ok_or_else(|| "no token".to_owned())
    })
    .await
}

/// Returns the lists of Services, EndpointSlices and Namespaces since then, by their URIs.
async fn lists_since(member: &Cluster, mark: Mark) -> Vec<String> {
    let mut listed = member.lists_since(mark).await;
    listed.retain(|uri| !uri.contains("/multicluster.x-k8s.io/"));
    listed
}

/// Renews tokens three times; in the long form, for as long as `CAUSEWAY_SOAK` says. In that time
/// watches end by themselves, and look at one object.
#[ignore = "slow: make test ALL=1"]
#[tokio::test]
async fn renewed_tokens_end_no_watch_and_list_nothing() {
    let env = Lent::take().await;
    let (space, mut addresses) = env.foo("renewed").await;
    let members = ["member1", "member2"].map(|name| env.member(name));
    // A first list of nothing is confirmed by a second one, half a minute later. After a restart
    // only the lists of exports and imports are such.
    let marks = [members[0].mark().await, members[1].mark().await];
    env.controller.restart_in_order().await;
    for (member, mark) in members.iter().zip(marks) {
        eventually("every kind is listed", SOON, async || {
            let listed = lists_since(member, mark).await;
            (listed.len() >= 3)
                .then_some(())
                .ok_or_else(|| listed.join(" "))
        })
        .await;
    }
    let since = "jsonpath={.items[*].status.conditions[?(@.type==\"Ready\")].lastTransitionTime}";
    let transitions = ["get", "clusters", "-o", since];
    let synced = env.hub().kubectl(transitions).await.ok();
    let (begun, long) = (Instant::now(), soak::soak());
    for round in 0.. {
        if round >= 3 && begun.elapsed() >= long.unwrap_or_default() {
            let each = begun.elapsed() / round;
            eprintln!("{round} tokens of each member, each for {each:?} on average");
            break;
        }
        let marks = [members[0].mark().await, members[1].mark().await];
        for member in members {
            let secrets = Api::<Secret>::namespaced(member.client(), DEFAULT_NAMESPACE);
            let old = secrets.list(&ListParams::default()).await.expect("Secrets");
            let token = new_token(member, &format!("renewed-{round}")).await;
            let renewed = json!({ "data": { "token": token } });
            env.patch_secret(member.name(), renewed).await;
            for old in old.items {
                let name = old.metadata.name.expect("a name");
                let deleted = secrets.delete(&name, &DeleteParams::default()).await;
                deleted.expect("the old token is revoked");
                let dead = old.data.and_then(|mut data| data.remove("token"));
                is_refused(member, &dead.expect("a token")).await;
            }
        }
        space.grows(&mut addresses).await;
        for (member, mark) in members.iter().zip(marks) {
            let listed = match long {
                None => lists_since(member, mark).await,
                Some(_) => member.whole_lists_since(mark).await,
            };
            assert!(listed.is_empty(), "{}: {listed:?}", member.name());
        }
    }
    let still = env.hub().kubectl(transitions).await.ok();
    assert_eq!(still, synced, "a Cluster was not ready for a while");
}

#[tokio::test]
async fn token_that_comes_after_the_old_one_ended_is_used_without_a_list() {
    let env = Lent::take().await;
    let (space, mut addresses) = env.foo("ended").await;
    let members = ["member1", "member2"].map(|name| env.member(name));
    let secrets = Api::<Secret>::namespaced(members[0].client(), DEFAULT_NAMESPACE);
    let old = secrets.list(&ListParams::default()).await.expect("Secrets");
    for old in old.items {
        let name = old.metadata.name.expect("a name");
        let deleted = secrets.delete(&name, &DeleteParams::default()).await;
        deleted.expect("the token is revoked");
    }
    let message = env.cluster_says("member1", "False|Unreachable|").await;
    assert!(message.contains("unauthorized"), "{message}");
    let mark = members[0].mark().await;
    let token = new_token(members[0], "late").await;
    env.patch_secret("member1", json!({ "data": { "token": token } }))
        .await;
    env.cluster_says("member1", "True|").await;
    space.grows(&mut addresses).await;
    let listed = members[0].whole_lists_since(mark).await;
    assert!(listed.is_empty(), "{listed:?}");
}

/// Waits until an API server refuses a token. It remembers valid tokens for some seconds.
async fn is_refused(member: &Cluster, token: &ByteString) {
    let review = TokenReview {
        spec: TokenReviewSpec {
            token: String::from_utf8(token.0.clone()).ok(),
            ..TokenReviewSpec::default()
        },
        ..TokenReview::default()
    };
    let reviews = Api::<TokenReview>::all(member.client());
    eventually("the revoked token is refused", SOON, async || {
        let answer = reviews.create(&PostParams::default(), &review).await;
        let status = answer.map_err(|e| e.to_string())?.status;
        let is_valid = status.and_then(|status| status.authenticated);
        (is_valid != Some(true))
            .then_some(())
            .ok_or_else(|| "valid".to_owned())
    })
    .await;
}

#[tokio::test]
async fn refused_member_is_used_after_its_secret_is_created() {
    let env = Lent::take().await;
    let (space, addresses) = env.foo("late").await;
    let good = env.secrets().get("member1").await.expect("a Secret");
    let delete = ["delete", "secret", "member1", "-n", NAMESPACE];
    env.hub().kubectl(delete).await.ok();
    env.controller.restart_in_order().await;
    env.cluster_says("member1", "False|Refused|").await;
    env.touch("member1").await;
    assert_eq!(
        space.ready_addresses(env.member("member2"), "foo").await,
        addresses
    );
    env.put_secret(NAMESPACE, "member1", &good).await;
    env.is_synced("member1").await;
    space.says("foo", "Ready", "True|Ready|").await;
    env.join(env.member("member1")).await;
}

#[tokio::test]
async fn member_is_cleaned_although_its_secret_is_deleted_first() {
    let env = Lent::take().await;
    let (space, _) = env.foo("pruned").await;
    let delete = ["delete", "secret", "member1", "member2", "-n", NAMESPACE];
    env.hub().kubectl(delete).await.ok();
    for member in ["member1", "member2"] {
        env.touch(member).await;
        env.cluster_says(member, "False|InvalidConfiguration|")
            .await;
        let delete = ["delete", "cluster", member, "--timeout=180s"];
        env.hub().kubectl(delete).await.ok();
        space.is_clean(member).await;
        env.join(env.member(member)).await;
    }
}

#[tokio::test]
async fn second_name_of_a_cluster_may_become_another_cluster() {
    let env = Lent::take().await;
    let hub_as_member = env.hub();
    let space = env.space("mistake").await;
    let secret = env.secrets().get("member2").await.expect("a Secret");
    env.put_secret(NAMESPACE, "twin", &secret).await;
    env.join_as("twin", env.member("member2").url(), "twin")
        .await;
    let said = env.cluster_says("twin", "False|Refused|").await;
    assert!(said.starts_with("is the same cluster as member2"), "{said}");

    // It was meant to be the hub itself.
    env.installation.join(hub_as_member).await;
    let own = env.secrets().get("hub").await.expect("a Secret");
    env.mcs(["unjoin", "hub"]).await.ok();
    env.patch_secret("twin", json!({ "data": own.data })).await;
    let endpoint = json!({ "spec": { "apiEndpoint": hub_as_member.url() } });
    env.patch_cluster("twin", endpoint).await;
    env.is_synced("twin").await;
    env.is_synced("member2").await;
    space.expose("foo", ["member2"], ["twin"]).await;
    let pods = space.backends("foo").count(1);
    let pods = pods.create(env.member("member2")).await;
    space.reaches("hub", "foo", &[pods[0].ip()]).await;
    env.mcs(["unjoin", "twin"]).await.ok();
    // It was not made by join, so unjoin leaves it.
    let delete = ["delete", "secret", "twin", "-n", NAMESPACE];
    env.hub().kubectl(delete).await.ok();
}

#[tokio::test]
async fn secret_of_another_cluster_is_never_sent() {
    let env = Lent::take().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("https://{}", listener.local_addr().expect("an address"));
    env.join_as("thief", &url, "member1").await;
    let said = env.cluster_says("thief", "False|Refused|").await;
    let expected = format!("Secret {NAMESPACE}/member1 is not Cluster thief's: it is labelled for");
    assert!(said.starts_with(&expected), "{said}");
    let unlabelled = json!({ "metadata": { "labels": { "mcs.causeway.dev/cluster": null } } });
    env.patch_secret("member1", unlabelled).await;
    env.touch("thief").await;
    let said = env.cluster_says("thief", "False|Refused|").await;
    assert!(
        said.contains("label it mcs.causeway.dev/cluster=thief"),
        "{said}"
    );
    env.is_synced("member1").await;
    let controllers = json!({ "spec": { "secretRef": {
        "namespace": "causeway-system", "name": "causeway-controller-token",
    } } });
    env.patch_cluster("thief", controllers).await;
    let expected = "False|Refused|its Secret is in namespace causeway-system, where";
    env.cluster_says("thief", expected).await;
    let connected = timeout(Duration::from_secs(2), listener.accept()).await;
    assert!(connected.is_err(), "somebody connected: {connected:?}");

    // What is meant for it is used, and leads to that address.
    let reference =
        json!({ "spec": { "secretRef": { "namespace": NAMESPACE, "name": "member1" } } });
    env.patch_cluster("thief", reference).await;
    let labels = json!({ "metadata": { "labels": { "mcs.causeway.dev/cluster": "thief" } } });
    env.patch_secret("member1", labels).await;
    let connected = timeout(LONG, listener.accept()).await;
    connected.expect("it connects").expect("a connection");
    env.cluster_says("member1", "False|InvalidConfiguration|")
        .await;
    let delete = ["delete", "cluster", "thief", "--wait=false"];
    env.hub().kubectl(delete).await.ok();
    env.join(env.member("member1")).await;
}
