//! That an API server serves a kind no more, and all objects of the kind are gone, is debounced: it is observed twice in a row
//! before it counts. An API server that has just started, or has just got its definitions, may serve one and not yet the other.

/// What an API server serves, debounced.
#[derive(Debug)]
pub struct DebouncedDiscovery<T> {
    /// What counts; before anything does, what an observation is compared with.
    served: T,
    /// The last observation, where it has to be repeated.
    suspected: Option<T>,
    lacks: fn(&T, &T) -> bool,
}

impl<T: Clone + PartialEq> DebouncedDiscovery<T> {
    /// Nothing was observed. An observation that `lacks` something of what was served before, or of `assumed`, has to be
    /// repeated.
    pub fn new(assumed: T, lacks: fn(&T, &T) -> bool) -> Self {
        Self {
            served: assumed,
            suspected: None,
            lacks,
        }
    }

    /// Takes an observation. `None` where it has to be repeated before it counts.
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

    /// Discovery failed: two observations with a failure between them are not two in a row.
    pub fn observe_failure(&mut self) {
        self.suspected = None;
    }
}
