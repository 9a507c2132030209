//! ServiceImports on the hub itself, by which Karmada imports exported services.
//!
//! For a ServiceImport on its control plane Karmada creates a Service `derived-<name>` on it
//! (karmada-io/karmada, `pkg/controllers/mcs/service_import_controller.go`,
//! deriveServiceFromServiceImport). Karmada propagates the import, that Service and the
//! EndpointSlices that it collected from the exporters to the members that a policy names
//! (`pkg/webhook/propagationpolicy/mutating.go`;
//! `pkg/resourceinterpreter/default/native/dependencies.go`, getServiceImportDependencies). A
//! derived Service beside the import shows that Karmada's controllers are active. Without it they
//! are switched off, and Karmada propagates the import alone, as a person's.

use causeway::domain::ServiceKey;

use super::change::Change;
use crate::evidence::list::ListEvidence;
use crate::model::map::HashMap;
use crate::model::{HubImport, Signal, TimePoint};

/// ServiceImports on the hub.
#[derive(Debug, Default)]
pub(crate) struct HubImports {
    served: Option<bool>,
    /// Time at which discovery last reported whether they are served.
    pub(super) since: Option<TimePoint>,
    list: ListEvidence,
    /// Keys of the imports, by the key of the Service that Karmada derives for each.
    pub(super) of_derived: HashMap<ServiceKey, ServiceKey>,
}

impl HubImports {
    pub(super) fn are_known(&self) -> bool {
        self.served == Some(false) || self.list.is_listed()
    }

    /// Returns the import for which Karmada derives the Service of that key.
    pub(super) fn derived_into(&self, key: &ServiceKey) -> Option<ServiceKey> {
        self.of_derived.get(key).cloned()
    }

    pub(super) fn apply_served(&mut self, served: bool, now: TimePoint, change: &mut Change) {
        *self = Self {
            served: Some(served),
            since: Some(now),
            ..Self::default()
        };
        change.placement = true;
    }

    pub(super) fn apply(&mut self, signal: Signal<HubImport>, now: TimePoint, change: &mut Change) {
        let were_known = self.are_known();
        self.list.observe(&signal, now);
        let known = self.of_derived.keys().cloned();
        let (imports, gone) = signal.split(known, |import| Some(import.0.as_ref()?.derived()));
        for key in imports.into_iter().filter_map(|import| import.0) {
            let known = self.of_derived.insert(key.derived(), key.clone());
            change.services.extend(known.is_none().then_some(key));
        }
        for derived in gone {
            change.services.extend(self.of_derived.remove(&derived));
        }
        change.placement |= self.are_known() != were_known;
    }
}
