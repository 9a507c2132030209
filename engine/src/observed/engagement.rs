//! Members that are engaged, and those that are no longer.

use causeway::domain::ClusterName;

use super::Index;
use super::hub::ClusterView;
use super::member::Member;
use crate::model::map::HashMap;
use crate::model::{Configuration, Generation, Item, MemberState, Needs, TimePoint};

impl Index {
    /// Engages a member, or engages it again. `recorded_uid` is the UID of its kube-system
    /// namespace, as its Cluster records it. A member that was joined again under the same name is
    /// a new member: its observed state is dropped.
    pub fn engage(
        &mut self,
        name: &ClusterName,
        generation: Generation,
        recorded_uid: Option<String>,
    ) {
        let cluster = self.hub.clusters.get(name);
        let cluster_uid = cluster.map(|cluster| cluster.uid.clone());
        let recorded_outage = cluster.and_then(ClusterView::recorded_outage);
        let is_known = self.members.contains_key(name);
        let member = self
            .members
            .entry(name.clone())
            .or_insert_with(|| Member::new(generation));
        let is_another = member.cluster_uid != cluster_uid;
        if is_another {
            *member = Member::new(generation);
            self.holders.drop_member(name);
            self.hub.evidence.drop_suspected_services(name);
            member.recorded_outage = recorded_outage;
        }
        member.engage_again(generation);
        member.cluster_uid = cluster_uid;
        member.recorded_uid = recorded_uid;
        self.note_export_namespaces(name);
        self.node_needs_changed = true;
        self.slice_scopes.restart(name);
        self.expect_initial_lists(name);
        // Copies of the former cluster may be compared already. Those of a new one are recorded as
        // they are listed.
        if is_another && is_known {
            self.record_sources_in(name);
            self.drop_unrecorded_exports();
        }
        self.note_engagement(name);
    }

    /// Notes that the Cluster of a synced member records the UID that the member has reported.
    /// Returns false if the Cluster records another UID or none.
    pub fn note_recorded_uid(&mut self, name: &ClusterName) -> bool {
        let is_synced = self.member_state(name) == MemberState::Synced;
        let cluster = self.hub.clusters.get(name).filter(|_| is_synced);
        let recorded = cluster.and_then(|cluster| cluster.id.as_deref());
        let (Some(recorded), Some(member)) = (recorded, self.members.get_mut(name)) else {
            return false;
        };
        let identity = member.identity.as_ref();
        let is_reported = identity.is_some_and(|identity| identity.uid == recorded);
        if is_reported {
            member.recorded_uid = Some(recorded.to_owned());
        }
        is_reported
    }

    /// Engages a member that was read once, without a connection.
    pub(crate) fn engage_listed(
        &mut self,
        name: &ClusterName,
        recorded_uid: Option<String>,
        ttl_expired: bool,
    ) {
        let mut member = Member::new(1);
        member.recorded_uid = recorded_uid;
        member.ttl_expired = ttl_expired;
        self.members.insert(name.clone(), member);
        self.note_export_namespaces(name);
        self.note_engagement(name);
    }

    /// Notes the namespaces from which the hub lets a member export.
    pub(super) fn note_export_namespaces(&mut self, name: &ClusterName) {
        let cluster = self.hub.clusters.get(name);
        if let (Some(cluster), Some(member)) = (cluster, self.members.get_mut(name)) {
            member.note_export_namespaces(cluster.export_namespaces.as_ref());
            self.exports_changed |= member.has_changed_exports();
        }
    }

    /// Marks all that depends on the engagement of a member: it was engaged, perhaps as another
    /// cluster than before, or was disengaged.
    pub(crate) fn note_engagement(&mut self, name: &ClusterName) {
        self.find_duplicates();
        self.mark(Item::Cluster(name.clone()));
        self.mark_all_services();
    }

    /// Stores whether the Cluster and the Secret of a member are valid. Returns true if that
    /// changed.
    pub fn note_configuration(
        &mut self,
        name: &ClusterName,
        configuration: Configuration,
        now: TimePoint,
    ) -> bool {
        let member = self.members.entry(name.clone());
        let member = member.or_insert_with(|| Member::new(0));
        if member.configuration == configuration {
            return false;
        }
        match &configuration {
            Configuration::Valid => tracing::info!(cluster = %name, "cluster configuration valid"),
            Configuration::Awaited => {
                tracing::info!(cluster = %name, "credentials awaited, last connection kept");
            }
            Configuration::Outdated(error) => {
                tracing::warn!(cluster = %name, %error, "cluster configuration invalid, last connection kept");
            }
            Configuration::Refused(error) => {
                tracing::warn!(cluster = %name, %error, "cluster configuration invalid");
            }
        }
        member.configuration = configuration;
        member.note_pause(now);
        self.mark(Item::Cluster(name.clone()));
        self.mark_all_services();
        true
    }

    /// Removes a member that is no longer engaged, whatever it holds. Nothing depends on one that
    /// was not observed.
    pub fn stop_watching(&mut self, name: &ClusterName) {
        if !self.members.contains_key(name) {
            return;
        }
        self.remove_member(name);
        self.note_engagement(name);
    }

    /// Removes a member and its Cluster for good: its endpoints are no longer provided.
    pub fn remove_cluster(&mut self, name: &ClusterName) {
        self.hub.remove_cluster(name);
        self.remove_member(name);
        self.find_duplicates();
        self.mark_all_services();
        self.mark_all_clusters();
    }

    /// Removes a member. The callers mark all services.
    fn remove_member(&mut self, name: &ClusterName) {
        self.members.remove(name);
        self.hub.evidence.drop_suspected_services(name);
        self.slice_scopes.restart(name);
        self.holders.drop_member(name);
        self.drop_unrecorded_exports();
    }

    /// Finds members that are the same cluster. The one that was joined first counts, and the
    /// others are refused.
    pub(crate) fn find_duplicates(&mut self) {
        let mut by_age: Vec<_> = self.members.keys().cloned().collect();
        by_age.sort_by_key(|name| {
            (
                self.hub
                    .clusters
                    .get(name)
                    .and_then(|cluster| cluster.created),
                name.clone(),
            )
        });
        let mut elders: HashMap<String, ClusterName> = HashMap::default();
        let mut changed = false;
        for name in by_age {
            let Some(member) = self.members.get_mut(&name) else {
                continue;
            };
            // One that has not answered is the cluster that its Cluster records.
            let cluster = self.hub.clusters.get(&name);
            let recorded = cluster.and_then(|cluster| cluster.id.as_deref());
            let uid = match &member.identity {
                Some(identity) => identity.uid.clone(),
                None => match recorded {
                    Some(uid) => uid.to_owned(),
                    None => continue,
                },
            };
            let elder = elders.entry(uid).or_insert_with(|| name.clone());
            let duplicate_of = (*elder != name).then(|| elder.clone());
            if member.refusals.duplicate_of != duplicate_of {
                member.refusals.duplicate_of = duplicate_of;
                self.mark(Item::Cluster(name));
                changed = true;
            }
        }
        if changed {
            self.mark_all_services();
        }
    }

    /// Returns what is needed of each member beside what is always read; nothing if that has not
    /// changed since the last call. Drops Nodes that are no longer needed.
    pub fn take_needs(&mut self) -> Vec<(ClusterName, Needs)> {
        if !std::mem::take(&mut self.node_needs_changed) {
            return Vec::new();
        }
        let needs = |name: &ClusterName| (name.clone(), self.needs(name));
        let all: Vec<_> = self.members.keys().map(needs).collect();
        for (name, _) in all.iter().filter(|(_, needs)| !needs.nodes) {
            let member = self.members.get_mut(name);
            if member.is_some_and(Member::drop_nodes) {
                // Its status reports the failure of the watch.
                self.mark(Item::Cluster(name.clone()));
            }
        }
        all
    }
}
