//! Reconciliation of one item: plan, diff, enqueue the writes, write the status.

mod cluster;
mod cluster_id;
mod member_uid;
mod profile;
mod progress;

use std::collections::BTreeSet;
use std::mem::take;
use std::sync::Arc;
use std::time::Instant;

use causeway::domain::{ClusterName, ServiceKey};
use serde_json::json;

pub use self::cluster::{ClusterOutcome, follow_removal};
pub use self::profile::{RefusedProfile, refused_profiles};
use self::progress::Progresses;
use crate::diff::{Diff, Moment, NewerCopy, diff, name_write};
use crate::model::map::HashMap;
use crate::model::slice::Exposure;
use crate::model::{Item, ObjectId, TargetCluster, TimePoint, Write, status_patch};
use crate::observed::hub::McsView;
use crate::observed::since::PossibleChange;
use crate::observed::{CountChanges, Counted, Index};
use crate::plan::{CopyCache, Desired, Settings, plan};
use crate::problem::Gap;
use crate::status::{self, DesiredStatus, Progress, exports};
use crate::write_queue::{Enqueued, WriteQueue};

/// Result of reconciling a service.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Time of the next reconciliation, if nothing happens before.
    pub again_at: Option<Instant>,
    /// Whether the controller must look up the MultiClusterService on the hub.
    pub look_up: bool,
    /// Number of copies that are held because no rule of the plan decides about them.
    pub undecided: usize,
    /// Whether no write to any member is outstanding.
    pub settled: bool,
    /// Copies that were made from newer versions of their sources than observed: the sources'
    /// clusters must be listed a second time.
    newer_copies: Vec<NewerCopy>,
    /// Service, endpoints and ports that consumers lack of a service that Karmada manages. They are
    /// reported only if they last.
    gaps: BTreeSet<Gap>,
    /// Slices that disagree with those of Kubernetes on readiness. They are reported only if the
    /// disagreement lasts.
    disagreements: BTreeSet<(ClusterName, Arc<str>)>,
    /// Changes in consumers that are made only after a while.
    possible_changes: BTreeSet<PossibleChange>,
    /// Hostnames of load balancers by which providers are reached.
    hostnames: BTreeSet<Box<str>>,
    /// Nodes by which providers are reached. A new one is used only after a while.
    entry_nodes: BTreeSet<(ClusterName, Box<str>)>,
    /// Labels under which metrics count the service.
    counted: BTreeSet<Counted>,
    /// Whether deletions are withheld until the hub is listed in this term.
    withheld: bool,
}

/// Reconciliation at one time: reads the observed state and fills the queue of writes.
#[derive(Debug)]
pub struct Reconciler<'a> {
    /// Observed state.
    pub index: &'a Index,
    /// Queue of writes.
    pub write_queue: &'a mut WriteQueue,
    /// Time of the reconciliation.
    pub now: TimePoint,
}

impl<'a> Reconciler<'a> {
    /// Plans a service and enqueues the writes that bring it closer to its desired state.
    pub fn service(
        &mut self,
        settings: &Settings,
        key: &ServiceKey,
        cache: &mut CopyCache,
    ) -> Outcome {
        let (index, now) = (self.index, self.now);
        let item = Item::Service(key.clone());
        let desired = plan(index, settings, key, now, cache);
        let busy = self.write_queue.is_busy_with(&item);
        let mut diff = diff(&desired, index, key, Moment { now, busy });
        let mut outcome = Outcome::of(&desired, &mut diff);
        let progress = |exposure| {
            let progresses = Progresses {
                index,
                write_queue: self.write_queue,
                desired: &desired,
                diff: &diff,
                key,
                exposure,
                now,
            };
            progresses.of_members()
        };
        let (native, imported) = (progress(Exposure::Native), progress(Exposure::Clusterset));
        let mut all = native.values().chain(imported.values());
        outcome.settled = !all.any(Progress::is_pending);
        let conflicts = &self.write_queue.write_conflicts;
        let conflict_end = conflicts.next_end(&item, now.instant);
        earlier(&mut outcome.again_at, conflict_end);
        // Two writes of one resourceVersion would conflict. The status does not wait for a
        // finalizer that is refused, or that another writer removes each time.
        let mut of_hub = diff.writes.get(&TargetCluster::Hub).into_iter().flatten();
        if of_hub.all(|write| self.is_paused(write))
            && let Some((mcs, status)) = self.hub_status(key, &desired, &native)
        {
            earlier(&mut outcome.again_at, status.again_at.map(|at| at.instant));
            let of_hub = diff.writes.entry(TargetCluster::Hub).or_default();
            of_hub.extend(status_write(key, mcs, status));
        }
        if let Some(write) = name_write(&desired, index, key) {
            let of_hub = diff.writes.entry(TargetCluster::Hub).or_default();
            of_hub.push(write);
        }
        let view = exports::View {
            index,
            key,
            clusterset: &desired.clusterset,
            progress: &imported,
            now,
        };
        let look_again = view.again_at().map(|at| at.instant);
        earlier(&mut outcome.again_at, look_again);
        for (name, write) in view.writes() {
            let of_member = diff.writes.entry(TargetCluster::Member(name));
            of_member.or_default().push(write);
        }
        self.enqueue_all(&item, diff, &mut outcome);
        outcome
    }

    /// Whether a write to the hub is not sent now.
    fn is_paused(&self, write: &Write) -> bool {
        let (queue, now) = (&self.write_queue, self.now.instant);
        queue
            .paused_until(&TargetCluster::Hub, write, now)
            .is_some()
    }

    /// Returns the MultiClusterService and its desired status; `None` if it must not be written.
    fn hub_status(
        &self,
        key: &ServiceKey,
        desired: &Desired,
        progress: &HashMap<ClusterName, Progress>,
    ) -> Option<(&'a McsView, DesiredStatus)> {
        let (index, now) = (self.index, self.now);
        let mcs = index.multi_cluster_service(key)?;
        if mcs.is_deleting() || desired.on_hold {
            return None;
        }
        let item = Item::Service(key.clone());
        let conflicts = &self.write_queue.write_conflicts;
        let conflicts = conflicts.ongoing(&TargetCluster::Hub, &item, now.instant);
        let conflict = conflicts.min_by_key(|conflict| conflict.object);
        let conflict = conflict.map(|conflict| {
            let manager = index.other_writer(&TargetCluster::Hub, conflict.object);
            conflict.fact(manager)
        });
        let failure_of = |object: &ObjectId| {
            let failed = self.write_queue.failure_of(&TargetCluster::Hub, object)?;
            Some(failed.failure.clone())
        };
        let view = status::View {
            index,
            key,
            mcs,
            desired,
            progress,
            conflict,
            finalizer_failure: failure_of(&ObjectId::MultiClusterService(key.clone()))
                .filter(|_| !mcs.finalizers.have_ours()),
            name_failure: failure_of(&ObjectId::DnsEndpoint(key.clone())),
            now,
        };
        Some((mcs, view.status()))
    }

    /// Replaces all waiting writes of the item by the desired ones.
    fn enqueue_all(&mut self, item: &Item, diff: Diff, outcome: &mut Outcome) {
        self.write_queue.keep_only(item, &diff.writes);
        for (cluster, wanted) in diff.writes {
            for write in wanted {
                self.enqueue(&cluster, item, write, outcome);
            }
        }
    }

    fn enqueue(
        &mut self,
        cluster: &TargetCluster,
        item: &Item,
        write: Write,
        outcome: &mut Outcome,
    ) {
        if write.operation().verb() == "delete" && !self.index.is_hub_current() {
            outcome.withheld = true;
            return;
        }
        let enqueued = self
            .write_queue
            .enqueue(cluster, item, write, self.now.instant);
        match enqueued {
            // A write under way brings the item back when it ends.
            Enqueued::Accepted | Enqueued::UnderWay => {}
            Enqueued::Later(at) => earlier(&mut outcome.again_at, Some(at)),
        }
    }
}

impl Outcome {
    fn of(desired: &Desired, diff: &mut Diff) -> Self {
        let again_at = desired.again_at.into_iter().chain(diff.again_at).min();
        let beside = desired.karmada.iter();
        let copies = desired.each_copies();
        let disagreements = copies.flat_map(|(_, _, copies)| copies.disagreements());
        let slices = disagreements.map(|((provider, slice), _)| (provider.clone(), slice.clone()));
        Self {
            again_at: again_at.map(|at| at.instant),
            look_up: diff.look_up,
            newer_copies: take(&mut diff.newer_copies),
            undecided: diff.undecided,
            gaps: beside.flat_map(|beside| beside.gaps.clone()).collect(),
            disagreements: slices.collect(),
            possible_changes: desired.possible_changes(),
            hostnames: desired.hostnames(),
            entry_nodes: desired.companions.entry_nodes.clone(),
            counted: desired.counted(),
            withheld: false,
            settled: false,
        }
    }

    /// Records in the index what later plans, and metrics, need of this plan. Returns the counts
    /// that changed.
    pub fn note(&mut self, index: &mut Index, key: &ServiceKey, now: TimePoint) -> CountChanges {
        index.gaps.note(key, take(&mut self.gaps), now);
        index
            .disagreements
            .note(key, take(&mut self.disagreements), now);
        index
            .entry_nodes
            .note(key, take(&mut self.entry_nodes), now);
        index
            .possible_changes
            .note(key, take(&mut self.possible_changes), now);
        let at = index.note_hostnames(key, take(&mut self.hostnames), now);
        earlier(&mut self.again_at, at.map(|at| at.instant));
        if self.withheld {
            index.note_withheld(key);
        }
        for NewerCopy { provider, copied } in &self.newer_copies {
            let at = index.suspect_rollback(provider, key, copied, now);
            earlier(&mut self.again_at, at.map(|at| at.instant));
        }
        index.note_counts(key, take(&mut self.counted))
    }
}

fn earlier(one: &mut Option<Instant>, other: Option<Instant>) {
    *one = match (*one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    };
}

/// Whether an object serves an exposure; a namespace serves both, and the status of an object none.
pub fn serves(object: &ObjectId, key: &ServiceKey, exposure: Exposure) -> bool {
    match object {
        ObjectId::Service(service) if service != key => exposure == Exposure::Clusterset,
        ObjectId::Slice(id) => id.exposure == exposure,
        ObjectId::ServiceImport(..) => exposure == Exposure::Clusterset,
        ObjectId::Service(_) | ObjectId::ServiceExport(..) => exposure == Exposure::Native,
        ObjectId::Namespace(_) => true,
        _ => false,
    }
}

/// Returns the write of a status, if the status has changed.
fn status_write(key: &ServiceKey, mcs: &McsView, status: DesiredStatus) -> Option<Write> {
    if status.conditions == mcs.conditions && status.ingress == mcs.ingress {
        return None;
    }
    let mut fields = json!({ "conditions": status.conditions });
    if status.ingress != mcs.ingress {
        fields["loadBalancer"] = json!({ "ingress": status.ingress });
    }
    let patch = status_patch(&mcs.resource_version, fields);
    let object = ObjectId::MultiClusterServiceStatus(key.clone());
    Some(Write::patch(object, patch).with_events(status.events))
}

#[cfg(test)]
mod tests;
