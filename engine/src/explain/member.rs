//! Reasons why a whole member takes no part, or cannot.

use causeway::api::condition;
use causeway::domain::ClusterName;

use super::reported::quoted;
use super::{Diagnosis, Facts};
use crate::model::{MemberState, Refusal};
use crate::observed::hub::ClusterView;
use crate::observed::member::NamespaceState;
use crate::plan::provider_use::Unused;
use crate::reasons::Reason;

/// Remedy for a controller that does not seem to work.
const LOOK: &str = "kubectl -n causeway-system get pods; the log of causeway-controller, and its /readyz, say more";

impl Facts<'_> {
    /// Returns the reason why a member cannot take part, as provider or as consumer. Observed facts
    /// precede the controller's report, and a failure to read the member from here comes last.
    pub(super) fn member(&self, name: &ClusterName) -> Option<Diagnosis> {
        let Some(cluster) = self.index.cluster(name) else {
            return Some(not_joined(name));
        };
        self.left_out(name, cluster)
            .or_else(|| terminating(name, cluster))
            .or_else(|| self.refused(name))
            .or_else(|| reported(name, cluster))
            .or_else(|| self.unread(name))
    }

    /// Returns the reason why the plan uses nothing that a member provides.
    pub(super) fn unused(&self, name: &ClusterName) -> Option<Diagnosis> {
        let cluster = self.index.cluster(name);
        if let Some(left_out) = cluster.and_then(|cluster| self.left_out(name, cluster)) {
            return Some(left_out);
        }
        Some(match Unused::everywhere(self.index, name)? {
            Unused::NotJoined => not_joined(name),
            Unused::Drained => {
                let message = format!(
                    "{name} is drained: a person said that nothing it provides is to be used"
                );
                let drained = Diagnosis::new(Reason::Drained, message);
                drained.fix(format!("kubectl mcs drain {name} --undo"))
            }
            Unused::Duplicate => self.refused(name)?,
            Unused::TtlExpired | Unused::WithdrawAfter => {
                let message = format!(
                    "{name} is out of reach for longer than --provider-ttl of causeway-controller, so its endpoints are not used"
                );
                let expired = Diagnosis::new(Reason::ProviderTtlExpired, message);
                expired.fix(restore(name))
            }
        })
    }

    fn left_out(&self, name: &ClusterName, cluster: &ClusterView) -> Option<Diagnosis> {
        let MemberState::LeftOut(why) = self.index.member_state(name) else {
            return None;
        };
        if !cluster.takes_part {
            let message = format!("{name} is in Pull mode, which causeway leaves out");
            let pull = Diagnosis::new(Reason::LeftOut, message);
            return Some(pull.fix(format!(
                "join {name} in Push mode: karmadactl join, or kubectl mcs join"
            )));
        }
        let message = format!("{name} takes no part: {why}");
        Some(Diagnosis::new(Reason::LeftOut, message))
    }

    /// Reports the identity or the duplicate for which a member cannot be used, as the member
    /// itself shows it.
    fn refused(&self, name: &ClusterName) -> Option<Diagnosis> {
        let refusals = self.index.member(name)?.refusals();
        if refusals.is_another_cluster {
            let message = format!("{name} cannot be used: {}", Refusal::AnotherCluster);
            let refused = Diagnosis::new(Reason::MemberRefused, message);
            return Some(refused.fix(format!(
                "kubectl mcs unjoin {name}; then kubectl mcs join {name} --member-kubeconfig FILE"
            )));
        }
        let duplicate = Refusal::DuplicateOf(refusals.duplicate_of.clone()?);
        let twice = Diagnosis::new(Reason::DuplicateMember, format!("{name} {duplicate}"));
        Some(twice.fix(format!("kubectl mcs unjoin {name}")))
    }

    fn unread(&self, name: &ClusterName) -> Option<Diagnosis> {
        let why = self.members.get(name)?.as_ref().err()?;
        let message = format!("{name} could not be read from here: {why}");
        let unread = Diagnosis::new(Reason::MemberNotRead, message);
        Some(unread.fix(
            "look from where its API server can be reached, with the right to read its Secret on the hub",
        ))
    }

    /// Reports objects of a member that are held although its last lists lacked them.
    pub(super) fn suspended(&self, name: &ClusterName) -> Option<Diagnosis> {
        let conditions = &self.index.cluster(name)?.conditions;
        let suspended = condition::find(conditions, condition::DELETIONS_SUSPENDED)?;
        (suspended.status == condition::TRUE).then(|| {
            let message = format!(
                "{name}: {}; endpoints that are gone may still be offered",
                suspended.message
            );
            let suspended = Diagnosis::new(Reason::DeletionsSuspended, message);
            suspended.fix(format!(
                "wait half a minute, or, if it is meant: kubectl mcs confirm-deletions {name}; if not, look at the API server of {name} (a \
                 restored etcd?)"
            ))
        })
    }

    /// Reports that the namespace of a member is missing or terminating: the member cannot hold
    /// what is delivered. A member that was not read has no report.
    pub(super) fn namespace(&self, name: &ClusterName) -> Option<Diagnosis> {
        let member = self.index.member(name)?;
        self.members.get(name)?.as_ref().ok()?;
        let wanted = &self.key.namespace;
        match member.namespace(wanted) {
            NamespaceState::Active => None,
            NamespaceState::Missing => {
                let message = format!("{name} has no namespace {wanted}");
                let missing = Diagnosis::new(Reason::NamespaceMissing, message);
                Some(missing.fix(format!(
                    "in {name}: kubectl create namespace {wanted}; or let causeway make it: \
                     kubectl mcs join {name} --member-kubeconfig FILE --allow-namespace-creation"
                )))
            }
            NamespaceState::Terminating => {
                let message = format!("namespace {wanted} of {name} is terminating");
                let terminating = Diagnosis::new(Reason::NamespaceTerminating, message);
                Some(terminating.fix(format!(
                    "in {name}: kubectl describe namespace {wanted} says what it waits for"
                )))
            }
        }
    }
}

fn not_joined(name: &ClusterName) -> Diagnosis {
    let message = format!("{name} is not joined: no Cluster of the hub bears the name");
    let unknown = Diagnosis::new(Reason::NotJoined, message);
    unknown.fix(format!("kubectl mcs join {name} --member-kubeconfig FILE"))
}

fn terminating(name: &ClusterName, cluster: &ClusterView) -> Option<Diagnosis> {
    cluster.leaving_since?;
    let message = format!("{name} is being removed: its Cluster is being deleted");
    let terminating = Diagnosis::new(Reason::MemberTerminating, message);
    Some(terminating.fix(format!(
        "if that is not meant, once it is gone: kubectl mcs join {name} --member-kubeconfig FILE"
    )))
}

fn restore(name: &ClusterName) -> String {
    format!(
        "restore the API server of {name}, or, if it has another address: kubectl mcs join {name} \
         --member-kubeconfig FILE --api-endpoint URL"
    )
}

/// Returns the controller's report of a member that it cannot follow.
fn reported(name: &ClusterName, cluster: &ClusterView) -> Option<Diagnosis> {
    let Some(ready) = condition::find(&cluster.conditions, condition::READY) else {
        let message = format!("the controller has not engaged {name} yet");
        return Some(Diagnosis::new(Reason::MemberPending, message).fix(LOOK));
    };
    let since = ready.last_transition_time.0;
    // By its last connection it takes part as before.
    if ready.status == condition::TRUE || ready.reason == Reason::InvalidConfiguration {
        return None;
    }
    let quoted = format!("{} since {since:.0}", quoted(ready));
    Some(match Reason::of(&ready.reason) {
        Some(Reason::Unreachable) => {
            let message = format!(
                "{name} is unreachable for the controller since {since:.0} ({}); what it last gave, and what it has, is kept",
                ready.message
            );
            let unreachable = Diagnosis::new(Reason::MemberUnreachable, message);
            unreachable.fix(format!(
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
    })
}
