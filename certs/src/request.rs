//! Requests of certificates (PKCS#10), of which the public key alone counts.

use std::time::SystemTime;

use rcgen::{
    CertificateParams, CertificateSigningRequestParams, DistinguishedName, KeyPair, PublicKey,
    PublicKeyData as _,
};

use crate::issue::{Authority, IssueError, Leaf};

/// Private key for which a certificate is requested.
pub struct RequestKey(KeyPair);

impl RequestKey {
    /// Creates a key, ECDSA P-256.
    ///
    /// # Errors
    /// [`IssueError::Sign`].
    pub fn new() -> Result<Self, IssueError> {
        Ok(Self(KeyPair::generate().map_err(IssueError::Sign)?))
    }

    /// Loads the key of an earlier [`RequestKey::pem`].
    ///
    /// # Errors
    /// [`IssueError::Load`].
    pub fn from_pem(pem: &str) -> Result<Self, IssueError> {
        Ok(Self(KeyPair::from_pem(pem).map_err(IssueError::Load)?))
    }

    /// Returns the key, PEM.
    #[must_use]
    pub fn pem(&self) -> String {
        self.0.serialize_pem()
    }

    /// Returns a request with nothing but the key, PEM, which proves that its sender has the key.
    ///
    /// # Errors
    /// [`IssueError::Sign`].
    pub fn request(&self) -> Result<String, IssueError> {
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        let request = params.serialize_request(&self.0);
        let pem = request.and_then(|request| request.pem());
        pem.map_err(IssueError::Sign)
    }
}

/// Request of a certificate, whose sender has proved to have the key.
#[derive(Debug)]
pub struct Request(PublicKey);

impl Request {
    /// Reads a request, PEM, and verifies its signature.
    ///
    /// # Errors
    /// [`IssueError::Request`].
    pub fn from_pem(pem: &str) -> Result<Self, IssueError> {
        let read = CertificateSigningRequestParams::from_pem(pem).map_err(IssueError::Request)?;
        Ok(Self(read.public_key))
    }

    /// Returns the public key as DER, a SubjectPublicKeyInfo (RFC 5280).
    #[must_use]
    pub fn key_der(&self) -> Vec<u8> {
        self.0.subject_public_key_info()
    }

    /// Has an authority sign a leaf with this key. Returns the certificate, PEM.
    ///
    /// # Errors
    /// As [`Authority::issue`].
    pub fn issue(
        &self,
        authority: &Authority,
        leaf: &Leaf,
        now: SystemTime,
    ) -> Result<String, IssueError> {
        authority.sign(&self.0, leaf, now)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use x509_parser::prelude::{FromDer as _, X509Certificate};

    use super::*;
    use crate::issue::Purpose;

    const DAY: Duration = Duration::from_secs(24 * 60 * 60);

    fn der(pem: &str) -> Vec<u8> {
        let (_, block) = x509_parser::pem::parse_x509_pem(pem.as_bytes()).expect("PEM");
        block.contents
    }

    #[test]
    fn certificate_has_the_key_of_the_request_and_nothing_else_of_it() {
        let now = SystemTime::UNIX_EPOCH + DAY * 20_000;
        let authority = Authority::new("enrolment", DAY * 10, now).expect("an authority");
        let key = KeyPair::generate().expect("a key");
        // It asks to be an authority, of another name.
        let mut params = CertificateParams::new(["edge2".to_owned()]).expect("names");
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let asked = params.serialize_request(&key).expect("a request");
        let request = Request::from_pem(&asked.pem().expect("PEM")).expect("a request");
        let leaf = Leaf {
            common_name: "edge1".to_owned(),
            uris: vec!["causeway://hub/member/edge1".to_owned()],
            validity: DAY,
            purpose: Purpose::Client,
            ..Leaf::default()
        };
        let issued = request.issue(&authority, &leaf, now).expect("one");
        let issued = der(&issued);
        let (_, read) = X509Certificate::from_der(&issued).expect("a certificate");
        assert_eq!(read.public_key().raw, request.key_der());
        assert_eq!(read.subject().to_string(), "CN=edge1");
        assert!(!read.is_ca());
        let names = read.subject_alternative_name().expect("names");
        assert_eq!(names.expect("a name").value.general_names.len(), 1);
    }

    #[test]
    fn request_that_another_key_signed_is_refused() {
        let [one, other] = [(); 2].map(|()| RequestKey::new().expect("a key"));
        let request = one.request().expect("a request");
        assert!(Request::from_pem(&request).is_ok());
        let again = RequestKey::from_pem(&one.pem()).expect("the same");
        let of = |key: &RequestKey| {
            let request = key.request().expect("a request");
            Request::from_pem(&request).expect("a request").key_der()
        };
        assert_eq!(of(&again), of(&one));
        // The key of the other in the request of the first.
        let (mut request, key) = (der(&request), of(&one));
        let at = request.windows(key.len()).position(|part| part == key);
        let at = at.expect("the key");
        request[at..at + key.len()].copy_from_slice(&of(&other));
        let mixed = pem::encode(&pem::Pem::new("CERTIFICATE REQUEST", request));
        let refused = Request::from_pem(&mixed);
        assert!(
            matches!(refused, Err(IssueError::Request(_))),
            "{refused:?}"
        );
        assert!(Request::from_pem("no request").is_err());
    }
}
