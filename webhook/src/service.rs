//! HTTP: which requests are admission requests at all, and how they are answered.

use std::time::{Duration, Instant};

use bytes::{Buf, Bytes};
use causeway::domain::FieldErrors;
use causeway::process::supervise::{Tasks, with_causes};
use http::header::{ALLOW, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, HeaderValue};
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::Body;
use tokio::time::timeout;

use crate::decide::{self, Change, Decision, Policy, Question, Refusal, Stake};
use crate::metrics::{Call, Metrics, Outcome};
use crate::review::{self, Status, Subject};
use crate::view::{Hub, HubError};

/// An update carries two objects of up to 3 MiB each.
const BODY_MAX: usize = 7 * 1024 * 1024;

const BODY_DEADLINE: Duration = Duration::from_secs(10);

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// A request that did not arrive; its connection is closed without an answer.
#[derive(Debug, thiserror::Error)]
pub enum Unanswerable {
    /// The body took too long.
    #[error("the body did not arrive within {BODY_DEADLINE:?}")]
    Late,
    /// The body broke off.
    #[error("the body broke off: {0}")]
    Broken(#[source] BoxError),
}

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

/// A request that is no admission request.
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

    fn response(self) -> Response<Full<Bytes>> {
        let status = Status::new(self.code.as_u16(), self.reason, self.message);
        json(self.code, serde_json::to_vec(&status).unwrap_or_default())
    }
}

/// The webhook: requests in, responses out.
pub struct Webhook {
    hub: Hub,
    policy: Policy,
    metrics: Metrics,
    tasks: Tasks,
}

impl Webhook {
    /// A webhook that judges by that policy and what it sees of the hub.
    pub fn new(hub: Hub, policy: Policy, metrics: Metrics, tasks: Tasks) -> Self {
        Self {
            hub,
            policy,
            metrics,
            tasks,
        }
    }

    /// Answers a request.
    ///
    /// # Errors
    /// [`Unanswerable`] where the body does not arrive; the connection is to be closed.
    pub async fn respond<B>(
        &self,
        request: Request<B>,
    ) -> Result<Response<Full<Bytes>>, Unanswerable>
    where
        B: Body<Error: Into<BoxError>>,
    {
        let call = match request.uri().path() {
            "/mutate" => Call::Mutate,
            "/validate" => Call::Validate,
            path => {
                let message = format!("{path} is not served; /mutate and /validate are");
                return Ok(Rejection::new(StatusCode::NOT_FOUND, "NotFound", message).response());
            }
        };
        let begun = Instant::now();
        let _in_flight = self.metrics.in_flight();
        let (response, outcome) = match self.receive(request).await? {
            Ok(body) => self.answer(call, &body).await,
            Err(rejection) => (rejection.response(), Outcome::Error),
        };
        self.metrics.answered(call, outcome, begun.elapsed());
        Ok(response)
    }

    /// Checks the head of a request and reads its body.
    async fn receive<B>(
        &self,
        request: Request<B>,
    ) -> Result<Result<Bytes, Rejection>, Unanswerable>
    where
        B: Body<Error: Into<BoxError>>,
    {
        if let Err(rejection) = check_head(request.method(), request.headers()) {
            return Ok(Err(rejection));
        }
        let body = Limited::new(request.into_body(), BODY_MAX).collect();
        match timeout(BODY_DEADLINE, Box::pin(body)).await {
            Err(_) => Err(Unanswerable::Late),
            Ok(Err(error)) if error.is::<LengthLimitError>() => Ok(Err(too_large())),
            Ok(Err(error)) => Err(Unanswerable::Broken(error)),
            Ok(Ok(collected)) => {
                let mut buffers = collected.aggregate();
                Ok(Ok(buffers.copy_to_bytes(buffers.remaining())))
            }
        }
    }

    async fn answer(&self, call: Call, body: &[u8]) -> (Response<Full<Bytes>>, Outcome) {
        let request = match review::read(body) {
            Ok(request) => request,
            Err(error) => {
                let rejection =
                    Rejection::new(StatusCode::BAD_REQUEST, "BadRequest", error.to_string());
                return (rejection.response(), Outcome::Error);
            }
        };
        let deciding = self.decide(call, request.subject);
        let answered = match self.tasks.catch_panic("request", deciding).await {
            Ok(decided) => decided,
            Err(_) => Err(Fault::Panicked),
        }
        .and_then(|decision| {
            let outcome = log_outcome(call, &request.uid, &request.namespace, &decision);
            Ok((review::answer(&request.uid, decision)?, outcome))
        });
        match answered {
            Ok((text, outcome)) => (json(StatusCode::OK, text), outcome),
            Err(fault) => {
                let text = with_causes(&fault);
                tracing::error!(uid = %request.uid, "no decision: {text}");
                let (code, reason) = fault.status();
                (
                    Rejection::new(code, reason, text).response(),
                    Outcome::Error,
                )
            }
        }
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
                self.hub.is_id_taken(id, own).await?
            }
            None => false,
        };
        Ok(decide::mutate(change, id_taken))
    }

    /// Judges by the cache; what would be refused on its account, or cannot be judged by it, by the hub itself.
    async fn validate(&self, change: Change) -> Result<Decision, Fault> {
        let question = Question::from(change);
        let cached = self.hub.cached(&question);
        let verdict = question.judge(&cached, &self.policy);
        if verdict.doubts.stake().is_none() {
            return Ok(verdict.decision);
        }
        let live = self.hub.look(&question, verdict.doubts, cached).await?;
        let verdict = question.judge(&live, &self.policy);
        if verdict.doubts.stake() == Some(Stake::Refusal) {
            return Err(Fault::Undecided);
        }
        Ok(verdict.decision)
    }
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
            let errors = FieldErrors(errors.clone());
            tracing::info!(uid, ?call, namespace, name, "refused: {errors}");
        }
        Refusal::Request(message) => {
            tracing::warn!(uid, ?call, "refused: {message}");
        }
    }
    Outcome::Denied
}

fn check_head(method: &Method, headers: &HeaderMap) -> Result<(), Rejection> {
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
        return Err(too_large());
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

fn too_large() -> Rejection {
    Rejection::new(
        StatusCode::PAYLOAD_TOO_LARGE,
        "RequestEntityTooLarge",
        format!("the body is larger than {BODY_MAX} bytes"),
    )
}

fn json(code: StatusCode, body: Vec<u8>) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::from(body));
    *response.status_mut() = code;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    if code == StatusCode::METHOD_NOT_ALLOWED {
        headers.insert(ALLOW, HeaderValue::from_static("POST"));
    }
    response
}
