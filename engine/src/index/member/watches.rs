//! How a member's watches stand.

use crate::index::watch_state::WatchState;

#[derive(Debug, Default)]
pub(super) struct Watches {
    pub(super) services: WatchState,
    pub(super) slices: WatchState,
    pub(super) namespaces: WatchState,
}

impl Watches {
    pub(super) fn each(&self) -> [&WatchState; 3] {
        [&self.services, &self.slices, &self.namespaces]
    }

    pub(super) fn all(&mut self) -> [&mut WatchState; 3] {
        [&mut self.services, &mut self.slices, &mut self.namespaces]
    }
}
