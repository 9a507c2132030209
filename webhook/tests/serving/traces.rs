//! The span of a request.

use std::sync::{Arc, Mutex};

use causeway::process::traces::Tracer;
use causeway_webhook::hub::Hub;
use causeway_webhook::service::router;
use http::{Request, StatusCode};
use http_body_util::Full;
use opentelemetry::Value;
use opentelemetry::global::BoxedTracer;
use opentelemetry::trace::{SpanId, SpanKind, Status, TraceId, TracerProvider as _};
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::trace::{Sampler, SdkTracerProvider, SpanData, SpanExporter};
use serde_json::json;

use crate::caller::{Called, create, post, webhook};
use crate::hub;

const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7";

#[derive(Clone, Debug, Default)]
struct Ended(Arc<Mutex<Vec<SpanData>>>);

impl SpanExporter for Ended {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        self.0.lock().expect("no panic").extend(batch);
        Ok(())
    }
}

impl Ended {
    /// The span that has ended since the last time.
    fn one(&self) -> SpanData {
        let mut spans = std::mem::take(&mut *self.0.lock().expect("no panic"));
        assert_eq!(spans.len(), 1, "{spans:#?}");
        spans.remove(0)
    }
}

/// A webhook before a hub that does not answer, with traces that its callers decide about, or do
/// not.
async fn traced_if(callers_decide: bool) -> (Called, Ended) {
    let ended = Ended::default();
    let sampler = match callers_decide {
        true => Sampler::ParentBased(Box::new(Sampler::AlwaysOn)),
        false => Sampler::AlwaysOn,
    };
    let provider = SdkTracerProvider::builder()
        .with_sampler(sampler)
        .with_simple_exporter(ended.clone())
        .build();
    let tracer = BoxedTracer::new(Box::new(provider.tracer("test")));
    let tracer = Tracer::new(tracer, TraceContextPropagator::new(), callers_decide);
    let called = Called::new(hub::unreachable().await).await;
    let hub = Hub::new(hub::unreachable().await);
    let webhook = webhook(hub, &called.metrics, &called.process).traced(tracer);
    let router = router(Arc::new(webhook));
    (Called { router, ..called }, ended)
}

async fn traced() -> (Called, Ended) {
    traced_if(true).await
}

fn text(span: &SpanData, key: &str) -> String {
    let found = span.attributes.iter().find(|one| one.key.as_str() == key);
    match found.map(|one| &one.value) {
        Some(Value::String(text)) => text.to_string(),
        Some(other) => other.to_string(),
        None => String::new(),
    }
}

fn review() -> String {
    create(json!({"types": ["CrossCluster"]})).to_string()
}

async fn send(called: &Called, request: http::request::Builder, body: String) -> StatusCode {
    let request: Request<_> = request.body(Full::from(body)).expect("a request");
    called.send(request).await.status()
}

#[tokio::test]
async fn the_span_of_a_request_is_within_its_callers() {
    let (called, ended) = traced().await;
    let request = || post("/mutate").header("traceparent", format!("{PARENT}-01"));
    assert_eq!(send(&called, request(), review()).await, StatusCode::OK);
    let span = ended.one();
    assert_eq!(
        (&*span.name, &span.span_kind),
        ("POST /mutate", &SpanKind::Server)
    );
    let parent = SpanId::from_hex("00f067aa0ba902b7").expect("an id");
    let trace = TraceId::from_hex("4bf92f3577b34da6a3ce929d0e0e4736").expect("an id");
    assert_eq!(
        (span.parent_span_id, span.span_context.trace_id()),
        (parent, trace)
    );

    let unsampled = post("/mutate").header("traceparent", format!("{PARENT}-00"));
    assert_eq!(send(&called, unsampled, review()).await, StatusCode::OK);
    for broken in ["", "00-trace-span-01", "ff", &"0-".repeat(1000)] {
        let request = post("/mutate").header("traceparent", broken);
        assert_eq!(send(&called, request, review()).await, StatusCode::OK);
        let span = ended.one();
        assert_eq!(span.parent_span_id, SpanId::INVALID, "{broken}");
        assert_ne!(span.span_context.trace_id(), trace);
    }
}

#[tokio::test]
async fn own_sampler_records_requests_that_callers_do_not_sample() {
    let (called, ended) = traced_if(false).await;
    let unsampled = post("/mutate").header("traceparent", format!("{PARENT}-00"));
    assert_eq!(send(&called, unsampled, review()).await, StatusCode::OK);
    let span = ended.one();
    assert_eq!(span.parent_span_id.to_string(), "00f067aa0ba902b7");
}

#[tokio::test]
async fn a_request_that_is_not_decided_is_an_error_of_its_span() {
    let (called, ended) = traced().await;
    let asked = create(json!({"types": ["CrossCluster"], "ports": [{"port": 80}]}));
    let code = send(&called, post("/validate"), asked.to_string()).await;
    assert_eq!(code, StatusCode::SERVICE_UNAVAILABLE);
    let span = ended.one();
    let described =
        matches!(&span.status, Status::Error { description } if description.contains("hub"));
    assert!(described, "{span:#?}");
    for (key, value) in [
        ("http.response.status_code", "503"),
        ("error.type", "503"),
        ("name", "foo"),
        ("allowed", ""),
    ] {
        assert_eq!(text(&span, key), value, "{key}");
    }
}

#[tokio::test]
async fn span_of_a_large_request_is_bounded() {
    let (called, ended) = traced().await;
    let long = "x".repeat(1024 * 1024);
    let body = review().replace("\"MultiClusterService\"", &format!("\"{long}\""));
    send(&called, post("/mutate"), body).await;
    let span = ended.one();
    let kind = text(&span, "kind");
    assert!(
        kind.starts_with(&long[..256]) && kind.len() < 1024,
        "{kind}"
    );
    for body in ["", "{", "[]"] {
        let code = send(&called, post("/mutate"), body.to_owned()).await;
        assert_eq!(
            (code, ended.one().status),
            (StatusCode::BAD_REQUEST, Status::Unset)
        );
    }
}
