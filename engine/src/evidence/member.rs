//! What is known to be absent from a member.

use super::initial_list::RecordedByProvider;
use super::list::{ListEvidence, SuspendedDeletions};
use super::rollback::Rollbacks;
use super::tombstones::Tombstones;
use crate::model::TimePoint;

/// The evidence of one member.
#[derive(Debug, Default)]
pub struct MemberEvidence {
    /// The lists of its Services.
    pub services: ListEvidence,
    /// The lists of its EndpointSlices.
    pub slices: ListEvidence,
    /// The lists of its Namespaces.
    pub namespaces: ListEvidence,
    /// The lists of its ServiceExports.
    pub exports: ListEvidence,
    /// The lists of its ServiceImports.
    pub imports: ListEvidence,
    /// What its copies record of clusters whose initial lists were not compared with it yet.
    pub recorded: RecordedByProvider,
    /// Objects that were observed deleted.
    pub tombstones: Tombstones,
    /// Versions of source slices that its store may have lost.
    pub rollbacks: Rollbacks,
    /// Deletions that its initial lists suggest, of what copies elsewhere record.
    suspected: SuspendedDeletions,
}

impl MemberEvidence {
    /// The lists without which nothing can be said of the member.
    pub fn required(&self) -> [&ListEvidence; 3] {
        [&self.services, &self.slices, &self.namespaces]
    }

    fn all(&self) -> impl Iterator<Item = &ListEvidence> {
        let of_clusterset = [&self.exports, &self.imports];
        self.required().into_iter().chain(of_clusterset)
    }

    fn all_mut(&mut self) -> [&mut ListEvidence; 5] {
        [
            &mut self.services,
            &mut self.slices,
            &mut self.namespaces,
            &mut self.exports,
            &mut self.imports,
        ]
    }

    /// Whether complete lists of Services and EndpointSlices were observed.
    pub fn has_listed_natives(&self) -> bool {
        self.slices.is_listed() && self.services.is_listed()
    }

    /// Whether all lists were observed that are compared with what copies elsewhere record.
    pub fn is_compared(&self, serves_exports: bool) -> bool {
        self.slices.is_current() && (self.exports.is_current() || !serves_exports)
    }

    /// Other watches begin: the next lists are initial ones. Whether anything is known from the lists before.
    pub fn expect_initial_lists(&mut self) -> bool {
        for list in self.all_mut() {
            list.expect_initial_list();
        }
        self.has_listed_natives()
    }

    /// Other watches of ServiceExports and ServiceImports begin: their next lists are initial ones. Returns true if exports were
    /// listed before.
    pub fn expect_clusterset_lists(&mut self) -> bool {
        self.exports.expect_initial_list();
        self.imports.expect_initial_list();
        self.exports.is_listed()
    }

    /// The member is engaged again: why its watches failed before says nothing any more.
    pub fn forget_failures(&mut self) {
        for list in self.all_mut() {
            list.failure = None;
        }
    }

    /// How many deletions its initial lists suggest that do not count yet. The member is unknown while there are any.
    pub fn suspected(&self) -> usize {
        self.suspected.count
    }

    /// Its initial lists suggest so many deletions.
    pub fn suspect(&mut self, deletions: usize, now: TimePoint) {
        match deletions {
            0 => self.suspected = SuspendedDeletions::default(),
            some => self.suspected.observe(some, now),
        }
    }

    /// All deletions that do not count yet, of initial lists and of relists, and since when there are as many.
    pub fn suspended(&self) -> SuspendedDeletions {
        let lists = self.all().map(ListEvidence::suspended);
        let each: Vec<_> = lists.chain([self.suspected]).collect();
        SuspendedDeletions {
            count: each.iter().map(|one| one.count).sum(),
            since: each.iter().filter_map(|one| one.since).max(),
        }
    }
}
