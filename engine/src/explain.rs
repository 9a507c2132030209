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
mod kept;
mod providers;
mod report;

use causeway::domain::{ClusterName, ServiceKey};

pub use self::report::{
    ConsumerReport, ConsumerState, DefaultReport, EndpointReport, EndpointState, Explanation,
    ExposureReport, ProviderReport, ShareReport, TierReport,
};
use crate::lists::{HubLists, Members};
pub use crate::messages::Diagnosis;
use crate::messages::{leftovers as words, native};
use crate::model::{Failure, TimePoint};
use crate::observed::Index;
use crate::plan::{CopyCache, Desired, Settings, plan};

/// Inputs of an explanation.
struct Facts<'a> {
    index: &'a Index,
    desired: &'a Desired,
    members: &'a Members,
    key: &'a ServiceKey,
    /// Reason why annotations of the MultiClusterService are unknown.
    unread_defaults: Option<&'a Failure>,
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
        unread_defaults: hub.unread_defaults(key),
    };
    let exposures = [facts.native(), facts.clusterset()];
    let exposures: Vec<_> = exposures.into_iter().flatten().collect();
    let nothing = exposures.is_empty().then(|| facts.not_exposed());
    let diagnoses = nothing.into_iter().chain(facts.unread_defaults());
    let diagnoses = diagnoses.chain(facts.kept(&exposures));
    Explanation::new(key, diagnoses.collect(), exposures)
}

impl Facts<'_> {
    /// Reports that nothing exposes the service.
    fn not_exposed(&self) -> Diagnosis {
        let members = self.members.iter();
        let unread = members.filter_map(|(name, lists)| Some((name, lists.as_ref().err()?)));
        words::not_exposed(self.key, unread)
    }

    /// Reports that the caller could not read the defaults of the Namespace. Services that Karmada
    /// manages do not follow any.
    fn unread_defaults(&self) -> Option<Diagnosis> {
        let why = self.unread_defaults?;
        let is_followed = self.desired.karmada.is_none();
        is_followed.then(|| native::namespace_unread(self.key, why))
    }

    /// Whether the caller read the member.
    fn is_read(&self, name: &ClusterName) -> bool {
        self.members.get(name).is_some_and(Result::is_ok)
    }
}

#[cfg(test)]
pub(crate) mod tests;
