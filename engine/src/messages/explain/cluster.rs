//! Members that take no part in a service, or cannot.

use std::fmt;

use causeway::domain::ClusterName;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use super::quote;
use crate::messages::Diagnosis;
use crate::reasons::Reason;

/// Remedy for a controller that does not seem to work.
const LOOK: &str = "kubectl -n causeway-system get pods; the log of causeway-controller, and its /readyz, say more";

/// Reports that no Cluster has the name.
pub(crate) fn not_joined(name: &ClusterName) -> Diagnosis {
    let message = format!("{name} is not joined: no Cluster of the hub bears the name");
    let unknown = Diagnosis::new(Reason::NotJoined, message);
    unknown.fix(format!("kubectl mcs join {name} --member-kubeconfig FILE"))
}

/// Reports that a person drained the cluster.
pub(crate) fn drained(name: &ClusterName) -> Diagnosis {
    let message =
        format!("{name} is drained: a person said that nothing it provides is to be used");
    Diagnosis::new(Reason::Drained, message).fix(format!("kubectl mcs drain {name} --undo"))
}

/// Reports that the cluster has been unreachable for too long.
pub(crate) fn ttl_expired(name: &ClusterName) -> Diagnosis {
    let message = format!(
        "{name} is out of reach for longer than --provider-ttl of causeway-controller, so its endpoints are not used"
    );
    Diagnosis::new(Reason::ProviderTtlExpired, message).fix(restore(name))
}

/// Reports that the cluster has been unreachable for longer than the service permits.
pub(crate) fn withdrawn_after(name: &ClusterName) -> Diagnosis {
    let message = format!(
        "{name} is out of reach for longer than withdraw-after of the service, so its endpoints are not used"
    );
    Diagnosis::new(Reason::ProviderTtlExpired, message).fix(restore(name))
}

/// Reports a cluster in Pull mode.
pub(crate) fn pull(name: &ClusterName) -> Diagnosis {
    let message = format!("{name} is in Pull mode, which causeway leaves out");
    Diagnosis::new(Reason::LeftOut, message).fix(format!(
        "join {name} in Push mode: karmadactl join, or kubectl mcs join"
    ))
}

/// Reports a cluster that takes no part for another reason.
pub(crate) fn left_out(name: &ClusterName, why: &dyn fmt::Display) -> Diagnosis {
    Diagnosis::new(Reason::LeftOut, format!("{name} takes no part: {why}"))
}

/// Reports a cluster that is another than before.
pub(crate) fn other_identity(name: &ClusterName, why: &dyn fmt::Display) -> Diagnosis {
    let refused = Diagnosis::new(
        Reason::MemberRefused,
        format!("{name} cannot be used: {why}"),
    );
    refused.fix(format!(
        "kubectl mcs unjoin {name}; then kubectl mcs join {name} --member-kubeconfig FILE"
    ))
}

/// Reports a second name of another cluster.
pub(crate) fn duplicate(name: &ClusterName, why: &dyn fmt::Display) -> Diagnosis {
    let twice = Diagnosis::new(Reason::DuplicateMember, format!("{name} {why}"));
    twice.fix(format!("kubectl mcs unjoin {name}"))
}

/// Reports a member that the caller could not read.
pub(crate) fn unread(name: &ClusterName, why: &dyn fmt::Display) -> Diagnosis {
    let message = format!("{name} could not be read from here: {why}");
    Diagnosis::new(Reason::MemberNotRead, message).fix(
        "look from where its API server can be reached, with the right to read its Secret on the hub",
    )
}

/// Reports objects of a member that are held although its last lists lacked them.
pub(crate) fn suspended(name: &ClusterName, condition: &Condition) -> Diagnosis {
    let message = format!(
        "{name}: {}; endpoints that are gone may still be offered",
        condition.message
    );
    Diagnosis::new(Reason::DeletionsSuspended, message).fix(format!(
        "wait half a minute, or, if it is meant: kubectl mcs confirm-deletions {name}; if not, look at the API server of {name} (a \
         restored etcd?)"
    ))
}

/// Reports a Cluster that is being deleted.
pub(crate) fn terminating(name: &ClusterName) -> Diagnosis {
    let message = format!("{name} is being removed: its Cluster is being deleted");
    Diagnosis::new(Reason::MemberTerminating, message).fix(format!(
        "if that is not meant, once it is gone: kubectl mcs join {name} --member-kubeconfig FILE"
    ))
}

/// Reports a Cluster that the controller has not processed.
pub(crate) fn not_engaged(name: &ClusterName) -> Diagnosis {
    let message = format!("the controller has not engaged {name} yet");
    Diagnosis::new(Reason::MemberPending, message).fix(LOOK)
}

/// Reports a member that is not synced, as the Ready condition of its Cluster has it.
pub(crate) fn not_ready(name: &ClusterName, ready: &Condition) -> Diagnosis {
    let since = ready.last_transition_time.0;
    let quoted = format!("{} since {since:.0}", quote(ready));
    match Reason::of(&ready.reason) {
        Some(Reason::Unreachable) => {
            let message = format!(
                "{name} is unreachable for the controller since {since:.0} ({}); what it last gave, and what it has, is kept",
                ready.message
            );
            Diagnosis::new(Reason::MemberUnreachable, message).fix(format!(
                "{}; to stop using what it provides: kubectl mcs drain {name}",
                restore(name)
            ))
        }
        Some(Reason::Refused) => {
            let message = format!("{name} cannot be used: {quoted}");
            let refused = Diagnosis::new(Reason::MemberRefused, message);
            refused.fix(format!("kubectl mcs join {name} --member-kubeconfig FILE"))
        }
        _ => {
            let message = format!("{name} is not synced: {quoted}");
            Diagnosis::new(Reason::MemberPending, message).fix("kubectl mcs status --wait")
        }
    }
}

fn restore(name: &ClusterName) -> String {
    format!(
        "restore the API server of {name}, or, if it has another address: kubectl mcs join {name} \
         --member-kubeconfig FILE --api-endpoint URL"
    )
}
