//! Connections to causeway-tunnel: TCP or CONNECT of a proxy, perhaps the upgraded connection of
//! the hub's API server, then TLS.

use std::net::IpAddr;
use std::str::FromStr;
use std::sync::Arc;

use futures::FutureExt as _;
use http::Uri;
use http::uri::InvalidUri;
use hyper::upgrade::Upgraded;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::connect::proxy::Tunnel;
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio::time::error::Elapsed;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_util::either::Either;
use tower::{BoxError, ServiceExt as _};

use super::api_server::ThroughError;
use super::{Inner, Peers, Route};
use crate::identity::{Identity, IdentityError, Role, leaf};
use crate::limits::Limits;
use crate::splice::prepare;

/// Peer that an agent expects.
const TUNNEL: &str = "causeway-tunnel of this agent's hub";

/// Error of an address that is not `HOST:PORT`.
#[derive(Debug, thiserror::Error)]
pub enum AddressError {
    /// It is no address.
    #[error(transparent)]
    Uri(#[from] InvalidUri),
    /// Host or port is missing, or there is more.
    #[error("it is not HOST:PORT")]
    Form,
    /// The host is neither a DNS name nor an IP address.
    #[error("its host is neither a DNS name nor an IP address")]
    Host,
}

/// Address of causeway-tunnel.
#[derive(Clone, Debug)]
pub struct Address {
    uri: Uri,
    name: ServerName<'static>,
}

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let uri: Uri = format!("https://{text}/").parse()?;
        let is_address = uri.path() == "/" && uri.query().is_none() && !text.contains('@');
        let (Some(host), Some(_), true) = (uri.host(), uri.port(), is_address) else {
            return Err(AddressError::Form);
        };
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        let name = match bare.parse::<IpAddr>() {
            Ok(address) => ServerName::from(address),
            Err(_) => ServerName::try_from(bare.to_owned()).map_err(|_| AddressError::Host)?,
        };
        Ok(Self { uri, name })
    }
}

/// Reason why no connection was made.
#[derive(Debug, thiserror::Error)]
pub(super) enum DialError {
    #[error("not done in time")]
    Slow(#[from] Elapsed),
    #[error("the connection failed")]
    Tcp(#[source] BoxError),
    #[error("the proxy {0} is not http://")]
    Proxy(Uri),
    #[error("the proxy {proxy} made no connection")]
    ByProxy {
        proxy: Uri,
        #[source]
        why: BoxError,
    },
    #[error("no connection through the hub's API server")]
    Through(#[from] ThroughError),
    #[error("the handshake failed")]
    Handshake(#[from] std::io::Error),
    #[error(transparent)]
    Identity(#[from] IdentityError),
}

impl DialError {
    pub(super) fn label(&self) -> &'static str {
        match self {
            Self::Slow(_) => "slow",
            Self::Tcp(_) => "tcp",
            Self::Proxy(_) | Self::ByProxy { .. } => "proxy",
            Self::Through(_) => "api_server",
            Self::Handshake(_) => "handshake",
            Self::Identity(_) => "identity",
        }
    }
}

/// Connection that TLS to causeway-tunnel runs in.
pub(super) type Socket = Either<TcpStream, TokioIo<Upgraded>>;

/// Connects to causeway-tunnel, and verifies that it is that of the agent's hub.
pub(super) async fn dial(agent: &Inner) -> Result<TlsStream<Socket>, DialError> {
    let credentials = agent.credentials.current();
    let config = credentials.config.clone();
    let (tls, hub) = dial_as(&agent.peers, config, &agent.shared.limits).await?;
    match hub == credentials.own.hub {
        true => Ok(tls),
        false => {
            let role = Role::Tunnel;
            Err(IdentityError::Foreign(Identity { hub, role }, TUNNEL).into())
        }
    }
}

/// Connects to causeway-tunnel of any hub whose authorities are trusted. Returns the UID of the hub
/// too.
pub(super) async fn dial_as(
    peers: &Peers,
    config: Arc<ClientConfig>,
    limits: &Limits,
) -> Result<(TlsStream<Socket>, Arc<str>), DialError> {
    let (socket, name) = match &peers.route {
        Route::Dialled(address) => {
            let socket = connect(peers, &address.uri, limits).await?;
            (Either::Left(socket), address.name.clone())
        }
        Route::ApiServer(server) => {
            let access = server.read().map_err(ThroughError::from)?;
            let socket = connect(peers, access.uri(), limits).await?;
            // In a box the compiler proves that it may change threads.
            let upgraded = access.upgrade(socket, limits).boxed().await?;
            (Either::Right(upgraded), access.tunnel_name()?)
        }
    };
    let handshake = TlsConnector::from(config).connect(name, socket);
    let tls = timeout(limits.handshake, handshake).await??;
    let (_, session) = tls.get_ref();
    let identity = Identity::of(leaf(session.peer_certificates())?)?;
    match identity.role {
        Role::Tunnel => Ok((tls, identity.hub)),
        _ => Err(IdentityError::Foreign(identity, TUNNEL).into()),
    }
}

/// Connects to the host and port of a URI, by the proxy of the environment if there is one for it.
async fn connect(peers: &Peers, uri: &Uri, limits: &Limits) -> Result<TcpStream, DialError> {
    let socket = timeout(limits.dial, connect_by_proxy(peers, uri, limits)).await??;
    prepare(&socket)?;
    Ok(socket)
}

async fn connect_by_proxy(
    peers: &Peers,
    uri: &Uri,
    limits: &Limits,
) -> Result<TcpStream, DialError> {
    let mut direct = HttpConnector::new();
    direct.enforce_http(false);
    // The addresses of a name share the time, so that the others follow one that does not answer.
    direct.set_connect_timeout(Some(limits.dial));
    let Some(proxy) = peers.proxies.intercept(uri) else {
        let connected = direct.oneshot(uri.clone()).await;
        let connected = connected.map_err(|why| DialError::Tcp(why.into()));
        return connected.map(TokioIo::into_inner);
    };
    let address = proxy.uri().clone();
    if address.scheme_str() != Some("http") {
        return Err(DialError::Proxy(address));
    }
    let mut by_proxy = Tunnel::new(address.clone(), direct);
    if let Some(credentials) = proxy.basic_auth() {
        by_proxy = by_proxy.with_auth(credentials.clone());
    }
    let connected = by_proxy.oneshot(uri.clone()).await;
    let failed = |why| DialError::ByProxy {
        proxy: address,
        why,
    };
    connected
        .map(TokioIo::into_inner)
        .map_err(|why| failed(why.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_is_a_host_and_a_port() {
        for (text, name) in [
            ("tunnel.example:443", "tunnel.example"),
            ("203.0.113.7:30443", "203.0.113.7"),
            ("[2001:db8::7]:443", "2001:db8::7"),
        ] {
            assert_eq!(text.parse::<Address>().unwrap().name.to_str(), name);
        }
        for text in [
            "tunnel.example",
            "https://tunnel.example:443",
            "tunnel.example:443/path",
            "user@tunnel.example:443",
            "tunnel.example:99999",
            "under score:443",
            ":443",
            "",
        ] {
            assert!(text.parse::<Address>().is_err(), "{text}");
        }
    }
}
