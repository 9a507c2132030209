//! What should be of an exported service.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use causeway::domain::ClusterName;
use causeway::domain::protected::Protected;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use super::exports::Validity;
use super::import::ImportPlan;
use super::merge::Conflict;
use crate::model::TimePoint;
use crate::model::served::ServedImports;
use crate::plan::copy::DesiredCopies;
use crate::plan::service::{DesiredService, ServiceProblem};

/// What should be of an exported service.
#[derive(Clone, Debug, Default)]
pub struct Clusterset {
    /// What the members should hold.
    pub imports: Imports,
    /// The exports, and what is to be said of each.
    pub exports: BTreeMap<ClusterName, Validity>,
    /// What is to be written on exports of their place among the others.
    pub precedences: BTreeMap<ClusterName, Condition>,
    /// The members that are to hold an export on behalf of a MultiClusterService, and on whose.
    pub published: BTreeMap<ClusterName, String>,
    /// The clusters that export the service.
    pub exporters: BTreeSet<ClusterName>,
    /// What the exports disagree on.
    pub conflicts: Vec<Conflict>,
    /// Whether an exporter that is recorded is unknown for now: exports that are not seen may disagree too.
    pub unsure: bool,
    /// The members that import nothing, whatever is exported, and why.
    pub not_importing: BTreeMap<ClusterName, NotImporting>,
    /// Why nothing is exported.
    pub problem: Option<Protected>,
    /// What Karmada's own controllers import of it, for a person.
    pub karmadas: Option<String>,
    /// When time alone will change the plan.
    pub again_at: Option<TimePoint>,
}

impl Clusterset {
    /// Why that member imports nothing, whatever is exported.
    pub fn not_importing(&self, name: &ClusterName) -> Option<NotImporting> {
        self.not_importing.get(name).copied()
    }

    /// Whether nobody exports the service, as far as is known; an export of a cluster that is withdrawn is none.
    pub fn is_unused(&self) -> bool {
        let mut exports = self.exports.values();
        exports.all(|validity| *validity == Validity::Withdrawn)
            && self.exporters.is_empty()
            && self.problem.is_none()
    }
}

/// What the members should hold of an imported service.
#[derive(Clone, Debug)]
pub enum Imports {
    /// Whatever they hold now.
    Untouched,
    /// This, and in a member that is not listed nothing.
    Wanted(BTreeMap<ClusterName, DesiredImport>),
}

impl Default for Imports {
    fn default() -> Self {
        Self::Wanted(BTreeMap::new())
    }
}

impl Imports {
    /// What that member should hold.
    pub fn of(&self, name: &ClusterName) -> Option<&DesiredImport> {
        match self {
            Self::Untouched => None,
            Self::Wanted(imports) => imports.get(name),
        }
    }

    /// The members that should hold something.
    pub fn names(&self) -> impl Iterator<Item = &ClusterName> {
        let wanted = match self {
            Self::Untouched => None,
            Self::Wanted(imports) => Some(imports),
        };
        wanted.into_iter().flat_map(BTreeMap::keys)
    }
}

/// What one member should hold of an imported service.
#[derive(Clone, Debug)]
pub struct DesiredImport {
    /// How the member serves imports.
    pub served: ServedImports,
    /// The Service that stands for the imported one; none where the member has none of its address families, or where the
    /// Service of the own name does.
    pub service: Option<DesiredService>,
    /// The import.
    pub import: ImportPlan,
    /// The copies.
    pub copies: DesiredCopies,
    /// Why the member cannot be served as asked.
    pub problem: Option<ServiceProblem>,
    /// Why the clusterset's name does not lead to the service in the member, where everything else is as asked.
    pub unresolved: Option<Unresolved>,
    /// Whether it is left to Karmada's own controllers.
    pub karmadas: bool,
}

/// Why the clusterset's name leads elsewhere in a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unresolved {
    /// What is so, after the name of the member.
    pub why: String,
    /// What to type there.
    pub remedy: String,
}

impl fmt::Display for Unresolved {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}; there: {}", self.why, self.remedy)
    }
}

/// Why a member imports nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotImporting {
    /// It does not serve ServiceImports, or does not show them.
    NotServed,
    /// The exports do not name it among their consumers.
    NotConsumer,
    /// It has not the namespace.
    NamespaceMissing,
    /// The namespace is being deleted.
    NamespaceTerminating,
}
