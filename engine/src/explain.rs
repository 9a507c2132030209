//! Where each endpoint of a service is, and why it is not where it should be: the plan's own decisions, and what the controller
//! reports of what it cannot do.
//!
//! An endpoint is looked at in each consumer. What the plan leaves out has the plan's reason: each is a type beside the decision
//! (`PassedOver`, `ServiceProblem`, `Validity`, ...), and is only worded here. What the plan wants and a consumer does not hold is
//! on its way, or is held up by what the conditions of a Cluster or of the service report. Nothing is decided here.

mod clusterset;
mod endpoint;
mod exposure;
mod karmada;
mod kept;
mod member;
mod native;
mod observed;
mod providers;
mod reason;
mod report;
mod reported;

use causeway::domain::ServiceKey;

pub use self::reason::{Diagnosis, Reason};
pub use self::report::{
    ConsumerReport, ConsumerState, EndpointReport, EndpointState, Explanation, ExposureReport,
    ProviderReport, TierReport, TiersReport,
};
use crate::index::Index;
use crate::lists::{HubLists, Members};
use crate::model::TimePoint;
use crate::plan::{CopyCache, Desired, Settings, plan};

/// What an explanation rests on.
struct Facts<'a> {
    index: &'a Index,
    desired: &'a Desired,
    members: &'a Members,
    key: &'a ServiceKey,
}

/// Says where each endpoint of the service is, and why it is not where it should be.
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
