//! What is asked of an API server beside objects: its version, its groups, the fields of its definitions.

use causeway::api::multicluster::GROUP;
use http::StatusCode;
use serde_json::{Value, json};

use super::writes::Refusal;

/// The document at a path.
pub(crate) fn find(path: &str) -> Result<Vec<u8>, Refusal> {
    let served = format!("apis/{GROUP}/v1beta1");
    let schema = format!("openapi/v3/{served}");
    let document = match path.trim_matches('/') {
        "version" => version(),
        "apis" => groups(),
        path if path == served => resources(),
        path if path == schema => import_schema(),
        path => {
            let message = format!("{path:?} is not served");
            return Err(Refusal::new(StatusCode::NOT_FOUND, "NotFound", message));
        }
    };
    Ok(document.to_string().into_bytes())
}

fn version() -> Value {
    json!({
        "major": "1", "minor": "34", "gitVersion": "v1.34.0", "gitCommit": "", "gitTreeState": "clean",
        "buildDate": "2026-01-01T00:00:00Z", "goVersion": "go1.25", "compiler": "gc", "platform": "linux/amd64",
    })
}

fn groups() -> Value {
    let names = [
        ("cluster.karmada.io", "v1alpha1"),
        ("coordination.k8s.io", "v1"),
        ("discovery.k8s.io", "v1"),
        ("networking.karmada.io", "v1alpha1"),
        (GROUP, "v1beta1"),
    ];
    let groups = names.map(|(name, version)| {
        let version = json!({"groupVersion": format!("{name}/{version}"), "version": version});
        json!({"name": name, "versions": [version], "preferredVersion": version})
    });
    json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
}

fn resources() -> Value {
    let verbs = [
        "create", "delete", "get", "list", "patch", "update", "watch",
    ];
    let resource = |name: &str, kind: &str| json!({"name": name, "singularName": kind.to_lowercase(), "namespaced": true, "kind": kind, "verbs": verbs});
    json!({
        "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": format!("{GROUP}/v1beta1"),
        "resources": [
            resource("serviceexports", "ServiceExport"), resource("serviceexports/status", "ServiceExport"),
            resource("serviceimports", "ServiceImport"), resource("serviceimports/status", "ServiceImport"),
        ],
    })
}

fn import_schema() -> Value {
    let text = json!({"type": "string"});
    json!({
        "openapi": "3.0.0", "info": {"title": "Kubernetes CRD Swagger", "version": "v0.1.0"}, "paths": {},
        "components": {"schemas": {"io.x-k8s.multicluster.v1beta1.ServiceImport": {
            "type": "object",
            "x-kubernetes-group-version-kind": [{"group": GROUP, "kind": "ServiceImport", "version": "v1beta1"}],
            "properties": {
                "spec": {"type": "object", "properties": {
                    "ips": {"type": "array", "items": text, "maxItems": 2}, "ipFamilies": {"type": "array", "items": text},
                    "internalTrafficPolicy": text, "trafficDistribution": text,
                }},
                "status": {"type": "object", "properties": {"conditions": {"type": "array"}}},
            },
        }}},
    })
}
