//! `kubectl mcs tunnel remove`: has the hub dial a member of Karmada again, and deletes the agent
//! of this hub from it.

use causeway::api::Cluster;
use causeway::domain::ClusterName;
use causeway::domain::protected::DEFAULT_NAMESPACE;
use kube::ResourceExt as _;

use super::change::{self, ChangeError};
use crate::args::TunnelRemoveArgs;
use crate::cluster::access::HubArgs;
use crate::cluster::api_server::ApiServer;
use crate::cluster::identity;
use crate::cluster::objects::{self, Run};
use crate::commands::membership::hub;
use crate::commands::membership::member::agent;
use crate::observe::once;
use crate::term::exit::Failure;
use crate::term::output::{self, OutputError};

/// Removes a member from the tunnel. A Cluster that is gone leaves an agent, which is deleted too.
pub(super) async fn run(hub: &HubArgs, args: &TunnelRemoveArgs) -> Result<(), Failure> {
    let name = hub::cluster_name(&args.name)?;
    let hub = ApiServer::hub(hub).await?;
    let member = change::member(&args.member).await?;
    let cluster = change::read(&hub, &name).await?;
    if change::is_joined(&hub, &name, cluster.as_ref()).await? {
        return Err(ChangeError::OfJoin(name).into());
    }
    if cluster.is_none() && member.is_none() {
        return Err(ChangeError::Absent(name).into());
    }
    if let Some(member) = &member {
        check_identity(&hub, &name, &member.uid().await?).await?;
    }
    let run = args.dry_run.is_none().then_some(Run::Real);
    if let Some(cluster) = &cluster {
        output::result(change::choose_tunnel(&hub, &name, (cluster, false), run).await?)?;
    }
    match &member {
        Some(member) => delete(&hub, member, run).await?,
        None => output::result(format_args!(
            "member: its agent remains; to delete it, run this again with --member-kubeconfig or, \
             in the member: kubectl -n {DEFAULT_NAMESPACE} delete deployment/causeway-agent \
             secret/causeway-agent"
        ))?,
    }
    match cluster {
        Some(cluster) if run.is_some() => Ok(note_endpoint(&name, &cluster)?),
        _ => Ok(()),
    }
}

/// Checks that the cluster with this UID is the member of that name, and no other of the hub.
async fn check_identity(hub: &ApiServer, name: &ClusterName, uid: &str) -> Result<(), Failure> {
    for cluster in once::clusters(hub).await?.unwrap_or_default() {
        let (other, id) = (cluster.name_any(), cluster.spec.id.as_deref());
        if other == name.as_str() {
            let checked = identity::check_identity(&other, id, uid);
            checked.map_err(ChangeError::AnotherCluster)?;
        } else if id == Some(uid) {
            return Err(ChangeError::IsAnother { other }.into());
        }
    }
    Ok(())
}

/// Deletes the objects of this hub's agent, or prints them.
async fn delete(hub: &ApiServer, member: &ApiServer, run: Option<Run>) -> Result<(), Failure> {
    for object in agent::owned(member, &hub.uid().await?).await? {
        objects::remove_with(member, &object, run.unwrap_or(Run::Dry)).await?;
    }
    Ok(output::result(format_args!(
        "member: namespace/{DEFAULT_NAMESPACE} kept; delete it if it is empty"
    ))?)
}

fn note_endpoint(name: &ClusterName, cluster: &Cluster) -> Result<(), OutputError> {
    let endpoint = cluster.spec.api_endpoint.as_deref().unwrap_or_default();
    let proxy = cluster.spec.proxy_url.as_ref();
    let by = proxy.map_or("", |_| " through the proxy of spec.proxyURL");
    output::result(format_args!(
        "the hub dials {name} from now on, at {endpoint}{by}"
    ))
}
