//! What of a member's lists is not believed: they lack much of what was there, or much of what others say of it.

use std::collections::HashSet;

use causeway::domain::ServiceKey;

use super::Member;
use super::by_name::ByName;
use crate::index::initial_list::recorded_sources::hash;
use crate::index::watch_state::WatchState;
use crate::model::TimePoint;
use crate::model::slice::CopiedSlice;

impl Member {
    /// Whether complete lists of Services and EndpointSlices were seen.
    pub(in crate::index) fn has_listed_natives(&self) -> bool {
        self.watches.slices.listed && self.watches.services.listed
    }

    /// Whether all lists of its watches were seen that are compared with what copies elsewhere say.
    pub(in crate::index) fn is_compared(&self) -> bool {
        let clusterset = &self.clusterset;
        let has_exports = clusterset
            .served
            .as_ref()
            .is_none_or(|served| served.exports.is_some());
        self.watches.slices.remembered && (clusterset.export_watch.remembered || !has_exports)
    }

    /// How much of what copies elsewhere say its first lists lack, where that is not believed.
    pub fn missing(&self) -> usize {
        self.missing
    }

    pub(in crate::index) fn note_missing(&mut self, missing: usize, now: TimePoint) {
        self.missing_since = match missing {
            0 => None,
            more if more > self.missing => Some(now),
            _ => self.missing_since,
        };
        self.missing = missing;
    }

    /// How many objects its last lists lacked without being believed.
    pub fn held(&self) -> usize {
        let held = self.all_watches().map(|watch| watch.held);
        held.sum::<usize>() + self.missing
    }

    /// Since when its lists lack all of that.
    pub fn held_since(&self) -> Option<TimePoint> {
        let watches = self.all_watches().filter_map(|watch| watch.held_since);
        watches.chain(self.missing_since).max()
    }

    fn all_watches(&self) -> impl Iterator<Item = &WatchState> {
        let clusterset = [&self.clusterset.export_watch, &self.clusterset.import_watch];
        self.watches.each().into_iter().chain(clusterset)
    }

    /// Its next lists are first ones again. Whether anything is known of the ones before.
    pub(in crate::index) fn doubt_lists(&mut self) -> bool {
        let clusterset = &mut self.clusterset;
        let of_clusterset = [&mut clusterset.export_watch, &mut clusterset.import_watch];
        for watch in self.watches.all().into_iter().chain(of_clusterset) {
            watch.begin_anew();
        }
        self.has_listed_natives()
    }

    /// Its copies, of every hub.
    pub(in crate::index) fn all_copies(&self) -> impl Iterator<Item = (&ServiceKey, &CopiedSlice)> {
        let all = self.slices.copies.iter();
        all.flat_map(|(key, copies)| copies.iter().map(move |(_, copy)| (key, &copy.view)))
    }

    /// The slices that it holds, while nothing but one list shows which it lacks.
    pub(in crate::index) fn untried_sources(&self) -> Option<HashSet<u64>> {
        let all = self.slices.sources.values().flat_map(ByName::iter);
        let hashes = all.map(|(_, source)| hash(&source.version.uid));
        self.watches.slices.is_untried().then(|| hashes.collect())
    }

    /// The services that it exports, while nothing but one list shows which it does not.
    pub(in crate::index) fn untried_exports(&self) -> Option<HashSet<u64>> {
        let hashes = self.clusterset.exports.iter().map(|(key, _)| hash(key));
        let is_untried = self.clusterset.export_watch.is_untried();
        is_untried.then(|| hashes.collect())
    }
}
