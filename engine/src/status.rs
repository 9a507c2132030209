//! Desired status of a MultiClusterService.
//!
//! A condition whose truth is not settled yet stays as it was: a change in progress makes no
//! condition flap and costs no write.

pub(crate) mod cluster;
mod condition_state;
mod entry_clusters;
pub(crate) mod exports;
mod ready;

use std::time::Duration;

use causeway::api::condition::{self as names, TRUE};
use causeway::domain::{ClusterName, ExposureType, MultiClusterService, ServiceKey};
use k8s_openapi::api::core::v1::LoadBalancerIngress;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use k8s_openapi::jiff::Timestamp;

use self::condition_state::{ConditionState, DesiredCondition, set, settled, summarize};
use crate::messages::{self, Text, native};
use crate::model::map::HashMap;
use crate::model::{Failure, MemberState, ObjectEvent, TimePoint};
use crate::observed::Index;
use crate::observed::hub::McsView;
use crate::observed::member::Member;
use crate::plan::dns::is_routable;
use crate::plan::entry_clusters::{MOST_ADDRESSES, with_former};
use crate::plan::placement::Placement;
use crate::plan::provider_use::Unused;
use crate::plan::{Desired, DesiredMember};
use crate::problem::{MemberProblem, ObjectConflict, State, WriteProblem, tally};
use crate::reasons::Reason;

/// Desired status, and the time at which it changes without an event.
#[derive(Debug)]
pub(crate) struct DesiredStatus {
    /// Conditions.
    pub conditions: Vec<Condition>,
    /// Addresses of the load balancers.
    pub ingress: Vec<LoadBalancerIngress>,
    /// Events for changes since the stored status.
    pub events: Vec<ObjectEvent>,
    /// Time at which the status changes without an event.
    pub again_at: Option<TimePoint>,
}

/// Outstanding and failed writes into one member.
#[derive(Clone, Debug, Default)]
pub(crate) struct Progress {
    /// Whether a write of the Service or its namespace is outstanding.
    pub(crate) service_pending: bool,
    /// Whether a write of a copy is outstanding.
    pub(crate) copies_pending: bool,
    /// Reason why the Service cannot be written.
    pub(crate) service_problem: Option<WriteProblem>,
    /// Reason why copies cannot be written.
    pub(crate) copies_problem: Option<WriteProblem>,
}

impl Progress {
    /// Whether anything is outstanding.
    pub(crate) fn is_pending(&self) -> bool {
        self.service_pending || self.copies_pending
    }

    /// Whether another writer reverts the Service as often as it is written.
    fn has_service_conflict(&self) -> bool {
        matches!(self.service_problem, Some(WriteProblem::Conflict(_)))
    }

    /// Whether another writer reverts copies as often as they are written.
    fn has_copies_conflict(&self) -> bool {
        matches!(self.copies_problem, Some(WriteProblem::Conflict(_)))
    }

    /// Whether another writer reverts anything as often as it is written.
    pub(crate) fn has_conflict(&self) -> bool {
        self.has_service_conflict() || self.has_copies_conflict()
    }

    /// Returns the reason why a write fails, that of the Service first.
    pub(crate) fn problem(&self) -> Option<&WriteProblem> {
        self.service_problem
            .as_ref()
            .or(self.copies_problem.as_ref())
    }
}

/// Time after which a written copy that no watch has shown is a problem, and likewise a Service
/// without an EndpointSlice.
const SEEN_WITHIN: Duration = Duration::from_secs(30);
/// Conditions about EndpointSlices, which a service without consumers does not have.
const OF_SLICES: [&str; 2] = [
    names::ENDPOINT_SLICE_DISPATCHED,
    names::ENDPOINT_SLICE_APPLIED,
];

/// Desired status of a service, with all that it depends on.
pub(crate) struct View<'a> {
    pub(crate) index: &'a Index,
    pub(crate) key: &'a ServiceKey,
    pub(crate) mcs: &'a McsView,
    pub(crate) desired: &'a Desired,
    pub(crate) progress: &'a HashMap<ClusterName, Progress>,
    /// Write conflict over the MultiClusterService itself.
    pub(crate) conflict: Option<ObjectConflict>,
    /// Failure of the write that adds the finalizer.
    pub(crate) finalizer_failure: Option<Failure>,
    /// Failure of the write of the DNSEndpoint.
    pub(crate) name_failure: Option<Failure>,
    pub(crate) now: TimePoint,
}

impl View<'_> {
    /// Returns the desired status.
    pub(crate) fn status(&self) -> DesiredStatus {
        let mut conditions = self.mcs.conditions.clone();
        let mut events = Vec::new();
        let states = self.states();
        let generation = self.mcs.generation;
        if !self.dispatches() && self.desired.karmada.is_none() {
            conditions.retain(|one| !OF_SLICES.contains(&&*one.type_));
        }
        for (type_, text, state) in &states {
            let text = *text;
            let desired = DesiredCondition { type_, text, state };
            events.extend(set(&mut conditions, desired, generation, self.now));
        }
        let ready = self.ready(&conditions, &states);
        let message = self.ready_message();
        let desired = DesiredCondition {
            type_: names::READY,
            text: (Reason::Ready.as_str(), message.as_str()),
            state: &ready,
        };
        let said = set(&mut conditions, desired, generation, self.now);
        let by_itself = |said: &ObjectEvent| {
            let own = [Reason::NoProviders, Reason::NoEntryAddress];
            states.is_empty() || own.iter().any(|reason| said.reason == *reason)
        };
        events.extend(said.filter(by_itself));
        // Whoever notices a write_conflict tells of it, once.
        events.retain(|said| said.reason != Reason::WriteConflict);
        DesiredStatus {
            conditions,
            ingress: self.ingress(),
            events,
            again_at: self.patience_ends(),
        }
    }

    /// Whether the consumers get the endpoints of the providers.
    fn dispatches(&self) -> bool {
        let spec = self.mcs.spec.as_ref();
        spec.map_or(true, MultiClusterService::dispatches_endpoints)
    }

    /// Lists the conditions on which Ready depends, each with its type, the text if it holds, and
    /// its state. Empty where Karmada manages the service and writes these conditions.
    fn states(&self) -> Vec<(&'static str, Text<'static>, ConditionState)> {
        if self.desired.karmada.is_some() {
            return Vec::new();
        }
        let mut all = vec![(
            names::SERVICE_APPLIED,
            native::SERVICE_APPLIED,
            self.service_applied(),
        )];
        if self.dispatches() {
            all.push((
                names::ENDPOINT_SLICE_DISPATCHED,
                native::DISPATCHED,
                self.dispatched(),
            ));
            all.push((
                names::ENDPOINT_SLICE_APPLIED,
                native::APPLIED,
                self.applied(),
            ));
        }
        all
    }

    /// Returns the message about slices if a problem of the hub withdraws everything.
    fn withdrawn(&self) -> Option<String> {
        let members = &self.desired.members;
        let nothing = !members.is_untouched() && members.names().next().is_none();
        self.desired
            .problem
            .as_ref()
            .filter(|_| nothing)
            .map(|problem| messages::problem::problem(self.key, problem))
    }

    fn service_applied(&self) -> ConditionState {
        if let Some(problem) = &self.desired.problem {
            return ConditionState::of_problem(self.key, problem);
        }
        let gathers = !self.dispatches();
        let Placement { targets, left_out } = &self.desired.placement;
        // Ready names the providers that are left out of those whose load balancers are gathered.
        if targets.is_empty() && (left_out.is_empty() || !gathers) {
            return ConditionState::failed(Reason::ServiceAppliedFailed, native::NO_TARGETS);
        }
        let states = targets.keys().map(|name| match gathers {
            true => (name, self.balanced_in(name)),
            false => (name, self.service_in(name)),
        });
        let failed = self.reason(Reason::ServiceAppliedFailed, Progress::has_service_conflict);
        summarize(failed, [tally("clusters", states.collect())])
    }

    /// Returns the reason of a condition that does not hold: a write conflict in any member, or
    /// else `usual`.
    fn reason(&self, usual: Reason, has_conflict: fn(&Progress) -> bool) -> Reason {
        match self.progress.values().any(has_conflict) {
            true => Reason::WriteConflict,
            false => usual,
        }
    }

    fn dispatched(&self) -> ConditionState {
        if let Some(state) = self.without_members(Reason::EndpointSliceDispatchedFailed) {
            return state;
        }
        let placement = &self.desired.placement;
        let providers = placement
            .providers()
            .map(|name| (name, self.provided_by(name)))
            .collect();
        let consumers = placement
            .consumers()
            .map(|name| (name, self.dispatched_to(name)))
            .collect();
        summarize(
            self.reason(
                Reason::EndpointSliceDispatchedFailed,
                Progress::has_copies_conflict,
            ),
            [tally("providers", providers), tally("consumers", consumers)],
        )
    }

    fn applied(&self) -> ConditionState {
        if let Some(state) = self.without_members(Reason::EndpointSliceAppliedFailed) {
            return state;
        }
        let consumers = self
            .desired
            .placement
            .consumers()
            .map(|name| (name, self.applied_in(name)))
            .collect();
        let failed = self.reason(
            Reason::EndpointSliceAppliedFailed,
            Progress::has_copies_conflict,
        );
        summarize(failed, [tally("consumers", consumers)])
    }

    /// Returns the state of the conditions about slices where no member is planned.
    fn without_members(&self, reason: Reason) -> Option<ConditionState> {
        if let Some(message) = self.withdrawn() {
            return Some(ConditionState::failed(reason, message));
        }
        let is_untouched = self.desired.members.is_untouched();
        is_untouched.then_some(ConditionState::Unchanged)
    }

    fn member(&self, name: &ClusterName) -> Option<&Member> {
        self.index.member(name)
    }

    /// Whether the EndpointSlices of the service are watched in a member.
    fn covers(&self, name: &ClusterName) -> bool {
        self.member(name)
            .is_none_or(|member| member.covers(self.key))
    }

    fn desired_member(&self, name: &ClusterName) -> Option<&DesiredMember> {
        self.desired.members.of(name)
    }

    fn reachable(&self, name: &ClusterName) -> State {
        match self.index.reported_state(name, self.now).0 {
            MemberState::Synced => State::Done,
            MemberState::Syncing => State::InProgress,
            state => State::Failed(MemberProblem::Unusable(state)),
        }
    }

    fn service_in(&self, name: &ClusterName) -> State {
        let reachable = self.reachable(name);
        if reachable != State::Done {
            return reachable;
        }
        let progress = self.progress.get(name);
        let planned = self.desired_member(name);
        let planned = planned.and_then(|member| member.problem.clone());
        let written = || Some(MemberProblem::Write(progress?.service_problem.clone()?));
        let problem = planned.map(MemberProblem::Service).or_else(written);
        settled(
            problem,
            progress.is_some_and(|progress| progress.service_pending),
        )
    }

    fn balanced_in(&self, name: &ClusterName) -> State {
        let reachable = self.reachable(name);
        let member = self.member(name);
        let service = member.and_then(|member| member.service(self.key));
        match (reachable, service) {
            (State::Done, None) => State::Failed(MemberProblem::NoService(self.key.clone())),
            // Its load balancer is being removed.
            (State::Done, Some(service)) if service.deleting => {
                State::Failed(MemberProblem::ServiceDeleting(self.key.clone()))
            }
            (other, _) => other,
        }
    }

    /// Returns the progress of a provider. Kubernetes creates at least one slice for every Service
    /// with a selector; nothing can be dispatched before that slice exists.
    fn provided_by(&self, name: &ClusterName) -> State {
        let reachable = self.reachable(name);
        match self
            .slice_awaited_until(name)
            .filter(|_| reachable == State::Done)
        {
            None if reachable == State::Done && !self.covers(name) => State::InProgress,
            None => reachable,
            Some(until) if self.now < until => State::InProgress,
            Some(_) => State::Failed(MemberProblem::NoSlice(self.key.clone())),
        }
    }

    /// Returns the time until which a provider may lack a slice of its Service without a problem;
    /// `None` if none is missing.
    fn slice_awaited_until(&self, name: &ClusterName) -> Option<TimePoint> {
        let member = self.member(name)?;
        let service = member
            .service(self.key)
            .filter(|service| !service.shape.selector.is_empty())?;
        if member.sources(self.key).next().is_some() || !member.covers(self.key) {
            return None;
        }
        let since = service.created.unwrap_or(Timestamp::UNIX_EPOCH);
        if since > self.now.wall {
            // The clock of the provider is ahead.
            let observed = member.slice_awaited_since(self.key);
            return observed.map(|since| since.after(SEEN_WITHIN));
        }
        let until = since.saturating_add(SEEN_WITHIN).unwrap_or(Timestamp::MAX);
        Some(self.now.at_wall(until))
    }

    fn dispatched_to(&self, name: &ClusterName) -> State {
        let reachable = self.reachable(name);
        if reachable != State::Done {
            return reachable;
        }
        let progress = self.progress.get(name);
        let problem = progress.and_then(|progress| progress.copies_problem.clone());
        let problem = problem.map(MemberProblem::Write);
        let pending =
            progress.is_some_and(|progress| progress.copies_pending || progress.service_pending);
        settled(problem, pending)
    }

    fn applied_in(&self, name: &ClusterName) -> State {
        let mut conditions = self.mcs.conditions.iter();
        let applied = conditions.find(|one| one.type_ == names::ENDPOINT_SLICE_APPLIED);
        let was_true = applied.is_some_and(|one| {
            one.status == TRUE && one.observed_generation == Some(self.mcs.generation)
        });
        match self.dispatched_to(name) {
            // What an unreachable consumer holds it still holds. A consumer of a later generation
            // may never have held anything.
            State::Failed(_) if was_true && self.reachable(name) != State::Done => {
                State::InProgress
            }
            State::Done => self.seen_in(name),
            other => other,
        }
    }

    fn seen_in(&self, name: &ClusterName) -> State {
        let unseen: Vec<_> = self.unseen_in(name).collect();
        let late = unseen
            .iter()
            .filter(|since| self.now.since(**since) >= SEEN_WITHIN)
            .count();
        match (unseen.len(), late) {
            (0, _) => State::Done,
            (_, 0) => State::InProgress,
            (_, late) => State::Failed(MemberProblem::NotSeen(late)),
        }
    }

    fn unseen_in(&self, name: &ClusterName) -> impl Iterator<Item = TimePoint> {
        let member = self.member(name);
        let copies = self
            .desired_member(name)
            .into_iter()
            .flat_map(|member| member.copies.wanted.keys());
        copies.filter_map(move |copy| member?.copy(self.key, copy)?.unseen_since())
    }

    /// Returns the next time at which something in progress counts as a problem, or at which the
    /// reported state of a cluster changes.
    fn patience_ends(&self) -> Option<TimePoint> {
        let placement = &self.desired.placement;
        let unseen = placement.consumers().flat_map(|name| self.unseen_in(name));
        let unseen = unseen.map(|since| since.after(SEEN_WITHIN));
        let awaited = placement
            .providers()
            .filter_map(|name| self.slice_awaited_until(name));
        let targets = placement.targets.keys();
        let damped = targets.filter_map(|name| self.index.reported_state(name, self.now).1);
        let all = unseen.chain(awaited).chain(damped);
        let all = all.chain(self.address_awaited_until());
        all.filter(|end| *end > self.now).min()
    }

    /// Returns the addresses of the load balancers that lead to the service, except those that lead
    /// clients to their own node.
    fn ingress(&self) -> Vec<LoadBalancerIngress> {
        let untouched = self.desired.members.is_untouched();
        let spec = self.mcs.spec.as_ref().ok();
        let spec = spec.filter(|spec| spec.exposure == ExposureType::LoadBalancer && !untouched);
        let Some(spec) = spec else {
            return self.mcs.ingress.clone();
        };
        let mut addresses = self.addresses(spec);
        addresses.retain(|address| {
            let ip = address.ip.as_ref().and_then(|ip| ip.parse().ok());
            ip.is_none_or(|ip| is_routable(&ip))
        });
        addresses
    }

    fn addresses(&self, spec: &MultiClusterService) -> Vec<LoadBalancerIngress> {
        let stored = self.mcs.balancers();
        if let Some(entries) = &self.desired.entry_clusters {
            let placement = &self.desired.placement;
            return entries.ingress(self.index, self.key, placement, &stored);
        }
        let providers = self.desired.placement.providers();
        let used = providers.filter(|name| !Unused::excludes(self.index, name));
        let used: Vec<_> = used.collect();
        let known = |name: &ClusterName| {
            self.member(name)
                .filter(|member| member.sources_are_known(self.key))
        };
        let services = used
            .iter()
            .filter_map(|name| known(name)?.service(self.key));
        // The load balancer of a terminating Service is being removed.
        let services = services.filter(|service| !service.deleting);
        let reported = services.flat_map(|service| service.ingress.iter().take(MOST_ADDRESSES));
        let lost = self.index.suspected_clusters().iter();
        let lost = lost.filter(|name| spec.providers.includes(name)).count();
        let unknown = used.iter().filter(|name| known(name).is_none()).count();
        let room = (lost + unknown) * MOST_ADDRESSES;
        if room == 0 {
            return reported.cloned().collect();
        }
        let is_of_others = |address: &LoadBalancerIngress| {
            let mut others = self.index.members().filter_map(|(name, member)| {
                let service = member.service(self.key)?;
                let is_used = used.contains(&name) && known(name).is_none();
                (service.deleting || !is_used).then_some(service)
            });
            others.any(|service| service.ingress.contains(address))
        };
        // Nothing proves that the load balancer of a cluster that cannot be asked is gone.
        let reported: Vec<_> = reported.collect();
        with_former(&stored, &reported, room, is_of_others)
    }
}

#[cfg(test)]
mod tests;
