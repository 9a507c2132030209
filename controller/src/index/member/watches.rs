//! How a member's watches stand.

use crate::failure::Failure;
use crate::watch::Signal;

#[derive(Debug, Default)]
pub(super) struct Watches {
    pub(super) services: WatchState,
    pub(super) slices: WatchState,
    pub(super) namespaces: WatchState,
}

#[derive(Debug, Default)]
pub(super) struct WatchState {
    pub(super) listed: bool,
    pub(super) failure: Option<Failure>,
}

impl WatchState {
    /// Notes what a watch told of itself.
    pub(super) fn note<K>(&mut self, signal: &Signal<K>) {
        match signal {
            Signal::Listed(_) => self.listed = true,
            Signal::Connected => self.failure = None,
            Signal::Failed(failure) => self.failure = Some(failure.clone()),
            Signal::Applied(_) | Signal::Deleted(_) => {}
        }
    }
}

impl Watches {
    pub(super) fn all(&mut self) -> [&mut WatchState; 3] {
        [&mut self.services, &mut self.slices, &mut self.namespaces]
    }
}
