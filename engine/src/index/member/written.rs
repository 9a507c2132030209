//! What is known of an object that causeway may have written, and what changed.

use std::hash::Hash;

use causeway::domain::ServiceKey;

use crate::model::TimePoint;
use crate::model::map::{HashMap, HashSet};

/// An object, and how its state is known.
#[derive(Clone, Debug)]
pub struct Written<T> {
    /// The object.
    pub view: T,
    /// Of few objects at a time.
    acknowledged: Option<Box<Acknowledged>>,
}

/// What API servers answered to writes of an object, and no watch has shown yet.
#[derive(Clone, Copy, Debug)]
enum Acknowledged {
    Write(TimePoint),
    Deletion,
}

/// What a fold changed.
#[derive(Debug, Default)]
pub struct Changed {
    /// Services of which something is new.
    pub keys: HashSet<ServiceKey>,
    /// Services of which a copy is new: mostly the echo of a write.
    pub copied: HashSet<ServiceKey>,
    /// Namespaces that came, went or began to.
    pub namespaces: HashSet<Box<str>>,
}

impl<T> Written<T> {
    pub(super) fn seen(view: T) -> Self {
        Self {
            view,
            acknowledged: None,
        }
    }

    pub(super) fn unseen(view: T, now: TimePoint) -> Self {
        Self {
            view,
            acknowledged: Some(Box::new(Acknowledged::Write(now))),
        }
    }

    /// The same object in a state that a watch shows: that its deletion was acknowledged stays so.
    pub(super) fn seen_as(&self, view: T) -> Self {
        let deletion = self.acknowledged.clone();
        Self {
            view,
            acknowledged: deletion.filter(|known| matches!(**known, Acknowledged::Deletion)),
        }
    }

    /// Its deletion was acknowledged.
    pub(super) fn note_deleted(&mut self) {
        self.acknowledged = Some(Box::new(Acknowledged::Deletion));
    }

    /// Whether its deletion was acknowledged.
    pub fn is_deleted(&self) -> bool {
        matches!(self.acknowledged.as_deref(), Some(Acknowledged::Deletion))
    }

    /// When a write of causeway's was acknowledged that no watch has shown yet.
    pub fn unseen_since(&self) -> Option<TimePoint> {
        match self.acknowledged.as_deref()? {
            Acknowledged::Write(since) => Some(*since),
            Acknowledged::Deletion => None,
        }
    }
}

/// The keys whose values differ between two maps, absence included.
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
