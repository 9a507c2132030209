//! Observed state of an object that causeway may have written, and the changes that an event makes.

use std::collections::BTreeSet;
use std::hash::Hash;

use causeway::domain::{ClusterName, ServiceKey};

use crate::model::TimePoint;
use crate::model::map::{HashMap, HashSet};

/// An object, with writes that no watch has shown yet.
#[derive(Clone, Debug)]
pub struct Written<T> {
    /// The object.
    pub view: T,
    /// Write that was acknowledged and that no watch has shown yet; few objects have one at a time.
    acknowledged: Option<Box<Acknowledged>>,
}

/// Answers of API servers to writes of an object that no watch has shown yet.
#[derive(Clone, Debug)]
enum Acknowledged {
    Write(TimePoint),
    Deletion,
}

/// Changes that an event of a member makes.
#[derive(Debug, Default)]
pub struct Changed {
    /// Services of which an object changed.
    pub keys: HashSet<ServiceKey>,
    /// Services of which a copy changed: mostly the echo of a write.
    pub copied: HashSet<ServiceKey>,
    /// Namespaces that were created, removed or began to terminate.
    pub namespaces: HashSet<Box<str>>,
    /// Whether a Node changed.
    pub nodes: bool,
    /// Clusters to which the path changed.
    pub paths: BTreeSet<ClusterName>,
    /// Whether a second list is needed, and the request for it ended with an earlier watch.
    pub second_list: bool,
}

impl<T> Written<T> {
    /// Returns the object as a watch shows it.
    pub(super) fn seen(view: T) -> Self {
        Self::seen_after(None, view)
    }

    /// Returns the object as a watch shows it after `before`. An acknowledged deletion stays
    /// acknowledged.
    pub(super) fn seen_after(before: Option<&Self>, view: T) -> Self {
        let is_deleted = before.is_some_and(Self::is_deleted);
        Self {
            view,
            acknowledged: is_deleted.then(|| Box::new(Acknowledged::Deletion)),
        }
    }

    pub(super) fn unseen(view: T, now: TimePoint) -> Self {
        Self {
            view,
            acknowledged: Some(Box::new(Acknowledged::Write(now))),
        }
    }

    /// Notes that its deletion was acknowledged.
    pub(super) fn note_deleted(&mut self) {
        self.acknowledged = Some(Box::new(Acknowledged::Deletion));
    }

    /// Whether its deletion was acknowledged.
    pub fn is_deleted(&self) -> bool {
        matches!(self.acknowledged.as_deref(), Some(Acknowledged::Deletion))
    }

    /// Returns the time at which a write of causeway's was acknowledged that no watch has shown
    /// yet.
    pub(crate) fn unseen_since(&self) -> Option<TimePoint> {
        match self.acknowledged.as_deref()? {
            Acknowledged::Write(since) => Some(*since),
            Acknowledged::Deletion => None,
        }
    }
}

/// Returns the keys whose values differ between two maps, including absent ones.
pub(super) fn differing<'a, K: Eq + Hash, V>(
    old: &'a HashMap<K, V>,
    new: &'a HashMap<K, V>,
    same: impl Fn(&V, &V) -> bool,
) -> impl Iterator<Item = &'a K> {
    let changed = old
        .iter()
        .filter(move |(key, old)| !new.get(*key).is_some_and(|new| same(old, new)));
    let added = new.iter().filter(|(key, _)| !old.contains_key(*key));
    changed.chain(added).map(|(key, _)| key)
}
