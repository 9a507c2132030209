//! The serving certificate, which changes while connections go on.
//!
//! The kubelet renews a mounted Secret by swapping a symlink, which a watch of the files misses, so
//! the webhook reads the files once a second. A handshake takes the current certificate. An
//! unusable certificate leaves the last valid one in place.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arc_swap::ArcSwapOption;
use k8s_openapi::jiff::Timestamp;
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, pem};
use rustls::server::{ClientHello, NoServerSessionStorage, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use tokio_util::sync::CancellationToken;
use x509_parser::certificate::X509Certificate;
use x509_parser::prelude::FromDer;

use crate::callers::Callers;
use crate::metrics::Metrics;
use crate::reload::reload;

const CERTIFICATE: &str = "tls.crt";
const KEY: &str = "tls.key";

/// Reason why a certificate cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read.
    #[error("cannot read {path}: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// The certificate file holds no certificate.
    #[error("{CERTIFICATE} holds no PEM certificate")]
    NoCertificate,
    /// A file is no PEM, or holds no key.
    #[error("{file} is not PEM: {source}")]
    Pem {
        /// The file.
        file: &'static str,
        /// Cause.
        source: pem::Error,
    },
    /// Key and certificate cannot be used, or not together.
    #[error("{KEY} and {CERTIFICATE} cannot be used together: {0}")]
    Unusable(#[from] rustls::Error),
    /// The certificate is no X.509.
    #[error("{CERTIFICATE} holds no X.509 certificate: {0}")]
    X509(String),
}

/// The two files, as read.
#[derive(Clone, PartialEq, Eq)]
struct Files {
    certificate: Vec<u8>,
    key: Vec<u8>,
}

/// A certificate with its key, ready to serve.
#[derive(Debug)]
pub struct Certificate {
    serving: Arc<CertifiedKey>,
    /// Begin of its validity, in seconds of Unix time.
    begins: i64,
    /// End of its validity, in seconds of Unix time.
    ends: i64,
}

impl Certificate {
    /// Parses a certificate chain and its key, both PEM.
    pub(crate) fn parse(certificate: &[u8], key: &[u8]) -> Result<Self, TlsError> {
        let chain: Vec<_> = CertificateDer::pem_slice_iter(certificate)
            .collect::<Result<_, _>>()
            .map_err(|source| TlsError::Pem {
                file: CERTIFICATE,
                source,
            })?;
        let leaf = chain.first().ok_or(TlsError::NoCertificate)?;
        let (_, parsed) =
            X509Certificate::from_der(leaf).map_err(|error| TlsError::X509(error.to_string()))?;
        let validity = parsed.validity();
        let begins = validity.not_before.timestamp();
        let ends = validity.not_after.timestamp();
        let key = PrivateKeyDer::from_pem_slice(key)
            .map_err(|source| TlsError::Pem { file: KEY, source })?;
        let serving = CertifiedKey::from_der(chain, key, &ring::default_provider())?;
        Ok(Self {
            serving: Arc::new(serving),
            begins,
            ends,
        })
    }

    /// Returns the end of its validity as RFC 3339, UTC.
    pub(crate) fn not_after(&self) -> String {
        let moment = Timestamp::from_second(self.ends);
        moment.map_or_else(
            |_| "beyond the year 9999".to_owned(),
            |moment| moment.to_string(),
        )
    }
}

/// Reads the certificate of a directory.
///
/// # Errors
/// [`TlsError`] if it cannot be used.
pub fn read(dir: &Path) -> Result<Certificate, TlsError> {
    let files = read_files(dir)?;
    Certificate::parse(&files.certificate, &files.key)
}

fn read_files(dir: &Path) -> Result<Files, TlsError> {
    let read = |name| {
        let path = dir.join(name);
        std::fs::read(&path).map_err(|source| TlsError::Read { path, source })
    };
    Ok(Files {
        certificate: read(CERTIFICATE)?,
        key: read(KEY)?,
    })
}

/// Gives each handshake the current certificate. Without one handshakes fail.
#[derive(Debug, Default)]
pub struct Resolver(ArcSwapOption<CertifiedKey>);

impl Resolver {
    /// Creates a resolver with a first certificate.
    pub fn new(certificate: Certificate, metrics: &Metrics) -> Self {
        let resolver = Self::default();
        resolver.swap(certificate, metrics);
        resolver
    }

    /// Replaces the certificate.
    pub(crate) fn swap(&self, certificate: Certificate, metrics: &Metrics) {
        metrics.certificate_is_valid(certificate.begins, certificate.ends);
        if self.0.swap(Some(certificate.serving)).is_some() {
            metrics.certificate_rotated();
        }
    }
}

impl ResolvesServerCert for Resolver {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.0.load_full()
    }
}

/// Returns the configuration of TLS 1.2 and 1.3, for HTTP/1.1, and for any client or permitted
/// ones.
///
/// Sessions are not resumed: API servers do not request it, and a resumed session would not verify
/// the client's certificate.
///
/// # Errors
/// [`rustls::Error`] if the crypto provider does not suffice.
pub fn server_config(
    resolver: Arc<Resolver>,
    callers: Option<Arc<Callers>>,
) -> Result<ServerConfig, rustls::Error> {
    let builder = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?;
    let builder = match callers {
        Some(callers) => builder.with_client_cert_verifier(callers),
        None => builder.with_no_client_auth(),
    };
    let mut config = builder.with_cert_resolver(resolver);
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(config)
}

/// Loads changed certificates of a directory until the shutdown. It reads the two small files in
/// place, without a blocking thread: a mounted Secret is in memory.
pub async fn follow(
    dir: PathBuf,
    resolver: Arc<Resolver>,
    metrics: Metrics,
    shutdown: CancellationToken,
) {
    let mut loaded = read_files(&dir).ok();
    let mut load = || -> Result<(), TlsError> {
        let files = read_files(&dir)?;
        if loaded.as_ref() != Some(&files) {
            let certificate = Certificate::parse(&files.certificate, &files.key)?;
            let not_after = certificate.not_after();
            resolver.swap(certificate, &metrics);
            loaded = Some(files);
            tracing::info!(not_after, "serving certificate reloaded");
        }
        Ok(())
    };
    let load = || load().inspect_err(|_| metrics.certificate_rotation_failed());
    reload("serving certificate", load, shutdown).await;
}
