//! The hub's first lists, as far as they are compared with what the members hold.

use causeway::domain::ClusterName;

use super::Hub;
use crate::evidence::is_much;

impl Hub {
    /// Whether a second list said which Clusters there are.
    pub(in crate::index) fn clusters_are_confirmed(&self) -> bool {
        self.watches.clusters.confirmed
    }

    /// Whether the cluster was there, and was seen to go.
    pub(in crate::index) fn saw_out(&self, name: &ClusterName) -> bool {
        self.seen_out.contains(name)
    }

    /// Whether there is more to show than one list for which MultiClusterServices there are, or none yet.
    pub(in crate::index) fn multi_cluster_services_are_tried(&self) -> bool {
        !self.watches.multi_cluster_services.is_untried()
    }

    /// Whether the Services of many MultiClusterServices are missing from the first list of Services.
    pub(in crate::index) fn lacks_services(&self) -> bool {
        let watches = &self.watches;
        if !watches.services.is_untried() || !watches.multi_cluster_services.listed {
            return false;
        }
        let all = &self.multi_cluster_services;
        let missing = all.keys().filter(|key| !self.services.contains_key(*key));
        is_much(missing.count(), all.len())
    }
}
