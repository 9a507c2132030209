//! A hub whose API server asks a webhook.

use causeway::api::MultiClusterService;
use causeway::api::labels::PERMANENT_ID;
use causeway_tests::causeway::{Installation, Running};
use causeway_tests::kubectl::Output;
use causeway_tests::{Cluster, Fleet, Space, service};
use serde_json::{Value, json};
use tokio::sync::OnceCell;

use crate::old;

/// A hub, and the webhook that its API server asks.
pub(crate) struct Hub {
    pub(crate) webhook: Running,
    pub(crate) installation: Installation,
    pub(crate) fleet: Fleet,
}

impl Hub {
    /// Starts them; `before` is done while no webhook is registered yet.
    pub(crate) async fn start(before: impl AsyncFnOnce(&Fleet)) -> Self {
        Self::start_with(&[], before).await
    }

    /// [`Hub::start`], the webhook with these flags.
    pub(crate) async fn start_with(flags: &[&str], before: impl AsyncFnOnce(&Fleet)) -> Self {
        let fleet = Fleet::builder().start().await;
        let installation = Installation::new(&fleet).await;
        before(&fleet).await;
        let launch = installation.webhook();
        let launch = flags.iter().fold(launch, |launch, flag| launch.arg(*flag));
        let webhook = launch.start().await;
        installation.register(&webhook).await;
        Self {
            webhook,
            installation,
            fleet,
        }
    }

    pub(crate) fn cluster(&self) -> &Cluster {
        self.fleet.hub()
    }

    /// A namespace with the Service foo, ports http 80 and metrics 9090.
    pub(crate) async fn shop(&self) -> Shop<'_> {
        let shop = self.empty_shop().await;
        shop.add_service("foo").await;
        shop
    }

    pub(crate) async fn empty_shop(&self) -> Shop<'_> {
        Shop {
            hub: self.cluster(),
            space: self.fleet.space("shop").await,
        }
    }
}

/// The hub that tests share, with objects from before it had a webhook.
pub(crate) async fn hub() -> &'static Hub {
    static HUB: OnceCell<Hub> = OnceCell::const_new();
    HUB.get_or_init(|| Hub::start(async |fleet| old::create_all(fleet).await))
        .await
}

/// A namespace of one test on the hub.
pub(crate) struct Shop<'a> {
    pub(crate) hub: &'a Cluster,
    pub(crate) space: Space<'a>,
}

impl<'a> Shop<'a> {
    pub(crate) fn existing(hub: &'a Hub, namespace: &str) -> Self {
        Self {
            hub: hub.cluster(),
            space: Space::existing(&hub.fleet, namespace),
        }
    }

    pub(crate) async fn add_service(&self, name: &str) {
        service(name)
            .port("http", 80)
            .port("metrics", 9090)
            .create(self.hub, &self.space)
            .await;
    }

    /// kubectl in the namespace.
    pub(crate) async fn kubectl<const N: usize>(&self, args: [&str; N]) -> Output {
        let namespace = ["-n", self.space.name()];
        self.hub.kubectl(args.into_iter().chain(namespace)).await
    }

    /// kubectl in the namespace, with a manifest as its input.
    pub(crate) async fn send<const N: usize>(&self, args: [&str; N], manifest: &Value) -> Output {
        self.send_all(&args, manifest).await
    }

    /// [`Shop::send`] of any number of arguments.
    pub(crate) async fn send_all(&self, args: &[&str], manifest: &Value) -> Output {
        let place = ["-f", "-", "-n", self.space.name()];
        let args = args.iter().copied().chain(place);
        self.hub.kubectl_with(args, manifest.to_string()).await
    }

    pub(crate) async fn apply(&self, manifest: &Value) -> Output {
        self.send(["apply"], manifest).await
    }

    pub(crate) async fn patch(&self, name: &str, patch: &Value) -> Output {
        let patch = patch.to_string();
        self.kubectl(["patch", "mcs", name, "--type=merge", "-p", &patch])
            .await
    }

    pub(crate) async fn get(&self, name: &str) -> Value {
        let object = self
            .space
            .api::<MultiClusterService>(self.hub)
            .get(name)
            .await;
        let object =
            object.unwrap_or_else(|error| panic!("no MultiClusterService {name}: {error}"));
        serde_json::to_value(object).expect("JSON")
    }

    pub(crate) async fn permanent_id(&self, name: &str) -> String {
        let object = self.get(name).await;
        let id = object["metadata"]["labels"][PERMANENT_ID].as_str();
        id.unwrap_or_else(|| panic!("no permanent-id: {object:#}"))
            .to_owned()
    }
}

/// A manifest of type CrossCluster with these fields in its spec.
pub(crate) fn mcs(name: &str, fields: Value) -> Value {
    let mut spec = json!({"types": ["CrossCluster"]});
    for (field, value) in fields.as_object().expect("an object") {
        spec[field] = value.clone();
    }
    json!({
        "apiVersion": "networking.karmada.io/v1alpha1", "kind": "MultiClusterService",
        "metadata": {"name": name}, "spec": spec,
    })
}

/// Panics unless a text holds all of these.
#[track_caller]
pub(crate) fn holds(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "{part:?} is not in:\n{text}");
    }
}
