//! What was written into which cluster, when and by whom; and how long each change took to arrive.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::kind::Kind;
use super::text::SliceId;

/// A write that was carried out.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Write {
    pub(crate) at: Instant,
    /// 0 for the hub, then the members.
    pub(crate) cluster: usize,
    pub(crate) kind: Kind,
    /// create, update, patch or delete.
    pub(crate) verb: &'static str,
    /// The place among [`State::writers`] of what its client calls itself.
    pub(crate) who: usize,
}

/// A change that arrived wherever it was to arrive.
#[derive(Clone, Debug)]
pub(crate) struct Arrived {
    pub(crate) id: SliceId,
    pub(crate) changed_at: Instant,
    /// From the change to each of its writes, in the order of their arrival.
    pub(crate) after: Vec<Duration>,
    /// In how many consumers a later change of the same slice came instead.
    pub(crate) superseded: usize,
}

impl Arrived {
    /// From the change to the last of its writes.
    pub(crate) fn last(&self) -> Duration {
        self.after.last().copied().unwrap_or_default()
    }
}

/// What happened.
#[derive(Default)]
pub(crate) struct Journal(Mutex<State>);

#[derive(Default)]
struct State {
    writes: Vec<Write>,
    writers: Vec<String>,
    refused: usize,
    open: HashMap<SliceId, Vec<Open>>,
    arrived: Vec<Arrived>,
}

/// A change that is on its way.
struct Open {
    version: u64,
    awaited: Vec<u16>,
    arrived: Arrived,
}

impl Journal {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes a write.
    pub(crate) fn wrote(&self, cluster: usize, kind: Kind, verb: &'static str, who: &str) {
        let mut state = self.state();
        let known = state.writers.iter().position(|known| known == who);
        let who = known.unwrap_or_else(|| {
            state.writers.push(who.to_owned());
            state.writers.len() - 1
        });
        state.writes.push(Write {
            at: Instant::now(),
            cluster,
            kind,
            verb,
            who,
        });
    }

    /// Notes a write that was refused.
    pub(crate) fn refused(&self) {
        self.state().refused += 1;
    }

    /// How many writes were refused, with a conflict or otherwise.
    pub(crate) fn refusals(&self) -> usize {
        self.state().refused
    }

    /// The writes since then, but for those of Leases.
    pub(crate) fn writes_since(&self, since: Instant) -> Vec<Write> {
        let state = self.state();
        let recent = state
            .writes
            .iter()
            .filter(|write| write.at >= since && write.kind != Kind::Lease);
        recent.copied().collect()
    }

    /// How many of these writes there were of each sort: where, what, and by whom.
    pub(crate) fn summary(&self, writes: &[Write]) -> String {
        let state = self.state();
        let mut counts = BTreeMap::<_, usize>::new();
        for write in writes {
            let cluster = match write.cluster {
                0 => "hub",
                _ => "member",
            };
            let (kind, who) = (write.kind.names().1, state.writers[write.who].as_str());
            *counts.entry((cluster, write.verb, kind, who)).or_default() += 1;
        }
        let lines = counts
            .into_iter()
            .map(|((cluster, verb, kind, who), count)| {
                format!("{count} x {cluster}: {verb} {kind} by {who}")
            });
        lines.collect::<Vec<_>>().join("; ")
    }

    /// A slice changes, and is to arrive in so many consumers.
    pub(crate) fn changed(&self, id: SliceId, version: u64, consumers: Vec<u16>, at: Instant) {
        let open = Open {
            version,
            arrived: Arrived {
                id,
                changed_at: at,
                after: Vec::with_capacity(consumers.len()),
                superseded: 0,
            },
            awaited: consumers,
        };
        self.state().open.entry(id).or_default().push(open);
    }

    /// A copy that was made from that version of the slice has arrived in a consumer.
    pub(crate) fn copied(&self, id: SliceId, version: u64, consumer: u16, at: Instant) {
        let mut state = self.state();
        let State { open, arrived, .. } = &mut *state;
        let Some(changes) = open.get_mut(&id) else {
            return;
        };
        for change in changes.iter_mut().filter(|open| open.version <= version) {
            let Some(place) = change.awaited.iter().position(|other| *other == consumer) else {
                continue;
            };
            change.awaited.swap_remove(place);
            let after = at.saturating_duration_since(change.arrived.changed_at);
            change.arrived.after.push(after);
            change.arrived.superseded += usize::from(change.version < version);
        }
        changes.retain_mut(|change| {
            let done = change.awaited.is_empty();
            if done {
                arrived.push(change.arrived.clone());
            }
            !done
        });
        if changes.is_empty() {
            open.remove(&id);
        }
    }

    /// How many changes are on their way.
    pub(crate) fn open(&self) -> usize {
        self.state().open.values().map(Vec::len).sum()
    }

    /// What has arrived since the last call.
    pub(crate) fn take_arrived(&self) -> Vec<Arrived> {
        std::mem::take(&mut self.state().arrived)
    }

    /// Nothing is awaited any more.
    pub(crate) fn give_up(&self) {
        self.state().open.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_has_arrived_when_its_version_or_a_later_one_is_in_every_consumer() {
        let journal = Journal::default();
        let id = SliceId {
            service: 1,
            slice: 0,
        };
        let start = Instant::now();
        let after = |milliseconds| start + Duration::from_millis(milliseconds);
        journal.changed(id, 10, vec![3, 4], start);
        journal.copied(id, 9, 3, after(1));
        journal.copied(id, 10, 3, after(2));
        journal.changed(id, 11, vec![3, 4], after(3));
        assert_eq!((journal.open(), journal.take_arrived().len()), (2, 0));
        journal.copied(id, 11, 4, after(5));
        let arrived = journal.take_arrived();
        assert_eq!(arrived.len(), 1);
        assert_eq!(arrived[0].last(), Duration::from_millis(5));
        assert_eq!(arrived[0].superseded, 1);
        journal.copied(id, 11, 3, after(9));
        let arrived = journal.take_arrived();
        assert_eq!(
            (arrived[0].last(), arrived[0].superseded),
            (Duration::from_millis(6), 0)
        );
        assert_eq!(journal.open(), 0);
    }
}
