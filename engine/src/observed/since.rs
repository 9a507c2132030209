//! Facts about services that are reported, or acted on, only if they last.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use causeway::domain::{ClusterName, ServiceKey};

use crate::model::TimePoint;
use crate::model::map::HashMap;
use crate::model::slice::Exposure;

/// Change in a consumer that is made once it has been possible for a while.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum PossibleChange {
    /// Farther tiers become standby: nearer ones have enough ready endpoints.
    Demotion(Exposure, ClusterName),
    /// More endpoints become ready: shares allow them.
    Growth(Exposure, ClusterName),
}

/// Time since which each fact about a service holds.
#[derive(Debug)]
pub(crate) struct Since<T>(HashMap<ServiceKey, BTreeMap<T, TimePoint>>);

impl<T> Default for Since<T> {
    fn default() -> Self {
        Self(HashMap::default())
    }
}

impl<T: Ord> Since<T> {
    /// Returns the time since which the fact holds; `None` before it is noted.
    pub(crate) fn of(&self, key: &ServiceKey, fact: &T) -> Option<TimePoint> {
        self.0.get(key)?.get(fact).copied()
    }

    /// Returns the next time at which one of the facts has held for that long. A fact that is not
    /// noted yet holds since now.
    pub(crate) fn next_end(
        &self,
        key: &ServiceKey,
        facts: &BTreeSet<T>,
        period: Duration,
        now: TimePoint,
    ) -> Option<TimePoint> {
        let since = |fact| self.of(key, fact).unwrap_or(now);
        let ends = facts.iter().map(|fact| since(fact).after(period));
        ends.filter(|end| now < *end).min()
    }

    /// Lists the noted facts of a service.
    pub(crate) fn all(&self, key: &ServiceKey) -> impl Iterator<Item = &T> {
        self.0.get(key).into_iter().flat_map(BTreeMap::keys)
    }

    /// Lists the services with noted facts.
    pub(crate) fn services(&self) -> impl Iterator<Item = &ServiceKey> {
        self.0.keys()
    }

    /// Notes all facts that hold of a service now.
    pub(crate) fn note(&mut self, key: &ServiceKey, facts: BTreeSet<T>, now: TimePoint) {
        let before = self.0.remove(key).unwrap_or_default();
        if facts.is_empty() {
            return;
        }
        let since = |fact: T| {
            let since = before.get(&fact).copied().unwrap_or(now);
            (fact, since)
        };
        let facts = facts.into_iter().map(since).collect();
        self.0.insert(key.clone(), facts);
    }
}
