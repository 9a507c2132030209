//! Places of endpoints: a node and its zone.

use std::collections::HashMap;
use std::fmt;
use std::hash::BuildHasher as _;
use std::sync::{Arc, Weak};

use foldhash::fast::RandomState;

/// Maximum number of places in a table, and maximum bytes of their text. Later places are put into
/// another table: nodes come and go.
const MOST: usize = 64 * 1024;
const MOST_BYTES: usize = 4 * 1024 * 1024;
/// Maximum number of full tables that slices of a cluster may retain, each of them perhaps for one
/// place. Then each slice has a table of its own, so that an author of made-up nodes fills no more
/// memory than the slices that name them.
const FULL_TABLES: usize = 4;

/// Table of places that grows while the slices that share it read.
type Table = boxcar::Vec<Place<Box<str>>>;

/// Node followed by its zone, each empty if it is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place<T> {
    text: T,
    /// Offset of the zone, in bytes.
    zone_at: u32,
}

/// Places of the endpoints of a slice: 4 bytes each, and a table that slices of a cluster share.
#[derive(Clone)]
pub(super) struct SlicePlaces {
    table: Arc<Table>,
    at: Box<[u32]>,
}

/// Places of the endpoints of a slice, as they are read.
#[derive(Debug, Default)]
pub(super) struct PlaceTexts {
    /// Texts of all places, in their order.
    texts: String,
    /// Offsets of the zone and of the end of each place, in bytes.
    ends: Vec<[usize; 2]>,
}

/// Interner of places: slices of a cluster name the same nodes over and over. Slices that are read
/// with one interner share its table.
#[derive(Clone, Debug, Default)]
pub struct Places {
    table: Arc<Table>,
    /// Bytes of text in the table.
    bytes: usize,
    /// Whether the table belongs to one slice.
    is_private: bool,
    /// Tables that are full.
    full: Vec<Weak<Table>>,
    /// Index in the table, by the hash of a place. The place itself is compared before the index is
    /// used, so a collision costs a second entry in the table and nothing else.
    known: HashMap<u64, u32, RandomState>,
    hasher: RandomState,
}

impl SlicePlaces {
    /// Returns the number of endpoints.
    pub(super) fn len(&self) -> usize {
        self.at.len()
    }

    /// Returns the node and the zone of each endpoint.
    pub(super) fn each(&self) -> impl Iterator<Item = (Option<&str>, Option<&str>)> {
        // All of them before the first is used, as in `Places::of_slice`.
        let all = self
            .places()
            .map(|place| place.map_or(("", ""), Place::parts));
        let all: Vec<_> = all.collect();
        let each = all.into_iter();
        each.map(|(node, zone)| (present(node), present(zone)))
    }

    fn places(&self) -> impl Iterator<Item = Option<&Place<Box<str>>>> {
        self.at.iter().map(|at| self.table.get(*at as usize))
    }
}

impl Place<Box<str>> {
    /// Returns the node and the zone.
    fn parts(&self) -> (&str, &str) {
        let parts = self.text.split_at_checked(self.zone_at as usize);
        parts.unwrap_or_default()
    }

    fn is(&self, other: Place<&str>) -> bool {
        *self.text == *other.text && self.zone_at == other.zone_at
    }
}

impl PlaceTexts {
    /// Returns an empty list with room for `likely` places.
    pub(super) fn with_capacity(likely: usize) -> Self {
        const TEXT: usize = 32;
        Self {
            texts: String::with_capacity(likely * TEXT),
            ends: Vec::with_capacity(likely),
        }
    }

    /// Returns the number of places.
    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    /// Adds the place of the next endpoint, each part empty if it is unknown.
    pub(super) fn push(&mut self, node: &str, zone: &str) {
        self.texts.push_str(node);
        let zone_at = self.texts.len();
        self.texts.push_str(zone);
        self.ends.push([zone_at, self.texts.len()]);
    }

    fn each(&self) -> impl Iterator<Item = Place<&str>> {
        let mut begin = 0;
        self.ends.iter().map(move |[zone_at, end]| {
            let place = Place {
                text: self.texts.get(begin..*end).unwrap_or_default(),
                zone_at: u32::try_from(zone_at - begin).unwrap_or(u32::MAX),
            };
            begin = *end;
            place
        })
    }
}

/// Compares the places, not their tables.
impl PartialEq for SlicePlaces {
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len() && self.places().eq(other.places())
    }
}

impl Eq for SlicePlaces {}

impl fmt::Debug for SlicePlaces {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_list().entries(self.each()).finish()
    }
}

impl Places {
    /// Returns the places of a slice.
    pub(super) fn of_slice(&mut self, read: &PlaceTexts) -> SlicePlaces {
        self.begin_slice();
        // Each step is done for all places before the next step: the processor need not wait for
        // the memory of each place.
        let hash = |place: Place<&str>| self.hasher.hash_one(place.text);
        let hashes: Vec<u64> = read.each().map(hash).collect();
        let known = |hash: &u64| self.known.get(hash).copied();
        let known: Vec<Option<u32>> = hashes.iter().map(known).collect();
        let each = read.each().zip(hashes).zip(known);
        let at = each.map(|((place, hash), known)| match known {
            Some(at) if self.is_at(at, place) => at,
            _ => self.find(place, hash),
        });
        let at = at.collect();
        let table = self.table.clone();
        SlicePlaces { table, at }
    }

    fn begin_slice(&mut self) {
        let is_full = self.table.count() >= MOST || self.bytes >= MOST_BYTES;
        if !is_full && !self.is_private {
            return;
        }
        let full = std::mem::take(&mut self.table);
        if !self.is_private {
            self.full.push(Arc::downgrade(&full));
        }
        drop(full);
        self.known.clear();
        self.bytes = 0;
        self.full.retain(|table| table.strong_count() > 0);
        self.is_private = self.full.len() >= FULL_TABLES;
    }

    /// Returns the index of a place in the table. Adds the place if it is missing.
    fn find(&mut self, place: Place<&str>, hash: u64) -> u32 {
        if let Some(at) = self.known.get(&hash)
            && self.is_at(*at, place)
        {
            return *at;
        }
        self.bytes += place.text.len();
        let place = Place {
            text: place.text.into(),
            zone_at: place.zone_at,
        };
        let at = u32::try_from(self.table.push(place)).unwrap_or(u32::MAX);
        self.known.insert(hash, at);
        at
    }

    fn is_at(&self, at: u32, place: Place<&str>) -> bool {
        let known = self.table.get(at as usize);
        known.is_some_and(|known| known.is(place))
    }
}

/// Returns the text, unless it is empty.
pub(super) fn present(text: &str) -> Option<&str> {
    Some(text).filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slice(places: &mut Places, nodes: impl Iterator<Item = usize>) -> SlicePlaces {
        let mut read = PlaceTexts::default();
        nodes.for_each(|number| read.push(&format!("node{number}"), "z"));
        places.of_slice(&read)
    }

    #[test]
    fn places_are_unchanged_while_nodes_come_and_go() {
        let mut places = Places::default();
        let first = slice(&mut places, [1, 2, 1].into_iter());
        assert_eq!(places.table.count(), 2);
        let all = slice(&mut places, 0..MOST + 10);
        let later = slice(&mut places, [1, 2, 1].into_iter());
        assert_eq!(places.table.count(), 2);
        assert_eq!(first, later);
        let nodes: Vec<_> = first.each().collect();
        let [one, two] = [Some("node1"), Some("node2")];
        assert_eq!(
            nodes,
            [(one, Some("z")), (two, Some("z")), (one, Some("z"))]
        );
        let last = format!("node{}", MOST + 9);
        assert_eq!(all.each().last(), Some((Some(&*last), Some("z"))));
    }

    #[test]
    fn slices_retain_only_a_few_full_tables() {
        let mut places = Places::default();
        let mut kept = Vec::new();
        for table in 0..2 * FULL_TABLES {
            let first = table * MOST;
            kept.push(slice(&mut places, std::iter::once(first)));
            slice(&mut places, first..first + MOST);
        }
        let mut sizes: Vec<_> = kept.iter().map(|slice| slice.table.count()).collect();
        sizes.sort_unstable();
        assert_eq!(sizes, [[1; FULL_TABLES], [MOST; FULL_TABLES]].concat());
        kept.truncate(1);
        slice(&mut places, 0..2);
        let again = [slice(&mut places, 0..2), slice(&mut places, 0..2)];
        assert!(
            Arc::ptr_eq(&again[0].table, &again[1].table),
            "shared once more"
        );
    }

    #[test]
    fn empty_node_and_zone_are_none() {
        let mut read = PlaceTexts::default();
        for (node, zone) in [("", ""), ("", "a"), ("a", "")] {
            read.push(node, zone);
        }
        let places = Places::default().of_slice(&read);
        let parts: Vec<_> = places.each().collect();
        assert_eq!(parts, [(None, None), (None, Some("a")), (Some("a"), None)]);
    }
}
