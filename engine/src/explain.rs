//! Explanation of the location of each endpoint of a service, and of the reason why one is missing.
//! It uses the plan's own decisions, and the problems that the controller reports.
//!
//! The explanation covers each endpoint in each consumer. If the plan leaves an endpoint out, the
//! reason is the plan's: each reason is a type beside the decision (`Skipped`, `ServiceProblem`,
//! `Validity`, ...), and this module only words it. If the plan wants an endpoint that a consumer
//! does not hold, either the write is under way, or the conditions of a Cluster or of the service
//! report the obstacle. This module decides nothing.

mod clusterset;
mod endpoint;
mod exposure;
mod karmada;
mod kept;
mod member;
mod native;
mod observed;
mod providers;
mod report;
mod reported;

use causeway::domain::ServiceKey;

pub use self::report::{
    ConsumerReport, ConsumerState, EndpointReport, EndpointState, Explanation, ExposureReport,
    ProviderReport, TierReport,
};
use crate::lists::{HubLists, Members};
pub use crate::messages::Diagnosis;
use crate::messages::explain::leftovers as words;
use crate::model::TimePoint;
use crate::observed::Index;
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
    let index = Index::of_lists(hub, members, now);
    let desired = plan(&index, settings, key, now, &mut CopyCache::default());
    let facts = Facts {
        index: &index,
        desired: &desired,
        members,
        key,
    };
    let mut exposures = native::report(&facts).into_iter().collect::<Vec<_>>();
    exposures.extend(clusterset::exposure(&facts).map(providers::report));
    let nothing = exposures.is_empty().then(|| facts.not_exposed());
    let diagnoses = nothing.into_iter().chain(facts.kept(&exposures));
    let diagnoses = diagnoses.collect();
    Explanation::new((&key.namespace, &key.name), diagnoses, exposures)
}

impl Facts<'_> {
    /// Reports that nothing exposes the service.
    fn not_exposed(&self) -> Diagnosis {
        let unread = self.members.iter();
        let unread =
            unread.filter_map(|(name, lists)| Some((name, lists.as_ref().err()?.to_string())));
        words::not_exposed(self.key, &unread.collect::<Vec<_>>())
    }
}

#[cfg(test)]
pub(crate) mod tests;
