//! Verification of a server that presents a certificate of the bundle itself.
//!
//! Go's verifier trusts a certificate that is among the authorities although it is none, and
//! cluster managers rely on it: Open Cluster Management gives the certificate of its proxy as the
//! authority of a ClusterProfile. rustls looks for the issuer alone.

use std::sync::Arc;

use rustls::client::danger::{ServerCertVerified, ServerCertVerifier};
use rustls::client::{VerifierBuilderError, WebPkiServerVerifier, verify_server_name};
use rustls::crypto::ring::default_provider;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, Error, RootCertStore};

/// Implements the verification of signatures for a verifier of certificates, by another verifier.
#[macro_export]
macro_rules! verify_signatures_by {
    ($self:ident, $verifier:expr) => {
        fn verify_tls12_signature(
            &$self,
            message: &[u8],
            certificate: &::rustls::pki_types::CertificateDer<'_>,
            signed: &::rustls::DigitallySignedStruct,
        ) -> Result<::rustls::client::danger::HandshakeSignatureValid, ::rustls::Error> {
            $verifier.verify_tls12_signature(message, certificate, signed)
        }

        fn verify_tls13_signature(
            &$self,
            message: &[u8],
            certificate: &::rustls::pki_types::CertificateDer<'_>,
            signed: &::rustls::DigitallySignedStruct,
        ) -> Result<::rustls::client::danger::HandshakeSignatureValid, ::rustls::Error> {
            $verifier.verify_tls13_signature(message, certificate, signed)
        }

        fn supported_verify_schemes(&$self) -> Vec<::rustls::SignatureScheme> {
            $verifier.supported_verify_schemes()
        }
    };
}

/// Verifier of servers by authorities, or by a certificate of theirs in the same bundle.
#[derive(Debug)]
pub(super) struct Pinned {
    authorities: Arc<WebPkiServerVerifier>,
    certificates: Vec<CertificateDer<'static>>,
}

impl Pinned {
    /// Returns the verifier by that bundle.
    ///
    /// # Errors
    /// The bundle is empty.
    pub(super) fn new(bundle: &[Vec<u8>]) -> Result<Self, VerifierBuilderError> {
        let certificates: Vec<_> = bundle.iter().cloned().map(CertificateDer::from).collect();
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(certificates.iter().cloned());
        let provider = Arc::new(default_provider());
        let authorities = WebPkiServerVerifier::builder_with_provider(roots.into(), provider);
        Ok(Self {
            authorities: authorities.build()?,
            certificates,
        })
    }
}

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let verified = self.authorities.verify_server_cert(
            end_entity,
            intermediates,
            server_name,
            ocsp_response,
            now,
        );
        match verified {
            // The times of the certificate are checked before its issuer is looked for.
            Err(Error::InvalidCertificate(CertificateError::UnknownIssuer))
                if self.certificates.contains(end_entity) =>
            {
                verify_server_name(&ParsedCertificate::try_from(end_entity)?, server_name)?;
                Ok(ServerCertVerified::assertion())
            }
            verified => verified,
        }
    }

    verify_signatures_by!(self, self.authorities);
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use causeway_certs::{Authority, Leaf};
    use rustls::pki_types::pem::PemObject as _;

    use super::*;

    const DAY: Duration = Duration::from_secs(24 * 3600);

    fn der(pem: &str) -> Vec<u8> {
        let certificate = CertificateDer::from_pem_slice(pem.as_bytes());
        certificate.expect("a certificate").to_vec()
    }

    #[test]
    fn a_server_is_verified_by_its_authority_or_by_its_own_certificate() {
        let now = SystemTime::now();
        let authority = Authority::new("manager", DAY, now).expect("an authority");
        let issue = || {
            let leaf = Leaf {
                common_name: "proxy".to_owned(),
                names: vec!["proxy.example".to_owned()],
                validity: DAY,
                ..Leaf::default()
            };
            let issued = authority.issue(&leaf, now).expect("a certificate");
            der(&issued.certificate)
        };
        let (own, other) = (issue(), issue());
        let verify = |bundle: Vec<Vec<u8>>, name: &'static str, at: SystemTime| {
            let since = at.duration_since(SystemTime::UNIX_EPOCH).expect("a time");
            let pinned = Pinned::new(&bundle).expect("a verifier");
            let name = ServerName::try_from(name).expect("a name");
            let at = UnixTime::since_unix_epoch(since);
            let end_entity = CertificateDer::from(own.clone());
            let verified = pinned.verify_server_cert(&end_entity, &[], &name, &[], at);
            verified.map(|_| ()).map_err(|error| error.to_string())
        };
        let by_authority = vec![der(authority.pem())];
        assert_eq!(verify(by_authority.clone(), "proxy.example", now), Ok(()));
        assert_eq!(verify(vec![own.clone()], "proxy.example", now), Ok(()));
        assert_eq!(
            verify(vec![other.clone(), own.clone()], "proxy.example", now),
            Ok(())
        );
        for (bundle, name, at, why) in [
            (vec![other], "proxy.example", now, "UnknownIssuer"),
            (
                vec![own.clone()],
                "elsewhere.example",
                now,
                "not valid for name",
            ),
            (vec![own.clone()], "proxy.example", now + 2 * DAY, "expired"),
            (by_authority, "elsewhere.example", now, "not valid for name"),
        ] {
            let error = verify(bundle, name, at).expect_err(why);
            assert!(error.contains(why), "{error}");
        }
    }
}
