//! A collector of traces, as OpenTelemetry's: takes OTLP over HTTP, and keeps it.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::Ipv4Addr;
use std::sync::Arc;

use bytes::Bytes;
use causeway_certs::Authority;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use opentelemetry_proto::tonic::trace::v1::Span;
use opentelemetry_proto::tonic::trace::v1::status::StatusCode as SpanStatus;
use parking_lot::Mutex;
use prost::Message as _;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;

use crate::eventually::{SOON, eventually};
use crate::proxy::acceptor;

/// A collector on the loopback. It ends when it is dropped, or with the Tokio runtime that it was
/// started in.
pub struct Collector {
    url: String,
    kept: Arc<Mutex<Kept>>,
    serving: JoinHandle<()>,
}

#[derive(Default)]
struct Kept {
    connections: usize,
    spans: Vec<ReceivedSpan>,
}

#[derive(Clone, Copy)]
enum Answer {
    Takes,
    Never,
}

/// A span as it arrived. Ids are in lower-case hexadecimal, as in `traceparent`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReceivedSpan {
    /// Its sender: `service.name`.
    pub service: String,
    /// Its name.
    pub name: String,
    /// Its trace.
    pub trace: String,
    /// Its own id.
    pub id: String,
    /// The id of the span that it is within; empty for the first of a trace.
    pub parent: String,
    /// Its begin and end, in nanoseconds since 1970.
    pub time: (u64, u64),
    /// Whether its status is an error.
    pub is_error: bool,
    attributes: BTreeMap<String, String>,
}

impl ReceivedSpan {
    /// An attribute, as text; empty where there is none.
    pub fn get(&self, key: &str) -> &str {
        self.attributes.get(key).map_or("", String::as_str)
    }

    fn read(service: &str, span: Span) -> Self {
        let status = span.status.as_ref().map(|status| status.code());
        Self {
            service: service.to_owned(),
            name: span.name,
            trace: hex(&span.trace_id),
            id: hex(&span.span_id),
            parent: hex(&span.parent_span_id),
            time: (span.start_time_unix_nano, span.end_time_unix_nano),
            is_error: status == Some(SpanStatus::Error),
            attributes: texts(span.attributes),
        }
    }
}

impl Collector {
    /// A collector that takes everything.
    pub async fn start() -> Self {
        Self::answering(Answer::Takes, None).await
    }

    /// A collector that takes everything over TLS, with a certificate of that authority.
    pub async fn with_tls(authority: &Authority) -> Self {
        Self::answering(Answer::Takes, Some(acceptor(authority))).await
    }

    /// A collector that takes connections and requests, and never answers.
    pub async fn silent() -> Self {
        Self::answering(Answer::Never, None).await
    }

    async fn answering(answer: Answer, tls: Option<TlsAcceptor>) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await;
        let listener = listener.expect("a port is free");
        let address = listener.local_addr().expect("an address");
        let kept = Arc::<Mutex<Kept>>::default();
        let scheme = if tls.is_some() { "https" } else { "http" };
        Self {
            url: format!("{scheme}://{address}"),
            serving: tokio::spawn(serve(listener, tls, Arc::clone(&kept), answer)),
            kept,
        }
    }

    /// Returns the value of `--otlp-endpoint`.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Returns the number of connections so far.
    pub fn connections(&self) -> usize {
        self.kept.lock().connections
    }

    /// All spans of a trace that have arrived.
    pub fn trace(&self, trace: &str) -> Vec<ReceivedSpan> {
        self.spans(|span| span.trace == trace)
    }

    /// The spans that have arrived and are of these.
    pub fn spans(&self, of: impl Fn(&ReceivedSpan) -> bool) -> Vec<ReceivedSpan> {
        let kept = self.kept.lock();
        kept.spans.iter().filter(|span| of(span)).cloned().collect()
    }

    /// Waits until so many spans of these have arrived, or more.
    pub async fn received(
        &self,
        what: &str,
        count: usize,
        of: impl Fn(&ReceivedSpan) -> bool,
    ) -> Vec<ReceivedSpan> {
        eventually(what, SOON, || async {
            let spans = self.spans(&of);
            match spans.len() >= count {
                true => Ok(spans),
                false => Err(format!("{spans:#?} of {:#?}", self.kept.lock().spans)),
            }
        })
        .await
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn serve(
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
    kept: Arc<Mutex<Kept>>,
    answer: Answer,
) {
    while let Ok((stream, _)) = listener.accept().await {
        kept.lock().connections += 1;
        let (tls, kept) = (tls.clone(), Arc::clone(&kept));
        tokio::spawn(async move {
            match tls {
                None => connection(stream, kept, answer).await,
                Some(tls) => {
                    if let Ok(stream) = tls.accept(stream).await {
                        connection(stream, kept, answer).await;
                    }
                }
            }
        });
    }
}

async fn connection<S>(stream: S, kept: Arc<Mutex<Kept>>, answer: Answer)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let service = service_fn(|request| {
        let kept = Arc::clone(&kept);
        async move {
            match answer {
                Answer::Takes => Ok::<_, Infallible>(take(request, &kept).await),
                Answer::Never => std::future::pending().await,
            }
        }
    });
    // Who sends may go at any time.
    http1::Builder::new()
        .serve_connection(TokioIo::new(stream), service)
        .await
        .ok();
}

async fn take(request: Request<Incoming>, kept: &Mutex<Kept>) -> Response<Full<Bytes>> {
    let is_traces = request.uri().path() == "/v1/traces";
    let body = request.into_body().collect().await;
    let read = body.map(|body| ExportTraceServiceRequest::decode(body.to_bytes()));
    let code = match read {
        Ok(Ok(batch)) if is_traces => {
            kept.lock().spans.extend(spans(batch));
            StatusCode::OK
        }
        _ => StatusCode::BAD_REQUEST,
    };
    let mut response = Response::new(Full::default());
    *response.status_mut() = code;
    response
}

fn spans(batch: ExportTraceServiceRequest) -> impl Iterator<Item = ReceivedSpan> {
    batch.resource_spans.into_iter().flat_map(|of_resource| {
        let attributes = of_resource.resource.map(|resource| resource.attributes);
        let mut attributes = texts(attributes.unwrap_or_default());
        let service = attributes.remove("service.name").unwrap_or_default();
        let scopes = of_resource.scope_spans.into_iter();
        let spans = scopes.flat_map(|scope| scope.spans);
        spans.map(move |span| ReceivedSpan::read(&service, span))
    })
}

fn texts(attributes: Vec<KeyValue>) -> BTreeMap<String, String> {
    let text = |value: Option<AnyValue>| match value.and_then(|value| value.value) {
        Some(Value::StringValue(text)) => text,
        Some(Value::BoolValue(value)) => value.to_string(),
        Some(Value::IntValue(value)) => value.to_string(),
        other => format!("{other:?}"),
    };
    let texts = attributes.into_iter();
    texts.map(|one| (one.key, text(one.value))).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
