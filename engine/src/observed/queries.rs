//! Queries of the observed state: everything that planning reads of it.

use std::borrow::Borrow;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use causeway::api::labels;
use causeway::domain::path::Path;
use causeway::domain::{ClusterName, Network, Ranges, Reach, ServiceKey};
use k8s_openapi::jiff::Timestamp;

use super::Index;
use super::hub::{ClusterView, DnsKnowledge, Lost, McsView, Profiles};
use super::member::Member;
use super::reach::DeclaredReach;
use super::service::ServiceView;
use crate::model::{LeftOut, MemberState, Needs, TimePoint};

impl Index {
    /// Returns the hub's identity: the UID of its kube-system namespace.
    pub fn hub_uid(&self) -> &str {
        &self.hub.uid
    }

    /// Whether complete lists of the hub's MultiClusterServices, Services, Clusters and Namespaces
    /// were observed. Until then absence proves nothing.
    pub fn is_hub_listed(&self) -> bool {
        self.hub.is_listed()
    }

    /// Whether the hub was listed since this process began to write. Until then another leader may
    /// have seen a later state of the hub, so nothing is deleted.
    pub(crate) fn is_hub_current(&self) -> bool {
        self.hub.evidence.is_current()
    }

    /// Returns the later of a time and that from which this process deletes.
    pub(crate) fn deletes_since(&self, time: TimePoint) -> TimePoint {
        self.hub
            .evidence
            .current_since
            .map_or(time, |since| since.max(time))
    }

    /// Returns the time since which absence from the hub's lists counts.
    pub(crate) fn hub_listed_since(&self) -> Option<TimePoint> {
        self.hub.evidence.listed_since
    }

    /// Returns the time for which the hub's Services were not watched since then.
    pub(crate) fn hub_services_unwatched(&self) -> Duration {
        self.hub.evidence.services_unwatched
    }

    /// Returns the time since which the watch of the hub's Services fails.
    pub(crate) fn hub_services_failing_since(&self) -> Option<TimePoint> {
        self.hub.evidence.services.failing_since()
    }

    /// Returns the time since which the watch of the hub's Services works, if it has failed before.
    pub(crate) fn hub_services_recovered_at(&self) -> Option<TimePoint> {
        self.hub.evidence.services.recovered_at()
    }

    /// Returns the number of deletions that the hub's lists suggest and that do not count yet.
    pub fn hub_suspended_deletions(&self) -> usize {
        self.hub.evidence.suspended() + self.hub.works.suspended_deletions()
    }

    /// Returns the Cluster of that name, also while its removed member is being cleaned.
    pub fn cluster(&self, name: &ClusterName) -> Option<&ClusterView> {
        self.hub.clusters.get(name)
    }

    /// Returns the ClusterProfiles of the hub.
    pub(crate) fn profiles(&self) -> &Profiles {
        &self.hub.profiles
    }

    /// Returns a property of a cluster (KEP-2149): its name, a label of its Cluster, or its region.
    /// The hub alone names them: a member cannot attract traffic by what it says of itself.
    pub(crate) fn property<'a>(&'a self, name: &'a ClusterName, key: &str) -> Option<&'a str> {
        let cluster = self.cluster(name)?;
        match key {
            labels::CLUSTER_ID_PROPERTY => Some(name.as_str()),
            _ => cluster.property(key),
        }
    }

    /// Lists the Clusters, including removed ones whose members have still to be cleaned.
    pub(crate) fn clusters(
        &self,
    ) -> impl ExactSizeIterator<Item = (&ClusterName, &ClusterView)> + Clone {
        self.hub.clusters.iter()
    }

    /// Lists the names of [`Index::clusters`].
    pub(crate) fn cluster_names(&self) -> impl ExactSizeIterator<Item = &ClusterName> + Clone {
        self.hub.clusters.keys()
    }

    /// Whether the Cluster of that name is terminating or removed.
    pub(crate) fn is_being_removed(&self, name: &ClusterName) -> bool {
        let cluster = self.hub.clusters.get(name);
        cluster.is_some_and(|cluster| cluster.removed_since.is_some())
    }

    /// Returns the network of a cluster's pods.
    pub(crate) fn network(&self, name: &ClusterName) -> Network {
        let cluster = self.hub.clusters.get(name);
        cluster
            .map(|cluster| cluster.network.clone())
            .unwrap_or_default()
    }

    /// Whether clusters of more than one network are joined, or may be.
    pub(crate) fn has_networks(&self) -> bool {
        let mut clusters = self.hub.clusters.values();
        clusters.any(|cluster| cluster.network.name().is_some())
    }

    /// Returns the ranges of the addresses that the cluster may give to clusters of its network.
    pub(crate) fn ranges(&self, name: &ClusterName) -> Arc<Ranges> {
        let network = self.hub.clusters.get(name).map(|cluster| &cluster.network);
        self.ranges_beside(name, |other| {
            network.is_none_or(|own| *own == other.network)
        })
    }

    /// Returns the ranges of the addresses by which clusters of other networks may reach the
    /// cluster.
    pub(crate) fn entry_ranges(&self, name: &ClusterName) -> Arc<Ranges> {
        self.ranges_beside(name, |_| true)
    }

    fn ranges_beside(
        &self,
        name: &ClusterName,
        counts: impl Fn(&ClusterView) -> bool,
    ) -> Arc<Ranges> {
        let own = self.hub.clusters.get(name);
        let own = own.map(|cluster| cluster.declared.clone());
        let others = self.hub.clusters.iter();
        let others = others.filter(|(other, view)| *other != name && counts(view));
        let others = others.map(|(name, view)| (name, &view.declared));
        Arc::new(Ranges::new(&own.unwrap_or_default(), others))
    }

    /// Returns the way by which clusters of other networks reach a cluster; `None` without one.
    pub(crate) fn reach(&self, name: &ClusterName) -> Option<Reach> {
        self.declared_reach(name)?.way()
    }

    /// Returns the way that a Cluster declares, or the text that names none.
    pub(crate) fn declared_reach(&self, name: &ClusterName) -> Option<&DeclaredReach> {
        self.hub.clusters.get(name)?.reach.as_ref()
    }

    /// Whether the Nodes of a member are to be read: clusters of other networks reach it, or one of
    /// its services, by node ports.
    pub fn needs_nodes(&self, name: &ClusterName) -> bool {
        self.reach(name).is_some_and(Reach::is_by_node_ports)
            || self.hub.provides_by_node_ports(name)
            || self.member(name).is_some_and(Member::exports_by_node_ports)
    }

    /// Whether the reports of causeway-agent on the paths from a member are to be read.
    pub(crate) fn reports_paths(&self, name: &ClusterName) -> bool {
        self.cluster(name)
            .is_some_and(|cluster| cluster.reports_paths)
    }

    /// Returns what is to be read of a member beside what is always read.
    pub fn needs(&self, name: &ClusterName) -> Needs {
        Needs {
            nodes: self.needs_nodes(name),
            paths: self.reports_paths(name),
        }
    }

    /// Returns the first time at which a report of a member ends that endpoints of the provider
    /// answer; `None` if no member reports that.
    pub(crate) fn answers_until(
        &self,
        provider: &ClusterName,
        now: TimePoint,
    ) -> Option<TimePoint> {
        let reporters = self.members.iter();
        let reporters = reporters.filter(|(name, _)| *name != provider && self.reports_paths(name));
        let good =
            reporters.filter(|(_, member)| member.paths().get(provider, now) == Some(Path::Good));
        good.filter_map(|(_, member)| member.paths().until(provider, now))
            .min()
    }

    /// Lists the members whose reports on paths are read.
    pub fn reporters(&self) -> impl Iterator<Item = &ClusterName> {
        self.members.keys().filter(|name| self.reports_paths(name))
    }

    /// Lists the paths from a member of whose last change no controller has taken note: the cluster
    /// to which the path leads, and the time since which the path is so. Returns none of a member
    /// that is not synced: nothing is written to it, so its copies do not follow the paths.
    pub fn unseen_paths(&self, name: &ClusterName) -> Vec<(ClusterName, Timestamp)> {
        let follows = || self.member_state(name) == MemberState::Synced;
        let member = self.member(name);
        let member = member.filter(|_| self.reports_paths(name) && follows());
        let unseen = member
            .into_iter()
            .flat_map(|member| member.paths().unseen());
        unseen
            .map(|(source, report)| (source.clone(), report.since))
            .collect()
    }

    /// Whether a member takes no part in a service. A cluster in Pull mode that has lost its
    /// credentials does while a member holds copies from it: missing credentials are no evidence
    /// about its endpoints.
    pub(crate) fn is_left_out(&self, name: &ClusterName, key: &ServiceKey) -> bool {
        match self.member_state(name) {
            MemberState::LeftOut(LeftOut::PullWithoutCredentials) => {
                let mut copies = self.holders(key).flat_map(|(_, member)| member.copies(key));
                !copies.any(|(_, copy)| {
                    let source = copy.view.source_cluster.as_deref();
                    *copy.view.hub == *self.hub.uid && source == Some(name.as_str())
                })
            }
            MemberState::LeftOut(LeftOut::TooOld(_)) => true,
            _ => false,
        }
    }

    /// Returns the clusters that copies come from and that the hub's initial list lacks.
    pub(crate) fn suspected_clusters(&self) -> &BTreeSet<ClusterName> {
        self.hub.evidence.suspected_clusters()
    }

    /// Returns the MultiClusterService of that key.
    pub fn multi_cluster_service(&self, key: &ServiceKey) -> Option<&McsView> {
        self.hub.multi_cluster_services.get(key)
    }

    /// Returns the knowledge about the DNSEndpoint of a service.
    pub(crate) fn dns_endpoint(&self, key: &ServiceKey) -> DnsKnowledge<'_> {
        self.hub.dns.get(key)
    }

    /// Lists the MultiClusterServices.
    pub(crate) fn multi_cluster_services(&self) -> impl ExactSizeIterator<Item = &McsView> {
        self.hub.multi_cluster_services.values()
    }

    /// Whether a MultiClusterService of that key exists.
    pub fn exposes(&self, key: &ServiceKey) -> bool {
        self.hub.exposes(key)
    }

    /// Whether a GET on the hub returned 404 for the MultiClusterService of that key.
    pub(crate) fn is_absence_confirmed(&self, key: &ServiceKey) -> bool {
        self.hub.evidence.confirmed_absent.contains(key)
    }

    /// Returns the number of MultiClusterServices that the hub's initial list lacks, if it is
    /// large.
    pub(crate) fn suspected_services(&self) -> usize {
        self.hub.evidence.suspected_services()
    }

    /// Returns the hub's Service of that key.
    pub(crate) fn hub_service(&self, key: &ServiceKey) -> Option<&ServiceView> {
        self.hub.services.get(key)
    }

    /// Returns the losses of the hub's Service of an exposed name.
    pub(crate) fn lost_service(&self, key: &ServiceKey) -> Option<&Lost> {
        self.hub.lost.get(key)
    }

    /// Returns the observed state of a member; `None` for one that is not engaged.
    pub fn member<N: Ord + ?Sized>(&self, name: &N) -> Option<&Member>
    where
        ClusterName: Borrow<N>,
    {
        self.members.get(name)
    }

    /// Lists the engaged members.
    pub(crate) fn members(&self) -> impl ExactSizeIterator<Item = (&ClusterName, &Member)> + Clone {
        self.members.iter()
    }

    /// Lists the names of the engaged members.
    pub fn member_names(&self) -> impl ExactSizeIterator<Item = &ClusterName> + Clone {
        self.members.keys()
    }
}
