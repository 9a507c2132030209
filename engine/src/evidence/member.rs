//! Evidence of what is absent from a member.

use super::initial_list::RecordedByProvider;
use super::list::{ListEvidence, SuspendedDeletions};
use super::rollback::Rollbacks;
use super::tombstones::Tombstones;
use crate::model::TimePoint;

/// Evidence of one member.
#[derive(Debug, Default)]
pub(crate) struct MemberEvidence {
    /// Lists of its Services.
    pub services: ListEvidence,
    /// Lists of its EndpointSlices.
    pub slices: ListEvidence,
    /// Lists of the EndpointSlices that Kubernetes does not make, where these have a watch of their
    /// own.
    pub other_slices: Option<ListEvidence>,
    /// Lists of its Namespaces.
    pub namespaces: ListEvidence,
    /// Lists of its Nodes, where these are read.
    pub nodes: ListEvidence,
    /// Lists of the reports on its paths, where these are read.
    pub paths: ListEvidence,
    /// Lists of its ServiceExports.
    pub exports: ListEvidence,
    /// Lists of its ServiceImports.
    pub imports: ListEvidence,
    /// Sources that its copies record in clusters whose initial lists were not compared with them
    /// yet.
    pub recorded: RecordedByProvider,
    /// Objects that were observed deleted.
    pub(crate) tombstones: Tombstones,
    /// Versions of source slices that its store may have lost.
    pub(crate) rollbacks: Rollbacks,
    /// Deletions that its initial lists suggest, compared with the sources that copies record.
    suspected: SuspendedDeletions,
}

impl MemberEvidence {
    /// Returns the lists without which the member is unknown.
    pub(crate) fn required(&self) -> impl Iterator<Item = &ListEvidence> {
        let others = [&self.services, &self.namespaces];
        self.of_slices().chain(others)
    }

    /// Returns the lists of its EndpointSlices.
    pub(crate) fn of_slices(&self) -> impl Iterator<Item = &ListEvidence> {
        [&self.slices].into_iter().chain(&self.other_slices)
    }

    fn all(&self) -> impl Iterator<Item = &ListEvidence> {
        let others = [&self.nodes, &self.exports, &self.imports];
        self.required().chain(others)
    }

    fn all_mut(&mut self) -> impl Iterator<Item = &mut ListEvidence> {
        let all = [
            &mut self.services,
            &mut self.slices,
            &mut self.namespaces,
            &mut self.nodes,
            &mut self.exports,
            &mut self.imports,
        ];
        all.into_iter().chain(&mut self.other_slices)
    }

    /// Whether complete lists of EndpointSlices were observed.
    pub(crate) fn has_listed_slices(&self) -> bool {
        self.of_slices().all(ListEvidence::is_listed)
    }

    /// Whether all lists of EndpointSlices are those of the current watches.
    pub(crate) fn slices_are_current(&self) -> bool {
        self.of_slices().all(ListEvidence::is_current)
    }

    /// Whether all lists of EndpointSlices are those of the current watches, and initial lists
    /// alone show which are absent.
    pub(crate) fn slices_are_unconfirmed(&self) -> bool {
        self.slices_are_current() && self.of_slices().any(ListEvidence::is_unconfirmed)
    }

    /// Whether complete lists of Services and EndpointSlices were observed.
    pub(crate) fn has_listed_natives(&self) -> bool {
        self.has_listed_slices() && self.services.is_listed()
    }

    /// Whether all lists were observed that are compared with the sources that copies record.
    pub(crate) fn is_compared(&self, serves_exports: bool) -> bool {
        self.slices_are_current() && (self.exports.is_current() || !serves_exports)
    }

    /// Marks the next lists as initial ones, from other watches. Returns true if lists were
    /// complete before.
    pub(crate) fn expect_initial_lists(&mut self) -> bool {
        for list in self.all_mut() {
            list.expect_initial_list();
        }
        self.has_listed_natives()
    }

    /// Marks the next lists of ServiceExports and ServiceImports as initial ones, from other
    /// watches. Returns true if exports were listed before.
    pub(crate) fn expect_clusterset_lists(&mut self) -> bool {
        self.exports.expect_initial_list();
        self.imports.expect_initial_list();
        self.exports.is_listed()
    }

    /// Drops the failures of earlier watches: the member is engaged again.
    pub(crate) fn drop_failures(&mut self) {
        for list in self.all_mut() {
            list.failure = None;
        }
    }

    /// Returns the number of deletions that its initial lists suggest and that do not count yet.
    /// The member is unknown while it is not 0.
    pub(crate) fn suspected(&self) -> usize {
        self.suspected.count
    }

    /// Notes the number of deletions that its initial lists suggest.
    pub(crate) fn suspect(&mut self, deletions: usize, now: TimePoint) {
        match deletions {
            0 => self.suspected = SuspendedDeletions::default(),
            some => self.suspected.observe(some, now),
        }
    }

    /// Returns the number of deletions that do not count yet, of initial lists and of relists, and
    /// the time since which they are as many.
    pub(crate) fn suspended(&self) -> SuspendedDeletions {
        let lists = self.all().map(ListEvidence::suspended);
        let each: Vec<_> = lists.chain([self.suspected]).collect();
        SuspendedDeletions {
            count: each.iter().map(|one| one.count).sum(),
            since: each.iter().filter_map(|one| one.since).max(),
        }
    }
}
