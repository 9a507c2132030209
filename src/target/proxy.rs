//! The proxy through which a member is reached: `spec.proxyURL` and `spec.proxyHeader` of its
//! Cluster.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::header::{HOST, PROXY_AUTHORIZATION};
use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode, Uri};
use http_body_util::Empty;
use hyper::body::Incoming;
use hyper::upgrade::Upgraded;
use hyper_rustls::{HttpsConnector, MaybeHttpsStream};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::connect::proxy::SocksV5;
use hyper_util::rt::TokioIo;
use kube::Config;
use kube::client::ConfigExt as _;
use percent_encoding::percent_decode_str;
use rustls::ClientConfig;
use tokio::net::TcpStream;
use tower::{BoxError, ServiceExt as _, service_fn};

use crate::domain::ClusterName;

/// The key of the Secret with the certificates by which an https:// proxy is verified.
pub const PROXY_CA_BUNDLE: &str = "proxyCaBundle";

/// Maximum time until a connection is made, with its TLS.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// The longest head of an answer to CONNECT, in bytes.
const ANSWER_HEAD: usize = 16 * 1024;
/// The most values in `spec.proxyHeader`.
const HEADERS: usize = 32;
/// The most bytes of their names and values together.
const HEADER_BYTES: usize = 8 * 1024;
/// Maximum number of further connections to causeway-tunnel after an answer of 503.
const REDIALS: usize = 2;

/// A proxy, and what it requires. Equal proxies give equal connections.
#[derive(Clone, PartialEq, Eq)]
pub struct Proxy {
    kind: Kind,
    /// Its address with a port, as one of http:// or https://.
    address: Uri,
    /// User and password, decoded.
    user: Option<(String, String)>,
    /// Headers of CONNECT.
    headers: HeaderMap,
    certificates: Vec<Vec<u8>>,
    /// Whether it is causeway-tunnel.
    is_tunnel: bool,
}

/// Address of the front of causeway-tunnel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TunnelFront(Uri);

/// Error of an address that is not `http://HOST:PORT`.
#[derive(Debug, thiserror::Error)]
#[error("it is not http://HOST:PORT")]
pub struct TunnelFrontError;

impl FromStr for TunnelFront {
    type Err = TunnelFrontError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let uri: Uri = text.parse().map_err(|_| TunnelFrontError)?;
        let is_front = uri.scheme_str() == Some("http")
            && uri.port().is_some()
            && uri.path() == "/"
            && uri.query().is_none()
            && !text.contains('@');
        is_front.then_some(Self(uri)).ok_or(TunnelFrontError)
    }
}

impl TunnelFront {
    /// Returns the front as the proxy of a member, as `proxy-url` of a kubeconfig has it.
    pub fn proxy_url(&self, member: &ClusterName) -> Uri {
        let authority = self
            .0
            .authority()
            .map_or("", |authority| authority.as_str());
        let url = format!("http://{member}:@{authority}");
        // A name of a cluster and an authority give a URL.
        url.parse().unwrap_or_else(|_| self.0.clone())
    }

    /// Opens a stream to a member.
    ///
    /// # Errors
    /// [`ProxyError`].
    pub async fn connect(&self, member: &ClusterName, to: Uri) -> Result<Upgraded, ProxyError> {
        let proxy = Proxy::tunnel(self, member);
        let dial = || async {
            let connected = direct().oneshot(self.0.clone()).await;
            let connected = connected.map(ToProxy::Http);
            connected.map_err(|why| proxy.unusable(why.into()))
        };
        proxy.over_any(dial, &to).await
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Http,
    Https,
    Socks5,
}

/// A connection to a proxy.
type ToProxy = MaybeHttpsStream<TokioIo<TcpStream>>;

/// Error of a proxy that gives no connection to the member.
#[derive(Debug, thiserror::Error)]
pub enum ProxyError {
    /// It cannot be reached, or is not what it should be. The source says why.
    #[error("{proxy} cannot be used")]
    Unusable {
        /// The proxy, without a user.
        proxy: String,
        /// Cause.
        #[source]
        why: BoxError,
    },
    /// It answered CONNECT with another status than 2xx.
    #[error("{proxy} answered {status} to CONNECT {member}: {}", remedy(*status))]
    Refused {
        /// The proxy, without a user.
        proxy: String,
        /// Host and port of the member.
        member: String,
        /// Its answer.
        status: StatusCode,
    },
    /// It is causeway-tunnel, and refused.
    #[error("{reason}")]
    Tunnel {
        /// Its answer.
        status: StatusCode,
        /// Its reason.
        reason: String,
    },
    /// It refused by the SOCKS protocol.
    #[error("{proxy} made no connection to {member}: {why}")]
    Socks {
        /// The proxy, without a user.
        proxy: String,
        /// Host and port of the member.
        member: String,
        /// Its answer.
        why: String,
    },
}

/// Header with the reason of causeway-tunnel.
const TUNNEL_REASON: &str = "x-causeway-reason";

/// Returns what a person does about a proxy's refusal.
fn remedy(status: StatusCode) -> &'static str {
    match status {
        StatusCode::PROXY_AUTHENTICATION_REQUIRED => {
            "give it Proxy-Authorization in spec.proxyHeader, or a user in spec.proxyURL"
        }
        StatusCode::FORBIDDEN | StatusCode::UNAUTHORIZED => {
            "allow CONNECT to that host and port in its rules"
        }
        StatusCode::BAD_GATEWAY | StatusCode::SERVICE_UNAVAILABLE | StatusCode::GATEWAY_TIMEOUT => {
            "it does not reach the member; look into its log"
        }
        StatusCode::INTERNAL_SERVER_ERROR => {
            "look into its log; if it is Konnectivity, no agent for that host is connected to it"
        }
        StatusCode::BAD_REQUEST
        | StatusCode::NOT_FOUND
        | StatusCode::METHOD_NOT_ALLOWED
        | StatusCode::NOT_IMPLEMENTED => {
            "spec.proxyURL may name a web server; it has to name a proxy that serves CONNECT"
        }
        _ => "look into its log",
    }
}

/// Error of a Cluster's proxy settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Wrong {
    /// The address, without what may be a password.
    Url(String),
    /// The headers, and why.
    Headers(String),
}

impl Proxy {
    /// Reads the settings of a Cluster. `certificates` verify an https:// proxy; without any the
    /// system's certificate authorities do.
    pub(super) fn read(
        url: &str,
        headers: &BTreeMap<String, String>,
        certificates: Vec<Vec<u8>>,
    ) -> Result<Self, Wrong> {
        let url = url.trim();
        let wrong = || {
            Wrong::Url(match url.rsplit_once('@') {
                Some((_, rest)) => format!("...@{rest}"),
                None => url.to_owned(),
            })
        };
        let uri: Uri = url.parse().map_err(|_| wrong())?;
        let (kind, scheme, port) = match uri.scheme_str() {
            Some("http") => (Kind::Http, "http", 80),
            Some("https") => (Kind::Https, "https", 443),
            Some("socks5") => (Kind::Socks5, "http", 1080),
            _ => return Err(wrong()),
        };
        let host = uri.host().filter(|host| !host.is_empty());
        let host = host.ok_or_else(wrong)?;
        let address = Uri::builder()
            .scheme(scheme)
            .authority(format!("{host}:{}", uri.port_u16().unwrap_or(port)))
            .path_and_query(PathAndQuery::from_static("/"))
            .build()
            .map_err(|_| wrong())?;
        let user = uri
            .authority()
            .and_then(|all| all.as_str().rsplit_once('@'));
        let user = user.map(|(user, _)| decoded(user)).transpose();
        let user = user.map_err(|()| wrong())?;
        let mut headers = read_headers(headers).map_err(Wrong::Headers)?;
        if let (Some((name, password)), Kind::Http | Kind::Https) = (&user, kind) {
            let basic = format!("Basic {}", STANDARD.encode(format!("{name}:{password}")));
            let mut basic = HeaderValue::try_from(basic).map_err(|_| wrong())?;
            basic.set_sensitive(true);
            // What the Cluster says of this header is more particular.
            headers.entry(PROXY_AUTHORIZATION).or_insert(basic);
        }
        Ok(Self {
            kind,
            address,
            user,
            headers,
            certificates,
            is_tunnel: false,
        })
    }

    /// Returns causeway-tunnel as the proxy of a member: its user is the member.
    pub(super) fn tunnel(front: &TunnelFront, member: &ClusterName) -> Self {
        let basic = format!("Basic {}", STANDARD.encode(format!("{member}:")));
        let basic = HeaderValue::try_from(basic).ok();
        let headers = basic.map(|basic| (PROXY_AUTHORIZATION, basic));
        Self {
            kind: Kind::Http,
            address: front.0.clone(),
            user: None,
            headers: headers.into_iter().collect(),
            certificates: Vec::new(),
            is_tunnel: true,
        }
    }

    /// Whether it is reached over TLS.
    pub(super) fn uses_tls(&self) -> bool {
        self.kind == Kind::Https
    }

    /// Reads what TLS to it needs.
    ///
    /// # Errors
    /// The certificates cannot be used, or neither the Secret nor the system has any.
    pub(super) fn tls(&self) -> kube::Result<ClientConfig> {
        let mut config = Config::new(self.address.clone());
        config.root_cert = (!self.certificates.is_empty()).then(|| self.certificates.clone());
        config.rustls_client_config()
    }

    /// Whether it speaks SOCKS, and not HTTP.
    pub(super) fn speaks_socks(&self) -> bool {
        self.kind == Kind::Socks5
    }

    /// Connects to the member by SOCKS (RFC 1928); the proxy resolves the member's name.
    pub(super) async fn by_socks(
        self,
        tls: Arc<ClientConfig>,
        member: Uri,
    ) -> Result<ToProxy, ProxyError> {
        let connection = self.dial(tls).await?;
        let mut connection = Some(connection);
        let dialled = service_fn(move |_: Uri| {
            let taken = || std::io::Error::from(std::io::ErrorKind::NotConnected);
            std::future::ready(connection.take().ok_or_else(taken))
        });
        let mut socks = SocksV5::new(self.address.clone(), dialled);
        if let Some((user, password)) = &self.user {
            socks = socks.with_auth(user.clone(), password.clone());
        }
        let member = with_port(&member);
        let connected = socks.oneshot(member.clone()).await;
        connected.map_err(|why| ProxyError::Socks {
            proxy: self.to_string(),
            member: authority(&member),
            why: why.to_string(),
        })
    }

    /// Connects to the member by CONNECT (RFC 9110, section 9.3.6).
    pub(super) async fn by_connect(
        self,
        tls: Arc<ClientConfig>,
        member: Uri,
    ) -> Result<Upgraded, ProxyError> {
        let dial = || self.dial(tls.clone());
        self.over_any(dial, &member).await
    }

    /// Connects to the member by CONNECT over a new connection. A replica of causeway-tunnel
    /// answers 503 if it has no connection of the agent with a free stream. The next connection may
    /// reach another replica.
    async fn over_any<F>(&self, dial: impl Fn() -> F, member: &Uri) -> Result<Upgraded, ProxyError>
    where
        F: Future<Output = Result<ToProxy, ProxyError>>,
    {
        for _ in 0..REDIALS {
            match self.over(dial().await?, member).await {
                Err(ProxyError::Tunnel {
                    status: StatusCode::SERVICE_UNAVAILABLE,
                    ..
                }) => {}
                ended => return ended,
            }
        }
        self.over(dial().await?, member).await
    }

    /// Connects to the member by CONNECT over this connection.
    async fn over(&self, connection: ToProxy, member: &Uri) -> Result<Upgraded, ProxyError> {
        let member = authority(&with_port(member));
        let answer = self.ask(connection, &member).await;
        let answer = answer.map_err(|why| self.unusable(why))?;
        let reason = answer.headers().get(TUNNEL_REASON);
        if let (true, Some(reason)) = (self.is_tunnel, reason) {
            let reason = String::from_utf8_lossy(reason.as_bytes()).into_owned();
            let status = answer.status();
            return Err(ProxyError::Tunnel { status, reason });
        }
        if !answer.status().is_success() {
            return Err(ProxyError::Refused {
                proxy: self.to_string(),
                member,
                status: answer.status(),
            });
        }
        let upgraded = hyper::upgrade::on(answer).await;
        upgraded.map_err(|why| self.unusable(why.into()))
    }

    /// Sends CONNECT, and returns the answer.
    async fn ask(&self, connection: ToProxy, member: &str) -> Result<Response<Incoming>, BoxError> {
        let mut request = Request::builder()
            .method(Method::CONNECT)
            .uri(member)
            .header(HOST, member)
            .body(Empty::<Bytes>::new())?;
        request.headers_mut().extend(self.headers.clone());
        let (mut requests, connection) = hyper::client::conn::http1::Builder::new()
            .max_buf_size(ANSWER_HEAD)
            .handshake(connection)
            .await?;
        // Ends when `requests` is gone, or gives the connection away.
        tokio::spawn(connection.with_upgrades());
        Ok(requests.send_request(request).await?)
    }

    async fn dial(&self, tls: Arc<ClientConfig>) -> Result<ToProxy, ProxyError> {
        let connector = HttpsConnector::from((direct(), tls));
        let connected = connector.oneshot(self.address.clone()).await;
        connected.map_err(|why| self.unusable(why))
    }

    fn unusable(&self, why: BoxError) -> ProxyError {
        let proxy = self.to_string();
        ProxyError::Unusable { proxy, why }
    }
}

/// Returns a connector of TCP, for addresses of any scheme. The addresses of a name share the time,
/// so that the others follow one that does not answer.
pub(super) fn direct() -> HttpConnector {
    let mut direct = HttpConnector::new();
    direct.enforce_http(false);
    direct.set_connect_timeout(Some(CONNECT_TIMEOUT));
    direct
}

/// The proxy with its address, without a user.
impl fmt::Display for Proxy {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.is_tunnel {
            true => "causeway-tunnel",
            false => "its proxy",
        };
        let scheme = match self.kind {
            Kind::Http => "http",
            Kind::Https => "https",
            Kind::Socks5 => "socks5",
        };
        write!(out, "{what} {scheme}://{}", authority(&self.address))
    }
}

/// Returns user and password of `user:password`, percent-decoded.
fn decoded(user: &str) -> Result<(String, String), ()> {
    let (user, password) = user.split_once(':').unwrap_or((user, ""));
    let text = |part| percent_decode_str(part).decode_utf8().map_err(|_| ());
    Ok((text(user)?.into_owned(), text(password)?.into_owned()))
}

/// Reads `spec.proxyHeader`, where commas separate the values of one name (Karmada's Cluster API).
fn read_headers(given: &BTreeMap<String, String>) -> Result<HeaderMap, String> {
    let bytes: usize = given
        .iter()
        .map(|(name, value)| name.len() + value.len())
        .sum();
    if bytes > HEADER_BYTES {
        return Err(format!(
            "it has {bytes} bytes, and {HEADER_BYTES} are allowed"
        ));
    }
    let mut headers = HeaderMap::new();
    for (name, values) in given {
        let known = HeaderName::try_from(name).map_err(|_| format!("{name:?} is no header"))?;
        for value in values.split(',') {
            let value = HeaderValue::try_from(value.trim());
            let mut value = value.map_err(|_| format!("the value of {name:?} cannot be sent"))?;
            value.set_sensitive(true);
            headers.append(known.clone(), value);
        }
    }
    match headers.len() {
        0..=HEADERS => Ok(headers),
        many => Err(format!("it has {many} values, and {HEADERS} are allowed")),
    }
}

/// The same address with its port, which is 443 where none is said.
fn with_port(member: &Uri) -> Uri {
    let (Some(host), None) = (member.host(), member.port()) else {
        return member.clone();
    };
    let port = if member.scheme_str() == Some("http") {
        80
    } else {
        443
    };
    let uri = Uri::builder()
        .scheme(member.scheme_str().unwrap_or("https"))
        .authority(format!("{host}:{port}"))
        .path_and_query(PathAndQuery::from_static("/"));
    uri.build().unwrap_or_else(|_| member.clone())
}

fn authority(uri: &Uri) -> String {
    uri.authority().map(ToString::to_string).unwrap_or_default()
}
