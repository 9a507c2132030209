//! Members, reached with the credentials that the hub keeps for each.

use std::collections::BTreeMap;
use std::time::Duration;

use causeway::api::Cluster;
use causeway::process::target::Target;
use futures::StreamExt as _;
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, ResourceExt as _};

use crate::ask::{ApiServer, AskError, Side};

/// How long one member may take, all its answers together.
const READ_WITHIN: Duration = Duration::from_secs(5);
const AT_ONCE: usize = 32;

/// Asks all these members at once, each within 5 seconds: the answer of each by its name, or why there is none.
pub(crate) async fn each<'a, T, F>(
    hub: &ApiServer,
    clusters: impl Iterator<Item = &'a Cluster>,
    allow_insecure: bool,
    ask: impl Fn(ApiServer) -> F,
) -> BTreeMap<String, Result<T, String>>
where
    F: Future<Output = Result<T, AskError>>,
{
    let ask = &ask;
    let answers = clusters.map(|cluster| async move {
        let answer = async {
            let member = connect(hub, cluster, allow_insecure).await?;
            ask(member).await.map_err(trouble)
        };
        let late = || format!("no answer within {} s", READ_WITHIN.as_secs());
        let answer = tokio::time::timeout(READ_WITHIN, answer).await;
        (cluster.name_any(), answer.unwrap_or_else(|_| Err(late())))
    });
    futures::stream::iter(answers)
        .buffer_unordered(AT_ONCE)
        .collect()
        .await
}

/// A member, by the credentials that the hub keeps for it.
///
/// # Errors
/// Why it cannot be reached so, in words that do not speak of a kubeconfig.
pub(crate) async fn connect(
    hub: &ApiServer,
    cluster: &Cluster,
    allow_insecure: bool,
) -> Result<ApiServer, String> {
    let secret = secret(hub, cluster).await?;
    let target = Target::new(cluster, &secret, allow_insecure);
    let target = target.map_err(|error| error.to_string())?;
    ApiServer::new(Side::Member, target.config()).map_err(trouble)
}

async fn secret(hub: &ApiServer, cluster: &Cluster) -> Result<Secret, String> {
    let Some(reference) = &cluster.spec.secret_ref else {
        return Err(
            "the Cluster names no Secret with credentials; join it again with kubectl mcs join"
                .to_owned(),
        );
    };
    let namespace = &reference.namespace;
    let secrets: Api<Secret> = Api::namespaced(hub.client.clone(), namespace);
    match hub.ask(secrets.get(&reference.name)).await {
        Ok(secret) => Ok(secret),
        Err(AskError::NotAllowed { .. }) => Err(format!(
            "you may not read the Secrets with the members' credentials in namespace {namespace} of the hub"
        )),
        Err(AskError::NotFound { .. }) => Err(format!(
            "Secret {namespace}/{} is not on the hub; join it again with kubectl mcs join",
            reference.name
        )),
        Err(error) => Err(error.to_string()),
    }
}

/// The error of a member that the person did not name, in words that do not speak of a kubeconfig.
pub(crate) fn trouble(error: AskError) -> String {
    match error {
        AskError::Unreachable { why, .. } | AskError::Kubeconfig { why, .. } => why,
        AskError::NotAllowed { message, .. } => {
            format!(
                "the credentials on the hub do not allow it: {message}; join it again with kubectl mcs join"
            )
        }
        AskError::NotFound { message, .. }
        | AskError::Conflict { message, .. }
        | AskError::Refused { message, .. }
        | AskError::Busy { message, .. } => message,
        other @ AskError::NoKubeconfig(_) => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::fixtures::synced;

    #[tokio::test]
    async fn a_member_that_cannot_be_asked_is_told_with_what_to_do() {
        let hub = kube::Config::new("https://127.0.0.1:1".parse().expect("a URL"));
        let hub = ApiServer::new(Side::Hub, hub).expect("a client");
        let clusters = [synced("a")];
        let answers = each(&hub, clusters.iter(), false, |_| async { Ok(()) }).await;
        let why = answers["a"].as_ref().expect_err("it has no Secret");
        assert!(why.contains("kubectl mcs join"), "{why}");
        let refused = AskError::NotAllowed {
            side: Side::Member,
            message: "services is forbidden".to_owned(),
        };
        let why = trouble(refused);
        assert!(
            why.contains("services is forbidden") && why.contains("kubectl mcs join"),
            "{why}"
        );
    }
}
