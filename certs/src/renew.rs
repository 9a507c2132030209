//! What becomes of the certificates: a pure decision, given what is stored, what is published, and the time.
//!
//! All replicas decide by the same rules about one Secret, so that none has to lead. Each step is one write of the Secret on the
//! condition that it is as it was read; who loses reads again.
//!
//! Trust comes before what needs it. An authority that is to sign next is stored beside the one that signs, and
//! its certificate is published beside the other's; a leaf of it is stored only once every caBundle has been seen to hold
//! it, and API servers had the time to notice. An authority that no longer signs stays published until the last
//! leaf of it has expired. So whoever serves a valid leaf, however late it learns of the next, is trusted.

use std::time::{Duration, SystemTime};

use crate::fault::Fault;
use crate::stored::{Names, Served, Signer, Stored};
use crate::trust::{Publication, Trusted};

/// How long API servers may take to notice a changed webhook configuration.
const SETTLING: Duration = Duration::from_secs(10);
/// Where leaves are short-lived, no longer than this share of their life.
const SETTLING_SHARE: u32 = 10;
/// An authority lives at least for so many lives of a leaf, or it would be due for replacement at once.
const LEAVES_IN_A_LIFE: u32 = 3;

/// How long certificates are valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lifetimes {
    authority: Duration,
    leaf: Duration,
}

/// Lifetimes that make no sense together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LifetimesError {
    /// Dates in certificates are seconds.
    #[error("a certificate is valid for ten seconds at least")]
    TooShort,
    /// The authority would be due for replacement as soon as it is made.
    #[error(
        "the authority must be valid for at least {LEAVES_IN_A_LIFE} times as long as what it signs"
    )]
    AuthorityTooShort,
}

impl Lifetimes {
    /// The validity of an authority and of a leaf.
    ///
    /// # Errors
    /// [`LifetimesError`] where they are too short, alone or together.
    pub fn new(authority: Duration, leaf: Duration) -> Result<Self, LifetimesError> {
        if leaf < Duration::from_secs(10) {
            Err(LifetimesError::TooShort)
        } else if authority / LEAVES_IN_A_LIFE < leaf {
            Err(LifetimesError::AuthorityTooShort)
        } else {
            Ok(Self { authority, leaf })
        }
    }

    /// How long a new authority is valid.
    pub fn authority(&self) -> Duration {
        self.authority
    }

    /// How long a new leaf is valid.
    pub fn leaf(&self) -> Duration {
        self.leaf
    }

    /// How long trust is published before it is relied on.
    pub fn settling(&self) -> Duration {
        SETTLING.min(self.leaf / SETTLING_SHARE)
    }

    /// A leaf is due when two thirds of its life are over; one that was made to live longer than leaves now do, with them.
    fn leaf_due(&self, leaf: &Served, now: SystemTime) -> Duration {
        let life = leaf.period.life();
        let age = now.duration_since(leaf.period.from).unwrap_or_default();
        let renewed_at = life.min(self.leaf) / 3 * 2;
        renewed_at.saturating_sub(age)
    }

    /// An authority is due when what is left of its life is less than twice a leaf's, or than a third of its own.
    fn authority_due(&self, authority: &Trusted, now: SystemTime) -> Duration {
        let period = authority.period();
        let needed = (self.leaf * 2).max(period.life() / 3);
        period.left(now).saturating_sub(needed)
    }
}

/// What somebody asks for in an annotation of the Secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    /// A new leaf, now.
    Leaf,
    /// A new authority, and then a leaf of it.
    Authority,
}

/// All that the decision rests on.
#[derive(Clone, Copy)]
pub struct Situation<'a> {
    /// What the Secret holds.
    pub stored: &'a Stored,
    /// What it held when all was well, as far as this process saw it.
    pub memory: Option<&'a Stored>,
    /// The leaf that this process serves.
    pub serving: Option<&'a Served>,
    /// What the webhook configurations hold.
    pub published: &'a Publication,
    /// What somebody asks for.
    pub wish: Option<Wish>,
    /// What the webhook is called by.
    pub names: &'a Names,
    /// How long certificates are valid.
    pub lifetimes: Lifetimes,
    /// The time.
    pub now: SystemTime,
}

/// A change of the Secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Nothing can sign: a new authority signs from now on.
    Begin,
    /// Nothing can sign, but this process knows what could: it is put back.
    Restore,
    /// The authority that was to sign next signs from now on, the other being lost.
    Promote,
    /// An authority that is to sign next.
    Prepare,
    /// The authority that was to sign next signs from now on, and a leaf of it is served.
    Replace,
    /// A new leaf.
    Renew,
    /// The leaf that this process knows is put back.
    RestoreLeaf,
    /// The authority of a leaf that this process serves is named again.
    Adopt,
    /// What is not needed goes.
    Tidy,
}

/// What is to be done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Decision {
    /// The next change of the Secret.
    pub change: Option<Change>,
    /// What was wrong and is repaired by it.
    pub repairs: Option<Fault>,
    /// What every caBundle is to hold, from what is stored now; `None` where that is not known.
    pub trust: Option<Vec<Trusted>>,
    /// When to look again, if nothing changes before.
    pub again: Option<Duration>,
}

/// Decides on the next step.
pub fn decide(situation: &Situation<'_>) -> Decision {
    let (change, repairs) = situation.change();
    let trust = situation.stored.trust(situation.now);
    let known = !trust.is_empty() && change != Some(Change::Adopt);
    Decision {
        change,
        repairs,
        trust: known.then_some(trust),
        again: situation.again(),
    }
}

type Verdict = (Option<Change>, Option<Fault>);

const REST: Verdict = (None, None);

impl Situation<'_> {
    fn change(&self) -> Verdict {
        let signing = match self.stored.signing(self.now) {
            Ok(signing) => signing,
            Err(fault) => return self.without_signing(fault),
        };
        if self.forgotten().is_some() {
            return (Some(Change::Adopt), Some(Fault::Forgotten));
        }
        if let Some(verdict) = self.next(signing) {
            return verdict;
        }
        match self.leaf(signing) {
            REST if self.tidied(signing) != *self.stored.contents() => {
                let rubbish = self.stored.trusted.rubbish.then_some(Fault::Undecodable);
                (Some(Change::Tidy), rubbish)
            }
            verdict => verdict,
        }
    }

    fn without_signing(&self, fault: Fault) -> Verdict {
        let remembered = self.memory.and_then(|memory| memory.signing(self.now).ok());
        if remembered.is_some() {
            return (Some(Change::Restore), Some(fault));
        }
        if let Some(Ok(_)) = self.stored.next(self.now) {
            return (Some(Change::Promote), Some(fault));
        }
        // The first process on an empty Secret repairs nothing.
        let repairs = self.stored.is_anything() || self.memory.is_some();
        (Some(Change::Begin), repairs.then_some(fault))
    }

    /// The authority of the leaf that this process serves, where the Secret does not know it any more: somebody put back
    /// an older one.
    pub(crate) fn forgotten(&self) -> Option<&Trusted> {
        let serving = self.serving?;
        serving.period.check(self.now).ok()?;
        let stored = &self.stored.trusted.authorities;
        (!stored.contains(&serving.issuer)).then_some(&serving.issuer)
    }

    /// The stored leaf, where this process should serve it: it is good, and it is trusted, or at least no less than the
    /// one that is served; and that one is known on, for others may serve it yet.
    pub fn servable(&self) -> Option<&Served> {
        if self.stored.signing(self.now).is_ok() && self.forgotten().is_some() {
            return None;
        }
        let leaf = self.stored.leaf(self.names, self.now).ok()?;
        let serving = self.serving;
        let serving = serving.filter(|serving| serving.period.check(self.now).is_ok());
        let trusted = serving.is_none_or(|serving| {
            serving.issuer == leaf.issuer || self.published.held(&leaf.issuer).is_some()
        });
        trusted.then_some(leaf)
    }

    /// What concerns the authority that is to sign next; `None` where that is nothing for now.
    fn next(&self, signing: &Signer) -> Option<Verdict> {
        match self.stored.next(self.now) {
            Some(Err(fault)) => Some((Some(Change::Tidy), Some(fault))),
            Some(Ok(next)) if self.is_settled(&next.certificate) => {
                Some((Some(Change::Replace), None))
            }
            Some(Ok(_)) => None,
            None => {
                let due = self.lifetimes.authority_due(&signing.certificate, self.now);
                let due = due.is_zero() || self.wish == Some(Wish::Authority);
                due.then_some((Some(Change::Prepare), None))
            }
        }
    }

    fn leaf(&self, signing: &Signer) -> Verdict {
        match self.stored.leaf(self.names, self.now) {
            Err(fault) if fault != Fault::Names && self.remembered_leaf().is_some() => {
                (Some(Change::RestoreLeaf), Some(fault))
            }
            Err(fault) if self.is_safe(signing) => {
                let begun = fault == Fault::Missing && self.memory.is_none();
                (Some(Change::Renew), (!begun).then_some(fault))
            }
            Err(_) => REST,
            Ok(leaf) if leaf.issuer != signing.certificate => {
                let change = self.is_safe(signing).then_some(Change::Renew);
                (change, None)
            }
            Ok(leaf) => {
                let due = self.lifetimes.leaf_due(leaf, self.now);
                let due = due.is_zero() || self.wish == Some(Wish::Leaf);
                (due.then_some(Change::Renew), None)
            }
        }
    }

    /// The leaf that this process knows, where it is good and of an authority that is stored.
    fn remembered_leaf(&self) -> Option<&Served> {
        let leaf = self.memory?.leaf(self.names, self.now).ok()?;
        let stored = &self.stored.trusted.authorities;
        stored.contains(&leaf.issuer).then_some(leaf)
    }

    /// Whether a leaf of the authority that signs is trusted. Where it is the only one, nobody is served by another
    /// meanwhile, and there is nothing to wait for.
    fn is_safe(&self, signing: &Signer) -> bool {
        if self.stored.trusted.authorities.len() == 1 {
            self.published.held(&signing.certificate).is_some()
        } else {
            self.is_settled(&signing.certificate)
        }
    }

    fn is_settled(&self, authority: &Trusted) -> bool {
        let held = self.published.held(authority);
        held.is_some_and(|held| held >= self.lifetimes.settling())
    }

    /// The nearest moment at which time alone changes the decision.
    fn again(&self) -> Option<Duration> {
        let now = self.now;
        let signing = self.stored.signing(now).ok()?;
        let leaf = self.stored.leaf(self.names, now).ok();
        let next = self.stored.next(now).and_then(Result::ok);
        let settles = [
            Some(&signing.certificate),
            next.map(|next| &next.certificate),
        ]
        .into_iter()
        .flatten()
        .filter_map(|authority| self.published.held(authority))
        .map(|held| self.lifetimes.settling().saturating_sub(held));
        let old = self.stored.trusted.authorities.iter();
        let ends = old.map(|authority| authority.period().left(now));
        let old_until = self.stored.old_until();
        let old_until = old_until.map(|until| until.duration_since(now).unwrap_or_default());
        let due = [
            leaf.map(|leaf| self.lifetimes.leaf_due(leaf, now)),
            next.is_none()
                .then(|| self.lifetimes.authority_due(&signing.certificate, now)),
            old_until,
        ];
        settles
            .chain(ends)
            .chain(due.into_iter().flatten())
            .filter(|left| !left.is_zero())
            .min()
    }
}

#[cfg(test)]
mod tests;
#[cfg(test)]
mod world;
