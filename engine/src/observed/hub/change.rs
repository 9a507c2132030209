//! Changes that an event of the hub makes.

use causeway::domain::{ClusterName, ServiceKey};

use crate::model::map::HashSet;

/// Changes that an event of the hub makes.
#[derive(Debug, Default)]
pub(crate) struct Change {
    /// Services to plan again.
    pub services: HashSet<ServiceKey>,
    /// Clusters to reconcile.
    pub clusters: HashSet<ClusterName>,
    /// Whether every service is to be planned again: a cluster was added, removed or changed, a
    /// complete list was applied, or it changed whether Karmada's objects are known.
    pub placement: bool,
    /// Whether it may have changed which members' Nodes are needed.
    pub node_needs: bool,
    /// Whether it may have changed which EndpointSlices of members are watched.
    pub slice_scopes: bool,
}
