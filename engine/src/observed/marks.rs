//! Marks of the items that may have to be planned again.

use causeway::domain::{ClusterName, ServiceKey};

use super::Index;
use super::dirty_keys::DirtyKeys;
use super::member::Member;
use super::quota::Quota;
use crate::model::map::{HashMap, HashSet};
use crate::model::{Item, MemberState, Priority};

impl Index {
    /// Takes the items that were marked since the last call. They may have to be planned again,
    /// each at its priority.
    pub fn take_marked(&mut self) -> HashMap<Item, Priority> {
        let DirtyKeys {
            items,
            every_service,
            members,
        } = std::mem::take(&mut self.dirty);
        self.dirty.items = items;
        if every_service {
            self.mark_services(self.every_service(), Priority::Low);
        }
        if let Some(priority) = members.values().copied().max() {
            self.mark_services(self.services_of_every_member(), priority);
        }
        for (name, priority) in members {
            self.mark_services(self.services_of(&name), priority);
        }
        std::mem::take(&mut self.dirty.items)
    }

    /// Applies the quota to the members whose exports changed. Marks the exports that were beyond
    /// the quota and do not exceed the same limit now.
    pub fn apply_quota(&mut self, quota: &Quota) {
        if !std::mem::take(&mut self.exports_changed) {
            return;
        }
        let members = self.members.values_mut();
        let changed: Vec<_> = members.flat_map(|one| one.apply_quota(quota)).collect();
        self.mark_services(changed, Priority::Low);
    }

    /// Marks an item to be planned, at high priority.
    pub fn mark(&mut self, item: Item) {
        self.dirty.add([item], Priority::High);
    }

    pub(super) fn mark_services(
        &mut self,
        keys: impl IntoIterator<Item = ServiceKey>,
        priority: Priority,
    ) {
        self.dirty
            .add(keys.into_iter().map(Item::Service), priority);
    }

    /// Marks every service that has a MultiClusterService, an export or an import, is in a
    /// namespace whose Services are exported, or has leftovers, and those of which the last plan
    /// noted hostnames, nodes or other facts: the next plan drops what does not hold any more.
    pub fn mark_all_services(&mut self) {
        self.dirty.every_service = true;
    }

    fn every_service(&self) -> HashSet<ServiceKey> {
        let hub = &self.hub.uid;
        let members = self.members.values();
        let owned = members.clone().flat_map(|member| member.own_keys(hub));
        let exported = members.clone().flat_map(Member::exported_by_namespace);
        let clusterset = members.flat_map(|member| member.clusterset_keys().cloned());
        let exposed = self.hub.multi_cluster_services.keys().cloned();
        let exposed = exposed.chain(exported);
        let noted = self.hostnames.services().chain(self.gaps.services());
        let noted = noted.chain(self.disagreements.services());
        let noted = noted.chain(self.entry_nodes.services()).cloned();
        let all = exposed.chain(owned).chain(clusterset);
        all.chain(noted).collect()
    }

    /// Returns the services that a member takes part in or holds an object of.
    pub(super) fn services_of(&self, name: &ClusterName) -> HashSet<ServiceKey> {
        let exposed = self.hub.selecting(name).cloned();
        let held = self.members.get(name).into_iter();
        let exported = held.clone().flat_map(Member::exported_by_namespace);
        let held = held.flat_map(|member| member.own_keys(&self.hub.uid));
        exposed.chain(held).chain(exported).collect()
    }

    /// Returns the services that depend on the state of any member: all of the clusterset, as every
    /// member counts for their imports, those with a companion, which stays while any member may
    /// hold a copy that leads to it, and those that wait until all members are synced.
    fn services_of_every_member(&self) -> HashSet<ServiceKey> {
        let hub = &self.hub.uid;
        let members = self.members.values();
        let clusterset = members.clone();
        let clusterset = clusterset.flat_map(|member| member.clusterset_keys().cloned());
        let entered = members.clone().flat_map(Member::companion_services);
        let all_known =
            |(name, _): (&ClusterName, &Member)| self.member_state(name) == MemberState::Synced;
        let waiting = self.members.iter().all(all_known);
        let waiting = waiting.then(|| members.flat_map(|member| member.own_clusterset_keys(hub)));
        let always = clusterset.chain(entered.cloned());
        always.chain(waiting.into_iter().flatten()).collect()
    }

    /// Marks every member, and every Cluster that is to be made of a ClusterProfile.
    pub fn mark_all_clusters(&mut self) {
        let names = self.hub.clusters.keys().cloned();
        let names: Vec<_> = names.chain(self.hub.profiles.cluster_names()).collect();
        self.dirty
            .add(names.into_iter().map(Item::Cluster), Priority::High);
    }
}
