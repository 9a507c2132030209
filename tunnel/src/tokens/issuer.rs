//! The side of the agent.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use causeway::process::kube_client::{HubAccess, HubError, hub_config};
use causeway::process::supervise::with_causes;
use causeway_certs::certificate_pem;
use http::header::CACHE_CONTROL;
use http::{HeaderMap, Method, Request, Response, StatusCode};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::jiff::Timestamp;
use kube::api::PostParams;
use kube::{Api, Client};
use rustls::pki_types::CertificateDer;
use rustls::{ClientConfig, ServerConfig};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{Mutex, Semaphore, SemaphorePermit};
use tokio::time::error::Elapsed;
use tokio::time::{Instant, timeout};
use tokio_rustls::TlsAcceptor;

use super::{ALPN, Account, AgentCredentials, HEAD_MAX, PATH};
use crate::credentials::{CredentialsError, Loaded, Side};
use crate::hello::printable;
use crate::identity::{Identity, IdentityError, Role, leaf};
use crate::verifier::Trust;

/// Maximum number of concurrent exchanges.
const AT_ONCE: usize = 4;
/// Maximum time of a request to the API server.
const REQUEST: Duration = Duration::from_secs(10);
/// Validity of a token. The API server may choose another one.
const LIFE: Duration = Duration::from_secs(3600);
/// Minimum validity that API servers accept.
const LIFE_MIN: Duration = Duration::from_secs(600);

/// Issues tokens of one account of the member to the controller of the hub.
#[derive(Debug)]
pub struct Issuer {
    access: HubAccess,
    account: Account,
    /// URL of the API server, as the tunnel reaches it.
    server: String,
    life: Duration,
    last: Mutex<Option<Issued>>,
    places: Semaphore,
}

/// A token that is given again in the first half of its life.
#[derive(Debug)]
struct Issued {
    credentials: AgentCredentials,
    half_life: Duration,
    fresh_until: Instant,
}

impl Issued {
    fn new(credentials: AgentCredentials) -> Self {
        let half_life = left(&credentials) / 2;
        Self {
            credentials,
            half_life,
            fresh_until: Instant::now() + half_life,
        }
    }

    /// Whether the token is in the first half of its life by both clocks: an [`Instant`] does not
    /// count the time for which the host is suspended, and the wall clock may be set back.
    fn is_fresh(&self) -> bool {
        Instant::now() < self.fresh_until && left(&self.credentials) >= self.half_life
    }
}

/// Returns the time until credentials expire; zero if they have.
fn left(credentials: &AgentCredentials) -> Duration {
    let left = credentials.expires.duration_since(Timestamp::now());
    Duration::try_from(left).unwrap_or_default()
}

/// Reason why no token was issued.
#[derive(Debug, thiserror::Error)]
pub enum IssueError {
    /// The own account cannot be used.
    #[error(transparent)]
    Access(#[from] HubError),
    /// The API server did not answer in time.
    #[error("the API server did not answer in time")]
    Slow(#[from] Elapsed),
    /// The API server refused.
    #[error("{0}")]
    Refused(String),
    /// The API server failed, or is overloaded.
    #[error("{0}")]
    Failed(String),
    /// The request failed.
    #[error("the API server cannot be reached")]
    Request(#[source] kube::Error),
    /// The answer has no token.
    #[error("the API server issued no token")]
    NoToken,
    /// No authorities verify the API server.
    #[error("the agent knows no authority that verifies the API server")]
    NoAuthority,
}

impl From<kube::Error> for IssueError {
    fn from(error: kube::Error) -> Self {
        match error {
            kube::Error::Api(status) if status.code == 429 || status.code >= 500 => {
                Self::Failed(status.message)
            }
            kube::Error::Api(status) => Self::Refused(status.message),
            other => Self::Request(other),
        }
    }
}

/// Reason why an exchange ended without an answer.
#[derive(Debug, thiserror::Error)]
enum ExchangeError {
    #[error("not done in time")]
    Slow(#[from] Elapsed),
    #[error(transparent)]
    Credentials(#[from] CredentialsError),
    #[error("handshake failed: {0}")]
    Handshake(#[from] std::io::Error),
    #[error("HTTP failed: {0}")]
    Http(#[from] hyper::Error),
}

impl Issuer {
    /// Creates an issuer for an account of the cluster at `access`. `api` is `HOST:PORT` of the API
    /// server, as the tunnel reaches it.
    pub fn new(access: HubAccess, account: Account, api: &str) -> Self {
        Self {
            access,
            account,
            server: format!("https://{api}"),
            life: LIFE,
            last: Mutex::default(),
            places: Semaphore::new(AT_ONCE),
        }
    }

    /// Sets the time after which tokens are not used any more. Tests shorten it: API servers issue
    /// no token for less than ten minutes.
    #[must_use]
    pub fn with_life(self, life: Duration) -> Self {
        Self { life, ..self }
    }

    /// Takes a place for an exchange, if one is free.
    pub(crate) fn place(&self) -> Option<SemaphorePermit<'_>> {
        self.places.try_acquire().ok()
    }

    /// Serves one exchange within this time.
    pub(crate) async fn serve<S>(&self, socket: S, own: &Loaded<ClientConfig>, within: Duration)
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let served = timeout(within, self.exchange(socket, own)).await;
        if let Err(error) = served.unwrap_or_else(|elapsed| Err(elapsed.into())) {
            let error = with_causes(&error);
            tracing::warn!(error, "credentials not given");
        }
    }

    async fn exchange<S>(&self, socket: S, own: &Loaded<ClientConfig>) -> Result<(), ExchangeError>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let trust = Trust {
            authorities: own.authorities.clone(),
            enrolled: None,
        };
        let mut config = ServerConfig::configure(&own.certificate, trust)?;
        config.alpn_protocols = vec![ALPN.to_vec()];
        let tls = TlsAcceptor::from(Arc::new(config)).accept(socket).await?;
        let (_, session) = tls.get_ref();
        let client = &client(session.peer_certificates(), &own.own);
        let service = service_fn(|request| async move {
            Ok::<_, std::convert::Infallible>(self.answer(&request, client).await)
        });
        let served = http1::Builder::new()
            // The caller limits the time.
            .header_read_timeout(None)
            .max_buf_size(HEAD_MAX)
            .keep_alive(false)
            .serve_connection(TokioIo::new(tls), service);
        Ok(served.await?)
    }

    /// Answers a request. Its body is not read.
    async fn answer(
        &self,
        request: &Request<Incoming>,
        client: &Result<(), IdentityError>,
    ) -> Response<String> {
        if let Err(error) = client {
            tracing::warn!(%error, "credentials refused");
            return refused(StatusCode::FORBIDDEN, &error.to_string());
        }
        match (request.method(), request.uri().path()) {
            (&Method::GET, PATH) => {}
            (_, PATH) => return refused(StatusCode::METHOD_NOT_ALLOWED, "only GET is served"),
            _ => return refused(StatusCode::NOT_FOUND, "only /credentials is served"),
        }
        match self.credentials(wants_another(request.headers())).await {
            Ok(credentials) => match serde_json::to_string(&credentials) {
                Ok(text) => Response::new(text),
                Err(error) => refused(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()),
            },
            Err(error) => {
                let status = match error {
                    IssueError::Slow(_) | IssueError::Failed(_) | IssueError::Request(_) => {
                        StatusCode::BAD_GATEWAY
                    }
                    _ => StatusCode::INTERNAL_SERVER_ERROR,
                };
                let account = self.account.to_string();
                let error = with_causes(&error);
                tracing::warn!(account, error, "token not issued");
                refused(status, &format!("no token of account {account}: {error}"))
            }
        }
    }

    /// Returns the last token in the first half of its life, unless another one is wanted.
    async fn credentials(&self, wants_another: bool) -> Result<AgentCredentials, IssueError> {
        let mut last = self.last.lock().await;
        if let Some(issued) = &*last
            && !wants_another
            && issued.is_fresh()
        {
            return Ok(issued.credentials.clone());
        }
        let credentials = self.issue().await?;
        let (account, expires) = (self.account.to_string(), credentials.expires);
        tracing::info!(account, %expires, "token issued");
        *last = Some(Issued::new(credentials.clone()));
        Ok(credentials)
    }

    /// Requests a token (TokenRequest, authentication.k8s.io/v1). The access is read each time,
    /// because its authorities may change.
    async fn issue(&self) -> Result<AgentCredentials, IssueError> {
        let config = hub_config(&self.access, "causeway-agent")?;
        let authorities = config.root_cert.as_deref().unwrap_or_default();
        if authorities.is_empty() {
            return Err(IssueError::NoAuthority);
        }
        let authorities: String = authorities.iter().map(|one| certificate_pem(one)).collect();
        let accounts: Api<ServiceAccount> =
            Api::namespaced(Client::try_from(config)?, &self.account.namespace);
        let seconds = self.life.max(LIFE_MIN).as_secs();
        let request = TokenRequest {
            spec: TokenRequestSpec {
                expiration_seconds: i64::try_from(seconds).ok(),
                ..TokenRequestSpec::default()
            },
            ..TokenRequest::default()
        };
        let end = Timestamp::try_from(SystemTime::now() + self.life).unwrap_or(Timestamp::MAX);
        let parameters = PostParams::default();
        let issued = accounts.create_token_request(&self.account.name, &parameters, &request);
        let status = timeout(REQUEST, issued).await??.status;
        let status = status.ok_or(IssueError::NoToken)?;
        Ok(AgentCredentials {
            server: self.server.clone(),
            certificate_authority_data: STANDARD.encode(authorities),
            token: status.token,
            expires: status.expiration_timestamp.0.min(end),
        })
    }
}

/// Checks that a client is the controller of the own hub.
fn client(chain: Option<&[CertificateDer<'static>]>, own: &Identity) -> Result<(), IdentityError> {
    let identity = Identity::of(leaf(chain)?)?;
    match identity.role {
        Role::Controller if identity.hub == own.hub => Ok(()),
        _ => Err(IdentityError::Foreign(
            identity,
            "the controller of this agent's hub",
        )),
    }
}

/// Whether the client rejects the last token (RFC 9111, section 5.2.1.4).
fn wants_another(headers: &HeaderMap) -> bool {
    headers
        .get(CACHE_CONTROL)
        .is_some_and(|value| value == "no-cache")
}

fn refused(status: StatusCode, reason: &str) -> Response<String> {
    let mut answer = Response::new(printable(reason));
    *answer.status_mut() = status;
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expiring(expires: Timestamp) -> AgentCredentials {
        AgentCredentials {
            server: "https://10.96.0.1:443".to_owned(),
            certificate_authority_data: String::new(),
            token: "abc".to_owned(),
            expires,
        }
    }

    #[tokio::test]
    async fn token_that_expired_during_a_suspension_is_not_given() {
        // A kubeconfig without a cluster: no further token is issued.
        let access = HubAccess::Kubeconfig(Box::default());
        let account = "causeway-system/causeway".parse().expect("an account");
        let issuer = Issuer::new(access, account, "10.96.0.1:443");
        let now = Timestamp::now();
        for (expires, is_given) in [
            (now + LIFE, true),
            (now + LIFE / 4, false),
            (now - LIFE, false),
        ] {
            // As Instants have it, half an hour is left.
            *issuer.last.lock().await = Some(Issued {
                credentials: expiring(expires),
                ..Issued::new(expiring(now + LIFE))
            });
            let given = issuer.credentials(false).await;
            assert_eq!(given.is_ok(), is_given, "{expires}: {given:?}");
        }
    }
}
