//! Verification of agents' certificates at causeway-tunnel, by one authority or by two.
//!
//! causeway-tunnel has the key of the authority of enrolled agents. So a certificate of that
//! authority counts only if it is as short-lived as causeway-tunnel issues it.

use std::sync::Arc;
use std::time::Duration;

use causeway::verify_signatures_by;
use rustls::crypto::ring;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{VerifierBuilderError, WebPkiClientVerifier};
use rustls::{CertificateError, DistinguishedName, Error, RootCertStore};
use x509_parser::certificate::X509Certificate;
use x509_parser::prelude::FromDer as _;

/// Time by which a certificate may be dated back, for peers whose clock is behind.
const SKEW: Duration = Duration::from_secs(10 * 60);

/// Authorities of the other side.
pub struct Trust {
    /// Those of the directory.
    pub authorities: Arc<RootCertStore>,
    /// That of agents that enrolled; causeway-tunnel alone trusts it.
    pub enrolled: Option<Enrolled>,
}

/// Authority of agents that enrolled.
#[derive(Clone, Debug)]
pub struct Enrolled {
    /// Its certificate.
    pub authorities: Arc<RootCertStore>,
    /// Maximum validity of the certificates that it signs.
    pub life: Duration,
}

/// Returns the verifier of agents.
///
/// # Errors
/// [`VerifierBuilderError`] if an authority cannot be used.
pub fn of(trust: Trust) -> Result<Arc<dyn ClientCertVerifier>, VerifierBuilderError> {
    let provider = Arc::new(ring::default_provider());
    let by = |authorities| {
        WebPkiClientVerifier::builder_with_provider(authorities, provider.clone()).build()
    };
    let own = by(trust.authorities)?;
    Ok(match trust.enrolled {
        None => own,
        Some(enrolled) => Arc::new(Both {
            own,
            enrolled: by(enrolled.authorities)?,
            life: enrolled.life,
        }),
    })
}

/// Accepts certificates of both authorities.
#[derive(Debug)]
struct Both {
    own: Arc<dyn ClientCertVerifier>,
    enrolled: Arc<dyn ClientCertVerifier>,
    life: Duration,
}

impl ClientCertVerifier for Both {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        // An agent has one certificate.
        &[]
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let own = self.own.verify_client_cert(end_entity, intermediates, now);
        if own.is_ok() {
            return own;
        }
        let enrolled = self
            .enrolled
            .verify_client_cert(end_entity, intermediates, now);
        match enrolled {
            Ok(verified) => check_life(end_entity, self.life).map(|()| verified),
            Err(Error::InvalidCertificate(CertificateError::UnknownIssuer)) => own,
            Err(error) => Err(error),
        }
    }

    verify_signatures_by!(self, self.own);
}

fn check_life(certificate: &CertificateDer<'_>, most: Duration) -> Result<(), Error> {
    let (_, parsed) = X509Certificate::from_der(certificate)
        .map_err(|_| Error::InvalidCertificate(CertificateError::BadEncoding))?;
    let validity = parsed.validity();
    let (begins, ends) = (
        validity.not_before.timestamp(),
        validity.not_after.timestamp(),
    );
    let life = u64::try_from(ends.saturating_sub(begins)).unwrap_or(u64::MAX);
    match life <= most.saturating_add(SKEW).as_secs() {
        true => Ok(()),
        false => Err(Error::InvalidCertificate(
            CertificateError::ApplicationVerificationFailure,
        )),
    }
}
