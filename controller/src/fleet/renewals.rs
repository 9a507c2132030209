//! Credentials that a plugin or an agent gives, and that are renewed before they end.

use std::sync::Arc;

use causeway::api;
use causeway::domain::ClusterName;
use causeway::target::{Target, TargetError, Token};
use causeway_engine::model::{ConfigurationError, Failure, FailureKind, Generation};
use tokio::sync::{Semaphore, watch};
use tokio::task::AbortHandle;

use super::{Fleet, Outcome, invalid, is_by_agent};
use crate::credentials::agent::{AgentCall, is_unreached};
use crate::credentials::{Call, PLUGINS_AT_ONCE, Renewal};
use crate::event::Round;
use crate::given::Given;

/// Credentials of a member that are renewed before they end.
pub(super) struct RenewedCredentials {
    call: Call,
    /// UID of the Cluster for which it began.
    cluster_uid: Option<String>,
    round: Round,
    /// Last credentials; none until the first call has ended.
    last: Option<Result<Given, Failure>>,
    /// Whether the call has ever given credentials.
    has_given: bool,
    rejected: watch::Sender<bool>,
    /// Generation of the member while it has never been reached.
    unreached: Option<Generation>,
    task: AbortHandle,
}

impl Drop for RenewedCredentials {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Fleet {
    /// Notes what a plugin or an agent gave for a member, unless it was called in another way
    /// since. Returns whether that is news.
    pub fn note_credentials(
        &mut self,
        name: &ClusterName,
        round: Round,
        outcome: Result<Given, Failure>,
    ) -> bool {
        let known = self.renewals.get_mut(name);
        let Some(known) = known.filter(|known| known.round == round) else {
            return false;
        };
        let is_news = match (&known.last, &outcome) {
            (Some(Err(last)), Err(failure)) => last != failure,
            _ => true,
        };
        known.has_given |= outcome.is_ok();
        known.last = Some(outcome);
        is_news
    }

    /// Notes the failure of an unreachable member, or of the probe of a refused one, if any. If the
    /// member rejects its token, the plugin or agent that gave it is called again, an agent also if
    /// the authorities differ.
    pub fn note_unreachable(&self, name: &ClusterName, failure: Option<FailureKind>) {
        if let Some(known) = self.renewals.get(name) {
            let rejected = match failure {
                Some(FailureKind::Unauthorized) => true,
                Some(FailureKind::Tls) => matches!(known.call, Call::Agent(_)),
                _ => false,
            };
            let changed = |was: &mut bool| std::mem::replace(was, rejected) != rejected;
            known.rejected.send_if_modified(changed);
        }
    }

    /// Whether the member rejects the last token.
    #[cfg(test)]
    pub(crate) fn is_rejected(&self, name: &ClusterName) -> bool {
        let known = self.renewals.get(name);
        known.is_some_and(|known| *known.rejected.borrow())
    }

    /// Returns what that call gave last; `None` while it runs for the first time.
    pub(super) fn renewed(
        &mut self,
        name: &ClusterName,
        call: Call,
    ) -> Option<Result<Given, Failure>> {
        let known = self.renewals.get(name).filter(|one| one.call == call);
        match known {
            Some(known) => known.last.clone(),
            None => {
                self.start_renewal(name, call);
                None
            }
        }
    }

    /// Returns the connection data of a member that its agent gives; `None` while it is asked for
    /// the first time.
    pub(super) fn agent_target(
        &mut self,
        name: &ClusterName,
    ) -> Result<Option<(Target, Token)>, ConfigurationError> {
        let front = self.credentials.tunnel_front.clone();
        let front = front.ok_or_else(|| invalid(TargetError::Tunnel))?;
        let call = Call::Agent(AgentCall {
            member: name.clone(),
            front,
            tls_dir: self.credentials.tunnel_tls_dir.clone(),
        });
        let Some(given) = self.renewed(name, call) else {
            return Ok(None);
        };
        let Given { token, target, .. } = given.map_err(ConfigurationError::AgentCredentials)?;
        Ok(target.map(|target| (target, token)))
    }

    /// Returns the outcome for a member whose agent is not reached; `None` if the error is another.
    /// A member that is engaged stays so: its token may be valid, and its probe decides. Until its
    /// agent has given a token, it is engaged as an earlier Cluster requested.
    pub(super) fn unreached(
        &mut self,
        name: &ClusterName,
        error: &ConfigurationError,
    ) -> Option<Outcome> {
        let ConfigurationError::AgentCredentials(failure) = error else {
            return None;
        };
        if !is_unreached(failure) {
            return None;
        }
        if self.engagements.contains_key(name) {
            let known = self.renewals.get(name);
            return Some(match known.is_some_and(|known| known.has_given) {
                true => Outcome::Unchanged,
                false => Outcome::Awaited,
            });
        }
        let next = self.generation + 1;
        let known = self.renewals.get_mut(name)?;
        let generation = *known.unreached.get_or_insert(next);
        self.generation = self.generation.max(generation);
        Some(Outcome::Unreached(generation, failure.clone()))
    }

    /// Ends the renewal of a member's credentials unless its Cluster or its ClusterProfile requests
    /// it. A Cluster with another UID may be another cluster, with an agent of its own.
    pub(super) fn end_unrequested_renewal(&mut self, name: &ClusterName) {
        let Some(known) = self.renewals.get(name) else {
            return;
        };
        let requests = |cluster: &api::Cluster| match known.call {
            Call::Agent(_) => is_by_agent(cluster) && cluster.metadata.uid == known.cluster_uid,
            // An unusable profile names no Secret, and ends nothing.
            Call::Plugin(_) => {
                self.profile_of(cluster).is_some() && self.reference_of(cluster).is_none()
            }
        };
        let cluster = self.clusters.get(name);
        let cluster = cluster.filter(|cluster| self.takes_part(name, cluster));
        let is_requested = cluster.is_some_and(requests);
        if !is_requested {
            self.renewals.remove(name);
        }
    }

    fn start_renewal(&mut self, name: &ClusterName, call: Call) {
        self.round += 1;
        // The member's state changes only if it accepts the next token.
        let replaced = self.renewals.get(name);
        let cluster = self.clusters.get(name);
        let is_rejected = replaced.is_some_and(|replaced| *replaced.rejected.borrow());
        let (rejected, receiver) = watch::channel(is_rejected);
        let places = match &call {
            Call::Plugin(plugin) => {
                let of_program = self.plugin_places.entry(plugin.command.clone());
                let places = || Arc::new(Semaphore::new(PLUGINS_AT_ONCE));
                of_program.or_insert_with(places).clone()
            }
            Call::Agent(_) => self.agent_places.clone(),
        };
        let renewal = Renewal {
            member: name.clone(),
            call: call.clone(),
            round: self.round,
            events: self.events.clone(),
            rejected: receiver,
            places,
        };
        // Programs are started, and handshakes made, beside the thread of changes.
        let _threads = self
            .settings
            .watch
            .long_lists
            .as_ref()
            .map(|threads| threads.enter());
        let credentials = RenewedCredentials {
            call,
            cluster_uid: cluster.and_then(|cluster| cluster.metadata.uid.clone()),
            round: self.round,
            last: None,
            has_given: false,
            rejected,
            unreached: None,
            task: self.tasks.spawn_job("credentials", renewal.run()),
        };
        self.renewals.insert(name.clone(), credentials);
    }
}

#[cfg(test)]
mod tests;
