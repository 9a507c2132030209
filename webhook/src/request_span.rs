//! Span of the webhook in the trace of an API server's request.

use std::error::Error;

use causeway::process::supervise::with_causes;
use causeway::process::traces::{Exemplar, Span, Tracer};
use http::{HeaderMap, StatusCode};

use crate::decide::{Decision, Denial};
use crate::metrics::Call;
use crate::review::Request;

/// Span of a request, if its trace is sampled. HTTP attributes have the names of the [semantic
/// conventions](https://opentelemetry.io/docs/specs/semconv/http/http-spans/), the others those of
/// the API server's spans and of log lines.
#[derive(Debug)]
pub(crate) struct RequestSpan(Option<Span>);

impl RequestSpan {
    /// Begins a span, as a child of the one in the header `traceparent`.
    pub(crate) fn begin(tracer: &Tracer, call: Call, headers: &HeaderMap) -> Self {
        let (name, path) = match call {
            Call::Mutate => ("POST /mutate", "/mutate"),
            Call::Validate => ("POST /validate", "/validate"),
        };
        let mut span = tracer.server_span(name, headers);
        if let Some(span) = &mut span {
            span.set("http.request.method", "POST");
            span.set("http.route", path);
            span.set("url.path", path);
            span.set("url.scheme", "https");
        }
        Self(span)
    }

    /// Records the decoded request.
    pub(crate) fn read(&mut self, request: &Request) {
        let Some(span) = &mut self.0 else { return };
        for (key, value) in [
            ("uid", &request.uid),
            ("kind", &request.kind),
            ("namespace", &request.namespace),
            ("name", &request.name),
        ] {
            if !value.is_empty() {
                span.set(key, value.clone());
            }
        }
        span.set("operation", request.operation);
    }

    /// Records the decision.
    pub(crate) fn decided(&mut self, decision: &Decision) {
        let Some(span) = &mut self.0 else { return };
        let denial = match decision {
            Decision::Deny { denial, .. } => Some(denial),
            Decision::Allow { .. } | Decision::Patch { .. } => None,
        };
        span.set("allowed", denial.is_none());
        match denial {
            None => {}
            Some(Denial::Fields { errors, .. }) => span.set("error", errors.to_string()),
            Some(Denial::Request(message)) => span.set("error", message.clone()),
        }
    }

    /// Records a failure of the webhook.
    pub(crate) fn failed(&mut self, error: &(dyn Error + 'static)) {
        if let Some(span) = &mut self.0 {
            let error = with_causes(error);
            span.fail(&error);
            span.set("error", error);
        }
    }

    /// Ends the span with the status of the answer, and returns the exemplar for a metric.
    pub(crate) fn end(self, status: StatusCode) -> Option<Exemplar> {
        let mut span = self.0?;
        span.set("http.response.status_code", i64::from(status.as_u16()));
        if status.is_server_error() {
            span.set("error.type", status.as_str().to_owned());
        }
        Some(span.exemplar())
    }
}
