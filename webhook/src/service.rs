//! HTTP: which requests are admission requests at all, and how they are answered.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use causeway::process::supervise::{Tasks, with_causes};
use http::header::{
    ALLOW, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, HeaderValue, RETRY_AFTER,
};
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Body;

use crate::body::{self, BodyError, BoxError};
use crate::connections::{Connections, Phase, Progress};
use crate::decide::{self, Change, Decision, Policy, Question, Refusal, Stake};
use crate::limits::{BODY_MAX, Limiter, Limits, Permit};
use crate::metrics::{Call, Metrics, Outcome, RequestRejection};
use crate::review::{self, Status, Subject};
use crate::view::{Hub, HubError};

/// Why a request gets no decision.
#[derive(Debug, thiserror::Error)]
enum Fault {
    #[error(transparent)]
    Hub(#[from] HubError),
    #[error("the answer could not be written: {0}")]
    Answer(#[from] serde_json::Error),
    #[error("what is known of the hub does not suffice for an answer")]
    Undecided,
    #[error("an internal fault; the log of the webhook has it")]
    Panicked,
}

impl Fault {
    fn status(&self) -> (StatusCode, &'static str) {
        match self {
            Self::Hub(_) => (StatusCode::SERVICE_UNAVAILABLE, "ServiceUnavailable"),
            _ => (StatusCode::INTERNAL_SERVER_ERROR, "InternalError"),
        }
    }
}

/// Why a request is not judged.
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
}

impl Webhook {
    /// A webhook that judges by that policy and what it sees of the hub, and takes on no more than the limits say.
    pub fn new(hub: Hub, policy: Policy, limits: &Limits, metrics: Metrics, tasks: Tasks) -> Self {
        Self {
            hub,
            policy,
            limiter: Limiter::new(limits),
            connections: Arc::new(Connections::new(limits.connections, metrics.clone())),
            metrics,
            tasks,
        }
    }

    pub(crate) fn connections(&self) -> &Arc<Connections> {
        &self.connections
    }

    pub(crate) fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// Answers a request, whatever it is; how far that is, is told to `progress`. A panic is an answer of 500.
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
        let _in_flight = self.metrics.in_flight();
        let handling = self.handle(call, request, progress);
        let (response, outcome) = match self.tasks.catch_panic("request", handling).await {
            Ok(Ok(answered)) => answered,
            Ok(Err(rejection)) => {
                self.metrics.request_rejected(rejection.counted_as());
                (rejection.response(), Outcome::Error)
            }
            Err(_) => (no_decision("", &Fault::Panicked), Outcome::Error),
        };
        self.metrics.answered(call, outcome, begun.elapsed());
        response
    }

    async fn handle<B>(
        &self,
        call: Call,
        request: Request<B>,
        progress: &Progress,
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
        self.answer(call, &body).await
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
        body: &[u8],
    ) -> Result<(Response<Full<Bytes>>, Outcome), Rejection> {
        let request = review::read(body).map_err(|error| {
            Rejection::new(StatusCode::BAD_REQUEST, "BadRequest", error.to_string())
        })?;
        let uid = request.uid;
        let decided = self.decide(call, request.subject).await;
        let answered = decided.and_then(|decision| {
            let outcome = log_outcome(call, &uid, &request.namespace, &decision);
            Ok((review::answer(&uid, decision)?, outcome))
        });
        Ok(match answered {
            Ok((text, outcome)) => (json(StatusCode::OK, text), outcome),
            Err(fault) => (no_decision(&uid, &fault), Outcome::Error),
        })
    }

    async fn decide(&self, call: Call, subject: Subject) -> Result<Decision, Fault> {
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
                    "{kind} was sent to causeway's webhook, which judges MultiClusterServices of \
                     networking.karmada.io/v1alpha1 only; correct the rules of the webhook configuration"
                )));
            }
        };
        match call {
            Call::Mutate => self.mutate(change).await,
            Call::Validate => self.validate(change).await,
        }
    }

    async fn mutate(&self, change: Change) -> Result<Decision, Fault> {
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

    /// Each connection has room for the future of a request, so the rare look at the hub is boxed here and in
    /// [`Webhook::mutate`].
    ///
    /// Judges by the cache; what would be refused on its account, or cannot be judged by it, by the hub itself.
    async fn validate(&self, change: Change) -> Result<Decision, Fault> {
        let question = Question::from(change);
        let cached = self.hub.cached(&question);
        let verdict = question.judge(&cached, &self.policy);
        if verdict.doubts.stake().is_none() {
            return Ok(verdict.decision);
        }
        let live = Box::pin(self.hub.look(&question, verdict.doubts, cached)).await?;
        let verdict = question.judge(&live, &self.policy);
        if verdict.doubts.stake() == Some(Stake::Refusal) {
            return Err(Fault::Undecided);
        }
        Ok(verdict.decision)
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

/// The answer where there is no verdict, so that failurePolicy decides.
fn no_decision(uid: &str, fault: &Fault) -> Response<Full<Bytes>> {
    let text = with_causes(fault);
    tracing::error!(uid, "no decision: {text}");
    let (code, reason) = fault.status();
    Rejection::new(code, reason, text).response()
}

fn allow() -> Decision {
    Decision::Allow {
        warnings: Vec::new(),
    }
}

fn deny(message: String) -> Decision {
    Decision::Deny {
        refusal: Refusal::Request(message),
        warnings: Vec::new(),
    }
}

fn log_outcome(call: Call, uid: &str, namespace: &str, decision: &Decision) -> Outcome {
    let Decision::Deny { refusal, .. } = decision else {
        tracing::debug!(uid, ?call, "allowed");
        return Outcome::Allowed;
    };
    match refusal {
        Refusal::Fields { name, errors } => {
            tracing::info!(uid, ?call, namespace, name, "refused: {errors}");
        }
        Refusal::Request(message) => {
            tracing::warn!(uid, ?call, "refused: {message}");
        }
    }
    Outcome::Denied
}

/// Checks what can be checked before the body; how long that will be, where it is said.
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
