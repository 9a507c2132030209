//! Conditions of an endpoint that stands for several.

use std::sync::Arc;

use crate::model::slice::SourceSlice;

/// Conditions of the best of some endpoints: a ready one, else one that serves until it is gone,
/// else one that stays. Their order does not matter.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Best(Option<[Option<bool>; 3]>);

impl Best {
    /// Returns the best of the endpoints of slices.
    pub(super) fn of(sources: &[&Arc<SourceSlice>]) -> Self {
        let mut best = Self::default();
        for endpoint in sources.iter().flat_map(|source| source.endpoints()) {
            best.add(endpoint.conditions);
        }
        best
    }

    /// Adds an endpoint.
    pub(super) fn add(&mut self, conditions: [Option<bool>; 3]) {
        let rank = |[ready, serving, terminating]: [Option<bool>; 3]| match (ready, serving) {
            (None | Some(true), _) => 3,
            (_, Some(true)) => 2,
            _ => u8::from(terminating != Some(true)),
        };
        if self.0.is_none_or(|known| rank(conditions) > rank(known)) {
            self.0 = Some(conditions);
        }
    }

    /// Whether any of them is ready.
    pub(super) fn is_ready(self) -> bool {
        self.0.is_some_and(|[ready, ..]| ready.unwrap_or(true))
    }

    /// Returns the same behind a node. Nothing behind a node that is not ready is.
    pub(super) fn on(self, is_ready: bool) -> Self {
        match is_ready {
            true => self,
            false => Self::default(),
        }
    }

    /// Returns the conditions; without any endpoint, those of one that is not ready.
    pub(super) fn conditions(self) -> [Option<bool>; 3] {
        self.0.unwrap_or([Some(false), Some(false), Some(false)])
    }
}
