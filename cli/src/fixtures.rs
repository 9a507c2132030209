//! Objects for tests.

use causeway::api::multicluster::{ServiceExport, ServiceImport};
use causeway::api::{Cluster, MultiClusterService};
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::client::Body;
use serde_json::{Value, json};
use tower::service_fn;

use crate::cluster::access::Side;
use crate::cluster::api_server::ApiServer;
use crate::observe::connect::ConnectError;
use crate::observe::service::{Held, Readings};

/// Returns an API server at an address where nothing listens.
pub(crate) fn unreachable(side: Side) -> ApiServer {
    let config = kube::Config::new("https://127.0.0.1:1".parse().expect("a URL"));
    ApiServer::new(side, config).expect("a client")
}

/// Returns an API server whose requests `client` answers.
pub(crate) fn server(side: Side, client: kube::Client) -> ApiServer {
    ApiServer {
        client,
        ..unreachable(side)
    }
}

/// Returns an API server that answers each request with a status code and a body.
pub(crate) fn answering<T: ToString>(
    side: Side,
    mut answer: impl FnMut(&http::Request<Body>) -> (u16, T) + Send + 'static,
) -> ApiServer {
    let answers = service_fn(move |request: http::Request<Body>| {
        let (code, body) = answer(&request);
        let body = Body::from(body.to_string().into_bytes());
        std::future::ready(http::Response::builder().status(code).body(body))
    });
    server(side, kube::Client::new(answers, "default"))
}

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

pub(crate) fn condition(type_: &str, status: &str, reason: &str, message: &str) -> Value {
    let mut condition = ready(status, reason, message);
    condition["type"] = json!(type_);
    condition
}

/// Returns the conditions of an exported ServiceExport.
pub(crate) fn exported() -> Value {
    json!([
        condition("Valid", "True", "Valid", "Service shop/foo can be exported"),
        condition(
            "Conflict",
            "False",
            "NoConflicts",
            "all exports of the service agree"
        ),
        ready(
            "True",
            "Exported",
            "the service is exported to the clusterset"
        ),
    ])
}

fn clusterset_object(kind: &str, name: &str, spec: Value, status: Value) -> Value {
    json!({
        "apiVersion": "multicluster.x-k8s.io/v1beta1",
        "kind": kind,
        "metadata": {
            "name": name, "namespace": "shop", "generation": 1, "creationTimestamp": "2026-11-20T23:00:00Z",
        },
        "spec": spec,
        "status": status,
    })
}

pub(crate) fn export(name: &str, conditions: Value) -> ServiceExport {
    let status = json!({ "conditions": conditions });
    serde_json::from_value(clusterset_object("ServiceExport", name, json!({}), status))
        .expect("a ServiceExport")
}

/// Returns an import that causeway created from `clusters`.
pub(crate) fn import(name: &str, ips: &[&str], clusters: &[&str]) -> ServiceImport {
    let clusters: Vec<_> = clusters
        .iter()
        .map(|name| json!({ "cluster": name }))
        .collect();
    let ports = json!([{ "name": "http", "protocol": "TCP", "port": 80 }]);
    let spec = json!({ "type": "ClusterSetIP", "ips": ips, "ports": ports });
    let status = json!({ "clusters": clusters });
    let mut import = clusterset_object("ServiceImport", name, spec, status);
    import["metadata"]["labels"] = json!({ "mcs.causeway.dev/hub": "hub" });
    serde_json::from_value(import).expect("a ServiceImport")
}

pub(crate) fn derived(name: &str, addresses: &[&str]) -> Service {
    serde_json::from_value(json!({
        "metadata": {
            "name": format!("derived-{name}"), "namespace": "shop",
            "labels": { "multicluster.kubernetes.io/service-name": name },
        },
        "spec": { "clusterIP": addresses.first(), "clusterIPs": addresses },
    }))
    .expect("a Service")
}

/// Returns a copied slice with `endpoints` endpoints.
pub(crate) fn copy(name: &str, source: &str, endpoints: usize) -> EndpointSlice {
    let endpoints: Vec<_> = (1..=endpoints)
        .map(|number| json!({ "addresses": [format!("10.1.0.{number}")] }))
        .collect();
    serde_json::from_value(json!({
        "metadata": {
            "namespace": "shop",
            "labels": {
                "multicluster.kubernetes.io/service-name": name,
                "multicluster.kubernetes.io/source-cluster": source,
            },
        },
        "addressType": "IPv4",
        "endpoints": endpoints,
        "ports": [],
    }))
    .expect("an EndpointSlice")
}

/// Returns the readings of `members`.
pub(crate) fn readings<const N: usize>(members: [(&str, Result<Held, &str>); N]) -> Readings {
    let members = members.into_iter();
    members
        .map(|(name, held)| {
            (
                name.to_owned(),
                held.map_err(|why| ConnectError::Failed(why.to_owned())),
            )
        })
        .collect()
}

/// Returns a healthy member that exports and imports `shop/foo`.
pub(crate) fn exporting(address: &str, clusters: &[&str]) -> Held {
    Held {
        exports: vec![export("foo", exported())],
        ..importing(address, clusters)
    }
}

/// Returns a member that imports `shop/foo` with two endpoints from each of `clusters`.
pub(crate) fn importing(address: &str, clusters: &[&str]) -> Held {
    Held {
        exports: Vec::new(),
        imports: vec![import("foo", &[address], clusters)],
        services: vec![derived("foo", &[address])],
        slices: clusters.iter().map(|name| copy("foo", name, 2)).collect(),
        ..Held::default()
    }
}
