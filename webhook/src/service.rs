//! HTTP: which requests are admission requests at all, and how they are answered.

use std::future::pending;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use causeway::process::supervise::{Tasks, with_causes};
use causeway::process::traces::Tracer;
use http::header::{
    ALLOW, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, HeaderValue, RETRY_AFTER,
};
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Body;

use crate::body::{self, BodyError, BoxError};
use crate::connections::{Connections, Phase, Progress};
use crate::decide::{self, Change, Decision, Denial, Impact, Policy, PreparedChange};
use crate::hub::{Hub, HubError};
use crate::limits::{BODY_MAX, Limiter, Limits, Permit};
use crate::metrics::{Call, Metrics, Outcome, RequestRejection};
use crate::request_span::RequestSpan;
use crate::review::{self, Status, Subject};

/// Minimum length, in bytes, of a body that is decoded aside.
const LARGE: usize = 64 * 1024;

/// Reason why a request gets no decision.
#[derive(Debug, thiserror::Error)]
enum DecideError {
    #[error(transparent)]
    Hub(#[from] HubError),
    #[error("the answer could not be written: {0}")]
    Answer(#[from] serde_json::Error),
    #[error("the hub changed while the request was validated; try again")]
    Undecided,
    #[error("an internal error; the log of the webhook has it")]
    Panicked,
}

impl DecideError {
    fn status(&self) -> (StatusCode, &'static str) {
        match self {
            Self::Hub(_) => (StatusCode::SERVICE_UNAVAILABLE, "ServiceUnavailable"),
            _ => (StatusCode::INTERNAL_SERVER_ERROR, "InternalError"),
        }
    }
}

/// Rejection of a request before it is validated.
struct Rejection {
    code: StatusCode,
    reason: &'static str,
    message: String,
}

impl Rejection {
    fn new(code: StatusCode, reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            code,
            reason,
            message: message.into(),
        }
    }

    fn counted_as(&self) -> RequestRejection {
        match self.code {
            StatusCode::PAYLOAD_TOO_LARGE => RequestRejection::TooLarge,
            StatusCode::REQUEST_TIMEOUT => RequestRejection::Slow,
            StatusCode::TOO_MANY_REQUESTS => RequestRejection::Busy,
            _ => RequestRejection::Malformed,
        }
    }

    fn response(self) -> Response<Full<Bytes>> {
        let status = Status::new(self.code.as_u16(), self.reason, self.message);
        json(self.code, serde_json::to_vec(&status).unwrap_or_default())
    }
}

impl From<BodyError> for Rejection {
    fn from(error: BodyError) -> Self {
        let (code, reason) = match error {
            BodyError::TooLarge => (StatusCode::PAYLOAD_TOO_LARGE, "RequestEntityTooLarge"),
            BodyError::NoRoom => (StatusCode::TOO_MANY_REQUESTS, "TooManyRequests"),
            BodyError::Slow => (StatusCode::REQUEST_TIMEOUT, "Timeout"),
            BodyError::Broken(_) => (StatusCode::BAD_REQUEST, "BadRequest"),
        };
        Self::new(code, reason, with_causes(&error))
    }
}

/// The webhook: requests in, responses out.
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
    /// A webhook that decides by that policy and what it observes of the hub, within the limits.
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

    /// Requests get spans of that tracer.
    #[must_use]
    pub fn traced(self, tracer: Tracer) -> Self {
        Self { tracer, ..self }
    }

    pub(crate) fn connections(&self) -> &Arc<Connections> {
        &self.connections
    }

    pub(crate) fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// Answers a request, whatever it is, and reports to `progress` how far that is. A panic is an answer of 500.
    pub async fn respond<B>(
        &self,
        request: Request<B>,
        progress: &Progress,
    ) -> Response<Full<Bytes>>
    where
        B: Body<Error: Into<BoxError>>,
    {
        let call = match request.uri().path() {
            "/mutate" => Call::Mutate,
            "/validate" => Call::Validate,
            path => {
                if !request.body().is_end_stream() {
                    progress.leave_body_unread();
                }
                let message = format!("{path} is not served; /mutate and /validate are");
                return Rejection::new(StatusCode::NOT_FOUND, "NotFound", message).response();
            }
        };
        let begun = Instant::now();
        let mut span = RequestSpan::begin(&self.tracer, call, request.headers());
        let _in_flight = self.metrics.in_flight();
        let handling = self.handle(call, request, progress, begun, &mut span);
        let (response, outcome) = match self.tasks.catch_panic("request", handling).await {
            Ok(Ok(answered)) => answered,
            Ok(Err(rejection)) => {
                self.metrics.request_rejected(rejection.counted_as());
                (rejection.response(), Outcome::Rejected)
            }
            Err(_) => {
                span.failed(&DecideError::Panicked);
                (no_decision("", &DecideError::Panicked), Outcome::Error)
            }
        };
        let exemplar = span.end(response.status());
        self.metrics
            .answered(call, outcome, begun.elapsed(), exemplar);
        response
    }

    async fn handle<B>(
        &self,
        call: Call,
        request: Request<B>,
        progress: &Progress,
        begun: Instant,
        span: &mut RequestSpan,
    ) -> Result<(Response<Full<Bytes>>, Outcome), Rejection>
    where
        B: Body<Error: Into<BoxError>>,
    {
        let has_body = !request.body().is_end_stream();
        let received = async {
            let mut permit = self.admit().await?;
            let body = receive(request, progress, &mut permit).await?;
            Ok((permit, body))
        };
        let (_permit, body) = received.await.inspect_err(|_: &Rejection| {
            if has_body {
                progress.leave_body_unread();
            }
        })?;
        progress.enter(Phase::Answer);
        let received = begun.elapsed();
        let answered = self.answer(call, body, span).await;
        log_slow(call, received, begun.elapsed());
        answered
    }

    /// Admits a request; where there are too many, in place of the one whose body is slowest.
    async fn admit(&self) -> Result<Permit<'_>, Rejection> {
        let evict = || self.connections.evict_slowest_body();
        self.limiter.admit(evict).await.ok_or_else(|| {
            Rejection::new(
                StatusCode::TOO_MANY_REQUESTS,
                "TooManyRequests",
                "too many requests at one time; try again",
            )
        })
    }

    async fn answer(
        &self,
        call: Call,
        body: Bytes,
        span: &mut RequestSpan,
    ) -> Result<(Response<Full<Bytes>>, Outcome), Rejection> {
        let request = match body.len() < LARGE {
            true => review::read(&body),
            false => Box::pin(self.read_aside(body.clone())).await,
        };
        let request = request.map_err(|error| {
            Rejection::new(StatusCode::BAD_REQUEST, "BadRequest", error.to_string())
        })?;
        span.read(&request);
        let uid = request.uid;
        let decided = self.decide(call, request.subject).await;
        let answered = decided.and_then(|decision| {
            span.decided(&decision);
            let outcome = log_outcome(call, &uid, &request.namespace, &request.name, &decision);
            Ok((review::answer(&uid, decision)?, outcome))
        });
        Ok(match answered {
            Ok((text, outcome)) => (json(StatusCode::OK, text), outcome),
            Err(DecideError::Hub(HubError::Busy)) => {
                return Err(Rejection::new(
                    StatusCode::TOO_MANY_REQUESTS,
                    "TooManyRequests",
                    HubError::Busy.to_string(),
                ));
            }
            Err(error) => {
                span.failed(&error);
                (no_decision(&uid, &error), Outcome::Error)
            }
        })
    }

    /// Decodes a large body on a thread that serves nobody else. Few do at one time.
    async fn read_aside(&self, body: Bytes) -> Result<review::Request, review::EnvelopeError> {
        let decoder = self.limiter.decoder().await;
        let decoding = tokio::task::spawn_blocking(move || {
            let read = review::read(&body);
            drop(decoder);
            read
        });
        match decoding.await {
            Ok(read) => read,
            Err(ended) => match ended.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                Err(_) => pending().await,
            },
        }
    }

    async fn decide(&self, call: Call, subject: Subject) -> Result<Decision, DecideError> {
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
                    "{kind} was sent to causeway's webhook, which validates MultiClusterServices of \
                     networking.karmada.io/v1alpha1 only; correct the rules of the webhook configuration"
                )));
            }
        };
        match call {
            Call::Mutate => self.mutate(change).await,
            Call::Validate => self.validate(change).await,
        }
    }

    async fn mutate(&self, change: Change) -> Result<Decision, DecideError> {
        let id_taken = match decide::contested_id(&change) {
            Some(id) => {
                let own = (
                    change.namespace.as_str(),
                    change.object.metadata.name.as_str(),
                );
                Box::pin(self.hub.is_id_taken(id, own)).await?
            }
            None => false,
        };
        Ok(decide::mutate(change, id_taken))
    }

    /// Each connection has room for the future of a request, so the rare request to the hub is boxed here and in
    /// [`Webhook::mutate`].
    ///
    /// Validates by the cache; what would be denied on its account, or is not in it, by the hub itself.
    async fn validate(&self, change: Change) -> Result<Decision, DecideError> {
        let change = PreparedChange::from(change);
        let cached = self.hub.cached(&change);
        let validation = change.validate(&cached, &self.policy);
        if validation.unconfirmed.impact().is_none() {
            return Ok(validation.decision);
        }
        let live = Box::pin(self.hub.confirm(&change, validation.unconfirmed, cached)).await?;
        let validation = change.validate(&live, &self.policy);
        if validation.unconfirmed.impact() == Some(Impact::Denial) {
            return Err(DecideError::Undecided);
        }
        Ok(validation.decision)
    }
}

/// Checks the head of a request and reads its body.
async fn receive<B>(
    request: Request<B>,
    progress: &Progress,
    permit: &mut Permit<'_>,
) -> Result<Bytes, Rejection>
where
    B: Body<Error: Into<BoxError>>,
{
    let declared = check_head(request.method(), request.headers())?;
    Ok(body::read(request.into_body(), declared, progress, permit).await?)
}

/// The answer where there is no decision, so that failurePolicy decides.
fn no_decision(uid: &str, error: &DecideError) -> Response<Full<Bytes>> {
    let text = with_causes(error);
    tracing::error!(uid, error = text, "request not decided");
    let (code, reason) = error.status();
    Rejection::new(code, reason, text).response()
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

/// From so long on a request is slow.
const SLOW: Duration = Duration::from_secs(1);

/// Logs a request that took long, and how much of that its sender took for the body.
fn log_slow(call: Call, received: Duration, took: Duration) {
    if took >= SLOW {
        let (seconds, body_seconds) = (took.as_secs_f64(), received.as_secs_f64());
        let webhook = call.label();
        tracing::warn!(webhook, seconds, body_seconds, "request slow");
    }
}

/// Checks what can be checked before the body, and returns its declared length.
fn check_head(method: &Method, headers: &HeaderMap) -> Result<Option<usize>, Rejection> {
    let unsupported = |message: &str| {
        Err(Rejection::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "UnsupportedMediaType",
            message,
        ))
    };
    if method != Method::POST {
        let message = format!("{method} is not served; POST is");
        return Err(Rejection::new(
            StatusCode::METHOD_NOT_ALLOWED,
            "MethodNotAllowed",
            message,
        ));
    }
    if headers.contains_key(CONTENT_ENCODING) {
        return unsupported("a body with a content encoding is not read; send plain JSON");
    }
    if !headers.get(CONTENT_TYPE).is_some_and(is_json) {
        return unsupported("the content type must be application/json");
    }
    let length = headers
        .get(CONTENT_LENGTH)
        .and_then(|length| length.to_str().ok()?.parse::<usize>().ok());
    if length.is_some_and(|length| length > BODY_MAX) {
        return Err(BodyError::TooLarge.into());
    }
    Ok(length)
}

fn is_json(content_type: &HeaderValue) -> bool {
    let Ok(text) = content_type.to_str() else {
        return false;
    };
    let (essence, _) = text.split_once(';').unwrap_or((text, ""));
    essence.trim().eq_ignore_ascii_case("application/json")
}

fn json(code: StatusCode, body: Vec<u8>) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::from(body));
    *response.status_mut() = code;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    match code {
        StatusCode::METHOD_NOT_ALLOWED => {
            headers.insert(ALLOW, HeaderValue::from_static("POST"));
        }
        // An API server repeats the call after this time, as often as its own deadline allows.
        StatusCode::TOO_MANY_REQUESTS => {
            headers.insert(RETRY_AFTER, HeaderValue::from_static("1"));
        }
        _ => {}
    }
    response
}
