//! The way through the hub's API server: a request to its Service proxy becomes the connection.
//!
//! Credentials of the kubeconfig give the right to send that request, and no other. The API server
//! removes them. TLS inside authenticates agent and causeway-tunnel to each other.

use std::future::{poll_fn, ready};
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;

use bytes::BytesMut;
use causeway::domain::protected::DEFAULT_NAMESPACE;
use causeway::kubeconfig;
use futures::future::BoxFuture;
use futures::{FutureExt as _, TryFutureExt as _};
use http::header::{CONNECTION, HOST, UPGRADE, USER_AGENT};
use http::{Request, Response, StatusCode, Uri};
use hyper::body::{Body as _, Incoming};
use hyper::client::conn::http1;
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use kube::Config;
use kube::client::ConfigExt as _;
use kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};
use kube::core::Status;
use rustls::pki_types::{InvalidDnsNameError, ServerName};
use tokio::net::TcpStream;
use tokio::time::error::Elapsed;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tower::{BoxError, Layer as _, ServiceExt as _, service_fn};

use crate::hello::{self, printable};
use crate::limits::Limits;

/// Service of causeway-tunnel on the hub for the API server alone.
const SERVICE: &str = "causeway-tunnel-upgrade";
/// Name of that Service with scheme and port, as its proxy and the rules of RBAC name it.
const RESOURCE: &str = "http:causeway-tunnel-upgrade:80";
/// Maximum size of the body of a refusal, in bytes.
const REFUSAL_MAX: usize = 16 * 1024;

/// Reason why a kubeconfig cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum AccessError {
    /// It cannot be read.
    #[error(transparent)]
    Kubeconfig(#[from] KubeconfigError),
    /// It describes no connection.
    #[error(transparent)]
    Unusable(#[from] kubeconfig::AccessError),
    /// Its server cannot be verified.
    #[error("its server is not https://, or is not to be verified")]
    Insecure,
    /// It names a proxy.
    #[error("it has proxy-url: set HTTPS_PROXY instead")]
    Proxy,
    /// Its credentials come from a program.
    #[error("its credentials come from a program: use a token or a client certificate")]
    Exec,
}

/// Reason why there is no connection through the API server.
#[derive(Debug, thiserror::Error)]
pub(super) enum ThroughError {
    #[error("the kubeconfig cannot be used")]
    Access(#[from] AccessError),
    #[error("not done in time")]
    Slow(#[from] Elapsed),
    #[error("its TLS or credentials cannot be used")]
    Credentials(#[source] BoxError),
    #[error("the handshake failed")]
    Handshake(#[source] std::io::Error),
    #[error("the request failed")]
    Http(#[from] hyper::Error),
    #[error("the request cannot be made")]
    Request(#[from] http::Error),
    #[error("{0} is no name of a namespace")]
    Namespace(String, #[source] InvalidDnsNameError),
    #[error(
        "it answered 403: {message}; the account needs the verb get on services/proxy with the \
         resourceName {RESOURCE} in namespace {namespace}"
    )]
    Forbidden { message: String, namespace: String },
    #[error("it answered {status}: {message}")]
    Refused { status: StatusCode, message: String },
}

/// The hub's API server, as a kubeconfig names it.
#[derive(Clone, Debug)]
pub struct ApiServer {
    kubeconfig: PathBuf,
}

/// Address and credentials of the hub's API server, as they were read.
pub(super) struct Access {
    config: Config,
    /// Namespace of causeway-tunnel.
    namespace: String,
}

impl ApiServer {
    /// Checks that the kubeconfig can be read.
    ///
    /// # Errors
    /// [`AccessError`].
    pub fn new(kubeconfig: PathBuf) -> Result<Self, AccessError> {
        Kubeconfig::read_from(&kubeconfig)?;
        Ok(Self { kubeconfig })
    }

    /// Reads the kubeconfig: a renewed token counts from the next connection on.
    pub(super) fn read(&self) -> Result<Access, AccessError> {
        let read = Kubeconfig::read_from(&self.kubeconfig)?;
        let context = read.contexts.iter();
        let mut context = context.filter(|one| Some(&one.name) == read.current_context.as_ref());
        let namespace = context
            .next()
            .and_then(|one| one.context.as_ref()?.namespace.clone());
        let mut clusters = read.clusters.iter().flat_map(|one| &one.cluster);
        if clusters.any(|cluster| cluster.proxy_url.is_some()) {
            return Err(AccessError::Proxy);
        }
        let mut users = read.auth_infos.iter().flat_map(|one| &one.auth_info);
        if users.any(|user| user.exec.is_some() || user.auth_provider.is_some()) {
            return Err(AccessError::Exec);
        }
        let options = KubeConfigOptions::default();
        let config = kubeconfig::access(&read, &options)?.config;
        if config.accept_invalid_certs || config.cluster_url.scheme_str() != Some("https") {
            return Err(AccessError::Insecure);
        }
        let namespace = namespace.unwrap_or_else(|| DEFAULT_NAMESPACE.to_owned());
        Ok(Access { config, namespace })
    }
}

impl Access {
    /// Returns the URL of the API server.
    pub(super) fn uri(&self) -> &Uri {
        &self.config.cluster_url
    }

    /// Returns the name by which the certificate of causeway-tunnel is verified.
    pub(super) fn tunnel_name(&self) -> Result<ServerName<'static>, ThroughError> {
        let name = format!("{SERVICE}.{}.svc", self.namespace);
        let parsed = ServerName::try_from(name.clone());
        parsed.map_err(|error| ThroughError::Namespace(name, error))
    }

    /// Has the API server join the connection to causeway-tunnel.
    pub(super) async fn upgrade(
        &self,
        socket: TcpStream,
        limits: &Limits,
    ) -> Result<TokioIo<Upgraded>, ThroughError> {
        let failed = |error: kube::Error| ThroughError::Credentials(error.into());
        let tls = TlsConnector::from(Arc::new(
            self.config.rustls_client_config().map_err(failed)?,
        ));
        let host = self.uri().host().unwrap_or_default();
        let host = self.config.tls_server_name.as_deref().unwrap_or(host);
        let host = host
            .trim_start_matches('[')
            .trim_end_matches(']')
            .to_owned();
        let host = ServerName::try_from(host.clone())
            .map_err(|error| ThroughError::Credentials(error.into()))?;
        let handshake = timeout(limits.handshake, tls.connect(host, socket)).await?;
        let socket = TokioIo::new(handshake.map_err(ThroughError::Handshake)?);
        let request = self.request().await?;
        timeout(limits.answer, async {
            let (mut requests, connection) = http1::handshake(socket).await?;
            let answered = async move {
                let answer = requests.send_request(request).await?;
                match answer.status() {
                    StatusCode::SWITCHING_PROTOCOLS => Ok(hyper::upgrade::on(answer).await?),
                    status => Err(self.refusal(status, answer.into_body()).await),
                }
            };
            // An error of the connection is one of the request.
            let (answered, _) = tokio::join!(answered, connection.with_upgrades());
            answered.map(TokioIo::new)
        })
        .await?
    }

    /// Makes the request, with the credentials of the kubeconfig.
    async fn request(&self) -> Result<Request<String>, ThroughError> {
        let url = self.uri();
        let path = format!(
            "{}/api/v1/namespaces/{}/services/{RESOURCE}/proxy{}",
            url.path().trim_end_matches('/'),
            self.namespace,
            hello::UPGRADE_PATH
        );
        let host = url.authority().map(|authority| authority.as_str());
        let request = Request::get(path)
            .header(HOST, host.unwrap_or_default())
            .header(CONNECTION, "Upgrade")
            .header(UPGRADE, hello::UPGRADE)
            .header(
                USER_AGENT,
                concat!("causeway-agent/", env!("CARGO_PKG_VERSION")),
            )
            .body(String::new())?;
        let authorized = self.authorized(request).await;
        authorized.map_err(ThroughError::Credentials)
    }

    /// Adds the credentials that a header carries.
    fn authorized(
        &self,
        request: Request<String>,
    ) -> BoxFuture<'static, Result<Request<String>, BoxError>> {
        let credentials = match self.config.auth_layer() {
            Ok(Some(credentials)) => credentials,
            Ok(None) => return ready(Ok(request)).boxed(),
            Err(error) => return ready(Err(error.into())).boxed(),
        };
        // It returns the request with the header that the layer adds.
        let returns = |request: Request<String>| ready(Ok::<_, BoxError>(Response::new(request)));
        let authorized = credentials.layer(service_fn(returns)).oneshot(request);
        authorized.map_ok(Response::into_body).boxed()
    }

    async fn refusal(&self, status: StatusCode, mut body: Incoming) -> ThroughError {
        let mut text = BytesMut::new();
        while let Some(Ok(frame)) = poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await
        {
            let data = frame.into_data().unwrap_or_default();
            if text.len() + data.len() > REFUSAL_MAX {
                break;
            }
            text.extend_from_slice(&data);
        }
        let message = match serde_json::from_slice::<Status>(&text) {
            Ok(status) => printable(&status.message),
            Err(_) => printable(&String::from_utf8_lossy(&text)),
        };
        match status {
            StatusCode::FORBIDDEN => ThroughError::Forbidden {
                message,
                namespace: self.namespace.clone(),
            },
            _ => ThroughError::Refused { status, message },
        }
    }
}
