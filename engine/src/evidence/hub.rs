//! Evidence of what is absent from the hub.

use std::collections::BTreeSet;
use std::time::Duration;

use causeway::domain::{ClusterName, ServiceKey};

use super::is_large_loss;
use super::list::ListEvidence;
use crate::model::map::{HashMap, HashSet};
use crate::model::{Term, TimePoint};

/// Evidence of the hub.
#[derive(Debug, Default)]
pub(crate) struct HubEvidence {
    /// Lists of its MultiClusterServices.
    pub multi_cluster_services: ListEvidence,
    /// Lists of its Services.
    pub services: ListEvidence,
    /// Lists of its Clusters.
    pub clusters: ListEvidence,
    /// Lists of its Namespaces.
    pub namespaces: ListEvidence,
    /// Time since which absence from its lists counts: complete lists of all kinds were observed.
    pub(crate) listed_since: Option<TimePoint>,
    /// Time since then for which its Services were not watched.
    pub(crate) services_unwatched: Duration,
    /// Term of this process.
    pub(crate) term: Term,
    /// Time at which the last of its lists came in that term; `None` before, and without a term.
    pub(crate) current_since: Option<TimePoint>,
    /// Services of which a GET on the hub returned 404: their MultiClusterService does not exist,
    /// whatever a watch shows.
    pub(crate) confirmed_absent: HashSet<ServiceKey>,
    /// Clusters that copies come from and that the initial list lacks.
    suspected_clusters: BTreeSet<ClusterName>,
    /// Numbers of MultiClusterServices that the initial list lacks and of which a member holds
    /// objects, by member; only large numbers.
    suspected_services: HashMap<ClusterName, usize>,
    /// Clusters whose removal was observed.
    removed_clusters: BTreeSet<ClusterName>,
}

impl HubEvidence {
    fn all(&self) -> [&ListEvidence; 4] {
        [
            &self.multi_cluster_services,
            &self.services,
            &self.clusters,
            &self.namespaces,
        ]
    }

    /// Notes the time at which all lists were first complete.
    pub(crate) fn note_listed(&mut self, now: TimePoint) {
        if self.all().iter().all(|list| list.is_listed()) {
            self.listed_since.get_or_insert(now);
        }
    }

    /// Whether all lists are as new as the term of this process: what another leader saw of the hub
    /// was observed, or a later state.
    pub(crate) fn is_current(&self) -> bool {
        self.all().iter().all(|list| list.term >= self.term)
    }

    /// Returns the number of deletions that do not count yet.
    pub(crate) fn suspended(&self) -> usize {
        let lists = self.all().map(|list| list.suspended().count);
        let lists = lists.iter().sum::<usize>();
        lists + self.suspected_clusters.len() + self.suspected_services()
    }

    /// Notes that the Cluster was observed.
    pub(crate) fn observe_cluster(&mut self, name: &ClusterName) {
        self.removed_clusters.remove(name);
        self.suspected_clusters.remove(name);
    }

    /// Notes that the removal of the Cluster was observed.
    pub(crate) fn observe_removal(&mut self, name: &ClusterName) {
        self.removed_clusters.insert(name.clone());
    }

    /// Returns the clusters that are unknown: copies come from them, and the initial list lacks
    /// them. A single one suffices.
    pub(crate) fn suspected_clusters(&self) -> &BTreeSet<ClusterName> {
        &self.suspected_clusters
    }

    /// Notes that a copy comes from a cluster that no list holds. Returns true if its deletion is
    /// suspected: no second list confirmed the absence, and its removal was not observed.
    pub(crate) fn suspect_cluster(&mut self, name: &ClusterName) -> bool {
        if self.clusters.is_confirmed() || self.removed_clusters.contains(name) {
            return false;
        }
        self.suspected_clusters.insert(name.clone());
        true
    }

    /// Drops the suspicions that a list has settled: a second one confirmed it, or it holds the
    /// cluster. Returns true if it dropped any.
    pub(crate) fn settle_clusters(&mut self, is_listed: impl Fn(&ClusterName) -> bool) -> bool {
        let before = self.suspected_clusters.len();
        let is_confirmed = self.clusters.is_confirmed();
        self.suspected_clusters
            .retain(|name| !is_confirmed && !is_listed(name));
        self.suspected_clusters.len() != before
    }

    /// Returns the number of MultiClusterServices that the initial list lacks if it is large. While
    /// it is not 0, none of them is looked up on the hub; a second list comes first.
    pub(crate) fn suspected_services(&self) -> usize {
        self.suspected_services
            .values()
            .copied()
            .max()
            .unwrap_or_default()
    }

    /// Notes that a member holds objects of `held` services and that the list of
    /// MultiClusterServices lacks `missing` of them. Returns the number of suspected deletions
    /// before and now.
    pub(crate) fn suspect_services(
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

    /// Drops the number of suspected deletions of a member that is removed, or is another cluster
    /// now: no list of it follows that would settle them.
    pub(crate) fn drop_suspected_services(&mut self, member: &ClusterName) {
        self.suspected_services.remove(member);
    }

    /// Whether the initial list of Services lacks those of many MultiClusterServices: `missing` of
    /// `of`.
    pub(crate) fn suspects_services_lost(&self, missing: usize, of: usize) -> bool {
        self.services.is_unconfirmed()
            && self.multi_cluster_services.is_listed()
            && is_large_loss(missing, of)
    }
}
