//! Connections to members by kubeconfigs of the user, in place of the credentials on the hub.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use causeway::api::Cluster;
use causeway::domain::ClusterName;
use causeway::target::is_tunnelled;
use futures::{FutureExt as _, TryFutureExt as _};
use http::Uri;
use kube::ResourceExt as _;
use kube::api::ListParams;
use tokio::time::{Instant, timeout};

use crate::cluster::access::{HubArgs, MembersArgs, Side};
use crate::cluster::api_server::{ApiServer, MemberClient, RequestError, allowed, root_cause};
use crate::cluster::identity::check_identity;
use crate::cluster::kubeconfig::{MemberContext, MemberKubeconfigs};
use crate::cluster::tunnel::front;

/// Time after which a tunnelled member that does not answer at the address of its kubeconfig is
/// reached through causeway-tunnel.
const DIRECT_WITHIN: Duration = Duration::from_secs(2);
/// Maximum time of the credential plugin of a member's kubeconfig. A user may have to log in.
const PLUGIN_WITHIN: Duration = Duration::from_secs(60);
/// Age from which a failure replaces a client: the kubeconfig or the credentials may have changed.
const RENEW_AFTER: Duration = Duration::from_secs(60);

/// Connects to the hub, and reads the kubeconfigs of members that the user gives.
///
/// # Errors
/// [`RequestError`] if one is unusable, or if it is of a member that is not joined.
pub(crate) async fn hub(args: &HubArgs, members: &MembersArgs) -> Result<ApiServer, RequestError> {
    let hub = hub_of_any(args, members).await?;
    let given = &hub.members;
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
    Ok(hub)
}

/// Connects to the hub, and reads the kubeconfigs of members that the user gives, joined or not.
///
/// # Errors
/// [`RequestError`] if one is unusable.
pub(crate) async fn hub_of_any(
    args: &HubArgs,
    members: &MembersArgs,
) -> Result<ApiServer, RequestError> {
    let hub = ApiServer::hub(args).await?;
    let given = MemberKubeconfigs::read(members, args.kubeconfig.as_deref());
    let given = given.map_err(|error| unusable(error.to_string()))?;
    Ok(ApiServer {
        members: Arc::new(given),
        ..hub
    })
}

fn unusable(why: String) -> RequestError {
    let side = Side::Member;
    RequestError::Kubeconfig { side, why }
}

/// Connects to a member with the user's rights, and checks that it is the member of the hub. A
/// tunnelled member that does not answer at its address is reached through causeway-tunnel.
///
/// Each request has the time `within`. The client is created once and reused until an attempt fails
/// while the client is older than [`RENEW_AFTER`]. Its creation may take [`PLUGIN_WITHIN`].
///
/// # Errors
/// The reason, as text.
pub(crate) async fn connect(
    hub: &ApiServer,
    cluster: &Cluster,
    given: &MemberContext,
    within: Duration,
) -> Result<ApiServer, String> {
    let connected = checked(hub, cluster, given, within).await;
    if connected.is_err() {
        drop_outdated(hub, &cluster.name_any()).await;
    }
    connected
}

/// Connects to a member, and checks that it is the member of the hub.
async fn checked(
    hub: &ApiServer,
    cluster: &Cluster,
    given: &MemberContext,
    within: Duration,
) -> Result<ApiServer, String> {
    let name = cluster.name_any();
    let (of, context) = (name.clone(), given.clone());
    let creation = async move {
        let member = ApiServer::member(context.path.as_deref(), context.context.as_deref()).await;
        member.map_err(|error| format!("{error}; name its context with --member {of}=CONTEXT"))
    };
    let member = client(hub, &name, false, creation).await?;
    let (member, uid) = match is_tunnelled(cluster) {
        false => {
            let uid = uid(&member, within).await;
            (member, uid.map_err(|error| error.to_string())?)
        }
        true => direct_or_tunnelled(hub, &name, member, within).await?,
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

/// Returns the client of a member, and creates it on first use. A creation that takes too long
/// goes on, and later calls wait for it, so a plugin never runs twice at a time.
async fn client(
    hub: &ApiServer,
    name: &str,
    is_tunnelled: bool,
    creation: impl Future<Output = Result<ApiServer, String>> + Send + 'static,
) -> Result<ApiServer, String> {
    let mut clients = hub.member_clients.lock().await;
    let client = clients.entry((name.to_owned(), is_tunnelled));
    let creation = creation.map_ok(|member| (Instant::now(), member));
    let client = client.or_insert_with(|| creation.boxed().shared()).clone();
    drop(clients);
    let created = timeout(PLUGIN_WITHIN, client).await.map_err(|_| {
        let seconds = PLUGIN_WITHIN.as_secs();
        format!("the credential plugin of its kubeconfig did not end within {seconds} s")
    })?;
    created.map(|(_, member)| member)
}

/// Drops the failed creations of clients of a member, and its clients older than [`RENEW_AFTER`].
async fn drop_outdated(hub: &ApiServer, name: &str) {
    let is_outdated = |client: &MemberClient| match client.peek() {
        Some(Ok((created, _))) => created.elapsed() > RENEW_AFTER,
        Some(Err(_)) => true,
        // The creation is in progress.
        None => false,
    };
    let mut clients = hub.member_clients.lock().await;
    clients.retain(|(of, _), client| of != name || !is_outdated(client));
}

async fn uid(member: &ApiServer, within: Duration) -> Result<String, RequestError> {
    let member = ApiServer {
        answer_within: within.min(member.answer_within),
        ..member.clone()
    };
    member.uid().await
}

/// Returns the connection by which a tunnelled member answers, and its UID.
async fn direct_or_tunnelled(
    hub: &ApiServer,
    name: &str,
    member: ApiServer,
    within: Duration,
) -> Result<(ApiServer, String), String> {
    let why = match uid(&member, DIRECT_WITHIN.min(within)).await {
        Ok(uid) => return Ok((member, uid)),
        Err(why @ RequestError::Unreachable { .. }) => why,
        Err(other) => return Err(other.to_string()),
    };
    let tunnelled = tunnelled(hub, name, &member, within).await;
    tunnelled.map_err(|through| format!("{why}; nor through causeway-tunnel, {through}"))
}

/// Returns the connection to a member through causeway-tunnel, and its UID.
async fn tunnelled(
    hub: &ApiServer,
    name: &str,
    member: &ApiServer,
    within: Duration,
) -> Result<(ApiServer, String), String> {
    let proxy = proxy(hub, name, member.config.cluster_url.clone());
    let proxy = timeout(within, proxy).await;
    let proxy = proxy.map_err(|_| format!("no answer within {} s", within.as_secs()))??;
    let mut config = member.config.clone();
    config.proxy_url = Some(proxy);
    let creation = async move {
        let member = ApiServer::member_of(config).await;
        member.map_err(|why| why.to_string())
    };
    let member = client(hub, name, true, creation).await?;
    let uid = uid(&member, within).await;
    let uid = uid.map_err(|why| why.to_string())?;
    Ok((member, uid))
}

/// Returns the proxy to a member, once the front of causeway-tunnel has reached the member.
async fn proxy(hub: &ApiServer, name: &str, to: Uri) -> Result<Uri, String> {
    let front = front::front(hub).await?;
    let member = ClusterName::try_from(name).map_err(|why| why.to_string())?;
    // The client of a kubeconfig does not return the reason of a refusal.
    let stream = front.connect(&member, to).await;
    drop(stream.map_err(|why| root_cause(&why))?);
    Ok(front.proxy_url(&member))
}

#[cfg(test)]
mod tests {
    use std::future::ready;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::fixtures::{answering, synced, unreachable};

    /// Returns a member that rejects all credentials.
    fn rejecting() -> ApiServer {
        let status = r#"{"kind":"Status","apiVersion":"v1","status":"Failure","code":401}"#;
        answering(Side::Member, move |_| (401, status))
    }

    #[tokio::test]
    async fn failed_creation_is_repeated_and_a_client_is_reused() {
        let (hub, created) = (unreachable(Side::Hub), Arc::new(AtomicUsize::new(0)));
        let connect = async |outcome: Result<ApiServer, String>| {
            let created = created.clone();
            let creation = async move {
                created.fetch_add(1, Ordering::Relaxed);
                outcome
            };
            client(&hub, "a", false, creation).await
        };
        let created = || created.load(Ordering::Relaxed);
        for failures in 1..3 {
            let failed = connect(Err("failed".to_owned())).await;
            assert_eq!(failed.err().as_deref(), Some("failed"));
            assert_eq!(created(), failures);
            drop_outdated(&hub, "a").await;
        }
        for _ in 0..2 {
            let member = unreachable(Side::Member);
            connect(Ok(member)).await.expect("a client");
            assert_eq!(created(), 3);
        }
    }

    #[tokio::test]
    async fn failure_drops_a_client_older_than_a_minute() {
        let given = MemberContext {
            path: None,
            context: None,
        };
        let (cluster, within) = (synced("a"), Duration::from_secs(1));
        let now = Instant::now();
        let long_ago = now.checked_sub(RENEW_AFTER * 2);
        let long_ago = long_ago.expect("a machine that runs for a while");
        for member in [unreachable(Side::Member), rejecting()] {
            for (created, is_kept) in [(now, true), (long_ago, false)] {
                let hub = unreachable(Side::Hub);
                let client: MemberClient = ready(Ok((created, member.clone()))).boxed().shared();
                let key = ("a".to_owned(), false);
                hub.member_clients.lock().await.insert(key.clone(), client);
                let failed = connect(&hub, &cluster, &given, within).await;
                let why = failed.err().expect("no member");
                let clients = hub.member_clients.lock().await;
                assert_eq!(clients.contains_key(&key), is_kept, "{why}");
            }
        }
    }
}
