//! Agreement of an explanation with a controller at rest.

use std::collections::BTreeSet;
use std::net::IpAddr;

use super::super::{EndpointReport, EndpointState, Explanation, ExposureReport, explain};
use crate::fixtures::{Environment, key};
use crate::model::slice::Exposure;
use crate::plan::Desired;
use crate::plan::copies::WantedCopy;
use crate::reasons::Reason;

/// Asserts that each ready endpoint is present in a consumer exactly where the controller's plan
/// puts a copy, and that a missing one has a reason.
pub(crate) fn assert_agrees(env: &Environment) {
    let (hub, members) = env.lists();
    let explanation = explain(&hub, &members, &env.settings, &key("foo"), env.now());
    let desired = env.plan("foo");
    let view = Agreement {
        env,
        desired: &desired,
        explanation: &explanation,
    };
    for exposure in &explanation.exposures {
        view.assert_exposure(exposure);
    }
    view.assert_all_are_explained();
    view.assert_disagreements();
    view.assert_leftovers();
}

struct Agreement<'a> {
    env: &'a Environment,
    desired: &'a Desired,
    explanation: &'a Explanation,
}

impl Agreement<'_> {
    /// Lists the copies of a provider's endpoints that the controller's plan puts into a consumer.
    fn wanted(
        &self,
        path: Exposure,
        provider: &str,
        consumer: &str,
    ) -> impl Iterator<Item = &WantedCopy> {
        let consumer = crate::fixtures::name(consumer);
        let copies = self.desired.copies_in(path, &consumer).into_iter();
        let wanted = copies.flat_map(|copies| copies.wanted.values());
        wanted.filter(move |copy| copy.provider().as_str() == provider)
    }

    /// Whether the controller's plan puts an entry into a consumer that leads to an endpoint.
    fn has_entry(
        &self,
        path: Exposure,
        (provider, endpoint): (&str, &EndpointReport),
        consumer: &str,
    ) -> bool {
        let (name, key) = (crate::fixtures::name(provider), key("foo"));
        let member = self.env.index.member(&name).expect("the member");
        let mut sources = member.sources(&key);
        let is_own = |slice: &str| endpoint.slice.as_deref() == Some(slice);
        let Some((_, source)) = sources.find(|(slice, _)| is_own(slice)) else {
            return false;
        };
        let node = endpoint.node.as_deref();
        let copies = self
            .desired
            .copies_in(path, &crate::fixtures::name(consumer));
        let entry = copies.and_then(|copies| copies.entry(&name)?.ok());
        let is_behind = entry.is_some_and(|entry| entry.misses(source, node).is_none());
        let mut wanted = self.wanted(path, provider, consumer);
        let is_open = |copy: &WantedCopy| {
            let door = copy.door_to(node);
            door.is_some_and(|(door, _)| copy.refusal(&door).is_none())
        };
        is_behind && wanted.any(is_open)
    }

    /// Returns the addresses of a provider that the controller's plan puts into a consumer.
    fn planned(&self, path: Exposure, provider: &str, consumer: &str) -> BTreeSet<Vec<IpAddr>> {
        let wanted = self.wanted(path, provider, consumer);
        let endpoints = wanted.flat_map(|copy| copy.slice("any").endpoints);
        let addresses = endpoints.map(|endpoint| {
            let addresses = endpoint.addresses.iter();
            addresses
                .map(|one| one.parse().expect("an address"))
                .collect()
        });
        addresses.collect()
    }

    fn assert_exposure(&self, exposure: &ExposureReport) {
        let path = exposure.exposure;
        for provider in &exposure.providers {
            for endpoint in provider.endpoints.iter().filter(|one| one.slice.is_some()) {
                for state in &endpoint.consumers {
                    let (provider, consumer) = (&*provider.cluster, &*state.cluster);
                    if !self.answers(consumer) || (path == Exposure::Native && provider == consumer)
                    {
                        continue;
                    }
                    let planned = self.planned(path, provider, consumer);
                    let is_planned = planned.contains(&endpoint.addresses)
                        || self.has_entry(path, (provider, endpoint), consumer);
                    let is_kept = state.diagnosis.reason == Reason::Kept;
                    assert!(
                        is_kept || (state.state == EndpointState::Present) == is_planned,
                        "{:?} of {provider} in {consumer}, planned: {is_planned}: {state:#?}\n{:#?}",
                        endpoint.addresses,
                        self.explanation
                    );
                }
            }
        }
    }

    fn assert_all_are_explained(&self) {
        for state in self.explanation.consumer_states(|_| true) {
            let reason = state.diagnosis.reason;
            let is_explained = reason != Reason::Progressing;
            assert!(
                is_explained || !self.answers(&state.cluster),
                "{state:#?}\n{:#?}",
                self.explanation
            );
        }
    }

    /// Asserts that the explanation reports writers of a provider that disagree exactly where the
    /// controller's plan finds them.
    fn assert_disagreements(&self) {
        let is_found = |path: Exposure, provider: &str| {
            let mut copies = self.desired.each_copies();
            copies.any(|(of, _, copies)| {
                let mut found = copies.disagreements();
                of == path && found.any(|((name, _), _)| name.as_str() == provider)
            })
        };
        for exposure in &self.explanation.exposures {
            for provider in &exposure.providers {
                let mut diagnoses = provider.diagnoses.iter();
                let is_explained = diagnoses.any(|one| one.reason == Reason::WritersDisagree);
                assert!(
                    !self.answers(&provider.cluster)
                        || is_explained == is_found(exposure.exposure, &provider.cluster),
                    "{}, explained: {is_explained}: {:#?}",
                    provider.cluster,
                    self.explanation
                );
            }
        }
    }

    /// Asserts that no leftover is reported of members that answer: a controller at rest has
    /// collected them, unless it has still to look up the MultiClusterService on the hub. Objects
    /// that remain there are desired, and are no leftovers.
    fn assert_leftovers(&self) {
        if self.env.diff("foo").look_up {
            return;
        }
        let of_service = self.explanation.diagnoses.iter();
        for left in of_service.filter(|one| one.reason == Reason::Leftovers) {
            let members = self.env.index.member_names();
            let mut named = members.filter(|name| left.message.contains(name.as_str()));
            let collected = named.find(|name| self.answers(name.as_str()));
            assert_eq!(collected, None, "{:#?}", self.explanation);
        }
    }

    fn answers(&self, member: &str) -> bool {
        let (_, members) = self.env.lists();
        members.get(member).is_some_and(Result::is_ok)
    }
}
