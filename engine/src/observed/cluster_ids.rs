//! Names of clusters in the clusterset.
//!
//! A member reports the id that its ClusterProperty gives it (KEP-2149). The controller records the
//! id on the Cluster, and everything that is published follows the record: a member that does not
//! answer, and a controller that has just started, change no name. An id is not recorded if it is
//! the name or the id of another cluster: a member cannot take the place of another one by its id.

use causeway::domain::ClusterName;

use super::Index;
use super::member::Member;
use crate::model::{Item, ReportedId};
use crate::problem::IdProblem;

impl Index {
    /// Returns the name of a cluster in the clusterset: its id, or the name of its Cluster.
    pub(crate) fn cluster_id<'a>(&'a self, name: &'a ClusterName) -> &'a str {
        self.other_id(name).unwrap_or(name.as_str())
    }

    /// Returns the name of a cluster in the clusterset, if that is not the name of its Cluster.
    pub(crate) fn other_id(&self, name: &ClusterName) -> Option<&str> {
        self.hub.ids.get(name)
    }

    /// Returns the id that a Cluster records, whether or not it is published.
    pub(crate) fn recorded_id(&self, name: &ClusterName) -> Option<&str> {
        self.cluster(name)?.cluster_id.as_deref()
    }

    /// Returns the id that a Cluster should record, once its member has reported whether it has
    /// one. The inner value is `None` if the cluster is published under the name of its Cluster.
    pub(crate) fn wanted_id(&self, name: &ClusterName) -> Option<Option<&str>> {
        let reported = self.member(name)?.reported_id()?;
        let id = reported.valid().filter(|id| *id != name.as_str());
        Some(id.filter(|id| self.id_holder(name, id).is_none()))
    }

    /// Returns the reason why the id that a member reports is not used.
    pub(crate) fn id_problem(&self, name: &ClusterName) -> Option<IdProblem<'_>> {
        match self.member(name)?.reported_id()? {
            ReportedId::Absent => None,
            ReportedId::Invalid(text) => Some(IdProblem::Invalid(text)),
            ReportedId::Valid(id) if **id == *name.as_str() => None,
            ReportedId::Valid(id) => {
                let holder = self.id_holder(name, id)?;
                Some(IdProblem::Taken(id, holder))
            }
        }
    }

    /// Returns the other Cluster that has the id: as its name, by its record, or because it is
    /// older and its member reports the id too.
    fn id_holder(&self, name: &ClusterName, id: &str) -> Option<&ClusterName> {
        let own = self.cluster(name)?;
        let has_it = own.cluster_id.as_deref() == Some(id);
        let by_name = self.hub.clusters.get_key_value(id).map(|(other, _)| other);
        let others = || self.clusters().filter(|(other, _)| *other != name);
        let is_older = |other: &ClusterName| {
            let cluster = self.cluster(other);
            cluster.is_some_and(|cluster| cluster.seniority(other) < own.seniority(name))
        };
        let records = || {
            let mut others = others();
            others.find(|(other, cluster)| {
                cluster.cluster_id.as_deref() == Some(id) && (!has_it || is_older(other))
            })
        };
        let reports = || {
            let mut others = others();
            others.find(|(other, _)| !has_it && is_older(other) && self.reports_id(other, id))
        };
        let by_name = by_name.filter(|other| *other != name);
        by_name.or_else(|| Some(records().or_else(reports)?.0))
    }

    fn reports_id(&self, name: &ClusterName, id: &str) -> bool {
        let reported = self.member(name).and_then(Member::reported_id);
        reported.and_then(ReportedId::valid) == Some(id)
    }

    /// Marks a member that reported its id, and those that report the same one. Logs an id that
    /// cannot be used.
    pub(super) fn note_reported_id(&mut self, name: &ClusterName) {
        if let Some(problem) = self.id_problem(name) {
            tracing::warn!(cluster = %name, error = %problem, "id in the clusterset not used");
        }
        let reported = self.member(name).and_then(Member::reported_id);
        let same = reported.and_then(ReportedId::valid).map(|id| {
            let names = self.member_names();
            names.filter(|other| self.reports_id(other, id))
        });
        let marked: Vec<_> = same.into_iter().flatten().chain([name]).cloned().collect();
        for name in marked {
            self.mark(Item::Cluster(name));
        }
    }
}
