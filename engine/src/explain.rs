//! Explanation of the location of each endpoint of a service, and of the reason why one is missing.
//! It uses the plan's own decisions, and the problems that the controller reports.
//!
//! The explanation covers each endpoint in each consumer. If the plan leaves an endpoint out, the
//! reason is the plan's: each reason is a type beside the decision (`Skipped`, `ServiceProblem`,
//! `Validity`, ...), and this module only words it. If the plan wants an endpoint that a consumer
//! does not hold, either the write is under way, or the conditions of a Cluster or of the service
//! report the obstacle. This module decides nothing.

mod clusterset;
mod diagnosis;
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

pub use self::diagnosis::Diagnosis;
pub use self::report::{
    ConsumerReport, ConsumerState, EndpointReport, EndpointState, Explanation, ExposureReport,
    ProviderReport, TierReport, TiersReport,
};
use crate::lists::{HubLists, Members};
use crate::model::TimePoint;
use crate::observed::Index;
use crate::plan::{CopyCache, Desired, Settings, plan};
use crate::reasons::Reason;

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
        let (key, namespace, name) = (self.key, &self.key.namespace, &self.key.name);
        let unread = self.members.iter();
        let unread =
            unread.filter_map(|(name, lists)| Some(format!("{name}: {}", lists.as_ref().err()?)));
        let unread = match unread.collect::<Vec<_>>().join("; ").as_str() {
            "" => String::new(),
            unread => format!(" (not read: {unread})"),
        };
        let message = format!(
            "the hub has no MultiClusterService {key}, and no member exports a Service of that name{unread}"
        );
        Diagnosis::new(Reason::NotExposed, message).fix(format!(
            "kubectl -n {namespace} apply -f mcs.yaml, a MultiClusterService called {name}; or in a member: \
             kubectl -n {namespace} apply of a ServiceExport called {name}; kubectl mcs status -A shows what is there"
        ))
    }
}

#[cfg(test)]
pub(crate) mod tests;
