//! Ids of the clusters in their clusterset (KEP-2149), as their Clusters record them.

use std::collections::BTreeMap;

use causeway::domain::{ClusterName, dns1123_label};
use k8s_openapi::jiff::Timestamp;

use super::ClusterView;
use crate::model::map::HashSet;

/// Published ids of the clusters that are published under an id other than their name.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct ClusterIds(BTreeMap<ClusterName, Box<str>>);

impl ClusterIds {
    /// Returns the published ids. Names of Clusters come first. Of two Clusters that record the
    /// same id, the older one has it.
    pub(super) fn of(clusters: &BTreeMap<ClusterName, ClusterView>) -> Self {
        let recorded = clusters.iter().filter_map(|(name, cluster)| {
            let id = cluster.cluster_id.as_deref()?;
            let is_free = dns1123_label(id).is_ok() && !clusters.contains_key(id);
            is_free.then(|| (cluster.seniority(name), id))
        });
        let mut recorded: Vec<_> = recorded.collect();
        recorded.sort_unstable();
        let mut taken = HashSet::default();
        let published = recorded.into_iter().filter(|(_, id)| taken.insert(*id));
        Self(
            published
                .map(|((_, name), id)| (name.clone(), id.into()))
                .collect(),
        )
    }

    /// Returns the published id of a cluster, if that is not its name.
    pub(crate) fn get(&self, name: &ClusterName) -> Option<&str> {
        self.0.get(name).map(|id| &**id)
    }
}

impl ClusterView {
    /// Returns a key that is smaller for an older Cluster.
    pub(crate) fn seniority<'a>(
        &self,
        name: &'a ClusterName,
    ) -> (Option<Timestamp>, &'a ClusterName) {
        (self.created, name)
    }
}
