//! ServiceImports on the hub itself, by which Karmada's own controllers carry exports.
//!
//! For a ServiceImport on its control plane Karmada makes a Service `derived-<name>` there (karmada-io/karmada,
//! `pkg/controllers/mcs/service_import_controller.go`, deriveServiceFromServiceImport), and with the import that Service and the
//! EndpointSlices that it collected from the exporters go to the members that a policy names (`pkg/webhook/propagationpolicy/mutating.go`;
//! `pkg/resourceinterpreter/default/native/dependencies.go`, getServiceImportDependencies). So that Service beside the import
//! shows that the controllers are at work; without it they are switched off, and an import is propagated alone, as a person's.

use std::collections::HashMap;

use causeway::api::multicluster::{GROUP, ServiceImport};
use causeway::domain::ServiceKey;
use kube::Api;
use kube::core::PartialObjectMeta;

use super::exports::{VERSIONS, read_version};
use super::works::PATIENCE;
use super::{Change, Hub, key_of};
use crate::event::HubEvent;
use crate::hub_watches::Kind;
use crate::index::watch_state::WatchState;
use crate::time_point::TimePoint;
use crate::watch::Signal;

/// A ServiceImport on the hub.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HubImport(Option<ServiceKey>);

/// The ServiceImports on the hub.
#[derive(Debug, Default)]
pub struct HubImports {
    served: Option<bool>,
    /// Since when that is known.
    since: Option<TimePoint>,
    watch: WatchState,
    /// By the Service that Karmada derives for each.
    of_derived: HashMap<ServiceKey, ServiceKey>,
}

/// Who makes the imports of an exported service.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Importer {
    /// Causeway, as far as is known.
    #[default]
    Causeway,
    /// Karmada's own controllers import it somewhere, too.
    Karmada,
    /// Karmada's may: that is waited for until then, or for as long as it takes.
    Unknown(Option<TimePoint>),
}

/// ServiceImports as a kind that the hub may serve, in either version.
pub fn kind() -> Kind<PartialObjectMeta<ServiceImport>, HubImport> {
    Kind {
        group: GROUP,
        versions: &VERSIONS,
        plural: "serviceimports",
        selector: None,
        api: |client, version| Api::all_with(client, &read_version(version)),
        read: HubImport::read,
        served: HubEvent::ImportsServed,
        told: HubEvent::Imports,
    }
}

impl HubImport {
    /// What is read of one.
    pub fn read(import: PartialObjectMeta<ServiceImport>) -> Self {
        Self(key_of(&import.metadata))
    }
}

impl Hub {
    /// Who makes the imports of the service. Where the hub does not say within a minute what it holds, for want of a right, causeway
    /// does, as with [`Hub::carrier`].
    pub fn importer(&self, key: &ServiceKey, now: TimePoint) -> Importer {
        if self.works.are_unserved() {
            return Importer::Causeway;
        }
        let derived = key.derived();
        let is_imported = self.imports.of_derived.contains_key(&derived);
        let service = self.services.get(&derived);
        if is_imported && service.is_some_and(|service| service.hub.is_none()) {
            return Importer::Karmada;
        }
        let served = self.works.served_since();
        if served.is_some() && self.imports.are_known() && self.is_listed() {
            return Importer::Causeway;
        }
        let since = [self.listed_since, served, self.imports.since];
        let until = since
            .into_iter()
            .flatten()
            .max()
            .map(|at| at.after(PATIENCE));
        match until.filter(|_| self.is_listed()) {
            Some(until) if until <= now => Importer::Causeway,
            until => Importer::Unknown(until),
        }
    }
}

impl HubImports {
    fn are_known(&self) -> bool {
        self.served == Some(false) || self.watch.listed
    }

    /// The import for which Karmada derives the Service of that key.
    pub(super) fn derived_into(&self, key: &ServiceKey) -> Option<ServiceKey> {
        self.of_derived.get(key).cloned()
    }

    pub(super) fn fold_served(&mut self, served: bool, now: TimePoint, change: &mut Change) {
        *self = Self {
            served: Some(served),
            since: Some(now),
            ..Self::default()
        };
        change.placement = true;
    }

    pub(super) fn fold(&mut self, signal: Signal<HubImport>, now: TimePoint, change: &mut Change) {
        let were_known = self.are_known();
        self.watch.note(&signal, now);
        match signal {
            Signal::Listed(imports) => {
                let keys = imports.into_iter().filter_map(|import| import.0);
                let all = keys.map(|key| (key.derived(), key)).collect();
                let before = std::mem::replace(&mut self.of_derived, all);
                let all = &self.of_derived;
                let gone = before
                    .iter()
                    .filter(|(derived, _)| !all.contains_key(*derived));
                let new = all
                    .iter()
                    .filter(|(derived, _)| !before.contains_key(*derived));
                change
                    .services
                    .extend(gone.chain(new).map(|(_, key)| key.clone()));
            }
            Signal::Applied(HubImport(Some(key))) => {
                if self.of_derived.insert(key.derived(), key.clone()).is_none() {
                    change.services.insert(key);
                }
            }
            Signal::Deleted(HubImport(Some(key))) => {
                self.of_derived.remove(&key.derived());
                change.services.insert(key);
            }
            Signal::Applied(_) | Signal::Deleted(_) => {}
            Signal::Confirmed | Signal::Held(_) | Signal::Connected | Signal::Failed(_) => {}
        }
        change.placement |= self.are_known() != were_known;
    }
}
