//! A hub whose webhooks keep their own certificates.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::path::Path;
use std::time::Duration;

use causeway_certs::{Bundle, Contents, Stored};
use causeway_tests::causeway::{Launch, NAMESPACE};
use causeway_tests::{Cluster, Fleet, Installation, Running, SOON, eventually};
use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration,
};
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

/// The Secret of the manifests.
pub(crate) const SECRET: &str = "causeway-webhook-tls";
/// The configurations of the manifests.
pub(crate) const REGISTRATION: &str = "causeway";

/// A fleet of one hub, and causeway's rights on it. Nothing runs and nothing is registered yet.
pub(crate) struct Stage {
    pub(crate) installation: Installation,
    pub(crate) fleet: Fleet,
}

impl Stage {
    pub(crate) async fn new() -> Self {
        let fleet = Fleet::builder().start().await;
        let installation = Installation::new(&fleet).await;
        Self {
            installation,
            fleet,
        }
    }

    pub(crate) fn hub(&self) -> &Cluster {
        self.fleet.hub()
    }

    /// A webhook that keeps its certificates, called at the loopback.
    pub(crate) fn launch(&self) -> Launch {
        self.installation
            .webhook_without_certificate(Ipv4Addr::LOCALHOST.into(), Path::new(""))
            .arg(format!("--self-managed-certs={NAMESPACE}/{SECRET}"))
            .arg("--certificate-name=127.0.0.1")
    }

    /// The same, with lifetimes of so many seconds.
    pub(crate) fn short_lived(&self, authority: u64, leaf: u64) -> Launch {
        self.launch()
            .arg(format!("--ca-validity={authority}s"))
            .arg(format!("--leaf-validity={leaf}s"))
    }

    /// Applies the manifest for hubs without nodes, without any caBundle.
    pub(crate) async fn register(&self, webhook: &Running) {
        let file = causeway_tests::repository().join("manifests/hub/options/webhook-by-url.yaml");
        let text = std::fs::read_to_string(file).expect("the manifest");
        let manifest = text
            .replace("WEBHOOK_URL", &format!("https://{}", webhook.bind()))
            .replace("      caBundle: CA_BUNDLE\n", "");
        self.hub().apply(&manifest).await.ok();
    }

    pub(crate) fn secrets(&self) -> Api<Secret> {
        Api::namespaced(self.hub().client(), NAMESPACE)
    }

    /// What is stored; nothing where there is no Secret.
    pub(crate) async fn stored(&self) -> Stored {
        let secret = self.secrets().get_opt(SECRET).await.expect("an answer");
        let contents = secret.map(|secret| {
            let data = secret.data.unwrap_or_default();
            Contents::gather(|key| Some(data.get(key)?.0.as_slice()))
        });
        Stored::read(contents)
    }

    /// What the configurations hold: the mutating one's first.
    pub(crate) async fn bundles(&self) -> Vec<Bundle> {
        let client = self.hub().client();
        let mutating = Api::<MutatingWebhookConfiguration>::all(client.clone());
        let validating = Api::<ValidatingWebhookConfiguration>::all(client);
        let mutating = mutating.get_opt(REGISTRATION).await.expect("an answer");
        let validating = validating.get_opt(REGISTRATION).await.expect("an answer");
        let mutating = mutating.into_iter().flat_map(|one| one.webhooks);
        let mutating = mutating.flatten().map(|webhook| webhook.client_config);
        let validating = validating.into_iter().flat_map(|one| one.webhooks);
        let validating = validating.flatten().map(|webhook| webhook.client_config);
        mutating
            .chain(validating)
            .map(|client| Bundle::read(&client.ca_bundle.unwrap_or_default().0))
            .collect()
    }

    /// Replaces the data of the Secret, or makes it with these.
    pub(crate) async fn put(&self, data: BTreeMap<String, ByteString>) {
        let secrets = self.secrets();
        match secrets.get_opt(SECRET).await.expect("an answer") {
            Some(mut secret) => {
                secret.data = Some(data);
                secret.metadata.resource_version = None;
                let params = PostParams::default();
                let replaced = secrets.replace(SECRET, &params, &secret).await;
                replaced.expect("the Secret is replaced");
            }
            None => {
                let mut secret = Secret::default();
                secret.metadata.name = Some(SECRET.to_owned());
                secret.data = Some(data);
                let created = secrets.create(&PostParams::default(), &secret).await;
                created.expect("the Secret is made");
            }
        }
    }

    /// The data of the Secret.
    pub(crate) async fn data(&self) -> BTreeMap<String, ByteString> {
        let secret = self.secrets().get(SECRET).await.expect("a Secret");
        secret.data.unwrap_or_default()
    }

    pub(crate) async fn delete_secret(&self) {
        let params = DeleteParams::default();
        let deleted = self.secrets().delete(SECRET, &params).await;
        deleted.expect("the Secret is deleted");
    }

    /// Asks for a rotation.
    pub(crate) async fn rotate(&self, what: &str) {
        let wish = json!({"metadata": {"annotations": {"mcs.causeway.dev/rotate": what}}});
        let params = PatchParams::default();
        let patched = self
            .secrets()
            .patch(SECRET, &params, &Patch::Merge(wish))
            .await;
        patched.expect("the Secret is annotated");
    }

    /// Sets the caBundle of one of the two configurations, as somebody might.
    pub(crate) async fn overwrite(&self, kind: &str, bundle: Value) {
        let patch = json!([
            {"op": "add", "path": "/webhooks/0/clientConfig/caBundle", "value": bundle}
        ]);
        let patch = patch.to_string();
        let args = ["patch", kind, REGISTRATION, "--type=json", "-p", &patch];
        self.hub().kubectl(args).await.ok();
    }

    /// Waits until a webhook's leaf is stored and every one of so many caBundles holds the authority that signed it and
    /// nothing but what is stored.
    pub(crate) async fn settled(&self, bundles: usize) -> Stored {
        eventually("the certificates are as they should be", SOON, || async {
            let stored = self.stored().await;
            let now = std::time::SystemTime::now();
            let leaf = stored.leaf(&Default::default(), now);
            leaf.map_err(|fault| format!("the leaf: {fault}"))?;
            let trust = stored.trust(now);
            let published = self.bundles().await;
            if published.len() == bundles && published.iter().all(|one| one.is_just(&trust)) {
                Ok(stored)
            } else {
                Err(format!("{trust:?} should be in {published:?}"))
            }
        })
        .await
    }
}

/// What a webhook counted.
pub(crate) async fn count(webhook: &Running, metric: &str, labels: &[(&str, &str)]) -> f64 {
    let metrics = webhook.metrics().await;
    metrics.get(metric, labels).unwrap_or_default()
}

/// How long what takes the settling time of long-lived certificates may take.
pub(crate) const LATER: Duration = Duration::from_secs(60);
