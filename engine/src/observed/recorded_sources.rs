//! Compares initial lists with the sources that copies record: gathers both, and marks what is to
//! be reviewed or listed again. [`crate::evidence`] concludes from a comparison.
//!
//! A provider is unknown if its initial lists lack many of the sources that copies record, or all
//! of them. It is known once its lists hold them, or once a second list lacks them too. A cluster
//! that copies record and that the hub's initial list lacks is unknown likewise: a Cluster is not
//! deleted unobserved. If members hold many services without a MultiClusterService on the hub, none
//! of them is collected before a second list.

use causeway::domain::{ClusterName, ServiceKey};
use k8s_openapi::jiff::SignedDuration;
use string_cache::DefaultAtom;

use super::Index;
use super::member::Member;
use crate::evidence::initial_list::CompleteList;
use crate::evidence::rollback::Suspicion;
use crate::model::map::HashSet;
use crate::model::served::Served;
use crate::model::slice::{Exposure, SourceVersion};
use crate::model::{Item, MemberState, TargetCluster, TimePoint};

/// Maximum time by which the clock of a person who confirms deletions may be ahead.
const CLOCKS_DIFFER: SignedDuration = SignedDuration::from_mins(1);

impl Index {
    /// Takes the clusters whose API servers are to be listed a second time, as requested since the
    /// last call.
    pub fn take_second_lists(&mut self) -> HashSet<TargetCluster> {
        std::mem::take(&mut self.second_lists)
    }

    /// Notes that a copy names a newer version of a provider's slice than the provider shows.
    /// Either this index is behind, or the provider's store was restored, or the version is forged;
    /// a second list shows which. Returns the time at which to review the service if a recent list
    /// was requested in vain.
    pub fn suspect_rollback(
        &mut self,
        provider: &ClusterName,
        key: &ServiceKey,
        copied: &SourceVersion,
        now: TimePoint,
    ) -> Option<TimePoint> {
        let member = self.members.get_mut(provider)?;
        match member.evidence.rollbacks.suspect(key, copied, now) {
            Suspicion::Noted => None,
            Suspicion::Later(at) => Some(at),
            Suspicion::Request => {
                tracing::warn!(cluster = %provider, namespace = %key.namespace, name = %key.name, source = %copied, "rollback suspected, relisting");
                self.second_lists
                    .insert(TargetCluster::Member(provider.clone()));
                None
            }
        }
    }

    /// Whether this process may lack a version of a source that a copy names: the provider does not
    /// answer or was not listed since it was engaged again, and the version is later than any that
    /// was observed of it. Another leader may have observed it.
    pub(crate) fn may_lack(&self, provider: &str, source: &SourceVersion) -> bool {
        let Ok(name) = ClusterName::try_from(provider) else {
            return false;
        };
        let is_synced = self.member_state(&name) == MemberState::Synced;
        self.member(&name).is_some_and(|member| {
            let is_current = is_synced && member.slices_are_current();
            !is_current && member.is_behind(source)
        })
    }

    /// Whether a person confirmed the member's suspended deletions. A time in the future is
    /// ignored: it would confirm deletions that nobody has observed.
    pub fn deletions_are_confirmed(&self, name: &ClusterName, now: TimePoint) -> bool {
        let confirmed = self
            .hub
            .clusters
            .get(name)
            .and_then(|cluster| cluster.deletions_confirmed);
        let member = self.members.get(name);
        let since = member.and_then(|member| member.suspended_deletions().since);
        match (confirmed, since) {
            (Some(confirmed), Some(since)) => {
                since.wall <= confirmed && confirmed.duration_since(now.wall) <= CLOCKS_DIFFER
            }
            _ => false,
        }
    }

    /// Marks the member's next lists as initial ones, from other watches. They are compared with
    /// the sources that copies record.
    pub(crate) fn expect_initial_lists(&mut self, name: &ClusterName) {
        let member = self.members.get_mut(name);
        if member.is_some_and(|member| member.evidence.expect_initial_lists()) {
            self.record_sources_in(name);
        }
    }

    /// Marks the next lists of ServiceExports and ServiceImports as initial ones if other versions
    /// are served: other watches begin.
    pub(super) fn expect_clusterset_lists(&mut self, name: &ClusterName, served: &Served) {
        let member = self.members.get_mut(name);
        if member.is_some_and(|member| member.expect_clusterset_lists(served)) {
            self.record_sources_in(name);
        }
    }

    /// Records in every member the sources of its copies in that provider, to compare the
    /// provider's initial lists with them.
    pub(super) fn record_sources_in(&mut self, provider: &ClusterName) {
        for member in self.members.values_mut() {
            member.record_sources_in(&self.hub.uid, provider);
        }
    }

    /// Compares a complete list of a member with the sources that others record, and the sources
    /// that its own copies record with the lists of others.
    pub(super) fn compare_member(
        &mut self,
        name: &ClusterName,
        list: CompleteList,
        now: TimePoint,
    ) {
        if list == CompleteList::Slices
            && let Some(member) = self.members.get_mut(name)
        {
            let sources = member.record_sources(&self.hub.uid);
            let untraced = self.untraced(name);
            for atom in sources {
                let Ok(source) = ClusterName::try_from(&*atom) else {
                    continue;
                };
                if source != *name {
                    self.compare_cluster(&source);
                }
                if untraced.contains(&atom) {
                    self.compare_initial_lists(&source, now);
                } else if let Some(member) = self.members.get_mut(name) {
                    member.drop_sources_in(&atom);
                }
            }
        }
        self.compare_initial_lists(name, now);
        if list != CompleteList::Exports {
            self.compare_services(name);
        }
    }

    /// Returns the providers of a member's copies that lack the source of a copy, or were not
    /// listed yet.
    fn untraced(&self, name: &ClusterName) -> HashSet<DefaultAtom> {
        let mut untraced = HashSet::default();
        let copies = self.members.get(name).into_iter();
        let copies = copies.flat_map(Member::all_copies);
        for (key, copy) in copies.filter(|(_, copy)| *copy.hub == *self.hub.uid) {
            let Some(atom) = copy.source_cluster.as_ref() else {
                continue;
            };
            let provider = self.members.get(&**atom);
            let is_traced = provider.is_some_and(|provider| {
                let is_source = |version: &SourceVersion| {
                    let mut sources = provider.sources(key);
                    sources.any(|(_, source)| source.version.uid == version.uid)
                };
                provider.is_compared()
                    && copy.source.as_ref().is_none_or(is_source)
                    && (copy.exposure == Exposure::Native || provider.written_export(key).is_some())
            });
            if !is_traced && !untraced.contains(atom) {
                untraced.insert(atom.clone());
            }
        }
        untraced
    }

    /// Compares a complete list of the hub with the state of the members.
    pub(super) fn compare_hub(&mut self, list: CompleteList) {
        let clusters = &self.hub.clusters;
        let is_listed = |name: &ClusterName| clusters.contains_key(name);
        if self.hub.evidence.settle_clusters(is_listed) {
            self.mark_all_services();
        }
        if matches!(
            list,
            CompleteList::MultiClusterServices | CompleteList::Confirmation
        ) {
            let names: Vec<_> = self.members.keys().cloned().collect();
            names.iter().for_each(|name| self.compare_services(name));
        }
        if list != CompleteList::Confirmation && self.hub.suspects_services_lost() {
            self.second_lists.insert(TargetCluster::Hub);
        }
    }

    /// Compares a provider's initial lists with the sources that copies record.
    fn compare_initial_lists(&mut self, name: &ClusterName, now: TimePoint) {
        let Some(member) = self.members.get(name) else {
            return;
        };
        let atom = DefaultAtom::from(name.as_str());
        let recorded = self.members.values();
        let recorded: Vec<_> = recorded
            .filter_map(|other| other.recorded_sources(&atom))
            .collect();
        let suspected = match recorded.is_empty() {
            true => 0,
            false => member
                .initial_lists()
                .suspected_deletions(recorded.into_iter()),
        };
        let is_compared = member.is_compared();
        let before = member.suspected_deletions();
        if suspected > 0 {
            self.second_lists
                .insert(TargetCluster::Member(name.clone()));
        } else if is_compared {
            let all = self.members.values_mut();
            all.for_each(|other| other.drop_sources_in(&atom));
        }
        if suspected == before {
            return;
        }
        tracing::warn!(cluster = %name, missing = suspected, "deletions suspected by initial lists");
        if let Some(member) = self.members.get_mut(name) {
            member.evidence.suspect(suspected, now);
        }
        self.mark(Item::Cluster(name.clone()));
        self.mark_all_services();
    }

    /// Suspects the deletion of a cluster that copies come from if the hub's list of Clusters lacks
    /// it.
    fn compare_cluster(&mut self, name: &ClusterName) {
        let hub = &mut self.hub;
        if hub.clusters.contains_key(name) || !hub.evidence.suspect_cluster(name) {
            return;
        }
        tracing::warn!(cluster = %name, "deletion of cluster suspected, relisting hub");
        self.second_lists.insert(TargetCluster::Hub);
    }

    /// Compares the hub's initial list of MultiClusterServices with the services of which a member
    /// holds objects.
    fn compare_services(&mut self, name: &ClusterName) {
        let member = self.members.get(name);
        let Some(member) = member.filter(|member| member.evidence.has_listed_natives()) else {
            return;
        };
        let hub = &self.hub;
        let (missing, held) = match hub.evidence.multi_cluster_services.is_unconfirmed() {
            false => (0, 0),
            true => {
                let held = || member.own_keys(&hub.uid);
                let lacks =
                    |key: &ServiceKey| !hub.exposes(key) && member.owns_native(key, &hub.uid);
                let missing = held().filter(lacks).collect::<HashSet<_>>().len();
                let held = || held().collect::<HashSet<_>>().len();
                (missing, if missing > 0 { held() } else { 0 })
            }
        };
        let (before, suspected) = self.hub.evidence.suspect_services(name, missing, held);
        if suspected > 0 {
            self.second_lists.insert(TargetCluster::Hub);
        }
        if suspected != before {
            tracing::warn!(cluster = %name, missing = suspected, "deletions of MultiClusterServices suspected by initial list");
            self.mark_all_services();
        }
    }
}
