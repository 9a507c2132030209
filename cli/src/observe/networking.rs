//! Network of a member, and the type of entry through which other networks reach it. Annotations of
//! the Cluster declare both.

use std::fmt;

use causeway::api::{Cluster, labels};
use causeway::domain::{Network, Reach, ServiceKey};
use kube::{Resource, ResourceExt};
use serde::Serialize;

use super::store::Store;
use crate::term::table::Cell;

/// Declared network and entry type of a member.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Networking {
    network: Option<String>,
    reach: Option<String>,
}

impl Networking {
    /// Returns the values of a Cluster's annotations.
    pub(crate) fn recorded(cluster: &impl ResourceExt) -> Self {
        let annotation = |name| cluster.annotations().get(name).cloned();
        Self {
            network: annotation(labels::NETWORK),
            reach: annotation(labels::REACH),
        }
    }
}

impl fmt::Display for Networking {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let network = self.network.as_deref().filter(|name| !name.is_empty());
        let network = network.map(|name| format!("network {name}"));
        let reach = self.reach.as_ref().map(|way| format!("reach {way}"));
        let words: Vec<_> = network.into_iter().chain(reach).collect();
        out.write_str(&words.join(", "))
    }
}

/// Returns the network of a Cluster's pods.
pub(crate) fn network(cluster: &impl ResourceExt) -> Network {
    let network = cluster.annotations().get(labels::NETWORK);
    network.map_or_else(Network::default, |text| Network::read(text))
}

/// Whether the annotation of a Cluster, Namespace, MultiClusterService or ServiceExport selects
/// node ports as entry to providers.
pub(crate) fn is_by_node_ports(object: &impl ResourceExt) -> bool {
    let reach = object.annotations().get(labels::REACH);
    let reach = reach.and_then(|text| Reach::read(text));
    reach.is_some_and(Reach::is_by_node_ports)
}

/// Returns the services with an object that selects node ports, by its own annotation or by that of
/// its Namespace.
pub(super) fn by_node_ports<'a, K: Resource, N: Resource>(
    objects: &'a Store<ServiceKey, K>,
    namespaces: &'a Store<String, N>,
) -> impl Iterator<Item = &'a ServiceKey> {
    objects.keys().filter(move |key| {
        let mut objects = objects.of(key);
        objects.any(
            |object| match object.annotations().contains_key(labels::REACH) {
                true => is_by_node_ports(object),
                false => {
                    let namespace = key.namespace.to_string();
                    namespaces.of(&namespace).any(is_by_node_ports)
                }
            },
        )
    })
}

/// Network and entry type of a cluster in reports.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct NetworkReport {
    /// Name of the network. Absent for clusters in the unnamed default network.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network: Option<String>,
    /// Entry type. Absent if clusters of other networks cannot reach the cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reach: Option<&'static str>,
}

impl NetworkReport {
    /// Headings of the two columns. A table shows the columns only if its rows differ in network.
    pub(crate) const COLUMNS: [&str; 2] = ["NETWORK", "REACH"];

    /// Returns the declared values of a Cluster. Invalid entry types are ignored, as in the
    /// controller.
    pub(crate) fn of(cluster: &Cluster) -> Self {
        let declared = Networking::recorded(cluster);
        let reach = declared.reach.as_deref().and_then(Reach::read);
        Self {
            network: network(cluster).name().map(ToOwned::to_owned),
            reach: reach.map(Reach::as_str),
        }
    }

    /// Returns the cells of the two columns. A cluster without the annotation has an empty cell.
    /// Tables show empty cells as `-`, which no network can be named.
    pub(crate) fn cells(&self) -> [Cell; 2] {
        [
            self.network.clone().unwrap_or_default().into(),
            self.reach.unwrap_or_default().to_owned().into(),
        ]
    }
}
