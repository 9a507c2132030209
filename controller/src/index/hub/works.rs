//! Which services Karmada's own controllers carry, as the hub's Works show it.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use causeway::domain::ServiceKey;

use super::{Change, Hub};
use crate::failure::FailureKind;
use crate::index::watch_state::WatchState;
use crate::karmada::ServiceWork;
use crate::time_point::TimePoint;
use crate::watch::Signal;

/// How long is waited for what the hub says of its Works, once its other lists are complete.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);

/// Which services Karmada carries.
#[derive(Debug, Default)]
pub struct Works {
    served: Option<bool>,
    /// Since when they are served.
    since: Option<TimePoint>,
    watch: WatchState,
    of_service: HashMap<ServiceKey, BTreeSet<Arc<str>>>,
    services: HashMap<Arc<str>, ServiceKey>,
}

/// Who carries a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carrier<'a> {
    /// Karmada may: it is not known yet which Works there are. That is waited for until then, or for as long as it takes.
    Unknown(Option<TimePoint>),
    /// Causeway, as far as is known.
    Causeway,
    /// Karmada, as this Work shows.
    Karmada(&'a str),
}

impl Hub {
    /// Who carries the service. A hub that does not say within a minute which Works there are, because causeway lacks the right, is taken
    /// to have none: it mostly has none, and without an end to the waiting nothing would be done there at all.
    pub fn carrier(&self, key: &ServiceKey, now: TimePoint) -> Carrier<'_> {
        if let Some(work) = self.works.of_service.get(key).and_then(BTreeSet::first) {
            return Carrier::Karmada(work);
        }
        match self.works_awaited_until() {
            _ if self.works.are_known() => Carrier::Causeway,
            Some(until) if until <= now => Carrier::Causeway,
            until => Carrier::Unknown(until),
        }
    }

    /// Whether services are carried without its being known what Karmada carries.
    pub fn hides_works(&self, now: TimePoint) -> bool {
        let until = self.works_awaited_until();
        !self.works.are_known() && until.is_some_and(|until| until <= now)
    }

    /// Until when the list of Works is waited for. Where there are more than are listened to, that is no reason to take them for none.
    fn works_awaited_until(&self) -> Option<TimePoint> {
        let failure = self.works.watch.failure.as_ref();
        if failure.is_some_and(|failure| failure.kind == FailureKind::Excess) {
            return None;
        }
        let since = self.listed_since?;
        let since = self.works.since.map_or(since, |served| since.max(served));
        Some(since.after(PATIENCE))
    }
}

impl Works {
    /// Since when it is known whether they are served, where they are.
    pub(super) fn served_since(&self) -> Option<TimePoint> {
        self.since.filter(|_| self.served == Some(true))
    }

    /// Whether the hub is known to have none, and so to be no control plane of Karmada's.
    pub(super) fn are_unserved(&self) -> bool {
        self.served == Some(false)
    }

    pub(super) fn held(&self) -> usize {
        self.watch.held
    }

    fn are_known(&self) -> bool {
        self.served == Some(false) || self.watch.listed
    }

    /// Whether Works are served was told. With their definition the Works are gone; with another one come others.
    pub(super) fn fold_served(&mut self, served: bool, now: TimePoint, change: &mut Change) {
        *self = Self {
            served: Some(served),
            since: Some(now),
            ..Self::default()
        };
        change.placement = true;
    }

    pub(super) fn fold(
        &mut self,
        signal: Signal<ServiceWork>,
        now: TimePoint,
        change: &mut Change,
    ) {
        let were_known = self.are_known();
        self.watch.note(&signal, now);
        match signal {
            Signal::Listed(works) => {
                let gone = std::mem::take(&mut self.of_service);
                self.services.clear();
                works.into_iter().for_each(|work| self.put(work, change));
                let of_service = &self.of_service;
                let first = |works: Option<&BTreeSet<Arc<str>>>| works?.first().cloned();
                change
                    .services
                    .retain(|key| first(gone.get(key)) != first(of_service.get(key)));
                let gone = gone.into_keys().filter(|key| !of_service.contains_key(key));
                change.services.extend(gone);
            }
            Signal::Applied(work) => {
                let stays = self.services.get(&work.id) == work.service.as_ref();
                if !stays {
                    self.remove(&work.id, change);
                    self.put(work, change);
                }
            }
            Signal::Deleted(work) => self.remove(&work.id, change),
            Signal::Confirmed | Signal::Held(_) | Signal::Connected | Signal::Failed(_) => {}
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
