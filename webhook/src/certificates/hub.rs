//! Reads, watches and writes the Secrets and the webhook configurations of the hub.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use causeway::api::labels::{MANAGED_BY, MANAGER};
use causeway::process::readiness::Readiness;
use causeway::process::supervise::Tasks;
use causeway_certs::{CERTIFICATE, Contents, KEY, Stored, Trusted};
use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration,
};
use k8s_openapi::api::core::v1::Secret;
use kube::api::{ObjectMeta, Patch, PatchParams, PostParams};
use kube::core::Status;
use kube::core::response::StatusDetails;
use kube::runtime::watcher::{self, watcher};
use kube::{Api, Client};
use tokio::time::timeout;

use super::cache::Cache;
use super::snapshot::{Kind, Registration, Snapshot, StoredSecrets, Which};
use super::{REGISTRATION, ROTATE, SelfManaged};
use crate::metrics::Metrics;
use crate::watch::follow;

const DEADLINE: Duration = Duration::from_secs(5);
const TLS_SECRET: &str = "kubernetes.io/tls";
const OPAQUE: &str = "Opaque";

/// Error of a request to the hub.
#[derive(Debug, thiserror::Error)]
pub(super) enum HubError {
    #[error("no answer from the hub within {DEADLINE:?} to: {0}")]
    Timeout(String),
    #[error("cannot {what}")]
    Failed {
        what: String,
        source: Box<kube::Error>,
    },
    /// The object has changed since it was read.
    #[error("{0} has changed since it was read")]
    Conflict(String),
}

type Configurations = (
    Option<MutatingWebhookConfiguration>,
    Option<ValidatingWebhookConfiguration>,
);

/// Client of the hub for Secrets and webhook configurations.
pub(super) struct Hub {
    secrets: Api<Secret>,
    mutating: Api<MutatingWebhookConfiguration>,
    validating: Api<ValidatingWebhookConfiguration>,
    namespace: String,
    serving: String,
    authority: String,
}

impl Hub {
    pub(super) fn new(client: Client, config: &SelfManaged) -> Self {
        Self {
            secrets: Api::namespaced(client.clone(), &config.namespace),
            mutating: Api::all(client.clone()),
            validating: Api::all(client),
            namespace: config.namespace.clone(),
            serving: config.secret.clone(),
            authority: config.ca_secret.clone(),
        }
    }

    /// Spawns the watches that fill the cache. The process is ready once it is filled.
    pub(super) fn watch(
        &self,
        cache: &Cache,
        tasks: &Tasks,
        readiness: &Readiness,
        metrics: &Metrics,
    ) {
        let counted = |resource| (resource, metrics.hub_watch_failures(resource));
        let named =
            |name: &str| watcher::Config::default().fields(&format!("metadata.name={name}"));
        for (task, which, slot) in [
            ("certificate-secret", Which::Serving, &cache.serving),
            ("authority-secret", Which::Authority, &cache.authority),
        ] {
            let secret = follow(
                counted("secrets"),
                watcher(self.secrets.clone(), named(self.name(which))),
                cache.updater(slot),
                readiness.awaits(self.secret(which)),
                tasks.shutdown(),
            );
            tasks.spawn(task, secret);
        }
        let mutating = follow(
            counted("mutatingwebhookconfigurations"),
            watcher(self.mutating.clone(), named(REGISTRATION)),
            cache.updater(&cache.mutating),
            readiness.awaits("the MutatingWebhookConfigurations of the hub"),
            tasks.shutdown(),
        );
        tasks.spawn("mutating-configuration", mutating);
        let validating = follow(
            counted("validatingwebhookconfigurations"),
            watcher(self.validating.clone(), named(REGISTRATION)),
            cache.updater(&cache.validating),
            readiness.awaits("the ValidatingWebhookConfigurations of the hub"),
            tasks.shutdown(),
        );
        tasks.spawn("validating-configuration", validating);
    }

    fn name(&self, which: Which) -> &str {
        match which {
            Which::Authority => &self.authority,
            Which::Serving => &self.serving,
        }
    }

    /// Returns the name of a Secret for messages.
    pub(super) fn secret(&self, which: Which) -> String {
        format!("Secret {}/{}", self.namespace, self.name(which))
    }

    /// Reads all of it from the hub in the order that [`causeway_certs::decide`] needs: the
    /// configurations, the serving Secret, the Secret of the authority. If the Secrets are not
    /// consistent, it reads the configurations again: they list every authority whose leaf is
    /// served.
    pub(super) async fn read(&self) -> Result<Snapshot, HubError> {
        let before = self.configurations().await?;
        let secrets = self.secrets().await?;
        let stored = Stored::read(secrets.contents());
        let (mutating, validating) = if stored.is_consistent(SystemTime::now()) {
            before
        } else {
            self.configurations().await?
        };
        Ok(Snapshot::new(
            mutating.as_ref(),
            validating.as_ref(),
            secrets,
        ))
    }

    /// Reads the two Secrets. A serving Secret that can sign must be unchanged after the other one
    /// is read: another replica may have moved the authority meanwhile.
    async fn secrets(&self) -> Result<StoredSecrets, HubError> {
        let serving = self.get(Which::Serving).await?;
        let authority = self.get(Which::Authority).await?;
        let secrets = StoredSecrets { serving, authority };
        if secrets.contents().is_combined() && self.get(Which::Serving).await? != secrets.serving {
            return Err(HubError::Conflict(self.secret(Which::Serving)));
        }
        Ok(secrets)
    }

    async fn get(&self, which: Which) -> Result<Option<Arc<Secret>>, HubError> {
        let read = format!("read {}", self.secret(which));
        let secret = self.secrets.get_opt(self.name(which));
        Ok(in_time(&read, secret).await?.map(Arc::new))
    }

    async fn configurations(&self) -> Result<Configurations, HubError> {
        let mutating = self.mutating.get_opt(REGISTRATION);
        let validating = self.validating.get_opt(REGISTRATION);
        let both = async { tokio::try_join!(mutating, validating) };
        in_time("read the webhook configurations", both).await
    }

    /// Writes these authorities into the caBundle of a configuration.
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
        conflict_or(registration.kind, in_time(&what, sent).await)
    }

    /// Writes the contents into a Secret, on the condition that it is unchanged. Removes the
    /// annotation of a fulfilled request.
    pub(super) async fn store(
        &self,
        which: Which,
        read: Option<&Secret>,
        contents: &Contents,
        fulfils_request: bool,
    ) -> Result<(), HubError> {
        let secret = self.secret(which);
        let what = match read {
            Some(_) => format!("write {secret}"),
            None => format!("create {secret}; apply causeway's manifests again, which contain it"),
        };
        let params = PostParams {
            field_manager: Some(MANAGER.to_owned()),
            ..PostParams::default()
        };
        let mut written = read.cloned().unwrap_or_else(|| self.new_secret(which));
        put(&mut written, contents);
        if fulfils_request && let Some(annotations) = &mut written.metadata.annotations {
            annotations.remove(ROTATE);
        }
        written.metadata.managed_fields = None;
        let sent = async {
            match read {
                None => self.secrets.create(&params, &written).await,
                Some(_) => {
                    self.secrets
                        .replace(self.name(which), &params, &written)
                        .await
                }
            }
        };
        conflict_or(secret, in_time(&what, sent).await.map(drop))
    }

    fn new_secret(&self, which: Which) -> Secret {
        let kind = match which {
            Which::Authority => OPAQUE,
            Which::Serving => TLS_SECRET,
        };
        let labels = [
            ("app.kubernetes.io/name", "causeway"),
            ("app.kubernetes.io/component", "webhook"),
            (MANAGED_BY, MANAGER),
        ];
        let labels = labels.map(|(key, value)| (key.to_owned(), value.to_owned()));
        Secret {
            metadata: ObjectMeta {
                name: Some(self.name(which).to_owned()),
                namespace: Some(self.namespace.clone()),
                labels: Some(labels.into()),
                ..ObjectMeta::default()
            },
            type_: Some(kind.to_owned()),
            ..Secret::default()
        }
    }
}

/// Sets causeway's part of the data of a Secret. The type for TLS requires the keys of a leaf,
/// which may be empty.
fn put(secret: &mut Secret, contents: &Contents) {
    let needs_leaf = secret.type_.as_deref() == Some(TLS_SECRET);
    let data = secret.data.get_or_insert_default();
    for (key, value) in contents.entries() {
        match value {
            Some(value) => {
                data.insert(key.to_owned(), ByteString(value.to_vec()));
            }
            None if needs_leaf && (key == CERTIFICATE || key == KEY) => {
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
        .map_err(|_| HubError::Timeout(what.to_owned()))?
        .map_err(|source| HubError::Failed {
            what: what.to_owned(),
            source: Box::new(source),
        })
}

/// Distinguishes a write conflict: the object was created, changed or deleted meanwhile.
fn conflict_or(object: impl fmt::Display, outcome: Result<(), HubError>) -> Result<(), HubError> {
    match outcome {
        Err(HubError::Failed { what, source }) => {
            let is_conflict = matches!(&*source, kube::Error::Api(status) if is_conflict(status));
            Err(if is_conflict {
                HubError::Conflict(object.to_string())
            } else {
                HubError::Failed { what, source }
            })
        }
        other => other,
    }
}

/// Whether the status is a conflict, or of a JSON Patch that does not apply to the changed object.
/// The API server answers the latter with a 422 that names no field, unlike that of an invalid
/// object (k8s.io/apiserver/pkg/endpoints/handlers, patch.go).
fn is_conflict(status: &Status) -> bool {
    let names_fields = |details: &StatusDetails| !details.causes.is_empty();
    let unpatched = status.code == 422 && !status.details.as_ref().is_some_and(names_fields);
    status.code == 409 || unpatched
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn write_conflict_is_distinguished_from_an_invalid_write() {
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
        assert!(is_conflict(&status(conflict)) && is_conflict(&status(unpatched)));
        assert!(!is_conflict(&status(wrong)) && !is_conflict(&status(forbidden)));
    }
}
