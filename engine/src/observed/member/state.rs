//! State of a member: whether it answers, is known and can be used.

use std::time::Duration;

use causeway::domain::{KubernetesVersion, Unreachable};

use super::Member;
use super::outage::Outage;
use crate::evidence::list::ListEvidence;
use crate::model::{
    Configuration, Failure, Identity, LeftOut, MemberState, Refusal, RequiredKind, TimePoint,
};

/// Time since which a member fails in the same way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Failing {
    since: TimePoint,
    /// Time since which this process has observed the failure.
    observed: TimePoint,
    is_unreachable: bool,
    /// Time since which the member is refused for its configuration or its identity, so that
    /// nothing shows whether it still fails.
    paused: Option<TimePoint>,
}

impl Failing {
    /// Pauses the outage, or continues it without the time of the pause.
    fn pause(&mut self, is_paused: bool, now: TimePoint) {
        match (is_paused, self.paused) {
            (true, None) => self.paused = Some(now),
            (false, Some(paused)) => {
                let pause = now.since(paused);
                self.since = self.since.after(pause);
                self.observed = self.observed.after(pause);
                self.paused = None;
            }
            (true, Some(_)) | (false, None) => {}
        }
    }
}

impl Member {
    /// Returns the state of the member.
    pub fn member_state(&self) -> MemberState {
        if let Some(refusal) = self.refusal() {
            return MemberState::Refused(refusal);
        }
        match (self.unreachable(), self.unwatched(), self.failing) {
            (Some(failure), _, Some(failing)) => MemberState::Unreachable {
                failure: failure.clone(),
                since: failing.since,
                observed: failing.observed,
            },
            (None, Some((kind, failure)), Some(failing)) => MemberState::Unwatched {
                kind,
                failure: failure.clone(),
                since: failing.since,
            },
            _ if self.is_synced() => MemberState::Synced,
            _ => MemberState::Syncing,
        }
    }

    /// Returns when the member has been unreachable for `patience`; `None` if it is not
    /// unreachable, or will not have been because it is refused.
    ///
    /// The outage that an earlier process recorded counts. This process observes it for a minute in
    /// any case: the member may have answered while no process ran. While the member is refused,
    /// the outage neither grows nor ends.
    pub(crate) fn unreachable_for(&self, patience: Duration) -> Option<TimePoint> {
        let failing = self.failing.filter(|failing| failing.is_unreachable)?;
        let least = patience.min(Unreachable::WITHDRAW_AFTER_MIN);
        let confirmed = failing.observed.after(least);
        let end = failing.since.after(patience).max(confirmed);
        let is_within = failing.paused.is_none_or(|paused| end <= paused);
        is_within.then_some(end)
    }

    /// Returns the reason why the member cannot be used until a person acts.
    fn refusal(&self) -> Option<Refusal> {
        match (&self.configuration, &self.refusals) {
            (Configuration::Refused(error), _) => Some(Refusal::Configuration(error.clone())),
            (_, refusals) if refusals.is_another_cluster => Some(Refusal::AnotherCluster),
            (_, refusals) => refusals.duplicate_of.clone().map(Refusal::DuplicateOf),
        }
    }

    /// Returns what statuses report of the member, and the time at which it changes without an
    /// event.
    pub(in crate::observed) fn reported_state(
        &self,
        now: TimePoint,
    ) -> (MemberState, Option<TimePoint>) {
        match self.member_state() {
            refused @ MemberState::Refused(_) => (refused, None),
            state => self.outage.reported(state, MemberState::Syncing, now),
        }
    }

    /// Whether an earlier process recorded an outage, and the member has not answered since.
    pub(crate) fn has_recorded_outage(&self) -> bool {
        self.recorded_outage.is_some()
    }

    /// Returns the failure for which the member counts as unreachable: that of the probe, of the
    /// watch of EndpointSlices, or of an earlier engagement.
    fn unreachable(&self) -> Option<&Failure> {
        let probe = self.probe_failure.as_ref();
        let mut slices = self.evidence.of_slices();
        let current = probe.or_else(|| slices.find_map(|list| list.failure.as_ref()));
        current.or(self.earlier_failure.as_ref())
    }

    /// Retains an outage over another engagement, of which no failure was observed yet. Drops all
    /// other failures of the probe.
    pub(super) fn retain_outage(&mut self) {
        self.earlier_failure = self.unreachable().cloned();
        self.probe_failure = None;
        if self.earlier_failure.is_none() {
            self.failing = None;
            self.outage = Outage::default();
        }
    }

    /// Returns the failure of another watch that is needed to write to the member.
    fn unwatched(&self) -> Option<(RequiredKind, &Failure)> {
        let lists = [
            (RequiredKind::Services, &self.evidence.services),
            (RequiredKind::Namespaces, &self.evidence.namespaces),
        ];
        let mut failures = lists.into_iter();
        failures.find_map(|(kind, list)| Some((kind, list.failure.as_ref()?)))
    }

    /// Whether the API server answers, has reported its identity in this engagement, and has listed
    /// all that is required.
    pub(super) fn is_synced(&self) -> bool {
        let mut lists = self.evidence.required();
        let fails = self.unreachable().is_some() || self.unwatched().is_some();
        self.is_identified && !fails && lists.all(ListEvidence::is_listed)
    }

    /// Returns the reason why the member takes no part if its version is too old for
    /// EndpointSlices.
    pub(in crate::observed) fn too_old(&self) -> Option<LeftOut> {
        let identity = self.identity.as_ref()?;
        (identity.release < KubernetesVersion::OLDEST_MEMBER)
            .then(|| LeftOut::TooOld(identity.version.clone()))
    }

    /// Applies the identity that the API server reports. A member is identified by the UID of its
    /// kube-system namespace; the events of another cluster under its name are ignored. The
    /// expected UID is the one that its Cluster records. Without a record it is the one that was
    /// observed first, unless that was refused as another member's.
    pub(super) fn identify(&mut self, identity: Identity) {
        let observed = self.identity.as_ref().map(|identity| &identity.uid);
        let meant = observed.filter(|_| self.refusals.duplicate_of.is_none());
        let meant = self.recorded_uid.as_ref().or(meant);
        let is_another = meant.is_some_and(|uid| *uid != identity.uid);
        if !is_another && observed.is_some_and(|uid| *uid != identity.uid) {
            *self = Self {
                cluster_uid: self.cluster_uid.take(),
                recorded_uid: self.recorded_uid.take(),
                configuration: std::mem::take(&mut self.configuration),
                ..Self::new(self.generation)
            };
        }
        self.refusals.is_another_cluster = is_another;
        self.is_identified = !is_another;
        if !is_another {
            self.identity = Some(identity);
            self.recorded_outage = None;
            self.earlier_failure = None;
        }
    }

    /// Applies the outcome of a probe. The answer of another cluster does not end an outage.
    pub(super) fn note_probe(&mut self, outcome: Result<(), Failure>) {
        let is_own = !self.refusals.is_another_cluster;
        let lasting = self.unreachable().filter(|_| !is_own);
        self.earlier_failure = lasting.cloned();
        if is_own && outcome.is_ok() {
            self.recorded_outage = None;
        }
        match outcome {
            Ok(()) => self.probe_failure = None,
            Err(failure) => failure.note(&mut self.probe_failure),
        }
    }

    pub(super) fn note_failing(&mut self, now: TimePoint) {
        let is_unreachable = self.unreachable().is_some();
        self.failing = match (is_unreachable || self.unwatched().is_some(), self.failing) {
            (false, _) => None,
            (true, Some(same)) if same.is_unreachable == is_unreachable => Some(same),
            (true, _) => {
                let recorded = self.recorded_outage.filter(|_| is_unreachable);
                Some(Failing {
                    since: recorded.map_or(now, |since| now.back_to_wall(since)),
                    observed: now,
                    is_unreachable,
                    paused: None,
                })
            }
        };
        self.note_pause(now);
        let is_sure = self.probe_failure.is_some();
        self.outage.note(self.member_state(), is_sure, now);
    }

    /// Pauses its outage while its configuration is invalid or another cluster answers.
    pub(in crate::observed) fn note_pause(&mut self, now: TimePoint) {
        let is_paused = matches!(self.configuration, Configuration::Refused(_))
            || self.refusals.is_another_cluster;
        if let Some(failing) = &mut self.failing {
            failing.pause(is_paused, now);
        }
    }
}
