//! Items that may have to be planned again. A change that concerns many services is noted as one
//! mark, however often it happens. The services are found when the marks are taken.

use std::collections::BTreeMap;

use causeway::domain::ClusterName;

use crate::model::map::HashMap;
use crate::model::{Item, Priority};

/// DirtyKeys since they were last taken.
#[derive(Debug, Default)]
pub(super) struct DirtyKeys {
    pub(super) items: HashMap<Item, Priority>,
    /// Whether every service is marked, at low priority.
    pub(super) every_service: bool,
    /// Members whose state changed: the services that depend on them are marked.
    pub(super) members: BTreeMap<ClusterName, Priority>,
}

impl DirtyKeys {
    /// Marks items; the highest priority counts.
    pub(super) fn add(&mut self, items: impl IntoIterator<Item = Item>, priority: Priority) {
        for item in items {
            let marked = self.items.entry(item).or_insert(priority);
            *marked = priority.max(*marked);
        }
    }

    /// Marks the services that depend on the state of a member.
    pub(super) fn add_services_of(&mut self, name: &ClusterName, priority: Priority) {
        let marked = self.members.entry(name.clone()).or_insert(priority);
        *marked = priority.max(*marked);
    }
}
