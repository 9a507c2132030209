//! What an API server sends: admission reviews of MultiClusterServices of a given size.

use bytes::Bytes;
use causeway::api::labels::PERMANENT_ID;
use serde_json::{Value, json};

/// The namespaces that hold the Services.
pub(crate) fn namespace(number: usize) -> String {
    format!("bench-{}", number % NAMESPACES)
}

pub(crate) const NAMESPACES: usize = 10;

/// The Services: as many in each namespace.
pub(crate) fn service(number: usize) -> String {
    format!("service-{number:05}")
}

/// The members that objects name.
pub(crate) fn member(number: usize) -> String {
    format!("member-{number:03}-europe-west1")
}

/// How many members there are.
pub(crate) const MEMBERS: usize = 100;

/// How large an object is, and how many clusters it names.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Size {
    pub(crate) name: &'static str,
    bytes: usize,
    clusters: usize,
    /// How many objects there are in turns.
    pub(crate) variety: usize,
    /// Minimum of the requests per second, as a part of those of the bare server.
    pub(crate) throughput_ratio: Option<f64>,
}

/// What people write.
pub(crate) const SMALL: Size = Size {
    name: "1.8 KB",
    bytes: 1_800,
    clusters: 4,
    variety: 1_000,
    throughput_ratio: Some(0.55),
};

/// The limit of annotations and managed fields. No user has such objects, so their throughput has
/// no goal.
pub(crate) const LARGE: Size = Size {
    name: "200 KB",
    bytes: 200_000,
    clusters: MEMBERS,
    variety: 50,
    throughput_ratio: None,
};

/// How many more managers of fields a large object has.
const MANAGERS: usize = 8;

/// Which webhook is asked.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Call {
    Mutate,
    Validate,
}

impl Call {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Mutate => "mutate",
            Self::Validate => "validate",
        }
    }
}

/// The bodies of creates: new objects for `mutate`, which are to get their label, and objects as `mutate` leaves them for `validate`,
/// which are to be accepted. All about Services that exist, of all namespaces.
pub(crate) fn bodies(call: Call, size: Size, services: usize) -> Vec<Vec<u8>> {
    let step = (services / size.variety).max(1);
    (0..size.variety.min(services))
        .map(|turn| review(call, size, turn * step + turn % step))
        .map(|review| review.to_string().into_bytes())
        .collect()
}

/// A whole HTTP request, as an API server words it, with further lines in its head.
pub(crate) fn request(path: &str, host: &str, headers: &str, body: &[u8]) -> Bytes {
    let mut request = format!(
        "POST {path} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: kube-apiserver-admission\r\nContent-Length: {}\r\n\
         Accept: application/json, */*\r\nContent-Type: application/json\r\nAccept-Encoding: gzip\r\n{headers}\r\n",
        body.len()
    )
    .into_bytes();
    request.extend_from_slice(body);
    request.into()
}

fn review(call: Call, size: Size, number: usize) -> Value {
    let uid = format!("705ab4f5-6393-11e8-b7cc-{number:012x}");
    let object = object(call, size, number, &uid);
    let kind = json!({"group": "networking.karmada.io", "version": "v1alpha1", "kind": "MultiClusterService"});
    let resource = json!({"group": "networking.karmada.io", "version": "v1alpha1", "resource": "multiclusterservices"});
    json!({
        "kind": "AdmissionReview",
        "apiVersion": "admission.k8s.io/v1",
        "request": {
            "uid": uid,
            "kind": kind,
            "resource": resource,
            "requestKind": kind,
            "requestResource": resource,
            "name": service(number),
            "namespace": namespace(number),
            "operation": "CREATE",
            "userInfo": {
                "username": "system:serviceaccount:argocd:argocd-application-controller",
                "uid": "0b0a1c33-2a2f-4b8b-9f5e-6f0a8e3b1f77",
                "groups": ["system:serviceaccounts", "system:serviceaccounts:argocd", "system:authenticated"],
            },
            "object": object,
            "oldObject": null,
            "dryRun": false,
            "options": {
                "kind": "CreateOptions",
                "apiVersion": "meta.k8s.io/v1",
                "fieldManager": "kubectl-client-side-apply",
                "fieldValidation": "Strict",
            },
        },
    })
}

/// The object as the API server has it at that moment: with managed fields, and with the annotation of `kubectl apply`. What is
/// missing to its size is in more managed fields, as many as there are in practice, and in two annotations: JSON that a tool
/// keeps there, and text.
fn object(call: Call, size: Size, number: usize, id: &str) -> Value {
    let half = size.clusters / 2;
    let clusters = |begin: usize, count: usize| -> Vec<_> {
        let numbers = (begin..begin + count).map(|at| (number + at) % MEMBERS);
        numbers.map(|at| json!({"name": member(at)})).collect()
    };
    let spec = json!({
        "types": ["CrossCluster"],
        "ports": [{"name": "http", "port": 80}, {"name": "metrics", "port": 9090}],
        "providerClusters": clusters(0, half),
        "consumerClusters": clusters(half, size.clusters - half),
    });
    let applied = json!({
        "apiVersion": "networking.karmada.io/v1alpha1",
        "kind": "MultiClusterService",
        "metadata": {"annotations": {}, "name": service(number), "namespace": namespace(number)},
        "spec": spec,
    });
    let mut object = json!({
        "apiVersion": "networking.karmada.io/v1alpha1",
        "kind": "MultiClusterService",
        "metadata": {
            "annotations": {"kubectl.kubernetes.io/last-applied-configuration": applied.to_string()},
            "creationTimestamp": "2026-11-20T09:00:00Z",
            "generation": 1,
            "labels": {"app.kubernetes.io/name": "shop"},
            "managedFields": [managed("kubectl-client-side-apply", "v1alpha1")],
            "name": service(number),
            "namespace": namespace(number),
            "uid": "5e3d0c1f-94d5-4a3c-b1c0-2f1a6f5b7d9e",
        },
        "spec": spec,
    });
    if call == Call::Validate {
        object["metadata"]["labels"][PERMANENT_ID] = json!(id);
    }
    fill(&mut object, size.bytes);
    object
}

fn managed(manager: &str, version: &str) -> Value {
    json!({
        "apiVersion": format!("networking.karmada.io/{version}"),
        "fieldsType": "FieldsV1",
        "fieldsV1": {
            "f:metadata": {"f:annotations": {".": {}, "f:kubectl.kubernetes.io/last-applied-configuration": {}}},
            "f:spec": {".": {}, "f:consumerClusters": {}, "f:ports": {}, "f:providerClusters": {}, "f:types": {}},
        },
        "manager": manager,
        "operation": "Update",
        "time": "2026-11-20T09:00:00Z",
    })
}

fn fill(object: &mut Value, bytes: usize) {
    let missing = |object: &Value| bytes.saturating_sub(object.to_string().len());
    let length = managed("manager-0", "v1alpha1").to_string().len() + 1;
    for number in 0..MANAGERS.min(missing(object) / 4 / length) {
        let entry = managed(&format!("manager-{number}"), "v1alpha1");
        if let Some(entries) = object["metadata"]["managedFields"].as_array_mut() {
            entries.push(entry);
        }
    }
    let (state, notes) = ("example.com/state", "example.com/notes");
    for annotation in [state, notes] {
        object["metadata"]["annotations"][annotation] = json!("");
    }
    let item = json!({"kind": "Deployment", "name": "shop/frontend", "replicas": 3, "ready": true});
    let item = item.to_string();
    // A quote takes two bytes within a string.
    let length = json!(item).to_string().len();
    let items = vec![item; missing(object) / 2 / length];
    object["metadata"]["annotations"][state] = json!(format!("[{}]", items.join(",")));
    let text = "What the service is for, and whom to call. ".repeat(missing(object) / 40 + 1);
    object["metadata"]["annotations"][notes] = json!(text[..missing(object)]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_have_the_size_that_is_asked_for() {
        for call in [Call::Mutate, Call::Validate] {
            for size in [SMALL, LARGE] {
                for number in [0, 99_999] {
                    let object = object(call, size, number, &"x".repeat(36));
                    assert_eq!(object.to_string().len(), size.bytes, "{call:?} {size:?}");
                }
            }
        }
    }

    #[test]
    fn reviews_are_about_services_of_all_namespaces() {
        for size in [SMALL, LARGE] {
            let bodies = bodies(Call::Validate, size, 10_000);
            assert_eq!(bodies.len(), size.variety);
            let mut namespaces: Vec<_> = bodies
                .iter()
                .map(|body| serde_json::from_slice::<Value>(body).unwrap())
                .map(|review| review["request"]["namespace"].as_str().unwrap().to_owned())
                .collect();
            namespaces.sort_unstable();
            namespaces.dedup();
            assert_eq!(namespaces.len(), NAMESPACES);
        }
    }
}
