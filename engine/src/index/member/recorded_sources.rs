//! What a member's copies record of the clusters that they come from, and what its own lists hold of what others record.

use causeway::domain::{ClusterName, ServiceKey};
use string_cache::DefaultAtom;

use super::Member;
use super::by_name::ByName;
use crate::evidence::initial_list::{InitialLists, RecordedByProvider, RecordedSources, hash};
use crate::model::map::HashSet;
use crate::model::slice::{CopiedSlice, Path};

impl Member {
    /// Its copies, of every hub.
    pub(in crate::index) fn all_copies(&self) -> impl Iterator<Item = (&ServiceKey, &CopiedSlice)> {
        let all = self.slices.copies.iter();
        all.flat_map(|(key, copies)| copies.iter().map(move |(_, copy)| (&**key, &copy.view)))
    }

    /// What its copies record, of one cluster or of all.
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
            if copy.path == Path::Clusterset {
                recorded.exports.push(hash(key));
            }
        }
        all.values_mut().for_each(RecordedSources::compact);
        all
    }

    /// Keeps what its copies record, to compare others' initial lists with it; the clusters that they come from.
    pub(in crate::index) fn record_sources(&mut self, hub: &str) -> Vec<DefaultAtom> {
        self.evidence.recorded = self.read_sources(hub, None);
        self.evidence.recorded.keys().cloned().collect()
    }

    /// Keeps what its copies record of one cluster.
    pub(in crate::index) fn record_sources_in(&mut self, hub: &str, provider: &ClusterName) {
        let recorded = self.read_sources(hub, Some(provider));
        self.evidence.recorded.extend(recorded);
    }

    /// What its copies record of one cluster, while that is kept.
    pub(in crate::index) fn recorded_sources(
        &self,
        provider: &DefaultAtom,
    ) -> Option<&RecordedSources> {
        self.evidence.recorded.get(provider)
    }

    /// The cluster's lists were compared with what its copies record.
    pub(in crate::index) fn forget_sources_in(&mut self, provider: &DefaultAtom) {
        self.evidence.recorded.remove(provider);
    }

    /// What its own lists hold of what others record, as far as they are initial lists.
    pub(in crate::index) fn initial_lists(&self) -> InitialLists {
        let sources = self.slices.sources.values().flat_map(ByName::iter);
        let sources = sources.map(|(_, source)| hash(&source.version.uid));
        let exports = self.clusterset.exports.iter().map(|(key, _)| hash(key));
        let (of_slices, of_exports) = (&self.evidence.slices, &self.evidence.exports);
        InitialLists {
            sources: of_slices
                .is_unconfirmed()
                .then(|| sources.collect::<HashSet<_>>()),
            exports: of_exports
                .is_unconfirmed()
                .then(|| exports.collect::<HashSet<_>>()),
        }
    }

    /// Whether all lists were observed that are compared with what copies elsewhere record.
    pub(in crate::index) fn is_compared(&self) -> bool {
        let served = self.clusterset.served.as_ref();
        let serves_exports = served.is_none_or(|served| served.exports.is_some());
        self.evidence.is_compared(serves_exports)
    }
}
