//! Detection of write conflicts: objects that another writer changes back as often as causeway
//! writes them.
//!
//! The desired content changes often, and causeway writes it as often; that is no conflict. A
//! conflict is the same content written again and again because it did not stay: another writer
//! changed it, deleted it, or recreated a deleted object. Causeway then pauses this write, for
//! longer each time that the conflict goes on, and reports it. Other content of the object is
//! written all the same. Once the whole object was, the paused content is tried again when it is
//! desired: the object no longer has the content of the other writer.
//!
//! This module neither sends requests nor reads a clock.

mod content;

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::time::{Duration, Instant};

use crate::by_item::ByItem;
use crate::model::map::HashMap;
use crate::model::{Item, ObjectId, SliceId, TargetCluster, Write};
use crate::problem::ObjectConflict;

pub use self::content::content;

/// Number of times within [`WINDOW`] that the same content is written again before it counts as a
/// conflict.
pub const ROUNDS: usize = 5;
const WINDOW: Duration = Duration::from_secs(60);
const LONGEST: Duration = Duration::from_secs(3600);

/// Recent writes and the conflicts among them.
#[derive(Debug)]
pub struct WriteConflicts {
    first_pause: Duration,
    /// Last write of each object, by a hash of its cluster and identity: a million objects may be
    /// written in a minute.
    written: HashMap<u64, Written>,
    /// Times at which the same content of an object was written again, by the hash of the object.
    put_back: HashMap<u64, Vec<Instant>>,
    holds: ByItem<Place, Hold>,
    swept: Option<Instant>,
}

type Place = (TargetCluster, ObjectId);

/// Last write of an object.
///
/// Objects and contents are compared by hashes of 64 bits. A collision makes different content
/// count as written again. Five of them within [`WINDOW`] would pause a write, for [`LONGEST`] at
/// most, and the write is tried again after the pause. No copy stays wrong for good.
#[derive(Debug)]
struct Written {
    content: u64,
    at: Instant,
}

#[derive(Debug)]
struct Hold {
    content: u64,
    until: Instant,
    pause: Duration,
    /// Time of the first write after the pause.
    tried: Option<Instant>,
    /// Whether causeway has written other content since, which ends the pause.
    is_superseded: bool,
    writer: OtherWriter,
}

/// Other writer of a copy. The index has no managed fields of copies: the controller reads them
/// once for each conflict.
#[derive(Clone, Debug, Default)]
struct OtherWriter {
    name: Option<Box<str>>,
    lookup: Lookup,
    is_reported: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Lookup {
    /// The other writer has not written since causeway did, so managed fields do not show it.
    #[default]
    Early,
    Due,
    Begun,
}

/// Write conflict that was detected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteConflict {
    /// Time for which the write is paused.
    pub pause: Duration,
    /// Whether the conflict has just begun.
    pub is_new: bool,
}

/// Write conflict that is reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OngoingConflict<'a> {
    /// Object of the conflict.
    pub object: &'a ObjectId,
    /// Time at which the conflict is checked again.
    pub until: Instant,
    /// Other writer of a copy, once it was looked up.
    writer: Option<&'a str>,
}

impl OngoingConflict<'_> {
    /// Returns the conflict as a fact. `manager` is the other writer, as the object shows it.
    pub(crate) fn fact(&self, manager: Option<&str>) -> ObjectConflict {
        ObjectConflict {
            object: self.object.clone(),
            manager: self.writer.or(manager).map(str::to_owned),
        }
    }
}

impl WriteConflicts {
    /// Returns an empty state. `first_pause` is the pause of a conflict that begins.
    pub fn new(first_pause: Duration) -> Self {
        Self {
            first_pause,
            written: HashMap::default(),
            put_back: HashMap::default(),
            holds: ByItem::default(),
            swept: None,
        }
    }

    /// Returns the end of the pause of a write; `None` if it may be sent.
    pub(crate) fn held_until(
        &self,
        cluster: &TargetCluster,
        write: &Write,
        now: Instant,
    ) -> Option<Instant> {
        if self.holds.is_empty() {
            return None;
        }
        let hold = self.holds.get(&(cluster.clone(), write.object().clone()))?;
        let is_paused = now < hold.until && !hold.is_superseded;
        (is_paused && hold.content == content(write.operation())).then_some(hold.until)
    }

    /// Records that a write is held. The write of a copy is desired because the other writer has
    /// changed the copy since.
    pub(crate) fn note_held(&mut self, cluster: &TargetCluster, object: &ObjectId) {
        let hold = self.holds.get_mut(&(cluster.clone(), object.clone()));
        if let (Some(hold), ObjectId::Slice(_)) = (hold, object)
            && hold.writer.lookup == Lookup::Early
        {
            hold.writer.lookup = Lookup::Due;
        }
    }

    /// Takes the copies of an item whose other writer must be looked up, each once per conflict.
    pub fn take_lookups(&mut self, item: &Item) -> Vec<(TargetCluster, SliceId)> {
        let holds = self.holds.of(item);
        let due = holds.filter(|(_, hold)| hold.writer.lookup == Lookup::Due);
        let due: Vec<_> = due.map(|(place, _)| place.clone()).collect();
        let mut taken = Vec::new();
        for place in due {
            if let Some(hold) = self.holds.get_mut(&place) {
                hold.writer.lookup = Lookup::Begun;
            }
            if let (cluster, ObjectId::Slice(id)) = place {
                taken.push((cluster, id));
            }
        }
        taken
    }

    /// Records the other writer of a copy, if it is known. Returns true if the conflict must be
    /// reported in an Event.
    pub fn note_writer(
        &mut self,
        cluster: &TargetCluster,
        object: &ObjectId,
        name: Option<&str>,
    ) -> bool {
        let Some(hold) = self.holds.get_mut(&(cluster.clone(), object.clone())) else {
            return false;
        };
        if let Some(name) = name {
            hold.writer.name = Some(name.into());
        }
        !std::mem::replace(&mut hold.writer.is_reported, true)
    }

    /// Records a write that an API server accepted. Returns the conflict that the write begins or
    /// continues.
    pub fn note(
        &mut self,
        cluster: &TargetCluster,
        item: &Item,
        write: &Write,
        now: Instant,
    ) -> Option<WriteConflict> {
        self.sweep(now);
        let content = content(write.operation());
        let place = (cluster.clone(), write.object().clone());
        let put_back = self.put_back(&place, content, now);
        let hold = self.holds.get_mut(&place);
        let hold = hold.filter(|hold| !hold.is_over(now));
        let rounds = match &hold {
            Some(hold) if hold.content == content => 1,
            _ => ROUNDS,
        };
        let pause = hold.as_ref().map(|hold| (hold.pause * 2).min(LONGEST));
        if let Some(hold) = hold {
            // A patch may leave what the other writer changed.
            hold.is_superseded |= hold.content != content && write.operation().patch().is_none();
            if hold.content == content && hold.tried.is_none() {
                hold.tried = Some(now);
                return None;
            }
        }
        if put_back < rounds {
            return None;
        }
        let is_new = pause.is_none();
        let pause = pause.unwrap_or(self.first_pause);
        let before = self.holds.get(&place).filter(|_| !is_new);
        let before = before.map(|hold| hold.writer.clone()).unwrap_or_default();
        let writer = OtherWriter {
            lookup: Lookup::Early,
            ..before
        };
        let hold = Hold {
            content,
            until: now + pause,
            pause,
            tried: None,
            is_superseded: false,
            writer,
        };
        self.holds.insert(item, place, hold);
        Some(WriteConflict { pause, is_new })
    }

    /// Records a write of an object. Returns how many times within [`WINDOW`] the same content was
    /// written again, this write included.
    fn put_back(&mut self, place: &Place, content: u64, now: Instant) -> usize {
        let place = hashed(place);
        let before = self.written.insert(place, Written { content, at: now });
        let same =
            before.is_some_and(|before| before.content == content && is_recent(before.at, now));
        if !same {
            self.put_back.remove(&place);
            return 0;
        }
        let times = self.put_back.entry(place).or_default();
        times.retain(|at| is_recent(*at, now));
        times.push(now);
        times.len()
    }

    /// Returns the time at which the next conflict over an object of an item is checked again, if
    /// any.
    pub(crate) fn next_end(&self, item: &Item, now: Instant) -> Option<Instant> {
        let ends = self.holds.of(item).map(|(_, hold)| hold.reported_until());
        ends.filter(|end| now < *end).min()
    }

    /// Returns the conflicts over objects of an item in a cluster.
    pub(crate) fn ongoing(
        &self,
        cluster: &TargetCluster,
        item: &Item,
        now: Instant,
    ) -> impl Iterator<Item = OngoingConflict<'_>> {
        let holds = self.holds.of(item);
        let write_conflict = holds.filter(move |((of, _), _)| of == cluster);
        let write_conflict = write_conflict.map(|((_, object), hold)| OngoingConflict {
            object,
            until: hold.reported_until(),
            writer: hold.writer.name.as_deref(),
        });
        write_conflict.filter(move |write_conflict| now < write_conflict.until)
    }

    /// Ends the conflicts of a cluster: its API server runs another version, which stores other
    /// fields than the last one. Counts of repeated writes start again in all clusters, because
    /// they are kept by hashes that do not show the cluster.
    pub fn end(&mut self, cluster: &TargetCluster) {
        self.holds.retain(|(of, _), _| of != cluster);
        self.put_back.clear();
    }

    /// Drops all state.
    pub fn clear(&mut self) {
        *self = Self::new(self.first_pause);
    }

    fn sweep(&mut self, now: Instant) {
        if self.swept.is_some_and(|swept| is_recent(swept, now)) {
            return;
        }
        self.swept = Some(now);
        self.holds.retain(|_, hold| !hold.is_over(now));
        self.written.retain(|_, written| is_recent(written.at, now));
        self.written.shrink_to_fit();
        let written = &self.written;
        self.put_back.retain(|place, _| written.contains_key(place));
    }
}

fn is_recent(at: Instant, now: Instant) -> bool {
    now.saturating_duration_since(at) < WINDOW
}

fn hashed(place: &Place) -> u64 {
    let mut hasher = DefaultHasher::new();
    place.hash(&mut hasher);
    hasher.finish()
}

impl Hold {
    /// Returns the time until which the conflict is reported. The write after a pause must stay for
    /// [`WINDOW`].
    fn reported_until(&self) -> Instant {
        self.tried.map_or(self.until, |tried| tried + WINDOW)
    }

    fn is_over(&self, now: Instant) -> bool {
        let end = self.tried.unwrap_or(self.until) + WINDOW;
        end <= now
    }
}

#[cfg(test)]
mod tests;
