//! Trust of peers: certificates of authorities, bundles of them, and the time for which every
//! bundle has held one.

use std::collections::HashMap;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use pem::{EncodeConfig, LineEnding, Pem};
use x509_parser::certificate::X509Certificate;
use x509_parser::prelude::FromDer;
use x509_parser::time::ASN1Time;

use crate::fault::Fault;

const CERTIFICATE: &str = "CERTIFICATE";

/// Validity period of a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Period {
    /// First moment of validity.
    pub from: SystemTime,
    /// Last moment of validity.
    pub until: SystemTime,
}

impl Period {
    pub(crate) fn of(certificate: &X509Certificate<'_>) -> Self {
        let validity = certificate.validity();
        Self {
            from: moment(validity.not_before),
            until: moment(validity.not_after),
        }
    }

    /// Checks that a certificate of this period is valid at `now`.
    ///
    /// # Errors
    /// [`Fault::NotYetValid`] or [`Fault::Expired`].
    pub fn check(&self, now: SystemTime) -> Result<(), Fault> {
        if now < self.from {
            Err(Fault::NotYetValid)
        } else if now >= self.until {
            Err(Fault::Expired)
        } else {
            Ok(())
        }
    }

    /// Returns the length.
    pub fn life(&self) -> Duration {
        self.until.duration_since(self.from).unwrap_or_default()
    }

    /// Returns the time left at `now`.
    pub fn left(&self, now: SystemTime) -> Duration {
        self.until.duration_since(now).unwrap_or_default()
    }
}

fn moment(time: ASN1Time) -> SystemTime {
    let seconds = time.timestamp();
    let distance = Duration::from_secs(seconds.unsigned_abs());
    let moment = if seconds < 0 {
        UNIX_EPOCH.checked_sub(distance)
    } else {
        UNIX_EPOCH.checked_add(distance)
    };
    moment.unwrap_or(UNIX_EPOCH)
}

/// Certificate of an authority.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Trusted {
    der: Vec<u8>,
    period: Period,
}

impl std::fmt::Debug for Trusted {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let name = self
            .with_parsed(|certificate| certificate.subject().to_string())
            .unwrap_or_default();
        write!(out, "Trusted({name})")
    }
}

impl Trusted {
    /// Returns the validity period.
    pub fn period(&self) -> Period {
        self.period
    }

    /// Returns the certificate as DER.
    pub fn der(&self) -> &[u8] {
        &self.der
    }

    /// Returns the certificate as PEM.
    pub fn pem(&self) -> String {
        certificate_pem(&self.der)
    }

    /// Parses the certificate, which has been parsed before.
    pub(crate) fn with_parsed<T>(&self, read: impl FnOnce(&X509Certificate<'_>) -> T) -> Option<T> {
        let (_, certificate) = X509Certificate::from_der(&self.der).ok()?;
        Some(read(&certificate))
    }

    fn read(der: Vec<u8>) -> Option<Self> {
        let period = {
            let (_, certificate) = X509Certificate::from_der(&der).ok()?;
            certificate.is_ca().then(|| Period::of(&certificate))?
        };
        Some(Self { der, period })
    }
}

/// Contents of a bundle of certificates.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bundle {
    /// Authorities, each once, in their order.
    pub authorities: Vec<Trusted>,
    /// Whether it holds anything else: undecodable, repeated or other certificates.
    pub rubbish: bool,
}

impl Bundle {
    /// Parses PEM. Anything but certificates of authorities is ignored.
    pub fn read(text: &[u8]) -> Self {
        let mut bundle = Self::default();
        for block in x509_parser::pem::Pem::iter_from_buffer(text) {
            let authority = block
                .ok()
                .filter(|block| block.label == CERTIFICATE)
                .and_then(|block| Trusted::read(block.contents));
            match authority {
                Some(authority) if !bundle.authorities.contains(&authority) => {
                    bundle.authorities.push(authority);
                }
                _ => bundle.rubbish = true,
            }
        }
        bundle.rubbish |= bundle.authorities.is_empty() && !text.is_empty();
        bundle
    }

    /// Whether it holds exactly these authorities, in any order.
    pub fn is_just(&self, authorities: &[Trusted]) -> bool {
        !self.rubbish
            && self.authorities.len() == authorities.len()
            && authorities.iter().all(|one| self.authorities.contains(one))
    }
}

/// Encodes a certificate as PEM.
pub fn certificate_pem(der: &[u8]) -> String {
    let style = EncodeConfig::new().set_line_ending(LineEnding::LF);
    pem::encode_config(&Pem::new(CERTIFICATE, der), style)
}

/// Encodes authorities as a PEM bundle.
pub fn bundle_pem(authorities: &[Trusted]) -> String {
    authorities.iter().map(Trusted::pem).collect()
}

/// Contents of the webhook configurations, and the time for which they have been unchanged.
#[derive(Clone, Debug, Default)]
pub struct Publication {
    /// All caBundles.
    pub bundles: Vec<Bundle>,
    ages: HashMap<Trusted, Duration>,
}

impl Publication {
    /// Returns the time for which every bundle has held the authority without a break, as observed;
    /// `None` if one does not hold it. Without any bundle the time is unlimited.
    pub fn age(&self, authority: &Trusted) -> Option<Duration> {
        if self.bundles.is_empty() {
            return Some(Duration::MAX);
        }
        self.ages.get(authority).copied()
    }
}

/// Tracks the time since which every bundle holds an authority.
#[derive(Debug, Default)]
pub struct PublicationTracker(HashMap<Trusted, Instant>);

impl PublicationTracker {
    /// Records the contents of the bundles at a moment.
    pub fn observe(&mut self, bundles: Vec<Bundle>, at: Instant) -> Publication {
        let everywhere: Vec<Trusted> = match bundles.split_first() {
            None => Vec::new(),
            Some((first, others)) => first
                .authorities
                .iter()
                .filter(|one| others.iter().all(|other| other.authorities.contains(one)))
                .cloned()
                .collect(),
        };
        self.0.retain(|known, _| everywhere.contains(known));
        let ages = everywhere
            .into_iter()
            .map(|authority| {
                let since = *self.0.entry(authority.clone()).or_insert(at);
                (authority, at.saturating_duration_since(since))
            })
            .collect();
        Publication { bundles, ages }
    }
}
