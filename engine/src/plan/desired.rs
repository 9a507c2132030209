//! What should be.

use std::collections::{BTreeMap, BTreeSet};

use causeway::api::condition::reason;
use causeway::domain::{ClusterName, ServicePort};

use super::clusterset::{Clusterset, Imports};
use super::copy::DesiredCopies;
use super::placement::Placement;
use super::provider_use::ProviderUses;
use super::service::{DesiredService, ServiceProblem};
use super::tiers::Tiers;
use crate::index::gaps::Gap;
use crate::index::tiers::{NotedTiers, TiersOfService};
use crate::model::TimePoint;
use crate::model::slice::Path;

/// What should be, for one service.
#[derive(Clone, Debug, Default)]
pub struct Desired {
    /// What a MultiClusterService asks the members to hold.
    pub members: Members,
    /// What ServiceExports ask the members to hold.
    pub clusterset: Clusterset,
    /// The ports that a MultiClusterService exposes.
    pub exposed: Vec<ServicePort>,
    /// What is wrong on the hub's side.
    pub problem: Option<Problem>,
    /// Who provides, who consumes, and who takes no part.
    pub placement: Placement,
    /// The providers of the MultiClusterService that it does not use as they are.
    pub uses: ProviderUses,
    /// Its current state where Karmada manages it.
    pub beside: Option<Beside>,
    /// Whether it is not known yet who manages the MultiClusterService: until then nothing is said of it.
    pub on_hold: bool,
    /// When time alone will change the plan.
    pub again_at: Option<TimePoint>,
}

/// What the members should hold for one service.
#[derive(Clone, Debug, Default)]
pub enum Members {
    /// Whatever they hold now.
    #[default]
    Untouched,
    /// This, and in a member that is not listed nothing.
    Wanted(BTreeMap<ClusterName, DesiredMember>),
}

/// What one member should hold for one service.
#[derive(Clone, Debug)]
pub struct DesiredMember {
    /// The Service.
    pub service: DesiredService,
    /// The exposed ports of the Service, under the names that it has for them.
    pub offered: Vec<ServicePort>,
    /// The copies.
    pub copies: DesiredCopies,
    /// Why the member cannot be served as asked.
    pub problem: Option<ServiceProblem>,
}

/// What is wrong on the hub's side: the reason and message of ServiceApplied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// What kind of problem it is.
    pub kind: ProblemKind,
    /// What is wrong and what to do, for a person.
    pub message: String,
}

/// What is wrong on the hub's side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProblemKind {
    /// The hub has no Service of the name.
    ServiceNotFound,
    /// The Service lacks a port that is to be exposed.
    PortNotFound,
    /// The Service is an ExternalName.
    ExternalName,
    /// The namespace or the service is protected.
    Protected,
    /// The MultiClusterService cannot be read.
    Invalid,
    /// Karmada's own controllers carry it.
    ManagedByKarmada,
}

impl Problem {
    /// The reason of ServiceApplied.
    pub fn reason(&self) -> &'static str {
        match self.kind {
            ProblemKind::ServiceNotFound => reason::SERVICE_NOT_FOUND,
            ProblemKind::PortNotFound => reason::PORT_NOT_FOUND,
            ProblemKind::ManagedByKarmada => reason::MANAGED_BY_KARMADA,
            ProblemKind::ExternalName | ProblemKind::Protected | ProblemKind::Invalid => {
                reason::SERVICE_APPLIED_FAILED
            }
        }
    }
}

/// The current state of a service that Karmada manages.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Beside {
    /// The Work by which it does.
    pub work: String,
    /// What consumers lack.
    pub gaps: BTreeSet<Gap>,
    /// Whether some of that may be there in a moment: what was said before stays.
    pub wavers: bool,
}

impl Desired {
    /// The copies of all consumers, both ways.
    pub(crate) fn each_copies(&self) -> impl Iterator<Item = (Path, &ClusterName, &DesiredCopies)> {
        let native = match &self.members {
            Members::Wanted(members) => Some(members.iter()),
            Members::Untouched => None,
        };
        let native = native.into_iter().flatten();
        let native = native.map(|(name, member)| (Path::Native, name, &member.copies));
        let imports = match &self.clusterset.imports {
            Imports::Wanted(imports) => Some(imports.iter()),
            Imports::Untouched => None,
        };
        let imports = imports.into_iter().flatten();
        let imports = imports.map(|(name, import)| (Path::Clusterset, name, &import.copies));
        native.chain(imports)
    }

    /// The tiers of all consumers that do not use all providers alike, both ways.
    pub(super) fn each_tiers(&self) -> impl Iterator<Item = (Path, &ClusterName, &Tiers)> {
        let all = self.each_copies();
        all.filter_map(|(path, name, copies)| Some((path, name, copies.tiers.as_ref()?)))
    }

    /// Which tiers carry the service in its consumers, both ways.
    pub fn tiers(&self) -> TiersOfService {
        let noted = self.each_tiers().map(|(path, name, tiers)| {
            let noted = NotedTiers {
                farthest: tiers.carrying().last().and_then(|state| state.tier.clone()),
                enough_since: tiers.enough_since,
            };
            ((path, name.clone()), noted)
        });
        noted.collect()
    }

    /// What is said where Karmada manages the service; then Karmada also says how far it is, in conditions of the same types as
    /// causeway's.
    pub fn karmadas_problem(&self) -> Option<&Problem> {
        let problem = self.problem.as_ref();
        problem.filter(|problem| problem.kind == ProblemKind::ManagedByKarmada)
    }
}
