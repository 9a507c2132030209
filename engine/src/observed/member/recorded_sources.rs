//! Sources that a member's copies record, and the parts of its own lists that are compared with the
//! records of others.

use causeway::domain::{ClusterName, ServiceKey};
use string_cache::DefaultAtom;

use super::Member;
use super::by_name::ByName;
use crate::evidence::initial_list::{InitialLists, RecordedByProvider, RecordedSources, hash};
use crate::model::map::HashSet;
use crate::model::slice::{CopiedSlice, Exposure};

impl Member {
    /// Returns its copies, of every hub.
    pub(in crate::observed) fn all_copies(
        &self,
    ) -> impl Iterator<Item = (&ServiceKey, &CopiedSlice)> {
        let all = self.slices.copies.iter();
        all.flat_map(|(key, copies)| copies.iter().map(move |(_, copy)| (&**key, &copy.view)))
    }

    /// Returns the sources that its copies record, of one cluster or of all.
    fn read_sources(&self, hub: &str, only: Option<&ClusterName>) -> RecordedByProvider {
        let mut all = RecordedByProvider::default();
        for (key, copy) in self.all_copies().filter(|(_, copy)| *copy.hub == *hub) {
            let Some(source) = &copy.source_cluster else {
                continue;
            };
            if only.is_some_and(|only| *only.as_str() != **source) {
                continue;
            }
            let recorded = all.entry(source.clone()).or_default();
            recorded
                .sources
                .extend(copy.source.as_ref().map(|version| hash(&version.uid)));
            if copy.exposure == Exposure::Clusterset {
                recorded.exports.push(hash(key));
            }
        }
        all.values_mut().for_each(RecordedSources::compact);
        all
    }

    /// Retains the sources that its copies record, to compare the initial lists of others with
    /// them. Returns the clusters that the copies come from.
    pub(in crate::observed) fn record_sources(&mut self, hub: &str) -> Vec<DefaultAtom> {
        self.evidence.recorded = self.read_sources(hub, None);
        self.evidence.recorded.keys().cloned().collect()
    }

    /// Retains the sources that its copies record in one cluster.
    pub(in crate::observed) fn record_sources_in(&mut self, hub: &str, provider: &ClusterName) {
        let recorded = self.read_sources(hub, Some(provider));
        self.evidence.recorded.extend(recorded);
    }

    /// Returns the sources that its copies record in one cluster, while they are retained.
    pub(in crate::observed) fn recorded_sources(
        &self,
        provider: &DefaultAtom,
    ) -> Option<&RecordedSources> {
        self.evidence.recorded.get(provider)
    }

    /// Drops the sources in one cluster: they were compared with its lists.
    pub(in crate::observed) fn drop_sources_in(&mut self, provider: &DefaultAtom) {
        self.evidence.recorded.remove(provider);
    }

    /// Returns the content of its own lists that is compared with the records of others, as far as
    /// they are initial lists.
    pub(in crate::observed) fn initial_lists(&self) -> InitialLists {
        let sources = self.slices.sources.values().flat_map(ByName::iter);
        let sources = sources.map(|(_, source)| hash(&source.version.uid));
        let exports = self.clusterset.exports.iter().map(|(key, _)| hash(key));
        InitialLists {
            sources: self
                .evidence
                .slices_are_unconfirmed()
                .then(|| sources.collect::<HashSet<_>>()),
            exports: self
                .evidence
                .exports
                .is_unconfirmed()
                .then(|| exports.collect::<HashSet<_>>()),
        }
    }

    /// Whether all lists were observed that are compared with the sources that copies record.
    pub(in crate::observed) fn is_compared(&self) -> bool {
        let served = self.clusterset.served.as_ref();
        let serves_exports = served.is_none_or(|served| served.exports.is_some());
        self.evidence.is_compared(serves_exports)
    }

    /// Whether the lists of its EndpointSlices are those of the current watches.
    pub(in crate::observed) fn slices_are_current(&self) -> bool {
        self.evidence.slices_are_current()
    }

    /// Whether the lists of its EndpointSlices and ServiceExports are those of the current watches,
    /// and that of ServiceExports does not fail.
    pub(in crate::observed) fn exports_are_current(&self) -> bool {
        self.is_compared() && self.evidence.exports.failure.is_none()
    }
}
