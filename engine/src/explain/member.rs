//! Reasons why a whole member takes no part, or cannot.

use causeway::api::condition;
use causeway::domain::ClusterName;

use super::{Diagnosis, Facts};
use crate::messages::explain::{cluster as words, service};
use crate::model::{MemberState, Refusal};
use crate::observed::hub::ClusterView;
use crate::plan::provider_use::Unused;
use crate::reasons::Reason;

impl Facts<'_> {
    /// Returns the reason why a member cannot take part, as provider or as consumer. Observed facts
    /// precede the controller's report, and a failure to read the member from here comes last.
    pub(super) fn member(&self, name: &ClusterName) -> Option<Diagnosis> {
        let Some(cluster) = self.index.cluster(name) else {
            return Some(words::not_joined(name));
        };
        self.left_out(name, cluster)
            .or_else(|| cluster.removed_since.map(|_| words::terminating(name)))
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
        self.unused_by(name, Unused::everywhere(self.index, name)?)
    }

    /// Reports that the plan uses nothing that a member provides, for this reason.
    pub(super) fn unused_by(&self, name: &ClusterName, why: Unused) -> Option<Diagnosis> {
        match why {
            Unused::NotJoined => Some(words::not_joined(name)),
            Unused::Drained => Some(words::drained(name)),
            Unused::Duplicate => self.refused(name),
            Unused::TtlExpired => Some(words::ttl_expired(name)),
            Unused::WithdrawAfter => Some(words::withdrawn_after(name)),
        }
    }

    fn left_out(&self, name: &ClusterName, cluster: &ClusterView) -> Option<Diagnosis> {
        let MemberState::LeftOut(why) = self.index.member_state(name) else {
            return None;
        };
        Some(match cluster.takes_part {
            true => words::left_out(name, &why),
            false => words::pull(name),
        })
    }

    /// Reports the identity or the duplicate for which a member cannot be used, as the member
    /// itself shows it.
    fn refused(&self, name: &ClusterName) -> Option<Diagnosis> {
        let refusals = self.index.member(name)?.refusals();
        if refusals.is_another_cluster {
            return Some(words::other_identity(name, &Refusal::AnotherCluster));
        }
        let duplicate = Refusal::DuplicateOf(refusals.duplicate_of.clone()?);
        Some(words::duplicate(name, &duplicate))
    }

    fn unread(&self, name: &ClusterName) -> Option<Diagnosis> {
        let why = self.members.get(name)?.as_ref().err()?;
        Some(words::unread(name, why))
    }

    /// Reports objects of a member that are held although its last lists lacked them.
    pub(super) fn suspended(&self, name: &ClusterName) -> Option<Diagnosis> {
        let conditions = &self.index.cluster(name)?.conditions;
        let suspended = condition::find(conditions, condition::DELETIONS_SUSPENDED)?;
        (suspended.status == condition::TRUE).then(|| words::suspended(name, suspended))
    }

    /// Reports that the namespace of a member is missing or terminating: the member cannot hold
    /// what is delivered. A member that was not read has no report.
    pub(super) fn namespace(&self, name: &ClusterName) -> Option<Diagnosis> {
        let member = self.index.member(name)?;
        self.members.get(name)?.as_ref().ok()?;
        let namespace = &self.key.namespace;
        service::namespace(namespace, name, member.namespace(namespace))
    }
}

/// Returns the controller's report of a member that it cannot follow.
fn reported(name: &ClusterName, cluster: &ClusterView) -> Option<Diagnosis> {
    let Some(ready) = condition::find(&cluster.conditions, condition::READY) else {
        return Some(words::not_engaged(name));
    };
    // By its last connection it takes part as before.
    let takes_part =
        ready.status == condition::TRUE || ready.reason == Reason::InvalidConfiguration;
    (!takes_part).then(|| words::not_ready(name, ready))
}
