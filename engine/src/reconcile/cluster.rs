//! Reconciliation of a member: the status and the finalizer of its Cluster.

use std::time::Instant;

use causeway::domain::ClusterName;
use serde_json::json;

use super::{Outcome, Reconciler, cluster_id, earlier, member_uid, profile};
use crate::model::{Item, ObjectId, TargetCluster, TimePoint, Write, status_patch};
use crate::observed::Index;
use crate::observed::hub::ClusterView;
use crate::removal::{Leftovers, Removal, removal};
use crate::status::cluster;

/// Result of reconciling a member.
#[derive(Debug, PartialEq, Eq)]
pub enum ClusterOutcome {
    /// Nothing is left to do for now.
    Stays,
    /// Time of the next reconciliation, if nothing happens before.
    LookAgain(Instant),
    /// Its Cluster is deleted and the member is clean, or could not be cleaned in time: drop its
    /// state.
    Removed(Leftovers),
}

impl From<Outcome> for ClusterOutcome {
    fn from(outcome: Outcome) -> Self {
        outcome.again_at.map_or(Self::Stays, Self::LookAgain)
    }
}

impl Reconciler<'_> {
    /// Makes a Cluster as its ClusterProfile says, and maintains its status and finalizer. If the
    /// member is removed, removes the finalizer once its cleanup is over.
    pub fn cluster(&mut self, name: &ClusterName, keeps_clusters: bool) -> ClusterOutcome {
        let item = Item::Cluster(name.clone());
        let mut outcome = Outcome::default();
        self.write_queue.retract(&TargetCluster::Hub, &item);
        if keeps_clusters && let Some(write) = profile::write(self.index, name, self.now) {
            let is_paused = self.is_paused(&write);
            self.enqueue(&TargetCluster::Hub, &item, write, &mut outcome);
            // The status does not wait for a profile's patch that is refused or contested.
            if !is_paused {
                return outcome.into();
            }
        }
        let Some(cluster) = self.index.cluster(name) else {
            return outcome.into();
        };
        let deleted_at = profile::deleted_at(self.index, name, self.now);
        earlier(&mut outcome.again_at, deleted_at.map(|at| at.instant));
        match cluster.removed_since {
            None => {
                let is_written = keeps_clusters && self.keep(name, cluster, &mut outcome);
                // Two writes of one resourceVersion would conflict.
                if !is_written && let Some(write) = self.record(name, keeps_clusters) {
                    self.enqueue(&TargetCluster::Hub, &item, write, &mut outcome);
                }
            }
            Some(since) => match removal(self.index, name, since, self.now) {
                Removal::UnderWay(until) => return ClusterOutcome::LookAgain(until.instant),
                Removal::Over(left) if cluster.is_removed => return ClusterOutcome::Removed(left),
                Removal::Over(_) if cluster.finalizers.have_ours() => {
                    let patch = cluster.finalizers.without_ours(&cluster.resource_version);
                    let write = Write::patch(ObjectId::Cluster(name.clone()), patch);
                    self.enqueue(&TargetCluster::Hub, &item, write, &mut outcome);
                }
                Removal::Over(_) => {}
            },
        }
        outcome.into()
    }

    /// Returns the write that makes a Cluster record what its member reports of itself. Karmada
    /// records UIDs on its own hubs.
    fn record(&self, name: &ClusterName, keeps_clusters: bool) -> Option<Write> {
        let uid = || member_uid::write(self.index, name).filter(|_| keeps_clusters);
        cluster_id::write(self.index, name).or_else(uid)
    }

    /// Maintains finalizer and status of a Cluster. Returns true if a write is sent now.
    fn keep(&mut self, name: &ClusterName, cluster: &ClusterView, outcome: &mut Outcome) -> bool {
        let (index, now, item) = (self.index, self.now, Item::Cluster(name.clone()));
        if !cluster.finalizers.have_ours() {
            let patch = cluster.finalizers.with_ours(&cluster.resource_version);
            let write = Write::patch(ObjectId::Cluster(name.clone()), patch);
            let is_paused = self.is_paused(&write);
            self.enqueue(&TargetCluster::Hub, &item, write, outcome);
            // The status does not wait for a finalizer that is refused.
            if !is_paused {
                return true;
            }
        }
        let (_, damped) = index.reported_state(name, now);
        let member = index.member(name);
        let clusterset = member.and_then(|member| member.reported_membership(now).1);
        let damped = damped.into_iter().chain(clusterset).min();
        earlier(&mut outcome.again_at, damped.map(|at| at.instant));
        let Some(status) = cluster::status(index, name, now) else {
            return false;
        };
        let fields = json!({
            "kubernetesVersion": status.kubernetes_version,
            "conditions": status.conditions,
        });
        let patch = status_patch(&cluster.resource_version, fields);
        let write = Write::patch(ObjectId::ClusterStatus(name.clone()), patch);
        let is_paused = self.is_paused(&write);
        self.enqueue(&TargetCluster::Hub, &item, write, outcome);
        // The records do not wait for a status that is refused.
        !is_paused
    }
}

/// Follower side of [`Reconciler::cluster`]: drops a removed member once it is clean, or the
/// leader's cleanup deadline has passed. Cleans and writes nothing.
pub fn follow_removal(index: &Index, name: &ClusterName, now: TimePoint) -> ClusterOutcome {
    let cluster = index.cluster(name);
    match cluster.and_then(|cluster| Some((cluster, cluster.removed_since?))) {
        Some((cluster, since)) if cluster.is_removed => match removal(index, name, since, now) {
            Removal::UnderWay(until) => ClusterOutcome::LookAgain(until.instant),
            Removal::Over(left) => ClusterOutcome::Removed(left),
        },
        _ => ClusterOutcome::Stays,
    }
}
