//! Admission reviews of MultiClusterServices of a given size, as an API server sends them.

use bytes::Bytes;
use causeway::api::labels::{LAST_APPLIED, PERMANENT_ID};
use serde_json::{Value, json};

pub(crate) const NAMESPACES: usize = 10;
pub(crate) const MEMBERS: usize = 100;
/// Further managers of the fields of a large object.
const MANAGERS: usize = 8;
const MANAGER: &str = "kubectl-client-side-apply";
const CREATED: &str = "2026-11-20T09:00:00Z";

/// Size of an object.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Size {
    pub(crate) name: &'static str,
    bytes: usize,
    /// Clusters that it names.
    clusters: usize,
}

/// Objects that people write.
pub(crate) const SMALL: Size = Size {
    name: "1.8 KB",
    bytes: 1_800,
    clusters: 4,
};

/// Objects with as many annotations and managed fields as are allowed. No user has such.
pub(crate) const LARGE: Size = Size {
    name: "200 KB",
    bytes: 200_000,
    clusters: MEMBERS,
};

/// Webhook that is called.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Call {
    Mutate,
    Validate,
}

/// Returns the namespace of a Service.
pub(crate) fn namespace(number: usize) -> String {
    format!("bench-{}", number % NAMESPACES)
}

pub(crate) fn service(number: usize) -> String {
    format!("service-{number:05}")
}

pub(crate) fn member(number: usize) -> String {
    format!("member-{number:03}-europe-west1")
}

/// Returns bodies of creates for Services of all namespaces. `validate` is sent the objects as
/// `mutate` leaves them.
pub(crate) fn bodies(call: Call, size: Size, services: usize) -> Vec<Vec<u8>> {
    // Fewer different objects if they are large.
    let variety = (10_000_000 / size.bytes).min(1000).min(services);
    let step = services / variety;
    (0..variety)
        .map(|turn| review(call, size, turn * step + turn % step))
        .map(|review| review.to_string().into_bytes())
        .collect()
}

/// Returns a whole HTTP request.
pub(crate) fn request(path: &str, host: &str, body: &[u8]) -> Bytes {
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: kube-apiserver-admission\r\nContent-Length: {}\r\n\
         Accept: application/json, */*\r\nContent-Type: application/json\r\nAccept-Encoding: gzip\r\n\r\n",
        body.len()
    );
    [head.as_bytes(), body].concat().into()
}

/// Returns a review of an object of `kubectl apply`, with managed fields.
fn review(call: Call, size: Size, number: usize) -> Value {
    let uid = format!("705ab4f5-6393-11e8-b7cc-{number:012x}");
    let (name, namespace) = (service(number), namespace(number));
    let (group, version, kind) = ("networking.karmada.io", "v1alpha1", "MultiClusterService");
    let half = size.clusters / 2;
    let clusters = |begin: usize, count: usize| -> Vec<_> {
        let numbers = (begin..begin + count).map(|at| (number + at) % MEMBERS);
        numbers.map(|at| json!({"name": member(at)})).collect()
    };
    let mut object = json!({
        "apiVersion": format!("{group}/{version}"), "kind": kind,
        "metadata": {"annotations": {}, "name": name, "namespace": namespace},
        "spec": {
            "types": ["CrossCluster"],
            "ports": [{"name": "http", "port": 80}, {"name": "metrics", "port": 9090}],
            "providerClusters": clusters(0, half),
            "consumerClusters": clusters(half, size.clusters - half),
        },
    });
    let applied = object.to_string();
    object["metadata"] = json!({
        "annotations": {LAST_APPLIED: applied, "example.com/notes": "", "example.com/state": ""},
        "creationTimestamp": CREATED, "generation": 1, "labels": {"app.kubernetes.io/name": "shop"},
        "managedFields": [managed(&object)], "name": name, "namespace": namespace,
        "uid": "5e3d0c1f-94d5-4a3c-b1c0-2f1a6f5b7d9e",
    });
    if call == Call::Validate {
        object["metadata"]["labels"][PERMANENT_ID] = uid.as_str().into();
    }
    fill(&mut object, size.bytes);
    let kind = json!({"group": group, "version": version, "kind": kind});
    let plural = "multiclusterservices";
    let resource = json!({"group": group, "version": version, "resource": plural});
    json!({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": {
        "uid": uid, "kind": kind, "resource": resource,
        "requestKind": kind, "requestResource": resource,
        "name": name, "namespace": namespace, "operation": "CREATE",
        "userInfo": {
            "username": "system:serviceaccount:argocd:argocd-application-controller",
            "uid": "0b0a1c33-2a2f-4b8b-9f5e-6f0a8e3b1f77",
            "groups": [
                "system:serviceaccounts", "system:serviceaccounts:argocd", "system:authenticated",
            ],
        },
        "object": object, "oldObject": null, "dryRun": false,
        "options": {
            "kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1",
            "fieldManager": MANAGER, "fieldValidation": "Strict",
        },
    }})
}

/// Returns an entry of an object's managed fields.
fn managed(object: &Value) -> Value {
    json!({
        "apiVersion": object["apiVersion"], "fieldsType": "FieldsV1",
        "fieldsV1": {
            "f:metadata": {"f:annotations": {
                ".": {}, "f:kubectl.kubernetes.io/last-applied-configuration": {},
            }},
            "f:spec": {
                ".": {}, "f:consumerClusters": {}, "f:ports": {}, "f:providerClusters": {},
                "f:types": {},
            },
        },
        "manager": MANAGER, "operation": "Update", "time": CREATED,
    })
}

/// Brings an object to its size, with managed fields and two annotations: JSON of a tool, and text.
fn fill(object: &mut Value, bytes: usize) {
    let missing = |object: &Value| bytes.saturating_sub(object.to_string().len());
    let manager = object["metadata"]["managedFields"][0].clone();
    let length = manager.to_string().len();
    let managers = vec![manager; MANAGERS.min(missing(object) / 4 / length)];
    if let Some(entries) = object["metadata"]["managedFields"].as_array_mut() {
        entries.extend(managers);
    }
    let item = json!({"kind": "Deployment", "name": "shop/frontend", "replicas": 3, "ready": true});
    let item = item.to_string();
    // A quote takes two bytes within a string.
    let items = vec![item.as_str(); missing(object) / 2 / json!(item).to_string().len()];
    let state = format!("[{}]", items.join(","));
    object["metadata"]["annotations"]["example.com/state"] = state.into();
    let text = "The owner of the service, and the team on call. ";
    let text = text.repeat(missing(object) / text.len() + 1);
    let notes = &text[..missing(object)];
    object["metadata"]["annotations"]["example.com/notes"] = notes.into();
}
