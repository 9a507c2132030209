//! Explanation of the location of each endpoint of a service, and of the reason why one is missing.
//! It uses the plan's own decisions, and the problems that the controller reports.
//!
//! The explanation covers each endpoint in each consumer. If the plan leaves an endpoint out, the
//! reason is the plan's: each reason is a type beside the decision (`Skipped`, `ServiceProblem`,
//! `Validity`, ...), and this module only words it. If the plan wants an endpoint that a consumer
//! does not hold, either the write is under way, or the conditions of a Cluster or of the service
//! report the obstacle. This module decides nothing.

mod clusters;
mod endpoint;
mod exposure;
mod held;
mod report;

use causeway::domain::{ClusterName, ServiceKey};

pub use self::report::{
    ConsumerReport, ConsumerState, DefaultReport, EndpointReport, EndpointState, Explanation,
    ExposureReport, ProviderReport, ShareReport, TierReport,
};
use crate::lists::{HubLists, Members};
pub use crate::messages::Diagnosis;
use crate::messages::{karmada, leftovers as words, native};
use crate::model::TimePoint;
use crate::model::slice::Exposure;
use crate::observed::Index;
use crate::observed::member::Member;
use crate::plan::clusterset::import::ImportPlan;
use crate::plan::{CopyCache, Desired, Settings, plan};

/// Inputs of an explanation.
struct Facts<'a> {
    index: &'a Index,
    desired: &'a Desired,
    members: &'a Members,
    key: &'a ServiceKey,
}

/// Explains the location of each endpoint of the service, and the reason why one is missing.
pub fn explain(
    hub: &HubLists,
    members: &Members,
    settings: &Settings,
    key: &ServiceKey,
    now: TimePoint,
) -> Explanation {
    let mut index = Index::of_lists(hub, members, now);
    index.apply_reported_outages(members, now);
    let desired = plan(&index, settings, key, now, &mut CopyCache::default());
    let facts = Facts {
        index: &index,
        desired: &desired,
        members,
        key,
    };
    let exposures = [facts.native(), facts.clusterset()];
    let exposures: Vec<_> = exposures.into_iter().flatten().collect();
    let nothing = exposures.is_empty().then(|| {
        let unread = members.iter();
        let unread = unread.filter_map(|(name, lists)| Some((name, lists.as_ref().err()?)));
        words::not_exposed(key, unread)
    });
    // A service that Karmada manages follows no defaults.
    let unread = hub.unread_defaults(key);
    let unread = unread.filter(|_| desired.karmada.is_none());
    let unread = unread.map(|why| native::namespace_unread(key, why));
    let mut exposed = exposures.iter();
    let is_exported = exposed.any(|one| one.exposure == Exposure::Clusterset);
    let import = hub.unread_import(key);
    let import = import.filter(|_| is_exported && desired.clusterset.karmadas.is_none());
    let import = import.map(|why| karmada::import_unread(key, why));
    let mut diagnoses: Vec<_> = nothing.into_iter().chain(unread).chain(import).collect();
    diagnoses.extend(facts.kept(&exposures));
    let mut explanation = Explanation {
        namespace: key.namespace.to_string(),
        name: key.name.to_string(),
        ready: false,
        diagnoses,
        exposures,
    };
    explanation.ready = explanation.is_healthy_but_for(&[]);
    explanation
}

impl Facts<'_> {
    /// Reports objects that members hold although nothing exposes the service that way: those that
    /// the plan retains for a ServiceImport that somebody made, those that it leaves in a protected
    /// namespace, and those that it collects.
    fn kept(&self, exposures: &[ExposureReport]) -> Vec<Diagnosis> {
        let (key, hub) = (self.key, self.index.hub_uid());
        let is_exposed = |by| exposures.iter().any(|one| one.exposure == by);
        let is_native = is_exposed(Exposure::Native);
        let is_exported = is_exposed(Exposure::Clusterset);
        let (mut diagnoses, mut left) = (Vec::new(), Vec::new());
        let mut protected = None;
        for (name, member) in self.index.members() {
            let import = self.desired.clusterset.imports.of(name);
            if let Some(import) = import.filter(|_| !is_exported)
                && matches!(import.import, ImportPlan::Foreign)
            {
                let problem = import.problem.as_ref();
                diagnoses.push(words::import_without_export(key, name, problem));
            }
            let is_import = !is_exported && member.owns_clusterset(key, &key.derived(), hub);
            protected = protected.or_else(|| self.protected().filter(|_| is_import));
            let is_collected = is_import && import.is_none() && protected.is_none();
            if !is_native && member.owns_native(key, hub) || is_collected {
                left.push(name);
            }
        }
        let left = (!left.is_empty()).then(|| words::leftovers(key, left));
        diagnoses.into_iter().chain(protected).chain(left).collect()
    }

    /// Returns a member that the caller read.
    fn read(&self, name: &ClusterName) -> Option<&Member> {
        let is_read = self.members.get(name).is_some_and(Result::is_ok);
        self.index.member(name).filter(|_| is_read)
    }
}

#[cfg(test)]
pub(crate) mod tests;
