//! Reconciliation of one item: plan, diff, enqueue the writes, write the status.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Instant;

use causeway::domain::{ClusterName, ServiceKey};
use serde_json::json;

use crate::diff::{Diff, Moment, NewerCopy, diff};
use crate::model::map::{HashMap, HashSet};
use crate::model::slice::Exposure;
use crate::model::{Item, ObjectId, Operation, TargetCluster, TimePoint, Write, status_patch};
use crate::observed::Index;
use crate::observed::hub::{ClusterView, McsView};
use crate::observed::member::{Member, NamespaceState};
use crate::observed::tiers::TiersOfService;
use crate::plan::clusterset::conditions;
use crate::plan::copies::DesiredCopies;
use crate::plan::status::{DesiredStatus, Progress, status};
use crate::plan::{CopyCache, Desired, Members, Settings, cluster, plan};
use crate::problem::{Gap, WriteProblem};
use crate::removal::{Leftovers, Removal, removal};
use crate::write_queue::{Enqueued, WriteQueue};

/// Result of reconciling a service.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Time of the next reconciliation, if nothing happens before.
    pub again_at: Option<Instant>,
    /// Whether the controller must look up the MultiClusterService on the hub.
    pub look_up: bool,
    /// Copies that were made from newer versions of their sources than observed: the sources'
    /// clusters must be listed a second time.
    pub newer_copies: Vec<NewerCopy>,
    /// Number of copies that are held because no rule of the plan decides about them.
    pub undecided: usize,
    /// Service, endpoints and ports that consumers lack of a service that Karmada manages. The
    /// caller records them: they are reported only if they last.
    pub gaps: BTreeSet<Gap>,
    /// Slices that disagree with those of Kubernetes on readiness. The caller records them: they
    /// are reported only if the disagreement lasts.
    pub disagreements: BTreeSet<(ClusterName, Arc<str>)>,
    /// Active tiers of the service in its consumers. The caller records them: a farther tier is
    /// given up only after a while.
    pub tiers: TiersOfService,
    /// Whether no write to any member is outstanding.
    pub settled: bool,
}

/// Plans a service and enqueues the writes that bring it closer to its desired state.
pub fn reconcile_service(
    index: &Index,
    write_queue: &mut WriteQueue,
    settings: &Settings,
    key: &ServiceKey,
    now: TimePoint,
    cache: &mut CopyCache,
) -> Outcome {
    let item = Item::Service(key.clone());
    let desired = plan(index, settings, key, now, cache);
    let busy = write_queue.is_busy_with(&item);
    let mut diff = diff(&desired, index, key, Moment { now, busy });
    let mut outcome = Outcome::of(&desired, &mut diff);
    let progress = |exposure| {
        let progresses = Progresses {
            index,
            write_queue,
            desired: &desired,
            diff: &diff,
            key,
            exposure,
            now,
        };
        progresses.of_members()
    };
    let (native, imported) = (progress(Exposure::Native), progress(Exposure::Clusterset));
    outcome.settled = !native
        .values()
        .chain(imported.values())
        .any(Progress::is_pending);
    outcome.hold_back(&mut diff, write_queue, now);
    let write_conflict = write_queue.next_conflict_end(&item, now.instant);
    earlier(&mut outcome.again_at, write_conflict);
    if !diff.writes.contains_key(&TargetCluster::Hub)
        && let Some((mcs, status)) = hub_status(index, write_queue, key, &desired, &native, now)
    {
        let look_again = status.again_at.map(|at| at.instant);
        earlier(&mut outcome.again_at, look_again);
        let write = status_write(key, mcs, status);
        diff.writes
            .insert(TargetCluster::Hub, write.into_iter().collect());
    }
    let view = conditions::View {
        index,
        key,
        clusterset: &desired.clusterset,
        progress: &imported,
        now,
    };
    let look_again = view.again_at().map(|at| at.instant);
    earlier(&mut outcome.again_at, look_again);
    for (name, write) in view.writes() {
        diff.writes
            .entry(TargetCluster::Member(name))
            .or_default()
            .push(write);
    }
    enqueue_all(write_queue, &item, diff, now, &mut outcome);
    outcome
}

/// Returns the MultiClusterService and its desired status; `None` if it must not be written.
fn hub_status<'a>(
    index: &'a Index,
    write_queue: &WriteQueue,
    key: &ServiceKey,
    desired: &Desired,
    progress: &HashMap<ClusterName, Progress>,
    now: TimePoint,
) -> Option<(&'a McsView, DesiredStatus)> {
    let mcs = index.multi_cluster_service(key)?;
    if mcs.is_deleting() || desired.on_hold {
        return None;
    }
    let item = Item::Service(key.clone());
    let conflicts = write_queue.write_conflicts(&TargetCluster::Hub, &item, now.instant);
    let conflict = conflicts.min_by_key(|write_conflict| write_conflict.object);
    let conflict = conflict.map(|write_conflict| {
        write_conflict.fact(index.other_writer(&TargetCluster::Hub, write_conflict.object))
    });
    let status = status(index, key, mcs, desired, progress, conflict, now);
    Some((mcs, status))
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
            newer_copies: std::mem::take(&mut diff.newer_copies),
            undecided: diff.undecided,
            gaps: beside.flat_map(|beside| beside.gaps.clone()).collect(),
            disagreements: slices.collect(),
            tiers: desired.tiers(),
            settled: false,
        }
    }

    /// Removes writes of the hub that are paused by a conflict. A finalizer that another writer
    /// removes as often as causeway adds it does not prevent the status from being written.
    fn hold_back(&mut self, diff: &mut Diff, write_queue: &WriteQueue, now: TimePoint) {
        let Some(writes) = diff.writes.get_mut(&TargetCluster::Hub) else {
            return;
        };
        writes.retain(|write| {
            let held = write_queue.held_until(&TargetCluster::Hub, write, now.instant);
            earlier(&mut self.again_at, held);
            held.is_none()
        });
        if writes.is_empty() {
            diff.writes.remove(&TargetCluster::Hub);
        }
    }
}

/// Replaces all waiting writes of the item by the desired ones.
fn enqueue_all(
    write_queue: &mut WriteQueue,
    item: &Item,
    diff: Diff,
    now: TimePoint,
    outcome: &mut Outcome,
) {
    write_queue.keep_only(item, &diff.writes);
    for (cluster, wanted) in diff.writes {
        for write in wanted {
            enqueue(write_queue, &cluster, item, write, now, outcome);
        }
    }
}

fn enqueue(
    write_queue: &mut WriteQueue,
    cluster: &TargetCluster,
    item: &Item,
    write: Write,
    now: TimePoint,
    outcome: &mut Outcome,
) {
    match write_queue.enqueue(cluster, item, write, now.instant) {
        // A write under way brings the item back when it ends.
        Enqueued::Accepted | Enqueued::UnderWay => {}
        Enqueued::Later(at) => earlier(&mut outcome.again_at, Some(at)),
    }
}

fn earlier(one: &mut Option<Instant>, other: Option<Instant>) {
    *one = match (*one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    };
}

/// Progress of one exposure in the members: outstanding writes and the problems that prevent them.
struct Progresses<'a> {
    index: &'a Index,
    write_queue: &'a WriteQueue,
    desired: &'a Desired,
    diff: &'a Diff,
    key: &'a ServiceKey,
    exposure: Exposure,
    now: TimePoint,
}

impl<'a> Progresses<'a> {
    /// Returns the progress of the members that should hold something, or are written to. Nothing
    /// is outstanding in the others.
    fn of_members(&self) -> HashMap<ClusterName, Progress> {
        let native = match (self.exposure, &self.desired.members) {
            (Exposure::Native, Members::Wanted(members)) => Some(members.keys()),
            _ => None,
        };
        let imports = &self.desired.clusterset.imports;
        let imported = (self.exposure == Exposure::Clusterset).then(|| imports.names());
        let wanted = native.into_iter().flatten();
        let wanted = wanted.chain(imported.into_iter().flatten());
        let serves = |write: &Write| exposure_of(write.object(), self.key) == Some(self.exposure);
        let written = self.diff.writes.iter();
        let written = written.filter_map(|(cluster, writes)| match cluster {
            TargetCluster::Member(name) => writes.iter().any(serves).then_some(name),
            TargetCluster::Hub => None,
        });
        let concerned: BTreeSet<_> = wanted.chain(written).collect();
        let members = concerned.into_iter().filter_map(|name| {
            let member = self.index.member(name)?;
            Some((name.clone(), self.of(name, member)))
        });
        members.collect()
    }

    fn of(&self, name: &ClusterName, member: &Member) -> Progress {
        let cluster = TargetCluster::Member(name.clone());
        let mut progress = Progress::default();
        for object in self.outstanding(&cluster) {
            match object {
                ObjectId::Slice(..) => progress.copies_pending = true,
                _ => progress.service_pending = true,
            }
        }
        if let Some((service, copies)) = self.desired_copies(name) {
            progress.copies_problem = in_the_way(copies, member, self.index.hub_uid(), self.key);
            progress.service_pending |= member
                .written_service(&service)
                .is_some_and(|service| service.is_deleted() || service.view.deleting);
            let namespace = &self.key.namespace;
            if member.namespace(namespace) == NamespaceState::Terminating {
                let terminating = WriteProblem::NamespaceTerminating(namespace.clone());
                progress.service_problem = Some(terminating);
            }
        }
        self.note_failed_writes(&cluster, &mut progress);
        self.note_write_conflicts(&cluster, &mut progress);
        progress
    }

    /// Returns the Service and the copies that a member should hold.
    fn desired_copies(&self, name: &ClusterName) -> Option<(ServiceKey, &'a DesiredCopies)> {
        match (self.exposure, &self.desired.members) {
            (Exposure::Native, Members::Untouched) => None,
            (Exposure::Native, Members::Wanted(members)) => {
                Some((self.key.clone(), &members.get(name)?.copies))
            }
            (Exposure::Clusterset, _) => {
                let desired = self.desired.clusterset.imports.of(name)?;
                Some((self.key.derived(), &desired.copies))
            }
        }
    }
}

/// Returns the exposure that an object serves; the status of an object serves none.
pub fn exposure_of(object: &ObjectId, key: &ServiceKey) -> Option<Exposure> {
    match object {
        ObjectId::Service(service) if service != key => Some(Exposure::Clusterset),
        ObjectId::Slice(id) => Some(id.exposure),
        ObjectId::ServiceImport(..) => Some(Exposure::Clusterset),
        ObjectId::Service(_) | ObjectId::Namespace(_) | ObjectId::ServiceExport(..) => {
            Some(Exposure::Native)
        }
        _ => None,
    }
}

/// Returns the problem of slices that have the names of copies and are not this hub's. Two hubs
/// that share a member and expose the same service from the same provider desire copies of the same
/// names.
fn in_the_way(
    desired: &DesiredCopies,
    member: &Member,
    hub: &str,
    key: &ServiceKey,
) -> Option<WriteProblem> {
    let others = desired.wanted.keys().filter(|name| {
        let copy = member.copy(key, name);
        copy.is_some_and(|copy| *copy.view.hub != *hub)
    });
    match others.count() {
        0 => {
            let mut foreign = desired.taken_names(member, key);
            Some(WriteProblem::ForeignSlice {
                namespace: key.namespace.clone(),
                name: foreign.next()?.clone(),
                more: foreign.count(),
            })
        }
        count => Some(WriteProblem::SlicesOfAnotherHub(count)),
    }
}

impl Progresses<'_> {
    /// Returns the objects of outstanding writes. A write whose answer was lost may have been
    /// carried out, and then is no problem.
    fn outstanding(&self, cluster: &TargetCluster) -> impl Iterator<Item = &ObjectId> {
        let writes = self.diff.writes.get(cluster).into_iter().flatten();
        writes
            .map(Write::object)
            .filter(|object| exposure_of(object, self.key) == Some(self.exposure))
    }

    fn note_write_conflicts(&self, cluster: &TargetCluster, progress: &mut Progress) {
        let item = Item::Service(self.key.clone());
        let write_conflicts = self
            .write_queue
            .write_conflicts(cluster, &item, self.now.instant);
        let mut write_conflicts: Vec<_> = write_conflicts.collect();
        write_conflicts.sort_unstable_by_key(|write_conflict| write_conflict.object);
        let write_conflicts = write_conflicts.into_iter();
        for write_conflict in write_conflicts.filter(|write_conflict| {
            exposure_of(write_conflict.object, self.key) == Some(self.exposure)
        }) {
            let manager = self.index.other_writer(cluster, write_conflict.object);
            let problem = match write_conflict.object {
                ObjectId::Slice(..) => &mut progress.copies_problem,
                _ => &mut progress.service_problem,
            };
            *problem = Some(WriteProblem::Conflict(write_conflict.fact(manager)));
        }
    }

    fn note_failed_writes(&self, cluster: &TargetCluster, progress: &mut Progress) {
        let item = Item::Service(self.key.clone());
        let mut failed: Vec<_> = self.write_queue.failed(cluster, &item).collect();
        if failed.is_empty() {
            return;
        }
        // Of several failures the same is reported each time.
        failed.sort_unstable_by_key(|(object, _)| *object);
        let mut count = 0;
        let outstanding: HashSet<_> = self.outstanding(cluster).collect();
        for (object, failed) in failed {
            if !outstanding.contains(object) {
                continue;
            }
            let failure = failed.failure.clone();
            match object {
                ObjectId::Slice(..) => {
                    count += 1;
                    let problem = WriteProblem::SlicesNotWritten { count, failure };
                    progress.copies_problem = Some(problem);
                }
                ObjectId::Namespace(name) => {
                    let namespace = name.clone();
                    let problem = WriteProblem::NamespaceNotCreated { namespace, failure };
                    progress.service_problem = Some(problem);
                }
                other => {
                    progress.service_problem = Some(WriteProblem::ObjectNotWritten {
                        kind: other.kind(),
                        name: other.name().into(),
                        failure,
                    });
                }
            }
        }
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
    let operation = Operation::PatchMultiClusterServiceStatus(key.clone(), patch);
    Some(Write::new(operation).with_events(status.events))
}

/// Result of reconciling a member.
#[derive(Debug, PartialEq, Eq)]
pub enum ClusterOutcome {
    /// Nothing is left to do for now.
    Stays,
    /// Time of the next reconciliation, if nothing happens before.
    LookAgain(Instant),
    /// Its Cluster is deleted and the member is clean, or could not be cleaned in time: drop its
    /// state.
    Gone(Leftovers),
}

/// Maintains a Cluster's status and finalizer. If the member is removed, removes the finalizer once
/// its cleanup is over.
pub fn reconcile_cluster(
    index: &Index,
    write_queue: &mut WriteQueue,
    name: &ClusterName,
    keeps_clusters: bool,
    now: TimePoint,
) -> ClusterOutcome {
    let Some(cluster) = index.cluster(name) else {
        return ClusterOutcome::Stays;
    };
    let item = Item::Cluster(name.clone());
    let mut outcome = Outcome::default();
    write_queue.retract(&TargetCluster::Hub, &item);
    let Some(since) = cluster.leaving_since else {
        if keeps_clusters {
            keep(index, write_queue, name, cluster, now, &mut outcome);
        }
        return outcome
            .again_at
            .map_or(ClusterOutcome::Stays, ClusterOutcome::LookAgain);
    };
    match removal(index, name, since, now) {
        Removal::UnderWay(until) => return ClusterOutcome::LookAgain(until.instant),
        Removal::Over(left) if cluster.gone => return ClusterOutcome::Gone(left),
        Removal::Over(_) => {}
    }
    if cluster.finalizers.have_ours() {
        let patch = cluster.finalizers.without_ours(&cluster.resource_version);
        let write = Write::new(Operation::PatchCluster(name.clone(), patch));
        enqueue(
            write_queue,
            &TargetCluster::Hub,
            &item,
            write,
            now,
            &mut outcome,
        );
    }
    outcome
        .again_at
        .map_or(ClusterOutcome::Stays, ClusterOutcome::LookAgain)
}

/// Follower side of [`reconcile_cluster`]: drops a removed member once it is clean, or the leader's
/// cleanup deadline has passed. Cleans and writes nothing.
pub fn follow_removal(index: &Index, name: &ClusterName, now: TimePoint) -> ClusterOutcome {
    let cluster = index.cluster(name);
    match cluster.and_then(|cluster| Some((cluster, cluster.leaving_since?))) {
        Some((cluster, since)) if cluster.gone => match removal(index, name, since, now) {
            Removal::UnderWay(until) => ClusterOutcome::LookAgain(until.instant),
            Removal::Over(left) => ClusterOutcome::Gone(left),
        },
        _ => ClusterOutcome::Stays,
    }
}

fn keep(
    index: &Index,
    write_queue: &mut WriteQueue,
    name: &ClusterName,
    cluster: &ClusterView,
    now: TimePoint,
    outcome: &mut Outcome,
) {
    let item = Item::Cluster(name.clone());
    if !cluster.finalizers.have_ours() {
        let patch = cluster.finalizers.with_ours(&cluster.resource_version);
        let write = Write::new(Operation::PatchCluster(name.clone(), patch));
        return enqueue(write_queue, &TargetCluster::Hub, &item, write, now, outcome);
    }
    let (_, damped) = index.reported_state(name, now);
    let member = index.member(name);
    let clusterset = member.and_then(|member| member.reported_membership(now).1);
    let damped = damped.into_iter().chain(clusterset).min();
    earlier(&mut outcome.again_at, damped.map(|at| at.instant));
    if let Some(status) = cluster::status(index, name, now) {
        let fields = json!({
            "kubernetesVersion": status.kubernetes_version,
            "conditions": status.conditions,
        });
        let patch = status_patch(&cluster.resource_version, fields);
        let write = Write::new(Operation::PatchClusterStatus(name.clone(), patch));
        enqueue(write_queue, &TargetCluster::Hub, &item, write, now, outcome);
    }
}

#[cfg(test)]
mod tests;
