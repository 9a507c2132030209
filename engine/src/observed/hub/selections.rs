//! Index of the MultiClusterServices by the clusters that they select. With many thousands of them,
//! only few have to be read for one cluster.

use causeway::domain::{ClusterName, ClusterSelection, ServiceKey};

use super::McsView;
use crate::model::map::{HashMap, HashSet};

/// MultiClusterServices by the clusters that they select, as providers or as consumers.
#[derive(Debug, Default)]
pub(super) struct Selections {
    by_name: HashMap<ClusterName, HashSet<ServiceKey>>,
    /// MultiClusterServices that any cluster may concern: they select all, or are terminating.
    any: HashSet<ServiceKey>,
    /// MultiClusterServices whose providers are reached by ports of their nodes.
    by_node_ports: HashSet<ServiceKey>,
}

impl Selections {
    /// Adds the selections of a MultiClusterService.
    pub(super) fn add(&mut self, key: &ServiceKey, view: &McsView) {
        if concerns_any(view) {
            self.any.insert(key.clone());
        }
        if view.is_by_node_ports() {
            self.by_node_ports.insert(key.clone());
        }
        for name in named(view) {
            let keys = self.by_name.entry(name.clone()).or_default();
            keys.insert(key.clone());
        }
    }

    /// Removes the selections that were added.
    pub(super) fn remove(&mut self, key: &ServiceKey, view: &McsView) {
        self.any.remove(key);
        self.by_node_ports.remove(key);
        for name in named(view) {
            if let Some(keys) = self.by_name.get_mut(name) {
                keys.remove(key);
                if keys.is_empty() {
                    self.by_name.remove(name);
                }
            }
        }
    }

    /// Returns the MultiClusterServices that the cluster may concern; some more than once.
    pub(super) fn of(&self, name: &ClusterName) -> impl Iterator<Item = &ServiceKey> {
        self.by_name
            .get(name)
            .into_iter()
            .flatten()
            .chain(&self.any)
    }

    /// Returns the MultiClusterServices whose providers are reached by ports of their nodes.
    pub(super) fn by_node_ports(&self) -> impl Iterator<Item = &ServiceKey> {
        self.by_node_ports.iter()
    }
}

fn concerns_any(view: &McsView) -> bool {
    let selects_all = |selection: &ClusterSelection| *selection == ClusterSelection::All;
    view.is_deleting()
        || view
            .spec
            .as_ref()
            .is_ok_and(|spec| selects_all(&spec.providers) || selects_all(&spec.consumers))
}

fn named(view: &McsView) -> impl Iterator<Item = &ClusterName> {
    let specs = view.spec.iter();
    specs.flat_map(|spec| spec.providers.named().chain(spec.consumers.named()))
}
