//! Certificates for agents: by a token, and by the certificate before.

use std::convert::Infallible;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use causeway::domain::ClusterName;
use causeway::process::certificate::{AuthoritiesError, authorities};
use causeway::process::supervise::with_causes;
use causeway_certs::{Authority, CA_CERTIFICATE, CA_KEY, IssueError, Leaf, Purpose, Request};
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Method, Response, StatusCode};
use http_body_util::{BodyExt as _, Limited};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use kube::Client;
use rustls::RootCertStore;
use rustls::server::WebPkiClientVerifier;
use serde::de::DeserializeOwned;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{sleep, timeout};
use tokio_rustls::StartHandshake;
use tokio_rustls::server::TlsStream;

use super::Inner;
use super::bootstrap::{BootstrapError, Bootstraps};
use super::refusals::{Refusals, Refused};
use super::upgrade::Socket;
use crate::credentials::server_config;
use crate::digest::Digest;
use crate::enrolment::{ENROL, ENROL_ALPN, Enrol, Issued, RENEW, REQUEST_MAX, Renew};
use crate::hello::{REASON, printable};
use crate::identity::{Identity, Role};
use crate::registry::Origin;
use crate::verifier::Enrolled;

/// Maximum size of the head of a request, in bytes.
const HEAD_MAX: usize = 8 * 1024;

/// Error of an authority that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SignerError {
    /// A file cannot be read.
    #[error("cannot read {path}: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// The authorities cannot be read.
    #[error("{CA_CERTIFICATE} cannot be used: {0}")]
    Authorities(#[from] AuthoritiesError),
    /// Certificate and key cannot sign.
    #[error("{CA_CERTIFICATE} and {CA_KEY} cannot be used: {0}")]
    Authority(#[from] IssueError),
}

/// Authority of enrolled agents, which nobody but causeway-tunnel trusts.
pub struct Signer {
    authority: Authority,
    trusted: Arc<RootCertStore>,
}

impl Signer {
    /// Reads `ca.crt` and `ca.key` of a directory.
    ///
    /// # Errors
    /// [`SignerError`].
    pub fn read(directory: &Path) -> Result<Self, SignerError> {
        let read = |name| {
            let path = directory.join(name);
            fs::read_to_string(&path).map_err(|source| SignerError::Read { path, source })
        };
        let certificate = read(CA_CERTIFICATE)?;
        Ok(Self {
            trusted: authorities(certificate.as_bytes())?,
            authority: Authority::from_pem(&certificate, &read(CA_KEY)?)?,
        })
    }

    /// Returns the authority as causeway-tunnel trusts it, for certificates of that validity.
    pub fn enrolled(&self, life: Duration) -> Enrolled {
        Enrolled {
            authorities: self.trusted.clone(),
            life,
        }
    }
}

/// Gives certificates to agents.
pub struct Enrolment {
    signer: Signer,
    bootstraps: Bootstraps,
    refusals: Refusals,
}

/// Reason why an agent gets no certificate.
#[derive(Debug, thiserror::Error)]
enum Refusal {
    #[error("POST {0} alone is served")]
    Path(&'static str),
    #[error("the request has more than {REQUEST_MAX} bytes, or ended early")]
    Body,
    #[error("the request cannot be read: {0}")]
    Json(#[from] serde_json::Error),
    #[error("the request names no member")]
    Name,
    #[error("the request of a certificate cannot be used: {0}")]
    Csr(#[source] IssueError),
    #[error("the certificate cannot be signed: {0}")]
    Sign(#[source] IssueError),
    #[error(transparent)]
    Bootstrap(#[from] BootstrapError),
}

impl Refusal {
    fn label(&self) -> &'static str {
        match self {
            Self::Path(_) | Self::Body | Self::Json(_) | Self::Name | Self::Csr(_) => "malformed",
            Self::Sign(_) => "unavailable",
            Self::Bootstrap(error) => error.label(),
        }
    }

    fn status(&self) -> StatusCode {
        match self {
            Self::Sign(_) => StatusCode::SERVICE_UNAVAILABLE,
            Self::Bootstrap(error) if error.is_transient() => StatusCode::SERVICE_UNAVAILABLE,
            Self::Bootstrap(BootstrapError::Removed) => StatusCode::FORBIDDEN,
            Self::Bootstrap(_) => StatusCode::UNAUTHORIZED,
            _ => StatusCode::BAD_REQUEST,
        }
    }

    /// Returns the reason as the agent may learn it: it does not learn which part of a token and a
    /// name was wrong.
    fn for_agent(&self) -> String {
        match self {
            Self::Bootstrap(error) if error.is_transient() => "the hub cannot be asked".to_owned(),
            Self::Bootstrap(BootstrapError::Removed) => self.to_string(),
            Self::Bootstrap(_) => "the token is not valid for this member, or no more".to_owned(),
            Self::Sign(_) => "the certificate cannot be signed".to_owned(),
            other => printable(&with_causes(other)),
        }
    }
}

/// Member that an agent with a certificate is of.
pub(super) struct Renewing {
    pub(super) name: ClusterName,
    /// Id of the enrolment in its certificate.
    pub(super) id: Option<String>,
    pub(super) from: Origin,
}

impl Enrolment {
    /// Gives certificates of an authority to members of a hub.
    pub fn new(signer: Signer, hub: Client) -> Self {
        Self {
            signer,
            bootstraps: Bootstraps::new(hub.clone()),
            refusals: Refusals::new(hub),
        }
    }

    /// Serves an agent without a certificate, whose handshake has begun.
    pub(super) async fn enrol(
        &self,
        tunnel: &Inner,
        start: StartHandshake<Socket>,
        from: Origin,
        place: OwnedSemaphorePermit,
    ) {
        let limits = &tunnel.shared.limits;
        let served = timeout(limits.handshake, async {
            let own = tunnel.credentials.current();
            let anybody = WebPkiClientVerifier::no_client_auth();
            let config = server_config(&own.certificate, anybody, ENROL_ALPN);
            let config = config.map_err(io::Error::other)?;
            start.into_stream(Arc::new(config)).await
        });
        match served.await {
            Ok(Ok(tls)) => {
                let answer = |request| self.enrolled(tunnel, request, from);
                serve(tunnel, tls, answer).await;
            }
            Ok(Err(_)) => tunnel.shared.metrics.enrolment("handshake"),
            Err(_) => tunnel.shared.metrics.enrolment("slow"),
        }
        drop(place);
    }

    /// Serves an agent that has proved by its certificate who it is.
    pub(super) async fn renew(&self, tunnel: &Inner, tls: TlsStream<Socket>, renewing: Renewing) {
        let answer = |request| self.renewed(tunnel, request, &renewing);
        serve(tunnel, tls, answer).await;
    }

    async fn enrolled(
        &self,
        tunnel: &Inner,
        request: http::Request<Incoming>,
        from: Origin,
    ) -> Response<String> {
        let issued = async {
            let Enrol { token, name, csr } = read(ENROL, request).await?;
            let name = ClusterName::try_from(name.as_str()).map_err(|_| Refusal::Name)?;
            let request = Request::from_pem(&csr).map_err(Refusal::Csr)?;
            let key = Digest::of(&request.key_der());
            let taken = self
                .bootstraps
                .take(&name, Digest::of(token.as_bytes()), key);
            let id = taken.await.inspect_err(|error| {
                if let BootstrapError::Used { .. } | BootstrapError::Expired(_) = error {
                    let name = &name;
                    let refused = Refused { name, from, error };
                    self.refusals.note(tunnel, refused, "enrolment refused");
                }
            })?;
            let issued = self.issue(tunnel, &name, id, &request)?;
            tracing::info!(cluster = %name, peer = %from, "agent enrolled");
            Ok(issued)
        };
        answered(tunnel, issued.await, "enrolled").await
    }

    async fn renewed(
        &self,
        tunnel: &Inner,
        request: http::Request<Incoming>,
        renewing: &Renewing,
    ) -> Response<String> {
        let Renewing { name, id, from } = renewing;
        let issued = async {
            let Renew { csr } = read(RENEW, request).await?;
            let request = Request::from_pem(&csr).map_err(Refusal::Csr)?;
            // Certificates of the other authority are renewed where they were issued.
            let id = id.clone().ok_or(BootstrapError::Removed)?;
            let checked = self.bootstraps.check(name, &id).await;
            checked.inspect_err(|error| {
                let from = *from;
                let refused = Refused { name, from, error };
                self.refusals.note(tunnel, refused, "renewal refused");
            })?;
            let issued = self.issue(tunnel, name, id, &request)?;
            tracing::info!(cluster = %name, peer = %from, "certificate of agent renewed");
            Ok(issued)
        };
        answered(tunnel, issued.await, "renewed").await
    }

    fn issue(
        &self,
        tunnel: &Inner,
        name: &ClusterName,
        id: String,
        request: &Request,
    ) -> Result<Issued, Refusal> {
        let credentials = tunnel.credentials.current();
        let identity = Identity {
            hub: credentials.own.hub.clone(),
            role: Role::Member(name.clone()),
        };
        let leaf = Leaf {
            common_name: name.to_string(),
            organisation: Some(id),
            uris: vec![identity.to_string()],
            validity: tunnel.shared.limits.certificate,
            purpose: Purpose::Client,
            ..Leaf::default()
        };
        let authority = &self.signer.authority;
        let certificate = request.issue(authority, &leaf, SystemTime::now());
        Ok(Issued {
            certificate: certificate.map_err(Refusal::Sign)?,
        })
    }
}

/// Serves one request within the time for it.
async fn serve<A, F>(tunnel: &Inner, tls: TlsStream<Socket>, answer: A)
where
    A: Fn(http::Request<Incoming>) -> F,
    F: Future<Output = Response<String>>,
{
    let limits = &tunnel.shared.limits;
    let service = service_fn(|request| {
        let answer = answer(request);
        async { Ok::<_, Infallible>(answer.await) }
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.enrolment)
        .max_buf_size(HEAD_MAX)
        .keep_alive(false)
        .serve_connection(TokioIo::new(tls), service);
    match timeout(limits.enrolment, served).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => {
            tracing::debug!(%error, "request for a certificate failed");
            let outcome = if error.is_timeout() {
                "slow"
            } else {
                "malformed"
            };
            tunnel.shared.metrics.enrolment(outcome);
        }
        Err(_) => tunnel.shared.metrics.enrolment("slow"),
    }
}

/// Reads a request within its bounds.
async fn read<T: DeserializeOwned>(
    path: &'static str,
    request: http::Request<Incoming>,
) -> Result<T, Refusal> {
    if request.method() != Method::POST || request.uri().path() != path {
        return Err(Refusal::Path(path));
    }
    let body = Limited::new(request.into_body(), REQUEST_MAX).collect();
    let body = body.await.map_err(|_| Refusal::Body)?.to_bytes();
    Ok(serde_json::from_slice(&body)?)
}

/// Answers a request. A refusal of a token, or of a removed member, takes as long as that of a
/// password.
async fn answered(
    tunnel: &Inner,
    issued: Result<Issued, Refusal>,
    outcome: &'static str,
) -> Response<String> {
    let issued = issued.and_then(|issued| Ok(serde_json::to_string(&issued)?));
    match issued {
        Ok(body) => {
            tunnel.shared.metrics.enrolment(outcome);
            let mut answer = Response::new(body);
            let json = HeaderValue::from_static("application/json");
            answer.headers_mut().insert(CONTENT_TYPE, json);
            answer
        }
        Err(refusal) => {
            tunnel.shared.metrics.enrolment(refusal.label());
            tracing::debug!(reason = with_causes(&refusal), "certificate refused");
            let paused = [StatusCode::UNAUTHORIZED, StatusCode::FORBIDDEN];
            if paused.contains(&refusal.status()) {
                sleep(tunnel.shared.limits.refusal).await;
            }
            let shown = refusal.for_agent();
            let mut answer = Response::new(format!("{shown}\n"));
            *answer.status_mut() = refusal.status();
            if let Ok(reason) = HeaderValue::from_str(&shown) {
                answer.headers_mut().insert(REASON, reason);
            }
            answer
        }
    }
}
