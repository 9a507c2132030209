//! Which members provide a service and which consume it.

use std::collections::BTreeMap;

use causeway::domain::{ClusterName, ClusterSelection, MultiClusterService};

use crate::index::Index;
use crate::model::MemberState;

/// Who takes part in a service.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Placement {
    /// The members that take part, those named and not joined included.
    pub targets: BTreeMap<ClusterName, Roles>,
    /// Members that are asked for and take no part, and why; nothing waits for them.
    pub left_out: BTreeMap<ClusterName, String>,
}

/// What a member is to a service.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Roles {
    /// Its pods back the service.
    pub provider: bool,
    /// Its clients may reach it.
    pub consumer: bool,
}

impl Placement {
    /// The members whose pods back the service.
    pub fn providers(&self) -> impl Iterator<Item = &ClusterName> {
        self.targets
            .iter()
            .filter(|(_, roles)| roles.provider)
            .map(|(name, _)| name)
    }

    /// The members whose clients may reach it.
    pub fn consumers(&self) -> impl Iterator<Item = &ClusterName> {
        self.targets
            .iter()
            .filter(|(_, roles)| roles.consumer)
            .map(|(name, _)| name)
    }
}

/// Says who takes part: an empty list means every cluster that the hub knows.
pub fn place(index: &Index, spec: &MultiClusterService) -> Placement {
    let mut placement = Placement::default();
    let selections = [&spec.providers, &spec.consumers];
    let selects_all = selections.contains(&&ClusterSelection::All);
    let known = selects_all.then(|| index.hub.clusters.keys());
    let named = selections.into_iter().flat_map(ClusterSelection::named);
    for name in known.into_iter().flatten().chain(named) {
        let roles = Roles {
            provider: spec.providers.includes(name),
            consumer: spec.consumers.includes(name),
        };
        if !roles.provider && !roles.consumer {
            continue;
        }
        match index.member_state(name) {
            MemberState::LeftOut(why) => {
                placement.left_out.insert(name.clone(), why);
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
