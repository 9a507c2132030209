//! Faults of certificates that are stored or published.

/// Fault of a stored certificate, key or bundle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Fault {
    /// There is no Secret.
    #[error("there is no Secret")]
    NoSecret,
    /// The Secret lacks it.
    #[error("it is missing")]
    Missing,
    /// It cannot be decoded.
    #[error("it cannot be decoded")]
    Undecodable,
    /// The private key is another certificate's.
    #[error("its private key is another's")]
    KeyMismatch,
    /// No authority that is stored beside it signed it.
    #[error("no stored authority signed it")]
    UnknownIssuer,
    /// It will be valid only later: a clock was, or is, wrong.
    #[error("it is not valid yet")]
    NotYetValid,
    /// Its time is over.
    #[error("it has expired")]
    Expired,
    /// It is not for every name that the webhook is called by.
    #[error("it is not for every name of the webhook")]
    Names,
    /// The authority of a leaf that is served is not named any more.
    #[error("it does not name the authority of a certificate that is served")]
    Forgotten,
    /// A webhook configuration does not hold the authorities that it held.
    #[error("a caBundle does not hold what it held")]
    CaBundle,
}

impl Fault {
    /// A word for it, as metrics have it.
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
