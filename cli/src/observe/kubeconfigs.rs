//! Connections to members by kubeconfigs of the user, in place of the credentials on the hub.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use causeway::api::Cluster;
use causeway::domain::ClusterName;
use causeway::target::is_tunnelled;
use kube::ResourceExt as _;
use kube::api::ListParams;

use crate::cluster::access::{HubArgs, MembersArgs, Side};
use crate::cluster::api_server::{ApiServer, RequestError, allowed, root_cause};
use crate::cluster::identity::check_identity;
use crate::cluster::kubeconfig::{MemberContext, MemberKubeconfigs};
use crate::cluster::tunnel::front;

/// Time after which a tunnelled member that does not answer at the address of its kubeconfig is
/// reached through causeway-tunnel.
const DIRECT_WITHIN: Duration = Duration::from_secs(2);

/// Connects to the hub, and reads the kubeconfigs of members that the user gives.
///
/// # Errors
/// [`RequestError`] if one is unusable, or if it is of a member that is not joined.
pub(crate) async fn hub(args: &HubArgs, members: &MembersArgs) -> Result<ApiServer, RequestError> {
    let hub = ApiServer::hub(args).await?;
    let unusable = |why| RequestError::Kubeconfig {
        side: Side::Member,
        why,
    };
    let given = MemberKubeconfigs::read(members, args.kubeconfig.as_deref());
    let given = given.map_err(|error| unusable(error.to_string()))?;
    if !given.is_empty() {
        let all = ListParams::default();
        let list = hub.list_metadata::<Cluster>(hub.all(), &all).await;
        // Without the right to list Clusters no member is read.
        let list = allowed(list)?;
        let joined: BTreeSet<_> = list.iter().flatten().map(|one| one.name_any()).collect();
        if list.is_some() {
            let mut named = given.named();
            if let Some(unknown) = named.find(|one| !joined.contains(*one)) {
                return Err(RequestError::NotJoined(unknown.clone()));
            }
            given
                .without_members(&joined)
                .map_or(Ok(()), |why| Err(unusable(why)))?;
        }
    }
    Ok(ApiServer {
        members: Arc::new(given),
        ..hub
    })
}

/// Connects to a member with the user's rights, and checks that it is the member of the hub. A
/// tunnelled member that does not answer at its address is reached through causeway-tunnel.
///
/// # Errors
/// The reason, as text.
pub(crate) async fn connect(
    hub: &ApiServer,
    cluster: &Cluster,
    given: &MemberContext,
) -> Result<ApiServer, String> {
    let name = cluster.name_any();
    let member = ApiServer::member(given.path.as_deref(), given.context.as_deref()).await;
    let member = member
        .map_err(|error| format!("{error}; name its context with --member {name}=CONTEXT"))?;
    let (member, uid) = match is_tunnelled(cluster) {
        false => {
            let uid = member.uid().await.map_err(|error| error.to_string())?;
            (member, uid)
        }
        true => direct_or_tunnelled(hub, &name, member).await?,
    };
    let checked = check_identity(&name, cluster.spec.id.as_deref(), &uid);
    checked.map_err(|why| {
        let of = given.context.as_ref();
        let of = of.map_or("the current context".to_owned(), |one| {
            format!("context {one}")
        });
        format!("{of} is of {why}; name the right one with --member {name}=CONTEXT")
    })?;
    Ok(member)
}

/// Returns the connection by which a tunnelled member answers, and its UID.
async fn direct_or_tunnelled(
    hub: &ApiServer,
    name: &str,
    member: ApiServer,
) -> Result<(ApiServer, String), String> {
    let direct = tokio::time::timeout(DIRECT_WITHIN, member.uid()).await;
    let why = match direct.unwrap_or_else(|_| Err(member.late())) {
        Ok(uid) => return Ok((member, uid)),
        Err(why @ RequestError::Unreachable { .. }) => why,
        Err(other) => return Err(other.to_string()),
    };
    let tunnelled = async {
        let front = front::front(hub).await?;
        let member_name = ClusterName::try_from(name).map_err(|why| why.to_string())?;
        let to = member.config.cluster_url.clone();
        // The client of a kubeconfig does not return the reason of a refusal.
        let stream = front.connect(&member_name, to).await;
        drop(stream.map_err(|why| root_cause(&why))?);
        let mut config = member.config.clone();
        config.proxy_url = Some(front.proxy_url(&member_name));
        let member = ApiServer::new(Side::Member, config).map_err(|why| why.to_string())?;
        let uid = member.uid().await.map_err(|why| why.to_string())?;
        Ok((member, uid))
    };
    let tunnelled = tunnelled.await;
    tunnelled.map_err(|through: String| format!("{why}; nor through causeway-tunnel, {through}"))
}
