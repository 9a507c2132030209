//! The tunnel of a hub: its address, its certificate authority, the Secrets of both sides, and its
//! front.

pub(crate) mod address;
pub(crate) mod authority;
pub(crate) mod front;

use std::time::SystemTime;

use causeway::domain::protected::DEFAULT_NAMESPACE;
use causeway_certs::IssueError;
use k8s_openapi::api::core::v1::Secret;

use self::address::TunnelAddress;
use self::authority::{AUTHORITY_SECRET, AuthorityError, TunnelAuthority};
use crate::cluster::api_server::{ApiServer, RequestError};
use crate::cluster::objects::ObjectError;
use crate::term::exit::{CommandError, PROBLEM};

/// Secret with the certificate of causeway-tunnel.
pub(crate) const SERVER_SECRET: &str = "causeway-tunnel";
/// Secret with the certificate of causeway-controller for agents.
pub(crate) const CONTROLLER_SECRET: &str = "causeway-controller-tunnel";
/// Directory in which the controller has that certificate.
pub(crate) const CONTROLLER_TLS_DIR: &str = "/etc/causeway/tunnel";
/// Flag of the controller for that directory.
pub(crate) const CONTROLLER_TLS_FLAG: &str = "--tunnel-tls-dir=/etc/causeway/tunnel";
/// Front of causeway-tunnel on a hub that runs it.
pub(crate) const FRONT_FLAG: &str =
    "--tunnel-front=http://causeway-tunnel.causeway-system.svc:7080";

/// Error of the certificates of a tunnel.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TunnelError {
    #[error(transparent)]
    Request(#[from] RequestError),
    #[error(transparent)]
    Object(#[from] ObjectError),
    #[error(
        "Secret {DEFAULT_NAMESPACE}/{AUTHORITY_SECRET} of the hub cannot sign certificates: {0}. Restore it. Or delete it and \
         Secret {DEFAULT_NAMESPACE}/{SERVER_SECRET}, run kubectl mcs install --tunnel HOST[:PORT], and join \
         each member of the tunnel again"
    )]
    Authority(#[from] AuthorityError),
    #[error(
        "the hub has no CA for the tunnel (Secret {DEFAULT_NAMESPACE}/{AUTHORITY_SECRET}); run first: kubectl mcs install --tunnel {0}"
    )]
    NoAuthority(TunnelAddress),
    #[error("a certificate of the tunnel cannot be issued: {0}")]
    Issue(#[from] IssueError),
    #[error(
        "Secret {DEFAULT_NAMESPACE}/{SERVER_SECRET} of the hub has a certificate of another authority, which agents may trust. \
         Nothing was changed. Put the certificate and key of that authority into ca.crt and ca.key of Secret {AUTHORITY_SECRET} \
         there; or delete Secret {SERVER_SECRET}, run this again, and join each member of the tunnel again"
    )]
    Foreign,
}

impl CommandError for TunnelError {
    fn exit_code(&self) -> u8 {
        match self {
            Self::Request(error) => error.exit_code(),
            Self::Object(error) => error.exit_code(),
            _ => PROBLEM,
        }
    }
}

/// Reads a Secret of causeway's namespace.
pub(crate) async fn secret(server: &ApiServer, name: &str) -> Result<Option<Secret>, RequestError> {
    server.get(server.within(DEFAULT_NAMESPACE), name).await
}

/// Reads the certificate authority of a hub. Returns `None` if it has none.
pub(crate) async fn authority(hub: &ApiServer) -> Result<Option<TunnelAuthority>, TunnelError> {
    let stored = secret(hub, AUTHORITY_SECRET).await?;
    let read = |stored: &Secret| TunnelAuthority::read(stored, SystemTime::now());
    Ok(stored.as_ref().map(read).transpose()?)
}
