//! Items to plan, and the time of each: one entry an item, the earliest time wins.
//!
//! A change of one service does not wait for all others, which may be many thousands: items of low
//! priority yield, except for a share.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use futures::{FutureExt as _, StreamExt as _};
use tokio_util::time::{DelayQueue, delay_queue};

use causeway_engine::model::{Item, Priority};

/// Items that are due, and items that will be.
#[derive(Debug, Default)]
pub struct Queue {
    due: VecDeque<Item>,
    /// Items of low priority. Items that were taken, or gained a higher priority, are skipped.
    in_turn: VecDeque<Item>,
    due_since: HashMap<Item, Due>,
    taken: u32,
    later: DelayQueue<Item>,
    delays: HashMap<Item, Delay>,
}

/// Time at which an item is due, and its priority then.
#[derive(Debug)]
struct Delay {
    key: delay_queue::Key,
    at: Instant,
    priority: Priority,
}

#[derive(Clone, Copy, Debug)]
struct Due {
    since: Instant,
    priority: Priority,
}

/// One in so many items is one of low priority, while others are of high priority.
const SHARE: u32 = 8;
/// Delay of a service of which a copy was written or observed: its status alone is due, and other
/// copies are about to follow.
const DEBOUNCE: Duration = Duration::from_millis(50);
/// Delay of the services of a member that was added: at a start one member follows another, and
/// most services concern several.
const SETTLE: Duration = Duration::from_millis(500);

/// Longest delay. An item that is due later is planned once more meanwhile: [`DelayQueue`] panics
/// at delays of more than two years.
const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);

impl Queue {
    /// The item is due, as soon as its priority says.
    pub fn push(&mut self, item: Item, priority: Priority, now: Instant) {
        match priority {
            Priority::High => self.now(item, now),
            Priority::Debounced => self.at(item, now + DEBOUNCE),
            Priority::Low => self.in_turn(item, now),
            Priority::Settling => self.delay(item, now + SETTLE, Priority::Low),
        }
    }

    fn now(&mut self, item: Item, now: Instant) {
        if let Some(delay) = self.delays.remove(&item) {
            self.later.remove(&delay.key);
        }
        let priority = Priority::High;
        match self.due_since.entry(item.clone()) {
            Entry::Occupied(entry) if entry.get().priority == priority => return,
            Entry::Occupied(mut entry) => entry.get_mut().priority = priority,
            Entry::Vacant(entry) => {
                let since = now;
                entry.insert(Due { since, priority });
            }
        }
        self.due.push_back(item);
    }

    fn in_turn(&mut self, item: Item, now: Instant) {
        if let Entry::Vacant(entry) = self.due_since.entry(item.clone()) {
            let (since, priority) = (now, Priority::Low);
            entry.insert(Due { since, priority });
            self.in_turn.push_back(item);
        }
    }

    /// The item is due then, if not earlier.
    pub fn at(&mut self, item: Item, at: Instant) {
        self.delay(item, at, Priority::High);
    }

    fn delay(&mut self, item: Item, at: Instant, priority: Priority) {
        let due = self.due_since.get(&item);
        if due.is_some_and(|due| due.priority >= priority) {
            return;
        }
        let at = at.min(Instant::now() + LONGEST);
        match self.delays.entry(item) {
            Entry::Occupied(mut entry) => {
                let delay = entry.get_mut();
                delay.priority = delay.priority.max(priority);
                if at < delay.at {
                    self.later.reset_at(&delay.key, at.into());
                    delay.at = at;
                }
            }
            Entry::Vacant(entry) => {
                let key = self.later.insert_at(entry.key().clone(), at.into());
                entry.insert(Delay { key, at, priority });
            }
        }
    }

    /// Waits until an item is due, and says so; the item is then taken by [`Queue::take`]. Never
    /// ends while nothing is queued.
    pub async fn wait(&mut self) {
        if !self.due_since.is_empty() {
            return;
        }
        match self.later.next().await {
            Some(expired) => self.has_come(expired),
            None => std::future::pending().await,
        }
    }

    /// Makes due what was to be due by now, though much else is.
    pub fn catch_up(&mut self) {
        while let Some(Some(expired)) = self.later.next().now_or_never() {
            self.has_come(expired);
        }
    }

    fn has_come(&mut self, expired: delay_queue::Expired<Item>) {
        let deadline = expired.deadline().into_std();
        let item = expired.into_inner();
        match self.delays.remove(&item).map(|delay| delay.priority) {
            Some(Priority::Low) => self.in_turn(item, deadline),
            _ => self.now(item, deadline),
        }
    }

    /// The item that is due for longest among those of high priority, or now and then among the
    /// others.
    pub fn take(&mut self) -> Option<Item> {
        self.taken = self.taken.wrapping_add(1);
        let item = match self.taken.is_multiple_of(SHARE) {
            true => self.take_in_turn().or_else(|| self.due.pop_front()),
            false => self.due.pop_front().or_else(|| self.take_in_turn()),
        }?;
        self.due_since.remove(&item);
        Some(item)
    }

    fn take_in_turn(&mut self) -> Option<Item> {
        loop {
            let item = self.in_turn.pop_front()?;
            let due = self.due_since.get(&item);
            if due.is_some_and(|due| due.priority == Priority::Low) {
                return Some(item);
            }
        }
    }

    /// Returns the number of items that are due or will be.
    pub fn len(&self) -> usize {
        self.due_since.len() + self.delays.len()
    }

    /// Whether nothing is queued.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the time since which the first item of high priority is due; without one, the first
    /// of the others.
    pub fn oldest(&self) -> Option<Instant> {
        let mut first = self.due.front().into_iter().chain(&self.in_turn);
        first.find_map(|item| Some(self.due_since.get(item)?.since))
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
    async fn urgent_items_precede_due_items_which_get_a_share() {
        let now = Instant::now();
        let mut queue = Queue::default();
        for name in ["a", "b", "c"] {
            queue.push(item(name), Priority::Low, now);
        }
        queue.push(item("c"), Priority::High, now);
        queue.push(item("c"), Priority::Low, now);
        assert_eq!((queue.len(), queue.oldest()), (3, Some(now)));
        assert_eq!(queue.take(), Some(item("c")));
        let urgent: Vec<_> = (0..20).map(|number| format!("urgent{number}")).collect();
        for name in &urgent {
            queue.push(item(name), Priority::High, now);
        }
        let taken: Vec<_> = std::iter::from_fn(|| queue.take()).collect();
        let place = |name| taken.iter().position(|other| *other == item(name));
        assert_eq!((place("a"), place("b")), (Some(6), Some(14)));
        assert_eq!((taken.len(), queue.is_empty()), (22, true));
    }

    #[tokio::test]
    async fn due_items_are_taken_among_many() {
        let now = Instant::now();
        let mut queue = Queue::default();
        queue.push(item("a"), Priority::Low, now);
        queue.push(item("b"), Priority::Low, now);
        queue.at(item("c"), now);
        queue.at(item("d"), now + Duration::from_secs(900));
        queue.catch_up();
        assert_eq!(queue.take(), Some(item("c")));
        assert_eq!((queue.take(), queue.len()), (Some(item("a")), 2));
    }

    #[tokio::test]
    async fn startup_items_wait_unless_they_change() {
        let now = Instant::now();
        let mut queue = Queue::default();
        for name in ["a", "b", "a"] {
            queue.push(item(name), Priority::Settling, now);
        }
        queue.push(
            item("c"),
            Priority::Settling,
            now.checked_sub(SETTLE).unwrap_or(now),
        );
        queue.push(item("b"), Priority::High, now);
        queue.catch_up();
        assert_eq!(
            (queue.take(), queue.take()),
            (Some(item("b")), Some(item("c")))
        );
        assert_eq!((queue.take(), queue.len()), (None, 1));
        queue.wait().await;
        assert_eq!((queue.take(), queue.len()), (Some(item("a")), 0));
        assert!(now.elapsed() >= SETTLE);
    }

    #[tokio::test]
    async fn item_of_the_far_future_is_queued() {
        let now = Instant::now();
        let mut queue = Queue::default();
        let far = now + Duration::from_secs(30 * 365 * 24 * 60 * 60);
        queue.at(item("a"), far);
        queue.at(item("a"), far);
        queue.catch_up();
        assert_eq!((queue.take(), queue.len()), (None, 1));
        queue.at(item("a"), now);
        queue.wait().await;
        assert_eq!(queue.take(), Some(item("a")));
    }

    #[tokio::test]
    async fn an_item_stands_in_the_queue_once_and_at_its_earliest_time() {
        let start = Instant::now();
        let mut queue = Queue::default();
        queue.at(item("a"), start + Duration::from_secs(900));
        queue.at(item("a"), start + Duration::from_millis(30));
        queue.at(item("a"), start + Duration::from_secs(600));
        queue.at(item("b"), start + Duration::from_secs(500));
        queue.push(item("b"), Priority::High, start);
        queue.push(item("b"), Priority::High, start);
        assert_eq!(queue.len(), 2);
        queue.wait().await;
        assert_eq!((queue.take(), queue.take()), (Some(item("b")), None));
        queue.wait().await;
        assert!(start.elapsed() >= Duration::from_millis(30));
        assert_eq!((queue.take(), queue.len()), (Some(item("a")), 0));
    }
}
