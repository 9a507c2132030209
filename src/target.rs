//! Address and token of a member, read from its Cluster and the Secret that the Cluster
//! names.

use std::fmt;
use std::net::IpAddr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::HeaderValue;
use http::header::InvalidHeaderValue;
use http::uri::{InvalidUri, Scheme, Uri};
use k8s_openapi::api::core::v1::Secret;
use kube::{Config, ResourceExt};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};

use self::proxy::Wrong;
use crate::api::cluster_profile::ClusterAccess;
use crate::api::{Cluster, ClusterSpec, labels};
use crate::domain::{ClusterName, NameError};

pub use self::proxy::{
    CONNECT_TIMEOUT, PROXY_CA_BUNDLE, Proxy, ProxyError, TunnelFront, TunnelFrontError,
};
pub use self::transport::{Requests, Transport, TransportError};

mod pinned;
mod proxy;
mod transport;

/// Connection data of a member, without its token. Equal targets give equal connections.
#[derive(Clone, PartialEq, Eq)]
pub struct Target {
    /// The member's name.
    pub name: ClusterName,
    /// The address of its API server.
    pub url: Uri,
    certificates: Vec<Vec<u8>>,
    insecure: bool,
    proxy: Option<Proxy>,
    server_name: Option<ServerName<'static>>,
}

/// Bearer token of an account in a member. It is never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(HeaderValue);

impl Token {
    /// Reads the token that a Secret holds.
    ///
    /// # Errors
    /// [`TargetError`] if there is none, or it cannot be sent.
    pub fn read(secret: &Secret) -> Result<Self, TargetError> {
        let bytes = value(secret, TOKEN);
        if bytes.is_empty() {
            return Err(TargetError::NoToken {
                secret: full_name(secret),
            });
        }
        Self::parse(bytes).ok_or_else(|| TargetError::Token {
            secret: full_name(secret),
        })
    }

    /// Reads a token of visible ASCII characters; `None` for any other text.
    pub fn parse(text: &[u8]) -> Option<Self> {
        let is_text = !text.is_empty() && text.iter().all(u8::is_ascii_graphic);
        is_text.then(|| Self::try_from(text).ok()).flatten()
    }

    /// Returns the value of the header Authorization (RFC 6750).
    pub fn header(&self) -> HeaderValue {
        self.0.clone()
    }
}

impl TryFrom<&[u8]> for Token {
    type Error = InvalidHeaderValue;

    fn try_from(token: &[u8]) -> Result<Self, Self::Error> {
        let mut header = HeaderValue::from_bytes(&[b"Bearer ", token].concat())?;
        header.set_sensitive(true);
        Ok(Self(header))
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Token")
    }
}

/// Error of a Cluster or Secret that gives no connection to its member.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TargetError {
    /// The object's name cannot be a member's.
    #[error("a Cluster cannot be called {name:?}: {why}")]
    Name {
        /// The name.
        name: String,
        /// Cause.
        why: NameError,
    },
    /// There is no address.
    #[error("spec.apiEndpoint is empty; set it to the URL of the member's API server")]
    NoEndpoint,
    /// The address cannot be read.
    #[error("spec.apiEndpoint {endpoint:?} is no address of an API server: {why}")]
    Endpoint {
        /// The address as it is given.
        endpoint: String,
        /// Cause.
        why: String,
    },
    /// The member would be reached without TLS, or without verifying who answers.
    #[error(
        "{what}, and no token is sent over unverified TLS; give the CA of the API server in the Secret's key caBundle \
         or the ClusterProfile's certificate-authority-data, or allow it with --allow-insecure-members"
    )]
    Insecure {
        /// Setting that requires unverified TLS, with its verb.
        what: &'static str,
    },
    /// The proxy's address cannot be read.
    #[error(
        "spec.proxyURL {url:?} is no address of a proxy; it is http://, https:// or socks5://, a host and a port"
    )]
    Proxy {
        /// The address without what may be a password.
        url: String,
    },
    /// The member is reached by causeway-tunnel, whose address this program does not know.
    #[error(
        "it is reached by causeway-tunnel (annotation {}), whose address is not known here; the \
         controller knows it by --tunnel-front",
        labels::TUNNEL
    )]
    Tunnel,
    /// The headers for the proxy cannot be sent.
    #[error("spec.proxyHeader cannot be sent to a proxy: {why}")]
    ProxyHeader {
        /// Cause, without a value.
        why: String,
    },
    /// The Secret is another's: whoever may write Clusters must not have its token sent to an
    /// address of their own.
    #[error(
        "Secret {secret} is not Cluster {cluster}'s: {why}; name it {cluster}, or label it {}={cluster}, if it is",
        labels::CLUSTER
    )]
    Foreign {
        /// Namespace and name.
        secret: String,
        /// The Cluster that names it.
        cluster: ClusterName,
        /// Evidence that it is another's.
        why: String,
    },
    /// The Secret has no token.
    #[error(
        "Secret {secret} has no key token; it holds the bearer token of a service account of \
         the member"
    )]
    NoToken {
        /// Namespace and name.
        secret: String,
    },
    /// The token cannot be sent.
    #[error(
        "the key token of Secret {secret} is no bearer token: it holds characters that none has"
    )]
    Token {
        /// Namespace and name.
        secret: String,
    },
    /// The CA bundle cannot be read.
    #[error("the key {key} of Secret {secret} is no bundle of PEM certificates: {why}")]
    CaBundle {
        /// [`CA_BUNDLE`] or [`PROXY_CA_BUNDLE`].
        key: &'static str,
        /// Namespace and name.
        secret: String,
        /// Cause.
        why: String,
    },
    /// The name in the member's certificate cannot be one.
    #[error(
        "the ClusterProfile's tls-server-name {name:?} is neither a DNS name nor an IP address"
    )]
    ServerName {
        /// The name.
        name: String,
    },
    /// The agent of the member gave an address or authorities that cannot be used.
    #[error("its agent gave an address of its API server that cannot be used: {why}")]
    Agent {
        /// Cause.
        why: String,
    },
    /// The certificates of a ClusterProfile cannot be read.
    #[error(
        "the ClusterProfile's certificate-authority-data is no bundle of PEM certificates in base64: {why}"
    )]
    AuthorityData {
        /// Cause.
        why: String,
    },
}

const TOKEN: &str = "token";
/// Karmada keeps the token by which it acts as others in the member in a Secret of the Cluster's
/// name and this.
const IMPERSONATOR: &str = "-impersonator";
/// The type of a Secret that holds the token of one of the hub's own accounts.
const ACCOUNT_TOKEN: &str = "kubernetes.io/service-account-token";
/// The key of the Secret with the certificates by which the member is verified.
pub const CA_BUNDLE: &str = "caBundle";

impl Target {
    /// Reads a Cluster and the Secret that it names, which has to be its own: labelled for it
    /// ([`labels::CLUSTER`]), or of its name.
    ///
    /// `spec.apiEndpoint` is a URL, a host, host:port, an IP or IP:port; without a scheme it is
    /// https. Without a CA bundle the member is verified against the system's certificate
    /// authorities.
    ///
    /// # Errors
    /// [`TargetError`] says what is wrong, where, and what to do. [`TargetError::Tunnel`] if the
    /// member is reached by causeway-tunnel.
    pub fn read(
        cluster: &Cluster,
        secret: &Secret,
        allow_insecure: bool,
    ) -> Result<(Self, Token), TargetError> {
        Self::read_beside(cluster, secret, None, allow_insecure)
    }

    /// As [`Target::read`]. A member with the annotation [`labels::TUNNEL`] is reached by this
    /// front of causeway-tunnel, and not by `spec.proxyURL`.
    ///
    /// # Errors
    /// As [`Target::read`].
    pub fn read_beside(
        cluster: &Cluster,
        secret: &Secret,
        front: Option<&TunnelFront>,
        allow_insecure: bool,
    ) -> Result<(Self, Token), TargetError> {
        let name = cluster.metadata.name.as_deref().unwrap_or_default();
        let name = ClusterName::try_from(name).map_err(|why| TargetError::Name {
            name: name.to_owned(),
            why,
        })?;
        serves(secret, &name)?;
        let mut target = Self::unverified(name, &cluster.spec, allow_insecure)?;
        target.proxy = match (is_tunnelled(cluster), front) {
            (true, Some(front)) => Some(Proxy::tunnel(front, &target.name)),
            (true, None) => return Err(TargetError::Tunnel),
            (false, _) => proxy(&cluster.spec, || certificates(secret, PROXY_CA_BUNDLE))?,
        };
        let token = Token::read(secret)?;
        if !target.insecure {
            target.certificates = certificates(secret, CA_BUNDLE)?;
        }
        Ok((target, token))
    }

    /// Reads the address of a member whose Cluster is made of a ClusterProfile: the spec that is
    /// made of it, and the way by which the profile says that the member is reached (KEP-4322).
    ///
    /// # Errors
    /// [`TargetError`] says what is wrong, where, and what to do.
    pub fn of_profile(
        name: ClusterName,
        spec: &ClusterSpec,
        access: &ClusterAccess,
        allow_insecure: bool,
    ) -> Result<Self, TargetError> {
        let mut target = Self::unverified(name, spec, allow_insecure)?;
        target.proxy = proxy(spec, || Ok(Vec::new()))?;
        if !access.tls_server_name.is_empty() {
            target = target.named(&access.tls_server_name)?;
        }
        if !target.insecure {
            let data = access.certificate_authority_data.as_bytes();
            let bad = |why: String| TargetError::AuthorityData { why };
            let pem = STANDARD.decode(data).map_err(|why| bad(why.to_string()))?;
            target.certificates = bundle(&pem).map_err(bad)?;
        }
        Ok(target)
    }

    /// Returns the target with the name that the certificate of the API server must be valid for,
    /// instead of the host of the URL.
    ///
    /// # Errors
    /// [`TargetError::ServerName`].
    pub fn named(self, name: &str) -> Result<Self, TargetError> {
        let server_name = ServerName::try_from(name.to_owned());
        let server_name = server_name.map_err(|_| TargetError::ServerName {
            name: name.to_owned(),
        })?;
        Ok(Self {
            server_name: Some(server_name),
            ..self
        })
    }

    /// Reads what the agent of a member gives: the URL of the API server, and the authorities that
    /// verify it, PEM in base64. The member is reached by causeway-tunnel alone.
    ///
    /// # Errors
    /// [`TargetError::Agent`].
    pub fn of_agent(
        name: ClusterName,
        front: &TunnelFront,
        server: &str,
        authorities: &str,
    ) -> Result<Self, TargetError> {
        let bad = |why: String| TargetError::Agent { why };
        let url = endpoint(server).map_err(|error| match error {
            TargetError::Endpoint { endpoint, why } => bad(format!("{endpoint:?}: {why}")),
            other => bad(other.to_string()),
        })?;
        if url.scheme() != Some(&Scheme::HTTPS) {
            return Err(bad("it is not https://".to_owned()));
        }
        let pem = STANDARD.decode(authorities);
        let pem = pem.map_err(|why| bad(why.to_string()))?;
        let certificates = bundle(&pem).map_err(bad)?;
        if certificates.is_empty() {
            return Err(bad("it has no certificate authority".to_owned()));
        }
        Ok(Self {
            proxy: Some(Proxy::tunnel(front, &name)),
            name,
            url,
            certificates,
            insecure: false,
            server_name: None,
        })
    }

    /// Reads an address, without certificates and proxy.
    fn unverified(
        name: ClusterName,
        spec: &ClusterSpec,
        allow_insecure: bool,
    ) -> Result<Self, TargetError> {
        let url = endpoint(spec.api_endpoint.as_deref().unwrap_or_default())?;
        let insecure = spec.insecure_skip_tls_verification.unwrap_or(false);
        if !allow_insecure && url.scheme() == Some(&Scheme::HTTP) {
            return Err(TargetError::Insecure {
                what: "spec.apiEndpoint is http://",
            });
        }
        if !allow_insecure && insecure {
            return Err(TargetError::Insecure {
                what: "spec.insecureSkipTLSVerification is true",
            });
        }
        Ok(Self {
            name,
            url,
            certificates: Vec::new(),
            insecure,
            proxy: None,
            server_name: None,
        })
    }

    /// Returns the configuration of a client of the member, without credentials and proxy, which
    /// [`Transport`] knows. The caller sets timeouts and the user agent.
    pub fn config(&self) -> Config {
        let mut config = Config::new(self.url.clone());
        config.root_cert = (!self.certificates.is_empty()).then(|| self.certificates.clone());
        config.accept_invalid_certs = self.insecure;
        config
    }
}

impl fmt::Debug for Target {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Target")
            .field("name", &self.name)
            .field("url", &self.url)
            .field("insecure", &self.insecure)
            .finish_non_exhaustive()
    }
}

/// Checks that a Secret is meant for a Cluster: it is labelled for it, or bears its name, as those
/// of Karmada do.
///
/// # Errors
/// [`TargetError::Foreign`] if it is not.
pub fn serves(secret: &Secret, cluster: &ClusterName) -> Result<(), TargetError> {
    let meta = &secret.metadata;
    let label = meta
        .labels
        .as_ref()
        .and_then(|all| all.get(labels::CLUSTER));
    let why = match label {
        Some(other) if other == cluster.as_str() => return Ok(()),
        Some(other) => format!("it is labelled for {other:?}"),
        None if meta.name.as_deref() != Some(cluster.as_str()) => {
            "it neither bears its name nor is labelled for it".to_owned()
        }
        None if secret.type_.as_deref() == Some(ACCOUNT_TOKEN) => {
            "it holds the token of an account of the hub".to_owned()
        }
        None if cluster.as_str().ends_with(IMPERSONATOR) => {
            format!("Karmada keeps others' tokens under names that end in {IMPERSONATOR}")
        }
        None => return Ok(()),
    };
    Err(TargetError::Foreign {
        secret: full_name(secret),
        cluster: cluster.clone(),
        why,
    })
}

/// Whether a member is reached by causeway-tunnel.
pub fn is_tunnelled(cluster: &impl ResourceExt) -> bool {
    let tunnel = cluster.annotations().get(labels::TUNNEL);
    tunnel.is_some_and(|value| value == "true")
}

fn endpoint(text: &str) -> Result<Uri, TargetError> {
    let text = text.trim();
    if text.is_empty() {
        return Err(TargetError::NoEndpoint);
    }
    let bad = |why: &str| TargetError::Endpoint {
        endpoint: text.to_owned(),
        why: why.to_owned(),
    };
    let url = match text.parse::<IpAddr>() {
        Ok(IpAddr::V6(ip)) => format!("https://[{ip}]"),
        _ if text.contains("://") => text.to_owned(),
        _ => format!("https://{text}"),
    };
    let url: Uri = url
        .parse()
        .map_err(|why: InvalidUri| bad(&why.to_string()))?;
    if ![Some("https"), Some("http")].contains(&url.scheme_str()) {
        return Err(bad("it is neither https:// nor http://"));
    }
    let authority = url.authority().ok_or_else(|| bad("it has no host"))?;
    if authority.as_str().contains('@') {
        return Err(TargetError::Endpoint {
            endpoint: format!(
                "{}://...@{}",
                url.scheme_str().unwrap_or_default(),
                authority.host()
            ),
            why: "it holds a user; credentials belong into the Secret".to_owned(),
        });
    }
    if authority.host().is_empty() {
        return Err(bad("it has no host"));
    }
    if url.query().is_some() {
        return Err(bad("it has a query"));
    }
    Ok(url)
}

/// Reads the proxy, verified by these `certificates`, which are read only where there is a proxy.
fn proxy(
    spec: &ClusterSpec,
    certificates: impl FnOnce() -> Result<Vec<Vec<u8>>, TargetError>,
) -> Result<Option<Proxy>, TargetError> {
    let url = spec.proxy_url.as_deref().unwrap_or_default();
    if url.is_empty() {
        return Ok(None);
    }
    let proxy = Proxy::read(url, &spec.proxy_header, certificates()?);
    proxy.map(Some).map_err(|wrong| match wrong {
        Wrong::Url(url) => TargetError::Proxy { url },
        Wrong::Headers(why) => TargetError::ProxyHeader { why },
    })
}

fn full_name(secret: &Secret) -> String {
    let part = |part: &Option<String>| part.clone().unwrap_or_default();
    format!(
        "{}/{}",
        part(&secret.metadata.namespace),
        part(&secret.metadata.name)
    )
}

fn value<'a>(secret: &'a Secret, key: &str) -> &'a [u8] {
    let value = secret.data.as_ref().and_then(|data| data.get(key));
    value.map(|value| value.0.trim_ascii()).unwrap_or_default()
}

fn certificates(secret: &Secret, key: &'static str) -> Result<Vec<Vec<u8>>, TargetError> {
    let bytes = value(secret, key);
    let bad = |why: String| TargetError::CaBundle {
        key,
        secret: full_name(secret),
        why,
    };
    bundle(bytes).map_err(bad)
}

/// Returns the certificates of a PEM bundle; none of an empty one.
fn bundle(pem: &[u8]) -> Result<Vec<Vec<u8>>, String> {
    let mut roots = rustls::RootCertStore::empty();
    let mut all = Vec::new();
    for certificate in CertificateDer::pem_slice_iter(pem) {
        let certificate = certificate.map_err(|why| why.to_string())?;
        let rooted = roots.add(certificate.clone());
        rooted.map_err(|why| why.to_string())?;
        all.push(certificate.to_vec());
    }
    if all.is_empty() && !pem.is_empty() {
        return Err("it holds no certificate".to_owned());
    }
    Ok(all)
}

#[cfg(test)]
mod tests;
