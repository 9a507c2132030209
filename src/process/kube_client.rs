//! Clients of API servers that notice when the other side is gone.

use std::time::Duration;

use axum::http::HeaderValue;
use axum::http::header::{InvalidHeaderValue, USER_AGENT};
use kube::config::{InClusterError, KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};

use crate::kubeconfig::{self, AccessError};
use crate::target::CONNECT_TIMEOUT;

/// Time after which the API server ends a watch: the default of kube and client-go.
pub const WATCH_TIMEOUT: Duration = Duration::from_secs(290);

/// Silence on a connection for this long is an error. Above [`WATCH_TIMEOUT`], within which a
/// healthy watch ends.
pub const READ_TIMEOUT: Duration = Duration::from_secs(300);

const WRITE_TIMEOUT: Duration = Duration::from_secs(30);

/// Address of the hub and credentials for it.
#[derive(Clone, Debug)]
pub enum HubAccess {
    /// As a kubeconfig says, in its current context.
    Kubeconfig(Box<Kubeconfig>),
    /// This process is a pod of the hub.
    InCluster,
}

/// Error of a client of the hub that cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum HubError {
    /// The kubeconfig has no usable context.
    #[error("the kubeconfig cannot be used: {0}")]
    Kubeconfig(#[from] AccessError),
    /// The pod has no usable service account.
    #[error("the pod's service account cannot be used: {0}")]
    InCluster(#[from] InClusterError),
    /// The name of the component is no header value.
    #[error("{0} is no user agent")]
    UserAgent(String, #[source] InvalidHeaderValue),
    /// TLS or authentication cannot be set up.
    #[error("no client can be made for the hub")]
    Client(#[from] kube::Error),
}

/// A client of the hub, which names itself `<component>/<version>`.
///
/// It does not repeat failed requests by itself. Unary calls need a deadline of their own
/// ([`tokio::time::timeout`]); [`READ_TIMEOUT`] is only for watches.
///
/// # Errors
/// [`HubError`] where the access cannot be used. No request is sent yet.
pub fn hub_client(access: &HubAccess, component: &str) -> Result<Client, HubError> {
    Ok(Client::try_from(hub_config(access, component)?)?)
}

/// Returns the user agent of a replica, `<component>/<version> (<identity>)`, so that audit logs
/// tell replicas apart. Characters of the identity that no header may hold are left out.
///
/// # Errors
/// [`HubError::UserAgent`] if the name of the component is no header value.
pub fn replica(component: &str, identity: &str) -> Result<HeaderValue, HubError> {
    let is_plain = |c: &char| c.is_ascii_graphic() && !matches!(c, '(' | ')' | '\\');
    let identity: String = identity.chars().filter(is_plain).collect();
    let name = format!("{component}/{} ({identity})", env!("CARGO_PKG_VERSION"));
    HeaderValue::from_str(&name).map_err(|error| HubError::UserAgent(name, error))
}

/// Returns the configuration from which [`hub_client`] makes its client.
///
/// # Errors
/// [`HubError`] if the access cannot be used.
pub fn hub_config(access: &HubAccess, component: &str) -> Result<Config, HubError> {
    let mut config = hardened(access)?;
    name_client(&mut config, component)?;
    Ok(config)
}

/// [`hub_config`] of a client that calls itself by [`replica`].
///
/// # Errors
/// [`HubError`] where the access cannot be used.
pub fn replica_config(access: &HubAccess, agent: HeaderValue) -> Result<Config, HubError> {
    let mut config = hardened(access)?;
    config.headers.push((USER_AGENT, agent));
    Ok(config)
}

fn hardened(access: &HubAccess) -> Result<Config, HubError> {
    let mut config = match access {
        HubAccess::Kubeconfig(kubeconfig) => {
            kubeconfig::access(kubeconfig, &KubeConfigOptions::default())?.config
        }
        HubAccess::InCluster => Config::incluster()?,
    };
    harden(&mut config);
    Ok(config)
}

/// Sets the timeouts that let a client notice a dead connection, and leaves repetition to the
/// caller.
pub fn harden(config: &mut Config) {
    config.connect_timeout = Some(CONNECT_TIMEOUT);
    config.write_timeout = Some(WRITE_TIMEOUT);
    config.read_timeout = Some(READ_TIMEOUT);
    config.reset_reader_on_write = true;
    config.default_retry = false;
}

/// Lets the client name itself `<component>/<version>` to the API server.
///
/// # Errors
/// [`HubError::UserAgent`] where the name is no header value.
pub fn name_client(config: &mut Config, component: &str) -> Result<(), HubError> {
    let name = format!("{component}/{}", env!("CARGO_PKG_VERSION"));
    let value =
        HeaderValue::from_str(&name).map_err(|error| HubError::UserAgent(name.clone(), error))?;
    config.headers.push((USER_AGENT, value));
    Ok(())
}

/// Makes ring the TLS crypto of this process, once; later calls change nothing.
pub fn install_crypto_provider() {
    if rustls::crypto::ring::default_provider()
        .install_default()
        .is_err()
    {
        tracing::debug!("TLS crypto provider not installed, another one is");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hardened_client_notices_silence_and_names_itself() {
        let mut config = Config::new(axum::http::Uri::from_static("https://hub.example"));
        harden(&mut config);
        name_client(&mut config, "causeway-webhook").expect("it is a header value");
        assert!(config.read_timeout > Some(WATCH_TIMEOUT) && config.reset_reader_on_write);
        assert!(!config.default_retry);
        assert_eq!(
            config.headers[0].1,
            format!("causeway-webhook/{}", env!("CARGO_PKG_VERSION"))
        );
    }

    #[test]
    fn a_replica_is_named_whatever_its_host_is_called() {
        let cases = [
            ("node-1_ab", "node-1_ab"),
            ("n\u{f6}de\n(1)", "nde1"),
            ("", ""),
        ];
        for (identity, named) in cases {
            let agent = replica("causeway-controller", identity).expect("it is a header value");
            let version = env!("CARGO_PKG_VERSION");
            assert_eq!(agent, format!("causeway-controller/{version} ({named})"));
        }
    }
}
