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
    /// None, or [`REMEMBERED`].
    recent: Vec<Place>,
    /// The text of the place that is looked for.
    wanted: String,
}

/// The nodes of a large cluster; a power of two.
const REMEMBERED: usize = 1024;

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
            recent: vec![Place(DefaultAtom::default()); REMEMBERED],
            wanted: String::new(),
        }
    }

    pub(super) fn find(&mut self, node: Option<&Text<'_>>, zone: Option<&Text<'_>>) -> Place {
        self.wanted.clear();
        self.wanted.extend(node.map(|text| &*text.0));
        self.wanted.push(Place::BETWEEN);
        self.wanted.extend(zone.map(|text| &*text.0));
        let mut hasher = DefaultHasher::new();
        self.wanted.hash(&mut hasher);
        let at = hasher.finish() as usize % REMEMBERED;
        let wanted = || Place(DefaultAtom::from(&*self.wanted));
        let Some(known) = self.recent.get_mut(at) else {
            return wanted();
        };
        if *known.0 != *self.wanted {
            *known = wanted();
        }
        known.clone()
    }
}

/// The text, unless it is empty.
pub(super) fn present(text: &str) -> Option<&str> {
    Some(text).filter(|text| !text.is_empty())
}
