//! The certificate of a process and the authorities that it trusts, as files of PEM.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;
use rustls::RootCertStore;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, pem};
use rustls::sign::CertifiedKey;
use x509_parser::certificate::X509Certificate;
use x509_parser::prelude::FromDer;

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

/// Reads the certificate of a directory.
///
/// # Errors
/// [`TlsError`] if it cannot be used.
pub fn read(dir: &Path) -> Result<Certificate, TlsError> {
    Files::read(dir)?.parse()
}

/// The two files of a certificate, as read.
#[derive(Clone, PartialEq, Eq)]
pub struct Files {
    certificate: Vec<u8>,
    key: Vec<u8>,
}

/// Prints neither file: one is a private key.
impl fmt::Debug for Files {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Files").finish_non_exhaustive()
    }
}

impl Files {
    /// Returns files with these contents, PEM.
    pub fn new(certificate: Vec<u8>, key: Vec<u8>) -> Self {
        Self { certificate, key }
    }

    /// Reads `tls.crt` and `tls.key` of a directory.
    ///
    /// # Errors
    /// [`TlsError::Read`].
    pub fn read(dir: &Path) -> Result<Self, TlsError> {
        Ok(Self {
            certificate: read_file(&dir.join(CERTIFICATE))?,
            key: read_file(&dir.join(KEY))?,
        })
    }

    /// Parses both files.
    ///
    /// # Errors
    /// As [`Certificate::parse`].
    pub fn parse(&self) -> Result<Certificate, TlsError> {
        Certificate::parse(&self.certificate, &self.key)
    }
}

/// Reads a file.
///
/// # Errors
/// [`TlsError::Read`].
pub fn read_file(path: &Path) -> Result<Vec<u8>, TlsError> {
    std::fs::read(path).map_err(|source| TlsError::Read {
        path: path.to_owned(),
        source,
    })
}

/// A certificate with its key, ready for handshakes.
#[derive(Debug)]
pub struct Certificate {
    /// The chain with its key.
    pub chain: Arc<CertifiedKey>,
    /// Begin of its validity, in seconds of Unix time.
    pub begins: i64,
    /// End of its validity, in seconds of Unix time.
    pub ends: i64,
}

impl Certificate {
    /// Parses a certificate chain and its key, both PEM.
    ///
    /// # Errors
    /// [`TlsError`] if they cannot be used.
    pub fn parse(certificate: &[u8], key: &[u8]) -> Result<Self, TlsError> {
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
        let chain = CertifiedKey::from_der(chain, key, &ring::default_provider())?;
        Ok(Self {
            chain: Arc::new(chain),
            begins,
            ends,
        })
    }

    /// Returns the end of its validity as RFC 3339, UTC.
    pub fn not_after(&self) -> String {
        let moment = Timestamp::from_second(self.ends);
        moment.map_or_else(
            |_| "beyond the year 9999".to_owned(),
            |moment| moment.to_string(),
        )
    }
}

/// Error of a bundle of authorities.
#[derive(Debug, thiserror::Error)]
pub enum AuthoritiesError {
    /// The bundle is not PEM.
    #[error("not PEM: {0}")]
    Pem(#[from] pem::Error),
    /// A certificate of the bundle is invalid.
    #[error("a certificate is invalid: {0}")]
    Certificate(#[from] rustls::Error),
    /// The bundle holds no certificate.
    #[error("no PEM certificate found")]
    Empty,
}

/// Parses a bundle of authorities, PEM.
///
/// # Errors
/// [`AuthoritiesError`] if a certificate is invalid, or there is none.
pub fn authorities(bundle: &[u8]) -> Result<Arc<RootCertStore>, AuthoritiesError> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(bundle) {
        roots.add(certificate?)?;
    }
    match roots.is_empty() {
        true => Err(AuthoritiesError::Empty),
        false => Ok(Arc::new(roots)),
    }
}
