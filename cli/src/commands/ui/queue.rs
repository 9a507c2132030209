//! Queue of the services to report on.

use std::collections::{HashSet, VecDeque};

use causeway::domain::ServiceKey;

/// Due services in order, without duplicates. Services with changes of their own precede services
/// that a change of a cluster may affect.
#[derive(Debug, Default)]
pub(super) struct Queue {
    soon: VecDeque<ServiceKey>,
    later: VecDeque<ServiceKey>,
    /// Set of the keys in `soon`. A key in both queues counts for `soon` only.
    first: HashSet<ServiceKey>,
    rest: HashSet<ServiceKey>,
}

impl Queue {
    /// Adds a service with a change of its own.
    pub(super) fn soon(&mut self, key: ServiceKey) {
        self.rest.remove(&key);
        if self.first.insert(key.clone()) {
            self.soon.push_back(key);
        }
    }

    /// Adds a service that a change of a cluster may affect.
    pub(super) fn later(&mut self, key: ServiceKey) {
        if !self.first.contains(&key) && self.rest.insert(key.clone()) {
            self.later.push_back(key);
        }
    }

    /// Removes and returns the next service.
    pub(super) fn next(&mut self) -> Option<ServiceKey> {
        if let Some(key) = self.soon.pop_front() {
            self.first.remove(&key);
            return Some(key);
        }
        while let Some(key) = self.later.pop_front() {
            if self.rest.remove(&key) {
                return Some(key);
            }
        }
        None
    }

    pub(super) fn is_empty(&self) -> bool {
        self.first.is_empty() && self.rest.is_empty()
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
