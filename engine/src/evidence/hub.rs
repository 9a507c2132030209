//! What is known to be absent from the hub.

use std::collections::BTreeSet;

use causeway::domain::{ClusterName, ServiceKey};

use super::is_large_loss;
use super::list::ListEvidence;
use crate::model::TimePoint;
use crate::model::map::{HashMap, HashSet};

/// The evidence of the hub.
#[derive(Debug, Default)]
pub struct HubEvidence {
    /// The lists of its MultiClusterServices.
    pub multi_cluster_services: ListEvidence,
    /// The lists of its Services.
    pub services: ListEvidence,
    /// The lists of its Clusters.
    pub clusters: ListEvidence,
    /// Since when absence from its lists means something: complete lists of all three kinds were observed.
    pub listed_since: Option<TimePoint>,
    /// Services of which a GET on the hub returned 404: there is no MultiClusterService, whatever a watch shows.
    pub confirmed_gone: HashSet<ServiceKey>,
    /// Clusters that copies come from and that the initial list lacks.
    suspected_clusters: BTreeSet<ClusterName>,
    /// How many MultiClusterServices the initial list lacks of which a member holds something, by member, where these are many.
    suspected_services: HashMap<ClusterName, usize>,
    /// Clusters that were observed to go.
    removed_clusters: BTreeSet<ClusterName>,
}

impl HubEvidence {
    fn all(&self) -> [&ListEvidence; 3] {
        [&self.multi_cluster_services, &self.services, &self.clusters]
    }

    /// Notes since when all lists are complete, where they are.
    pub fn note_listed(&mut self, now: TimePoint) {
        if self.all().iter().all(|list| list.is_listed()) {
            self.listed_since.get_or_insert(now);
        }
    }

    /// How many deletions do not count yet.
    pub fn suspended(&self) -> usize {
        let lists = self.all().map(|list| list.suspended().count);
        let lists = lists.iter().sum::<usize>();
        lists + self.suspected_clusters.len() + self.suspected_services()
    }

    /// The Cluster was observed.
    pub fn observe_cluster(&mut self, name: &ClusterName) {
        self.removed_clusters.remove(name);
        self.suspected_clusters.remove(name);
    }

    /// The Cluster was observed to go.
    pub fn observe_removal(&mut self, name: &ClusterName) {
        self.removed_clusters.insert(name.clone());
    }

    /// Clusters that are unknown: copies come from them, and the initial list lacks them, be it only one.
    pub fn suspected_clusters(&self) -> &BTreeSet<ClusterName> {
        &self.suspected_clusters
    }

    /// A copy comes from a cluster that no list holds. Whether its deletion is suspected: neither did a second list lack it nor
    /// was it observed to go.
    pub fn suspect_cluster(&mut self, name: &ClusterName) -> bool {
        if self.clusters.is_confirmed() || self.removed_clusters.contains(name) {
            return false;
        }
        self.suspected_clusters.insert(name.clone());
        true
    }

    /// Drops the suspicions that a list has settled: a second one confirmed it, or it holds the cluster. Whether there were any.
    pub fn settle_clusters(&mut self, is_listed: impl Fn(&ClusterName) -> bool) -> bool {
        let before = self.suspected_clusters.len();
        let is_confirmed = self.clusters.is_confirmed();
        self.suspected_clusters
            .retain(|name| !is_confirmed && !is_listed(name));
        self.suspected_clusters.len() != before
    }

    /// How many MultiClusterServices the initial list lacks, where these are so many that none is requested from the hub before
    /// a second list.
    pub fn suspected_services(&self) -> usize {
        self.suspected_services
            .values()
            .copied()
            .max()
            .unwrap_or_default()
    }

    /// A member holds something of `held` services, and the list of MultiClusterServices lacks `missing` of them. The suspected
    /// deletions before and now.
    pub fn suspect_services(
        &mut self,
        member: &ClusterName,
        missing: usize,
        held: usize,
    ) -> (usize, usize) {
        let before = self.suspected_services.remove(member).unwrap_or_default();
        let is_suspected =
            self.multi_cluster_services.is_unconfirmed() && is_large_loss(missing, held);
        if !is_suspected {
            return (before, 0);
        }
        self.suspected_services.insert(member.clone(), missing);
        (before, missing)
    }

    /// Whether the initial list of Services lacks those of many MultiClusterServices: so many of so many.
    pub fn suspects_services_lost(&self, missing: usize, of: usize) -> bool {
        self.services.is_unconfirmed()
            && self.multi_cluster_services.is_listed()
            && is_large_loss(missing, of)
    }
}
