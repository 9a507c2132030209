//! Certificate, key and authorities of one side, which change while connections go on.
//!
//! All three are files of one directory: `tls.crt`, `tls.key` and `ca.crt`. A handshake takes the
//! current ones. Files that cannot be used leave the last valid ones in place.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arc_swap::ArcSwap;
use causeway::process::certificate::{
    AuthoritiesError, Certificate, Files, TlsError, authorities, read_file,
};
use causeway::process::reload::reload;
use parking_lot::Mutex;
use rustls::client::Resumption;
use rustls::crypto::ring;
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{NoServerSessionStorage, VerifierBuilderError};
use rustls::sign::SingleCertAndKey;
use rustls::version::TLS13;
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::enrolment;
use crate::hello::ALPN;
use crate::identity::{Identity, IdentityError, Role};
use crate::metrics::Metrics;
use crate::verifier::{self, Enrolled, Trust};

const AUTHORITIES: &str = "ca.crt";

/// Reason why credentials cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CredentialsError {
    /// Certificate or key cannot be used.
    #[error(transparent)]
    Certificate(#[from] TlsError),
    /// The authorities cannot be used.
    #[error("{AUTHORITIES} cannot be used: {0}")]
    Authorities(#[from] AuthoritiesError),
    /// The authorities cannot be used together.
    #[error("{AUTHORITIES} cannot be used: {0}")]
    Unusable(#[from] VerifierBuilderError),
    /// The TLS library refuses the configuration.
    #[error(transparent)]
    Tls(#[from] rustls::Error),
    /// The certificate gives no identity.
    #[error("tls.crt: {0}")]
    Identity(#[from] IdentityError),
    /// The certificate is the other side's.
    #[error("tls.crt is for {0}")]
    Role(Identity),
}

/// TLS of one side.
pub trait Side: Sized + Send + Sync + 'static {
    /// Whether a certificate of that role is for this side.
    fn is_own(role: &Role) -> bool;

    /// Makes the configuration: TLS 1.3, both sides verified, no resumption.
    ///
    /// # Errors
    /// [`CredentialsError`].
    fn configure(certificate: &Certificate, trust: Trust) -> Result<Self, CredentialsError>;
}

impl Side for ServerConfig {
    fn is_own(role: &Role) -> bool {
        *role == Role::Tunnel
    }

    fn configure(certificate: &Certificate, trust: Trust) -> Result<Self, CredentialsError> {
        let renews = trust.enrolled.is_some();
        let mut config = server_config(certificate, verifier::of(trust)?, ALPN)?;
        config
            .alpn_protocols
            .extend(renews.then(|| enrolment::RENEW_ALPN.to_vec()));
        Ok(config)
    }
}

/// Makes the configuration of a server: TLS 1.3 without resumption, for clients that the verifier
/// accepts.
///
/// # Errors
/// [`rustls::Error`] if the crypto provider does not suffice.
pub fn server_config(
    certificate: &Certificate,
    clients: Arc<dyn ClientCertVerifier>,
    protocol: &[u8],
) -> Result<ServerConfig, rustls::Error> {
    let own = SingleCertAndKey::from(certificate.chain.clone());
    let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_protocol_versions(&[&TLS13])?
        .with_client_cert_verifier(clients)
        .with_cert_resolver(Arc::new(own));
    config.alpn_protocols = vec![protocol.to_vec()];
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(config)
}

impl Side for ClientConfig {
    fn is_own(role: &Role) -> bool {
        matches!(role, Role::Member(_))
    }

    fn configure(certificate: &Certificate, trust: Trust) -> Result<Self, CredentialsError> {
        let own = SingleCertAndKey::from(certificate.chain.clone());
        let mut config = Self::builder_with_provider(Arc::new(ring::default_provider()))
            .with_protocol_versions(&[&TLS13])?
            .with_root_certificates(trust.authorities)
            .with_client_cert_resolver(Arc::new(own));
        config.alpn_protocols = vec![ALPN.to_vec()];
        config.resumption = Resumption::disabled();
        Ok(config)
    }
}

/// Credentials as they were read.
pub struct Loaded<S> {
    /// TLS with them.
    pub config: Arc<S>,
    /// The own identity.
    pub own: Identity,
    /// The certificate with its key.
    pub certificate: Certificate,
    /// Authorities of the other side.
    pub authorities: Arc<RootCertStore>,
    /// The same, PEM.
    pub authorities_pem: Vec<u8>,
}

impl<S: Side> Loaded<S> {
    /// Reads a directory once.
    ///
    /// # Errors
    /// [`CredentialsError`] if its files cannot be used.
    pub fn read(directory: &Path) -> Result<Self, CredentialsError> {
        load(&read(directory)?, None)
    }
}

/// Certificate, key and authorities of the other side, PEM.
#[derive(Clone, PartialEq, Eq)]
pub struct Source {
    /// Certificate and key.
    pub files: Files,
    /// The authorities.
    pub authorities: Vec<u8>,
}

/// The credentials of one side, with the source that they were made from.
pub struct Credentials<S> {
    /// Directory of the source; `None` if it is [replaced](Self::replace) instead.
    directory: Option<PathBuf>,
    enrolled: Option<Enrolled>,
    current: ArcSwap<Loaded<S>>,
    source: Mutex<Source>,
    authorities: watch::Sender<()>,
    certificate: watch::Sender<()>,
    metrics: Metrics,
}

impl<S: Side> Credentials<S> {
    /// Reads a directory.
    ///
    /// # Errors
    /// [`CredentialsError`] if its files cannot be used.
    pub fn read(directory: &Path, metrics: &Metrics) -> Result<Arc<Self>, CredentialsError> {
        Self::read_trusting(directory, None, metrics)
    }

    /// Reads a directory. The authority of enrolled agents is trusted too.
    ///
    /// # Errors
    /// As [`Credentials::read`].
    pub fn read_trusting(
        directory: &Path,
        enrolled: Option<Enrolled>,
        metrics: &Metrics,
    ) -> Result<Arc<Self>, CredentialsError> {
        let made = Self::made(read(directory)?, enrolled, metrics)?;
        let directory = Some(directory.to_owned());
        Ok(Arc::new(Self { directory, ..made }))
    }

    /// Makes credentials that no file holds.
    ///
    /// # Errors
    /// [`CredentialsError`] if they cannot be used.
    pub fn new(source: Source, metrics: &Metrics) -> Result<Arc<Self>, CredentialsError> {
        Self::made(source, None, metrics).map(Arc::new)
    }

    fn made(
        source: Source,
        enrolled: Option<Enrolled>,
        metrics: &Metrics,
    ) -> Result<Self, CredentialsError> {
        let loaded = load::<S>(&source, enrolled.clone())?;
        metrics.certificate_ends(loaded.certificate.ends);
        Ok(Self {
            directory: None,
            enrolled,
            current: ArcSwap::from_pointee(loaded),
            source: Mutex::new(source),
            authorities: watch::Sender::new(()),
            certificate: watch::Sender::new(()),
            metrics: metrics.clone(),
        })
    }

    /// Returns the current credentials.
    pub fn current(&self) -> Arc<Loaded<S>> {
        self.current.load_full()
    }

    /// Subscribes to changes of the authorities.
    pub fn authorities(&self) -> watch::Receiver<()> {
        self.authorities.subscribe()
    }

    /// Subscribes to changes of the certificate.
    pub fn certificate(&self) -> watch::Receiver<()> {
        self.certificate.subscribe()
    }

    /// Uses other credentials from now on.
    ///
    /// # Errors
    /// [`CredentialsError`] if they cannot be used; the former ones stay.
    pub fn replace(&self, source: Source) -> Result<(), CredentialsError> {
        let mut seen = self.source.lock();
        if *seen == source {
            return Ok(());
        }
        let loaded = load::<S>(&source, self.enrolled.clone())?;
        let not_after = loaded.certificate.not_after();
        self.metrics.certificate_ends(loaded.certificate.ends);
        self.current.store(Arc::new(loaded));
        if source.authorities != seen.authorities {
            self.authorities.send_replace(());
        }
        if source.files != seen.files {
            self.certificate.send_replace(());
        }
        *seen = source;
        tracing::info!(not_after, "certificate reloaded");
        Ok(())
    }

    /// Loads changed files until the shutdown.
    pub async fn follow(self: Arc<Self>, shutdown: CancellationToken) {
        let Some(directory) = &self.directory else {
            return shutdown.cancelled().await;
        };
        let first = self.source.lock().clone();
        let apply = |source: &Source| self.replace(source.clone());
        reload("certificate", first, || read(directory), apply, shutdown).await;
    }
}

fn read(directory: &Path) -> Result<Source, CredentialsError> {
    let files = Files::read(directory)?;
    let authorities = read_file(&directory.join(AUTHORITIES))?;
    Ok(Source { files, authorities })
}

fn load<S: Side>(
    source: &Source,
    enrolled: Option<Enrolled>,
) -> Result<Loaded<S>, CredentialsError> {
    let certificate = source.files.parse()?;
    let leaf = certificate.chain.end_entity_cert()?;
    let own = Identity::of(leaf)?;
    if !S::is_own(&own.role) {
        return Err(CredentialsError::Role(own));
    }
    let authorities = authorities(&source.authorities)?;
    let trust = Trust {
        authorities: authorities.clone(),
        enrolled,
    };
    Ok(Loaded {
        config: Arc::new(S::configure(&certificate, trust)?),
        authorities_pem: source.authorities.clone(),
        own,
        certificate,
        authorities,
    })
}
