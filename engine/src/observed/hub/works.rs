//! Services that Karmada manages, as the hub's Works show.

use std::collections::BTreeSet;
use std::sync::Arc;

use causeway::domain::ServiceKey;

use super::change::Change;
use crate::evidence::list::ListEvidence;
use crate::model::map::HashMap;
use crate::model::{ServiceWork, Signal, TimePoint};

/// Services that Karmada manages.
#[derive(Debug, Default)]
pub(crate) struct Works {
    served: Option<bool>,
    /// Time at which discovery last reported whether they are served.
    pub(super) since: Option<TimePoint>,
    pub(super) list: ListEvidence,
    pub(super) of_service: HashMap<ServiceKey, BTreeSet<Arc<str>>>,
    services: HashMap<Arc<str>, ServiceKey>,
}

impl Works {
    /// Returns the time at which discovery reported that they are served; `None` if they are not.
    pub(super) fn served_since(&self) -> Option<TimePoint> {
        self.since.filter(|_| self.served == Some(true))
    }

    /// Whether the hub is known to serve no Works: it is no control plane of Karmada's.
    pub(in crate::observed) fn are_unserved(&self) -> bool {
        self.served == Some(false)
    }

    /// Returns the number of suspended deletions of Works.
    pub(in crate::observed) fn suspended_deletions(&self) -> usize {
        self.list.suspended().count
    }

    pub(super) fn are_known(&self) -> bool {
        self.served == Some(false) || self.list.is_listed()
    }

    /// Applies the report whether Works are served. The Works go with their definition; another
    /// definition brings other Works.
    pub(super) fn apply_served(&mut self, served: bool, now: TimePoint, change: &mut Change) {
        *self = Self {
            served: Some(served),
            since: Some(now),
            ..Self::default()
        };
        change.placement = true;
    }

    pub(super) fn apply(
        &mut self,
        signal: Signal<ServiceWork>,
        now: TimePoint,
        change: &mut Change,
    ) {
        let were_known = self.are_known();
        self.list.observe(&signal, now);
        let known = self.services.keys().cloned();
        let (works, gone) = signal.split(known, |work| Some(work.id.clone()));
        for work in works {
            if self.services.get(&work.id) != work.service.as_ref() {
                self.remove(&work.id, change);
                self.put(work, change);
            }
        }
        for id in gone {
            self.remove(&id, change);
        }
        change.placement |= self.are_known() != were_known;
    }

    fn put(&mut self, work: ServiceWork, change: &mut Change) {
        let ServiceWork { id, service } = work;
        let Some(key) = service else { return };
        self.services.insert(id.clone(), key.clone());
        let works = self.of_service.entry(key.clone()).or_default();
        works.insert(id.clone());
        if works.first() == Some(&id) {
            change.services.insert(key);
        }
    }

    fn remove(&mut self, id: &Arc<str>, change: &mut Change) {
        let Some(key) = self.services.remove(id) else {
            return;
        };
        let Some(works) = self.of_service.get_mut(&key) else {
            return;
        };
        let was_first = works.first() == Some(id);
        works.remove(id);
        if works.is_empty() {
            self.of_service.remove(&key);
        }
        if was_first {
            change.services.insert(key);
        }
    }
}

#[cfg(test)]
mod tests;
