//! Faults of certificates that are stored or published.

/// Fault of a stored certificate, key or bundle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Fault {
    /// No Secret.
    #[error("no Secret")]
    NoSecret,
    /// Missing in the Secret.
    #[error("missing")]
    Missing,
    /// Not decodable.
    #[error("not decodable")]
    Undecodable,
    /// Private key of another certificate.
    #[error("private key of another certificate")]
    KeyMismatch,
    /// Signed by no stored authority.
    #[error("signed by no stored authority")]
    UnknownIssuer,
    /// Not valid yet: a clock was, or is, wrong.
    #[error("not valid yet")]
    NotYetValid,
    /// Expired.
    #[error("expired")]
    Expired,
    /// Not for every name of the webhook.
    #[error("not for every name of the webhook")]
    Names,
    /// Without an authority whose leaf is, or may be, served.
    #[error("without an authority that is in use")]
    Forgotten,
    /// A caBundle without authorities that it held.
    #[error("caBundle without authorities that it held")]
    CaBundle,
}

impl Fault {
    /// Returns the label of metrics.
    pub fn word(self) -> &'static str {
        match self {
            Self::NoSecret => "no_secret",
            Self::Missing => "missing",
            Self::Undecodable => "undecodable",
            Self::KeyMismatch => "key_mismatch",
            Self::UnknownIssuer => "unknown_issuer",
            Self::NotYetValid => "not_yet_valid",
            Self::Expired => "expired",
            Self::Names => "names",
            Self::Forgotten => "forgotten",
            Self::CaBundle => "ca_bundle",
        }
    }
}
