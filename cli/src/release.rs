//! `kubectl mcs release`: a person says that what a cluster's lists lack, and is kept because that was not believed, is gone.

use causeway::api::condition::{self, FALSE, LISTS_BELIEVED, reason};
use causeway::api::{Cluster, labels};
use causeway::domain::ClusterName;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use k8s_openapi::jiff::Timestamp;
use kube::Api;
use tokio::time::Instant;

use crate::args::{HubArgs, ReleaseArgs};
use crate::ask::{ApiServer, AskError};
use crate::follow;
use crate::hub::{HubError, annotate};
use crate::join::{self, JoinError};
use crate::say;
use crate::say::OutputError;

/// What is held could not be released.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReleaseError {
    #[error(transparent)]
    Name(#[from] JoinError),
    #[error(transparent)]
    Ask(#[from] AskError),
    #[error(transparent)]
    Hub(#[from] HubError),
    #[error(transparent)]
    Output(#[from] OutputError),
    #[error("{0} is not joined; kubectl mcs status lists the members")]
    NotJoined(ClusterName),
    #[error(
        "what the lists of {name} lack is still held after {seconds} s{late}: {held}; check that causeway-controller runs and that \
         {name} answers (kubectl mcs status). A cluster that does not answer is taken out of use by kubectl mcs drain {name}"
    )]
    Held {
        name: ClusterName,
        seconds: u64,
        late: String,
        held: String,
    },
}

/// What is known of the losses of a cluster.
#[derive(Debug, PartialEq, Eq)]
enum Losses<'a> {
    /// Some are held: the controller's words.
    Held(&'a str),
    /// None is held.
    None,
    /// The hub's Clusters are not causeway's to keep, or nothing was said yet.
    Untold,
}

impl<'a> Losses<'a> {
    fn of(cluster: &'a Cluster) -> Self {
        let status = cluster.status.as_ref();
        let conditions = status.map(|status| &*status.conditions).unwrap_or_default();
        match condition::find(conditions, LISTS_BELIEVED) {
            Some(believed) if believed.status == FALSE => Self::Held(&believed.message),
            Some(_) => Self::None,
            None if condition::find(conditions, condition::READY).is_some_and(by_causeway) => {
                Self::None
            }
            None => Self::Untold,
        }
    }
}

/// Whether causeway keeps the Cluster's status: Karmada has other reasons.
fn by_causeway(ready: &Condition) -> bool {
    let reasons = [
        reason::SYNCED,
        reason::SYNCING,
        reason::UNREACHABLE,
        reason::REFUSED,
    ];
    reasons.contains(&&*ready.reason)
}

/// Releases what is held.
pub(crate) async fn run(hub: &HubArgs, args: &ReleaseArgs) -> Result<(), ReleaseError> {
    let name = join::cluster_name(&args.name)?;
    let hub = ApiServer::hub(hub).await?;
    let clusters: Api<Cluster> = Api::all(hub.client.clone());
    let found = hub.ask(clusters.get_opt(name.as_str())).await;
    let cluster = match found {
        Ok(found) => found.ok_or_else(|| ReleaseError::NotJoined(name.clone()))?,
        Err(AskError::NotFound { .. }) => return Err(HubError::NoClusterApi.into()),
        Err(error) => return Err(error.into()),
    };
    match Losses::of(&cluster) {
        Losses::None => {
            say::result(format_args!("nothing of {name} is held"))?;
            return Ok(());
        }
        Losses::Held(words) => say::progress(format_args!("of {name} is held: {words}"))?,
        Losses::Untold => say::progress(format_args!(
            "note: whether anything of {name} is held is not told on this hub; \
             the metric causeway_controller_withdrawals_held says it"
        ))?,
    }
    mark(&hub, &name, args.dry_run).await?;
    let dry_run = if args.dry_run { " (dry run)" } else { "" };
    say::result(format_args!(
        "hub: cluster.cluster.karmada.io/{name} released{dry_run}"
    ))?;
    if args.waiting.wait && Losses::of(&cluster) != Losses::Untold {
        released(clusters, &name, args).await?;
    }
    Ok(())
}

/// Writes down the time.
async fn mark(hub: &ApiServer, name: &ClusterName, dry_run: bool) -> Result<(), ReleaseError> {
    let now = Timestamp::now().to_string();
    match annotate(hub, name, labels::RELEASE, Some(&now), dry_run).await {
        Ok(()) => Ok(()),
        Err(AskError::NotFound { .. }) => Err(ReleaseError::NotJoined(name.clone())),
        Err(error) => Err(error.into()),
    }
}

/// Waits until the controller says that nothing is held.
async fn released(
    clusters: Api<Cluster>,
    name: &ClusterName,
    args: &ReleaseArgs,
) -> Result<(), ReleaseError> {
    let mut held = String::new();
    let look = |cluster: Option<&Cluster>| match cluster.map(Losses::of) {
        Some(Losses::Held(words)) => {
            held = words.to_owned();
            None
        }
        Some(_) => Some(true),
        None => Some(false),
    };
    let deadline = Instant::now() + args.waiting.timeout;
    match follow::one(clusters, name.as_str(), deadline, look).await {
        Ok(true) => Ok(say::result(format_args!(
            "nothing of {name} is held any more"
        ))?),
        Ok(false) => Err(ReleaseError::NotJoined(name.clone())),
        Err(late) => Err(ReleaseError::Held {
            name: name.clone(),
            seconds: args.waiting.timeout.as_secs(),
            late: late.to_string(),
            held,
        }),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::status::fixtures::{cluster, condition, ready};

    #[test]
    fn what_is_held_is_told_by_the_condition_and_unknown_on_hubs_that_causeway_does_not_keep() {
        let words = "its last list lacks 12 objects that were there";
        let synced = || ready("True", "Synced", "watched");
        let held = condition(LISTS_BELIEVED, "False", "LossHeld", words);
        let believed = condition(LISTS_BELIEVED, "True", "Believed", "nothing");
        for (conditions, losses) in [
            (json!([synced(), held]), Losses::Held(words)),
            (json!([synced(), believed]), Losses::None),
            (json!([synced()]), Losses::None),
            (json!([ready("True", "ClusterReady", "")]), Losses::Untold),
            (json!([]), Losses::Untold),
        ] {
            assert_eq!(
                Losses::of(&cluster("a", conditions.clone())),
                losses,
                "{conditions}"
            );
        }
    }
}
