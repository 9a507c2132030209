//! Names of Services whose EndpointSlices are watched and known.

use std::sync::Arc;

use causeway::domain::ServiceKey;

use super::Member;
use super::written::Changed;
use crate::evidence::list::ListEvidence;
use crate::model::Signal;
use crate::model::map::HashSet;
use crate::model::slice::{ServiceNames, SliceScope};

/// Scope of the watches of a member's EndpointSlices.
///
/// Only [`Member::covers`] decides whether the absence of a slice is known. A name counts from a
/// complete list of its slices on, until the watch covers it no longer.
#[derive(Debug, Default)]
pub(super) struct Scope {
    /// Scope of the watches at work.
    pub(super) watched: SliceScope,
    /// Scope of the last complete list.
    pub(super) covered: SliceScope,
    /// Services of which a list lacks sources that copies record. They are unknown until a second
    /// list.
    lacking: HashSet<ServiceKey>,
}

impl Scope {
    /// Applies a report of the watch of the scope.
    pub(super) fn observe<K>(&mut self, signal: &Signal<K>, changed: &mut Changed) {
        match signal {
            Signal::Listed(_) => self.covered = self.watched.clone(),
            Signal::Confirmed => changed.keys.extend(self.lacking.drain()),
            _ => {}
        }
    }

    /// Covers these names from now on. Returns the scope before.
    pub(super) fn rescope(&mut self, names: Arc<ServiceNames>) -> SliceScope {
        self.lacking.retain(|key| names.contains(&key.name));
        self.watched = SliceScope::Named(names);
        std::mem::replace(&mut self.covered, self.watched.clone())
    }
}

impl Member {
    /// Begins other watches of EndpointSlices. What is known of them stays known until these have
    /// listed.
    pub(super) fn expect_slices(&mut self, scope: SliceScope) {
        let evidence = &mut self.evidence;
        let was_named = matches!(self.scope.watched, SliceScope::Named(_));
        match scope {
            SliceScope::All if !was_named => {}
            SliceScope::All => {
                evidence.slices.expect_initial_list();
                evidence.other_slices = None;
            }
            SliceScope::Named(_) => {
                let part = || evidence.slices.part();
                let others = evidence.other_slices.take().unwrap_or_else(part);
                evidence.other_slices = Some(others);
                evidence.slices.expect_initial_list();
            }
        }
        self.scope.watched = scope;
    }

    /// Returns the scope of the last complete list of its EndpointSlices.
    pub(in crate::observed) fn slice_scope(&self) -> &SliceScope {
        &self.scope.covered
    }

    /// Whether the watch of EndpointSlices covers the service: it is known which slices there are,
    /// or were when they were last listed.
    pub(crate) fn covers(&self, key: &ServiceKey) -> bool {
        self.scope.covered.covers(&key.name) && !self.scope.lacking.contains(key)
    }

    /// Notes that a list lacks a source that a copy of the service records.
    pub(in crate::observed) fn note_lacking(&mut self, key: &ServiceKey) {
        self.scope.lacking.insert(key.clone());
    }

    /// Whether a suspicion lasts until a second list of its EndpointSlices.
    pub(super) fn awaits_second_list(&self) -> bool {
        !self.scope.lacking.is_empty() || self.evidence.rollbacks.is_any_suspected()
    }

    /// Whether other watches of EndpointSlices are of another scope than those at work.
    pub(in crate::observed) fn changes_scope(&self, scope: &SliceScope) -> bool {
        self.evidence.slices.is_listed()
            && matches!(scope, SliceScope::Named(_))
                != matches!(self.scope.watched, SliceScope::Named(_))
    }

    /// Whether its ServiceExports are known, or nothing shows that they will be soon.
    pub(in crate::observed) fn exports_are_settled(&self) -> bool {
        let clusterset = &self.clusterset;
        let exports: &ListEvidence = &self.evidence.exports;
        let serves = clusterset.served.as_ref();
        match serves.or(clusterset.deferred.as_ref()) {
            Some(served) => {
                served.exports.is_none() || exports.is_listed() || exports.failure.is_some()
            }
            None => clusterset.not_discovered.is_some(),
        }
    }

    /// Returns the keys of its ServiceExports.
    pub(in crate::observed) fn export_keys(&self) -> impl Iterator<Item = &ServiceKey> {
        self.clusterset.exports.iter().map(|(key, _)| key)
    }
}
