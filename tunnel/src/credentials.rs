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
use rustls::client::Resumption;
use rustls::crypto::ring;
use rustls::server::{NoServerSessionStorage, VerifierBuilderError, WebPkiClientVerifier};
use rustls::sign::SingleCertAndKey;
use rustls::version::TLS13;
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::hello::ALPN;
use crate::identity::{Identity, IdentityError, Role};
use crate::metrics::Metrics;

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
    fn configure(
        certificate: &Certificate,
        authorities: Arc<RootCertStore>,
    ) -> Result<Self, CredentialsError>;
}

impl Side for ServerConfig {
    fn is_own(role: &Role) -> bool {
        *role == Role::Tunnel
    }

    fn configure(
        certificate: &Certificate,
        authorities: Arc<RootCertStore>,
    ) -> Result<Self, CredentialsError> {
        let provider = Arc::new(ring::default_provider());
        let agents = WebPkiClientVerifier::builder_with_provider(authorities, provider.clone());
        let own = SingleCertAndKey::from(certificate.chain.clone());
        let mut config = Self::builder_with_provider(provider)
            .with_protocol_versions(&[&TLS13])?
            .with_client_cert_verifier(agents.build()?)
            .with_cert_resolver(Arc::new(own));
        config.alpn_protocols = vec![ALPN.to_vec()];
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        Ok(config)
    }
}

impl Side for ClientConfig {
    fn is_own(role: &Role) -> bool {
        matches!(role, Role::Member(_))
    }

    fn configure(
        certificate: &Certificate,
        authorities: Arc<RootCertStore>,
    ) -> Result<Self, CredentialsError> {
        let own = SingleCertAndKey::from(certificate.chain.clone());
        let mut config = Self::builder_with_provider(Arc::new(ring::default_provider()))
            .with_protocol_versions(&[&TLS13])?
            .with_root_certificates(authorities)
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
    /// End of the certificate's validity, in seconds of Unix time.
    pub ends: i64,
}

/// The credentials of one side, with the files that they were made from.
pub struct Credentials<S> {
    directory: PathBuf,
    current: ArcSwap<Loaded<S>>,
    first: (Files, Vec<u8>),
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
        let first = read(directory)?;
        let (loaded, _) = load::<S>(&first)?;
        metrics.certificate_ends(loaded.ends);
        Ok(Arc::new(Self {
            directory: directory.to_owned(),
            current: ArcSwap::from_pointee(loaded),
            first,
            authorities: watch::Sender::new(()),
            certificate: watch::Sender::new(()),
            metrics: metrics.clone(),
        }))
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

    /// Loads changed files until the shutdown.
    pub async fn follow(self: Arc<Self>, shutdown: CancellationToken) {
        let mut seen = self.first.clone();
        let load = || -> Result<(), CredentialsError> {
            let files = read(&self.directory)?;
            if files != seen {
                let (loaded, not_after) = load::<S>(&files)?;
                self.metrics.certificate_ends(loaded.ends);
                self.current.store(Arc::new(loaded));
                if files.1 != seen.1 {
                    self.authorities.send_replace(());
                }
                if files.0 != seen.0 {
                    self.certificate.send_replace(());
                }
                seen = files;
                tracing::info!(not_after, "certificate reloaded");
            }
            Ok(())
        };
        reload("certificate", load, shutdown).await;
    }
}

fn read(directory: &Path) -> Result<(Files, Vec<u8>), CredentialsError> {
    let files = Files::read(directory)?;
    Ok((files, read_file(&directory.join(AUTHORITIES))?))
}

/// Parses files, and returns the end of the certificate's validity too.
fn load<S: Side>(files: &(Files, Vec<u8>)) -> Result<(Loaded<S>, String), CredentialsError> {
    let certificate = files.0.parse()?;
    let leaf = certificate.chain.end_entity_cert()?;
    let own = Identity::of(leaf)?;
    if !S::is_own(&own.role) {
        return Err(CredentialsError::Role(own));
    }
    let config = Arc::new(S::configure(&certificate, authorities(&files.1)?)?);
    let ends = certificate.ends;
    Ok((Loaded { config, own, ends }, certificate.not_after()))
}
