//! Where endpoints are: a node and its zone.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use string_cache::DefaultAtom;

use super::endpoint::Text;

/// A node and its zone, either of them empty where it is not known; the endpoints of a node share one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place(DefaultAtom);

/// Finds places. It remembers those that it met last: slices of a cluster name the same nodes over and over, and to find one among
/// all of the process takes far longer.
#[derive(Debug, Default)]
pub(super) struct Places {
    /// By a hash of their text; none, or a power of two.
    recent: Vec<Place>,
    /// How many were forgotten for others since it grew.
    forgotten: usize,
    /// The text of the place that is looked for.
    wanted: String,
}

/// How many are remembered at first, and in the largest of clusters.
const FEWEST: usize = 64;
const MOST: usize = 16 * 1024;

impl Place {
    /// In neither part.
    const BETWEEN: char = '\n';

    /// The node and the zone.
    pub(super) fn parts(&self) -> (Option<&str>, Option<&str>) {
        let (node, zone) = self.0.split_once(Self::BETWEEN).unwrap_or_default();
        (present(node), present(zone))
    }
}

impl Places {
    /// For the slices of a cluster.
    pub(super) fn remembered() -> Self {
        Self {
            recent: none(FEWEST),
            ..Self::default()
        }
    }

    pub(super) fn find(&mut self, node: Option<&Text<'_>>, zone: Option<&Text<'_>>) -> Place {
        self.wanted.clear();
        self.wanted.extend(node.map(|text| &*text.0));
        self.wanted.push(Place::BETWEEN);
        self.wanted.extend(zone.map(|text| &*text.0));
        let mut hasher = DefaultHasher::new();
        self.wanted.hash(&mut hasher);
        let at = hasher.finish() as usize & self.recent.len().wrapping_sub(1);
        let wanted = || Place(DefaultAtom::from(&*self.wanted));
        let Some(known) = self.recent.get_mut(at) else {
            return wanted();
        };
        if *known.0 == *self.wanted {
            return known.clone();
        }
        let found = wanted();
        let before = std::mem::replace(known, found.clone());
        self.forgotten += usize::from(!before.0.is_empty());
        if self.forgotten > self.recent.len() && self.recent.len() < MOST {
            self.recent = none(4 * self.recent.len());
            self.forgotten = 0;
        }
        found
    }
}

/// So many that are still to be met.
fn none(count: usize) -> Vec<Place> {
    vec![Place(DefaultAtom::default()); count]
}

/// The text, unless it is empty.
pub(super) fn present(text: &str) -> Option<&str> {
    Some(text).filter(|text| !text.is_empty())
}
