//! What is to be planned, and when: one entry an item, the earliest wish wins.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};

use futures::StreamExt as _;
use tokio::time::Instant;
use tokio_util::time::DelayQueue;
use tokio_util::time::delay_queue;

use crate::index::Item;

/// Items that are due, and items that will be.
#[derive(Debug, Default)]
pub struct Queue {
    due: VecDeque<Item>,
    due_since: HashMap<Item, Instant>,
    later: DelayQueue<Item>,
    delays: HashMap<Item, (delay_queue::Key, Instant)>,
}

impl Queue {
    /// The item is due now.
    pub fn now(&mut self, item: Item, now: Instant) {
        if let Some((delay, _)) = self.delays.remove(&item) {
            self.later.remove(&delay);
        }
        if let Entry::Vacant(entry) = self.due_since.entry(item.clone()) {
            entry.insert(now);
            self.due.push_back(item);
        }
    }

    /// The item is due then, if not earlier.
    pub fn at(&mut self, item: Item, at: Instant) {
        if self.due_since.contains_key(&item) {
            return;
        }
        match self.delays.entry(item) {
            Entry::Occupied(mut entry) => {
                let (delay, earlier) = entry.get_mut();
                if at < *earlier {
                    self.later.reset_at(delay, at);
                    *earlier = at;
                }
            }
            Entry::Vacant(entry) => {
                let delay = self.later.insert_at(entry.key().clone(), at);
                entry.insert((delay, at));
            }
        }
    }

    /// Waits until an item is due, and says so; the item is then taken by [`Queue::take`]. Never ends while nothing is queued.
    pub async fn wait(&mut self) {
        if !self.due.is_empty() {
            return;
        }
        match self.later.next().await {
            Some(expired) => {
                let deadline = expired.deadline();
                let item = expired.into_inner();
                self.delays.remove(&item);
                self.now(item, deadline);
            }
            None => std::future::pending().await,
        }
    }

    /// The item that is due for longest.
    pub fn take(&mut self) -> Option<Item> {
        let item = self.due.pop_front()?;
        self.due_since.remove(&item);
        Some(item)
    }

    /// How many items are due or will be.
    pub fn len(&self) -> usize {
        self.due.len() + self.delays.len()
    }

    /// Whether nothing is queued.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Since when the oldest item is due.
    pub fn oldest(&self) -> Option<Instant> {
        self.due
            .front()
            .and_then(|item| self.due_since.get(item))
            .copied()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use causeway::domain::ServiceKey;

    use super::*;

    fn item(name: &str) -> Item {
        Item::Service(ServiceKey::new("shop", name))
    }

    #[tokio::test]
    async fn an_item_stands_in_the_queue_once_and_at_its_earliest_time() {
        let start = Instant::now();
        let mut queue = Queue::default();
        queue.at(item("a"), start + Duration::from_secs(900));
        queue.at(item("a"), start + Duration::from_millis(30));
        queue.at(item("a"), start + Duration::from_secs(600));
        queue.at(item("b"), start + Duration::from_secs(500));
        queue.now(item("b"), start);
        queue.now(item("b"), start);
        assert_eq!(queue.len(), 2);
        queue.wait().await;
        assert_eq!((queue.take(), queue.take()), (Some(item("b")), None));
        queue.wait().await;
        assert!(start.elapsed() >= Duration::from_millis(30));
        assert_eq!((queue.take(), queue.len()), (Some(item("a")), 0));
    }
}
