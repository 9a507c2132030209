//! Objects of an installation on the hub. Records each object that the user may not read.

pub(crate) mod creation;
pub(crate) mod rights;

use std::collections::{BTreeMap, BTreeSet};

use causeway::api::{Cluster, MultiClusterService, SecretReference, condition};
use causeway::domain::protected::DEFAULT_NAMESPACE as NAMESPACE;
use causeway_engine::reasons::Reason;
use futures::StreamExt as _;
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration, WebhookClientConfig,
};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt as _;
use kube::api::ListParams;

use self::creation::Creation;
use self::rights::{MissingRight, Needs};
use crate::cluster::api_server::{ApiServer, RequestError, or_refused};
use crate::cluster::bundle::DEPLOYMENTS;
use crate::cluster::conditions::Conditions as _;
use crate::cluster::credentials;
use crate::cluster::karmada;
use crate::cluster::lease::{self, Controller, LeaseName};
use crate::cluster::token::Validity;
use crate::observe::connect::{self, ConnectError};
use crate::observe::misplaced::{self, Misplaced};
use crate::observe::once;
use crate::observe::scope::Scope;

/// Name of causeway's webhook configurations.
const REGISTRATION: &str = "causeway";
/// Name of the Secret in which the webhook stores its certificates.
const CERTIFICATE: &str = "causeway-webhook-tls";
/// Maximum number of member Secrets read concurrently.
const AT_ONCE: usize = 8;
const OF_CAUSEWAY: &str = "app.kubernetes.io/name=causeway";

/// Result of a read, or the reason that the user may not read it.
pub(crate) type Readable<T> = Result<T, String>;

/// Registered webhook.
#[derive(Clone, Debug)]
pub(crate) struct Webhook {
    pub name: String,
    pub client: WebhookClientConfig,
}

/// Whether an API server can verify the webhook: its client has a caBundle.
pub(crate) fn has_bundle(client: &WebhookClientConfig) -> bool {
    let bundle = client.ca_bundle.as_ref();
    bundle.is_some_and(|bundle| !bundle.0.is_empty())
}

/// Input of all checks.
#[derive(Debug)]
pub(crate) struct Installation {
    /// Time of the hub.
    pub now: Timestamp,
    pub hub: String,
    /// Whether the hub serves each kind.
    pub definitions: Vec<(&'static str, Readable<bool>)>,
    /// Webhooks by kind of configuration; `None` if the configuration does not exist.
    pub registrations: Vec<(&'static str, Readable<Option<Vec<Webhook>>>)>,
    /// EndpointSlices of the webhook's Service.
    pub endpoints: Readable<Vec<EndpointSlice>>,
    pub deployments: Readable<Vec<Deployment>>,
    pub controller: Controller,
    pub clusters: Readable<Vec<Cluster>>,
    /// Response of each member to the credentials on the hub. Holds only Clusters whose status
    /// Karmada writes.
    pub answers: BTreeMap<String, Result<(), ConnectError>>,
    /// Validity of the members' tokens by Cluster. Holds only tokens that expire and that the user
    /// may read.
    pub tokens: BTreeMap<String, Validity>,
    /// Missing rights by account; `None` if the account does not exist.
    pub missing_rights: Vec<(&'static str, Readable<Option<Vec<MissingRight>>>)>,
    /// Response to the creation of a MultiClusterService in a dry run.
    pub creation: Creation,
    /// PEM certificate chain of the webhook's Secret; `None` if the Secret does not exist.
    pub certificate: Readable<Option<Vec<u8>>>,
    /// ServiceExports and ServiceImports that have no effect on the hub.
    pub misplaced: Readable<Vec<Misplaced>>,
}

/// Reads an installation. `allow_insecure` also reads members whose certificate cannot be verified.
pub(crate) async fn read(
    hub: &ApiServer,
    lease: &LeaseName,
    allow_insecure: bool,
) -> Result<Installation, RequestError> {
    let info = hub.request(hub.client.apiserver_version()).await?;
    let of_webhook = ListParams::default().labels("kubernetes.io/service-name=causeway-webhook");
    let of_causeway = ListParams::default().labels(OF_CAUSEWAY);
    let (services, members, mutating, validating, endpoints, deployments, controller, clusters) = tokio::join!(
        hub.serves_kind::<MultiClusterService>(),
        hub.serves_kind::<Cluster>(),
        hub.get::<MutatingWebhookConfiguration>(hub.all(), REGISTRATION),
        hub.get::<ValidatingWebhookConfiguration>(hub.all(), REGISTRATION),
        hub.list(hub.within(NAMESPACE), &of_webhook),
        hub.list(hub.within(NAMESPACE), &of_causeway),
        Controller::read(hub, lease),
        once::clusters(hub),
    );
    let mutating = allowed(mutating)?
        .map(|found| webhooks(found?.webhooks, |one| (one.name, one.client_config)));
    let validating = allowed(validating)?
        .map(|found| webhooks(found?.webhooks, |one| (one.name, one.client_config)));
    let clusters = allowed(clusters)?.map(Option::unwrap_or_default);
    let deployments = allowed(deployments)?;
    let needs = Needs {
        clusters: clusters.as_deref().unwrap_or_default(),
        manages_certificates: deployments.iter().flatten().any(manages_certificates),
        serves_works: karmada::is_served(hub).await?,
        profile_namespaces: profile_namespaces(&deployments, &clusters),
    };
    let missing_rights = missing_rights(hub, &needs).await?;
    let answers = ask_members(hub, &needs, allow_insecure).await;
    let certificate = certificate(hub).await?;
    let misplaced = match &clusters {
        Ok(clusters) => allowed(misplaced::read(hub, clusters, &Scope::default()).await)?,
        Err(why) => Err(why.clone()),
    };
    Ok(Installation {
        now: lease::now(hub).await,
        hub: format!("Kubernetes {} at {}", info.git_version, hub.url()),
        definitions: vec![
            ("MultiClusterService", allowed(services)?),
            ("Cluster", allowed(members)?),
        ],
        registrations: vec![
            ("MutatingWebhookConfiguration", mutating),
            ("ValidatingWebhookConfiguration", validating),
        ],
        endpoints: allowed(endpoints)?,
        deployments,
        controller: controller?,
        answers,
        tokens: tokens(hub, clusters.as_deref().unwrap_or_default()).await?,
        clusters,
        missing_rights,
        creation: creation::dry_run(hub).await,
        certificate,
        misplaced,
    })
}

/// Reads the PEM certificate chain of the webhook's Secret.
async fn certificate(hub: &ApiServer) -> Result<Readable<Option<Vec<u8>>>, RequestError> {
    let secret = hub.get::<Secret>(hub.within(NAMESPACE), CERTIFICATE).await;
    Ok(allowed(secret)?.map(|secret| Some(secret?.data?.remove("tls.crt")?.0)))
}

/// Requests the identity of each member of a Karmada control plane whose Cluster has no status of
/// causeway.
async fn ask_members(
    hub: &ApiServer,
    needs: &Needs<'_>,
    allow_insecure: bool,
) -> BTreeMap<String, Result<(), ConnectError>> {
    if !needs.serves_works {
        return BTreeMap::new();
    }
    let clusters = needs.clusters.iter();
    let named = clusters.filter(|cluster| !is_reported(cluster));
    let answers = connect::read_each(hub, named, allow_insecure, |member| async move {
        member.uid().await.map(drop)
    });
    answers.await
}

/// Whether causeway reports the state of a member in its Cluster.
fn is_reported(cluster: &Cluster) -> bool {
    let ready = cluster.condition(condition::READY);
    ready.is_some_and(|ready| Reason::of(&ready.reason).is_some())
}

/// Reads the validity of the members' tokens. Skips Secrets that do not exist or that the user may
/// not read.
async fn tokens(
    hub: &ApiServer,
    clusters: &[Cluster],
) -> Result<BTreeMap<String, Validity>, RequestError> {
    let named = clusters.iter().filter(|cluster| cluster.takes_part());
    let named =
        named.filter_map(|cluster| Some((cluster.name_any(), cluster.spec.secret_ref.as_ref()?)));
    let read = named.map(async |(cluster, secret)| {
        let token = match token(hub, secret).await {
            Err(
                RequestError::NotAllowed { .. }
                | RequestError::NotFound { .. }
                | RequestError::Unsendable { .. },
            ) => None,
            read => read?,
        };
        Ok(token.and_then(|token| Some((cluster, Validity::of(&token)?))))
    });
    let read: Vec<_> = futures::stream::iter(read)
        .buffered(AT_ONCE)
        .collect()
        .await;
    let read: Result<Vec<_>, RequestError> = read.into_iter().collect();
    Ok(read?.into_iter().flatten().collect())
}

/// Reads the token of a Secret. Returns `None` if the controller reads no credentials from its
/// namespace, or it holds no token.
async fn token(hub: &ApiServer, secret: &SecretReference) -> Result<Option<String>, RequestError> {
    if !credentials::may_read(hub, &secret.namespace).await? {
        return Ok(None);
    }
    let secrets = hub.within::<Secret>(&secret.namespace);
    let found = hub.get(secrets, &secret.name).await?;
    let token = found.and_then(|secret| secret.data?.remove("token"));
    Ok(token.and_then(|token| String::from_utf8(token.0).ok()))
}

/// Returns the namespaces of the ClusterProfiles that become Clusters, from the controller's flags
/// and from existing Clusters.
fn profile_namespaces(
    deployments: &Readable<Vec<Deployment>>,
    clusters: &Readable<Vec<Cluster>>,
) -> BTreeSet<String> {
    let deployments = deployments.iter().flatten();
    let flags = deployments.flat_map(credentials::profile_namespaces);
    let clusters = clusters.iter().flatten();
    let made = clusters.filter_map(|cluster| cluster.profile_namespace());
    flags.chain(made.map(ToOwned::to_owned)).collect()
}

/// Whether a Deployment runs a webhook that manages its own certificates.
fn manages_certificates(deployment: &Deployment) -> bool {
    let pod = deployment
        .spec
        .as_ref()
        .and_then(|spec| spec.template.spec.as_ref());
    let containers = pod.into_iter().flat_map(|pod| &pod.containers);
    let mut args = containers.flat_map(|container| container.args.iter().flatten());
    args.any(|arg| arg.starts_with("--self-managed-certs"))
}

/// Converts the webhooks of an existing configuration.
fn webhooks<W>(
    all: Option<Vec<W>>,
    parts: fn(W) -> (String, WebhookClientConfig),
) -> Option<Vec<Webhook>> {
    let all = all.into_iter().flatten().map(parts);
    Some(all.map(|(name, client)| Webhook { name, client }).collect())
}

/// Reviews the rights of both accounts.
async fn missing_rights(
    hub: &ApiServer,
    needs: &Needs<'_>,
) -> Result<Vec<(&'static str, Readable<Option<Vec<MissingRight>>>)>, RequestError> {
    let mut all = Vec::new();
    for account in DEPLOYMENTS {
        let needed = rights::needed(account, needs);
        let missing = rights::missing_rights(hub, account, needed).await;
        all.push((account, allowed(missing)?));
    }
    Ok(all)
}

/// Converts [`RequestError::NotAllowed`] to its text. A denied read is not a fault of the
/// installation.
pub(crate) fn allowed<T>(answer: Result<T, RequestError>) -> Result<Readable<T>, RequestError> {
    or_refused(answer, |why| why.to_string())
}

/// Returns the reason that a rollout is incomplete, or `None` if all pods have the current template
/// and are ready. Matches `kubectl rollout status`.
pub(crate) fn rollout(deployment: &Deployment) -> Option<String> {
    let wanted = deployment.spec.as_ref().and_then(|spec| spec.replicas);
    let wanted = wanted.unwrap_or(1);
    let status = deployment.status.clone().unwrap_or_default();
    let count = |replicas: Option<i32>| replicas.unwrap_or_default();
    let updated = count(status.updated_replicas);
    let (all, available) = (count(status.replicas), count(status.available_replicas));
    if status.observed_generation < deployment.metadata.generation {
        return Some("not observed by its controller yet".to_owned());
    }
    let conditions = status.conditions.iter().flatten();
    let mut failures =
        conditions.filter(|one| one.type_ == "ReplicaFailure" && one.status == "True");
    if let Some(message) = failures.find_map(|one| one.message.clone()) {
        return Some(message);
    }
    if updated < wanted {
        return Some(format!(
            "{updated} of {wanted} new replicas have been created"
        ));
    }
    if all > updated {
        return Some(format!(
            "{} old replicas are pending termination",
            all - updated
        ));
    }
    if available < wanted {
        return Some(format!("{available} of {wanted} replicas are available"));
    }
    None
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
    use serde_json::{Value, json};

    use super::*;
    use crate::cluster::access::Side;
    use crate::fixtures::{answering, synced};

    #[tokio::test]
    async fn unread_token_is_unknown_and_an_impossible_secret_is_skipped() {
        let claims = URL_SAFE_NO_PAD.encode(r#"{"iat": 60, "exp": 660}"#);
        let token = STANDARD.encode(format!("e30.{claims}.c2ln"));
        let secret = json!({"metadata": {"name": "a"}, "data": {"token": token}});
        let hub = answering(Side::Hub, move |request| {
            let failure = |code: u16| (code, json!({"status": "Failure", "code": code}));
            match request.uri().path().rsplit('/').next() {
                Some("good") => (200, secret.clone()),
                Some("busy") => failure(500),
                Some("forbidden") => failure(403),
                _ => failure(404),
            }
        });
        let cluster = |(namespace, name): (&str, &str)| {
            let mut cluster = synced(&format!("{namespace}-{name}"));
            let secret = json!({"namespace": namespace, "name": name});
            cluster.spec.secret_ref = serde_json::from_value(secret).expect("a reference");
            cluster
        };
        let skipped = ["", "my secret", "forbidden", "absent"];
        let skipped = skipped.map(|name| ("causeway-members", name)).into_iter();
        let others = [("elsewhere", "good"), ("causeway-members", "good")];
        let mut clusters: Vec<_> = skipped.chain(others).map(cluster).collect();
        let read = tokens(&hub, &clusters).await.expect("tokens");
        let read: Vec<_> = read.into_keys().collect();
        assert_eq!(read, ["causeway-members-good"]);
        clusters.push(cluster(("causeway-members", "busy")));
        let unread = tokens(&hub, &clusters).await;
        assert!(
            matches!(unread, Err(RequestError::Busy { .. })),
            "{unread:?}"
        );
    }

    fn deployment(status: Value) -> Deployment {
        serde_json::from_value(json!({
            "metadata": { "name": "causeway-webhook", "generation": 2 },
            "spec": { "replicas": 2, "selector": {}, "template": {} },
            "status": status,
        }))
        .expect("a Deployment")
    }

    #[test]
    fn a_deployment_is_ready_when_its_new_pods_are_and_no_old_one_is_left() {
        let counted = |observed: i64, all: i32, updated: i32, available: i32| {
            json!({
                "observedGeneration": observed, "replicas": all, "updatedReplicas": updated,
                "availableReplicas": available,
            })
        };
        let refused =
            json!([{"type": "ReplicaFailure", "status": "True", "message": "exceeded quota"}]);
        let refused = json!({"observedGeneration": 2, "conditions": refused});
        for (status, gap) in [
            (json!({}), "not observed by its controller yet"),
            (counted(1, 2, 2, 2), "not observed by its controller yet"),
            (counted(2, 2, 1, 2), "1 of 2 new replicas"),
            (counted(2, 3, 2, 2), "1 old replicas"),
            (counted(2, 2, 2, 1), "1 of 2 replicas are available"),
            (refused, "exceeded quota"),
        ] {
            let said = rollout(&deployment(status.clone())).expect(gap);
            assert!(said.contains(gap), "{said}: {status}");
        }
        assert_eq!(rollout(&deployment(counted(2, 2, 2, 2))), None);
    }
}
