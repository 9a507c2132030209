//! Scopes of the watches of members' EndpointSlices.
//!
//! A Cluster may request that the slices of exposed Services alone are watched in its member. The
//! names are those of the MultiClusterServices that the member provides or consumes, and of its
//! ServiceExports. A service whose name is new is unknown in the member until its slices are
//! listed.

use std::collections::{BTreeMap, BTreeSet};

use causeway::domain::{ClusterName, ServiceKey};

use super::Index;
use super::hub::{ClusterView, DeclaredWatch};
use super::member::Member;
use crate::model::slice::{MOST_NAMES, SliceScope, collect_names};
use crate::model::{Item, MemberEvent, Priority, TargetCluster};

/// Scopes that the watches of members are to have.
#[derive(Debug, Default)]
pub(super) struct SliceScopes {
    requested: BTreeMap<ClusterName, SliceScope>,
    /// Members whose scope may have changed.
    due: BTreeSet<ClusterName>,
    all_due: bool,
}

impl SliceScopes {
    /// Notes that the scope of every member may have changed.
    pub(super) fn mark_all(&mut self) {
        self.all_due = true;
    }

    /// Drops the scope of a member whose watches end.
    pub(super) fn restart(&mut self, name: &ClusterName) {
        self.requested.remove(name);
        self.due.insert(name.clone());
    }

    /// Notes that the scope of a member may have changed by an event of it.
    pub(super) fn note(&mut self, name: &ClusterName, event: &MemberEvent) {
        let is_of_exports = matches!(
            event,
            MemberEvent::Exports(_) | MemberEvent::Served(_) | MemberEvent::NotDiscovered(_)
        );
        if is_of_exports {
            self.due.insert(name.clone());
        }
    }
}

impl Index {
    /// Returns the scopes of the watches of EndpointSlices that have changed since the last call. A
    /// member whose scope is not known yet has none.
    pub fn take_slice_scopes(&mut self) -> Vec<(ClusterName, SliceScope)> {
        if !self.hub.is_listed() {
            return Vec::new();
        }
        let due = std::mem::take(&mut self.slice_scopes.due);
        let names: Vec<_> = match std::mem::take(&mut self.slice_scopes.all_due) {
            true => self.members.keys().cloned().collect(),
            false => due.into_iter().collect(),
        };
        let mut changed = Vec::new();
        for name in names {
            let requested = self.slice_scopes.requested.get(&name);
            let scope = self.slice_scope(&name, requested);
            let Some(scope) = scope.filter(|scope| requested != Some(scope)) else {
                continue;
            };
            if requested.is_some() {
                // Its status reports the scope.
                self.mark(Item::Cluster(name.clone()));
            }
            let requested = &mut self.slice_scopes.requested;
            requested.insert(name.clone(), scope.clone());
            changed.push((name, scope));
        }
        changed
    }

    /// Returns the scope of a member; `None` while it is not known which services it exports. Names
    /// beyond the bound make it all slices, until they are well below.
    fn slice_scope(&self, name: &ClusterName, before: Option<&SliceScope>) -> Option<SliceScope> {
        let member = self.members.get(name)?;
        if !self.requests_exposed_slices(name) {
            return Some(SliceScope::All);
        }
        if before.is_none() && !member.exports_are_settled() {
            return None;
        }
        let most = match before {
            Some(SliceScope::All) => MOST_NAMES / 4 * 3,
            Some(SliceScope::Named(_)) | None => MOST_NAMES,
        };
        let native = self.hub.selecting(name).filter(|key| {
            let mcs = self.hub.multi_cluster_services.get(key);
            mcs.is_some_and(|mcs| mcs.concerns(name))
        });
        let all = native.chain(member.export_keys()).map(|key| &key.name);
        let names = collect_names(all, most);
        Some(names.map_or(SliceScope::All, |names| SliceScope::Named(names.into())))
    }

    fn requests_exposed_slices(&self, name: &ClusterName) -> bool {
        let watch = |cluster: &ClusterView| cluster.watch == DeclaredWatch::Exposed;
        self.hub.clusters.get(name).is_some_and(watch)
    }

    /// Whether all EndpointSlices of a member are watched although its Cluster requests otherwise:
    /// it takes part in too many services.
    pub(crate) fn exceeds_slice_names(&self, name: &ClusterName) -> bool {
        let requested = self.slice_scopes.requested.get(name);
        self.requests_exposed_slices(name) && requested == Some(&SliceScope::All)
    }

    /// Whether only the EndpointSlices of exposed Services of a member are watched.
    pub(crate) fn watches_exposed_slices(&self, name: &ClusterName) -> bool {
        let member = self.members.get(name);
        member.is_some_and(|member| matches!(member.slice_scope(), SliceScope::Named(_)))
    }

    /// Other watches of the EndpointSlices of a member begin. Their initial lists are compared with
    /// the sources that copies record.
    pub(super) fn expect_slices(&mut self, name: &ClusterName, scope: &SliceScope) {
        let member = self.members.get(name);
        if member.is_some_and(|member| member.changes_scope(scope)) {
            self.record_sources_in(name);
        }
    }

    /// Marks the services that the watch of a member's EndpointSlices covers now, or no longer. One
    /// that copies come from, and whose list lacks a source of theirs, is unknown until a second
    /// list.
    pub(super) fn note_slice_scope(&mut self, name: &ClusterName, before: &SliceScope) {
        let Some(member) = self.members.get(name) else {
            return;
        };
        let after = member.slice_scope();
        let exports = member.export_keys().cloned();
        let keys = self.services_of(name).into_iter().chain(exports);
        let is_new = |key: &ServiceKey| !before.covers(&key.name) && after.covers(&key.name);
        let is_old = |key: &ServiceKey| before.covers(&key.name) && !after.covers(&key.name);
        let (new, old): (Vec<_>, Vec<_>) = keys
            .filter(|key| is_new(key) || is_old(key))
            .partition(|key| is_new(key));
        let lacking: Vec<_> = new
            .iter()
            .filter(|key| self.lacks_recorded(name, member, key))
            .cloned()
            .collect();
        if let Some(member) = self.members.get_mut(name) {
            lacking.iter().for_each(|key| member.note_lacking(key));
        }
        if !lacking.is_empty() {
            tracing::warn!(cluster = %name, services = lacking.len(), "list lacks recorded sources, relisting");
            self.second_lists
                .insert(TargetCluster::Member(name.clone()));
        }
        self.mark_services(new.into_iter().chain(old), Priority::High);
        self.mark(Item::Cluster(name.clone()));
    }

    /// Whether a copy of the service records a source in the member that the member does not show.
    fn lacks_recorded(&self, name: &ClusterName, member: &Member, key: &ServiceKey) -> bool {
        let copies = self
            .holders(key)
            .flat_map(|(_, consumer)| consumer.copies(key));
        let mut recorded = copies.filter_map(|(_, copy)| {
            let copy = &copy.view;
            let is_from = copy.source_cluster.as_deref() == Some(name.as_str());
            let is_own = *copy.hub == *self.hub.uid && is_from;
            copy.source.as_ref().filter(|_| is_own)
        });
        recorded.any(|version| {
            let mut sources = member.sources(key);
            !sources.any(|(_, source)| source.version.uid == version.uid)
        })
    }
}
