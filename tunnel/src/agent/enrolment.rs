//! The certificate of an agent that enrols: by the token in its Secret at first, and by the
//! certificate before from then on.
//!
//! The Secret in the member has all that is to outlive the process: `ca.crt` and the token of the
//! file that `kubectl mcs join` printed, then the key, then the certificate. The key is stored
//! before it is sent, so that a process that ends meanwhile may use the token again. A token is of
//! a later join than the certificate beside it, and is used first.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use causeway::domain::enrolment::{NAME, TOKEN};
use causeway::process::backoff::Backoff;
use causeway::process::certificate::{AuthoritiesError, Files, authorities};
use causeway::process::supervise::with_causes;
use causeway_certs::{CA_CERTIFICATE as AUTHORITIES, CERTIFICATE, IssueError, KEY, RequestKey};
use http::header::HOST;
use http::{Request, StatusCode};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::api::{Patch, PatchParams};
use parking_lot::Mutex;
use rustls::ClientConfig;
use rustls::client::Resumption;
use rustls::crypto::ring;
use rustls::version::TLS13;
use serde::Serialize;
use serde_json::{Value, json};
use tokio::time::error::Elapsed;
use tokio::time::{Instant, sleep, timeout};
use tokio_rustls::client::TlsStream;

use super::dial::{DialError, Socket, dial_as};
use super::{FIRST, LONGEST, Peers};
use crate::credentials::{Credentials, CredentialsError, Loaded, Source};
use crate::enrolment::{ANSWER_MAX, ENROL, ENROL_ALPN, Enrol, Issued, RENEW, RENEW_ALPN, Renew};
use crate::hello::printable;
use crate::identity::{IdentityError, Role};
use crate::registry::now;
use crate::splice::Shared;

/// Time for one request to the member's API server.
const REQUEST: Duration = Duration::from_secs(10);
/// Longest sleep at once: a machine that is suspended does not count it.
const NAP: Duration = Duration::from_secs(60);
/// Factor of the pauses between attempts to renew, for which there is half of a life: up to ten
/// minutes.
const PATIENCE: u32 = 20;
/// Part of its life, as a divisor, for which a new certificate is kept: by a clock that is far
/// ahead each one is past half of its life at once.
const KEPT: u32 = 8;
const FIELD_MANAGER: &str = "causeway-agent";
/// Owner of the certificates of this agent, in errors.
const OWN: &str = "this member of the hub";

/// Reason why there is no new certificate.
#[derive(Debug, thiserror::Error)]
enum EnrolmentError {
    #[error("the member's API server was not asked")]
    Member(#[from] Box<kube::Error>),
    #[error("not done in time")]
    Slow(#[from] Elapsed),
    #[error(
        "the Secret has no {0}; kubectl mcs join prints a new file, which is good for one time"
    )]
    Missing(&'static str),
    #[error("{AUTHORITIES} of the Secret cannot be used: {0}")]
    Authorities(#[from] AuthoritiesError),
    #[error("a key cannot be made")]
    Key(#[from] IssueError),
    #[error("causeway-tunnel was not reached")]
    Dial(#[from] DialError),
    #[error("TLS cannot be set up")]
    Tls(#[from] rustls::Error),
    #[error("the request failed")]
    Http(#[from] hyper::Error),
    #[error("the request cannot be written")]
    Request(#[from] http::Error),
    #[error("the answer is too long, or ended early")]
    Answer,
    #[error("causeway-tunnel answered {status}: {reason}{}", remedy(*status))]
    Refused { status: StatusCode, reason: String },
    #[error("JSON cannot be written or read")]
    Json(#[from] serde_json::Error),
    #[error("the certificate cannot be used")]
    Credentials(#[from] CredentialsError),
    #[error(transparent)]
    Identity(#[from] IdentityError),
}

impl EnrolmentError {
    /// Whether causeway-tunnel refused, and refuses the same token again.
    fn is_final(&self) -> bool {
        let finals = [StatusCode::UNAUTHORIZED, StatusCode::FORBIDDEN];
        matches!(self, Self::Refused { status, .. } if finals.contains(status))
    }
}

fn remedy(status: StatusCode) -> &'static str {
    match status {
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
            "; have kubectl mcs join print a new file on the hub's side, and apply it here"
        }
        _ => "",
    }
}

/// Returns the time until half of the life of a certificate, at least what is left of the time for
/// which it is kept since it was given.
fn due_in(current: &Loaded<ClientConfig>, given: SystemTime) -> Duration {
    let due = current.certificate.begins + life_of(current).as_secs().cast_signed() / 2;
    let left = due.saturating_sub(now().as_second());
    let left = Duration::from_secs(u64::try_from(left).unwrap_or_default());
    left.max(kept_for(current, given))
}

fn life_of(current: &Loaded<ClientConfig>) -> Duration {
    let certificate = &current.certificate;
    let seconds = certificate.ends.saturating_sub(certificate.begins);
    Duration::from_secs(u64::try_from(seconds).unwrap_or_default())
}

/// Returns what is left of the time for which the current certificate is kept since it was given.
/// The clock counts it: that of [`Instant`] may stop while a machine is suspended. Nothing is left
/// if the clock was put back.
fn kept_for(current: &Loaded<ClientConfig>, given: SystemTime) -> Duration {
    let kept = life_of(current) / KEPT;
    let age = given.elapsed();
    age.map_or(Duration::ZERO, |age| kept.saturating_sub(age))
}

/// Certificate that the Secret does not have yet.
#[derive(Clone)]
struct Unsaved {
    certificate: String,
    key: String,
    /// Token that was used, and is to be removed.
    token: Option<String>,
}

/// Certificate of an agent, in a Secret of its member.
pub struct Enrolment {
    peers: Arc<Peers>,
    secrets: Api<Secret>,
    secret: String,
    shared: Shared,
    unsaved: Mutex<Option<Unsaved>>,
}

impl Enrolment {
    /// Uses the Secret of that name.
    pub fn new(peers: Arc<Peers>, secrets: Api<Secret>, secret: String, shared: Shared) -> Self {
        Self {
            peers,
            secrets,
            secret,
            shared,
            unsaved: Mutex::default(),
        }
    }

    /// Returns the stored certificate, or enrols. Repeats that until there is one.
    pub async fn credentials(&self) -> Arc<Credentials<ClientConfig>> {
        let mut backoff = Backoff::new(FIRST, LONGEST);
        let mut last = String::new();
        loop {
            match self.obtained().await {
                Ok(credentials) => return credentials,
                Err(error) => self.report("not enrolled", &error, &mut last),
            }
            sleep(backoff.pause_within(LONGEST)).await;
        }
    }

    /// Renews the certificate at half of its life, and enrols again where the Secret has a token.
    /// Never ends.
    pub async fn renew(&self, credentials: Arc<Credentials<ClientConfig>>) {
        let mut backoff = Backoff::new(FIRST, LONGEST);
        let mut last = String::new();
        let mut refused = None;
        let mut again_at = Instant::now();
        let mut given = SystemTime::UNIX_EPOCH;
        loop {
            self.save().await;
            let pause = again_at.saturating_duration_since(Instant::now());
            let due = due_in(&credentials.current(), given).max(pause);
            let obtained = match self.with_token(refused.as_deref()).await {
                Some(secret) => {
                    let obtained = self.enrolled_again(&secret, &credentials).await;
                    let is_final = matches!(&obtained, Err(error) if error.is_final());
                    refused = text(&secret, TOKEN).filter(|_| is_final);
                    obtained
                }
                None if due.is_zero() => self.renewed(&credentials).await,
                None => {
                    sleep(due.min(NAP)).await;
                    continue;
                }
            };
            match obtained {
                Ok(()) => {
                    backoff.reset();
                    last.clear();
                    again_at = Instant::now();
                    given = SystemTime::now();
                }
                Err(error) => {
                    self.report("certificate not renewed", &error, &mut last);
                    let pause = backoff.pause_within(LONGEST);
                    again_at = Instant::now() + pause * PATIENCE;
                    sleep(pause).await;
                }
            }
        }
    }

    /// Returns the Secret if it has a token that may give a certificate: another one than
    /// `refused`, and than one that was used and could not be removed.
    async fn with_token(&self, refused: Option<&str>) -> Option<Secret> {
        let used = self.used_token();
        let read = self.stored().await;
        let read = read.inspect_err(|error| {
            tracing::debug!(error = with_causes(error), "Secret not read");
        });
        let is_known = |token: &str| [refused, used.as_deref()].contains(&Some(token));
        let is_new = |secret: &Secret| text(secret, TOKEN).is_some_and(|token| !is_known(&token));
        read.ok().filter(is_new)
    }

    /// Returns the token that was used and could not be removed from the Secret.
    fn used_token(&self) -> Option<String> {
        let unsaved = self.unsaved.lock();
        unsaved.as_ref().and_then(|unsaved| unsaved.token.clone())
    }

    fn report(&self, what: &str, error: &EnrolmentError, last: &mut String) {
        self.shared.metrics.enrolment("failed");
        let error = with_causes(error);
        match error == *last {
            true => tracing::debug!(error, "{what}"),
            false => tracing::warn!(error, "{what}"),
        }
        *last = error;
    }

    async fn obtained(&self) -> Result<Arc<Credentials<ClientConfig>>, EnrolmentError> {
        let secret = self.stored().await?;
        let usable = self.usable(&secret);
        let is_later = text(&secret, TOKEN).is_some();
        if let Some(credentials) = usable.as_ref().filter(|_| !is_later) {
            tracing::info!("certificate read");
            return Ok(credentials.clone());
        }
        match (self.enrolled(&secret).await, usable) {
            (Ok(source), _) => {
                let credentials = Credentials::new(source, &self.shared.metrics)?;
                self.save().await;
                Ok(credentials)
            }
            (Err(error), Some(credentials)) => {
                self.report("not enrolled again", &error, &mut String::new());
                Ok(credentials)
            }
            (Err(error), None) => Err(error),
        }
    }

    async fn enrolled_again(
        &self,
        secret: &Secret,
        credentials: &Credentials<ClientConfig>,
    ) -> Result<(), EnrolmentError> {
        let source = self.enrolled(secret).await?;
        Ok(credentials.replace(source)?)
    }

    /// Returns the stored credentials if they are valid.
    fn usable(&self, secret: &Secret) -> Option<Arc<Credentials<ClientConfig>>> {
        let bytes = |key| Some(secret.data.as_ref()?.get(key)?.0.clone());
        let source = Source {
            files: Files::new(bytes(CERTIFICATE)?, bytes(KEY)?),
            authorities: bytes(AUTHORITIES)?,
        };
        let read = Credentials::<ClientConfig>::new(source, &self.shared.metrics);
        match read {
            Ok(read) => {
                let ends = read.current().certificate.ends;
                (now().as_second() < ends).then_some(read)
            }
            Err(error) => {
                tracing::warn!(error = with_causes(&error), "stored certificate not used");
                None
            }
        }
    }

    async fn enrolled(&self, secret: &Secret) -> Result<Source, EnrolmentError> {
        let token = text(secret, TOKEN).ok_or(EnrolmentError::Missing(TOKEN))?;
        let name = text(secret, NAME).ok_or(EnrolmentError::Missing(NAME))?;
        let trusted = text(secret, AUTHORITIES).ok_or(EnrolmentError::Missing(AUTHORITIES))?;
        let stored = text(secret, KEY).and_then(|pem| RequestKey::from_pem(&pem).ok());
        let key = match stored {
            Some(key) => key,
            None => {
                let key = RequestKey::new()?;
                self.patch(&data(&[(KEY, &key.pem())])).await?;
                key
            }
        };
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_protocol_versions(&[&TLS13])?
            .with_root_certificates(authorities(trusted.as_bytes())?)
            .with_no_client_auth();
        let csr = key.request()?;
        let request = Enrol { token, name, csr };
        let (issued, hub) = self.request(ENROL, config, &request).await?;
        let Enrol { token, name, .. } = request;
        let unsaved = Unsaved {
            certificate: issued.certificate,
            key: key.pem(),
            token: Some(token),
        };
        let source = self.accept(unsaved, (&hub, &name), trusted.into_bytes())?;
        self.shared.metrics.enrolment("enrolled");
        tracing::info!("agent enrolled");
        Ok(source)
    }

    async fn renewed(&self, credentials: &Credentials<ClientConfig>) -> Result<(), EnrolmentError> {
        let current = credentials.current();
        if current.certificate.ends <= now().as_second() {
            return Err(EnrolmentError::Missing(TOKEN));
        }
        let Role::Member(name) = &current.own.role else {
            return Err(IdentityError::Foreign(current.own.clone(), OWN).into());
        };
        let key = RequestKey::new()?;
        let csr = key.request()?;
        let config = ClientConfig::clone(&current.config);
        let (issued, hub) = self.request(RENEW, config, &Renew { csr }).await?;
        let authorities = current.authorities_pem.clone();
        let unsaved = Unsaved {
            certificate: issued.certificate,
            key: key.pem(),
            // A token that was used is still to be removed.
            token: self.used_token(),
        };
        let source = self.accept(unsaved, (&hub, name.as_str()), authorities)?;
        credentials.replace(source)?;
        self.shared.metrics.enrolment("renewed");
        Ok(())
    }

    /// Checks that the issued certificate can be used, and notes it for the Secret. The authorities
    /// stay: by them the agent verifies the controller, for which causeway-tunnel cannot pose.
    fn accept(
        &self,
        unsaved: Unsaved,
        (hub, name): (&str, &str),
        authorities: Vec<u8>,
    ) -> Result<Source, EnrolmentError> {
        let [certificate, key] =
            [&unsaved.certificate, &unsaved.key].map(|it| it.as_bytes().to_vec());
        let source = Source {
            files: Files::new(certificate, key),
            authorities,
        };
        let checked = Credentials::<ClientConfig>::new(source.clone(), &self.shared.metrics)?;
        let own = checked.current().own.clone();
        let is_own = matches!(&own.role, Role::Member(member) if member.as_str() == name);
        if !is_own || &*own.hub != hub {
            return Err(IdentityError::Foreign(own, OWN).into());
        }
        *self.unsaved.lock() = Some(unsaved);
        Ok(source)
    }

    /// Sends a request to causeway-tunnel. Returns the answer, and the UID of the hub.
    async fn request(
        &self,
        path: &'static str,
        mut config: ClientConfig,
        request: &impl Serialize,
    ) -> Result<(Issued, Arc<str>), EnrolmentError> {
        let limits = &self.shared.limits;
        config.resumption = Resumption::disabled();
        config.alpn_protocols = vec![
            match path {
                ENROL => ENROL_ALPN,
                _ => RENEW_ALPN,
            }
            .to_vec(),
        ];
        let body = serde_json::to_vec(request)?;
        let (tls, hub) = dial_as(&self.peers, Arc::new(config), limits).await?;
        let issued = timeout(limits.answer, post(tls, path, body.into())).await??;
        Ok((issued, hub))
    }

    async fn stored(&self) -> Result<Secret, EnrolmentError> {
        let read = timeout(REQUEST, self.secrets.get(&self.secret)).await?;
        Ok(read.map_err(Box::new)?)
    }

    /// Stores the latest certificate, if it is not stored yet.
    async fn save(&self) {
        let Some(unsaved) = self.unsaved.lock().clone() else {
            return;
        };
        match self.store(&unsaved).await {
            Ok(()) => *self.unsaved.lock() = None,
            Err(error) => {
                tracing::error!(error = with_causes(&error), "certificate not stored");
            }
        }
    }

    /// Stores a certificate, and removes the token that it was given for. A token of a later file
    /// stays.
    async fn store(&self, unsaved: &Unsaved) -> Result<(), EnrolmentError> {
        let mut patch = data(&[(CERTIFICATE, &unsaved.certificate), (KEY, &unsaved.key)]);
        if unsaved.token.is_some() {
            let secret = self.stored().await?;
            if text(&secret, TOKEN) == unsaved.token {
                patch["data"][TOKEN] = Value::Null;
                patch["metadata"] = json!({"resourceVersion": secret.metadata.resource_version});
            }
        }
        self.patch(&patch).await
    }

    async fn patch(&self, data: &Value) -> Result<(), EnrolmentError> {
        let parameters = PatchParams {
            field_manager: Some(FIELD_MANAGER.to_owned()),
            ..PatchParams::default()
        };
        let patch = Patch::Merge(data);
        let patched = self
            .secrets
            .patch_metadata(&self.secret, &parameters, &patch);
        timeout(REQUEST, patched).await?.map_err(Box::new)?;
        Ok(())
    }
}

/// Returns a merge patch of a Secret's data.
fn data(values: &[(&str, &str)]) -> Value {
    let values = values.iter().map(|(key, value)| {
        let value = ByteString(value.as_bytes().to_vec());
        ((*key).to_owned(), json!(value))
    });
    json!({ "data": values.collect::<serde_json::Map<_, _>>() })
}

fn text(secret: &Secret, key: &str) -> Option<String> {
    let value = &secret.data.as_ref()?.get(key)?.0;
    let text = std::str::from_utf8(value).ok()?.trim();
    (!text.is_empty()).then(|| text.to_owned())
}

async fn post(
    tls: TlsStream<Socket>,
    path: &'static str,
    body: Bytes,
) -> Result<Issued, EnrolmentError> {
    let (mut requests, connection) = http1::handshake(TokioIo::new(tls)).await?;
    let request = Request::post(path).header(HOST, "causeway-tunnel");
    let request = request.body(Full::new(body))?;
    let answered = async {
        let answer = requests.send_request(request).await?;
        let status = answer.status();
        let body = Limited::new(answer.into_body(), ANSWER_MAX).collect().await;
        let body = body.map_err(|_| EnrolmentError::Answer)?.to_bytes();
        match status {
            StatusCode::OK => Ok(serde_json::from_slice(&body)?),
            status => {
                let reason = printable(String::from_utf8_lossy(&body).trim());
                Err(EnrolmentError::Refused { status, reason })
            }
        }
    };
    let mut answered = std::pin::pin!(answered);
    tokio::select! {
        answer = &mut answered => answer,
        // What has arrived by then may be an answer.
        ended = connection => match answered.await {
            Err(EnrolmentError::Http(error)) => Err(ended.err().unwrap_or(error).into()),
            answer => answer,
        },
    }
}
