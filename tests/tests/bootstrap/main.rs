//! Causeway comes to a hub in whatever order things happen: before the definitions, before its
//! rights, before the API server itself, and it outlasts the hub's absence.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test: what fails here fails it"
)]

mod absence;
mod orders;
mod waiting;

use causeway_tests::causeway::Running;
use causeway_tests::{Cluster, eventually, repository};
use serde_json::{Value, json};

/// The longest that a webhook rests before it asks a hub again, and as much for a busy machine.
const ASKED_AGAIN: std::time::Duration = std::time::Duration::from_secs(60);

/// The documents of a manifest.
fn documents(path: &str) -> Vec<Value> {
    let file = repository().join("manifests").join(path);
    let text = std::fs::read_to_string(&file)
        .unwrap_or_else(|e| panic!("cannot read {}: {e}", file.display()));
    serde_saphyr::from_multiple(&text).expect("YAML")
}

/// Applies documents, all at once.
async fn apply(cluster: &Cluster, items: &[Value]) {
    let list = json!({"apiVersion": "v1", "kind": "List", "items": items});
    cluster.apply(&list.to_string()).await.ok();
}

/// Waits until `/readyz` says 503 and a text that begins and ends so.
async fn awaits(webhook: &Running, begins: &str, holds: &[&str]) {
    eventually(
        &format!("{begins:?} with {holds:?}"),
        ASKED_AGAIN,
        async || {
            let (status, text) = webhook.get("/readyz").await.map_err(|e| e.to_string())?;
            let first = text.lines().next().unwrap_or_default();
            if status == 503 && first == begins && holds.iter().all(|part| text.contains(part)) {
                Ok(())
            } else {
                Err(format!("{status} {text}"))
            }
        },
    )
    .await;
}

/// A MultiClusterService of type CrossCluster with these fields in its spec.
fn mcs(name: &str, fields: &Value) -> String {
    let mut spec = json!({"types": ["CrossCluster"]});
    for (field, value) in fields.as_object().expect("an object") {
        spec[field] = value.clone();
    }
    let manifest = json!({
        "apiVersion": "networking.karmada.io/v1alpha1", "kind": "MultiClusterService",
        "metadata": {"name": name}, "spec": spec,
    });
    manifest.to_string()
}
