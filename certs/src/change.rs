//! How a change of the Secret is carried out, once it is decided on.

use std::time::{Duration, SystemTime};

use crate::fault::Fault;
use crate::issue::{Authority, Credentials, IssueError, Leaf};
use crate::renew::{Change, Situation};
use crate::stored::{
    CA_KEY, CERTIFICATE, Contents, KEY, NEXT_CERTIFICATE, NEXT_KEY, Signer, Stored,
};
use crate::trust::Trusted;

const COMMON_NAME: &str = "causeway-webhook";
/// How many authorities that no longer sign are taken over from what was found, so that rubbish cannot grow.
const OLD_MAX: usize = 8;

/// Why a change could not be carried out.
#[derive(Debug, thiserror::Error)]
pub enum ChangeError {
    /// A certificate could not be issued.
    #[error("a certificate could not be issued: {0}")]
    Issue(#[from] IssueError),
    /// The change was decided on for another situation.
    #[error("what the change rests on is not there: {0}")]
    Gone(#[from] Fault),
}

impl Situation<'_> {
    /// What the Secret is to hold after a change.
    ///
    /// # Errors
    /// [`ChangeError`] where a certificate cannot be issued, or where the change is not the one for this situation.
    pub fn carry_out(&self, change: Change) -> Result<Contents, ChangeError> {
        let signing = || self.stored.signing(self.now);
        let next = || self.stored.next(self.now).unwrap_or(Err(Fault::Missing));
        Ok(match change {
            Change::Begin => self.rebuilt(&self.new_authority()?),
            Change::Restore => {
                let memory = self.memory.ok_or(Fault::Missing)?;
                self.rebuilt(memory.signing(self.now)?)
            }
            Change::Promote => self.rebuilt(next()?),
            Change::Prepare => {
                let next = self.new_authority()?;
                let mut contents = self.stored.contents().clone();
                contents.set(NEXT_CERTIFICATE, next.certificate.pem());
                contents.set(NEXT_KEY, next.key);
                contents
            }
            Change::Replace => self.served_by(next()?)?,
            Change::Renew => self.served_by(signing()?)?,
            Change::RestoreLeaf => {
                let memory = self.memory.ok_or(Fault::Missing)?;
                let mut contents = self.stored.contents().clone();
                copy_leaf(memory.contents(), &mut contents);
                contents
            }
            Change::Adopt => {
                let forgotten = self.forgotten().ok_or(Fault::Missing)?;
                let mut trust = self.stored.trusted.authorities.clone();
                trust.push(forgotten.clone());
                let mut contents = self.stored.contents().clone();
                contents.trust(&trust);
                contents.keep_old_until(Some(self.old_until()));
                contents
            }
            Change::Tidy => self.tidied(signing()?),
        })
    }

    fn new_authority(&self) -> Result<Signer, ChangeError> {
        let age = self.now.duration_since(SystemTime::UNIX_EPOCH);
        let name = format!("causeway CA {}", age.unwrap_or_default().as_secs());
        let authority = Authority::new(&name, self.lifetimes.authority(), self.now)?;
        Ok(Signer::new(&authority).ok_or(Fault::Undecodable)?)
    }

    /// A Secret in which that authority signs, made of all that is still good: whoever is trusted stays so.
    fn rebuilt(&self, signing: &Signer) -> Contents {
        let mut contents = Contents::default();
        let trust = self.trust_beside(&signing.certificate);
        contents.trust(&trust);
        contents.set(CA_KEY, signing.key.as_str());
        let stored = Some(self.stored);
        let leaf = [stored, self.memory]
            .into_iter()
            .flatten()
            .map(|source| {
                let mut candidate = contents.clone();
                copy_leaf(source.contents(), &mut candidate);
                candidate
            })
            .find(|candidate| {
                let candidate = Stored::read(Some(candidate.clone()));
                candidate.leaf(self.names, self.now).is_ok()
            });
        let mut contents = leaf.unwrap_or(contents);
        contents.keep_old_until((trust.len() > 1).then(|| self.old_until()));
        contents
    }

    /// That authority first, then every other that is valid and stored, remembered or published.
    fn trust_beside(&self, signing: &Trusted) -> Vec<Trusted> {
        let of = |stored: &Stored| {
            let next = stored.next(self.now).and_then(Result::ok);
            let next = next.map(|next| next.certificate.clone());
            let authorities = stored.trusted.authorities.iter().cloned();
            authorities.chain(next).collect::<Vec<_>>()
        };
        let stored = of(self.stored);
        let remembered = self.memory.map(of).unwrap_or_default();
        let bundles = &self.published.bundles;
        let published = bundles.iter().flat_map(|bundle| bundle.authorities.clone());
        let mut trust = vec![signing.clone()];
        for authority in remembered.into_iter().chain(stored).chain(published) {
            let valid = authority.period().check(self.now).is_ok();
            if valid && !trust.contains(&authority) && trust.len() <= OLD_MAX {
                trust.push(authority);
            }
        }
        trust
    }

    /// Until when authorities are trusted that no longer sign: no leaf of theirs can be valid after that.
    fn old_until(&self) -> SystemTime {
        let fresh = self.now.checked_add(self.lifetimes.leaf());
        let of = |stored: &Stored| {
            let leaf = stored.leaf(self.names, self.now).ok();
            [stored.old_until(), leaf.map(|leaf| leaf.period.until)]
        };
        let known = of(self.stored)
            .into_iter()
            .chain(self.memory.into_iter().flat_map(of));
        let serving = self.serving.map(|serving| serving.period.until);
        known
            .flatten()
            .chain(serving)
            .chain(fresh)
            .max()
            .unwrap_or(self.now)
    }

    /// The Secret with a new leaf of that authority, which signs from now on.
    fn served_by(&self, signing: &Signer) -> Result<Contents, ChangeError> {
        let leaf = self.new_leaf(signing)?;
        let mut contents = self.stored.contents().clone();
        let mut trust = vec![signing.certificate.clone()];
        let others = self.stored.trusted.authorities.iter();
        trust.extend(
            others
                .filter(|other| **other != signing.certificate)
                .cloned(),
        );
        contents.trust(&trust);
        contents.set(CA_KEY, signing.key.as_str());
        contents.set(CERTIFICATE, leaf.certificate);
        contents.set(KEY, leaf.key);
        let stored = self.stored.leaf(self.names, self.now).ok();
        if stored.is_none_or(|leaf| leaf.issuer != signing.certificate) {
            contents.keep_old_until((trust.len() > 1).then(|| self.old_until()));
        }
        let next = self.stored.next(self.now).and_then(Result::ok);
        if next.is_some_and(|next| next.certificate == signing.certificate) {
            contents.remove(NEXT_CERTIFICATE);
            contents.remove(NEXT_KEY);
        }
        Ok(contents)
    }

    fn new_leaf(&self, signing: &Signer) -> Result<Credentials, ChangeError> {
        let left = signing.certificate.period().left(self.now);
        // A replica that is called by other names, as during a change of flags, would ask for them at once.
        let names = match self.stored.leaf(self.names, self.now) {
            Err(Fault::Names) => self.names.clone().and(self.stored.leaf_names()),
            _ => self.names.clone(),
        };
        let leaf = Leaf {
            common_name: COMMON_NAME.to_owned(),
            organisation: None,
            names: names.names,
            addresses: names.addresses,
            validity: self.lifetimes.leaf().min(left).max(Duration::from_secs(1)),
        };
        Ok(signing.authority()?.issue(&leaf, self.now)?)
    }

    /// What is stored, without what is not needed: rubbish, a next authority that is unusable, and authorities that no
    /// longer sign and whose time is over.
    pub(crate) fn tidied(&self, signing: &Signer) -> Contents {
        let mut contents = self.stored.contents().clone();
        if let Some(Err(_)) = self.stored.next(self.now) {
            contents.remove(NEXT_CERTIFICATE);
            contents.remove(NEXT_KEY);
        }
        let issuer = self.stored.leaf(self.names, self.now).ok();
        let issuer = issuer.map(|leaf| &leaf.issuer);
        let all = &self.stored.trusted.authorities;
        let over = self
            .stored
            .old_until()
            .is_some_and(|until| self.now >= until)
            && issuer == Some(&signing.certificate);
        let trust: Vec<Trusted> = all
            .iter()
            .filter(|authority| {
                let expired = authority.period().check(self.now) == Err(Fault::Expired);
                **authority == signing.certificate
                    || Some(*authority) == issuer
                    || !(over || expired)
            })
            .cloned()
            .collect();
        if self.stored.trusted.rubbish || trust.len() < all.len() {
            contents.trust(&trust);
        }
        match (trust.len(), self.stored.old_until()) {
            (0 | 1, _) => contents.keep_old_until(None),
            (_, None) => contents.keep_old_until(Some(self.old_until())),
            (_, Some(_)) => {}
        }
        contents
    }
}

fn copy_leaf(from: &Contents, to: &mut Contents) {
    for key in [CERTIFICATE, KEY] {
        match from.get(key) {
            Some(value) => to.set(key, value),
            None => to.remove(key),
        }
    }
}
