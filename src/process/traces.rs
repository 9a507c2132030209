//! Traces: spans that a process sends by OTLP, to an endpoint that it is given.
//!
//! Spans are begun and ended by hand, with the interface of OpenTelemetry, not with spans of
//! `tracing`: one of the controller begins with an event, lives beside a key in its queue and ends
//! with an answer in another task. So nothing of it is in the way of log lines, and where traces
//! are off there is nothing but a comparison.

mod args;
mod collector;
mod otlp;

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

use http::{HeaderMap, HeaderValue};
use opentelemetry::global::{BoxedSpan, BoxedTracer};
use opentelemetry::propagation::{Extractor, TextMapPropagator};
use opentelemetry::trace::{
    Span as _, SpanBuilder, SpanKind, Status, TraceContextExt as _, Tracer as _,
};
use opentelemetry::{Context, KeyValue, StringValue, Value};
use prometheus_client::encoding::EncodeLabelSet;

pub use args::{TraceArgs, TraceConfig};

/// The longest text that a span keeps, in bytes: names come from outside, and what waits to be sent
/// is to stay small.
const TEXT_MAX: usize = 1024;

/// Error of traces that cannot be sent.
#[derive(Debug, thiserror::Error)]
#[error("traces cannot be sent to {endpoint}")]
pub struct TraceError {
    endpoint: String,
    source: Box<dyn std::error::Error + Send + Sync>,
}

/// Begins spans; none where traces are off, as by default. Clones are the same.
#[derive(Clone, Debug, Default)]
pub struct Tracer(Option<Arc<Inner>>);

struct Inner {
    tracer: BoxedTracer,
    propagator: Box<dyn TextMapPropagator + Send + Sync>,
    callers_decide: bool,
}

impl fmt::Debug for Inner {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Inner")
    }
}

impl Tracer {
    /// Begins spans of that tracer; the propagator reads what callers say of theirs. Where
    /// `callers_decide`, as with every sampler `parentbased_*`, the tracer is not asked about a
    /// trace that its caller does not sample: most are like that.
    pub fn new(
        tracer: BoxedTracer,
        propagator: impl TextMapPropagator + Send + Sync + 'static,
        callers_decide: bool,
    ) -> Self {
        Self(Some(Arc::new(Inner {
            tracer,
            propagator: Box::new(propagator),
            callers_decide,
        })))
    }

    /// Whether there are traces at all.
    pub fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// Begins the span of a request that is served: in the trace that its header `traceparent`
    /// names ([W3C Trace Context](https://www.w3.org/TR/trace-context/)), else in a trace of its
    /// own. `None` where that is not sampled.
    pub fn server_span(&self, name: &'static str, headers: &HeaderMap) -> Option<Span> {
        let inner = self.0.as_deref()?;
        if inner.callers_decide && says_unsampled(headers) {
            return None;
        }
        let parent = inner
            .propagator
            .extract_with_context(&Context::new(), &Headers(headers));
        inner.begin(
            SpanBuilder::from_name(name).with_kind(SpanKind::Server),
            &parent,
        )
    }

    /// Begins a trace, as of that time. `None` where it is not sampled.
    pub fn root_span(&self, name: &'static str, since: SystemTime) -> Option<Span> {
        let builder = SpanBuilder::from_name(name).with_start_time(since);
        self.0.as_deref()?.begin(builder, &Context::new())
    }

    /// Begins the span of a request that is sent, within another span.
    pub fn client_span(&self, name: impl Into<Cow<'static, str>>, within: &Span) -> Option<Span> {
        let parent = within.0.span_context().clone();
        let builder = SpanBuilder::from_name(name).with_kind(SpanKind::Client);
        let parent = Context::new().with_remote_span_context(parent);
        self.0.as_deref()?.begin(builder, &parent)
    }
}

impl Inner {
    fn begin(&self, builder: SpanBuilder, parent: &Context) -> Option<Span> {
        let span = self.tracer.build_with_context(builder, parent);
        span.span_context().is_sampled().then_some(Span(span))
    }
}

/// Whether `traceparent` is one of version 00 that names a trace and says that it is not sampled.
/// All else is the propagator's.
fn says_unsampled(headers: &HeaderMap) -> bool {
    let value = headers.get("traceparent").map(HeaderValue::as_bytes);
    let Some([b'0', b'0', b'-', ids @ .., b'-', high, low]) = value else {
        return false;
    };
    let Some((trace, [b'-', span @ ..])) = ids.split_at_checked(32) else {
        return false;
    };
    let is_hex = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    let is_id = |id: &[u8]| id.iter().all(is_hex) && id.iter().any(|byte| *byte != b'0');
    let is_even = |digit: u8| char::from(digit).to_digit(16).is_some_and(|d| d % 2 == 0);
    span.len() == 16 && is_id(trace) && is_id(span) && is_hex(high) && is_hex(low) && is_even(*low)
}

/// A span of a sampled trace. It ends when it is dropped, if not before.
#[derive(Debug)]
pub struct Span(BoxedSpan);

impl Span {
    /// Sets an attribute; a long text is cut.
    pub fn set(&mut self, key: &'static str, value: impl Into<Value>) {
        let value = match value.into() {
            Value::String(text) if text.as_str().len() > TEXT_MAX => {
                Value::String(StringValue::from(cut(text.as_str()).to_owned()))
            }
            value => value,
        };
        self.0.set_attribute(KeyValue::new(key, value));
    }

    /// Records that the traced operation failed, with the cause.
    pub fn fail(&mut self, error: &str) {
        self.0.set_status(Status::error(cut(error).to_owned()));
    }

    /// Ends the span, as of that time.
    pub fn end_at(mut self, at: SystemTime) {
        self.0.end_with_timestamp(at);
    }

    /// Returns the exemplar that leads from a metric to this trace.
    pub fn exemplar(&self) -> Exemplar {
        let trace_id = self.0.span_context().trace_id().to_string();
        Exemplar { trace_id }
    }
}

fn cut(text: &str) -> &str {
    &text[..text.floor_char_boundary(TEXT_MAX)]
}

/// The exemplar of a metric: a trace that was counted there.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct Exemplar {
    trace_id: String,
}

struct Headers<'a>(&'a HeaderMap);

impl Extractor for Headers<'_> {
    fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key)?.to_str().ok()
    }

    fn keys(&self) -> Vec<&str> {
        self.0.keys().map(|name| name.as_str()).collect()
    }
}

/// The traces of a process, and what sends them.
#[derive(Debug, Default)]
pub(super) struct Traces {
    tracer: Tracer,
    sender: Option<otlp::Sender>,
}

impl Traces {
    /// Begins to send the spans of that service, where the configuration says where to. Needs a
    /// Tokio runtime, in which it sends.
    pub(super) fn start(service: &'static str, config: &TraceConfig) -> Result<Self, TraceError> {
        let Some(endpoint) = &config.endpoint else {
            return Ok(Self::default());
        };
        let (tracer, sender) =
            otlp::start(service, endpoint, config).map_err(|source| TraceError {
                endpoint: endpoint.to_string(),
                source,
            })?;
        tracing::info!(%endpoint, "sending traces");
        Ok(Self {
            tracer,
            sender: Some(sender),
        })
    }

    pub(super) fn tracer(&self) -> Tracer {
        self.tracer.clone()
    }

    /// Sends what waits to be sent, for three seconds at most. What begins later is no span.
    pub(super) async fn shut_down(&mut self) {
        if let Some(sender) = self.sender.take() {
            sender.shut_down().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_an_endpoint_no_span_begins() {
        let tracer = Tracer::default();
        assert!(!tracer.is_on());
        let mut headers = HeaderMap::new();
        let parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        headers.insert("traceparent", parent.parse().expect("a header value"));
        assert!(tracer.server_span("POST /validate", &headers).is_none());
        assert!(tracer.root_span("propagate", SystemTime::now()).is_none());
    }

    #[test]
    fn unsampled_caller_is_detected_without_propagator() {
        let ids = "4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7";
        let cases = [
            (format!("00-{ids}-00"), true),
            (format!("00-{ids}-02"), true),
            (format!("00-{ids}-0e"), true),
            (format!("00-{ids}-01"), false),
            (format!("00-{ids}-0b"), false),
            (format!("00-{ids}-0E"), false),
            (format!("00-{ids}-0g"), false),
            (format!("01-{ids}-00"), false),
            (format!("00-{ids}-00-more"), false),
            (format!("00-{ids}"), false),
            (format!("00-{}-00", ids.to_uppercase()), false),
            (format!("00-{}-00", ids.replace("-00", "-")), false),
            (
                format!("00-{}-{}-00", "0".repeat(32), "1".repeat(16)),
                false,
            ),
            (
                format!("00-{}-{}-00", "1".repeat(32), "0".repeat(16)),
                false,
            ),
            ("00--00".to_owned(), false),
            (String::new(), false),
        ];
        for (parent, unsampled) in cases {
            let mut headers = HeaderMap::new();
            headers.insert("traceparent", parent.parse().expect("a header value"));
            assert_eq!(says_unsampled(&headers), unsampled, "{parent}");
        }
        assert!(!says_unsampled(&HeaderMap::new()));
    }

    #[test]
    fn a_long_text_is_cut_between_two_letters() {
        assert_eq!(cut("short"), "short");
        let long = "\u{f6}".repeat(TEXT_MAX);
        assert_eq!(cut(&long).len(), TEXT_MAX);
        let odd = format!("a{long}");
        assert_eq!(cut(&odd).len(), TEXT_MAX - 1);
    }
}
