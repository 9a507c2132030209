//! Queue of the services to report on.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};

use causeway::domain::ServiceKey;

/// Due services in order, without duplicates. Services with changes of their own precede services
/// that a change of a cluster may affect.
#[derive(Debug, Default)]
pub(super) struct Queue {
    soon: VecDeque<ServiceKey>,
    /// May hold keys that are in `soon` or no longer queued.
    later: VecDeque<ServiceKey>,
    /// Queued keys, and whether they are in `soon`.
    queued: HashMap<ServiceKey, bool>,
}

impl Queue {
    /// Adds a service with a change of its own.
    pub(super) fn soon(&mut self, key: ServiceKey) {
        if self.queued.insert(key.clone(), true) != Some(true) {
            self.soon.push_back(key);
        }
    }

    /// Adds a service that a change of a cluster may affect.
    pub(super) fn later(&mut self, key: ServiceKey) {
        if let Entry::Vacant(vacant) = self.queued.entry(key.clone()) {
            vacant.insert(false);
            self.later.push_back(key);
        }
    }

    /// Removes and returns the next service.
    pub(super) fn next(&mut self) -> Option<ServiceKey> {
        let next = self.soon.pop_front().or_else(|| {
            let mut later = std::iter::from_fn(|| self.later.pop_front());
            later.find(|key| self.queued.contains_key(key))
        })?;
        self.queued.remove(&next);
        Some(next)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.queued.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str) -> ServiceKey {
        ServiceKey::new("shop", name)
    }

    #[test]
    fn what_something_happened_to_comes_first_and_everything_once() {
        let mut queue = Queue::default();
        for name in ["a", "b", "c", "a"] {
            queue.later(key(name));
        }
        for name in ["c", "d", "c"] {
            queue.soon(key(name));
        }
        queue.later(key("d"));
        let mut order = Vec::new();
        while let Some(next) = queue.next() {
            order.push(next.name.to_string());
        }
        assert_eq!(order, ["c", "d", "a", "b"]);
        assert!(queue.is_empty());
        queue.later(key("c"));
        assert_eq!(queue.next(), Some(key("c")), "it comes again");
    }
}
