//! The side of the controller.

use std::path::Path;
use std::sync::Arc;

use axum::body::{Body, to_bytes};
use causeway::domain::ClusterName;
use causeway::process::certificate::Certificate;
use causeway::target::{ProxyError, TunnelFront};
use causeway::verify_signatures_by;
use http::header::{CACHE_CONTROL, HOST};
use http::{HeaderValue, Request, StatusCode, Uri};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::client::Resumption;
use rustls::client::danger::{ServerCertVerified, ServerCertVerifier};
use rustls::crypto::ring;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::sign::SingleCertAndKey;
use rustls::version::TLS13;
use rustls::{ClientConfig, Error};
use tokio_rustls::TlsConnector;

use super::{AGENT_HOST, ALPN, AgentCredentials, BODY_MAX, HEAD_MAX, PATH};
use crate::credentials::{CredentialsError, Loaded, Side};
use crate::hello::printable;
use crate::identity::{Identity, IdentityError, Role, leaf};
use crate::verifier::Trust;

/// Reason why an agent gave no credentials.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    /// The own certificate cannot be used.
    #[error("the certificate of the controller cannot be used")]
    Certificate(#[from] CredentialsError),
    /// causeway-tunnel opened no stream to the agent.
    #[error(transparent)]
    Front(#[from] ProxyError),
    /// The handshake failed, perhaps by an alert of the agent.
    #[error("TLS to the agent failed")]
    Handshake(#[source] std::io::Error),
    /// The agent presents no certificate, or its certificate gives no identity.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// The certificate is another's.
    #[error("the agent has the certificate of {0}")]
    Foreign(Identity),
    /// The exchange failed, perhaps by an alert of the agent.
    #[error("the agent ended the exchange")]
    Http(#[from] hyper::Error),
    /// The agent answered another status than 200.
    #[error("the agent answered {status}: {reason}")]
    Refused {
        /// Status.
        status: StatusCode,
        /// Its reason, printable.
        reason: String,
    },
    /// The answer is too long, or broke off.
    #[error("the answer of the agent cannot be read")]
    Body(#[source] axum::Error),
    /// The answer is no JSON of that form. The text of the cause could quote a token.
    #[error("the answer of the agent has no credentials")]
    Malformed,
}

/// Requests credentials of a member from its agent. `is_rejected` is true if the API server rejects
/// the last token, so that the agent issues another one. The files of `directory` are read each
/// time. The caller sets a deadline.
///
/// # Errors
/// [`AskError`].
pub async fn ask(
    front: &TunnelFront,
    directory: &Path,
    member: &ClusterName,
    is_rejected: bool,
) -> Result<AgentCredentials, AskError> {
    let own = Loaded::<ControllerTls>::read(directory)?;
    let stream = front.connect(member, Uri::from_static(AGENT_HOST)).await?;
    let name = ServerName::try_from("agent.causeway.internal");
    let name = name.map_err(|why| AskError::Handshake(std::io::Error::other(why)))?;
    let connector = TlsConnector::from(own.config.0.clone());
    let tls = connector.connect(name, TokioIo::new(stream)).await;
    let tls = tls.map_err(AskError::Handshake)?;
    let (_, session) = tls.get_ref();
    let identity = Identity::of(leaf(session.peer_certificates())?)?;
    let is_of_member = matches!(&identity.role, Role::Member(name) if name == member);
    if !is_of_member || identity.hub != own.own.hub {
        return Err(AskError::Foreign(identity));
    }
    let (mut requests, connection) = http1::Builder::new()
        .max_buf_size(HEAD_MAX)
        .handshake(TokioIo::new(tls))
        .await?;
    // Ends when `requests` is gone.
    tokio::spawn(connection);
    let mut request = Request::new(Body::empty());
    *request.uri_mut() = Uri::from_static(PATH);
    let headers = request.headers_mut();
    headers.insert(HOST, HeaderValue::from_static(AGENT_HOST));
    if is_rejected {
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    }
    let answer = requests.send_request(request).await?;
    let status = answer.status();
    let body = to_bytes(Body::new(answer.into_body()), BODY_MAX).await;
    let body = body.map_err(AskError::Body)?;
    if status != StatusCode::OK {
        let reason = printable(&String::from_utf8_lossy(&body));
        return Err(AskError::Refused { status, reason });
    }
    serde_json::from_slice(&body).map_err(|_| AskError::Malformed)
}

/// TLS of the controller towards agents.
pub struct ControllerTls(Arc<ClientConfig>);

impl Side for ControllerTls {
    fn is_own(role: &Role) -> bool {
        *role == Role::Controller
    }

    fn configure(certificate: &Certificate, trust: Trust) -> Result<Self, CredentialsError> {
        let provider = Arc::new(ring::default_provider());
        let agents =
            WebPkiClientVerifier::builder_with_provider(trust.authorities, provider.clone());
        let own = SingleCertAndKey::from(certificate.chain.clone());
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&TLS13])?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(Agents(agents.build()?)))
            .with_client_cert_resolver(Arc::new(own));
        config.alpn_protocols = vec![ALPN.to_vec()];
        config.resumption = Resumption::disabled();
        config.enable_sni = false;
        Ok(Self(Arc::new(config)))
    }
}

/// Verifier of agents, which are servers with certificates of clients: those that they connect to
/// causeway-tunnel with. The caller checks the identity, because the certificate has no host name.
#[derive(Debug)]
struct Agents(Arc<dyn ClientCertVerifier>);

impl ServerCertVerifier for Agents {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let verified = self.0.verify_client_cert(end_entity, intermediates, now);
        verified.map(|_| ServerCertVerified::assertion())
    }

    verify_signatures_by!(self, self.0);
}
