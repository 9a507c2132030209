//! Namespaces on their way out, in a member and on the hub.

use std::time::Duration;

use causeway_tests::audit::Mark;
use causeway_tests::{Cluster, LONG, Space, eventually, same, service, service_export, throughout};

use super::env;

/// Time without any write.
const REST: Duration = Duration::from_secs(3);

/// Deletes the namespace of a test in a cluster in which something holds it.
async fn condemn(space: &Space<'_>, cluster: &Cluster) {
    let delete = ["delete", "namespace", space.name(), "--wait=false"];
    cluster.kubectl(delete).await.ok();
}

/// Waits until the namespace is gone, and recreates it.
async fn recreate(space: &Space<'_>, cluster: &Cluster) {
    let gone = ["wait", "--for=delete", "--timeout=100s", "namespace"];
    let gone = gone.into_iter().chain([space.name()]);
    cluster.kubectl(gone).await.ok();
    space.create_in(cluster).await;
}

/// The controller's writes into the namespace, events aside, each answered or refused.
async fn writes(space: &Space<'_>, cluster: &Cluster, mark: Mark) -> Vec<String> {
    let mut all = cluster.writes_since(mark, "causeway").await;
    all.retain(|write| write.namespace == space.name() && write.resource != "events");
    let line = |write: causeway_tests::audit::AuditedWrite| {
        format!(
            "{} {} {} {}",
            write.verb, write.resource, write.name, write.code
        )
    };
    all.into_iter().map(line).collect()
}

/// `stays` and `ends` of giver, and `exported`, all reached by taker; the addresses of the first
/// two.
async fn carried(space: &Space<'_>, giver: &Cluster) -> Vec<String> {
    let mut addresses = Vec::new();
    for name in ["stays", "ends"] {
        space.expose(name, ["giver"], ["taker"]).await;
        addresses.push(space.pod(name, "giver").await.ip().to_owned());
        space
            .reaches("taker", name, &[&addresses[addresses.len() - 1]])
            .await;
    }
    service("exported")
        .port("http", 80)
        .create(giver, space)
        .await;
    service_export("exported").create(giver, space).await;
    let exported = space.pod("exported", "giver").await.ip().to_owned();
    space
        .reaches("taker", "derived-exported", &[&exported])
        .await;
    addresses
}

#[tokio::test]
async fn terminating_namespace_of_a_member_blocks_nothing() {
    let env = env().await;
    let _peace = env.peace.read().await;
    let space = env.space("held").await;
    let (giver, taker) = (env.member("giver"), env.member("taker"));
    let addresses = carried(&space, giver).await;

    // Pods go first, and all else waits for this one, for no kubelet ends it.
    let holder = space.backends("holder").create(taker).await;
    condemn(&space, taker).await;
    let failed = "False|ServiceAppliedFailed|1 of 2 clusters: taker namespace";
    space.says("ends", "Ready", failed).await;
    let before = space.own_objects("taker").await;
    assert!(
        before.iter().any(|name| name == "service/stays"),
        "{before:?}"
    );
    let marks = [env.hub().mark().await, taker.mark().await];
    let more = space.pod("stays", "giver").await.ip().to_owned();
    space.pod("exported", "giver").await;
    eventually("giver has the new pod", LONG, async || {
        space.ready_addresses(giver, "stays").await.contains(&more)
    })
    .await;
    throughout("nothing is written there", REST, async || {
        let all = [
            writes(&space, env.hub(), marks[0]).await,
            writes(&space, taker, marks[1]).await,
        ];
        same(all.concat(), &Vec::<String>::new())
    })
    .await;

    space.delete("ends").await;
    let of_ends = |name: &&String| name.contains("ends");
    let expected: Vec<_> = before
        .iter()
        .filter(|name| !of_ends(name))
        .cloned()
        .collect();
    space.holds("taker", &expected).await;

    holder[0].delete().await;
    recreate(&space, taker).await;
    space
        .reaches("taker", "stays", &[&addresses[0], &more])
        .await;
    space.says("stays", "Ready", "True|").await;
    space.delete("stays").await;
}

#[tokio::test]
async fn terminating_namespace_of_the_hub_ends_its_exposures() {
    let env = env().await;
    let _peace = env.peace.read().await;
    let space = env.space("hub").await;
    space.expose("foo", ["giver"], ["taker"]).await;
    let address = space.pod("foo", "giver").await.ip().to_owned();
    space.reaches("taker", "foo", &[&address]).await;
    space.says("foo", "Ready", "True|").await;
    let holder = "{apiVersion: v1, kind: ConfigMap, metadata: {name: holder, finalizers: [example.com/held]}}";
    let apply = ["apply", "-f", "-", "-n", space.name()];
    env.hub().kubectl_with(apply, holder).await.ok();

    condemn(&space, env.hub()).await;
    space.is_clean("giver").await;
    space.is_clean("taker").await;
    let gone = ["get", "mcs", "--ignore-not-found", "-o", "name"];
    eventually("the MultiClusterService is gone", LONG, async || {
        let left = space.kubectl(env.hub(), gone).await;
        if left.is_empty() { Ok(()) } else { Err(left) }
    })
    .await;
    let mark = env.hub().mark().await;
    throughout("nothing is written", REST, async || {
        same(writes(&space, env.hub(), mark).await, &Vec::<String>::new())
    })
    .await;

    let release = r#"{"metadata":{"finalizers":null}}"#;
    let patch = [
        "patch",
        "configmap",
        "holder",
        "--type=merge",
        "-p",
        release,
    ];
    space.kubectl(env.hub(), patch).await;
    recreate(&space, env.hub()).await;
    space.expose("foo", ["giver"], ["taker"]).await;
    space.reaches("taker", "foo", &[&address]).await;
    space.says("foo", "Ready", "True|").await;
}
