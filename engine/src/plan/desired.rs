//! Desired state of one service.

use std::collections::{BTreeMap, BTreeSet};

use causeway::domain::{ClusterName, ServicePort};

use super::by_member::ByMember;
use super::clusterset::Clusterset;
use super::copies::DesiredCopies;
use super::dns::NamePlan;
use super::entry::new_nodes::EntryNode;
use super::entry_clusters::EntryClusters;
use super::placement::Placement;
use super::provider_use::ProviderUses;
use super::service::{DesiredService, OwnService};
use super::tiers::Tiers;
use crate::model::TimePoint;
use crate::model::slice::Exposure;
use crate::observed::Counted;
use crate::observed::since::PossibleChange;
use crate::problem::{Gap, Problem, ServiceProblem};

/// Desired state of one service.
#[derive(Clone, Debug, Default)]
pub struct Desired {
    /// Objects that a MultiClusterService requests in the members.
    pub(crate) members: Members,
    /// Objects that ServiceExports request in the members.
    pub(crate) clusterset: Clusterset,
    /// Companions of the providers' Services.
    pub(crate) companions: Companions,
    /// Ports that a MultiClusterService exposes.
    pub(crate) exposed: Vec<ServicePort>,
    /// Problem on the hub's side.
    pub(crate) problem: Option<Problem>,
    /// Providers, consumers, and members that take no part.
    pub(crate) placement: Placement,
    /// Providers of the MultiClusterService that it does not use as they are.
    pub(crate) uses: ProviderUses,
    /// Entry clusters of a MultiClusterService of type LoadBalancer; `None` if it has none, or one
    /// of another type.
    pub(crate) entry_clusters: Option<EntryClusters>,
    /// Names that DNS publishes.
    pub(crate) name: NamePlan,
    /// State beside Karmada, if Karmada manages the service.
    pub(crate) karmada: Option<KarmadaManaged>,
    /// Whether it is still unknown who manages the MultiClusterService, or what the hub lacks of
    /// its Service. Until it is known, nothing is reported.
    pub(crate) on_hold: bool,
    /// Time at which the plan changes without an event.
    pub(crate) again_at: Option<TimePoint>,
}

/// Companions of the Services of one name.
#[derive(Clone, Debug, Default)]
pub(crate) struct Companions {
    /// Wanted companions, by provider.
    pub wanted: BTreeMap<ClusterName, OwnService>,
    /// Hostnames of load balancers by which providers are reached.
    pub hostnames: BTreeSet<Box<str>>,
    /// Nodes by which providers are reached.
    pub entry_nodes: BTreeSet<EntryNode>,
    /// Whether those of ServiceExports that are not wanted stay, because it is unknown who exports.
    pub keeps_exported: bool,
}

/// Objects that a MultiClusterService requests in the members.
pub(crate) type Members = ByMember<DesiredMember>;

/// Objects that one member should hold for one service.
#[derive(Clone, Debug)]
pub(crate) struct DesiredMember {
    /// Desired Service.
    pub service: DesiredService,
    /// Exposed ports of the Service, under its own names for them.
    pub offered: Vec<ServicePort>,
    /// Desired copies.
    pub copies: DesiredCopies,
    /// Reason why the member cannot be served as requested.
    pub problem: Option<ServiceProblem>,
}

/// State of a service that Karmada manages.
#[derive(Clone, Debug)]
pub(crate) struct KarmadaManaged {
    /// Work by which Karmada manages it.
    pub work: String,
    /// Objects and endpoints that consumers lack.
    pub gaps: BTreeSet<Gap>,
    /// Gaps that have lasted long enough to be reported.
    pub late: Vec<Gap>,
    /// Whether any provider has a ready endpoint.
    pub any_ready: bool,
    /// Providers and consumers that are not synced, and providers with an unreadable slice.
    pub unknown: BTreeSet<ClusterName>,
    /// Members with a Service of causeway.
    pub services: BTreeSet<ClusterName>,
    /// Members with copies of causeway.
    pub slices: BTreeSet<ClusterName>,
}

impl KarmadaManaged {
    /// Whether some of the gaps may close in a moment. Until then the stored report stays.
    pub(crate) fn wavers(&self) -> bool {
        self.late.len() < self.gaps.len()
    }
}

impl Desired {
    /// Returns the problem on the hub's side, if any.
    pub fn problem(&self) -> Option<&Problem> {
        self.problem.as_ref()
    }

    /// Returns the members that should hold objects of a MultiClusterService; `None` if all members
    /// are left untouched.
    pub fn wanted_members(&self) -> Option<impl Iterator<Item = &ClusterName>> {
        let is_untouched = self.members.is_untouched();
        (!is_untouched).then(|| self.members.names())
    }

    /// Lists the providers of the MultiClusterService whose endpoints are used.
    pub(crate) fn used_providers(&self) -> impl Iterator<Item = &ClusterName> {
        let providers = self.placement.providers();
        providers.filter(|name| self.uses.unused(name).is_none())
    }

    /// Whether the members hold the same for an exposure as now.
    pub(crate) fn is_untouched(&self, exposure: Exposure) -> bool {
        match exposure {
            Exposure::Native => self.members.is_untouched(),
            Exposure::Clusterset => self.clusterset.imports.is_untouched(),
        }
    }

    /// Returns the desired copies in a consumer; `None` if none are planned there, or if all
    /// members are left untouched.
    pub(crate) fn copies_in(
        &self,
        exposure: Exposure,
        consumer: &ClusterName,
    ) -> Option<&DesiredCopies> {
        match exposure {
            Exposure::Native => Some(&self.members.of(consumer)?.copies),
            Exposure::Clusterset => Some(&self.clusterset.imports.of(consumer)?.copies),
        }
    }

    /// Returns the reason why the Service of a consumer cannot serve as requested.
    pub(crate) fn problem_in(
        &self,
        exposure: Exposure,
        consumer: &ClusterName,
    ) -> Option<&ServiceProblem> {
        match exposure {
            Exposure::Native => self.members.of(consumer)?.problem.as_ref(),
            Exposure::Clusterset => self.clusterset.imports.of(consumer)?.problem.as_ref(),
        }
    }

    /// Lists the copies of all consumers, on both paths.
    pub(crate) fn each_copies(
        &self,
    ) -> impl Iterator<Item = (Exposure, &ClusterName, &DesiredCopies)> {
        let native = self.members.wanted();
        let native = native.map(|(name, member)| (Exposure::Native, name, &member.copies));
        let imports = self.clusterset.imports.wanted();
        let imports = imports.map(|(name, import)| (Exposure::Clusterset, name, &import.copies));
        native.chain(imports)
    }

    /// Lists the tiers of all consumers that do not use all providers alike, on both paths.
    pub(super) fn each_tiers(&self) -> impl Iterator<Item = (Exposure, &ClusterName, &Tiers)> {
        let all = self.each_copies();
        all.filter_map(|(exposure, name, copies)| Some((exposure, name, copies.tiers.as_ref()?)))
    }

    /// Returns the changes in consumers that are made only after a while, on both paths.
    pub(crate) fn possible_changes(&self) -> BTreeSet<PossibleChange> {
        let changes = self.each_copies().flat_map(|(exposure, name, copies)| {
            let tiers = copies.tiers.as_ref().and_then(|tiers| tiers.enough_since);
            let demotion = tiers.map(|_| PossibleChange::Demotion(exposure, name.clone()));
            let shares = copies.shares.as_ref();
            let growth = shares.and_then(|shares| shares.spare_since);
            let growth = growth.map(|_| PossibleChange::Growth(exposure, name.clone()));
            demotion.into_iter().chain(growth)
        });
        changes.collect()
    }

    /// Returns the labels under which metrics count the service, on both paths.
    pub(crate) fn counted(&self) -> BTreeSet<Counted> {
        let (mut counted, mut shares) = (BTreeSet::new(), Vec::new());
        for (_, consumer, copies) in self.each_copies() {
            let tiers = copies.tiers.as_ref();
            let farthest = tiers.and_then(|tiers| tiers.active().last()?.tier.as_ref());
            let tier = farthest.map(|tier| Counted::Tier(consumer.clone(), tier.kind()));
            let unreached = copies.unreached();
            let unreached = unreached
                .map(|(provider, why)| Counted::Unreached(provider.clone(), why.reason().as_str()));
            counted.extend(tier.into_iter().chain(unreached));
            shares.extend(copies.shares.as_ref().and_then(|shares| shares.noted()));
        }
        let (results, deviations): (Vec<_>, Vec<_>) = shares.into_iter().unzip();
        counted.extend(results.into_iter().max().map(Counted::Shares));
        counted.extend(deviations.into_iter().max().map(Counted::Deviation));
        counted
    }

    /// Returns the hostnames of load balancers whose addresses are needed.
    pub(crate) fn hostnames(&self) -> BTreeSet<Box<str>> {
        let of_name = self.name.wanted().map(|name| &name.lookups);
        let of_name = of_name.into_iter().flatten().cloned();
        let of_entries = self.companions.hostnames.iter().cloned();
        of_entries.chain(of_name).collect()
    }
}
