//! Outstanding and failed writes into the members.

use std::collections::BTreeSet;

use causeway::domain::{ClusterName, ServiceKey};

use super::serves;
use crate::diff::Diff;
use crate::model::map::HashMap;
use crate::model::slice::Exposure;
use crate::model::{Item, ObjectId, TargetCluster, TimePoint, Write};
use crate::observed::Index;
use crate::observed::member::{Member, NamespaceState};
use crate::plan::Desired;
use crate::plan::copies::DesiredCopies;
use crate::problem::WriteProblem;
use crate::status::Progress;
use crate::write_queue::WriteQueue;

/// Progress of one exposure in the members: outstanding writes and the problems that prevent them.
pub(super) struct Progresses<'a> {
    pub(super) index: &'a Index,
    pub(super) write_queue: &'a WriteQueue,
    pub(super) desired: &'a Desired,
    pub(super) diff: &'a Diff,
    pub(super) key: &'a ServiceKey,
    pub(super) exposure: Exposure,
    pub(super) now: TimePoint,
}

impl<'a> Progresses<'a> {
    /// Returns the progress of the members that should hold something, or are written to. Nothing
    /// is outstanding in the others.
    pub(super) fn of_members(&self) -> HashMap<ClusterName, Progress> {
        let copies = self.desired.each_copies();
        let wanted = copies.filter(|(exposure, ..)| *exposure == self.exposure);
        let wanted = wanted.map(|(_, name, _)| name);
        let serves = |write: &Write| serves(write.object(), self.key, self.exposure);
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
        let service = self.exposure.service(self.key);
        Some((service, self.desired.copies_in(self.exposure, name)?))
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
            .filter(|object| serves(object, self.key, self.exposure))
    }

    fn note_write_conflicts(&self, cluster: &TargetCluster, progress: &mut Progress) {
        let item = Item::Service(self.key.clone());
        let write_conflicts = &self.write_queue.write_conflicts;
        let write_conflicts = write_conflicts.ongoing(cluster, &item, self.now.instant);
        let mut write_conflicts: Vec<_> = write_conflicts.collect();
        write_conflicts.sort_unstable_by_key(|write_conflict| write_conflict.object);
        let write_conflicts = write_conflicts.into_iter();
        for write_conflict in write_conflicts
            .filter(|write_conflict| serves(write_conflict.object, self.key, self.exposure))
        {
            let manager = self.index.other_writer(cluster, write_conflict.object);
            let problem = match write_conflict.object {
                ObjectId::Slice(..) => &mut progress.copies_problem,
                _ => &mut progress.service_problem,
            };
            *problem = Some(WriteProblem::Conflict(write_conflict.fact(manager)));
        }
    }

    fn note_failed_writes(&self, cluster: &TargetCluster, progress: &mut Progress) {
        // Of several failures the same is reported each time.
        let outstanding: BTreeSet<_> = self.outstanding(cluster).collect();
        let mut count = 0;
        for object in outstanding {
            let Some(failed) = self.write_queue.failure_of(cluster, object) else {
                continue;
            };
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
