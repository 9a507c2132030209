//! The SDK of OpenTelemetry: samples, gathers spans and hands them to the collector. It reads its
//! variables `OTEL_*` itself.
//!
//! Spans wait in a queue of fixed length and are sent by a thread of its own: where the collector
//! is slow, or is not there, spans are dropped, and nobody waits.

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use http::Uri;
use opentelemetry::global::BoxedTracer;
use opentelemetry::trace::TracerProvider as _;
use opentelemetry::{Key, KeyValue, Value};
use opentelemetry_otlp::{RetryPolicy, SpanExporter, WithExportConfig as _, WithHttpConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::trace::SdkTracerProvider;

use super::collector::Collector;
use super::{TraceConfig, Tracer};

/// Maximum time for which the end of a process waits until its last spans are sent.
const SHUTDOWN: Duration = Duration::from_secs(3);
/// Default of OTEL_EXPORTER_OTLP_TIMEOUT in the specification.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Sender of spans.
#[derive(Debug)]
pub(super) struct Sender {
    provider: SdkTracerProvider,
    fails: Arc<AtomicBool>,
}

pub(super) fn start(
    service: &'static str,
    endpoint: &Uri,
    config: &TraceConfig,
) -> Result<(Tracer, Sender), Box<dyn Error + Send + Sync>> {
    let timeout = timeout();
    let collector = Collector::new(endpoint, config.certificate.as_deref(), timeout)?;
    let fails = collector.fails();
    let exporter = SpanExporter::builder()
        .with_http()
        .with_http_client(collector)
        .with_endpoint(endpoint.to_string())
        .with_timeout(timeout)
        .with_retry_policy(RetryPolicy::recommended())
        .build()?;
    let provider = SdkTracerProvider::builder()
        .with_resource(resource(service))
        .with_batch_exporter(exporter)
        .build();
    let tracer = BoxedTracer::new(Box::new(provider.tracer("causeway")));
    let tracer = Tracer::new(tracer, TraceContextPropagator::new(), config.callers_decide);
    Ok((tracer, Sender { provider, fails }))
}

fn timeout() -> Duration {
    let names = [
        "OTEL_EXPORTER_OTLP_TRACES_TIMEOUT",
        "OTEL_EXPORTER_OTLP_TIMEOUT",
    ];
    let given = names
        .iter()
        .find_map(|name| std::env::var(name).ok()?.parse().ok());
    given.map_or(TIMEOUT, Duration::from_millis)
}

/// Returns the resource that sends: OTEL_RESOURCE_ATTRIBUTES and OTEL_SERVICE_NAME, completed by
/// `service`.
fn resource(service: &'static str) -> Resource {
    let given = Resource::builder().build();
    let has = |key: &'static str| given.get(&Key::from_static_str(key));
    let own = match has("service.name") {
        Some(Value::String(name)) if !name.as_str().starts_with("unknown_service") => None,
        _ => Some(KeyValue::new("service.name", service)),
    };
    let version = match has("service.version") {
        Some(_) => None,
        None => Some(KeyValue::new("service.version", env!("CARGO_PKG_VERSION"))),
    };
    Resource::builder()
        .with_attributes(own.into_iter().chain(version))
        .build()
}

impl Sender {
    /// Sends what waits, for as long as the end may take. That it does not arrive is said once.
    pub(super) async fn shut_down(self) {
        let Self { provider, fails } = self;
        let ended = tokio::task::spawn_blocking(move || provider.shutdown_with_timeout(SHUTDOWN));
        if let Ok(Err(error)) = ended.await
            && !fails.load(Ordering::Relaxed)
        {
            tracing::warn!(%error, "traces not sent at shutdown");
        }
    }
}
