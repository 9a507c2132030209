//! Admission reviews of MultiClusterServices of a given size, as an API server sends them.

use bytes::Bytes;
use causeway::api::labels::{LAST_APPLIED, PERMANENT_ID};
use serde_json::{Value, json};

pub(crate) const NAMESPACES: usize = 10;
pub(crate) const MEMBERS: usize = 100;
/// Further managers of the fields of a large object.
const MANAGERS: usize = 8;

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

/// Returns a whole HTTP request, with further lines in its head.
pub(crate) fn request(path: &str, host: &str, headers: &str, body: &[u8]) -> Bytes {
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: kube-apiserver-admission\r\nContent-Length: {}\r\n\
         Accept: application/json, */*\r\nContent-Type: application/json\r\nAccept-Encoding: gzip\r\n{headers}\r\n",
        body.len()
    );
    [head.as_bytes(), body].concat().into()
}

/// Returns a review of an object of `kubectl apply`, with managed fields.
fn review(call: Call, size: Size, number: usize) -> Value {
    let mut review: Value = serde_json::from_str(include_str!("review.json")).expect("JSON");
    let uid = format!("705ab4f5-6393-11e8-b7cc-{number:012x}");
    let (name, namespace) = (service(number), namespace(number));
    let half = size.clusters / 2;
    let clusters = |begin: usize, count: usize| -> Vec<_> {
        let numbers = (begin..begin + count).map(|at| (number + at) % MEMBERS);
        numbers.map(|at| json!({"name": member(at)})).collect()
    };
    let request = &mut review["request"];
    request["uid"] = uid.as_str().into();
    request["name"] = name.as_str().into();
    request["namespace"] = namespace.as_str().into();
    let object = &mut request["object"];
    object["spec"]["providerClusters"] = clusters(0, half).into();
    object["spec"]["consumerClusters"] = clusters(half, size.clusters - half).into();
    let applied = json!({
        "apiVersion": object["apiVersion"], "kind": object["kind"], "spec": object["spec"],
        "metadata": {"annotations": {}, "name": name, "namespace": namespace},
    });
    object["metadata"]["name"] = name.into();
    object["metadata"]["namespace"] = namespace.into();
    object["metadata"]["annotations"][LAST_APPLIED] = applied.to_string().into();
    if call == Call::Validate {
        object["metadata"]["labels"][PERMANENT_ID] = uid.into();
    }
    fill(object, size.bytes);
    review
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
