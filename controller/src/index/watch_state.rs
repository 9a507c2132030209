//! How one watch stands.

use crate::failure::Failure;
use crate::watch::Signal;

#[derive(Debug, Default)]
pub(in crate::index) struct WatchState {
    pub(in crate::index) listed: bool,
    pub(in crate::index) failure: Option<Failure>,
    /// How many objects its last list lacked without being believed.
    pub(in crate::index) held: usize,
}

impl WatchState {
    /// Notes what a watch told of itself.
    pub(in crate::index) fn note<K>(&mut self, signal: &Signal<K>) {
        match signal {
            Signal::Listed(_) => {
                self.listed = true;
                self.held = 0;
            }
            Signal::Held(missing) => self.held = *missing,
            Signal::Connected => self.failure = None,
            Signal::Failed(failure) => self.failure = Some(failure.clone()),
            Signal::Applied(_) | Signal::Deleted(_) => {}
        }
    }
}
