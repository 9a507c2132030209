//! Objects of a member on the hub: the Cluster and the Secret with its credentials.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use causeway::api::{Cluster, ClusterSpec, SyncMode, labels};
use causeway::domain::protected::MEMBERS_NAMESPACE;
use causeway::domain::{ClusterName, NameError, enrolment};
use causeway::target::{CA_BUNDLE, PROXY_CA_BUNDLE};
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DynamicObject, ListParams};
use kube::{Resource as _, ResourceExt};
use serde_json::json;

use crate::cluster::api_server::{ApiServer, RequestError};
use crate::cluster::karmada;
use crate::cluster::objects::{self, ObjectError, Run};
use crate::term::exit::{CommandError, PROBLEM, USAGE};

const CLUSTERS: &str = "clusters.cluster.karmada.io";

/// Failed access to a hub's Clusters, hub that this program cannot join members to, or invalid
/// member name.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HubError {
    #[error("{name:?} cannot be the name of a member: {rule}")]
    Name { name: String, rule: NameError },
    #[error("{0} is not joined; kubectl mcs status lists the members")]
    NotJoined(ClusterName),
    #[error(transparent)]
    Request(#[from] RequestError),
    #[error(
        "the hub is a Karmada control plane, whose members are joined with karmadactl; causeway uses the Cluster objects \
         that are there, and reaches those in Pull mode by a tunnel after kubectl mcs tunnel add"
    )]
    Karmada,
    #[error(
        "the hub has no namespace {MEMBERS_NAMESPACE}; install causeway there first: kubectl mcs install, or kubectl apply -f manifests/hub/rbac.yaml"
    )]
    NoNamespace,
}

impl CommandError for HubError {
    fn exit_code(&self) -> u8 {
        match self {
            Self::Name { .. } => USAGE,
            Self::Request(error) => error.exit_code(),
            _ => PROBLEM,
        }
    }
}

/// Parses the name of a member.
pub(crate) fn cluster_name(name: &str) -> Result<ClusterName, HubError> {
    ClusterName::try_from(name).map_err(|rule| HubError::Name {
        name: name.to_owned(),
        rule,
    })
}

/// Sets or removes an annotation of a Cluster. Changes no other field, because Karmada may own the
/// object.
pub(crate) async fn annotate(
    hub: &ApiServer,
    name: &ClusterName,
    annotation: &str,
    value: Option<&str>,
    run: Run,
) -> Result<(), RequestError> {
    let patch = json!({ "metadata": { "annotations": { annotation: value } } });
    objects::merge(hub, &hub.all::<Cluster>(), name.as_str(), &patch, run).await
}

/// Checks that the hub serves Cluster from a CustomResourceDefinition. Otherwise Karmada serves
/// Cluster, and only Karmada may create and delete the objects.
pub(crate) async fn check_cluster_api(hub: &ApiServer) -> Result<(), HubError> {
    if !hub.serves_kind::<Cluster>().await? {
        return Err(hub.not_served("Cluster").into());
    }
    let definitions = hub.all::<CustomResourceDefinition>();
    match hub.get_metadata(definitions, CLUSTERS).await {
        Ok(None) => Err(HubError::Karmada),
        Ok(Some(_)) => Ok(()),
        // A user who may not read definitions may still be allowed to create a Cluster. Discovery
        // distinguishes a Karmada control plane.
        Err(RequestError::NotAllowed { .. }) => match karmada::is_served(hub).await? {
            true => Err(HubError::Karmada),
            false => Ok(()),
        },
        Err(error) => Err(error.into()),
    }
}

/// Checks that the hub has the namespace of the members' credentials.
pub(crate) async fn check_namespace(hub: &ApiServer) -> Result<(), HubError> {
    let found = hub.namespace(MEMBERS_NAMESPACE).await?;
    found.map(drop).ok_or(HubError::NoNamespace)
}

/// Returns the Secrets by which a member enrols, without data: that of the token, and that of the
/// member.
pub(crate) fn enrolment_secrets(name: &ClusterName) -> Result<[DynamicObject; 2], ObjectError> {
    let bare = |secret: &str| secret_without_data(enrolment::NAMESPACE, secret, name);
    let bootstrap = bare(&enrolment::bootstrap_name(name))?;
    Ok([bootstrap, bare(&enrolment::member_name(name))?])
}

/// Returns the Secrets by which a member enrols, those that exist, with their UIDs.
pub(crate) async fn enrolments(
    hub: &ApiServer,
    name: &ClusterName,
) -> Result<Vec<DynamicObject>, ObjectError> {
    let mut found = Vec::new();
    for mut secret in enrolment_secrets(name)? {
        if let Some(stored) = objects::get(hub, &secret).await? {
            secret.metadata.uid = stored.metadata.uid;
            found.push(secret);
        }
    }
    Ok(found)
}

/// Lists the Secrets that `join` created for members, with the names of the members. The Secrets
/// have their UIDs and no data.
pub(crate) async fn joined_secrets(
    hub: &ApiServer,
) -> Result<Vec<(ClusterName, DynamicObject)>, ObjectError> {
    let (manager, cluster) = (labels::MANAGED_BY, labels::CLUSTER);
    let made_by_join = format!("{manager}={},{cluster}", labels::MANAGER);
    let made_by_join = ListParams::default().labels(&made_by_join);
    let mut found = Vec::new();
    for namespace in [MEMBERS_NAMESPACE, enrolment::NAMESPACE] {
        let secrets = hub.within::<Secret>(namespace);
        for stored in hub.list_metadata(secrets, &made_by_join).await? {
            let name = ResourceExt::labels(&stored).get(cluster);
            let name = name.and_then(|name| ClusterName::try_from(&**name).ok());
            if let Some(name) = name {
                let mut secret = secret_without_data(namespace, &stored.name_any(), &name)?;
                secret.metadata.uid = stored.metadata.uid;
                found.push((name, secret));
            }
        }
    }
    Ok(found)
}

/// Returns a Secret of a member on the hub.
fn secret_without_data(
    namespace: &str,
    secret: &str,
    name: &ClusterName,
) -> Result<DynamicObject, ObjectError> {
    objects::object(json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": secret,
            "namespace": namespace,
            "labels": { labels::MANAGED_BY: labels::MANAGER, labels::CLUSTER: name.as_str() },
        },
        "type": "Opaque",
    }))
}

/// Returns the Secret with a member's credentials. Without a token, the key belongs to the user who
/// adds it later.
pub(crate) fn secret(
    name: &ClusterName,
    token: Option<&str>,
    ca_bundle: &str,
    proxy_ca: Option<&str>,
) -> Result<DynamicObject, ObjectError> {
    let mut secret = bare_secret(name)?;
    let values = [
        (CA_BUNDLE, Some(ca_bundle)),
        (PROXY_CA_BUNDLE, proxy_ca),
        ("token", token),
    ];
    let values = values
        .into_iter()
        .filter_map(|(key, value)| Some((key, STANDARD.encode(value?))));
    let data: BTreeMap<_, _> = values.collect();
    secret.data["data"] = json!(data);
    Ok(secret)
}

/// Values of a member's Secret that a later join reuses.
#[derive(Debug, Default)]
pub(crate) struct Stored {
    pub token: Option<String>,
    /// CA certificates for the member's proxy.
    pub proxy_ca: Option<String>,
}

/// Returns the stored credentials of a member.
///
/// # Errors
/// [`RequestError`] if the Secret cannot be read.
pub(crate) async fn stored(hub: &ApiServer, name: &ClusterName) -> Result<Stored, RequestError> {
    let secrets = hub.within::<Secret>(MEMBERS_NAMESPACE);
    let secret = hub.get(secrets, name.as_str()).await?;
    let mut data = secret.and_then(|secret| secret.data).unwrap_or_default();
    let mut text = |key| String::from_utf8(data.remove(key)?.0).ok();
    Ok(Stored {
        token: text("token"),
        proxy_ca: text(PROXY_CA_BUNDLE),
    })
}

/// Returns a member's Secret without data, which identifies it.
fn bare_secret(name: &ClusterName) -> Result<DynamicObject, ObjectError> {
    secret_without_data(MEMBERS_NAMESPACE, name.as_str(), name)
}

/// Returns the Cluster object of a member. Mode Pull selects causeway-tunnel, and a spec without
/// Secret the token of the agent.
pub(crate) fn cluster(
    name: &ClusterName,
    mut annotations: BTreeMap<String, String>,
    spec: &ClusterSpec,
) -> Result<DynamicObject, ObjectError> {
    if spec.sync_mode == Some(SyncMode::Pull) {
        annotations.insert(labels::TUNNEL.to_owned(), true.to_string());
    }
    if spec.secret_ref.is_none() {
        let from_agent = labels::FROM_AGENT.to_owned();
        annotations.insert(labels::CREDENTIALS.to_owned(), from_agent);
    }
    let mut cluster = bare_cluster(name)?;
    cluster.metadata.annotations = Some(annotations).filter(|all| !all.is_empty());
    cluster.data = json!({ "spec": spec });
    Ok(cluster)
}

/// Returns a member's Cluster without spec, which identifies it.
pub(crate) fn bare_cluster(name: &ClusterName) -> Result<DynamicObject, ObjectError> {
    objects::object(json!({
        "apiVersion": Cluster::api_version(&()),
        "kind": "Cluster",
        "metadata": { "name": name.as_str() },
    }))
}

/// Returns the Secret with a member's credentials if `join` created it. The object holds no data.
pub(crate) async fn credentials(
    hub: &ApiServer,
    name: &ClusterName,
) -> Result<Option<DynamicObject>, ObjectError> {
    let mut secret = bare_secret(name)?;
    let stored = objects::get(hub, &secret).await?;
    let Some(stored) = stored.filter(objects::is_managed) else {
        return Ok(None);
    };
    secret.metadata.uid = stored.metadata.uid;
    Ok(Some(secret))
}

/// Returns the command that deletes all objects that causeway wrote to a member for this hub.
pub(crate) async fn leftovers_command(hub: &ApiServer) -> String {
    // The value of the label is the UID of the hub's kube-system namespace, which some users may
    // not read.
    let uid = hub.uid().await.unwrap_or_else(|_| "HUB-UID".to_owned());
    format!(
        "kubectl delete services,endpointslices -A -l {}={uid}, and the same of serviceexports,serviceimports if it serves them",
        labels::HUB
    )
}
