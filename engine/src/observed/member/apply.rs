//! Application of events to the observed state of a member.

use std::sync::Arc;

use causeway::api::multicluster::{ServiceExport, ServiceImport};
use causeway::domain::{KubernetesVersion, ServiceKey};
use k8s_openapi::api::core::v1::Service;

use super::slices::Part;
use super::written::Changed;
use super::{Member, View};
use crate::evidence::list::ListEvidence;
use crate::model::map::HashSet;
use crate::model::object::key_of;
use crate::model::served::Served;
use crate::model::slice::{ObservedSlice, ServiceNames, SliceRole, SliceScope, Uid};
use crate::model::{MemberEvent, ObservedNode, Signal, TimePoint};
use crate::observed::clusterset::{ExportView, ImportView};
use crate::observed::service::ServiceView;

impl Member {
    /// Applies an event. Returns what changed.
    pub(in crate::observed) fn apply(&mut self, event: MemberEvent, now: TimePoint) -> Changed {
        let mut changed = Changed::default();
        // Whether the address answers is so whoever answers there.
        let of_anybody = matches!(event, MemberEvent::Identified(_) | MemberEvent::Probed(_));
        if self.refusals.is_another_cluster && !of_anybody {
            return changed;
        }
        match event {
            MemberEvent::Identified(identity) => self.identify(identity),
            // A cluster in use is never too old: its endpoints would be withdrawn.
            MemberEvent::VersionChanged(identity)
                if identity.release < KubernetesVersion::OLDEST_MEMBER => {}
            MemberEvent::VersionChanged(identity) => self.identity = Some(identity),
            MemberEvent::ClusterId(id) => self.reported_id = Some(id),
            MemberEvent::Probed(outcome) => self.note_probe(outcome),
            MemberEvent::Served(served) => self.note_served(served, &mut changed),
            MemberEvent::NotDiscovered(failure) => {
                failure.note(&mut self.clusterset.not_discovered);
            }
            MemberEvent::Exports(signal) => self.apply_exports(signal, &mut changed, now),
            MemberEvent::Imports(signal) => self.apply_imports(signal, &mut changed, now),
            MemberEvent::Services(signal) => self.apply_services(signal, &mut changed, now),
            MemberEvent::SliceScope(scope) => self.expect_slices(scope),
            MemberEvent::Slices(signal) => {
                let part = match self.scope.watched {
                    SliceScope::All => Part::All,
                    SliceScope::Named(_) => Part::Kubernetes,
                };
                self.apply_slices(signal, part, &mut changed, now);
            }
            MemberEvent::OtherSlices(signal) => {
                self.apply_slices(signal, Part::Others, &mut changed, now);
            }
            MemberEvent::Rescoped(names, slices) => {
                self.apply_rescoped(names, slices, &mut changed);
            }
            MemberEvent::Namespaces(signal) => {
                self.evidence.namespaces.observe(&signal, now);
                self.namespaces.apply(signal, &mut changed.namespaces);
                self.read_exports_again(&changed.namespaces);
            }
            MemberEvent::Nodes(signal) => self.apply_nodes(signal, &mut changed, now),
            MemberEvent::Paths(signal) => {
                self.evidence.paths.observe(&signal, now);
                changed.paths = self.paths.apply(signal, now);
            }
        }
        let services = &self.services;
        let has = |key: &ServiceKey| services.view(key).is_some();
        self.clusterset.note_services(&changed.keys, has, now);
        self.note_awaited_slices(&changed.keys, now);
        self.note_failing(now);
        if self.is_synced()
            && let Some(served) = self.clusterset.deferred.take()
        {
            self.note_served(served, &mut changed);
        }
        self.clusterset_outage.note(self.membership(), now);
        changed
    }

    fn note_served(&mut self, served: Served, changed: &mut Changed) {
        let (is_synced, evidence) = (self.is_synced(), &mut self.evidence);
        self.clusterset
            .note_served(served, is_synced, evidence, &mut changed.keys);
        self.clusterset.note_exports(&changed.keys);
        self.clusterset.note_status_writers(&changed.keys);
    }

    fn apply_exports(
        &mut self,
        signal: Signal<ServiceExport>,
        changed: &mut Changed,
        now: TimePoint,
    ) {
        self.evidence.exports.observe(&signal, now);
        let tombstones = &mut self.evidence.tombstones;
        let exports = &mut self.clusterset.exports;
        let namespaces = &self.namespaces;
        let read = |export: &ServiceExport| namespaces.read_export(export);
        exports.apply(signal, read, tombstones, &mut changed.keys);
        self.clusterset.note_exports(&changed.keys);
        self.clusterset.note_status_writers(&changed.keys);
    }

    /// Reads the exports of namespaces again whose defaults may have changed.
    fn read_exports_again(&mut self, changed: &HashSet<Box<str>>) {
        let namespaces = &self.namespaces;
        let exports = &mut self.clusterset.exports;
        let keys = exports.update(
            |key| changed.contains(&*key.namespace),
            |key, export: &mut ExportView| {
                export.read_annotations(namespaces.defaults(&key.namespace));
            },
        );
        self.clusterset.note_exports(&keys);
    }

    fn apply_imports(
        &mut self,
        signal: Signal<ServiceImport>,
        changed: &mut Changed,
        now: TimePoint,
    ) {
        self.evidence.imports.observe(&signal, now);
        let tombstones = &mut self.evidence.tombstones;
        let imports = &mut self.clusterset.imports;
        imports.apply(signal, ImportView::read, tombstones, &mut changed.keys);
        self.clusterset.note_status_writers(&changed.keys);
    }

    fn apply_services(&mut self, signal: Signal<Service>, changed: &mut Changed, now: TimePoint) {
        self.evidence.services.observe(&signal, now);
        let applied = match &signal {
            Signal::Applied(service) => key_of(&service.metadata),
            _ => None,
        };
        let of_other_type = applied.filter(|key| self.has_other_type(key));
        let read = |service: &Service| ServiceView::read(service);
        let tombstones = &mut self.evidence.tombstones;
        self.services
            .apply(signal, read, tombstones, &mut changed.keys);
        for key in &changed.keys {
            self.note_companion(key);
        }
        if let Some(key) = of_other_type {
            self.note_load_balancer(key, now);
        }
        let services = &self.services;
        let is_balanced = |key: &ServiceKey| {
            let service = services.view(key);
            service.is_some_and(|service| service.shape.load_balancer)
        };
        self.load_balancers.retain(|key, _| is_balanced(key));
        self.companions
            .retain(|_, companion| services.get(companion).is_some());
        let imported = changed.keys.iter().filter_map(ServiceKey::underived);
        let imported: Vec<_> = imported.collect();
        changed.keys.extend(imported);
    }

    fn apply_slices(
        &mut self,
        signal: Signal<ObservedSlice>,
        part: Part,
        changed: &mut Changed,
        now: TimePoint,
    ) {
        let list = match part {
            Part::All | Part::Kubernetes => Some(&mut self.evidence.slices),
            Part::Others => self.evidence.other_slices.as_mut(),
        };
        // The events of a watch that has ended.
        let Some(list) = list else { return };
        let is_initial = matches!(signal, Signal::Listed(_)) && !list.is_current();
        list.observe(&signal, now);
        if part != Part::Others {
            self.scope.observe(&signal, changed);
        }
        // Requests for a second list have ended with the watch before.
        changed.second_list |= is_initial && self.awaits_second_list();
        if let Signal::Deleted(slice) = &signal
            && let SliceRole::Copy(_, copy) = &slice.role
        {
            self.evidence.tombstones.add(&copy.uid.to_string());
        }
        let confirms = matches!(signal, Signal::Confirmed);
        self.slices.apply(signal, part, changed);
        if confirms {
            let shown = |key: &ServiceKey, uid: &Uid| self.slices.shown_version(key, uid);
            let is_listed = |key: &ServiceKey, uid: &Uid| self.slices.is_in(part, key, uid);
            changed
                .keys
                .extend(self.evidence.rollbacks.confirm(is_listed, shown, now));
        }
    }

    /// Drops the slices of names that the watch covers no longer, and adds those of new ones.
    fn apply_rescoped(
        &mut self,
        names: Arc<ServiceNames>,
        slices: Vec<ObservedSlice>,
        changed: &mut Changed,
    ) {
        let before = self.scope.rescope(names);
        let after = &self.scope.covered;
        let is_listed = |key: &ServiceKey| !before.covers(&key.name) || !after.covers(&key.name);
        self.slices.replace_sources(slices, is_listed, changed);
    }

    fn apply_nodes(&mut self, signal: Signal<ObservedNode>, changed: &mut Changed, now: TimePoint) {
        let state = |evidence: &ListEvidence| (evidence.is_listed(), evidence.failure.clone());
        let before = state(&self.evidence.nodes);
        self.evidence.nodes.observe(&signal, now);
        changed.nodes = self.nodes.apply(signal) || state(&self.evidence.nodes) != before;
    }

    fn note_awaited_slices(&mut self, changed: &HashSet<ServiceKey>, now: TimePoint) {
        if !self.evidence.has_listed_natives() {
            return;
        }
        for key in changed {
            let service = self.services.view(key);
            let selects = service.is_some_and(|service| !service.shape.selector.is_empty());
            if selects && self.covers(key) && self.sources(key).next().is_none() {
                self.awaited_slices.entry(key.clone()).or_insert(now);
            } else {
                self.awaited_slices.remove(key);
            }
        }
    }

    /// Whether the member has the Service, and it is no load balancer.
    pub(super) fn has_other_type(&self, key: &ServiceKey) -> bool {
        let service = self.services.view(key);
        service.is_some_and(|service| !service.shape.load_balancer)
    }

    /// Notes that a Service of another type has become a load balancer, if it has.
    pub(super) fn note_load_balancer(&mut self, key: ServiceKey, now: TimePoint) {
        let service = self.services.view(&key);
        if service.is_some_and(|service| service.shape.load_balancer) {
            self.load_balancers.insert(key, now);
        }
    }

    pub(super) fn note_companion(&mut self, key: &ServiceKey) {
        let service = self.services.get(key).map(|written| &written.view);
        if let Some(service) = service.filter(|service| service.companion_of.is_some()) {
            self.companions.insert(service.service(key), key.clone());
        }
    }
}
