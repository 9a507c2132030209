//! What of the writes is fought over.

use tokio::time::Instant;

use super::{Lane, Outbox, Write};
use crate::fight::Told;
use crate::index::Item;

impl Outbox {
    /// When a fight over an object of an item is looked at again, if there is one.
    pub fn next_fight_end(&self, item: &Item, now: Instant) -> Option<Instant> {
        self.fights.next_end(item, now)
    }

    /// Until when a write waits because somebody changes the object back as often as it is written.
    pub fn held_until(&self, lane: &Lane, write: &Write, now: Instant) -> Option<Instant> {
        self.fights.held_until(lane, write, now)
    }

    /// The fights over objects of an item in a cluster.
    pub fn fights(&self, lane: &Lane, item: &Item, now: Instant) -> impl Iterator<Item = Told<'_>> {
        self.fights.told(lane, item, now)
    }
}
