//! Members that provide a service and members that consume it.

use std::collections::BTreeMap;

use causeway::domain::{ClusterName, ClusterSelection, MultiClusterService};

use crate::model::{LeftOut, MemberState};
use crate::observed::Index;

/// Members that take part in a service, with their roles.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Placement {
    /// Members that take part, including those that are named and not joined.
    pub targets: BTreeMap<ClusterName, Roles>,
    /// Members that are requested and take no part, with the reason. Nothing waits for them.
    pub left_out: BTreeMap<ClusterName, LeftOut>,
}

/// Roles of a member in a service.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Roles {
    /// Whether its pods back the service.
    pub provider: bool,
    /// Whether its clients may reach the service.
    pub consumer: bool,
}

impl Placement {
    /// Lists the members whose pods back the service.
    pub(crate) fn providers(&self) -> impl Iterator<Item = &ClusterName> {
        self.targets
            .iter()
            .filter(|(_, roles)| roles.provider)
            .map(|(name, _)| name)
    }

    /// Lists the members whose clients may reach the service.
    pub(crate) fn consumers(&self) -> impl Iterator<Item = &ClusterName> {
        self.targets
            .iter()
            .filter(|(_, roles)| roles.consumer)
            .map(|(name, _)| name)
    }

    /// Lists the clusters of a selection that take no part.
    pub(crate) fn left_out_of<'p>(
        &'p self,
        selection: &ClusterSelection,
    ) -> impl Iterator<Item = &'p ClusterName> {
        let left_out = self.left_out.keys();
        left_out.filter(|name| selection.includes(name))
    }
}

/// Decides which members take part. An empty list means every cluster that the hub has. Without
/// endpoints to dispatch, only providers take part.
pub(crate) fn place(index: &Index, spec: &MultiClusterService) -> Placement {
    let mut placement = Placement::default();
    let selections = [&spec.providers, &spec.consumers];
    let selects_all = selections.contains(&&ClusterSelection::All);
    let known = selects_all.then(|| index.cluster_names());
    let named = selections.into_iter().flat_map(ClusterSelection::named);
    for name in known.into_iter().flatten().chain(named) {
        let roles = Roles {
            provider: spec.providers.includes(name),
            consumer: spec.dispatches_endpoints() && spec.consumers.includes(name),
        };
        if !roles.provider && !roles.consumer {
            continue;
        }
        match index.member_state(name) {
            MemberState::LeftOut(left_out) => {
                placement.left_out.insert(name.clone(), left_out);
            }
            _ => {
                placement.targets.insert(name.clone(), roles);
            }
        }
    }
    placement
}

#[cfg(test)]
mod tests;
