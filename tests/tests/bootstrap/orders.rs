//! The order in which the manifests are applied.

use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use causeway_tests::causeway::replicas::{Replicas, answered};
use causeway_tests::causeway::{MEMBERS_NAMESPACE, NAMESPACE};
use causeway_tests::{Cluster, Fleet, Installation, SOON, eventually, service};
use serde_json::{Value, json};

use crate::{documents, mcs};

/// Files that `kubectl apply -f manifests/crds/hub -f manifests/hub` applies.
const DEFINITIONS: [&str; 2] = [
    "crds/hub/clusters.cluster.karmada.io.yaml",
    "crds/hub/multiclusterservices.networking.karmada.io.yaml",
];
const RIGHTS: &str = "hub/rbac.yaml";
const REGISTRATION: &str = "hub/webhook-by-service.yaml";
const WORKLOADS: &str = "hub/workloads.yaml";

fn all(paths: &[&str]) -> Vec<Value> {
    paths.iter().flat_map(|path| documents(path)).collect()
}

/// Writes documents into a directory, named so that kubectl takes them in this order.
fn write(cluster: &Cluster, name: &str, documents: &[Value]) -> PathBuf {
    let directory = cluster.directory().join(name);
    std::fs::create_dir_all(&directory).expect("a directory");
    for (number, document) in documents.iter().enumerate() {
        let file = directory.join(format!("{number:03}.json"));
        std::fs::write(file, document.to_string()).expect("a file");
    }
    directory
}

/// Applies a directory again and again until all of it is accepted, as a person would; says how
/// often.
async fn applied(cluster: &Cluster, directory: &Path) -> usize {
    let directory = directory.display().to_string();
    for pass in 1..=5 {
        let output = cluster.kubectl(["apply", "-f", &directory]).await;
        if output.exit.success() {
            cluster.kubectl(["get", "-f", &directory]).await.ok();
            return pass;
        }
        for line in output.stderr.lines() {
            let is_early = [NAMESPACE, MEMBERS_NAMESPACE]
                .iter()
                .any(|name| line.contains(&format!("namespaces \"{name}\" not found")));
            assert!(is_early, "refused for another reason: {line}");
        }
    }
    panic!("not accepted in the end: {directory}");
}

/// Returns the documents in a random order.
fn shuffled(mut documents: Vec<Value>) -> Vec<Value> {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let mut random = since.expect("a clock after 1970").as_nanos() as u64 | 1;
    for last in (1..documents.len()).rev() {
        // xorshift64
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        documents.swap(last, random as usize % (last + 1));
    }
    documents
}

#[tokio::test]
async fn manifests_in_any_order_are_complete_after_two_applies() {
    let orders = ["forwards", "backwards", "shuffled"];
    let fleet = Fleet::builder().named_members(orders).start().await;
    let [first, second] = DEFINITIONS;
    let forwards = all(&[first, second, RIGHTS, REGISTRATION, WORKLOADS]);
    let mut backwards = forwards.clone();
    backwards.reverse();
    for (name, documents, passes) in [
        ("forwards", forwards.clone(), 1),
        ("backwards", backwards, 2),
        ("shuffled", shuffled(forwards), 2),
    ] {
        let cluster = fleet.member(name);
        let directory = write(cluster, "applied", &documents);
        let took = applied(cluster, &directory).await;
        let order = || {
            let kinds = documents.iter().map(|one| one["kind"].to_string());
            kinds.collect::<Vec<_>>().join(" ")
        };
        assert!(took <= passes, "{name} took {took}: {}", order());
    }
}

#[tokio::test]
async fn registration_without_a_webhook_stops_only_its_own_kind() {
    let fleet = Fleet::builder().start().await;
    let address = match fleet.endpoint_address() {
        Ok(address) => address,
        Err(missing) => return eprintln!("skipped: {missing}"),
    };
    let hub = fleet.hub();
    let space = fleet.space("shop").await;
    service("foo").port("http", 80).create(hub, &space).await;
    let own = ["apply", "-f", "-", "-n", NAMESPACE];
    let shop = ["apply", "-f", "-", "-n", space.name()];
    let foo = mcs("foo", &json!({}));

    applied(hub, &write(hub, "registration", &all(&[REGISTRATION]))).await;
    applied(hub, &write(hub, "definitions", &all(&DEFINITIONS))).await;
    refused(hub, shop, &foo, "service \"causeway-webhook\" not found").await;

    // Namespace, accounts, Deployments, and what the programs make: nothing waits for the webhook.
    let mut rest = all(&[WORKLOADS, RIGHTS]);
    let roles = |document: &Value| document["kind"].to_string().contains("Role");
    rest.sort_by_key(roles);
    assert_eq!(applied(hub, &write(hub, "rest", &rest)).await, 2);
    let made = [
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "probe"}}),
        json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "probe"}}),
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "probe"}}),
    ];
    let made = json!({"apiVersion": "v1", "kind": "List", "items": made});
    hub.kubectl_with(own, made.to_string()).await.ok();
    let unanswered = "no endpoints available for service \"causeway-webhook\"";
    for namespace in [shop, own] {
        refused(hub, namespace, &foo, unanswered).await;
    }

    let installation = Installation::applied(&fleet).await;
    let mut replicas = Replicas::new(hub, || {
        let webhook = installation.webhook_without_certificate(address, Path::new(""));
        webhook.arg(format!(
            "--self-managed-certs={NAMESPACE}/causeway-webhook-tls"
        ))
    })
    .await;
    replicas.add().await;
    answered(hub).await;
    hub.kubectl_with(shop, foo).await.ok();
    let wrong = mcs("foo", &json!({"ports": [{"name": "htp", "port": 80}]}));
    refused(hub, shop, &wrong, "has no port named \"htp\"").await;
}

/// Waits until a manifest is refused for this reason.
async fn refused(hub: &Cluster, apply: [&str; 5], manifest: &str, reason: &str) {
    eventually(reason, SOON, async || {
        let output = hub.kubectl_with(apply, manifest).await;
        assert!(!output.exit.success(), "accepted: {}", output.stdout);
        let said = output.stderr.contains(reason);
        said.then_some(()).ok_or(output.stderr)
    })
    .await;
}
