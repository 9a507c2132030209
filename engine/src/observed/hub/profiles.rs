//! ClusterProfiles of the hub, of which the controller makes Clusters (KEP-4322).

use std::collections::{BTreeMap, BTreeSet};

use causeway::domain::ClusterName;

use super::{Change, ClusterView};
use crate::model::{Profile, ProfileId, Signal};

/// ClusterProfiles of the namespaces that the controller watches.
#[derive(Debug, Default)]
pub(crate) struct Profiles {
    all: BTreeMap<ProfileId, Profile>,
    /// Namespaces whose last list was complete and not empty. An empty list proves nothing: it may
    /// be that of a definition that was deleted and created again.
    complete: BTreeSet<Box<str>>,
    /// Profiles that a watch showed deleted, and of which a Cluster is left.
    deleted: BTreeSet<ProfileId>,
}

impl Profiles {
    pub(super) fn apply(
        &mut self,
        namespace: &str,
        signal: Signal<Profile>,
        clusters: &BTreeMap<ClusterName, ClusterView>,
        change: &mut Change,
    ) {
        match signal {
            Signal::Listed(profiles) => {
                let is_listed = |id: &ProfileId| *id.namespace == *namespace;
                for id in self.all.keys().filter(|id| is_listed(id)) {
                    mark(&id.name, change);
                }
                self.all.retain(|id, _| !is_listed(id));
                match profiles.is_empty() {
                    true => self.complete.remove(namespace),
                    false => self.complete.insert(namespace.into()),
                };
                for profile in profiles {
                    self.put(profile, change);
                }
                // Those whose profiles went while nobody watched.
                let made = clusters.iter().filter(|(_, view)| {
                    view.made_of()
                        .is_some_and(|made| *made.namespace == *namespace)
                });
                change.clusters.extend(made.map(|(name, _)| name.clone()));
            }
            Signal::Applied(profile) => self.put(profile, change),
            Signal::Deleted(profile) => {
                let known = self.all.get(&profile.id);
                if known.is_none_or(|known| known.uid == profile.uid) {
                    self.all.remove(&profile.id);
                    self.deleted.insert(profile.id.clone());
                    mark(&profile.id.name, change);
                }
                self.deleted.retain(|id| {
                    let cluster = clusters.get(&*id.name);
                    cluster.is_some_and(|cluster| cluster.is_made_of(&id.namespace))
                });
            }
            _ => {}
        }
    }

    /// Notes that the hub serves no ClusterProfiles: that proves nothing about any of them.
    pub(super) fn apply_unserved(&mut self, namespace: &str) {
        self.complete.remove(namespace);
    }

    fn put(&mut self, profile: Profile, change: &mut Change) {
        self.deleted.remove(&profile.id);
        mark(&profile.id.name, change);
        self.all.insert(profile.id.clone(), profile);
    }

    /// Lists all of them.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Profile> {
        self.all.values()
    }

    /// Lists the names of their Clusters.
    pub(crate) fn cluster_names(&self) -> impl Iterator<Item = ClusterName> {
        let usable = self.all.values().filter_map(|one| one.access.as_ref().ok());
        usable.map(|access| access.cluster.clone())
    }

    /// Returns the profile of that name and namespace.
    pub(crate) fn get(&self, name: &ClusterName, namespace: &str) -> Option<&Profile> {
        self.all.get(&id(name, namespace))
    }

    /// Returns the profile of which the Cluster of that name is made: the eldest that names a way
    /// to reach it.
    pub(crate) fn eldest(&self, name: &ClusterName) -> Option<&Profile> {
        let named = self.all.range(id(name, "")..);
        let named = named.take_while(|(id, _)| *id.name == *name.as_str());
        let usable = named.filter(|(_, profile)| profile.access.is_ok());
        usable
            .map(|(_, profile)| profile)
            .min_by_key(|profile| profile.created)
    }

    /// Whether the profile is known to be gone: a watch showed it deleted, or a list of other
    /// profiles of its namespace lacks it.
    pub(crate) fn are_without(&self, name: &ClusterName, namespace: &str) -> bool {
        let id = id(name, namespace);
        let is_proven = self.complete.contains(namespace) || self.deleted.contains(&id);
        is_proven && !self.all.contains_key(&id)
    }
}

/// Marks the Cluster that bears the name of a profile as changed.
fn mark(name: &str, change: &mut Change) {
    change.clusters.extend(ClusterName::try_from(name).ok());
}

fn id(name: &ClusterName, namespace: &str) -> ProfileId {
    ProfileId {
        name: name.as_str().into(),
        namespace: namespace.into(),
    }
}
