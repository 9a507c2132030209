//! Objects for tests.

use causeway::api::{Cluster, MultiClusterService};
use serde_json::{Value, json};

pub(crate) fn ready(status: &str, reason: &str, message: &str) -> Value {
    json!({
        "type": "Ready", "status": status, "reason": reason, "message": message,
        "observedGeneration": 1, "lastTransitionTime": "2026-11-20T23:55:00Z",
    })
}

pub(crate) fn applied(status: &str, reason: &str, message: &str) -> Value {
    let mut condition = ready(status, reason, message);
    condition["type"] = json!("ServiceApplied");
    condition
}

pub(crate) fn cluster(name: &str, conditions: Value) -> Cluster {
    serde_json::from_value(json!({
        "apiVersion": "cluster.karmada.io/v1alpha1",
        "kind": "Cluster",
        "metadata": { "name": name, "generation": 1 },
        "spec": { "syncMode": "Push", "apiEndpoint": format!("https://{name}:6443") },
        "status": { "kubernetesVersion": "v1.36.3", "conditions": conditions },
    }))
    .expect("a Cluster")
}

pub(crate) fn synced(name: &str) -> Cluster {
    cluster(name, json!([ready("True", "Synced", "watched")]))
}

pub(crate) fn service(name: &str, spec: Value, conditions: Value) -> MultiClusterService {
    serde_json::from_value(json!({
        "apiVersion": "networking.karmada.io/v1alpha1",
        "kind": "MultiClusterService",
        "metadata": {
            "name": name, "namespace": "shop", "generation": 1, "creationTimestamp": "2026-11-20T23:00:00Z",
        },
        "spec": spec,
        "status": { "conditions": conditions },
    }))
    .expect("a MultiClusterService")
}

pub(crate) fn cross(providers: &[&str], consumers: &[&str]) -> Value {
    let list = |names: &[&str]| {
        names
            .iter()
            .map(|name| json!({ "name": name }))
            .collect::<Vec<_>>()
    };
    json!({
        "types": ["CrossCluster"],
        "providerClusters": list(providers),
        "consumerClusters": list(consumers),
    })
}
