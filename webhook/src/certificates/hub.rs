//! The hub's part: the Secret and the webhook configurations, as they are read, watched and written.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use causeway::api::labels::{MANAGED_BY, MANAGER};
use causeway::process::readiness::Readiness;
use causeway::process::supervise::Tasks;
use causeway_certs::{Bundle, CERTIFICATE, Contents, KEY, Stored, Trusted, bundle_pem};
use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration, WebhookClientConfig,
};
use k8s_openapi::api::core::v1::Secret;
use kube::api::{ObjectMeta, Patch, PatchParams, PostParams};
use kube::core::Status;
use kube::core::response::StatusDetails;
use kube::runtime::watcher::{self, watcher};
use kube::{Api, Client};
use serde_json::json;
use tokio::time::timeout;

use super::cache::Cache;
use super::{REGISTRATION, ROTATE, SelfManaged};
use crate::watch::follow;

const DEADLINE: Duration = Duration::from_secs(5);
const TLS_SECRET: &str = "kubernetes.io/tls";
/// cert-manager keeps the caBundle of a configuration that bears this (its "CA Injector" documentation).
const INJECTED: [&str; 3] = [
    "cert-manager.io/inject-ca-from",
    "cert-manager.io/inject-ca-from-secret",
    "cert-manager.io/inject-apiserver-ca",
];

/// A request to the hub did not succeed.
#[derive(Debug, thiserror::Error)]
pub(super) enum HubError {
    #[error("the hub did not answer within {DEADLINE:?} when it was to {0}")]
    Late(String),
    #[error("the hub could not {what}")]
    Failed {
        what: String,
        source: Box<kube::Error>,
    },
    /// Somebody else was faster.
    #[error("{0} has changed meanwhile")]
    Lost(String),
}

/// Which of the two kinds of webhook configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Kind {
    Mutating,
    Validating,
}

impl fmt::Display for Kind {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self {
            Self::Mutating => "MutatingWebhookConfiguration",
            Self::Validating => "ValidatingWebhookConfiguration",
        };
        write!(out, "{kind} {REGISTRATION}")
    }
}

/// A webhook configuration, as far as it concerns certificates.
#[derive(Clone, Debug)]
pub(super) struct Registration {
    pub(super) kind: Kind,
    pub(super) uid: String,
    resource_version: String,
    /// Whether cert-manager keeps it.
    pub(super) injected: bool,
    pub(super) bundles: Vec<Bundle>,
}

impl Registration {
    fn new<'a>(
        kind: Kind,
        metadata: &ObjectMeta,
        clients: impl Iterator<Item = &'a WebhookClientConfig>,
    ) -> Self {
        let annotations = metadata.annotations.as_ref();
        let bears = |key: &&str| annotations.is_some_and(|all| all.contains_key(*key));
        let bundle = |client: &WebhookClientConfig| {
            let text = client.ca_bundle.as_ref();
            Bundle::read(text.map(|text| text.0.as_slice()).unwrap_or_default())
        };
        Self {
            kind,
            uid: metadata.uid.clone().unwrap_or_default(),
            resource_version: metadata.resource_version.clone().unwrap_or_default(),
            injected: INJECTED.iter().any(bears),
            bundles: clients.map(bundle).collect(),
        }
    }

    fn mutating(object: &MutatingWebhookConfiguration) -> Self {
        let webhooks = object.webhooks.iter().flatten();
        let clients = webhooks.map(|webhook| &webhook.client_config);
        Self::new(Kind::Mutating, &object.metadata, clients)
    }

    fn validating(object: &ValidatingWebhookConfiguration) -> Self {
        let webhooks = object.webhooks.iter().flatten();
        let clients = webhooks.map(|webhook| &webhook.client_config);
        Self::new(Kind::Validating, &object.metadata, clients)
    }

    /// Whether every bundle of it holds these authorities and nothing else.
    pub(super) fn is_just(&self, trust: &[Trusted]) -> bool {
        self.bundles.iter().all(|bundle| bundle.is_just(trust))
    }

    /// Sets those bundles that are otherwise, provided that the configuration is as it was read.
    fn patch(&self, trust: &[Trusted]) -> Option<json_patch::Patch> {
        let text = ByteString(bundle_pem(trust).into_bytes());
        let stale = self.bundles.iter().enumerate();
        let stale = stale.filter(|(_, bundle)| !bundle.is_just(trust));
        let sets = stale.map(|(index, _)| {
            let path = format!("/webhooks/{index}/clientConfig/caBundle");
            json!({ "op": "add", "path": path, "value": text })
        });
        let condition = json!({
            "op": "test", "path": "/metadata/resourceVersion", "value": self.resource_version,
        });
        serde_json::from_value(std::iter::once(condition).chain(sets).collect()).ok()
    }
}

/// The Secret and the configurations, at one moment.
#[derive(Clone, Debug)]
pub(super) struct Look {
    pub(super) registrations: Vec<Registration>,
    pub(super) secret: Option<Arc<Secret>>,
}

impl Look {
    pub(super) fn new(
        mutating: Option<&MutatingWebhookConfiguration>,
        validating: Option<&ValidatingWebhookConfiguration>,
        secret: Option<Arc<Secret>>,
    ) -> Self {
        let mutating = mutating.map(Registration::mutating);
        let validating = validating.map(Registration::validating);
        Self {
            registrations: mutating.into_iter().chain(validating).collect(),
            secret,
        }
    }

    /// The configurations that are causeway's to keep.
    pub(super) fn kept(&self) -> impl Iterator<Item = &Registration> {
        self.registrations.iter().filter(|one| !one.injected)
    }
}

/// What a Secret holds of causeway's.
pub(super) fn contents(secret: &Secret) -> Contents {
    let data = secret.data.as_ref();
    Contents::gather(|key| Some(data?.get(key)?.0.as_slice()))
}

type Configurations = (
    Option<MutatingWebhookConfiguration>,
    Option<ValidatingWebhookConfiguration>,
);

/// The API of the hub.
pub(super) struct Hub {
    secrets: Api<Secret>,
    mutating: Api<MutatingWebhookConfiguration>,
    validating: Api<ValidatingWebhookConfiguration>,
    namespace: String,
    name: String,
}

impl Hub {
    pub(super) fn new(client: Client, config: &SelfManaged) -> Self {
        Self {
            secrets: Api::namespaced(client.clone(), &config.namespace),
            mutating: Api::all(client.clone()),
            validating: Api::all(client),
            namespace: config.namespace.clone(),
            name: config.secret.clone(),
        }
    }

    /// Begins to fill the cache; the process is ready once it is.
    pub(super) fn watch(&self, cache: &Cache, tasks: &Tasks, readiness: &Readiness) {
        let named =
            |name: &str| watcher::Config::default().fields(&format!("metadata.name={name}"));
        let secret = follow(
            "secrets",
            watcher(self.secrets.clone(), named(&self.name)),
            cache.fold(&cache.secret),
            readiness.awaits(self.secret()),
            tasks.shutdown(),
        );
        tasks.spawn("certificate-secret", secret);
        let mutating = follow(
            "mutatingwebhookconfigurations",
            watcher(self.mutating.clone(), named(REGISTRATION)),
            cache.fold(&cache.mutating),
            readiness.awaits("the MutatingWebhookConfigurations of the hub"),
            tasks.shutdown(),
        );
        tasks.spawn("mutating-configuration", mutating);
        let validating = follow(
            "validatingwebhookconfigurations",
            watcher(self.validating.clone(), named(REGISTRATION)),
            cache.fold(&cache.validating),
            readiness.awaits("the ValidatingWebhookConfigurations of the hub"),
            tasks.shutdown(),
        );
        tasks.spawn("validating-configuration", validating);
    }

    /// The Secret's name, for people.
    pub(super) fn secret(&self) -> String {
        format!("Secret {}/{}", self.namespace, self.name)
    }

    /// Reads all of it from the hub: the configurations first, so that nothing is unknown of the Secret that a
    /// configuration shows already; and once more where nothing in the Secret can sign, so that whoever was served by what
    /// it held is known by the configurations.
    pub(super) async fn look(&self) -> Result<Look, HubError> {
        let before = self.configurations().await?;
        let read = format!("read {}", self.secret());
        let secret = in_time(&read, self.secrets.get_opt(&self.name)).await?;
        let stored = Stored::read(secret.as_ref().map(contents));
        let signs = stored.signing(SystemTime::now()).is_ok();
        let (mutating, validating) = if signs {
            before
        } else {
            self.configurations().await?
        };
        Ok(Look::new(
            mutating.as_ref(),
            validating.as_ref(),
            secret.map(Arc::new),
        ))
    }

    async fn configurations(&self) -> Result<Configurations, HubError> {
        let mutating = self.mutating.get_opt(REGISTRATION);
        let validating = self.validating.get_opt(REGISTRATION);
        let both = async { tokio::try_join!(mutating, validating) };
        in_time("read the webhook configurations", both).await
    }

    /// Has a configuration hold these authorities.
    pub(super) async fn publish(
        &self,
        registration: &Registration,
        trust: &[Trusted],
    ) -> Result<(), HubError> {
        let Some(patch) = registration.patch(trust) else {
            return Ok(());
        };
        let patch = Patch::<()>::Json(patch);
        let params = PatchParams {
            field_manager: Some(MANAGER.to_owned()),
            ..PatchParams::default()
        };
        let sent = async {
            match registration.kind {
                Kind::Mutating => drop(self.mutating.patch(REGISTRATION, &params, &patch).await?),
                Kind::Validating => {
                    drop(self.validating.patch(REGISTRATION, &params, &patch).await?);
                }
            }
            Ok(())
        };
        let what = format!("write the caBundle of {}", registration.kind);
        lost_or(registration.kind, in_time(&what, sent).await)
    }

    /// Stores the contents in the Secret, provided that it is as it was read; `wished` lets the wish for it go.
    pub(super) async fn store(
        &self,
        read: Option<&Secret>,
        contents: &Contents,
        wished: bool,
    ) -> Result<(), HubError> {
        let what = format!("write {}", self.secret());
        let params = PostParams {
            field_manager: Some(MANAGER.to_owned()),
            ..PostParams::default()
        };
        let mut secret = read.cloned().unwrap_or_else(|| self.new_secret());
        put(&mut secret, contents);
        if wished && let Some(annotations) = &mut secret.metadata.annotations {
            annotations.remove(ROTATE);
        }
        secret.metadata.managed_fields = None;
        let sent = async {
            match read {
                None => self.secrets.create(&params, &secret).await,
                Some(_) => self.secrets.replace(&self.name, &params, &secret).await,
            }
        };
        lost_or(self.secret(), in_time(&what, sent).await.map(drop))
    }

    fn new_secret(&self) -> Secret {
        let labels = [
            ("app.kubernetes.io/name", "causeway"),
            ("app.kubernetes.io/component", "webhook"),
            (MANAGED_BY, MANAGER),
        ];
        let labels = labels.map(|(key, value)| (key.to_owned(), value.to_owned()));
        Secret {
            metadata: ObjectMeta {
                name: Some(self.name.clone()),
                namespace: Some(self.namespace.clone()),
                labels: Some(labels.into()),
                ..ObjectMeta::default()
            },
            type_: Some(TLS_SECRET.to_owned()),
            ..Secret::default()
        }
    }
}

/// Sets what is causeway's in the Secret's data, and nothing else. A Secret of its type has the keys of the leaf always.
fn put(secret: &mut Secret, contents: &Contents) {
    let data = secret.data.get_or_insert_with(BTreeMap::new);
    for (key, value) in contents.entries() {
        match value {
            Some(value) => {
                data.insert(key.to_owned(), ByteString(value.to_vec()));
            }
            None if key == CERTIFICATE || key == KEY => {
                data.insert(key.to_owned(), ByteString::default());
            }
            None => {
                data.remove(key);
            }
        }
    }
}

async fn in_time<T>(
    what: &str,
    request: impl Future<Output = kube::Result<T>>,
) -> Result<T, HubError> {
    timeout(DEADLINE, request)
        .await
        .map_err(|_| HubError::Late(what.to_owned()))?
        .map_err(|source| HubError::Failed {
            what: what.to_owned(),
            source: Box::new(source),
        })
}

/// A write that came too late: the object is there already, is another now, or is gone.
fn lost_or(object: impl fmt::Display, outcome: Result<(), HubError>) -> Result<(), HubError> {
    match outcome {
        Err(HubError::Failed { what, source }) => {
            let lost = matches!(&*source, kube::Error::Api(status) if is_lost(status));
            Err(if lost {
                HubError::Lost(object.to_string())
            } else {
                HubError::Failed { what, source }
            })
        }
        other => other,
    }
}

/// A conflict, or a JSON Patch that does not apply to what the object has become. The API server answers the latter with a
/// 422 that names no field, unlike that of an object which is wrong (k8s.io/apiserver/pkg/endpoints/handlers, patch.go).
fn is_lost(status: &Status) -> bool {
    let names_fields = |details: &StatusDetails| !details.causes.is_empty();
    let unpatched = status.code == 422 && !status.details.as_ref().is_some_and(names_fields);
    status.code == 409 || unpatched
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_that_came_too_late_is_told_from_one_that_is_wrong() {
        let status = |value| serde_json::from_value::<Status>(value).expect("a Status");
        // As API servers of Kubernetes 1.36 answer.
        let conflict = json!({"status": "Failure", "reason": "AlreadyExists", "code": 409});
        let unpatched = json!({
            "status": "Failure", "reason": "Invalid", "code": 422, "details": {},
            "message": "the server rejected our request due to an error in our request",
        });
        let wrong = json!({
            "status": "Failure", "reason": "Invalid", "code": 422,
            "message": "MutatingWebhookConfiguration.admissionregistration.k8s.io \"causeway\" is invalid: webhooks[0].name: \
                        Required value",
            "details": {"name": "causeway", "causes": [
                {"reason": "FieldValueRequired", "message": "Required value", "field": "webhooks[0].name"},
            ]},
        });
        let forbidden = json!({"status": "Failure", "reason": "Forbidden", "code": 403});
        assert!(is_lost(&status(conflict)) && is_lost(&status(unpatched)));
        assert!(!is_lost(&status(wrong)) && !is_lost(&status(forbidden)));
    }
}
