//! The rotation of the certificates: a pure state machine over two Secrets that all replicas share.
//!
//! The *signing* authority signs leaves. A *staged* one is published and signs next. A *retired*
//! one no longer signs, and is trusted until its last leaf has expired.
//!
//! # Secrets
//! The Secret of the authority holds every key that signs and all trusted certificates. The serving
//! Secret holds the leaf, its key, and a copy of the trusted certificates. A change of both writes
//! the authority first, so the issuer of a stored leaf is stored.
//!
//! Versions up to 0.1 store everything in the serving Secret. While that Secret can sign, it
//! decides, and the Secret of the authority is a copy. After [`Lifetimes::handover`] the rotation
//! removes the key of the authority from it. Until then replicas of both versions agree.
//!
//! # States
//! Every replica reads the state from the Secrets and from the webhook configurations. So a restart
//! at any moment loses nothing, and no replica leads.
//!
//! | state of the Secrets | change that leaves it |
//! | --- | --- |
//! | *damaged*: they are not in their normal form | [`Change::Normalize`] |
//! | *due*: the authority nears its end, or a person requests another | [`Change::Stage`] |
//! | *issuing*: a staged authority is trusted everywhere, or the leaf is missing, wrong or due | [`Change::Issue`] |
//! | *at rest* | none: nothing is written |
//!
//! The normal form of the Secrets holds one signing authority, the retired ones until
//! `old-ca.until`, at most one staged one, the best known leaf, and nothing else. Each write of a
//! Secret has the condition that the Secret is unchanged; a replica that loses the race reads
//! again. A replica that stops between the two writes of a change leaves a state from which every
//! replica continues.
//!
//! Stage and Issue are separate changes because API servers take time to notice a caBundle, and a
//! replica may end meanwhile.
//!
//! # Guarantees
//! * A replica never moves to a leaf that a caBundle does not trust yet. The next authority is
//!   staged and published first, and signs once every caBundle has held it for
//!   [`Lifetimes::settling`].
//! * A retired authority stays trusted until its last leaf has expired. So every replica with a
//!   valid leaf is trusted, however late it learns of the next one.
//! * A replica that knows the contents of a deleted, emptied or damaged Secret restores them. A
//!   replica without that knowledge creates an authority, and keeps trusting every one that the
//!   caBundles and the serving Secret hold.
//! * A restored older Secret first regains the authority of the leaf that this process serves. If
//!   the stored leaf is lost, or no stored authority signed it, the Secret first regains every
//!   authority of the caBundles. Until then no caBundle is written.
//! * At rest nothing is written.
//!
//! # Clocks
//! A replica whose clock is behind finds a new certificate of another replica not valid yet. It
//! trusts such an authority, retains it if it is staged, and does not sign with it. While it serves
//! a leaf that is valid for long enough, it awaits the stored certificate instead of replacing it.
//! A certificate that becomes valid later than [`Lifetimes::clock_tolerance`] is damaged. Trust in
//! an authority lasts longer than its use: only one that becomes valid later than the life of a
//! leaf is forgotten.
//!
//! # Assumptions
//! Clocks differ by less than the life of a certificate. The caller reads the configurations, then
//! the serving Secret, then the Secret of the authority. So the Secret of the authority holds the
//! issuer of every leaf in what was read before. The caller reads the configurations again if the
//! Secrets are not consistent ([`Stored::is_consistent`]), and the serving Secret again if that one
//! can sign. Nobody restores two consistent Secrets that are older than the authority of a served
//! leaf: a process that serves no leaf yet cannot detect it.

use std::time::{Duration, SystemTime};

use crate::fault::Fault;
use crate::issue::Purpose;
use crate::stored::{Contents, Names, Served, Signer, Stored};
use crate::trust::{Period, Publication, Trusted};

/// Maximum time in which API servers notice a changed webhook configuration.
const SETTLING: Duration = Duration::from_secs(10);
/// Divisor that bounds times by the life of a leaf, for short-lived leaves.
const SETTLING_SHARE: u32 = 10;
/// Time for which the key of the authority stays in the serving Secret: a Deployment gives up on a
/// rollout after this time (its `progressDeadlineSeconds`).
const HANDOVER: Duration = Duration::from_secs(10 * 60);
/// Maximum time for which a replica awaits a certificate that is not valid yet. The wrong clock may
/// be that of the issuer; API servers then refuse its leaf for this time.
const CLOCK_TOLERANCE: Duration = Duration::from_secs(60 * 60);
/// Minimum life of an authority, in lives of a leaf. A shorter one would be due at once.
const LEAVES_IN_A_LIFE: u32 = 3;
/// Maximum number of authorities that are trusted beside the signing one, so that rubbish cannot
/// grow.
pub(crate) const OLD_MAX: usize = 8;

/// Validity of the certificates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lifetimes {
    authority: Duration,
    leaf: Duration,
}

/// Error of lifetimes that do not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LifetimesError {
    /// A leaf is too short-lived: dates in certificates are seconds.
    #[error("a certificate is valid for ten seconds at least")]
    TooShort,
    /// The authority would be due for replacement at once.
    #[error(
        "the authority must be valid for at least {LEAVES_IN_A_LIFE} times as long as what it signs"
    )]
    AuthorityTooShort,
}

impl Lifetimes {
    /// Creates the lifetimes of an authority and of a leaf.
    ///
    /// # Errors
    /// [`LifetimesError`] if they are too short, alone or together.
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

    /// Returns the time for which an authority is published before it signs.
    pub fn settling(&self) -> Duration {
        SETTLING.min(self.leaf / SETTLING_SHARE)
    }

    /// Returns the time for which replicas of versions up to 0.1 may run beside this one, after the
    /// serving Secret was last observed to hold everything.
    pub fn handover(&self) -> Duration {
        HANDOVER.min(self.leaf / SETTLING_SHARE)
    }

    /// Returns the maximum time for which a replica awaits a stored certificate that is not valid
    /// yet. One that becomes valid later is damaged.
    pub fn clock_tolerance(&self) -> Duration {
        CLOCK_TOLERANCE.min(self.leaf / SETTLING_SHARE)
    }

    /// Returns the time until a leaf is due: two thirds of its life, or of the current life of
    /// leaves. A leaf that could authenticate a client is due at once.
    fn leaf_due(&self, leaf: &Served, now: SystemTime) -> Duration {
        if leaf.purpose != Some(Purpose::Server) {
            return Duration::ZERO;
        }
        let life = leaf.period.life();
        let age = now.duration_since(leaf.period.from).unwrap_or_default();
        let renewed_at = life.min(self.leaf) / 3 * 2;
        renewed_at.saturating_sub(age)
    }

    /// Returns the time until an authority is due: it has less left than two lives of a leaf, or
    /// than a third of its own.
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
    /// A new authority, and a leaf of it.
    Authority,
}

/// Inputs of the decision.
#[derive(Clone, Copy)]
pub struct Situation<'a> {
    /// Contents of the two Secrets.
    pub stored: &'a Stored,
    /// Time for which this process has observed the key of the authority in the serving Secret.
    pub combined_for: Duration,
    /// Contents of the Secrets at the last leaf that this process served of them.
    pub last_good: Option<&'a Stored>,
    /// Leaf that this process serves.
    pub serving: Option<&'a Served>,
    /// Contents of the webhook configurations.
    pub published: &'a Publication,
    /// Request of a person, if any.
    pub request: Option<RotationRequest>,
    /// Names of the webhook.
    pub names: &'a Names,
    /// Validity of the certificates.
    pub lifetimes: Lifetimes,
    /// Time of the decision.
    pub now: SystemTime,
}

/// A change of the Secrets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Brings the Secrets into their normal form: restores lost contents, creates an authority if
    /// none can sign, removes needless contents.
    Normalize,
    /// Stores a staged authority.
    Stage,
    /// Stores a new leaf: of the staged authority once every caBundle has held it long enough,
    /// which signs from then on; otherwise of the signing one.
    Issue,
}

/// Decision on the next step.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Decision {
    /// Next change of the Secrets.
    pub change: Option<Change>,
    /// Fault that the change repairs, if any.
    pub repairs: Option<Fault>,
    /// Whether the change fulfils the request of a person.
    pub fulfils_request: bool,
    /// Authorities that every caBundle must hold; `None` if the Secrets may lack one.
    pub trust: Option<Vec<Trusted>>,
    /// Time until the next decision if nothing changes.
    pub again: Option<Duration>,
}

/// Decides on the next step.
pub fn decide(situation: &Situation<'_>) -> Decision {
    let (change, repairs) = situation.change();
    let trust = situation.stored.trust(situation.now);
    let can_sign = situation.stored.signing(situation.now).is_ok()
        || situation.awaits(situation.stored.signing_period());
    let is_known = can_sign && !trust.is_empty() && !situation.has_forgotten();
    Decision {
        change,
        repairs,
        fulfils_request: change.is_some_and(|change| situation.fulfils_request(change)),
        trust: is_known.then_some(trust),
        again: situation.again(),
    }
}

impl Situation<'_> {
    /// Returns the next change, and the fault that it repairs.
    fn change(&self) -> (Option<Change>, Option<Fault>) {
        if self.awaits(self.stored.signing_period()) {
            return (None, None);
        }
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

    /// Whether the stored leaf is not of the signing authority: a replica stopped between the two
    /// writes of a succession.
    fn is_succession_unfinished(&self) -> bool {
        let leaf = self.stored.leaf(self.names, self.now);
        let signer = self.stored.signing(self.now);
        matches!((leaf, signer), (Ok(leaf), Ok(signer)) if leaf.issuer != signer.certificate)
    }

    /// Returns the time until the key of the authority is removed from the serving Secret; `None`
    /// if it is absent, or is removed now.
    pub(crate) fn handover_left(&self) -> Option<Duration> {
        let left = self.lifetimes.handover().checked_sub(self.combined_for);
        left.filter(|left| self.stored.is_combined() && !left.is_zero())
    }

    /// Returns the signing authority: the stored one, or the last one that this process knew, or a
    /// staged one.
    pub(crate) fn signer(&self) -> Option<&Signer> {
        let sources = || [Some(self.stored), self.last_good].into_iter().flatten();
        let signing = sources().find_map(|source| source.signing(self.now).ok());
        signing.or_else(|| sources().find_map(|source| source.next(self.now)?.ok()))
    }

    /// Whether this process awaits the validity of a stored certificate: its clock is behind, or
    /// that of the replica that issued the certificate is ahead.
    pub fn awaits_validity(&self) -> bool {
        self.awaits(self.stored.signing_period()) || self.awaits(self.stored.leaf_period())
    }

    /// Whether this process awaits a certificate of that period, because it serves a leaf that is
    /// valid until then.
    pub(crate) fn awaits(&self, period: Option<Period>) -> bool {
        let is_valid = |serving: &&Served| serving.period.check(self.now).is_ok();
        let serving = self.serving.filter(is_valid);
        let early = period.filter(|period| self.is_early(*period));
        early
            .zip(serving)
            .is_some_and(|(early, serving)| early.from < serving.period.until)
    }

    /// Whether a certificate is not valid yet, and is within the tolerance of clocks.
    pub(crate) fn is_early(&self, period: Period) -> bool {
        let left = period.from.duration_since(self.now).unwrap_or_default();
        !left.is_zero() && left <= self.lifetimes.clock_tolerance()
    }

    /// Whether a replica may serve a leaf of an authority: it is valid, or a replica whose clock is
    /// ahead by less than the life of a leaf finds it valid.
    pub(crate) fn may_be_used(&self, authority: &Trusted) -> bool {
        let period = authority.period();
        let left = period.from.duration_since(self.now).unwrap_or_default();
        period.check(self.now) != Err(Fault::Expired) && left <= self.lifetimes.leaf()
    }

    /// Whether the Secrets may lack a trusted authority: none in them can sign, or one is
    /// forgotten.
    pub(crate) fn lost_authorities(&self) -> bool {
        self.stored.signing(self.now).is_err() || self.has_forgotten()
    }

    /// Whether the Secrets lack an authority in use because somebody restored an older one: the
    /// issuer of the leaf that this process serves, or, if the Secrets are not consistent, an
    /// authority of a caBundle. Other replicas may serve a leaf of that one.
    fn has_forgotten(&self) -> bool {
        let listed = self.stored.trust(self.now);
        let is_forgotten =
            |authority: &Trusted| self.may_be_used(authority) && !listed.contains(authority);
        let is_valid = |leaf: &&Served| leaf.period.check(self.now).is_ok();
        let served = self.serving.filter(is_valid).map(|leaf| &leaf.issuer);
        let takes_published = !self.stored.is_consistent(self.now) && listed.len() <= OLD_MAX;
        let bundles = self.published.bundles.iter();
        let published = bundles
            .filter(|_| takes_published)
            .flat_map(|bundle| &bundle.authorities);
        served.into_iter().chain(published).any(is_forgotten)
    }

    /// Returns the fault for which the Secrets are not in their normal form; `None` after a first
    /// start, or if time alone is the reason.
    fn damage(&self, normal: Option<&Contents>) -> Option<Fault> {
        if let Err(fault) = self.stored.signing(self.now) {
            let is_first_start = self.stored.contents().is_empty() && self.last_good.is_none();
            return (!is_first_start).then_some(fault);
        }
        let next = || {
            let fault = self.stored.next(self.now)?.err();
            fault.filter(|_| self.staged(false).is_none())
        };
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
        let forgotten = self.has_forgotten().then_some(Fault::Forgotten);
        let faults = forgotten.or_else(next).or_else(leaf);
        faults.or_else(rubbish).or_else(copy)
    }

    /// Returns the fault of the stored leaf; `None` before the first leaf.
    fn leaf_fault(&self) -> Option<Fault> {
        let fault = self.stored.leaf(self.names, self.now).err()?;
        let is_first_start = fault == Fault::Missing && self.last_good.is_none();
        (!is_first_start).then_some(fault)
    }

    /// Returns the stored leaf if this process should serve it: it is valid, it is trusted at least
    /// as much as the served one, and the Secrets still hold the issuer of that one.
    pub fn servable(&self) -> Option<&Served> {
        if self.stored.signing(self.now).is_ok() && self.has_forgotten() {
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

    /// Whether another authority must be staged.
    fn is_authority_due(&self, signer: &Signer) -> bool {
        let due = self.lifetimes.authority_due(&signer.certificate, self.now);
        let is_requested = self.request == Some(RotationRequest::Authority);
        let is_due = due.is_zero() || (is_requested && !self.is_succession_unfinished());
        is_due && self.stored.next(self.now).is_none()
    }

    /// Returns the authority that issues a new leaf now; `None` if the stored one is right or
    /// awaited, or a new one would not be trusted yet.
    pub(crate) fn issuer<'a>(&'a self, signer: &'a Signer) -> Option<&'a Signer> {
        if self.awaits(self.stored.leaf_period()) {
            return None;
        }
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

    /// Returns the staged authority, once it may sign.
    fn settled_next(&self) -> Option<&Signer> {
        let next = self.stored.next(self.now)?.ok()?;
        self.is_settled(&next.certificate).then_some(next)
    }

    /// Whether a leaf of the signing authority is trusted. If it is the only authority, no replica
    /// serves a leaf of another one, and publication suffices.
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

    /// Returns the time until time alone changes the decision.
    fn again(&self) -> Option<Duration> {
        let now = self.now;
        let begins = self.begins();
        let Ok(signing) = self.stored.signing(now) else {
            return begins;
        };
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
            begins,
        ];
        settles
            .chain(ends)
            .chain(due.into_iter().flatten())
            .filter(|left| !left.is_zero())
            .min()
    }

    /// Returns the time until the first stored certificate that is not valid yet is valid.
    fn begins(&self) -> Option<Duration> {
        let staged = self.stored.staged();
        let periods = [
            self.stored.signing_period(),
            staged.map(|staged| staged.certificate.period()),
            self.stored.leaf_period(),
        ];
        let left = |period: Period| period.from.duration_since(self.now).ok();
        let left = periods.into_iter().flatten().filter_map(left);
        left.filter(|left| !left.is_zero()).min()
    }
}

#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests;
