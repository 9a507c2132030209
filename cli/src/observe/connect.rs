//! Connections to members, with the credentials that the hub stores for each, or by kubeconfigs of
//! the user.

use std::collections::BTreeMap;
use std::time::Duration;

use causeway::api::Cluster;
use causeway::domain::protected::DEFAULT_NAMESPACE;
use causeway::target::{Target, TargetError, is_tunnelled};
use causeway_engine::messages::JOIN_AGAIN;
use futures::{StreamExt as _, pin_mut};
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt as _;
use tokio::time::sleep_until;

use crate::cluster::api_server::{ApiServer, RequestError, root_cause};
use crate::cluster::credentials::{self, CONTROLLER};
use crate::cluster::tunnel::front;
use crate::observe::kubeconfigs;
use crate::term::progress::Progress;

/// Maximum time of all requests to one member.
pub(crate) const READ_WITHIN: Duration = Duration::from_secs(5);
/// Maximum number of members that are read concurrently.
const AT_ONCE: usize = 32;

/// Message about a member whose agent has its credentials, without a remedy.
pub(crate) const TOKEN_OF_AGENT: &str =
    "its agent gives its token to causeway-controller alone, and the hub stores none";
/// Message about a Cluster that takes no part, without its name and a remedy.
pub(crate) const UNSERVED: &str = "in Pull mode without credentials, so causeway does not serve it";

/// Failure to reach or to read a member, with the credentials on the hub or by a kubeconfig of the
/// user.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ConnectError {
    #[error("no answer within {0} s")]
    Timeout(u64),
    #[error("the Cluster references no Secret with credentials; {JOIN_AGAIN}")]
    NoReference,
    #[error(
        "ClusterProfile {namespace}/{name} says how it is reached, and causeway-controller alone has \
         its credentials"
    )]
    OfProfile { namespace: String, name: String },
    #[error("{TOKEN_OF_AGENT}; give a kubeconfig of the member: --member-kubeconfig {0}=FILE")]
    OfAgent(String),
    #[error(
        "you may not read the Secrets with the members' credentials in namespace {0} of the hub"
    )]
    SecretForbidden(String),
    #[error(
        "you may not read Deployment {DEFAULT_NAMESPACE}/{CONTROLLER} of the hub, whose flags say \
         whether Secrets of namespace {0} hold credentials"
    )]
    FlagsForbidden(String),
    #[error(
        "its Secret is in namespace {0} of the hub, from which causeway-controller reads no \
         credentials: start the controller with --secret-namespace={0}, or {JOIN_AGAIN}"
    )]
    OtherNamespace(String),
    #[error("Secret {namespace}/{name} not found on the hub; {JOIN_AGAIN}")]
    NoSecret { namespace: String, name: String },
    #[error(transparent)]
    Target(#[from] TargetError),
    #[error("the hub reaches it through causeway-tunnel, {0}")]
    Tunnel(String),
    #[error("forbidden: {0}; if the hub stores these credentials, {JOIN_AGAIN}")]
    NotAllowed(String),
    /// Message of the hub, the member or a client.
    #[error("{0}")]
    Failed(String),
}

/// Reads all members concurrently, each as in [`read_one`] within 5 seconds. Returns the result of
/// each by its name. Skips members in Pull mode without credentials.
pub(crate) async fn read_each<'a, T, F>(
    hub: &ApiServer,
    clusters: impl Iterator<Item = &'a Cluster>,
    allow_insecure: bool,
    read: impl Fn(ApiServer) -> F,
) -> BTreeMap<String, Result<T, ConnectError>>
where
    F: Future<Output = Result<T, RequestError>>,
{
    let reading = Reading {
        allow_insecure,
        within: READ_WITHIN,
        at_once: AT_ONCE,
    };
    read_each_as(reading, hub, clusters, read).await
}

/// Limits and options of reads of members.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reading {
    pub allow_insecure: bool,
    /// Maximum time of all requests to one member, as in [`read_one`].
    pub within: Duration,
    /// Maximum number of members that are read concurrently.
    pub at_once: usize,
}

/// Reads all members as [`read_each`] does, within the given limits.
pub(crate) async fn read_each_as<'a, T, F>(
    reading: Reading,
    hub: &ApiServer,
    clusters: impl Iterator<Item = &'a Cluster>,
    read: impl Fn(ApiServer) -> F,
) -> BTreeMap<String, Result<T, ConnectError>>
where
    F: Future<Output = Result<T, RequestError>>,
{
    let (allow_insecure, within) = (reading.allow_insecure, reading.within);
    let read = &read;
    let pushed = clusters.filter(|cluster| cluster.takes_part());
    let answers = pushed.map(|cluster| async move {
        let answer = read_one(hub, cluster, allow_insecure, within, |member| async move {
            read(member).await.map_err(ConnectError::from)
        });
        (cluster.name_any(), answer.await)
    });
    let answers: Vec<_> = answers.collect();
    let mut progress = Progress::new("reading members", answers.len());
    let answers = futures::stream::iter(answers).buffer_unordered(reading.at_once);
    pin_mut!(answers);
    let mut all = BTreeMap::new();
    let late = sleep_until(progress.due());
    pin_mut!(late);
    let mut is_late = false;
    loop {
        tokio::select! {
            answer = answers.next() => match answer {
                Some((name, answer)) => {
                    all.insert(name, answer);
                    progress.step();
                }
                None => return all,
            },
            () = &mut late, if !is_late => {
                is_late = true;
                progress.show();
            }
        }
    }
}

/// Connects to a member and reads it, within the given time. The time begins once the connection is
/// made: the hub's answers count against the hub, and the credential plugin of a kubeconfig may
/// need longer.
pub(crate) async fn read_one<T, F>(
    hub: &ApiServer,
    cluster: &Cluster,
    allow_insecure: bool,
    within: Duration,
    read: impl FnOnce(ApiServer) -> F,
) -> Result<T, ConnectError>
where
    F: Future<Output = Result<T, ConnectError>>,
{
    let member = connect_within(hub, cluster, allow_insecure, within).await?;
    answered(within, read(member)).await
}

/// Returns the result of a member, or an error after 5 seconds.
pub(crate) async fn in_time<T>(
    answer: impl Future<Output = Result<T, ConnectError>>,
) -> Result<T, ConnectError> {
    answered(READ_WITHIN, answer).await
}

async fn answered<T>(
    within: Duration,
    answer: impl Future<Output = Result<T, ConnectError>>,
) -> Result<T, ConnectError> {
    let answer = tokio::time::timeout(within, answer).await;
    answer.unwrap_or_else(|_| Err(ConnectError::Timeout(within.as_secs())))
}

/// Connects to a member by the user's kubeconfig of it, else with the credentials that the hub
/// stores for it.
///
/// # Errors
/// [`ConnectError`] if the credentials are missing, refused or unreadable.
pub(crate) async fn connect(
    hub: &ApiServer,
    cluster: &Cluster,
    allow_insecure: bool,
) -> Result<ApiServer, ConnectError> {
    connect_within(hub, cluster, allow_insecure, READ_WITHIN).await
}

/// Connects as [`connect`] does. Each request by the user's kubeconfig has the time `within`.
async fn connect_within(
    hub: &ApiServer,
    cluster: &Cluster,
    allow_insecure: bool,
    within: Duration,
) -> Result<ApiServer, ConnectError> {
    match by_kubeconfig(hub, cluster, within).await? {
        Some(member) => Ok(member),
        None => by_credentials(hub, cluster, allow_insecure).await,
    }
}

/// Connects to a member by the user's kubeconfig of it, if there is one. Each request has the time
/// `within`.
async fn by_kubeconfig(
    hub: &ApiServer,
    cluster: &Cluster,
    within: Duration,
) -> Result<Option<ApiServer>, ConnectError> {
    let Some(given) = hub.members.of(&cluster.name_any()) else {
        return Ok(None);
    };
    let member = kubeconfigs::connect(hub, cluster, &given, within).await;
    member.map(Some).map_err(ConnectError::Failed)
}

async fn by_credentials(
    hub: &ApiServer,
    cluster: &Cluster,
    allow_insecure: bool,
) -> Result<ApiServer, ConnectError> {
    let secret = secret(hub, cluster).await?;
    let front = match is_tunnelled(cluster) {
        true => Some(front::front(hub).await.map_err(ConnectError::Tunnel)?),
        false => None,
    };
    let (target, token) = Target::read_beside(cluster, &secret, front.as_ref(), allow_insecure)?;
    let server = ApiServer::of_target(&target, token);
    server.map_err(|error| ConnectError::Failed(root_cause(&error)))
}

async fn secret(hub: &ApiServer, cluster: &Cluster) -> Result<Secret, ConnectError> {
    if let Some(namespace) = cluster.profile_namespace() {
        return Err(ConnectError::OfProfile {
            namespace: namespace.to_owned(),
            name: cluster.name_any(),
        });
    }
    if cluster.has_agent_credentials() {
        return Err(ConnectError::OfAgent(cluster.name_any()));
    }
    let reference = cluster.spec.secret_ref.as_ref();
    let reference = reference.ok_or(ConnectError::NoReference)?;
    let namespace = &reference.namespace;
    let may_read = credentials::may_read(hub, namespace).await;
    let may_read = may_read.map_err(|error| match error.is_missing_right() {
        true => ConnectError::FlagsForbidden(namespace.clone()),
        false => ConnectError::Failed(error.to_string()),
    })?;
    if !may_read {
        return Err(ConnectError::OtherNamespace(namespace.clone()));
    }
    let secret = hub
        .request(hub.within::<Secret>(namespace).get(&reference.name))
        .await;
    secret.map_err(|error| match error {
        error if error.is_missing_right() => ConnectError::SecretForbidden(namespace.clone()),
        RequestError::NotFound { .. } => ConnectError::NoSecret {
            namespace: namespace.clone(),
            name: reference.name.clone(),
        },
        error => ConnectError::Failed(error.to_string()),
    })
}

/// Converts the error of a member that the user did not name: the message omits the side.
impl From<RequestError> for ConnectError {
    fn from(error: RequestError) -> Self {
        match error {
            RequestError::NotAllowed { message, .. } => Self::NotAllowed(message),
            RequestError::Unreachable { why, .. } | RequestError::Kubeconfig { why, .. } => {
                Self::Failed(why)
            }
            RequestError::NotFound { message, .. }
            | RequestError::Conflict { message, .. }
            | RequestError::Refused { message, .. }
            | RequestError::Unsendable { message, .. }
            | RequestError::TooMany { message, .. }
            | RequestError::Busy { message, .. } => Self::Failed(message),
            other @ (RequestError::NoKubeconfig(_)
            | RequestError::NotJoined(_)
            | RequestError::NotServed { .. }) => Self::Failed(other.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use causeway::api::SecretReference;
    use causeway::domain::protected::MEMBERS_NAMESPACE;
    use kube::client::Body;
    use serde_json::json;
    use tokio::time::sleep;
    use tower::service_fn;

    use super::*;
    use crate::cluster::access::Side;
    use crate::fixtures::{answering, server, synced, unreachable};

    fn with_secret() -> Cluster {
        let mut cluster = synced("a");
        cluster.spec.secret_ref = Some(SecretReference {
            namespace: MEMBERS_NAMESPACE.to_owned(),
            name: "a".to_owned(),
        });
        cluster
    }

    #[tokio::test]
    async fn slow_hub_is_no_slow_member() {
        let within = Duration::from_millis(500);
        let secret = json!({ "metadata": { "name": "a" }, "data": { "token": "YQ==" } });
        let answers = service_fn(move |_: http::Request<Body>| {
            let body = Body::from(secret.to_string().into_bytes());
            async move {
                sleep(within * 3 / 2).await;
                Ok::<_, http::Error>(http::Response::new(body))
            }
        });
        let mut cluster = with_secret();
        cluster.spec.insecure_skip_tls_verification = Some(true);
        let hub = server(Side::Hub, kube::Client::new(answers, "default"));
        for (hub_within, member, why) in [
            (within * 10, within / 2, None),
            (within * 10, within * 2, Some("no answer within 0 s")),
            (within, within / 2, Some("cannot reach the hub at ")),
        ] {
            let hub = ApiServer {
                answer_within: hub_within,
                ..hub.clone()
            };
            let read = |_| async move {
                sleep(member).await;
                Ok(())
            };
            let read = read_one(&hub, &cluster, true, within, read).await;
            let failed = read.err().map(|why| why.to_string());
            match (&failed, why) {
                (Some(failed), Some(why)) => assert!(failed.starts_with(why), "{failed}"),
                (failed, why) => assert_eq!(failed.as_deref(), why),
            }
        }
    }

    #[tokio::test]
    async fn a_member_that_cannot_be_asked_is_reported_with_what_to_do() {
        let hub = unreachable(Side::Hub);
        let clusters = [synced("a")];
        let answers = read_each(&hub, clusters.iter(), false, |_| async { Ok(()) }).await;
        let why = answers["a"].as_ref().expect_err("it has no Secret");
        let why = why.to_string();
        assert!(why.contains("kubectl mcs join"), "{why}");
        let refused = RequestError::NotAllowed {
            side: Side::Member,
            message: "services is forbidden".to_owned(),
            unauthenticated: false,
        };
        let why = ConnectError::from(refused).to_string();
        assert!(
            why.contains("services is forbidden") && why.contains("kubectl mcs join"),
            "{why}"
        );
        // The message is the same for a member that is read by the user's own kubeconfig.
        assert!(why.contains("if the hub stores these credentials"), "{why}");
    }

    #[tokio::test]
    async fn rejected_credentials_are_no_missing_right_to_secrets() {
        let cluster = with_secret();
        for (code, is_forbidden) in [(401, false), (403, true)] {
            let status = json!({ "kind": "Status", "status": "Failure", "code": code });
            let hub = answering(Side::Hub, move |_| (code, status.clone()));
            let why = secret(&hub, &cluster).await.expect_err("no Secret");
            let found = matches!(why, ConnectError::SecretForbidden(_));
            assert_eq!(found, is_forbidden, "{why}");
        }
    }
}
