//! Nodes of members that clusters of other networks reach by node ports.

use causeway::api::labels;
use causeway_tests::causeway::Lent;
use causeway_tests::{Cluster, Environment, SOON, eventually};
use serde_json::json;

/// Returns the number of watches of Nodes at an API server.
async fn node_watches(cluster: &Cluster) -> f64 {
    let of_nodes = [("resource", "nodes"), ("verb", "WATCH")];
    cluster.lasting_requests(&of_nodes).await
}

async fn annotate(env: &Environment, network: Option<&str>, reach: Option<&str>) {
    let annotations = json!({labels::NETWORK: network, labels::REACH: reach});
    let patch = json!({"metadata": {"annotations": annotations}});
    env.patch_cluster("member1", patch).await;
}

#[tokio::test]
async fn nodes_are_watched_while_an_annotation_needs_them() {
    let env = Lent::take().await;
    let (space, pods) = env.foo("nodes").await;
    let [provider, consumer] = ["member1", "member2"].map(|name| env.member(name));
    let before = node_watches(provider).await;

    annotate(&env, Some("edge"), Some("node-ports")).await;
    let message = eventually("Ready names the missing right", SOON, async || {
        let message = space.says("foo", "Ready", "").await;
        let named = message.contains("the nodes of member1 cannot be read (forbidden: ");
        let remedied = message.contains("manifests/member/networks.yaml");
        (named && remedied).then_some(()).ok_or(message)
    });
    message.await;
    env.is_synced("member1").await;
    space.reaches("member2", "foo", &pods).await;

    let kubeconfig = provider.kubeconfig().display().to_string();
    let join = ["join", "member1", "--member-kubeconfig", &kubeconfig];
    let join = join.into_iter().chain(["--reach", "node-ports"]);
    env.mcs(join).await.ok();
    let path = "jsonpath={.items[*].status.addresses[?(@.type==\"InternalIP\")].address}";
    let node = provider.kubectl(["get", "nodes", "-o", path]).await.ok();
    space.reaches("member2", "foo", &[node]).await;
    let path = "jsonpath={.items[*].spec.ports[*].nodePort}";
    let companion = ["get", "services", "-n", space.name(), "-o", path];
    let node_port = provider.kubectl(companion).await.ok();
    let slices = space.slices(consumer, "foo").await;
    let ports = slices.iter().filter_map(|slice| slice.ports.as_ref());
    let ports = ports.flatten().filter_map(|port| port.port);
    let ports: Vec<_> = ports.map(|port| port.to_string()).collect();
    assert_eq!(ports, [node_port.as_str()]);
    assert!(node_watches(provider).await > before);
    let explain = ["explain", "foo", "-n", space.name()];
    let explained = env.mcs(explain).await.ok();
    let all = "every ready endpoint is in every consumer";
    assert!(explained.contains(all), "{explained}");
    let way = format!("member2 reaches it by node port {node_port} of node ");
    assert!(explained.contains(&way), "{explained}");

    annotate(&env, None, None).await;
    space.reaches("member2", "foo", &pods).await;
    eventually("the watch of Nodes ends", SOON, async || {
        let now = node_watches(provider).await;
        (now <= before).then_some(()).ok_or(now)
    })
    .await;
    let services = ["get", "services", "-n", space.name(), "-o", "name"];
    eventually("the companion is gone", SOON, async || {
        let left = provider.kubectl(services).await.ok();
        (left.trim() == "service/foo").then_some(()).ok_or(left)
    })
    .await;
}
