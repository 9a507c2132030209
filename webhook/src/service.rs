//! HTTP: the routes of the webhook, the checks of a request, and the answers.
//!
//! axum routes requests and encodes responses. The limits are not layers of tower, because a layer
//! rejects the newest request; [`Limiter`] and [`Connections`] evict the slowest one. The
//! `Limiter` also has a body wait for the memory that it needs.

use std::future::pending;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Extension, Json, Router};
use bytes::Bytes;
use causeway::domain::quoted;
use causeway::process::supervise::{Tasks, with_causes};
use causeway::process::traces::Tracer;
use http::header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use http::{HeaderMap, Method, StatusCode};

use crate::body::{self, BodyError};
use crate::connections::{Connections, Phase, Progress};
use crate::decide::{self, Change, Decision, Denial, Impact, Policy, PreparedChange};
use crate::hub::{Hub, HubError};
use crate::limits::{Limiter, Limits};
use crate::metrics::{Call, Metrics, Outcome};
use crate::request_span::RequestSpan;
use crate::review::{self, EnvelopeError, Subject};

/// Minimum size, in bytes, of a body that is decoded on a thread of its own.
const LARGE: usize = 64 * 1024;

/// Duration from which on a request is logged as slow.
const SLOW: Duration = Duration::from_secs(1);

/// Reason why a request gets no decision.
#[derive(Debug, thiserror::Error)]
enum RequestError {
    #[error("{0} is not served; /mutate and /validate are")]
    Path(String),
    #[error("{0} is not served; POST is")]
    Method(Method),
    #[error("a body with a content encoding is not read; send plain JSON")]
    ContentEncoding,
    #[error("the content type must be application/json")]
    ContentType,
    #[error("too many requests at one time; try again")]
    Busy,
    #[error(transparent)]
    Body(#[from] BodyError),
    #[error(transparent)]
    Envelope(#[from] EnvelopeError),
    #[error(transparent)]
    Hub(#[from] HubError),
    #[error("the answer could not be written: {0}")]
    Answer(#[from] serde_json::Error),
    #[error("the hub changed while the request was validated; try again")]
    HubChanged,
    #[error("an internal error; the log of the webhook has it")]
    Panicked,
}

impl RequestError {
    /// Returns the code of the answer, and Kubernetes' reason for it.
    fn status(&self) -> (StatusCode, &'static str) {
        match self {
            Self::Path(_) => (StatusCode::NOT_FOUND, "NotFound"),
            Self::Method(_) => (StatusCode::METHOD_NOT_ALLOWED, "MethodNotAllowed"),
            Self::ContentEncoding | Self::ContentType => {
                (StatusCode::UNSUPPORTED_MEDIA_TYPE, "UnsupportedMediaType")
            }
            Self::Busy | Self::Body(BodyError::NoRoom) | Self::Hub(HubError::Busy) => {
                (StatusCode::TOO_MANY_REQUESTS, "TooManyRequests")
            }
            Self::Body(BodyError::TooLarge) => {
                (StatusCode::PAYLOAD_TOO_LARGE, "RequestEntityTooLarge")
            }
            Self::Body(BodyError::Slow) => (StatusCode::REQUEST_TIMEOUT, "Timeout"),
            Self::Body(BodyError::Broken(_)) | Self::Envelope(_) => {
                (StatusCode::BAD_REQUEST, "BadRequest")
            }
            Self::Hub(_) => (StatusCode::SERVICE_UNAVAILABLE, "ServiceUnavailable"),
            Self::Answer(_) | Self::HubChanged | Self::Panicked => {
                (StatusCode::INTERNAL_SERVER_ERROR, "InternalError")
            }
        }
    }

    /// Returns the reason that is counted; `None` if the webhook failed, not the request.
    fn rejection(&self) -> Option<&'static str> {
        Some(match self.status().0 {
            StatusCode::PAYLOAD_TOO_LARGE => "too_large",
            StatusCode::REQUEST_TIMEOUT => "slow",
            StatusCode::TOO_MANY_REQUESTS => "busy",
            code if code.is_server_error() => return None,
            _ => "malformed",
        })
    }
}

impl IntoResponse for RequestError {
    /// Answers with a Status of Kubernetes. After an error failurePolicy decides.
    fn into_response(self) -> Response {
        let (code, reason) = self.status();
        let status = review::failure(code.as_u16(), reason, with_causes(&self));
        let mut response = (code, Json(status)).into_response();
        if code == StatusCode::TOO_MANY_REQUESTS {
            // An API server repeats the call after this time, as often as its own deadline allows.
            let seconds = HeaderValue::from_static("1");
            response.headers_mut().insert(RETRY_AFTER, seconds);
        }
        response
    }
}

/// Returns the router. A request carries the [`Progress`] of its connection as an extension.
pub fn router(webhook: Arc<Webhook>) -> Router {
    Router::new()
        .route("/mutate", post(mutate))
        .route("/validate", post(validate))
        .method_not_allowed_fallback(method_not_allowed)
        .fallback(not_found)
        .with_state(webhook)
}

async fn mutate(
    State(webhook): State<Arc<Webhook>>,
    Extension(progress): Extension<Arc<Progress>>,
    request: Request,
) -> Response {
    webhook.respond(Call::Mutate, request, &progress).await
}

async fn validate(
    State(webhook): State<Arc<Webhook>>,
    Extension(progress): Extension<Arc<Progress>>,
    request: Request,
) -> Response {
    webhook.respond(Call::Validate, request, &progress).await
}

async fn method_not_allowed(State(webhook): State<Arc<Webhook>>, method: Method) -> Response {
    webhook.metrics.request_rejected("malformed");
    RequestError::Method(method).into_response()
}

async fn not_found(request: Request) -> RequestError {
    RequestError::Path(quoted(request.uri().path()).into_owned())
}

/// The webhook: decides about requests within its limits.
pub struct Webhook {
    hub: Hub,
    policy: Policy,
    limiter: Limiter,
    connections: Arc<Connections>,
    metrics: Metrics,
    tasks: Tasks,
    tracer: Tracer,
}

impl Webhook {
    /// Creates a webhook that sends no traces.
    pub fn new(hub: Hub, policy: Policy, limits: &Limits, metrics: Metrics, tasks: Tasks) -> Self {
        Self {
            hub,
            policy,
            limiter: Limiter::new(limits),
            connections: Arc::new(Connections::new(limits.connections, metrics.clone())),
            metrics,
            tasks,
            tracer: Tracer::default(),
        }
    }

    /// Sends the spans of requests to a tracer.
    #[must_use]
    pub fn traced(self, tracer: Tracer) -> Self {
        Self { tracer, ..self }
    }

    pub(crate) fn connections(&self) -> &Arc<Connections> {
        &self.connections
    }

    /// Answers a request. A panic is answered with 500.
    async fn respond(&self, call: Call, request: Request, progress: &Progress) -> Response {
        let begun = Instant::now();
        let mut span = RequestSpan::begin(&self.tracer, call, request.headers());
        let _in_flight = self.metrics.in_flight();
        let handling = self.handle(call, request, progress, &mut span);
        let handled = self.tasks.catch_panic("request", handling).await;
        let (response, outcome) = match handled.unwrap_or(Err(RequestError::Panicked)) {
            Ok((review, outcome)) => {
                let json = [(CONTENT_TYPE, "application/json")];
                ((json, review).into_response(), outcome)
            }
            Err(error) => {
                let outcome = match error.rejection() {
                    Some(reason) => {
                        self.metrics.request_rejected(reason);
                        Outcome::Rejected
                    }
                    None => {
                        span.failed(&error);
                        Outcome::Error
                    }
                };
                (error.into_response(), outcome)
            }
        };
        let exemplar = span.end(response.status());
        self.metrics
            .answered(call, outcome, begun.elapsed(), exemplar);
        response
    }

    async fn handle(
        &self,
        call: Call,
        request: Request,
        progress: &Progress,
        span: &mut RequestSpan,
    ) -> Result<(Vec<u8>, Outcome), RequestError> {
        let begun = Instant::now();
        // In place of the request whose body is slowest, where there are too many.
        let evict = || self.connections.evict_slowest_body();
        let admitted = self.limiter.admit(evict).await;
        let mut permit = admitted.ok_or(RequestError::Busy)?;
        check_head(request.headers())?;
        let body = body::read(request.into_body(), progress, &mut permit).await?;
        progress.enter(Phase::Answer);
        let received = begun.elapsed();
        let answered = self.answer(call, body, span).await;
        log_slow(call, received, begun.elapsed());
        answered
    }

    async fn answer(
        &self,
        call: Call,
        body: Bytes,
        span: &mut RequestSpan,
    ) -> Result<(Vec<u8>, Outcome), RequestError> {
        let request = self.read(body).await?;
        span.read(&request);
        let uid = request.uid;
        let decided = self.decide(call, request.subject).await;
        let answered = decided.and_then(|decision| {
            span.decided(&decision);
            let outcome = log_outcome(call, &uid, &request.namespace, &request.name, &decision);
            Ok((review::answer(&uid, decision)?, outcome))
        });
        answered.inspect_err(|error| {
            if error.rejection().is_none() {
                tracing::error!(uid, error = with_causes(error), "request not decided");
            }
        })
    }

    /// Decodes a body; a large one on a blocking thread, so that connections are served meanwhile.
    /// The limiter bounds the number of these threads.
    async fn read(&self, body: Bytes) -> Result<review::Request, EnvelopeError> {
        if body.len() < LARGE {
            return review::read(&body);
        }
        let decoder = self.limiter.decoder(body.len()).await;
        let decoding = tokio::task::spawn_blocking(move || {
            let read = review::read(&body);
            drop(decoder);
            read
        });
        match decoding.await {
            Ok(read) => read,
            Err(ended) => match ended.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                // The runtime is shutting down.
                Err(_) => pending().await,
            },
        }
    }

    async fn decide(&self, call: Call, subject: Subject) -> Result<Decision, RequestError> {
        let change = match (subject, call) {
            (Subject::Change(change), _) => *change,
            (Subject::Nothing, _) | (Subject::Unreadable(_), Call::Mutate) => return Ok(allow()),
            (Subject::Unreadable(why), Call::Validate) => {
                return Ok(deny(format!(
                    "the MultiClusterService cannot be read: {why}"
                )));
            }
            (Subject::OtherKind(kind), _) => {
                return Ok(deny(format!(
                    "{kind} was sent to causeway's webhook, which validates MultiClusterServices \
                     of networking.karmada.io/v1alpha1 only; correct the rules of the webhook \
                     configuration"
                )));
            }
        };
        match call {
            Call::Mutate => self.mutate(change).await,
            Call::Validate => self.validate(change).await,
        }
    }

    async fn mutate(&self, change: Change) -> Result<Decision, RequestError> {
        let id_taken = match decide::contested_id(&change) {
            Some(id) => {
                let name = &change.object.metadata.name;
                Box::pin(self.hub.is_id_taken(id, &change.namespace, name)).await?
            }
            None => false,
        };
        Ok(decide::mutate(change, id_taken))
    }

    /// Validates by the cache. Requests from the hub what is not in the cache, and what a denial
    /// rests on. The rare request to the hub is boxed: its future would be copied with that of each
    /// request.
    async fn validate(&self, change: Change) -> Result<Decision, RequestError> {
        let change = PreparedChange::from(change);
        let cached = self.hub.cached(&change);
        let validation = change.validate(&cached, &self.policy);
        if validation.unconfirmed.impact().is_none() {
            return Ok(validation.decision);
        }
        let live = Box::pin(self.hub.confirm(&change, validation.unconfirmed, cached)).await?;
        let validation = change.validate(&live, &self.policy);
        if validation.unconfirmed.impact() == Some(Impact::Denial) {
            return Err(RequestError::HubChanged);
        }
        Ok(validation.decision)
    }
}

/// Checks a request before its body is read.
fn check_head(headers: &HeaderMap) -> Result<(), RequestError> {
    if headers.contains_key(CONTENT_ENCODING) {
        return Err(RequestError::ContentEncoding);
    }
    if !headers.get(CONTENT_TYPE).is_some_and(is_json) {
        return Err(RequestError::ContentType);
    }
    Ok(())
}

fn is_json(content_type: &HeaderValue) -> bool {
    let Ok(text) = content_type.to_str() else {
        return false;
    };
    let (essence, _) = text.split_once(';').unwrap_or((text, ""));
    essence.trim().eq_ignore_ascii_case("application/json")
}

fn allow() -> Decision {
    Decision::Allow {
        warnings: Vec::new(),
    }
}

fn deny(message: String) -> Decision {
    Decision::Deny {
        denial: Denial::Request(message),
        warnings: Vec::new(),
    }
}

fn log_outcome(call: Call, uid: &str, namespace: &str, name: &str, decision: &Decision) -> Outcome {
    let webhook = call.label();
    let Decision::Deny { denial, .. } = decision else {
        tracing::debug!(uid, webhook, namespace, name, "request allowed");
        return Outcome::Allowed;
    };
    match denial {
        Denial::Fields { name, errors } => {
            tracing::info!(uid, webhook, namespace, name, error = %errors, "request denied");
        }
        Denial::Request(error) => {
            tracing::warn!(uid, webhook, namespace, name, error, "request denied");
        }
    }
    Outcome::Denied
}

/// Logs a slow request, with the part of the time that its sender took for the body.
fn log_slow(call: Call, received: Duration, took: Duration) {
    if took >= SLOW {
        let (seconds, body_seconds) = (took.as_secs_f64(), received.as_secs_f64());
        let webhook = call.label();
        tracing::warn!(webhook, seconds, body_seconds, "request slow");
    }
}
