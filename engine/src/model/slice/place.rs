//! Where endpoints are: a node and its zone.

use std::cell::RefCell;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use string_cache::DefaultAtom;

use super::endpoint::Text;

/// A node and its zone, either of them empty where it is not known; the endpoints of a node share one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place(DefaultAtom);

/// The places that a thread met last: slices of a cluster name the same nodes over and over, and to find one among all
/// of the process takes far longer.
struct Recent {
    places: Box<[Place]>,
    /// The text of the place that is looked for.
    wanted: String,
}

/// The nodes of a few large clusters, that are listed at a time; a power of two.
const RECENT: usize = 4096;

thread_local! {
    static PLACES: RefCell<Recent> = RefCell::new(Recent {
        places: vec![Place(DefaultAtom::default()); RECENT].into(),
        wanted: String::new(),
    });
}

impl Place {
    /// In neither part.
    const BETWEEN: char = '\n';

    pub(super) fn of(node: Option<&Text<'_>>, zone: Option<&Text<'_>>) -> Self {
        PLACES.with_borrow_mut(|recent| recent.find(node, zone))
    }

    /// The node and the zone.
    pub(super) fn parts(&self) -> (Option<&str>, Option<&str>) {
        let (node, zone) = self.0.split_once(Self::BETWEEN).unwrap_or_default();
        (present(node), present(zone))
    }
}

impl Recent {
    fn find(&mut self, node: Option<&Text<'_>>, zone: Option<&Text<'_>>) -> Place {
        self.wanted.clear();
        self.wanted.extend(node.map(|text| &*text.0));
        self.wanted.push(Place::BETWEEN);
        self.wanted.extend(zone.map(|text| &*text.0));
        let mut hasher = DefaultHasher::new();
        self.wanted.hash(&mut hasher);
        let known = &mut self.places[hasher.finish() as usize % RECENT];
        if *known.0 != *self.wanted {
            *known = Place(DefaultAtom::from(&*self.wanted));
        }
        known.clone()
    }
}

/// The text, unless it is empty.
pub(super) fn present(text: &str) -> Option<&str> {
    Some(text).filter(|text| !text.is_empty())
}
