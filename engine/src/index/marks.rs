//! What may have to be planned again. What concerns many services at one time is noted in a word, however often it happens, and the
//! services are found when they are taken.

use std::collections::BTreeMap;

use causeway::domain::ClusterName;

use crate::model::map::HashMap;
use crate::model::{Item, Priority};

/// What was marked since it was taken last.
#[derive(Debug, Default)]
pub(super) struct Marks {
    pub(super) items: HashMap<Item, Priority>,
    /// Every service, in its turn.
    pub(super) every_service: bool,
    /// Members on which services depend: how they stand has changed.
    pub(super) members: BTreeMap<ClusterName, Priority>,
}

impl Marks {
    /// Marks items; the highest priority counts.
    pub(super) fn add(&mut self, items: impl IntoIterator<Item = Item>, priority: Priority) {
        for item in items {
            let marked = self.items.entry(item).or_insert(priority);
            *marked = priority.max(*marked);
        }
    }

    /// Marks the services that depend on how a member stands.
    pub(super) fn add_services_of(&mut self, name: &ClusterName, priority: Priority) {
        let marked = self.members.entry(name.clone()).or_insert(priority);
        *marked = priority.max(*marked);
    }
}
