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
    /// When a write of causeway's was acknowledged that no watch has shown yet: of few objects at a time.
    pub(super) unseen_since: Option<Box<TimePoint>>,
    /// Whether its deletion was acknowledged.
    pub deleted: bool,
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
            unseen_since: None,
            deleted: false,
        }
    }

    pub(super) fn unseen(view: T, now: TimePoint) -> Self {
        Self {
            view,
            unseen_since: Some(Box::new(now)),
            deleted: false,
        }
    }

    /// When a write of causeway's was acknowledged that no watch has shown yet.
    pub fn unseen_since(&self) -> Option<TimePoint> {
        self.unseen_since.as_deref().copied()
    }
}

/// The keys whose values differ between two maps, absence included.
pub(super) fn differing<K: Clone + Eq + Hash, V>(
    old: &HashMap<K, V>,
    new: &HashMap<K, V>,
    same: impl Fn(&V, &V) -> bool,
) -> Vec<K> {
    let changed = old
        .iter()
        .filter(|(key, old)| !new.get(*key).is_some_and(|new| same(old, new)));
    let added = new.iter().filter(|(key, _)| !old.contains_key(*key));
    changed.chain(added).map(|(key, _)| key.clone()).collect()
}
