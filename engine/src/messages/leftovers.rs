//! Services that nothing exposes, and what is left of them.

use std::fmt;

use causeway::domain::{ClusterName, ServiceKey};

use super::cluster::LOOK_FROM_ELSEWHERE;
use super::{Diagnosis, in_cluster, names};
use crate::problem::ServiceProblem;
use crate::reasons::Reason;

/// Reports that nothing exposes the service, as far as the members were read. `unread` are the
/// members that could not be read, with the reason of each: one of them may export the service, so
/// with them nothing is wrong for sure.
pub(crate) fn not_exposed<'a, E: fmt::Display>(
    key: &ServiceKey,
    unread: impl Iterator<Item = (&'a ClusterName, E)>,
) -> Diagnosis {
    let (namespace, name) = (&key.namespace, &key.name);
    let unread: Vec<_> = unread.map(|(name, why)| format!("{name}: {why}")).collect();
    if !unread.is_empty() {
        let message = format!(
            "the hub has no MultiClusterService {key}, and no member that was read exports a Service of that name; \
             not read from here: {}",
            unread.join("; ")
        );
        return Diagnosis::new(Reason::MemberNotRead, message).fix(LOOK_FROM_ELSEWHERE);
    }
    let message = format!(
        "the hub has no MultiClusterService {key}, and no member exports a Service of that name"
    );
    Diagnosis::new(Reason::NotExposed, message).fix(format!(
        "kubectl -n {namespace} apply -f mcs.yaml, a MultiClusterService called {name}; or in a member: \
         kubectl -n {namespace} apply of a ServiceExport called {name}; kubectl mcs status -A shows what is there"
    ))
}

/// Reports a ServiceImport that a person made and that no known member exports.
pub(crate) fn import_without_export(
    key: &ServiceKey,
    member: &ClusterName,
    problem: Option<&ServiceProblem>,
) -> Diagnosis {
    let kept = match problem {
        Some(problem) => format!("it has no Service: {member} {problem}"),
        None => format!(
            "for it causeway keeps Service {} there, which gets endpoints once a member exports the service",
            key.derived()
        ),
    };
    let message = format!(
        "{member} has a ServiceImport {key} that somebody made, and no member that is known exports the service; {kept}"
    );
    let delete = format!("delete serviceimport {}", key.name);
    Diagnosis::new(Reason::ImportWithoutExport, message).fix(format!(
        "in the cluster with the pods: make a ServiceExport {key} (multicluster.x-k8s.io); or, if nobody needs the import: {}",
        in_cluster(member, key, delete)
    ))
}

/// Reports objects that the controller has still to collect in these members.
pub(crate) fn leftovers<'a>(
    key: &ServiceKey,
    holders: impl IntoIterator<Item = &'a ClusterName>,
) -> Diagnosis {
    let message = format!(
        "objects of {key} that causeway wrote are left in {}; the controller collects them when it reaches these members",
        names(holders)
    );
    let left = Diagnosis::new(Reason::Leftovers, message);
    left.fix("kubectl mcs status shows which members are not Synced, and why")
}
