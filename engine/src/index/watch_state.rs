//! How one watch stands.

use crate::model::{Failure, Signal, TimePoint};

#[derive(Debug, Default)]
pub(in crate::index) struct WatchState {
    pub(in crate::index) listed: bool,
    /// Whether that was a list of the watch that runs now, which remembers it.
    pub(in crate::index) remembered: bool,
    /// Whether a second list of it said what the first one said.
    pub(in crate::index) confirmed: bool,
    pub(in crate::index) failure: Option<Failure>,
    /// How many objects its last list lacked without being believed.
    pub(in crate::index) held: usize,
    /// Since when it lacks as many.
    pub(in crate::index) held_since: Option<TimePoint>,
}

impl WatchState {
    /// Whether its list has nothing but itself to show for what it lacks.
    pub(in crate::index) fn is_untried(&self) -> bool {
        self.remembered && !self.confirmed
    }

    /// Another watch runs from now on, that remembers nothing.
    pub(in crate::index) fn begin_anew(&mut self) {
        self.remembered = false;
        self.confirmed = false;
    }

    /// Notes what a watch told of itself.
    pub(in crate::index) fn note<K>(&mut self, signal: &Signal<K>, now: TimePoint) {
        match signal {
            Signal::Listed(_) => {
                self.listed = true;
                self.remembered = true;
                self.held = 0;
                self.held_since = None;
            }
            Signal::Confirmed => self.confirmed = true,
            Signal::Held(missing) => {
                if *missing > self.held {
                    self.held_since = Some(now);
                }
                self.held = *missing;
            }
            Signal::Connected => self.failure = None,
            Signal::Failed(failure) => self.failure = Some(failure.clone()),
            Signal::Applied(_) | Signal::Deleted(_) => {}
        }
    }
}
