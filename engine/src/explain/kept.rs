//! Objects of a service that members hold although nothing exposes it that way.

use causeway::domain::ClusterName;

use super::{Diagnosis, ExposureReport, Facts};
use crate::messages::leftovers as words;
use crate::model::slice::Exposure;
use crate::observed::member::Member;
use crate::plan::clusterset::Imports;
use crate::plan::clusterset::import::ImportPlan;

impl Facts<'_> {
    /// Reports objects that the plan retains for a ServiceImport that somebody made, those that it
    /// leaves in a protected namespace, and those that it collects.
    pub(super) fn kept(&self, exposures: &[ExposureReport]) -> Vec<Diagnosis> {
        let (key, hub) = (self.key, self.index.hub_uid());
        let is_exposed = |by| exposures.iter().any(|one| one.exposure == by);
        let is_native = is_exposed(Exposure::Native);
        let is_exported = is_exposed(Exposure::Clusterset);
        let holds_import = |member: &Member| member.owns_clusterset(key, &key.derived(), hub);
        let imports = match &self.desired.clusterset.imports {
            Imports::Wanted(imports) if !is_exported => Some(imports),
            Imports::Wanted(_) | Imports::Untouched => None,
        };
        let by_hand = imports.into_iter().flatten();
        let by_hand = by_hand.filter(|(_, import)| matches!(import.import, ImportPlan::Foreign));
        let by_hand = by_hand
            .map(|(name, import)| words::import_without_export(key, name, import.problem.as_ref()));
        let mut members = self.index.members();
        let is_protected = !is_exported && members.any(|(_, member)| holds_import(member));
        let protected = self.protected().filter(|_| is_protected);
        let is_left = |name: &ClusterName, member: &Member| {
            let is_collected = imports.is_some_and(|imports| !imports.contains_key(name));
            !is_native && member.owns_native(key, hub) || is_collected && holds_import(member)
        };
        let left = self
            .index
            .members()
            .filter(|(name, member)| is_left(name, member));
        let left: Vec<_> = left.map(|(name, _)| name).collect();
        let left = (!left.is_empty()).then(|| words::leftovers(key, left));
        by_hand.chain(protected).chain(left).collect()
    }
}
