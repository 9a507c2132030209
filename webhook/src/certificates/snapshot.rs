//! The Secrets and the parts of the webhook configurations that concern certificates, at one
//! moment.

use std::fmt;
use std::sync::Arc;

use causeway_certs::{Bundle, Contents, Secrets, Trusted, bundle_pem};
use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration, WebhookClientConfig,
};
use k8s_openapi::api::core::v1::Secret;
use kube::api::ObjectMeta;
use serde_json::json;

use super::REGISTRATION;

/// Annotations by which cert-manager manages a caBundle (its "CA Injector" documentation).
const INJECTED: [&str; 3] = [
    "cert-manager.io/inject-ca-from",
    "cert-manager.io/inject-ca-from-secret",
    "cert-manager.io/inject-apiserver-ca",
];

/// Kind of a webhook configuration.
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

/// Part of a webhook configuration that concerns certificates.
#[derive(Clone, Debug)]
pub(super) struct Registration {
    pub(super) kind: Kind,
    pub(super) uid: String,
    resource_version: String,
    /// Whether cert-manager manages its caBundle.
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

    /// Whether every caBundle holds exactly these authorities.
    pub(super) fn is_just(&self, trust: &[Trusted]) -> bool {
        self.bundles.iter().all(|bundle| bundle.is_just(trust))
    }

    /// Returns the patch of the stale bundles, on the condition that the configuration is
    /// unchanged.
    pub(super) fn patch(&self, trust: &[Trusted]) -> Option<json_patch::Patch> {
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

/// One of the two Secrets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Which {
    Authority,
    Serving,
}

/// The two Secrets, as stored on the hub.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct StoredSecrets {
    pub(super) serving: Option<Arc<Secret>>,
    pub(super) authority: Option<Arc<Secret>>,
}

impl StoredSecrets {
    pub(super) fn get(&self, which: Which) -> Option<&Secret> {
        match which {
            Which::Authority => self.authority.as_deref(),
            Which::Serving => self.serving.as_deref(),
        }
    }

    /// Returns causeway's part of their data.
    pub(super) fn contents(&self) -> Secrets {
        let contents = |which| self.get(which).map(contents);
        Secrets {
            serving: contents(Which::Serving),
            authority: contents(Which::Authority),
        }
    }
}

/// The Secrets and the configurations, at one moment.
#[derive(Clone, Debug)]
pub(super) struct Snapshot {
    pub(super) registrations: Vec<Registration>,
    pub(super) secrets: StoredSecrets,
}

impl Snapshot {
    pub(super) fn new(
        mutating: Option<&MutatingWebhookConfiguration>,
        validating: Option<&ValidatingWebhookConfiguration>,
        secrets: StoredSecrets,
    ) -> Self {
        let mutating = mutating.map(Registration::mutating);
        let validating = validating.map(Registration::validating);
        Self {
            registrations: mutating.into_iter().chain(validating).collect(),
            secrets,
        }
    }

    /// Returns the configurations whose caBundle causeway manages.
    pub(super) fn managed(&self) -> impl Iterator<Item = &Registration> {
        self.registrations.iter().filter(|one| !one.injected)
    }
}

fn contents(secret: &Secret) -> Contents {
    let data = secret.data.as_ref();
    Contents::gather(|key| Some(data?.get(key)?.0.as_slice()))
}
