//! What the members hold of exported services, read there with the credentials that the hub keeps for each.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::time::Duration;

use causeway::api::multicluster::{ServiceExport, ServiceImport, Version};
use causeway::api::{Cluster, SyncMode, condition, labels};
use causeway::process::target::Target;
use futures::StreamExt as _;
use k8s_openapi::api::core::v1::{Secret, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::ListParams;
use kube::core::DynamicResourceScope;
use kube::{Api, Resource, ResourceExt as _};
use serde::de::DeserializeOwned;

use crate::ask::{ApiServer, AskError, Side};

/// How long one member may take, all its answers together.
const READ_WITHIN: Duration = Duration::from_secs(5);
const AT_ONCE: usize = 32;

/// What a member holds.
#[derive(Clone, Debug, Default)]
pub(crate) struct Holdings {
    pub exports: Vec<ServiceExport>,
    pub imports: Vec<ServiceImport>,
    /// The Services that stand for imported ones; read where one service is asked about.
    pub derived: Vec<Service>,
    /// The EndpointSlices of imported services; read where one service is asked about.
    pub slices: Vec<EndpointSlice>,
}

/// What was read of each member, or why it was not. Members that take no part in the clusterset are left out.
pub(crate) type Readings = BTreeMap<String, Result<Holdings, String>>;

/// What is read of every member.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    /// Of this namespace; of all where there is none.
    pub namespace: Option<String>,
    /// Of the service of this name; of all where there is none.
    pub name: Option<String>,
    /// Whether members may be reached without verifying who answers.
    pub allow_insecure: bool,
}

/// Reads all members at once, each within 5 seconds.
pub(crate) async fn read(hub: &ApiServer, clusters: &[Cluster], wanted: &Wanted) -> Readings {
    let parts = clusters.iter().filter(|cluster| takes_part(cluster));
    let readings = parts.map(|cluster| async {
        let reading = tokio::time::timeout(READ_WITHIN, holdings(hub, cluster, wanted)).await;
        let late = || format!("no answer within {} s", READ_WITHIN.as_secs());
        (cluster.name_any(), reading.unwrap_or_else(|_| Err(late())))
    });
    futures::stream::iter(readings)
        .buffer_unordered(AT_ONCE)
        .collect()
        .await
}

/// Whether a member may export or import: it is reached from the hub, and is not known to serve neither kind.
fn takes_part(cluster: &Cluster) -> bool {
    let conditions = cluster.status.as_ref().map(|status| &status.conditions);
    let serves_neither = conditions
        .and_then(|conditions| condition::find(conditions, condition::CLUSTERSET_API))
        .filter(|served| served.reason == condition::reason::NOT_SERVED)
        .is_some_and(|served| {
            ["ServiceExport", "ServiceImport"]
                .iter()
                .all(|kind| served.message.contains(kind))
        });
    cluster.spec.sync_mode != Some(SyncMode::Pull) && !serves_neither
}

async fn holdings(hub: &ApiServer, cluster: &Cluster, wanted: &Wanted) -> Result<Holdings, String> {
    let secret = secret(hub, cluster).await?;
    let target = Target::new(cluster, &secret, wanted.allow_insecure);
    let target = target.map_err(|error| error.to_string())?;
    let member = ApiServer::new(Side::Member, target.config()).map_err(trouble)?;
    wanted.read(&member).await.map_err(trouble)
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
fn trouble(error: AskError) -> String {
    match error {
        AskError::Unreachable { why, .. } | AskError::Kubeconfig { why, .. } => why,
        AskError::NotAllowed { message, .. } => {
            format!(
                "the credentials on the hub do not allow it: {message}; join it again with kubectl mcs join"
            )
        }
        AskError::NotFound { message, .. }
        | AskError::Refused { message, .. }
        | AskError::Busy { message, .. } => message,
        other @ AskError::NoKubeconfig(_) => other.to_string(),
    }
}

impl Wanted {
    async fn read(&self, member: &ApiServer) -> Result<Holdings, AskError> {
        let (exports, imports) = tokio::try_join!(self.served(member), self.served(member))?;
        let mut holdings = Holdings {
            exports,
            imports,
            ..Holdings::default()
        };
        if let Some(name) = &self.name
            && !holdings.imports.is_empty()
        {
            let labelled = format!("{}={name}", labels::MULTICLUSTER_SERVICE_NAME);
            let parameters = ListParams::default().labels(&labelled);
            let services: Api<Service> = self.api(member);
            let slices: Api<EndpointSlice> = self.api(member);
            let both = tokio::try_join!(
                member.ask(services.list(&parameters)),
                member.ask(slices.list(&parameters))
            );
            let (services, slices) = both?;
            holdings.derived = services.items;
            holdings.slices = slices.items;
        }
        Ok(holdings)
    }

    /// The objects of one kind of the Multi-Cluster Services API, in the newest version that the member serves.
    async fn served<K>(&self, member: &ApiServer) -> Result<Vec<K>, AskError>
    where
        K: Resource<DynamicType = Version, Scope = DynamicResourceScope>
            + Clone
            + Debug
            + DeserializeOwned,
    {
        let mut parameters = ListParams::default();
        if let Some(name) = &self.name {
            parameters = parameters.fields(&format!("metadata.name={name}"));
        }
        for version in Version::ALL {
            let client = member.client.clone();
            let api: Api<K> = match &self.namespace {
                Some(namespace) => Api::namespaced_with(client, namespace, &version),
                None => Api::all_with(client, &version),
            };
            match member.ask(api.list(&parameters)).await {
                Ok(list) => return Ok(list.items),
                Err(AskError::NotFound { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(Vec::new())
    }

    fn api<K>(&self, member: &ApiServer) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>,
    {
        let client = member.client.clone();
        match &self.namespace {
            Some(namespace) => Api::namespaced(client, namespace),
            None => Api::all(client),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::status::fixtures::{cluster, condition, synced};

    #[test]
    fn only_members_that_are_known_to_serve_neither_kind_are_not_asked() {
        let told = |reason: &str, message: &str| {
            let told = condition("ClustersetAPI", "False", reason, message);
            takes_part(&cluster("a", json!([told])))
        };
        assert!(takes_part(&synced("a")), "the hub does not tell");
        assert!(!told(
            "NotServed",
            "ServiceExport and ServiceImport are not installed there"
        ));
        assert!(told("NotServed", "ServiceImport is not installed there"));
        assert!(told("Refused", "ServiceExports and ServiceImports"));
        let mut pull = synced("a");
        pull.spec.sync_mode = Some(SyncMode::Pull);
        assert!(!takes_part(&pull));
    }

    #[tokio::test]
    async fn a_member_that_cannot_be_asked_is_told_with_what_to_do() {
        let hub = kube::Config::new("https://127.0.0.1:1".parse().expect("a URL"));
        let hub = ApiServer::new(Side::Hub, hub).expect("a client");
        let wanted = Wanted {
            namespace: None,
            name: None,
            allow_insecure: false,
        };
        let readings = read(&hub, &[synced("a")], &wanted).await;
        let why = readings["a"].as_ref().expect_err("it has no Secret");
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
