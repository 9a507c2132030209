//! `kubectl mcs confirm-deletions`: confirms the suspended deletions of a cluster for a user.

use causeway::api::condition::{DELETIONS_SUSPENDED, READY, TRUE};
use causeway::api::{Cluster, labels};
use causeway::domain::ClusterName;
use causeway_engine::reasons::Reason;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use k8s_openapi::jiff::SignedDuration;
use kube::Api;
use tokio::time::Instant;

use crate::args::ConfirmDeletionsArgs;
use crate::cluster::access::HubArgs;
use crate::cluster::api_server::{ApiServer, RequestError};
use crate::cluster::conditions::Conditions as _;
use crate::cluster::lease;
use crate::cluster::objects::Run;
use crate::cluster::wait::{self, TimedOut};
use crate::commands::membership::hub::{self, HubError, annotate};
use crate::term::exit::{CommandError, Failure, PROBLEM, UNKNOWN};
use crate::term::output;

/// Failed confirmation of suspended deletions.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConfirmDeletionsError {
    #[error(
        "deletions of {0} are confirmed, but this hub does not show whether any are still \
         suspended, so they are not waited for"
    )]
    NotKnown(ClusterName),
    #[error(
        "deletions of {name} are confirmed, but it is unknown whether any are still suspended after {seconds} s{late}; \
         you need the right to watch clusters"
    )]
    NotRead {
        name: ClusterName,
        seconds: u64,
        late: TimedOut,
    },
    #[error(
        "deletions of {name} are still suspended after {seconds} s: {message}; check that causeway-controller runs and that \
         {name} answers (kubectl mcs status). A cluster that does not answer is taken out of use by kubectl mcs drain {name}"
    )]
    Suspended {
        name: ClusterName,
        seconds: u64,
        message: String,
    },
}

impl CommandError for ConfirmDeletionsError {
    fn exit_code(&self) -> u8 {
        match self {
            Self::NotKnown(_) | Self::NotRead { .. } => UNKNOWN,
            _ => PROBLEM,
        }
    }
}

/// State of a Cluster's deletions in its status.
#[derive(Debug, PartialEq, Eq)]
enum Deletions<'a> {
    /// The controller suspended deletions, with the message of the condition.
    Suspended(&'a str),
    /// The controller suspended no deletions.
    NoneSuspended,
    /// Karmada writes the status of the Cluster, or the status is empty.
    Unknown,
}

impl<'a> Deletions<'a> {
    fn of(cluster: &'a Cluster) -> Self {
        match cluster.condition(DELETIONS_SUSPENDED) {
            Some(suspended) if suspended.status == TRUE => Self::Suspended(&suspended.message),
            Some(_) => Self::NoneSuspended,
            None if cluster.condition(READY).is_some_and(by_causeway) => Self::NoneSuspended,
            None => Self::Unknown,
        }
    }
}

/// Whether causeway writes the Cluster's status. Karmada uses other reasons.
fn by_causeway(ready: &Condition) -> bool {
    matches!(
        Reason::of(&ready.reason),
        Some(Reason::Synced | Reason::Syncing | Reason::Unreachable | Reason::Refused)
    )
}

/// Confirms the suspended deletions of a cluster and waits for the controller.
pub(crate) async fn run(hub: &HubArgs, args: &ConfirmDeletionsArgs) -> Result<(), Failure> {
    let name = hub::cluster_name(&args.name)?;
    let hub = ApiServer::hub(hub).await?;
    let clusters: Api<Cluster> = hub.all();
    let found = hub.found(clusters.get_opt(name.as_str())).await?;
    let found = found.ok_or_else(|| hub.not_served("Cluster"))?;
    let cluster = found.ok_or_else(|| HubError::NotJoined(name.clone()))?;
    match Deletions::of(&cluster) {
        Deletions::NoneSuspended => {
            output::result(format_args!("no deletions of {name} are suspended"))?;
            return Ok(());
        }
        Deletions::Suspended(words) => output::progress(format_args!("{name}: {words}"))?,
        Deletions::Unknown => output::progress(format_args!(
            "note: this hub does not show whether deletions of {name} are suspended; \
             the metric causeway_controller_deletions_suspended does"
        ))?,
    }
    mark(&hub, &name, Run::of(args.dry_run)).await?;
    let dry_run = if args.dry_run { " (dry run)" } else { "" };
    output::result(format_args!(
        "hub: deletions of cluster.cluster.karmada.io/{name} confirmed{dry_run}"
    ))?;
    match (args.waiting.wait, Deletions::of(&cluster)) {
        (false, _) => Ok(()),
        (true, Deletions::Unknown) => Err(ConfirmDeletionsError::NotKnown(name).into()),
        (true, _) => none_suspended(clusters, &name, args).await,
    }
}

/// Sets the confirmation annotation to the current time of the hub, which reports whole seconds:
/// deletions of the same second count too.
async fn mark(hub: &ApiServer, name: &ClusterName, run: Run) -> Result<(), Failure> {
    let now = lease::now(hub).await;
    let now = now.checked_add(SignedDuration::from_secs(1)).unwrap_or(now);
    let now = now.to_string();
    match annotate(hub, name, labels::CONFIRM_DELETIONS, Some(&now), run).await {
        Err(RequestError::NotFound { .. }) => Err(HubError::NotJoined(name.clone()).into()),
        annotated => Ok(annotated?),
    }
}

/// Waits until the controller reports no suspended deletions.
async fn none_suspended(
    clusters: Api<Cluster>,
    name: &ClusterName,
    args: &ConfirmDeletionsArgs,
) -> Result<(), Failure> {
    let mut message = String::new();
    let look = |cluster: Option<&Cluster>| match cluster.map(Deletions::of) {
        Some(Deletions::Suspended(words)) => {
            message = words.to_owned();
            None
        }
        Some(Deletions::NoneSuspended) => Some(true),
        Some(Deletions::Unknown) => None,
        None => Some(false),
    };
    let deadline = Instant::now() + args.waiting.timeout;
    match wait::until(clusters, name.as_str(), deadline, look).await {
        Ok(true) => Ok(output::result(format_args!(
            "no deletions of {name} are suspended any more"
        ))?),
        Ok(false) => Err(HubError::NotJoined(name.clone()).into()),
        Err(late) => {
            let (name, seconds) = (name.clone(), args.waiting.timeout.as_secs());
            let error = match late.is_unread() {
                true => ConfirmDeletionsError::NotRead {
                    name,
                    seconds,
                    late,
                },
                false => ConfirmDeletionsError::Suspended {
                    name,
                    seconds,
                    message,
                },
            };
            Err(error.into())
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::fixtures::{cluster, condition, ready};

    #[test]
    fn whether_deletions_are_suspended_is_in_the_condition_and_unknown_on_hubs_that_causeway_does_not_keep()
     {
        let words = "its last list lacks 12 objects that were there";
        let synced = || ready("True", "Synced", "watched");
        let suspended = condition(DELETIONS_SUSPENDED, "True", "DeletionsSuspended", words);
        let none = condition(
            DELETIONS_SUSPENDED,
            "False",
            "NoDeletionsSuspended",
            "nothing",
        );
        for (conditions, deletions) in [
            (json!([synced(), suspended]), Deletions::Suspended(words)),
            (json!([synced(), none]), Deletions::NoneSuspended),
            (json!([synced()]), Deletions::NoneSuspended),
            (
                json!([ready("True", "ClusterReady", "")]),
                Deletions::Unknown,
            ),
            (json!([]), Deletions::Unknown),
        ] {
            assert_eq!(
                Deletions::of(&cluster("a", conditions.clone())),
                deletions,
                "{conditions}"
            );
        }
    }
}
