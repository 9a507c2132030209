//! Identities in certificates: the hub and the role, as the one URI of the scheme `causeway` among
//! the alternative names.
//!
//! `causeway://<UID of the hub>/tunnel` is causeway-tunnel,
//! `causeway://<UID of the hub>/controller` is causeway-controller,
//! `causeway://<UID of the hub>/member/<name>` is the agent of a member.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use causeway::domain::{ClusterName, NameError};
use rustls::pki_types::CertificateDer;
use x509_parser::certificate::X509Certificate;
use x509_parser::prelude::{FromDer, GeneralName};

use crate::enrolment::LIFE;

/// Time by which a certificate is dated back, at most.
const SKEW: Duration = Duration::from_secs(60 * 60);
const SCHEME: &str = "causeway://";
const UID_MAX: usize = 64;

/// Identity of one side of a tunnel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// UID of the hub's namespace kube-system.
    pub hub: Arc<str>,
    /// Role of the side.
    pub role: Role,
}

/// Role of one side of a tunnel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Role {
    /// causeway-tunnel.
    Tunnel,
    /// causeway-controller.
    Controller,
    /// The agent of a member.
    Member(ClusterName),
}

/// Reason why a certificate gives no identity, or not the expected one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IdentityError {
    /// The peer presents no certificate.
    #[error("the peer presents no certificate")]
    NoCertificate,
    /// The certificate is no X.509.
    #[error("the certificate cannot be read")]
    Unreadable,
    /// The certificate names no identity.
    #[error("the certificate has no URI {SCHEME}<UID of the hub>/...")]
    Absent,
    /// The certificate names several identities.
    #[error("the certificate has more than one URI {SCHEME}...")]
    Ambiguous,
    /// The URI has another form.
    #[error("{0:?} is not {SCHEME}<UID>/ with tunnel, controller or member/<name>")]
    Malformed(String),
    /// The name is no cluster's.
    #[error("{uri:?}: {why}")]
    Name {
        /// The URI.
        uri: String,
        /// Cause.
        why: NameError,
    },
    /// The certificate is for another peer than the expected one.
    #[error("the certificate is for {0}, not for {1}")]
    Foreign(Identity, &'static str),
}

/// Returns the own certificate of a peer, the first of its chain.
pub(crate) fn leaf<'a>(
    chain: Option<&'a [CertificateDer<'static>]>,
) -> Result<&'a CertificateDer<'static>, IdentityError> {
    chain
        .and_then(<[_]>::first)
        .ok_or(IdentityError::NoCertificate)
}

impl Identity {
    /// Reads the identity of a certificate.
    ///
    /// # Errors
    /// [`IdentityError`] unless the certificate names exactly one.
    pub fn of(certificate: &CertificateDer<'_>) -> Result<Self, IdentityError> {
        Self::with_end(certificate).map(|(identity, _)| identity)
    }

    /// Reads the identity of a certificate and the end of its validity, in seconds of Unix time.
    ///
    /// # Errors
    /// As [`Identity::of`].
    pub fn with_end(certificate: &CertificateDer<'_>) -> Result<(Self, i64), IdentityError> {
        let (_, parsed) =
            X509Certificate::from_der(certificate).map_err(|_| IdentityError::Unreadable)?;
        let names = parsed
            .subject_alternative_name()
            .map_err(|_| IdentityError::Unreadable)?;
        let names = names.iter().flat_map(|names| &names.value.general_names);
        let mut uris = names.filter_map(|name| match name {
            GeneralName::URI(uri) if uri.starts_with(SCHEME) => Some(*uri),
            _ => None,
        });
        let uri = uris.next().ok_or(IdentityError::Absent)?;
        match uris.next() {
            Some(_) => Err(IdentityError::Ambiguous),
            None => Ok((Self::parse(uri)?, parsed.validity().not_after.timestamp())),
        }
    }

    /// Reads the id of the enrolment by which a certificate was issued: its organisation, if it has
    /// one and lives no longer than such certificates do.
    pub fn enrolment(certificate: &CertificateDer<'_>) -> Option<String> {
        let (_, parsed) = X509Certificate::from_der(certificate).ok()?;
        let validity = parsed.validity();
        let life = validity.not_after.timestamp() - validity.not_before.timestamp();
        let life = Duration::from_secs(u64::try_from(life).ok()?);
        if life > LIFE + SKEW {
            return None;
        }
        let mut all = parsed.subject().iter_organization();
        let id = all.next()?.as_str().ok()?.to_owned();
        all.next().is_none().then_some(id)
    }

    /// Reads the identity that a URI names.
    ///
    /// # Errors
    /// [`IdentityError::Malformed`] and [`IdentityError::Name`].
    pub fn parse(uri: &str) -> Result<Self, IdentityError> {
        let malformed = || IdentityError::Malformed(uri.chars().take(256).collect());
        let rest = uri.strip_prefix(SCHEME).ok_or_else(malformed)?;
        let (hub, role) = rest.split_once('/').ok_or_else(malformed)?;
        let is_uid = |c: char| c.is_ascii_alphanumeric() || c == '-';
        if hub.is_empty() || hub.len() > UID_MAX || !hub.chars().all(is_uid) {
            return Err(malformed());
        }
        let role = match role.split_once('/') {
            None if role == "tunnel" => Role::Tunnel,
            None if role == "controller" => Role::Controller,
            Some(("member", name)) => {
                let named = ClusterName::try_from(name);
                Role::Member(named.map_err(|why| IdentityError::Name {
                    uri: uri.chars().take(256).collect(),
                    why,
                })?)
            }
            _ => return Err(malformed()),
        };
        let hub = hub.into();
        Ok(Self { hub, role })
    }
}

/// The URI.
impl fmt::Display for Identity {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hub = &self.hub;
        match &self.role {
            Role::Tunnel => write!(out, "{SCHEME}{hub}/tunnel"),
            Role::Controller => write!(out, "{SCHEME}{hub}/controller"),
            Role::Member(name) => write!(out, "{SCHEME}{hub}/member/{name}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const UID: &str = "0b6e3c1e-93cb-4e0f-8f0e-6f0a4c9d1a55";

    #[test]
    fn uri_names_the_hub_and_the_role() {
        let tunnel = format!("causeway://{UID}/tunnel");
        let controller = format!("causeway://{UID}/controller");
        let member = format!("causeway://{UID}/member/edge1");
        let read = Identity::parse(&tunnel).unwrap();
        assert_eq!((&*read.hub, &read.role), (UID, &Role::Tunnel));
        let read = Identity::parse(&controller).unwrap();
        assert_eq!((&*read.hub, &read.role), (UID, &Role::Controller));
        assert_eq!(read.to_string(), controller);
        let read = Identity::parse(&member).unwrap();
        let edge1 = ClusterName::try_from("edge1").unwrap();
        assert_eq!(read.role, Role::Member(edge1));
        assert_eq!(read.to_string(), member);
    }

    #[test]
    fn other_uris_give_no_identity() {
        for uri in [
            "spiffe://hub/tunnel",
            "causeway://",
            "causeway:///tunnel",
            "causeway://u",
            "causeway://u/",
            "causeway://u/tunnel/",
            "causeway://u/tunnel/x",
            "causeway://u/controller/",
            "causeway://u/controller/x",
            "causeway://u/member",
            "causeway://u/member/",
            "causeway://u/member/a/b",
            "causeway://u/member/Edge",
            "causeway://u/member/..",
            "causeway://u@v/member/a",
            "causeway://u:1/member/a",
            "CAUSEWAY://u/tunnel",
        ] {
            assert!(Identity::parse(uri).is_err(), "{uri}");
        }
        let long = format!("causeway://{}/tunnel", "a".repeat(UID_MAX + 1));
        assert!(Identity::parse(&long).is_err());
    }

    proptest! {
        #[test]
        fn parsed_identity_prints_its_own_uri(uri in "causeway://[a-zA-Z0-9/@:.-]{0,80}") {
            if let Ok(read) = Identity::parse(&uri) {
                prop_assert_eq!(read.to_string(), uri);
            }
        }
    }
}
