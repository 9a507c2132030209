//! Desired state of an exported service.

use std::collections::{BTreeMap, BTreeSet};

use causeway::domain::ClusterName;
use causeway::domain::protected::Protected;

use super::exports::Validity;
use super::import::ImportPlan;
use super::merge::Conflict;
use super::precedence::SealedTime;
use crate::model::TimePoint;
use crate::model::served::ServedImports;
use crate::plan::by_member::ByMember;
use crate::plan::copies::DesiredCopies;
use crate::plan::service::DesiredService;
use crate::problem::ServiceProblem;

/// Desired state of an exported service.
#[derive(Clone, Debug, Default)]
pub(crate) struct Clusterset {
    /// Desired imports of the members.
    pub imports: Imports,
    /// Validity of each export, by cluster.
    pub exports: BTreeMap<ClusterName, Validity>,
    /// Precedences to write on exports, by cluster.
    pub(crate) precedences: BTreeMap<ClusterName, SealedTime>,
    /// Members that are to hold an export on behalf of a MultiClusterService, or of a namespace
    /// whose Services are exported, with the owner of each.
    pub published: BTreeMap<ClusterName, String>,
    /// Clusters that export the service.
    pub exporters: BTreeSet<ClusterName>,
    /// Conflicts of the exports.
    pub conflicts: Vec<Conflict>,
    /// Whether a recorded exporter is unknown at present: exports that are not observed may
    /// disagree too.
    pub(crate) unsure: bool,
    /// Members that import nothing, whatever is exported, with the reason.
    pub(crate) not_importing: BTreeMap<ClusterName, NotImporting>,
    /// Reason why nothing is exported.
    pub problem: Option<Protected>,
    /// Imports that Karmada's own controllers manage.
    pub karmadas: Option<ImportedByKarmada>,
    /// Time at which time alone changes the plan.
    pub again_at: Option<TimePoint>,
}

impl Clusterset {
    /// Returns the reason why a member imports nothing, whatever is exported.
    pub(crate) fn not_importing(&self, name: &ClusterName) -> Option<NotImporting> {
        self.not_importing.get(name).copied()
    }

    /// Lists the members that import nothing for that reason.
    pub(crate) fn without_import(&self, why: NotImporting) -> impl Iterator<Item = &ClusterName> {
        let all = self.not_importing.iter();
        all.filter(move |(_, found)| **found == why)
            .map(|(name, _)| name)
    }

    /// Whether no cluster exports the service, as far as is observed. Exports of drained clusters
    /// do not count. A protected service counts as used.
    pub(crate) fn is_unused(&self) -> bool {
        let mut exports = self.exports.values();
        exports.all(|validity| *validity == Validity::Withdrawn)
            && self.exporters.is_empty()
            && self.published.is_empty()
            && self.problem.is_none()
    }
}

/// Desired state of an imported service in the members.
pub(crate) type Imports = ByMember<DesiredImport>;

/// Desired state of an imported service in one member.
#[derive(Clone, Debug)]
pub(crate) struct DesiredImport {
    /// Version and fields in which the member serves imports.
    pub served: ServedImports,
    /// Derived Service; `None` if the member has none of its address families, if the Service of
    /// the own name serves the import, if the import is left to Karmada, or if remains are held
    /// without a record.
    pub service: Option<DesiredService>,
    /// Plan of the ServiceImport.
    pub import: ImportPlan,
    /// Desired copies of the exporters' slices.
    pub copies: DesiredCopies,
    /// Reason why the member cannot be served as requested.
    pub problem: Option<ServiceProblem>,
    /// Reason why the clusterset's name does not lead to the service in the member although all
    /// else is as requested.
    pub(crate) unresolved: Option<Unresolved>,
    /// Whether the import is left to Karmada's own controllers.
    pub karmadas: bool,
}

/// ServiceImport of another writer that does not have the addresses of the derived Service: DNS
/// answers with the addresses of the import (KEP-1645, "DNS").
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unresolved {
    /// Addresses in the spec of the import.
    pub has: Vec<String>,
    /// Addresses of the derived Service.
    pub wants: Vec<String>,
}

/// Members of a service that Karmada's own controllers import.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ImportedByKarmada {
    /// Members in which the import is left to Karmada.
    pub(crate) left: Vec<ClusterName>,
    /// Members in which causeway imported the service first and continues.
    pub(crate) own: Vec<ClusterName>,
}

/// Reason why a member imports nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotImporting {
    /// The member does not serve ServiceImports, or does not show them.
    NotServed,
    /// The member may import it: whether it serves ServiceImports is unknown.
    Unknown,
    /// Another controller of the API manages ServiceImports in the member.
    ManagedByOther,
    /// The exports do not name the member among their consumers.
    NotConsumer,
    /// The member lacks the namespace.
    NamespaceMissing,
    /// The namespace is being deleted.
    NamespaceTerminating,
}
