//! Permitted callers: client certificates (mutual TLS), where they are required.
//!
//! Without them any client that reaches the port can request decisions. With `--client-ca` a
//! handshake succeeds only with a certificate of that authority, and no byte reaches the parser of
//! requests before. An API server presents a certificate if its AdmissionConfiguration names one.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arc_swap::ArcSwap;
use causeway::process::args::Checks;
use causeway::process::certificate::{AuthoritiesError, TlsError, authorities, read_file};
use causeway::process::reload::reload;
use causeway::process::supervise::with_causes;
use causeway::verify_signatures_by;
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{VerifierBuilderError, WebPkiClientVerifier};
use rustls::{CertificateError, DistinguishedName, Error};
use tokio_util::sync::CancellationToken;
use x509_parser::certificate::X509Certificate;
use x509_parser::prelude::{FromDer, GeneralName};

/// Flags of the permitted callers.
#[derive(clap::Args, Clone, Debug)]
#[command(next_help_heading = "Callers")]
pub struct CallerArgs {
    /// PEM file of the authorities of client certificates. Without a certificate of them a
    /// connection is refused. A changed file is loaded within seconds
    #[arg(long, env = "CAUSEWAY_CLIENT_CA", value_name = "FILE")]
    client_ca: Option<PathBuf>,
    /// Common name or DNS name that a client certificate must have; any if not given. Repeatable
    #[arg(
        long,
        env = "CAUSEWAY_CLIENT_NAME",
        value_name = "NAME",
        value_delimiter = ','
    )]
    client_name: Vec<String>,
}

/// Error of loading the authorities of clients.
#[derive(Debug, thiserror::Error)]
pub enum CallersError {
    /// The file cannot be read.
    #[error(transparent)]
    Read(#[from] TlsError),
    /// The file is no bundle of authorities.
    #[error(transparent)]
    Authorities(#[from] AuthoritiesError),
    /// The certificates cannot be used together.
    #[error("certificates cannot be used together: {0}")]
    Unusable(#[from] VerifierBuilderError),
}

impl CallerArgs {
    /// Checks the flags and reads the file; `Some(None)` if any caller is permitted.
    pub fn check(&self, checks: &mut Checks) -> Option<Option<Arc<Callers>>> {
        let Some(path) = &self.client_ca else {
            if !self.client_name.is_empty() {
                checks.wrong(
                    "--client-name",
                    self.client_name.join(","),
                    "needs --client-ca: without it no certificate is requested",
                );
            }
            return Some(None);
        };
        match Callers::read(path, &self.client_name) {
            Ok(callers) => Some(Some(Arc::new(callers))),
            Err(error) => {
                checks.wrong("--client-ca", path.display(), with_causes(&error));
                None
            }
        }
    }
}

/// Permitted callers: clients with a certificate of the authorities of a file, for one of the names
/// if there are any.
#[derive(Debug)]
pub struct Callers {
    path: PathBuf,
    names: Vec<String>,
    first: Vec<u8>,
    verifier: ArcSwap<Verifier>,
    provider: Arc<CryptoProvider>,
}

type Verifier = Arc<dyn ClientCertVerifier>;

impl Callers {
    /// Reads the authorities from a file.
    ///
    /// # Errors
    /// [`CallersError`] if they cannot be used.
    pub fn read(path: &Path, names: &[String]) -> Result<Self, CallersError> {
        let provider = Arc::new(ring::default_provider());
        let first = read_file(path)?;
        let verifier = verifier(&first, &provider)?;
        Ok(Self {
            path: path.to_owned(),
            names: names.to_vec(),
            first,
            verifier: ArcSwap::from_pointee(verifier),
            provider,
        })
    }

    /// Loads changed authorities until the shutdown. Open connections are not verified again.
    pub async fn follow(self: Arc<Self>, shutdown: CancellationToken) {
        let read = || read_file(&self.path).map_err(CallersError::from);
        let apply = |file: &Vec<u8>| {
            let verifier = verifier(file, &self.provider)?;
            self.verifier.store(Arc::new(verifier));
            tracing::info!("client CA reloaded");
            Ok(())
        };
        reload("client CA", self.first.clone(), read, apply, shutdown).await;
    }

    /// Whether a certificate has one of the names.
    fn is_named(&self, certificate: &CertificateDer<'_>) -> bool {
        if self.names.is_empty() {
            return true;
        }
        let Ok((_, certificate)) = X509Certificate::from_der(certificate) else {
            return false;
        };
        let common = certificate.subject().iter_common_name();
        let common = common.filter_map(|name| name.as_str().ok());
        let alternative = certificate.subject_alternative_name().ok().flatten();
        let alternative = alternative
            .iter()
            .flat_map(|names| &names.value.general_names);
        let dns = alternative.filter_map(|name| match name {
            GeneralName::DNSName(name) => Some(*name),
            _ => None,
        });
        let named = common
            .chain(dns)
            .any(|name| self.names.iter().any(|let_in| let_in == name));
        if !named {
            let subject = certificate.subject();
            tracing::warn!(%subject, "client certificate rejected: --client-name has none of its names");
        }
        named
    }
}

impl ClientCertVerifier for Callers {
    /// Returns no hint: the authorities may change, and a client has one certificate.
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let verifier = self.verifier.load();
        let verified = verifier.verify_client_cert(end_entity, intermediates, now)?;
        if !self.is_named(end_entity) {
            let failure = CertificateError::ApplicationVerificationFailure;
            return Err(Error::InvalidCertificate(failure));
        }
        Ok(verified)
    }

    verify_signatures_by!(self, self.verifier.load());
}

fn verifier(file: &[u8], provider: &Arc<CryptoProvider>) -> Result<Verifier, CallersError> {
    let roots = authorities(file)?;
    let builder = WebPkiClientVerifier::builder_with_provider(roots, Arc::clone(provider));
    Ok(builder.build()?)
}
