//! The rotation of the certificates: a pure state machine over two Secrets that all replicas share.
//!
//! # Secrets
//! The Secret of the authority holds all that signs, and decides whom peers trust. The serving
//! Secret holds the leaf, its key, and a copy of the trusted certificates. A change that concerns
//! both writes the authority first: what the leaf needs is stored before the leaf.
//!
//! Versions up to 0.1 store all of it in the serving Secret. As long as that one can sign, it
//! decides, and the Secret of the authority is a copy. After [`Lifetimes::handover`] the key of the
//! authority is removed from it. Until then replicas of both versions agree.
//!
//! # States
//! Every replica reads the state from the Secrets and from the webhook configurations; none keeps
//! one of its own, so a restart at any moment loses nothing and no replica has to lead.
//!
//! | state of the Secrets | change that leaves it |
//! | --- | --- |
//! | *damaged*: they are not in their normal form | [`Change::Normalize`] |
//! | *due*: the authority nears its end, or a person requests another | [`Change::Stage`] |
//! | *issuing*: a staged authority is trusted everywhere, or the leaf is missing, wrong or due | [`Change::Issue`] |
//! | *at rest* | none: nothing is written |
//!
//! The normal form of the Secrets holds one authority that signs, every other that a valid leaf may
//! still need until `old-ca.until`, at most one staged authority, the best leaf that is known, and
//! nothing else. Each write of a Secret has the condition that the Secret is as it was read; a
//! replica that loses that race reads again. A replica that stops between the two writes of a
//! change leaves a state from which every replica goes on.
//!
//! Three changes are what the guarantees need. Normalize alone can follow from what is stored and
//! remembered. Stage and Issue are apart because API servers take time to notice a caBundle, and
//! a replica may end between them.
//!
//! # Guarantees
//! * A replica never moves to a leaf that a caBundle does not trust yet. The next authority is
//!   staged and published first, and signs once every caBundle has held it for
//!   [`Lifetimes::settling`].
//! * An authority that no longer signs stays trusted until the last leaf of it has expired. So
//!   whoever serves a valid leaf, however late it learns of the next, is trusted.
//! * A Secret that was deleted, emptied or damaged is written back by a replica that knows what it
//!   held. A replica that knows nothing begins again beside every authority that the caBundles and
//!   the serving Secret hold.
//! * An older Secret that somebody puts back first learns of the authority whose leaf is served;
//!   until then no caBundle is written.
//! * At rest nothing is written.
//!
//! # Assumptions
//! Clocks differ by less than the life of a certificate. The caller reads the configurations, then
//! the serving Secret, then the Secret of the authority: so the authority of every leaf that it
//! reads is stored in what it reads last. It reads the configurations again where nothing can sign,
//! and the serving Secret again where that one can sign.

use std::time::{Duration, SystemTime};

use crate::fault::Fault;
use crate::stored::{Contents, Names, Served, Signer, Stored};
use crate::trust::{Publication, Trusted};

/// Maximum time in which API servers notice a changed webhook configuration.
const SETTLING: Duration = Duration::from_secs(10);
/// Divisor that bounds times by the life of a leaf, for short-lived leaves.
const SETTLING_SHARE: u32 = 10;
/// Time for which the key of the authority stays in the serving Secret: a Deployment gives up on a
/// rollout after this time (its `progressDeadlineSeconds`).
const HANDOVER: Duration = Duration::from_secs(10 * 60);
/// An authority lives at least for so many lives of a leaf, or it would be due for replacement at
/// once.
const LEAVES_IN_A_LIFE: u32 = 3;

/// Validity of the certificates.
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

    /// Returns the validity of a new authority.
    pub fn authority(&self) -> Duration {
        self.authority
    }

    /// Returns the validity of a new leaf.
    pub fn leaf(&self) -> Duration {
        self.leaf
    }

    /// Returns the time for which trust is published before it is relied on.
    pub fn settling(&self) -> Duration {
        SETTLING.min(self.leaf / SETTLING_SHARE)
    }

    /// Returns the time for which replicas of a version that stores everything in the serving
    /// Secret may run beside this one, after that Secret was last seen to hold everything.
    pub fn handover(&self) -> Duration {
        HANDOVER.min(self.leaf / SETTLING_SHARE)
    }

    /// Time until a leaf is due: two thirds of its life, or of the life that leaves have now. A
    /// leaf that could authenticate a client is due at once.
    fn leaf_due(&self, leaf: &Served, now: SystemTime) -> Duration {
        if !leaf.is_for_servers_only {
            return Duration::ZERO;
        }
        let life = leaf.period.life();
        let age = now.duration_since(leaf.period.from).unwrap_or_default();
        let renewed_at = life.min(self.leaf) / 3 * 2;
        renewed_at.saturating_sub(age)
    }

    /// An authority is due when what is left of its life is less than twice a leaf's, or than a
    /// third of its own.
    fn authority_due(&self, authority: &Trusted, now: SystemTime) -> Duration {
        let period = authority.period();
        let needed = (self.leaf * 2).max(period.life() / 3);
        period.left(now).saturating_sub(needed)
    }
}

/// Rotation that a person requests by an annotation of the Secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RotationRequest {
    /// A new leaf, now.
    Leaf,
    /// A new authority, and then a leaf of it.
    Authority,
}

/// All that the decision rests on.
#[derive(Clone, Copy)]
pub struct Situation<'a> {
    /// Contents of the two Secrets.
    pub stored: &'a Stored,
    /// Time for which this process has seen the key of the authority in the serving Secret.
    pub combined_for: Duration,
    /// Contents of the Secrets when this process last served a leaf of them.
    pub last_good: Option<&'a Stored>,
    /// The leaf that this process serves.
    pub serving: Option<&'a Served>,
    /// Contents of the webhook configurations.
    pub published: &'a Publication,
    /// Request of a person, if any.
    pub request: Option<RotationRequest>,
    /// The names that the webhook is called by.
    pub names: &'a Names,
    /// Validity of the certificates.
    pub lifetimes: Lifetimes,
    /// The time.
    pub now: SystemTime,
}

/// A change of the Secrets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Brings the Secrets into their normal form: restores what this process knows of what was
    /// lost, creates an authority where none can sign, removes what is not needed any more.
    Normalize,
    /// Stores the authority that is to sign next beside the one that signs.
    Stage,
    /// Stores a new leaf: of the staged authority once it is trusted, which signs from then on;
    /// else of the one that signs.
    Issue,
}

/// The next step.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Decision {
    /// The next change of the Secrets.
    pub change: Option<Change>,
    /// Fault that the change repairs, if any.
    pub repairs: Option<Fault>,
    /// Whether the change is what a person requests.
    pub fulfils_request: bool,
    /// The authorities that every caBundle is to hold, from what is stored now; `None` where that
    /// is not known.
    pub trust: Option<Vec<Trusted>>,
    /// Time until the next decision if nothing changes.
    pub again: Option<Duration>,
}

/// Decides on the next step.
pub fn decide(situation: &Situation<'_>) -> Decision {
    let (change, repairs) = situation.change();
    let trust = situation.stored.trust(situation.now);
    let is_known = !trust.is_empty() && situation.forgotten().is_none();
    Decision {
        change,
        repairs,
        fulfils_request: change.is_some_and(|change| situation.fulfils_request(change)),
        trust: is_known.then_some(trust),
        again: situation.again(),
    }
}

impl Situation<'_> {
    /// The next change, and the fault that it repairs.
    fn change(&self) -> (Option<Change>, Option<Fault>) {
        let Some(signer) = self.signer() else {
            return (Some(Change::Normalize), self.damage(None));
        };
        let normal = self.normal_form(signer);
        if normal != *self.stored.contents() || self.split(&normal) != *self.stored.secrets() {
            (Some(Change::Normalize), self.damage(Some(&normal)))
        } else if self.is_authority_due(signer) {
            (Some(Change::Stage), None)
        } else if self.issuer(signer).is_some() {
            (Some(Change::Issue), self.leaf_fault())
        } else {
            (None, None)
        }
    }

    fn fulfils_request(&self, change: Change) -> bool {
        match (self.request, change) {
            (None, _) | (Some(RotationRequest::Leaf), Change::Normalize | Change::Stage) => false,
            (Some(RotationRequest::Leaf), Change::Issue)
            | (Some(RotationRequest::Authority), Change::Stage) => true,
            (Some(RotationRequest::Authority), Change::Normalize) => self.signer().is_none(),
            (Some(RotationRequest::Authority), Change::Issue) => {
                self.is_succession_unfinished() || self.settled_next().is_some()
            }
        }
    }

    /// Whether the stored leaf is of another authority than the one that signs: a replica stopped
    /// between the two writes of a succession.
    fn is_succession_unfinished(&self) -> bool {
        let leaf = self.stored.leaf(self.names, self.now);
        let signer = self.stored.signing(self.now);
        matches!((leaf, signer), (Ok(leaf), Ok(signer)) if leaf.issuer != signer.certificate)
    }

    /// Time until the key of the authority is removed from the serving Secret; `None` where it is
    /// not there, or is to be removed now.
    pub(crate) fn handover_left(&self) -> Option<Duration> {
        let left = self.lifetimes.handover().checked_sub(self.combined_for);
        left.filter(|left| self.stored.is_combined() && !left.is_zero())
    }

    /// The authority that signs: the stored one, else the one that this process knows, else one
    /// that is staged.
    pub(crate) fn signer(&self) -> Option<&Signer> {
        let sources = || [Some(self.stored), self.last_good].into_iter().flatten();
        let signing = sources().find_map(|source| source.signing(self.now).ok());
        signing.or_else(|| sources().find_map(|source| source.next(self.now)?.ok()))
    }

    /// Whether authorities may be missing from the Secret that somebody relies on: nothing in it
    /// can sign, or it does not know the authority whose leaf this process serves.
    pub(crate) fn lost_authorities(&self) -> bool {
        self.stored.signing(self.now).is_err() || self.forgotten().is_some()
    }

    /// The authority of the leaf that this process serves, where the Secret does not know it any
    /// more: somebody put back an older one.
    fn forgotten(&self) -> Option<&Trusted> {
        let serving = self.serving?;
        serving.period.check(self.now).ok()?;
        let stored = &self.stored.trusted.authorities;
        (!stored.contains(&serving.issuer)).then_some(&serving.issuer)
    }

    /// Returns the fault for which the Secrets are not in their normal form; `None` if time alone,
    /// or the first start, is the reason.
    fn damage(&self, normal: Option<&Contents>) -> Option<Fault> {
        if let Err(fault) = self.stored.signing(self.now) {
            let is_first_start = !self.stored.is_anything() && self.last_good.is_none();
            return (!is_first_start).then_some(fault);
        }
        let next = || self.stored.next(self.now)?.err();
        let has_its_leaf = |normal: &&Contents| normal.has_leaf_of(self.stored.contents());
        let leaf = || {
            normal
                .filter(|normal| !has_its_leaf(normal))
                .and(self.leaf_fault())
        };
        let rubbish = || {
            let is_rubbish = self.stored.trusted.rubbish || self.stored.copied.rubbish;
            is_rubbish.then_some(Fault::Undecodable)
        };
        let copy = || {
            let is_served = self.stored.leaf(self.names, self.now).is_ok();
            let is_lost = is_served && self.stored.copied.authorities.is_empty();
            is_lost.then_some(Fault::Missing)
        };
        let forgotten = self.forgotten().map(|_| Fault::Forgotten);
        let faults = forgotten.or_else(next).or_else(leaf);
        faults.or_else(rubbish).or_else(copy)
    }

    /// Returns the fault of the stored leaf; `None` if there was none before either.
    fn leaf_fault(&self) -> Option<Fault> {
        let fault = self.stored.leaf(self.names, self.now).err()?;
        let is_first_start = fault == Fault::Missing && self.last_good.is_none();
        (!is_first_start).then_some(fault)
    }

    /// The stored leaf, where this process should serve it: it is good, and it is trusted, or at
    /// least no less than the one that is served; and that one stays known, for others may serve
    /// it.
    pub fn servable(&self) -> Option<&Served> {
        if self.stored.signing(self.now).is_ok() && self.forgotten().is_some() {
            return None;
        }
        let leaf = self.stored.leaf(self.names, self.now).ok()?;
        let serving = self.serving;
        let serving = serving.filter(|serving| serving.period.check(self.now).is_ok());
        let trusted = serving.is_none_or(|serving| {
            serving.issuer == leaf.issuer || self.published.age(&leaf.issuer).is_some()
        });
        trusted.then_some(leaf)
    }

    /// Whether another authority is to be staged.
    fn is_authority_due(&self, signer: &Signer) -> bool {
        let due = self.lifetimes.authority_due(&signer.certificate, self.now);
        let is_requested = self.request == Some(RotationRequest::Authority);
        let is_due = due.is_zero() || (is_requested && !self.is_succession_unfinished());
        is_due && self.stored.next(self.now).is_none()
    }

    /// The authority of which a new leaf is to be stored now; `None` where the stored one is as it
    /// should be, or the next would not be trusted yet.
    pub(crate) fn issuer<'a>(&'a self, signer: &'a Signer) -> Option<&'a Signer> {
        if let Some(next) = self.settled_next() {
            return Some(next);
        }
        let is_due = match self.stored.leaf(self.names, self.now) {
            Ok(leaf) if leaf.issuer == signer.certificate => {
                let due = self.lifetimes.leaf_due(leaf, self.now);
                due.is_zero() || self.request == Some(RotationRequest::Leaf)
            }
            Ok(_) | Err(_) => self.is_trusted(signer),
        };
        is_due.then_some(signer)
    }

    /// The staged authority, once it may sign.
    fn settled_next(&self) -> Option<&Signer> {
        let next = self.stored.next(self.now)?.ok()?;
        self.is_settled(&next.certificate).then_some(next)
    }

    /// Whether a leaf of the authority that signs is trusted. Where it is the only one, nobody
    /// serves a leaf of another meanwhile, and there is nothing to wait for.
    fn is_trusted(&self, signer: &Signer) -> bool {
        if self.stored.trusted.authorities.len() == 1 {
            self.published.age(&signer.certificate).is_some()
        } else {
            self.is_settled(&signer.certificate)
        }
    }

    fn is_settled(&self, authority: &Trusted) -> bool {
        let age = self.published.age(authority);
        age.is_some_and(|age| age >= self.lifetimes.settling())
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
        .filter_map(|authority| self.published.age(authority))
        .map(|age| self.lifetimes.settling().saturating_sub(age));
        let old = self.stored.trusted.authorities.iter();
        let ends = old.map(|authority| authority.period().left(now));
        let old_until = self.stored.old_until();
        let old_until = old_until.map(|until| until.duration_since(now).unwrap_or_default());
        let due = [
            leaf.map(|leaf| self.lifetimes.leaf_due(leaf, now)),
            next.is_none()
                .then(|| self.lifetimes.authority_due(&signing.certificate, now)),
            old_until,
            self.handover_left(),
        ];
        settles
            .chain(ends)
            .chain(due.into_iter().flatten())
            .filter(|left| !left.is_zero())
            .min()
    }
}

#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests;
