//! A hub whose webhooks keep their own certificates, and what may be done to those.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::path::Path;
use std::time::SystemTime;

use causeway_certs::{
    Bundle, CA_CERTIFICATE, CERTIFICATE, Contents, KEY, Names, Secrets, Stored, Trusted,
};
use causeway_tests::causeway::{Launch, NAMESPACE};
use causeway_tests::write::merge;
use causeway_tests::{Cluster, Fleet, Installation, Running, SOON, eventually};
use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration,
};
use k8s_openapi::api::core::v1::Secret;
use kube::api::{DeleteParams, PostParams};
use kube::{Api, Client, Config};
use serde_json::{Value, json};
use tokio::sync::{Mutex, MutexGuard, OnceCell};

/// The serving Secret of the manifests.
pub(crate) const SECRET: &str = "causeway-webhook-tls";
/// The Secret of the authority.
pub(crate) const CA_SECRET: &str = "causeway-webhook-ca";

const LEAF: [&str; 2] = [CERTIFICATE, KEY];

/// Data of a Secret.
pub(crate) type Data = BTreeMap<String, ByteString>;

fn gather(data: &Data) -> Contents {
    Contents::gather(|key| Some(data.get(key)?.0.as_slice()))
}

/// The configurations of the manifests.
pub(crate) const REGISTRATION: &str = "causeway";

/// A fleet of one hub, and causeway's rights on it. Nothing runs and nothing is registered yet.
pub(crate) struct Hub {
    pub(crate) installation: Installation,
    pub(crate) fleet: Fleet,
    turn: Mutex<()>,
}

/// The stage that the tests share, one after the other: the Secrets are empty, and nothing is
/// registered, at the beginning of a turn.
pub(crate) async fn stage() -> (&'static Hub, MutexGuard<'static, ()>) {
    static STAGE: OnceCell<Hub> = OnceCell::const_new();
    let stage = STAGE.get_or_init(Hub::start).await;
    let turn = stage.turn.lock().await;
    stage.clear().await;
    (stage, turn)
}

impl Hub {
    /// A stage of its own, as at the beginning of a turn.
    pub(crate) async fn start() -> Self {
        let fleet = Fleet::builder().start().await;
        let installation = Installation::new(&fleet).await;
        Self {
            installation,
            fleet,
            turn: Mutex::new(()),
        }
    }

    pub(crate) async fn clear(&self) {
        let of_webhook = ["-n", NAMESPACE, "secret", SECRET, CA_SECRET];
        let configurations = "mutatingwebhookconfiguration,validatingwebhookconfiguration";
        for what in [&of_webhook[..], &[configurations, REGISTRATION]] {
            let delete = ["delete", "--ignore-not-found"];
            let args = delete.into_iter().chain(what.iter().copied());
            self.hub().kubectl(args).await.ok();
        }
        self.create_secrets().await;
    }

    /// Creates the Secrets of the manifests, empty.
    pub(crate) async fn create_secrets(&self) {
        let file = causeway_tests::repository().join("manifests/hub/rbac.yaml");
        let apply = ["apply", "-f", &file.display().to_string()];
        let selector = ["-l", "app.kubernetes.io/component=webhook-certificates"];
        self.hub()
            .kubectl(apply.into_iter().chain(selector))
            .await
            .ok();
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

    /// The same, with lifetimes of so many seconds. Trust settles in a tenth of the leaf's.
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

    /// Decodes the two Secrets.
    pub(crate) async fn stored(&self) -> Stored {
        let contents = async |name| {
            let secret = self.secrets().get_opt(name).await.expect("an answer");
            secret.map(|secret| gather(&secret.data.unwrap_or_default()))
        };
        Stored::read(Secrets {
            serving: contents(SECRET).await,
            authority: contents(CA_SECRET).await,
        })
    }

    /// Decodes the data of both Secrets together.
    pub(crate) fn decode(data: &Data) -> Stored {
        Stored::read(Secrets::split(&gather(data), false))
    }

    /// Returns the bundles of the configurations: the mutating one's first.
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

    /// Replaces the data of both Secrets, each by its part.
    pub(crate) async fn put(&self, data: Data) {
        let authority = data.iter().filter(|(key, _)| !LEAF.contains(&key.as_str()));
        let authority = authority.map(|(key, value)| (key.clone(), value.clone()));
        self.put_in(CA_SECRET, authority.collect()).await;
        let of_serving = |key: &str| key == CA_CERTIFICATE || LEAF.contains(&key);
        let serving = data.into_iter().filter(|(key, _)| of_serving(key));
        self.put_in(SECRET, serving.collect()).await;
    }

    /// Replaces the data of one Secret.
    pub(crate) async fn put_in(&self, name: &str, data: Data) {
        let secrets = self.secrets();
        let mut secret = secrets.get(name).await.expect("the Secret");
        secret.data = Some(data);
        secret.metadata.resource_version = None;
        let replaced = secrets.replace(name, &PostParams::default(), &secret).await;
        replaced.expect("the Secret is replaced");
    }

    /// The data of both Secrets together.
    pub(crate) async fn data(&self) -> Data {
        let mut data = self.data_of(SECRET).await;
        data.extend(self.data_of(CA_SECRET).await);
        data
    }

    /// The data of one Secret.
    pub(crate) async fn data_of(&self, name: &str) -> Data {
        let secret = self.secrets().get(name).await.expect("a Secret");
        secret.data.unwrap_or_default()
    }

    pub(crate) async fn delete_secrets(&self) {
        for name in [SECRET, CA_SECRET] {
            let deleted = self.secrets().delete(name, &DeleteParams::default()).await;
            deleted.expect("the Secret is deleted");
        }
    }

    /// Asks for a rotation.
    pub(crate) async fn rotate(&self, what: &str) {
        let annotation = json!({"metadata": {"annotations": {"mcs.causeway.dev/rotate": what}}});
        merge(&self.secrets(), SECRET, annotation).await;
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

    /// Waits until a good leaf is stored and every one of so many caBundles holds just the
    /// authorities that are stored.
    pub(crate) async fn settled(&self, bundles: usize) -> Stored {
        eventually("the certificates are as they should be", SOON, || async {
            let stored = self.stored().await;
            let now = SystemTime::now();
            let leaf = stored.leaf(&Names::default(), now);
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

    /// A new connection to a webhook by somebody who trusts what a caBundle holds; fails as a
    /// handshake does.
    pub(crate) async fn call(&self, webhook: &Running, bundle: &Bundle) -> Result<(), String> {
        let url = format!("https://{}", webhook.bind());
        let mut config = Config::new(url.parse().expect("a URL"));
        let trusted = bundle.authorities.iter().map(|one| one.der().to_vec());
        config.root_cert = Some(trusted.collect());
        config.default_retry = false;
        let client = Client::try_from(config).expect("a client");
        let request = http::Request::get("/validate").body(Vec::new());
        match client.request_text(request.expect("a request")).await {
            // It wants a POST, and says so through the TLS that was to be tried.
            Ok(_) | Err(kube::Error::Api(_)) => Ok(()),
            Err(error) => Err(format!("{error:?}")),
        }
    }
}

/// The authority that signed the stored leaf.
pub(crate) fn issuer(stored: &Stored) -> Trusted {
    let leaf = stored.leaf(&Names::default(), SystemTime::now());
    leaf.expect("a good leaf").issuer.clone()
}

/// Returns a counter of a webhook.
pub(crate) async fn count(webhook: &Running, metric: &str, labels: &[(&str, &str)]) -> f64 {
    let metrics = webhook.metrics().await;
    metrics.get(metric, labels).unwrap_or_default()
}

/// Returns the number of repairs of these webhooks for that reason.
pub(crate) async fn repairs(webhooks: &[Running], reason: &str) -> f64 {
    let mut all = 0.0;
    for webhook in webhooks {
        all += count(
            webhook,
            "causeway_certificate_repairs_total",
            &[("reason", reason)],
        )
        .await;
    }
    all
}

/// Returns the number of leaves that these webhooks loaded.
pub(crate) async fn rotations(webhook: &Running) -> f64 {
    count(webhook, "causeway_certificate_rotations_total", &[]).await
}
