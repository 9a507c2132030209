//! A webhook in this process, and requests to it.

use std::net::SocketAddr;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use causeway::domain::protected::Protection;
use causeway::process::Process;
use causeway_webhook::connections::Progress;
use causeway_webhook::decide::{Policy, Strictness};
use causeway_webhook::hub::Hub;
use causeway_webhook::limits::Limits;
use causeway_webhook::metrics::Metrics;
use causeway_webhook::service::Webhook;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use kube::Client;
use serde_json::{Value, json};

pub(crate) const UID: &str = "0c9a8d74-9cb7-44dd-b98e-09fd62def2f4";

pub(crate) struct Called {
    pub(crate) webhook: Webhook,
    pub(crate) process: Process,
    pub(crate) metrics: Metrics,
}

pub(crate) fn policy() -> Policy {
    Policy {
        missing_service: Strictness::Deny,
        unknown_cluster: Strictness::Deny,
        protection: Protection::new("causeway-system", []),
    }
}

/// A webhook of the usual limits.
pub(crate) fn webhook(hub: Hub, metrics: &Metrics, process: &Process) -> Webhook {
    let (metrics, tasks) = (metrics.clone(), process.tasks.clone());
    Webhook::new(hub, policy(), &Limits::default(), metrics, tasks)
}

impl Called {
    pub(crate) async fn new(client: Client) -> Self {
        let address = SocketAddr::from(([127, 0, 0, 1], 0));
        let process = Process::start(address).await.expect("it starts");
        let metrics = process.metrics.register(Metrics::register);
        let hub = Hub::new(client);
        let webhook = webhook(hub, &metrics, &process);
        Self {
            webhook,
            process,
            metrics,
        }
    }

    pub(crate) async fn send(&self, request: Request<Full<Bytes>>) -> Response<Full<Bytes>> {
        self.webhook.respond(request, &Progress::default()).await
    }

    /// Sends a review; the status code and the body.
    pub(crate) async fn review(&self, path: &str, review: &Value) -> (StatusCode, Value) {
        let request = post(path)
            .body(Full::from(review.to_string()))
            .expect("a request");
        read(self.send(request).await).await
    }
}

pub(crate) fn post(path: &str) -> http::request::Builder {
    Request::post(path).header("content-type", "application/json")
}

pub(crate) async fn read(response: Response<Full<Bytes>>) -> (StatusCode, Value) {
    let code = response.status();
    assert_eq!(response.headers()["content-type"], "application/json");
    let body = response
        .into_body()
        .collect()
        .await
        .expect("a body")
        .to_bytes();
    (code, serde_json::from_slice(&body).expect("JSON"))
}

/// The patch of an answer, decoded.
pub(crate) fn patch(answer: &Value) -> Value {
    assert_eq!(answer["response"]["patchType"], "JSONPatch");
    let text = answer["response"]["patch"].as_str().expect("base64 text");
    serde_json::from_slice(&STANDARD.decode(text).expect("base64")).expect("a JSON patch")
}

pub(crate) fn create(spec: Value) -> Value {
    json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "request": {
            "uid": UID, "operation": "CREATE", "name": "foo", "namespace": "shop",
            "kind": {"group": "networking.karmada.io", "version": "v1alpha1", "kind": "MultiClusterService"},
            "resource": {"group": "networking.karmada.io", "version": "v1alpha1", "resource": "multiclusterservices"},
            "userInfo": {}, "dryRun": false, "oldObject": null,
            "object": {
                "apiVersion": "networking.karmada.io/v1alpha1", "kind": "MultiClusterService",
                "metadata": {"name": "foo", "namespace": "shop"}, "spec": spec,
            },
        },
    })
}
