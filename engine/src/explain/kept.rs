//! Objects of a service that members hold although nothing exposes it that way.

use causeway::domain::ClusterName;

use super::{Diagnosis, ExposureReport, Facts};
use crate::messages::explain::leftovers as words;
use crate::model::slice::Exposure;
use crate::observed::member::Member;
use crate::plan::clusterset::Imports;
use crate::plan::clusterset::import::ImportPlan;

impl Facts<'_> {
    /// Reports objects that the plan retains for a ServiceImport that somebody made, those that it
    /// leaves in a protected namespace, and those that it collects.
    pub(super) fn kept(&self, exposures: &[ExposureReport]) -> Vec<Diagnosis> {
        let is_exposed = |path| exposures.iter().any(|one| one.exposure == path);
        let by_hand = match is_exposed(Exposure::Clusterset) {
            true => Vec::new(),
            false => self.imports_without_export(),
        };
        let holds_import = |member: &Member| {
            let hub = self.index.hub_uid();
            member.owns_clusterset(self.key, &self.key.derived(), hub)
        };
        let protected = self.protected();
        let protected = protected.filter(|_| !is_exposed(Exposure::Clusterset));
        let protected = protected.filter(|_| {
            self.index
                .members()
                .map(|(_, member)| member)
                .any(holds_import)
        });
        let left = self.leftovers(|name, member| {
            let is_native = !is_exposed(Exposure::Native);
            let is_import = !is_exposed(Exposure::Clusterset) && self.collects_imports(name);
            is_native && member.owns_native(self.key, self.index.hub_uid())
                || is_import && holds_import(member)
        });
        by_hand.into_iter().chain(protected).chain(left).collect()
    }

    /// Whether the plan collects the objects of an import that a member holds.
    fn collects_imports(&self, name: &ClusterName) -> bool {
        match &self.desired.clusterset.imports {
            Imports::Untouched => false,
            Imports::Wanted(imports) => !imports.contains_key(name),
        }
    }

    fn imports_without_export(&self) -> Vec<Diagnosis> {
        let Imports::Wanted(imports) = &self.desired.clusterset.imports else {
            return Vec::new();
        };
        let by_hand = imports.iter();
        let by_hand = by_hand.filter(|(_, desired)| matches!(desired.import, ImportPlan::Foreign));
        by_hand
            .map(|(name, desired)| {
                words::import_without_export(self.key, name, desired.problem.as_ref())
            })
            .collect()
    }

    /// Reports the members in which objects are still to be collected.
    fn leftovers(&self, is_left: impl Fn(&ClusterName, &Member) -> bool) -> Option<Diagnosis> {
        let holders = self.index.members();
        let holders = holders.filter(|(name, member)| is_left(name, member));
        let holders: Vec<_> = holders.map(|(name, _)| name).collect();
        (!holders.is_empty()).then(|| words::leftovers(self.key, holders))
    }
}
