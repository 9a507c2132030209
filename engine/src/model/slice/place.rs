//! Where endpoints are: a node and its zone.

use std::fmt;
use std::hash::BuildHasher as _;
use std::sync::{Arc, Weak};

use foldhash::fast::RandomState;

use super::endpoint::Text;
use crate::model::map::HashMap;

/// What stands between a node and its zone.
const BETWEEN: char = '\n';

/// After so many, or so many bytes of text, others are put into another table: nodes come and go.
const MOST: usize = 64 * 1024;
const MOST_BYTES: usize = 4 * 1024 * 1024;
/// Full tables that slices of a cluster may keep, each of them perhaps for one place. Then each slice has a table of its own, so that
/// whoever makes up nodes fills no more memory than the slices that name them.
const FULL_TABLES: usize = 4;

/// Nodes with their zones, each part empty where it is not known. It grows while those who share it read.
type Table = boxcar::Vec<Box<str>>;

/// The places of the endpoints of a slice: 4 bytes each, and a table that slices of a cluster share.
#[derive(Clone)]
pub(super) struct SlicePlaces {
    table: Arc<Table>,
    at: Box<[u32]>,
}

/// Finds places: slices of a cluster name the same nodes over and over.
#[derive(Clone, Debug, Default)]
pub(super) struct Places {
    table: Arc<Table>,
    /// Bytes of its texts.
    bytes: usize,
    /// Whether the table is of one slice.
    is_private: bool,
    /// Those that are full.
    full: Vec<Weak<Table>>,
    /// By the hash of a place, where it is in the table.
    known: HashMap<u64, u32>,
    hasher: RandomState,
}

impl SlicePlaces {
    /// How many endpoints there are.
    pub(super) fn len(&self) -> usize {
        self.at.len()
    }

    /// The node and the zone of each endpoint.
    pub(super) fn each(&self) -> impl Iterator<Item = (Option<&str>, Option<&str>)> {
        self.texts().map(|text| {
            let (node, zone) = text.split_once(BETWEEN).unwrap_or_default();
            (present(node), present(zone))
        })
    }

    fn texts(&self) -> impl Iterator<Item = &str> {
        let text = |at: &u32| self.table.get(*at as usize).map_or("", |text| &**text);
        self.at.iter().map(text)
    }
}

/// What they are counts, not in which table.
impl PartialEq for SlicePlaces {
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len() && self.texts().eq(other.texts())
    }
}

impl Eq for SlicePlaces {}

impl fmt::Debug for SlicePlaces {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_list().entries(self.texts()).finish()
    }
}

impl Places {
    /// To be called before the first endpoint of each slice.
    pub(super) fn begin_slice(&mut self) {
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

    /// Where a node and its zone are in the table, for [`Places::of_slice`].
    pub(super) fn find(&mut self, node: Option<&Text<'_>>, zone: Option<&Text<'_>>) -> u32 {
        let [node, zone] = [node, zone].map(|text| text.map_or("", |text| &*text.0));
        let hash = self.hasher.hash_one((node, zone));
        if let Some(at) = self.known.get(&hash)
            && self.is_at(*at, node, zone)
        {
            return *at;
        }
        let text = format!("{node}{BETWEEN}{zone}");
        self.bytes += text.len();
        let at = u32::try_from(self.table.push(text.into())).unwrap_or(u32::MAX);
        self.known.insert(hash, at);
        at
    }

    fn is_at(&self, at: u32, node: &str, zone: &str) -> bool {
        let text = self.table.get(at as usize);
        let rest = text.and_then(|text| text.strip_prefix(node));
        rest.and_then(|rest| rest.strip_prefix(BETWEEN)) == Some(zone)
    }

    /// The places of a slice, as they were found.
    pub(super) fn of_slice(&self, at: Box<[u32]>) -> SlicePlaces {
        let table = self.table.clone();
        SlicePlaces { table, at }
    }
}

/// The text, unless it is empty.
pub(super) fn present(text: &str) -> Option<&str> {
    Some(text).filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use super::*;

    fn slice(places: &mut Places, nodes: impl Iterator<Item = usize>) -> SlicePlaces {
        places.begin_slice();
        let node = |number| Text(Cow::Owned(format!("node{number}")));
        let zone = Text(Cow::Borrowed("z"));
        let at = nodes.map(|number| places.find(Some(&node(number)), Some(&zone)));
        let at = at.collect();
        places.of_slice(at)
    }

    #[test]
    fn places_stay_what_they_are_while_nodes_come_and_go() {
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
    fn few_full_tables_are_kept_by_slices_that_stay() {
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
    fn a_node_and_a_zone_that_are_not_known_are_none() {
        let mut places = Places::default();
        let text = |text| Some(Text(Cow::Borrowed(text)));
        let at = [(None, None), (text(""), text("a")), (text("a"), None)];
        let at = at.map(|(node, zone)| places.find(node.as_ref(), zone.as_ref()));
        let places = places.of_slice(at.into());
        let parts: Vec<_> = places.each().collect();
        assert_eq!(parts, [(None, None), (None, Some("a")), (Some("a"), None)]);
    }
}
