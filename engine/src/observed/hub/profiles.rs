//! ClusterProfiles of the hub, of which the controller makes Clusters (KEP-4322).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use causeway::domain::ClusterName;

use super::{Change, ClusterView};
use crate::model::{Profile, ProfileId, Signal, TimePoint};

/// Time for which a profile is gone before its Cluster is deleted. The API server deletes all
/// profiles before their definition, whose deletion is noticed within half a minute.
const GONE_FOR: Duration = Duration::from_secs(60);

/// Time for which the deletion of a profile is retained while no Cluster of it is observed.
const RETAINED: Duration = Duration::from_secs(600);

/// ClusterProfiles of the namespaces that the controller watches.
#[derive(Debug, Default)]
pub(crate) struct Profiles {
    all: BTreeMap<ProfileId, Profile>,
    /// Namespaces whose last list was complete and not empty. An empty list proves nothing: it may
    /// be that of a definition that was deleted and created again.
    listed: BTreeSet<Box<str>>,
    /// Profiles that a watch showed deleted, or that a second list lacks and of which a Cluster is
    /// left, each with the time of that event.
    gone: BTreeMap<ProfileId, TimePoint>,
    /// Profiles that a list lacks and for which a second list was requested.
    suspected: BTreeSet<ProfileId>,
}

/// Clusters of the hub at the time of an event.
#[derive(Clone, Copy, Debug)]
pub(super) struct ClustersAt<'a> {
    /// All Clusters.
    pub(super) all: &'a BTreeMap<ClusterName, ClusterView>,
    /// Time of the event.
    pub(super) now: TimePoint,
}

impl ClustersAt<'_> {
    /// Returns the Clusters that are made of profiles of a namespace.
    fn made_in(&self, namespace: &str) -> impl Iterator<Item = &ClusterName> {
        let all = self.all.iter();
        let made = all.filter(move |(_, view)| view.is_made_of(namespace));
        made.map(|(name, _)| name)
    }

    fn has_made(&self, id: &ProfileId) -> bool {
        let cluster = self.all.get(&*id.name);
        cluster.is_some_and(|cluster| cluster.is_made_of(&id.namespace))
    }
}

impl Profiles {
    pub(super) fn apply(
        &mut self,
        namespace: &str,
        signal: Signal<Profile>,
        clusters: ClustersAt<'_>,
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
                    true => self.drop_evidence(namespace),
                    false => drop(self.listed.insert(namespace.into())),
                }
                for profile in profiles {
                    self.put(profile, change);
                }
                let made = clusters.made_in(namespace);
                change.clusters.extend(made.cloned());
            }
            Signal::Confirmed => self.note_confirmed(namespace, clusters, change),
            Signal::Applied(profile) => self.put(profile, change),
            Signal::Deleted(profile) => {
                let known = self.all.get(&profile.id);
                if known.is_none_or(|known| known.uid == profile.uid) {
                    self.all.remove(&profile.id);
                    mark(&profile.id.name, change);
                    self.gone.entry(profile.id).or_insert(clusters.now);
                }
                self.gone.retain(|id, since| {
                    clusters.has_made(id) || clusters.now.since(*since) < RETAINED
                });
            }
            _ => {}
        }
    }

    /// Notes the profiles that a second list lacks and of which Clusters are made. An initial list
    /// may lack profiles that their manager is about to create again.
    fn note_confirmed(&mut self, namespace: &str, clusters: ClustersAt<'_>, change: &mut Change) {
        if !self.listed.contains(namespace) {
            return;
        }
        for name in clusters.made_in(namespace) {
            let id = id(name, namespace);
            if !self.all.contains_key(&id) {
                self.gone.entry(id).or_insert(clusters.now);
                change.clusters.insert(name.clone());
            }
        }
    }

    /// Drops the evidence of which profiles of a namespace are gone: the hub serves no
    /// ClusterProfiles, or lists none. That proves nothing about any of them, and the deletions
    /// before may be those of the definition.
    pub(super) fn drop_evidence(&mut self, namespace: &str) {
        self.listed.remove(namespace);
        self.gone.retain(|id, _| *id.namespace != *namespace);
    }

    fn put(&mut self, profile: Profile, change: &mut Change) {
        self.gone.remove(&profile.id);
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

    /// Returns the time from which the profile counts as gone: a watch showed it deleted, or two
    /// lists of other profiles of its namespace lack it, [`GONE_FOR`] before.
    pub(crate) fn gone_at(&self, name: &ClusterName, namespace: &str) -> Option<TimePoint> {
        let id = id(name, namespace);
        let since = self.gone.get(&id);
        let since = since.filter(|_| !self.all.contains_key(&id))?;
        Some(since.after(GONE_FOR))
    }

    /// Notes which profiles, of these of which Clusters are made, a list of others of their
    /// namespace lacks and no second one has. Returns true if that is new of any.
    pub(super) fn suspect_gone<'a>(
        &mut self,
        made: impl Iterator<Item = (&'a ClusterName, &'a str)>,
    ) -> bool {
        let listed = made.filter(|(_, namespace)| self.listed.contains(*namespace));
        let all = listed.map(|(name, namespace)| id(name, namespace));
        let is_known = |id: &ProfileId| self.all.contains_key(id) || self.gone.contains_key(id);
        let suspected: BTreeSet<_> = all.filter(|id| !is_known(id)).collect();
        let is_new = !suspected.is_subset(&self.suspected);
        self.suspected = suspected;
        is_new
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
