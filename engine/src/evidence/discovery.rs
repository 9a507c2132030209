//! Debounces the observation that an API server no longer serves a kind, and that all objects of
//! the kind are gone: it counts once it is observed twice in a row. An API server that has just
//! started, or has just got its definitions, may serve one and not yet the other.

/// Kinds that an API server serves, debounced.
#[derive(Debug)]
pub struct DebouncedDiscovery<T> {
    /// Last observation that counts. Before the first one, the assumption that observations are
    /// compared with.
    served: T,
    /// Last observation, if it has to be repeated.
    suspected: Option<T>,
    lacks: fn(&T, &T) -> bool,
}

impl<T: Clone + PartialEq> DebouncedDiscovery<T> {
    /// Returns a discovery without observations. An observation that `lacks` something of what was
    /// served before, or of `assumed`, has to be repeated.
    pub fn new(assumed: T, lacks: fn(&T, &T) -> bool) -> Self {
        Self {
            served: assumed,
            suspected: None,
            lacks,
        }
    }

    /// Returns the last observation that counts, at first the assumption.
    pub fn served(&self) -> &T {
        &self.served
    }

    /// Applies an observation. Returns `None` if it has to be repeated before it counts.
    pub fn observe(&mut self, observed: T) -> Option<T> {
        let before = self.suspected.take();
        let is_repeated = before.is_some_and(|before| before == observed);
        if (self.lacks)(&observed, &self.served) && !is_repeated {
            self.suspected = Some(observed);
            return None;
        }
        self.served = observed.clone();
        Some(observed)
    }

    /// Notes a failed discovery: two observations with a failure between them are not two in a row.
    pub fn observe_failure(&mut self) {
        self.suspected = None;
    }
}
