//! Contents of the two shared Secrets, decoded as far as possible. Others can write them, so
//! nothing in them is trusted unchecked.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rcgen::KeyPair;
use x509_parser::certificate::X509Certificate;
use x509_parser::pem::Pem;
use x509_parser::prelude::{FromDer as _, GeneralName};

use crate::fault::Fault;
use crate::issue::{Authority, IssueError, Leaf, Purpose};
use crate::trust::{Bundle, Period, Trusted, bundle_pem};

/// All trusted authorities, PEM; the signing one is first.
pub const CA_CERTIFICATE: &str = "ca.crt";
/// Key of the signing authority.
pub const CA_KEY: &str = "ca.key";
/// Serving certificate of all replicas.
pub const CERTIFICATE: &str = "tls.crt";
/// Key of the serving certificate.
pub const KEY: &str = "tls.key";
/// Staged authority, which signs once it is published.
pub const NEXT_CERTIFICATE: &str = "next-ca.crt";
/// Key of the staged authority.
pub const NEXT_KEY: &str = "next-ca.key";
/// End of the trust in retired authorities, in seconds of Unix time.
pub const OLD_UNTIL: &str = "old-ca.until";

/// Every key of the two Secrets.
pub(crate) const KEYS: [&str; 7] = [
    CA_CERTIFICATE,
    CA_KEY,
    CERTIFICATE,
    KEY,
    NEXT_CERTIFICATE,
    NEXT_KEY,
    OLD_UNTIL,
];

/// Label of a certificate in PEM.
const PEM_LABEL: &str = "CERTIFICATE";

const LEAF: [&str; 2] = [CERTIFICATE, KEY];
/// Keys of the Secret of the authority.
const AUTHORITY: [&str; 5] = [
    CA_CERTIFICATE,
    CA_KEY,
    NEXT_CERTIFICATE,
    NEXT_KEY,
    OLD_UNTIL,
];
/// Keys of the serving Secret, whose `ca.crt` is a copy.
const SERVING: [&str; 3] = [CA_CERTIFICATE, CERTIFICATE, KEY];

/// Causeway's part of the data of a Secret, or of both Secrets together, undecoded.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Contents(BTreeMap<&'static str, Vec<u8>>);

impl std::fmt::Debug for Contents {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_set().entries(self.0.keys()).finish()
    }
}

impl Contents {
    /// Extracts causeway's part of the data of a Secret.
    pub fn gather<'a>(value: impl Fn(&str) -> Option<&'a [u8]>) -> Self {
        let taken = KEYS.into_iter().filter_map(|key| {
            let value = value(key).filter(|value| !value.is_empty())?;
            Some((key, value.to_vec()))
        });
        Self(taken.collect())
    }

    /// Returns causeway's keys of the Secret with their values; `None` for an absent key.
    pub fn entries(&self) -> impl Iterator<Item = (&'static str, Option<&[u8]>)> {
        KEYS.into_iter().map(|key| (key, self.get(key)))
    }

    /// Whether there is no content of causeway.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the value of a key.
    pub fn get(&self, key: &str) -> Option<&[u8]> {
        self.0.get(key).map(Vec::as_slice)
    }

    pub(crate) fn set(&mut self, key: &'static str, value: impl Into<Vec<u8>>) {
        self.0.insert(key, value.into());
    }

    pub(crate) fn remove(&mut self, key: &'static str) {
        self.0.remove(key);
    }

    fn only(&self, keys: &[&'static str]) -> Self {
        let kept = self.0.iter().filter(|(key, _)| keys.contains(key));
        Self(kept.map(|(key, value)| (*key, value.clone())).collect())
    }

    /// Sets or removes the staged authority.
    pub(crate) fn stage(&mut self, next: Option<&Signer>) {
        match next {
            Some(next) => {
                self.set(NEXT_CERTIFICATE, next.certificate.pem());
                self.set(NEXT_KEY, next.key.as_str());
            }
            None => {
                self.remove(NEXT_CERTIFICATE);
                self.remove(NEXT_KEY);
            }
        }
    }

    /// Copies the leaf of other contents.
    pub(crate) fn copy_leaf(&mut self, from: &Self) {
        for key in LEAF {
            match from.get(key) {
                Some(value) => self.set(key, value),
                None => self.remove(key),
            }
        }
    }

    pub(crate) fn has_leaf_of(&self, other: &Self) -> bool {
        LEAF.iter().all(|key| self.get(key) == other.get(key))
    }

    pub(crate) fn trust(&mut self, authorities: &[Trusted]) {
        self.set(CA_CERTIFICATE, bundle_pem(authorities));
    }

    pub(crate) fn keep_old_until(&mut self, until: Option<SystemTime>) {
        match until {
            None => self.remove(OLD_UNTIL),
            Some(until) => {
                let seconds = until.duration_since(UNIX_EPOCH).unwrap_or_default();
                self.set(OLD_UNTIL, seconds.as_secs().to_string());
            }
        }
    }

    fn text(&self, key: &str) -> Result<&str, Fault> {
        let value = self.get(key).ok_or(Fault::Missing)?;
        std::str::from_utf8(value).map_err(|_| Fault::Undecodable)
    }
}

/// An authority with its key.
#[derive(Clone)]
pub struct Signer {
    /// Certificate.
    pub certificate: Trusted,
    pub(crate) key: String,
}

impl Signer {
    /// Loads the authority for signing.
    ///
    /// # Errors
    /// [`IssueError::Load`] if it does not load.
    pub fn authority(&self) -> Result<Authority, IssueError> {
        Authority::from_pem(&self.certificate.pem(), &self.key)
    }

    pub(crate) fn new(authority: &Authority) -> Option<Self> {
        let bundle = Bundle::read(authority.pem().as_bytes());
        Some(Self {
            certificate: bundle.authorities.into_iter().next()?,
            key: authority.key_pem(),
        })
    }

    /// Finds the authority of a key.
    fn read(
        contents: &Contents,
        certificate: &str,
        key: &str,
        bundle: &Bundle,
    ) -> Result<Self, Fault> {
        let key = contents.text(key)?;
        contents.get(certificate).ok_or(Fault::Missing)?;
        let pair = KeyPair::from_pem(key).map_err(|_| Fault::Undecodable)?;
        let matches = |authority: &&Trusted| {
            authority.with_parsed(|parsed| is_key_of(&pair, parsed)) == Some(true)
        };
        let authority = bundle.authorities.iter().find(matches);
        let none = if bundle.authorities.is_empty() {
            Fault::Undecodable
        } else {
            Fault::KeyMismatch
        };
        Ok(Self {
            certificate: authority.ok_or(none)?.clone(),
            key: key.to_owned(),
        })
    }
}

fn is_key_of(pair: &KeyPair, certificate: &X509Certificate<'_>) -> bool {
    pair.public_key_raw() == certificate.public_key().subject_public_key.data.as_ref()
}

/// Served leaf.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Served {
    /// Stored authority that signed it.
    pub issuer: Trusted,
    /// Validity period.
    pub period: Period,
    names: Names,
    uris: Vec<String>,
    /// Only side that it may authenticate, if it is one.
    pub(crate) purpose: Option<Purpose>,
    der: Vec<u8>,
}

impl Served {
    fn read(contents: &Contents, trusted: &Bundle) -> Result<Self, Fault> {
        let chain = contents.get(CERTIFICATE).ok_or(Fault::Missing)?;
        let key = contents.text(KEY)?;
        let der = first_of_chain(chain)?;
        let (_, parsed) = X509Certificate::from_der(&der).map_err(undecodable)?;
        let pair = KeyPair::from_pem(key).map_err(undecodable)?;
        if !is_key_of(&pair, &parsed) {
            return Err(Fault::KeyMismatch);
        }
        let signed = |authority: &&Trusted| {
            let verify = |by: &X509Certificate<'_>| {
                parsed.issuer() == by.subject()
                    && parsed.verify_signature(Some(by.public_key())).is_ok()
            };
            authority.with_parsed(verify) == Some(true)
        };
        let issuer = trusted.authorities.iter().find(signed);
        Ok(Self {
            issuer: issuer.ok_or(Fault::UnknownIssuer)?.clone(),
            period: Period::of(&parsed),
            names: Names::of(&parsed),
            uris: uris(&parsed),
            purpose: purpose(&parsed),
            der: der.clone(),
        })
    }

    /// Whether it has the names, addresses, URIs and purpose of a leaf to be issued, and no others.
    pub fn is_as(&self, leaf: &Leaf) -> bool {
        let names = leaf.names.iter().map(|name| name.to_ascii_lowercase());
        self.names.names.iter().eq(&names.collect::<Vec<_>>())
            && self.names.addresses == leaf.addresses
            && self.uris == leaf.uris
            && self.purpose == Some(leaf.purpose)
    }
}

/// Returns the first certificate of a PEM chain as DER. TLS decodes every block, so each must be a
/// whole certificate.
///
/// # Errors
/// [`Fault::Undecodable`] if a block is anything else, or there is no block.
fn first_of_chain(chain: &[u8]) -> Result<Vec<u8>, Fault> {
    let blocks = Pem::iter_from_buffer(chain).map(|block| {
        let block = block.map_err(undecodable)?;
        let (rest, _) = X509Certificate::from_der(&block.contents).map_err(undecodable)?;
        let is_whole = rest.is_empty() && block.label == PEM_LABEL;
        is_whole.then_some(block.contents).ok_or(Fault::Undecodable)
    });
    let chain: Vec<_> = blocks.collect::<Result<_, _>>()?;
    chain.into_iter().next().ok_or(Fault::Undecodable)
}

fn purpose(certificate: &X509Certificate<'_>) -> Option<Purpose> {
    let usage = certificate.extended_key_usage().ok().flatten()?.value;
    match (usage.server_auth, usage.client_auth) {
        (true, false) => Some(Purpose::Server),
        (false, true) => Some(Purpose::Client),
        _ => None,
    }
}

fn uris(certificate: &X509Certificate<'_>) -> Vec<String> {
    let found = certificate.subject_alternative_name().ok().flatten();
    let found = found.iter().flat_map(|names| &names.value.general_names);
    let uris = found.filter_map(|name| match name {
        GeneralName::URI(uri) => Some((*uri).to_owned()),
        _ => None,
    });
    uris.collect()
}

fn undecodable<E>(_: E) -> Fault {
    Fault::Undecodable
}

fn address(bytes: &[u8]) -> Option<IpAddr> {
    let four = <[u8; 4]>::try_from(bytes).map(IpAddr::from);
    let sixteen = || <[u8; 16]>::try_from(bytes).map(IpAddr::from);
    four.or_else(|_| sixteen()).ok()
}

/// Names of the webhook in its certificate.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names {
    /// DNS names, in lower case.
    pub names: Vec<String>,
    /// IP addresses.
    pub addresses: Vec<IpAddr>,
}

impl Names {
    fn of(certificate: &X509Certificate<'_>) -> Self {
        let mut all = Self::default();
        let found = certificate.subject_alternative_name().ok().flatten();
        let found = found
            .iter()
            .flat_map(|extension| &extension.value.general_names);
        for name in found {
            match name {
                GeneralName::DNSName(name) => all.names.push(name.to_ascii_lowercase()),
                GeneralName::IPAddress(bytes) => all.addresses.extend(address(bytes)),
                _ => {}
            }
        }
        all
    }

    fn cover(&self, others: &Self) -> bool {
        others.names.iter().all(|name| self.names.contains(name))
            && others
                .addresses
                .iter()
                .all(|ip| self.addresses.contains(ip))
    }

    /// Returns the union with others.
    pub(crate) fn and(mut self, others: Self) -> Self {
        let names = others.names.into_iter();
        let names: Vec<_> = names.filter(|name| !self.names.contains(name)).collect();
        self.names.extend(names);
        let addresses = others.addresses.into_iter();
        let addresses: Vec<_> = addresses
            .filter(|ip| !self.addresses.contains(ip))
            .collect();
        self.addresses.extend(addresses);
        self
    }
}

/// Contents of the two Secrets; `None` for an absent Secret.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Secrets {
    /// The serving Secret: the leaf, its key, and the certificates of the authorities.
    pub serving: Option<Contents>,
    /// The Secret of the authority: all that signs.
    pub authority: Option<Contents>,
}

impl Secrets {
    /// Distributes contents over the two Secrets. `combined` leaves a copy of all of them in the
    /// serving Secret.
    pub fn split(contents: &Contents, combined: bool) -> Self {
        let serving = if combined {
            contents.clone()
        } else {
            contents.only(&SERVING)
        };
        Self {
            serving: Some(serving),
            authority: Some(contents.only(&AUTHORITY)),
        }
    }

    /// Whether the serving Secret can sign by itself, as versions up to 0.1 store it. It alone
    /// counts then: such a version wrote it last.
    pub fn is_combined(&self) -> bool {
        let can_sign = |serving: &Contents| {
            let bundle = Bundle::read(serving.get(CA_CERTIFICATE).unwrap_or_default());
            Signer::read(serving, CA_CERTIFICATE, CA_KEY, &bundle).is_ok()
        };
        self.serving.as_ref().is_some_and(can_sign)
    }

    /// Returns the authorities of one Secret with the leaf of the other. If the Secret of the
    /// authority is empty, the serving one provides both.
    fn contents(&self) -> Contents {
        let serving = self.serving.clone().unwrap_or_default();
        match &self.authority {
            Some(authority) if !authority.is_empty() && !self.is_combined() => {
                let mut contents = authority.only(&AUTHORITY);
                contents.copy_leaf(&serving);
                contents
            }
            _ => serving,
        }
    }
}

/// Decoded contents of the two Secrets.
#[derive(Clone)]
pub struct Stored {
    secrets: Secrets,
    pub(crate) contents: Contents,
    pub(crate) trusted: Bundle,
    /// The copy of the authorities in the serving Secret.
    pub(crate) copied: Bundle,
    is_combined: bool,
    signing: Result<Signer, Fault>,
    next: Option<Result<Signer, Fault>>,
    leaf: Result<Served, Fault>,
    old_until: Option<SystemTime>,
}

impl Stored {
    /// Decodes the contents of the two Secrets.
    pub fn read(secrets: Secrets) -> Self {
        let contents = secrets.contents();
        let copied = secrets.serving.as_ref();
        let copied = copied.and_then(|serving| serving.get(CA_CERTIFICATE));
        let bundle = |key| Bundle::read(contents.get(key).unwrap_or_default());
        let trusted = bundle(CA_CERTIFICATE);
        let next = bundle(NEXT_CERTIFICATE);
        let has_next = contents.get(NEXT_CERTIFICATE).is_some() || contents.get(NEXT_KEY).is_some();
        Self {
            is_combined: secrets.is_combined(),
            copied: Bundle::read(copied.unwrap_or_default()),
            secrets,
            signing: Signer::read(&contents, CA_CERTIFICATE, CA_KEY, &trusted),
            next: has_next.then(|| Signer::read(&contents, NEXT_CERTIFICATE, NEXT_KEY, &next)),
            leaf: Served::read(&contents, &trusted),
            old_until: contents.text(OLD_UNTIL).ok().and_then(read_moment),
            trusted,
            contents,
        }
    }

    /// Returns the signing authority.
    ///
    /// # Errors
    /// The fault for which there is none at that time.
    pub fn signing(&self, now: SystemTime) -> Result<&Signer, Fault> {
        if self.secrets.authority.is_none() && !self.is_combined {
            return Err(Fault::NoSecret);
        }
        valid(self.signing.as_ref(), now)
    }

    /// Returns the staged authority; `None` if none is staged.
    pub fn next(&self, now: SystemTime) -> Option<Result<&Signer, Fault>> {
        self.next.as_ref().map(|next| valid(next.as_ref(), now))
    }

    /// Returns the staged authority, valid or not; `None` if none is staged or it does not decode.
    pub(crate) fn staged(&self) -> Option<&Signer> {
        self.next.as_ref()?.as_ref().ok()
    }

    /// Returns the validity period of the signing authority, valid or not, if it decodes.
    pub(crate) fn signing_period(&self) -> Option<Period> {
        let signing = self.signing.as_ref().ok()?;
        Some(signing.certificate.period())
    }

    /// Returns the validity period of the leaf, valid or not, if it decodes.
    pub(crate) fn leaf_period(&self) -> Option<Period> {
        let leaf = self.leaf.as_ref().ok()?;
        Some(leaf.period)
    }

    /// Returns the leaf.
    ///
    /// # Errors
    /// The fault for which it must not be served at that time.
    pub fn leaf(&self, names: &Names, now: SystemTime) -> Result<&Served, Fault> {
        if self.secrets.serving.is_none() {
            return Err(Fault::NoSecret);
        }
        let leaf = self.leaf.as_ref().map_err(|fault| *fault)?;
        leaf.period.check(now)?;
        if leaf.names.cover(names) {
            Ok(leaf)
        } else {
            Err(Fault::Names)
        }
    }

    /// Returns the two Secrets, undecoded.
    pub fn secrets(&self) -> &Secrets {
        &self.secrets
    }

    /// Whether the serving Secret holds the key of the authority, as versions up to 0.1 store it.
    pub fn is_combined(&self) -> bool {
        self.is_combined
    }

    /// Returns authority and leaf together, undecoded.
    pub fn contents(&self) -> &Contents {
        &self.contents
    }

    /// Returns the authorities that peers must trust: retired, signing and staged ones. An
    /// authority that is not valid yet is one of them, because the clock of a peer may be ahead.
    /// Empty without a signing one, and if that one has expired.
    pub fn trust(&self, now: SystemTime) -> Vec<Trusted> {
        if !matches!(self.signing(now), Ok(_) | Err(Fault::NotYetValid)) {
            return Vec::new();
        }
        let mut trust = self.trusted.authorities.clone();
        if let Some(next) = self.staged()
            && !trust.contains(&next.certificate)
        {
            trust.push(next.certificate.clone());
        }
        trust.retain(|authority| authority.period().check(now) != Err(Fault::Expired));
        trust
    }

    /// Whether the two Secrets belong together: an authority can sign, and a stored one signed the
    /// leaf. If not, either Secret may be lost or older than the other, and only the caBundles hold
    /// every authority in use.
    pub fn is_consistent(&self, now: SystemTime) -> bool {
        self.signing(now).is_ok() && self.leaf.is_ok()
    }

    /// Returns the names of the stored leaf, valid or not.
    pub fn leaf_names(&self) -> Names {
        let leaf = self.leaf.as_ref().ok();
        leaf.map(|leaf| leaf.names.clone()).unwrap_or_default()
    }

    pub(crate) fn old_until(&self) -> Option<SystemTime> {
        self.old_until
    }
}

fn valid<'a>(signer: Result<&'a Signer, &Fault>, now: SystemTime) -> Result<&'a Signer, Fault> {
    let signer = signer.map_err(|fault| *fault)?;
    signer.certificate.period().check(now)?;
    Ok(signer)
}

fn read_moment(text: &str) -> Option<SystemTime> {
    let seconds = text.trim().parse().ok()?;
    UNIX_EPOCH.checked_add(Duration::from_secs(seconds))
}
