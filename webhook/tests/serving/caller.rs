//! A webhook in this process, and requests to it.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::response::Response;
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
use causeway_webhook::service::{Webhook, router};
use http::{Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Body;
use kube::Client;
use serde_json::{Value, json};
use tower::ServiceExt;

pub(crate) const UID: &str = "0c9a8d74-9cb7-44dd-b98e-09fd62def2f4";

pub(crate) struct Called {
    pub(crate) router: Router,
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
        let router = router(Arc::new(webhook(hub, &metrics, &process)));
        Self {
            router,
            process,
            metrics,
        }
    }

    /// Sends a request on a connection of its own.
    pub(crate) async fn send<B>(&self, mut request: Request<B>) -> Response
    where
        B: Body<Data = Bytes, Error = Infallible> + Send + 'static,
    {
        request.extensions_mut().insert(Arc::<Progress>::default());
        let Ok(response) = self.router.clone().oneshot(request).await;
        response
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

pub(crate) async fn read(response: Response) -> (StatusCode, Value) {
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
