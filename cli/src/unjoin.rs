//! `kubectl mcs unjoin`: the Cluster goes, the controller cleans the member, then the credentials go.

use std::fmt::Display;

use causeway::api::{Cluster, MultiClusterService, condition};
use causeway::domain::{self, ClusterName};
use kube::api::ListParams;
use kube::{Api, ResourceExt as _};
use tokio::time::Instant;

use crate::api_server::{ApiServer, RequestError};
use crate::args::{HubArgs, UnjoinArgs};
use crate::definitions::{self, DefinitionError};
use crate::hub::{self, HubError};
use crate::join::{self, JoinError};
use crate::member::{self, MemberError};
use crate::objects::{self, ObjectError};
use crate::output::OutputError;
use crate::wait::TimedOut;
use crate::{output, wait};

/// A cluster could not be taken out.
#[derive(Debug, thiserror::Error)]
pub(crate) enum UnjoinError {
    #[error(transparent)]
    Name(#[from] JoinError),
    #[error(transparent)]
    Request(#[from] RequestError),
    #[error(transparent)]
    Hub(#[from] HubError),
    #[error(transparent)]
    Member(#[from] MemberError),
    #[error(transparent)]
    Definition(#[from] DefinitionError),
    #[error(transparent)]
    Object(#[from] ObjectError),
    #[error(transparent)]
    Output(#[from] OutputError),
    #[error("{0} is not joined; kubectl mcs status lists the members")]
    NotJoined(ClusterName),
    #[error(
        "the member's kubeconfig is of another cluster than {name} (kube-system UID {given}, {name} has {known}); \
         name the right one, or leave it out if {name} was rebuilt"
    )]
    AnotherCluster {
        name: ClusterName,
        known: String,
        given: String,
    },
    #[error(
        "the controller has not finished the cleanup of {name} within {seconds} s{late} (finalizers: {finalizers}); check that \
         causeway-controller is running and run this again, or remove the finalizers without a cleanup: \
         kubectl patch cluster {name} --type=merge -p '{{\"metadata\":{{\"finalizers\":null}}}}'"
    )]
    NotCleaned {
        name: ClusterName,
        seconds: u64,
        finalizers: String,
        late: TimedOut,
    },
}

/// Takes a cluster out of the hub.
pub(crate) async fn run(hub: &HubArgs, args: &UnjoinArgs) -> Result<(), UnjoinError> {
    let name = join::cluster_name(&args.name)?;
    let hub = ApiServer::hub(hub).await?;
    hub::check_cluster_api(&hub).await?;
    let member = match &args.member_kubeconfig {
        Some(path) => Some(ApiServer::member(path, args.member_context.as_deref()).await?),
        None => None,
    };
    let cluster = hub::bare_cluster(&name)?;
    let stored = objects::get(&hub, &cluster).await?;
    if let (Some(member), Some(known)) = (&member, stored.as_ref().and_then(hub::recorded_id)) {
        let given = member.uid().await?;
        if given != known {
            return Err(UnjoinError::AnotherCluster {
                name,
                known: known.to_owned(),
                given,
            });
        }
    }
    let mut found = stored.is_some();
    if found && objects::delete(&hub, &cluster).await? {
        let unready = gone(&hub, &name, args).await?;
        output::result(format_args!("hub: {} deleted", objects::title(&cluster)))?;
        if !unready.is_empty() {
            report_left(&hub, &name, &unready).await?;
        }
    }
    found |= hub::forget_credentials(&hub, &name).await?;
    if !found && member.is_none() {
        return Err(UnjoinError::NotJoined(name));
    }
    match member {
        Some(member) => {
            member::revoke(&member, &hub.uid().await?).await?;
            definitions::report_left(&member).await?;
        }
        None => output::result(format_args!(
            "member: causeway's account and its rights remain; to delete them, run \
             kubectl mcs unjoin {name} --member-kubeconfig FILE"
        ))?,
    }
    report_services(&hub, &name).await
}

/// Waits until the controller has let go of the Cluster; why the member could not be cleaned, if it was not ready at the end.
async fn gone(
    hub: &ApiServer,
    name: &ClusterName,
    args: &UnjoinArgs,
) -> Result<String, UnjoinError> {
    let mut last = None;
    let mut finalizers = String::new();
    let mut shown = Ok(());
    let clusters: Api<Cluster> = Api::all(hub.client.clone());
    let deadline = Instant::now() + args.timeout;
    let is_gone = wait::until(clusters, name.as_str(), deadline, |cluster| {
        let Some(cluster) = cluster.filter(|cluster| cluster.metadata.deletion_timestamp.is_some())
        else {
            return Some(());
        };
        finalizers = cluster.finalizers().join(", ");
        let now = cleaning(cluster);
        if last.as_ref() != Some(&now) && shown.is_ok() {
            shown = output::progress(format_args!("waiting for the cleanup of {name}{now}"));
        }
        last = Some(now);
        None
    });
    let is_gone = is_gone.await;
    shown?;
    let seconds = args.timeout.as_secs();
    is_gone.map_err(|late| UnjoinError::NotCleaned {
        name: name.clone(),
        seconds,
        finalizers,
        late,
    })?;
    Ok(last.unwrap_or_default())
}

/// Names the way to what the controller had to leave.
pub(crate) async fn report_left(
    hub: &ApiServer,
    name: impl Display,
    why: &str,
) -> Result<(), OutputError> {
    output::result(format_args!(
        "note: {name} could not be cleaned up{why}; what causeway wrote there remains. When it can be reached, join and unjoin it again, or \
         run there: {}",
        hub::leftovers_command(hub).await
    ))
}

/// Why a member cannot be cleaned now, to be said after a word; empty where it can.
pub(crate) fn cleaning(cluster: &Cluster) -> String {
    let conditions = cluster
        .status
        .as_ref()
        .map(|status| status.conditions.as_slice())
        .unwrap_or_default();
    let ready = condition::find(conditions, condition::READY)
        .filter(|ready| ready.status != condition::TRUE);
    ready
        .map(|ready| format!(": {} ({})", ready.reason, ready.message))
        .unwrap_or_default()
}

/// Reports the services that still name the cluster.
async fn report_services(hub: &ApiServer, name: &ClusterName) -> Result<(), UnjoinError> {
    let services: Api<MultiClusterService> = Api::all(hub.client.clone());
    let services = match hub.request(services.list(&ListParams::default())).await {
        Ok(list) => list.items,
        Err(RequestError::NotFound { .. } | RequestError::NotAllowed { .. }) => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    for service in services.iter().filter(|service| names(service, name)) {
        let (namespace, service) = (service.namespace().unwrap_or_default(), service.name_any());
        output::result(format_args!(
            "note: MultiClusterService {namespace}/{service} still names {name}"
        ))?;
    }
    Ok(())
}

fn names(service: &MultiClusterService, name: &ClusterName) -> bool {
    domain::MultiClusterService::try_from(service).is_ok_and(|desired| {
        desired
            .providers
            .named()
            .chain(desired.consumers.named())
            .any(|named| named == name)
    })
}
