//! Contents of the two Secrets after a change.

use std::time::{Duration, SystemTime};

use crate::fault::Fault;
use crate::issue::{Authority, Credentials, IssueError, Leaf, Purpose};
use crate::rotation::{Change, OLD_MAX, Situation};
use crate::stored::{CA_KEY, CERTIFICATE, Contents, KEY, Secrets, Signer, Stored};
use crate::trust::Trusted;

const COMMON_NAME: &str = "causeway-webhook";

/// Error of a change that could not be applied.
#[derive(Debug, thiserror::Error)]
pub enum ChangeError {
    /// A certificate could not be issued.
    #[error("cannot issue a certificate: {0}")]
    Issue(#[from] IssueError),
    /// The change belongs to another situation.
    #[error("the change does not fit the Secrets: {0}")]
    Gone(#[from] Fault),
}

impl Situation<'_> {
    /// Returns the two Secrets after a change.
    ///
    /// # Errors
    /// [`ChangeError`] if a certificate cannot be issued, or the change does not fit the situation.
    pub fn apply(&self, change: Change) -> Result<Secrets, ChangeError> {
        Ok(self.split(&self.changed(change)?))
    }

    /// Distributes contents over the Secrets. The key of the authority stays in the serving Secret
    /// while replicas of a version that stores it there may run.
    pub(crate) fn split(&self, contents: &Contents) -> Secrets {
        Secrets::split(contents, self.handover_left().is_some())
    }

    fn changed(&self, change: Change) -> Result<Contents, ChangeError> {
        let signer = self.signer();
        Ok(match change {
            Change::Normalize => match signer {
                Some(signer) => self.normal_form(signer),
                None => self.normal_form(&self.new_authority()?),
            },
            Change::Stage => {
                let next = self.new_authority()?;
                let mut contents = self.stored.contents().clone();
                contents.stage(Some(&next));
                contents
            }
            Change::Issue => {
                let issuer = signer.and_then(|signer| self.issuer(signer));
                self.with_new_leaf(issuer.ok_or(Fault::Missing)?)?
            }
        })
    }

    fn new_authority(&self) -> Result<Signer, ChangeError> {
        let age = self.now.duration_since(SystemTime::UNIX_EPOCH);
        let name = format!("causeway CA {}", age.unwrap_or_default().as_secs());
        let authority = Authority::new(&name, self.lifetimes.authority(), self.now)?;
        Ok(Signer::new(&authority).ok_or(Fault::Undecodable)?)
    }

    /// Returns the normal form of both Secrets together, with that signing authority.
    ///
    /// After a loss of authorities it holds every valid one that this process knows, so no served
    /// leaf loses trust. Otherwise it holds the stored contents without needless ones.
    pub(crate) fn normal_form(&self, signer: &Signer) -> Contents {
        let lost = self.lost_authorities();
        let mut contents = self.stored.contents().clone();
        let trust = if lost {
            self.all_trust(signer)
        } else {
            self.stored_trust(signer)
        };
        if lost || self.stored.trusted.rubbish || trust != self.stored.trusted.authorities {
            contents.trust(&trust);
        }
        contents.set(CA_KEY, signer.key.as_str());
        let staged = self.staged(lost);
        contents.stage(staged.filter(|next| next.certificate != signer.certificate));
        self.restore_leaf(&mut contents);
        let until = self.stored.old_until().filter(|_| !lost);
        contents
            .keep_old_until((trust.len() > 1).then(|| until.unwrap_or_else(|| self.old_until())));
        contents
    }

    /// Returns the stored authorities that are still needed.
    fn stored_trust(&self, signer: &Signer) -> Vec<Trusted> {
        let leaf = self.stored.leaf(self.names, self.now).ok();
        let issuer = leaf.map(|leaf| &leaf.issuer);
        let until = self.stored.old_until();
        let is_over =
            until.is_some_and(|until| self.now >= until) && issuer == Some(&signer.certificate);
        let is_needed = |authority: &&Trusted| {
            let is_expired = authority.period().check(self.now) == Err(Fault::Expired);
            **authority == signer.certificate
                || Some(*authority) == issuer
                || !(is_over || is_expired)
        };
        let stored = self.stored.trusted.authorities.iter();
        stored.filter(is_needed).cloned().collect()
    }

    /// Returns the authorities to trust: the signing one, that of the served leaf, and every other
    /// one that is stored, published or known to this process and may be in use. Stored ones come
    /// first, so replicas agree even if [`OLD_MAX`] limits the list.
    fn all_trust(&self, signer: &Signer) -> Vec<Trusted> {
        let of = |source: &Stored| {
            let next = source.staged().map(|next| next.certificate.clone());
            let authorities = source.trusted.authorities.iter().cloned();
            authorities.chain(next).collect::<Vec<_>>()
        };
        let serving = self.serving.map(|serving| serving.issuer.clone());
        let last_good = self.last_good.map(of).unwrap_or_default();
        let bundles = self.published.bundles.iter();
        let published = bundles.flat_map(|bundle| bundle.authorities.clone());
        let copied = self.stored.copied.authorities.iter().cloned();
        let stored = serving.into_iter().chain(of(self.stored)).chain(copied);
        let mut trust = vec![signer.certificate.clone()];
        for authority in stored.chain(published).chain(last_good) {
            let is_new = self.may_be_used(&authority) && !trust.contains(&authority);
            if is_new && trust.len() <= OLD_MAX {
                trust.push(authority);
            }
        }
        trust
    }

    /// Returns the staged authority, if it is usable now or soon.
    pub(crate) fn staged(&self, lost: bool) -> Option<&Signer> {
        let last_good = self.last_good.filter(|_| lost);
        let sources = [Some(self.stored), last_good].into_iter().flatten();
        let is_usable = |next: &&Signer| {
            let period = next.certificate.period();
            period.check(self.now).is_ok() || self.is_early(period)
        };
        sources.filter_map(Stored::staged).find(is_usable)
    }

    /// Restores the last served leaf if it is valid beside these authorities and the stored leaf is
    /// not. A stored leaf that lacks a name stays: other replicas may have other names. So does one
    /// that this process awaits: a replica whose clock is ahead has issued it.
    fn restore_leaf(&self, contents: &mut Contents) {
        let Some(last_good) = self.last_good else {
            return;
        };
        let read = |contents: &Contents| Stored::read(Secrets::split(contents, false));
        let fault = |stored: &Stored| stored.leaf(self.names, self.now).err();
        let current = read(contents);
        let stays = matches!(fault(&current), None | Some(Fault::Names))
            || self.awaits(current.leaf_period());
        if stays {
            return;
        }
        let mut restored = contents.clone();
        restored.copy_leaf(last_good.contents());
        if fault(&read(&restored)).is_none() {
            *contents = restored;
        }
    }

    /// Returns the end of the trust in retired authorities: no leaf of theirs is valid later.
    fn old_until(&self) -> SystemTime {
        let fresh = self.now.checked_add(self.lifetimes.leaf());
        let of = |stored: &Stored| {
            let leaf = stored.leaf(self.names, self.now).ok();
            [stored.old_until(), leaf.map(|leaf| leaf.period.until)]
        };
        let known = of(self.stored)
            .into_iter()
            .chain(self.last_good.into_iter().flat_map(of));
        let serving = self.serving.map(|serving| serving.period.until);
        known
            .flatten()
            .chain(serving)
            .chain(fresh)
            .max()
            .unwrap_or(self.now)
    }

    /// Returns both Secrets together with a new leaf of that authority, which signs from now on.
    fn with_new_leaf(&self, issuer: &Signer) -> Result<Contents, ChangeError> {
        let leaf = self.new_leaf(issuer)?;
        let mut contents = self.stored.contents().clone();
        let others = self.stored.trusted.authorities.iter();
        let others = others.filter(|other| **other != issuer.certificate);
        let trust: Vec<_> = std::iter::once(&issuer.certificate)
            .chain(others)
            .cloned()
            .collect();
        contents.trust(&trust);
        contents.set(CA_KEY, issuer.key.as_str());
        contents.set(CERTIFICATE, leaf.certificate);
        contents.set(KEY, leaf.key);
        let stored = self.stored.leaf(self.names, self.now).ok();
        if stored.is_none_or(|leaf| leaf.issuer != issuer.certificate) {
            contents.keep_old_until((trust.len() > 1).then(|| self.old_until()));
        }
        let staged = self.staged(false);
        contents.stage(staged.filter(|next| next.certificate != issuer.certificate));
        Ok(contents)
    }

    fn new_leaf(&self, issuer: &Signer) -> Result<Credentials, ChangeError> {
        let left = issuer.certificate.period().left(self.now);
        // A replica with other names, as during a change of flags, would request them at once.
        let names = match self.stored.leaf(self.names, self.now) {
            Err(Fault::Names) => self.names.clone().and(self.stored.leaf_names()),
            _ => self.names.clone(),
        };
        let leaf = Leaf {
            common_name: COMMON_NAME.to_owned(),
            organisation: None,
            names: names.names,
            addresses: names.addresses,
            uris: Vec::new(),
            validity: self.lifetimes.leaf().min(left).max(Duration::from_secs(1)),
            purpose: Purpose::Server,
        };
        Ok(issuer.authority()?.issue(&leaf, self.now)?)
    }
}
