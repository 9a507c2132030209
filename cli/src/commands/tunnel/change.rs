//! The Cluster of a member that `tunnel add` and `tunnel remove` change.

use causeway::api::{Cluster, labels};
use causeway::domain::ClusterName;
use causeway::target::is_tunnelled;

use crate::args::MemberArgs;
use crate::cluster::api_server::{ApiServer, RequestError};
use crate::cluster::identity::AnotherCluster;
use crate::cluster::objects::{self, Run};
use crate::cluster::tunnel::address::TunnelAddress;
use crate::commands::membership::hub;
use crate::observe::connect::ConnectError;
use crate::term::exit::{CommandError, Failure};

/// Name of the secret of an agent for [`ApiServer::check_verified`].
pub(super) const KEY: &str = "the key of the agent";

/// Failed change of a member of the tunnel.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ChangeError {
    #[error(
        "the hub has no Cluster {0}; karmada-agent creates that of a member in Pull mode, and \
         kubectl mcs join that of any other"
    )]
    Absent(ClusterName),
    #[error(
        "{name} was joined with kubectl mcs join, which brings the agent too: kubectl mcs join \
         {name} --member-kubeconfig FILE --pull --tunnel {address}. Nothing was changed"
    )]
    Joined {
        name: ClusterName,
        address: TunnelAddress,
    },
    #[error(
        "{0} was joined with kubectl mcs join, and the hub has its address in the tunnel alone. \
         Nothing was changed. To have it dialled, join it again after: kubectl mcs unjoin {0} \
         --member-kubeconfig FILE"
    )]
    OfJoin(ClusterName),
    #[error(
        "Cluster {0} is not in Pull mode: Karmada dials it, and so does causeway. Nothing was changed"
    )]
    Pushed(ClusterName),
    #[error(
        "Cluster {0} names no Secret with credentials, which karmada-agent reports \
         (--report-secrets, --cluster-api-endpoint); docs/karmada.md#credentials-of-members says \
         how. Nothing was changed"
    )]
    NoSecret(ClusterName),
    #[error("the hub cannot use the credentials of {name}: {why}. Nothing was changed")]
    Unusable {
        name: ClusterName,
        why: ConnectError,
    },
    #[error("the member's kubeconfig is of {0}. Nothing was changed")]
    AnotherCluster(AnotherCluster),
    #[error(
        "the member's kubeconfig is of Cluster {other}; run: kubectl mcs tunnel remove {other}. \
         Nothing was changed"
    )]
    IsAnother { other: String },
    #[error("{name} is not connected within {seconds} s: {state}; {remedy}")]
    NotConnected {
        name: ClusterName,
        seconds: u64,
        state: String,
        remedy: String,
    },
}

impl CommandError for ChangeError {}

/// Connects to the member if its kubeconfig is given.
pub(super) async fn member(args: &MemberArgs) -> Result<Option<ApiServer>, Failure> {
    let Some(file) = &args.member_kubeconfig else {
        return Ok(None);
    };
    let member = ApiServer::member(Some(file), args.member_context.as_deref()).await?;
    member.check_verified(KEY)?;
    Ok(Some(member))
}

/// Reads a Cluster of the hub.
pub(super) async fn read(hub: &ApiServer, name: &ClusterName) -> Result<Option<Cluster>, Failure> {
    Ok(hub.found(hub.all::<Cluster>().get(name.as_str())).await?)
}

/// Whether `kubectl mcs join` made a member: its agent gives the token, `join` stored its token, or
/// it enrols by a file.
pub(super) async fn is_joined(
    hub: &ApiServer,
    name: &ClusterName,
    cluster: Option<&Cluster>,
) -> Result<bool, Failure> {
    if cluster.is_some_and(is_without_secret) || hub::credentials(hub, name).await?.is_some() {
        return Ok(true);
    }
    // The Cluster of a member that enrols names no Secret.
    let names_secret = cluster.is_some_and(|cluster| cluster.spec.secret_ref.is_some());
    Ok(!names_secret && !hub::enrolments(hub, name).await?.is_empty())
}

/// Whether the agent gives the token, and the Cluster names no Secret. `tunnel add` requires a
/// Secret, so the Cluster of a member of Karmada names one.
fn is_without_secret(cluster: &Cluster) -> bool {
    cluster.has_agent_credentials() && cluster.spec.secret_ref.is_none()
}

/// Sets or removes the annotation that chooses the tunnel. Changes nothing else: karmada-agent owns
/// the spec. Returns the line that reports it.
pub(super) async fn choose_tunnel(
    hub: &ApiServer,
    name: &ClusterName,
    (cluster, is_wanted): (&Cluster, bool),
    run: Option<Run>,
) -> Result<String, Failure> {
    let title = objects::title(&hub::bare_cluster(name)?);
    if is_tunnelled(cluster) == is_wanted {
        return Ok(format!("hub: {title} unchanged"));
    }
    let value = is_wanted.then_some("true");
    let suffix = run.map_or(" (dry run)", Run::note);
    if let Some(run) = run {
        match hub::annotate(hub, name, labels::TUNNEL, value, run).await {
            Err(RequestError::NotFound { .. }) => {
                return Err(ChangeError::Absent(name.clone()).into());
            }
            annotated => annotated?,
        }
    }
    Ok(format!("hub: {title} annotated{suffix}"))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn member_whose_agent_gives_the_token_is_of_join_alone() {
        let secret = || json!({ "namespace": "karmada-cluster", "name": "edge" });
        let none = || Value::Null;
        for (credentials, secret, is_of_join) in [
            // `join --token-from=agent`, and `join -o yaml`.
            (Some("agent"), none(), true),
            // `tunnel add`.
            (None, secret(), false),
            // `tunnel add`, and an annotation of somebody else.
            (Some("agent"), secret(), false),
            (None, none(), false),
        ] {
            let cluster = json!({
                "apiVersion": "cluster.karmada.io/v1alpha1",
                "kind": "Cluster",
                "metadata": { "name": "edge", "annotations": {
                    labels::TUNNEL: "true",
                    labels::CREDENTIALS: credentials.unwrap_or("secret"),
                } },
                "spec": { "syncMode": "Pull", "secretRef": secret },
            });
            let read: Cluster = serde_json::from_value(cluster.clone()).expect("a Cluster");
            assert_eq!(is_without_secret(&read), is_of_join, "{cluster}");
        }
    }
}
