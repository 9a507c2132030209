//! Webhooks behind the Service of the manifests, without pods: what a kubelet, the controller of
//! Deployments and that of EndpointSlices would do.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Probe as ProbeSpec;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::Api;
use kube::api::{DeleteParams, PostParams};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};

use crate::causeway::{Launch, NAMESPACE, Running, manifest};
use crate::eventually::{SOON, eventually};
use crate::write::merge;
use crate::{Cluster, http};

const NAME: &str = "causeway-webhook";
const ENDED: Duration = Duration::from_secs(60);

/// Time until all proxies observe that an endpoint is no longer ready, as in a large or busy
/// cluster.
const LAG: Duration = Duration::from_secs(2);

/// Webhooks that the hub's API server reaches through their Service: it sends new connections to
/// those that were ready when their kubelet last asked.
pub struct Replicas<'a> {
    hub: &'a Cluster,
    launch: Box<dyn Fn() -> Launch + Send + Sync + 'a>,
    probe: Probe,
    running: Vec<Replica>,
    leaving: Vec<Replica>,
}

impl<'a> Replicas<'a> {
    /// None yet; `launch` says how one is started. The Service and what the probe is to be are
    /// those of the manifests, which must have been applied.
    pub async fn new(hub: &'a Cluster, launch: impl Fn() -> Launch + Send + Sync + 'a) -> Self {
        let deployments = Api::<Deployment>::namespaced(hub.client(), NAMESPACE);
        let deployment = deployments.get(NAME).await;
        Self {
            hub,
            launch: Box::new(launch),
            probe: Probe::of(&deployment.expect("the Deployment of the webhook")),
            running: Vec::new(),
            leaving: Vec::new(),
        }
    }

    /// Those that are to stay.
    pub fn running(&self) -> impl Iterator<Item = &Running> {
        self.running.iter().map(|replica| &replica.webhook)
    }

    /// From now on they are started like this.
    pub fn relaunch(&mut self, launch: impl Fn() -> Launch + Send + Sync + 'a) {
        self.launch = Box::new(launch);
    }

    /// Starts one more, and waits until it is among the endpoints.
    pub async fn add(&mut self) {
        let replica = Replica::start((self.launch)(), self.hub, self.probe).await;
        replica.is_endpoint().await;
        self.running.push(replica);
    }

    /// A rolling restart as a Deployment with `maxUnavailable: 0, maxSurge: 1` makes it: one after
    /// the other gets a successor and, once that is among the endpoints, SIGTERM; its end is not
    /// waited for. Nobody takes it out of the endpoints but its kubelet, two seconds after it has
    /// seen it unready.
    pub async fn restart(&mut self) {
        for _ in 0..self.running.len() {
            self.add().await;
            let old = self.running.remove(0);
            old.webhook.process().terminate();
            self.leaving.push(old);
        }
    }

    /// Waits until all that were asked to end have ended. Panics where one did not end in order.
    pub async fn settled(&mut self) {
        for replica in self.leaving.drain(..) {
            replica.ended().await;
        }
    }
}

/// A webhook, its endpoint, and its kubelet.
struct Replica {
    webhook: Running,
    endpoint: Endpoint,
    ready: watch::Receiver<bool>,
    kubelet: JoinHandle<()>,
}

impl Replica {
    async fn start(launch: Launch, hub: &Cluster, probe: Probe) -> Self {
        let webhook = launch.start_unready();
        let endpoint = Endpoint::create(hub, webhook.bind()).await;
        let (tell, ready) = watch::channel(false);
        let admin = webhook.admin().to_owned();
        let kubelet = tokio::spawn(probe.run(admin, endpoint.clone(), tell));
        Self {
            webhook,
            endpoint,
            ready,
            kubelet,
        }
    }

    async fn is_endpoint(&self) {
        let mut ready = self.ready.clone();
        let waited = timeout(ENDED, ready.wait_for(|ready| *ready)).await;
        let log = || self.webhook.process().log_tail(40);
        let state = waited.unwrap_or_else(|_| panic!("a replica is never ready:\n{}", log()));
        drop(state.expect("the kubelet runs"));
    }

    async fn ended(self) {
        let exit = self.webhook.process().exited(ENDED).await;
        let log = || self.webhook.process().log_tail(40);
        assert!(exit.success(), "no orderly end: {exit:?}\n{}", log());
        self.endpoint.remove().await;
    }
}

impl Drop for Replica {
    fn drop(&mut self) {
        self.kubelet.abort();
    }
}

/// Readiness probe of a kubelet.
#[derive(Clone, Copy, Debug)]
struct Probe {
    period: Duration,
    timeout: Duration,
    misses: u32,
}

impl Probe {
    fn of(deployment: &Deployment) -> Self {
        let template = deployment.spec.as_ref().map(|spec| &spec.template);
        let pod = template.and_then(|template| template.spec.as_ref());
        let probe = pod.and_then(|pod| pod.containers.first()?.readiness_probe.clone());
        let probe: ProbeSpec = probe.expect("a readiness probe");
        let seconds = |value: Option<i32>, default: u32| {
            let value = value.and_then(|value| u32::try_from(value).ok());
            value.unwrap_or(default)
        };
        Self {
            period: Duration::from_secs(seconds(probe.period_seconds, 10).into()),
            timeout: Duration::from_secs(seconds(probe.timeout_seconds, 1).into()),
            misses: seconds(probe.failure_threshold, 3),
        }
    }

    /// Asks for ever, and keeps the endpoint as the answers are.
    async fn run(self, admin: String, endpoint: Endpoint, tell: watch::Sender<bool>) {
        let mut turns = interval(self.period);
        turns.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (mut ready, mut missed) = (false, 0);
        loop {
            turns.tick().await;
            let answer = timeout(self.timeout, http::get(&admin, "/readyz")).await;
            let well = matches!(answer, Ok(Ok((200, _))));
            missed = if well { 0 } else { missed + 1 };
            let now = well || (ready && missed < self.misses);
            if now != ready {
                if !now {
                    sleep(LAG).await;
                }
                endpoint.set_ready(now).await;
                ready = now;
                tell.send_replace(now);
            }
        }
    }
}

/// The one endpoint of an EndpointSlice of the webhook's Service. Each has a slice of its own, for
/// the replicas listen on different ports of one address.
#[derive(Clone)]
struct Endpoint {
    slices: Api<EndpointSlice>,
    name: String,
    address: SocketAddr,
}

impl Endpoint {
    async fn create(hub: &Cluster, address: &str) -> Self {
        let address: SocketAddr = address.parse().expect("an address and a port");
        let endpoint = Self {
            slices: Api::namespaced(hub.client(), NAMESPACE),
            name: format!("{NAME}-{}", address.port()),
            address,
        };
        let slice: EndpointSlice = serde_json::from_value(json!({
            "metadata": {"name": endpoint.name, "labels": {"kubernetes.io/service-name": NAME}},
            "addressType": if address.is_ipv4() { "IPv4" } else { "IPv6" },
            "endpoints": [endpoint.content(false)],
            "ports": [{"name": "https", "port": address.port(), "protocol": "TCP"}],
        }))
        .expect("an EndpointSlice");
        let made = endpoint.slices.create(&PostParams::default(), &slice).await;
        made.unwrap_or_else(|e| panic!("cannot make an EndpointSlice for {address}: {e}"));
        endpoint
    }

    fn content(&self, ready: bool) -> Value {
        let address: IpAddr = self.address.ip();
        json!({"addresses": [address.to_string()], "conditions": {"ready": ready}})
    }

    async fn set_ready(&self, ready: bool) {
        let patch = json!({"endpoints": [self.content(ready)]});
        merge(&self.slices, &self.name, patch).await;
    }

    async fn remove(&self) {
        let removed = self
            .slices
            .delete(&self.name, &DeleteParams::default())
            .await;
        removed.unwrap_or_else(|e| panic!("cannot delete the EndpointSlice {}: {e}", self.name));
    }
}

/// Registers the webhook by its Service, as the manifest for hubs with nodes does. `ca_pem` goes
/// into every caBundle; without one that is left to others.
pub async fn register_by_service(hub: &Cluster, ca_pem: Option<&str>) {
    let file = manifest("hub/webhook-by-service.yaml");
    let text = std::fs::read_to_string(&file).unwrap_or_else(|e| panic!("cannot read {file}: {e}"));
    let mut items: Vec<Value> = serde_saphyr::from_multiple(&text).expect("YAML");
    for configuration in &mut items {
        for webhook in configuration["webhooks"].as_array_mut().expect("webhooks") {
            let client = webhook["clientConfig"].as_object_mut().expect("an object");
            match ca_pem {
                Some(pem) => client.insert("caBundle".to_owned(), STANDARD.encode(pem).into()),
                None => client.remove("caBundle"),
            };
        }
    }
    let list = json!({"apiVersion": "v1", "kind": "List", "items": items});
    hub.apply(&list.to_string()).await.ok();
}

/// Waits until the API server asks a webhook and gets an answer of it: it learns of configurations
/// and endpoints a moment after they are stored.
pub async fn answered(hub: &Cluster) {
    let probe = "apiVersion: networking.karmada.io/v1alpha1
kind: MultiClusterService
metadata: {generateName: probe-, namespace: default}
spec: {types: [CrossCluster]}
";
    eventually("the API server is answered by a webhook", SOON, || async {
        let output = hub
            .kubectl_with(["create", "-f", "-", "--dry-run=server"], probe)
            .await;
        let said = format!("{}{}", output.stdout, output.stderr);
        let by_causeway = said.contains("metadata.generateName");
        by_causeway.then_some(()).ok_or(said)
    })
    .await;
}
