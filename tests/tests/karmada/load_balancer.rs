//! Type LoadBalancer where the definition of MultiClusterService is as strict as Karmada's.

use causeway_tests::{SOON, eventually, multi_cluster_service, service};
use serde_json::json;

use crate::environment::Turn;

/// kube-vip and cloud-provider-kind report ports without an error.
#[tokio::test]
async fn address_with_ports_is_in_the_status_without_them() {
    let turn = Turn::without_gate("balanced").await;
    let member = turn.member("member1");
    for cluster in [turn.hub(), member] {
        let balanced = service("foo").port("http", 80).type_("LoadBalancer");
        balanced.create(cluster, &turn).await;
    }
    let gathered = multi_cluster_service("foo").type_("LoadBalancer");
    gathered.providers(["member1"]).create(&turn).await;

    let ports = json!([{"port": 80, "protocol": "TCP"}]);
    let ingress = json!({"ip": "203.0.113.1", "ports": ports});
    let status = json!({"status": {"loadBalancer": {"ingress": [ingress]}}}).to_string();
    let object = ["patch", "mcs", "foo", "-n", turn.name(), "--type=merge"];
    let content = ["--subresource=status", "--dry-run=server", "-p", &status];
    let patch = object.into_iter().chain(content);
    eventually("a port needs an error", SOON, async || {
        let output = turn.hub().kubectl(patch.clone()).await;
        let is_required = output.stderr.contains("ports[0].error: Required value");
        is_required.then_some(()).ok_or(output.stderr)
    })
    .await;

    turn.set_ingress(member, ingress).await;
    let stored = "jsonpath={.status.loadBalancer.ingress}";
    let expected = r#"[{"ip":"203.0.113.1","ipMode":"VIP"}]"#;
    turn.shows("hub", ["mcs", "foo"], stored, expected).await;
    turn.says("foo", "Ready", "True|Ready|").await;
}
