//! Record of the writes into all clusters, and of the time that each change took to arrive.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::slices::SliceId;

/// Write that was carried out.
#[derive(Clone)]
pub(crate) struct Write {
    pub(crate) at: Instant,
    pub(crate) on_hub: bool,
    pub(crate) is_slice: bool,
    /// Method and path.
    pub(crate) what: String,
}

/// Change of a slice.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    pub(crate) service: u32,
    pub(crate) at: Instant,
    version: u64,
    /// Consumers that lack it.
    awaited: Vec<u16>,
    /// Times from the change to each of its writes, in the order of arrival.
    pub(crate) after: Vec<Duration>,
}

/// Record of all clusters.
#[derive(Default)]
pub(crate) struct Journal {
    state: Mutex<State>,
    /// Number of rejected writes.
    pub(crate) refused: AtomicUsize,
    /// Pages of lists of members. One of a single object reads the version alone, and is not
    /// counted; nor are the two lists of an empty collection that a start takes.
    pub(crate) lists: AtomicUsize,
    /// Number of watches of members that have begun.
    pub(crate) begun_watches: AtomicUsize,
    /// Cloned by each watch of a member until it ends.
    pub(crate) open_watches: Arc<()>,
}

#[derive(Default)]
struct State {
    writes: Vec<Write>,
    /// Changes that some consumers lack.
    open: HashMap<SliceId, Vec<Change>>,
    arrived: Vec<Change>,
}

impl Change {
    /// Returns the time from the change to the last of its writes.
    pub(crate) fn last(&self) -> Duration {
        self.after.last().copied().unwrap_or_default()
    }
}

impl Journal {
    pub(crate) fn wrote(&self, write: Write) {
        self.state.lock().writes.push(write);
    }

    /// Returns the number of open watches of members.
    pub(crate) fn watches(&self) -> usize {
        Arc::strong_count(&self.open_watches) - 1
    }

    /// Returns the writes since then. Leases are not recorded.
    pub(crate) fn writes_since(&self, since: Instant) -> Vec<Write> {
        let state = self.state.lock();
        let recent = state.writes.iter().filter(|write| write.at >= since);
        recent.cloned().collect()
    }

    /// Records a change of a slice that is to arrive in these consumers.
    pub(crate) fn changed(&self, id: SliceId, version: u64, awaited: Vec<u16>, at: Instant) {
        let change = Change {
            service: id.service,
            at,
            version,
            after: Vec::with_capacity(awaited.len()),
            awaited,
        };
        self.state.lock().open.entry(id).or_default().push(change);
    }

    /// Records the arrival of a copy of that version in a consumer.
    pub(crate) fn copied(&self, id: SliceId, version: u64, consumer: u16, at: Instant) {
        let mut state = self.state.lock();
        let State { open, arrived, .. } = &mut *state;
        let Some(changes) = open.get_mut(&id) else {
            return;
        };
        for change in changes.iter_mut().filter(|one| one.version <= version) {
            let place = change.awaited.iter().position(|other| *other == consumer);
            if let Some(place) = place {
                change.awaited.swap_remove(place);
                change.after.push(at.saturating_duration_since(change.at));
            }
        }
        arrived.extend(changes.extract_if(.., |change| change.awaited.is_empty()));
        if changes.is_empty() {
            open.remove(&id);
        }
    }

    /// Returns the number of changes that some consumers lack.
    pub(crate) fn open(&self) -> usize {
        self.state.lock().open.values().map(Vec::len).sum()
    }

    /// Returns the changes that have arrived since the last call, and drops the others.
    pub(crate) fn take(&self) -> Vec<Change> {
        let mut state = self.state.lock();
        state.open.clear();
        std::mem::take(&mut state.arrived)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn change_arrives_with_its_version_or_a_later_one() {
        let (journal, id, start) = (Journal::default(), SliceId::first(1), Instant::now());
        let after = |milliseconds| start + Duration::from_millis(milliseconds);
        journal.changed(id, 10, vec![3, 4], start);
        journal.copied(id, 9, 3, after(1));
        journal.copied(id, 10, 3, after(2));
        journal.changed(id, 11, vec![3, 4], after(3));
        assert_eq!(journal.open(), 2);
        journal.copied(id, 11, 4, after(5));
        journal.copied(id, 11, 3, after(9));
        assert_eq!(journal.open(), 0);
        let arrived = journal.take();
        let times = arrived.iter().map(|one| one.last().as_millis());
        assert_eq!(times.collect::<Vec<_>>(), [5, 6]);
    }
}
