//! Issuing: a certificate authority and its leaves, as PEM. Nothing here reads a clock, a file or
//! the network.

use std::net::IpAddr;
use std::time::{Duration, SystemTime};

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose, PublicKeyData, SanType,
};

/// Time by which certificates are dated back, for peers whose clock is behind. A short-lived one is
/// dated back by at most a tenth of its validity, so that its age follows from its dates.
const CLOCK_SKEW: Duration = Duration::from_secs(5 * 60);
const SKEW_SHARE: u32 = 10;

/// Error of issuing a certificate or loading an authority.
#[derive(Debug, thiserror::Error)]
pub enum IssueError {
    /// A name that is no ASCII DNS name, or a URI that is not ASCII.
    #[error("invalid name for a certificate: {name:?}")]
    Name {
        /// The requested name.
        name: String,
        /// Cause.
        source: rcgen::Error,
    },
    /// The stored certificate or key of an authority does not decode.
    #[error("cannot load the stored certificate authority")]
    Load(#[source] rcgen::Error),
    /// A time before 1970 or beyond the range of a certificate.
    #[error("time of issue is out of the range of a certificate")]
    Time,
    /// A request of a certificate that cannot be read, or whose signature is another key's.
    #[error("invalid request of a certificate")]
    Request(#[source] rcgen::Error),
    /// Failed generation of a key or signature.
    #[error("cannot sign a certificate")]
    Sign(#[source] rcgen::Error),
}

/// Side of a connection that a leaf may authenticate: its extended key usage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Purpose {
    /// A server.
    #[default]
    Server,
    /// A client.
    Client,
}

/// Contents of a leaf certificate.
#[derive(Clone, Debug, Default)]
pub struct Leaf {
    /// Common name of the subject; the user name in a client certificate (Kubernetes, "X509 client
    /// certificates").
    pub common_name: String,
    /// Organisation of the subject; the user's group in a client certificate.
    pub organisation: Option<String>,
    /// DNS names of the certificate.
    pub names: Vec<String>,
    /// IP addresses of the certificate.
    pub addresses: Vec<IpAddr>,
    /// URIs of the certificate.
    pub uris: Vec<String>,
    /// Validity from the moment of issue.
    pub validity: Duration,
    /// Only extended key usage.
    pub purpose: Purpose,
}

/// A certificate and its private key, both PEM; the key is PKCS#8.
#[derive(Clone)]
pub struct Credentials {
    /// The certificate.
    pub certificate: String,
    /// The private key.
    pub key: String,
}

impl std::fmt::Debug for Credentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Credentials")
            .field("certificate", &self.certificate)
            .finish_non_exhaustive()
    }
}

/// A certificate authority: an ECDSA P-256 key and its self-signed certificate.
#[derive(Debug)]
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    certificate: String,
}

impl Authority {
    /// Creates an authority with a new key, valid from `now` for `validity`.
    ///
    /// # Errors
    /// [`IssueError::Time`] and [`IssueError::Sign`].
    pub fn new(common_name: &str, validity: Duration, now: SystemTime) -> Result<Self, IssueError> {
        let mut params = dated(validity, now)?;
        params
            .distinguished_name
            .push(DnType::CommonName, common_name);
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![
            KeyUsagePurpose::KeyCertSign,
            KeyUsagePurpose::CrlSign,
            KeyUsagePurpose::DigitalSignature,
        ];
        let key = KeyPair::generate().map_err(IssueError::Sign)?;
        let certificate = params.self_signed(&key).map_err(IssueError::Sign)?.pem();
        Ok(Self {
            issuer: Issuer::new(params, key),
            certificate,
        })
    }

    /// Loads the PEM certificate and private key of an earlier [`Authority::new`].
    ///
    /// # Errors
    /// [`IssueError::Load`].
    pub fn from_pem(certificate: &str, key: &str) -> Result<Self, IssueError> {
        let key = KeyPair::from_pem(key).map_err(IssueError::Load)?;
        let issuer = Issuer::from_ca_cert_pem(certificate, key).map_err(IssueError::Load)?;
        Ok(Self {
            issuer,
            certificate: certificate.to_owned(),
        })
    }

    /// Returns the certificate, PEM, which peers must trust.
    #[must_use]
    pub fn pem(&self) -> &str {
        &self.certificate
    }

    /// Returns the private key, PEM.
    #[must_use]
    pub fn key_pem(&self) -> String {
        self.issuer.key().serialize_pem()
    }

    /// Signs a leaf with a new key.
    ///
    /// # Errors
    /// [`IssueError::Name`], [`IssueError::Time`] and [`IssueError::Sign`].
    pub fn issue(&self, leaf: &Leaf, now: SystemTime) -> Result<Credentials, IssueError> {
        let key = KeyPair::generate().map_err(IssueError::Sign)?;
        Ok(Credentials {
            certificate: self.sign(&key, leaf, now)?,
            key: key.serialize_pem(),
        })
    }

    /// Signs a leaf with that key. Returns the certificate, PEM.
    pub(crate) fn sign(
        &self,
        key: &impl PublicKeyData,
        leaf: &Leaf,
        now: SystemTime,
    ) -> Result<String, IssueError> {
        let mut params = dated(leaf.validity, now)?;
        let subject = &mut params.distinguished_name;
        subject.push(DnType::CommonName, leaf.common_name.as_str());
        if let Some(organisation) = &leaf.organisation {
            subject.push(DnType::OrganizationName, organisation.as_str());
        }
        params.subject_alt_names = alternative_names(leaf)?;
        params.use_authority_key_identifier_extension = true;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![match leaf.purpose {
            Purpose::Server => ExtendedKeyUsagePurpose::ServerAuth,
            Purpose::Client => ExtendedKeyUsagePurpose::ClientAuth,
        }];
        let certificate = params.signed_by(key, &self.issuer);
        Ok(certificate.map_err(IssueError::Sign)?.pem())
    }
}

fn dated(validity: Duration, now: SystemTime) -> Result<CertificateParams, IssueError> {
    let since_epoch = now
        .duration_since(SystemTime::UNIX_EPOCH)
        .map_err(|_| IssueError::Time)?;
    let moment = |after_epoch: Duration| {
        let after_epoch = after_epoch.try_into().map_err(|_| IssueError::Time)?;
        rcgen::date_time_ymd(1970, 1, 1)
            .checked_add(after_epoch)
            .ok_or(IssueError::Time)
    };
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    let skew = CLOCK_SKEW.min(validity / SKEW_SHARE);
    params.not_before = moment(since_epoch.saturating_sub(skew))?;
    params.not_after = moment(since_epoch.saturating_add(validity))?;
    Ok(params)
}

fn alternative_names(leaf: &Leaf) -> Result<Vec<SanType>, IssueError> {
    let ascii = |name: &String| {
        let ascii = name.as_str().try_into();
        ascii.map_err(|source| IssueError::Name {
            name: name.clone(),
            source,
        })
    };
    let named = leaf
        .names
        .iter()
        .map(|name| ascii(name).map(SanType::DnsName));
    let addressed = leaf.addresses.iter().map(|ip| Ok(SanType::IpAddress(*ip)));
    let located = leaf.uris.iter().map(|uri| ascii(uri).map(SanType::URI));
    named.chain(addressed).chain(located).collect()
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use x509_parser::prelude::{FromDer as _, GeneralName, X509Certificate};

    use super::*;

    const DAY: Duration = Duration::from_secs(24 * 60 * 60);

    fn now() -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000)
    }

    fn webhook() -> Leaf {
        Leaf {
            common_name: "causeway-webhook".to_owned(),
            organisation: Some("causeway".to_owned()),
            names: vec!["causeway-webhook.causeway-system.svc".to_owned()],
            addresses: vec![Ipv4Addr::LOCALHOST.into()],
            uris: vec!["causeway://hub/tunnel".to_owned()],
            validity: DAY,
            purpose: Purpose::Server,
        }
    }

    fn der(pem: &str) -> Vec<u8> {
        x509_parser::pem::parse_x509_pem(pem.as_bytes())
            .unwrap()
            .1
            .contents
    }

    #[test]
    fn a_leaf_is_signed_by_its_authority_and_no_other() {
        let ours = Authority::new("ours", 10 * DAY, now()).unwrap();
        let other = Authority::new("other", 10 * DAY, now()).unwrap();
        let leaf = der(&ours.issue(&webhook(), now()).unwrap().certificate);
        let (_, leaf) = X509Certificate::from_der(&leaf).unwrap();
        for (authority, signed) in [(&ours, true), (&other, false)] {
            let authority = der(authority.pem());
            let (_, authority) = X509Certificate::from_der(&authority).unwrap();
            assert!(authority.is_ca());
            assert_eq!(
                leaf.verify_signature(Some(authority.public_key())).is_ok(),
                signed
            );
        }
    }

    #[test]
    fn leaf_holds_its_subject_names_and_validity() {
        let authority = Authority::new("ours", 10 * DAY, now()).unwrap();
        let leaf = der(&authority.issue(&webhook(), now()).unwrap().certificate);
        let (_, leaf) = X509Certificate::from_der(&leaf).unwrap();
        assert_eq!(
            leaf.subject().to_string(),
            "CN=causeway-webhook, O=causeway"
        );
        let names = leaf.subject_alternative_name().unwrap().unwrap();
        assert_eq!(
            names.value.general_names,
            [
                GeneralName::DNSName("causeway-webhook.causeway-system.svc"),
                GeneralName::IPAddress(&[127, 0, 0, 1]),
                GeneralName::URI("causeway://hub/tunnel"),
            ]
        );
        assert_eq!(
            leaf.validity().not_before.timestamp(),
            1_800_000_000 - 5 * 60
        );
        assert_eq!(
            leaf.validity().not_after.timestamp(),
            1_800_000_000 + 24 * 60 * 60
        );
        assert!(!leaf.is_ca());
    }

    #[test]
    fn leaf_has_its_purpose_as_only_extended_key_usage() {
        let authority = Authority::new("ours", 10 * DAY, now()).unwrap();
        for (purpose, server, client) in [
            (Purpose::Server, true, false),
            (Purpose::Client, false, true),
        ] {
            let leaf = Leaf {
                purpose,
                ..webhook()
            };
            let leaf = der(&authority.issue(&leaf, now()).unwrap().certificate);
            let (_, leaf) = X509Certificate::from_der(&leaf).unwrap();
            let usage = leaf.extended_key_usage().unwrap().unwrap().value;
            assert_eq!((usage.server_auth, usage.client_auth), (server, client));
            assert!(!usage.any && usage.other.is_empty(), "{usage:?}");
        }
    }

    #[test]
    fn an_authority_that_was_stored_goes_on_signing() {
        let first = Authority::new("ours", 10 * DAY, now()).unwrap();
        let stored = Authority::from_pem(first.pem(), &first.key_pem()).unwrap();
        assert_eq!(stored.pem(), first.pem());
        let leaf = der(&stored.issue(&webhook(), now()).unwrap().certificate);
        let (_, leaf) = X509Certificate::from_der(&leaf).unwrap();
        let authority = der(first.pem());
        let (_, authority) = X509Certificate::from_der(&authority).unwrap();
        leaf.verify_signature(Some(authority.public_key())).unwrap();
        assert_eq!(leaf.issuer(), authority.subject());
    }

    #[test]
    fn invalid_name_or_time_is_an_error() {
        let authority = Authority::new("ours", DAY, now()).unwrap();
        let odd = Leaf {
            names: vec!["gr\u{fc}n.example".to_owned()],
            ..webhook()
        };
        let error = authority.issue(&odd, now()).unwrap_err();
        assert!(matches!(error, IssueError::Name { .. }), "{error}");
        let endless = Leaf {
            validity: Duration::MAX,
            ..webhook()
        };
        let error = authority.issue(&endless, now()).unwrap_err();
        assert!(matches!(error, IssueError::Time), "{error}");
        let error = Authority::from_pem("no certificate", "no key").unwrap_err();
        assert!(matches!(error, IssueError::Load(_)), "{error}");
    }
}
