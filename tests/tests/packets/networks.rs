//! Clusters whose pods have addresses of one range, and no route to each other's pods.

mod addresses;
mod node_ports;
mod nodes;
mod outage;
mod protocols;

use std::ops::Deref;
use std::path::PathBuf;
use std::time::Duration;

use causeway::api::labels;
use causeway_tests::causeway::Launch;
use causeway_tests::fixtures::{RunningPod, ServiceFixture};
use causeway_tests::{Cluster, Environment, Fleet, SOON, Space, eventually, multi_cluster_service};
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::ResourceExt as _;
use serde_json::json;
use tokio::sync::{OnceCell, RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::client::{Request, seen};
use crate::{answering, packets, said_by, web};

/// Held by each test that uses the shared environment: alone by one that stops parts of it.
static TURN: RwLock<()> = RwLock::const_new(());

/// Environment of several tests, with the turn of one.
struct Shared<T> {
    env: &'static Environment,
    _turn: T,
}

impl<T> Deref for Shared<T> {
    type Target = Environment;

    fn deref(&self) -> &Environment {
        self.env
    }
}

/// Returns the environment, which no other test stops meanwhile.
async fn env() -> Option<Shared<RwLockReadGuard<'static, ()>>> {
    let turn = TURN.read().await;
    let env = started().await?;
    Some(Shared { env, _turn: turn })
}

/// Returns the environment, which no other test uses meanwhile.
async fn env_alone() -> Option<Shared<RwLockWriteGuard<'static, ()>>> {
    let turn = TURN.write().await;
    let env = started().await?;
    Some(Shared { env, _turn: turn })
}

/// Four members, and causeway at work. member1, which has two nodes and a spare one, and edge are
/// each of a network of their own, and their pods have addresses of one range. member2 and member3
/// share a network. Nodes of member1 and member2 are reached by node ports, member3 by its load
/// balancers, and edge, which is behind NAT, by nothing. member1 and member2 have both address
/// families. The proxy of member2 writes rules of iptables. The controller looks up names
/// in the DNS of member3.
async fn started() -> Option<&'static Environment> {
    static ENVIRONMENT: OnceCell<Environment> = OnceCell::const_new();
    if !packets() {
        return None;
    }
    let start = || async {
        let members = ["member1", "member2", "member3", "edge"];
        let members = Fleet::builder().named_members(members).clusterset();
        let members = members.proxies("member1", 3).spare_node("member1");
        let members = members.dual_stack("member1").dual_stack("member2");
        let separate = members.separate_network("member1").separate_network("edge");
        let fleet = separate.iptables("member2").start().await;
        let file = resolv_conf(&fleet);
        let resolving = move |launch: Launch| launch.with_resolv_conf(&file);
        let env = Environment::builder().webhook().controller(resolving);
        let env = env.start(fleet).await;
        env.fleet.member("edge").exec("nft", [NAT]).await.ok();
        for (name, network, reach) in [
            ("member1", "member1", Some("node-ports")),
            ("member2", "", Some("node-ports")),
            ("member3", "", Some("load-balancer")),
            ("edge", "edge", None),
        ] {
            let rights = env.installation.manifest("member/networks.yaml");
            let apply = ["apply", "-f", &rights];
            env.fleet.member(name).kubectl(apply).await.ok();
            let annotations = json!({labels::NETWORK: network, labels::REACH: reach});
            annotate(&env, name, &annotations).await;
        }
        env
    };
    Some(ENVIRONMENT.get_or_init(start).await)
}

/// Drops what begins a connection to a node, as NAT does.
const NAT: &str = "table inet nat { chain enter { type filter hook prerouting priority mangle; \
                   iifname eth0 ct state new drop; }; }";

/// Writes a file by which the resolver of the controller asks the DNS of member3. Its search domain
/// has the names of all Services of member3, as that of a pod has.
fn resolv_conf(fleet: &Fleet) -> PathBuf {
    let address = fleet.member("member3").node_address();
    let address = address.expect("a fleet with packets");
    let file = fleet.directory().join("resolv.conf");
    let content = format!("nameserver {address}\nsearch svc.cluster.local\noptions ndots:5\n");
    std::fs::write(&file, content).expect("a resolv.conf");
    file
}

async fn annotate(env: &Environment, cluster: &str, annotations: &serde_json::Value) {
    let patch = json!({"metadata": {"annotations": annotations}});
    env.patch_cluster(cluster, patch).await;
}

/// `foo` with pods in `provider`, consumed by `consumer`.
struct Path<'a> {
    env: &'a Environment,
    space: &'a Space<'a>,
    provider: &'a Cluster,
    consumer: &'a Cluster,
    pods: Vec<RunningPod>,
}

impl<'a> Path<'a> {
    /// `foo` with three pods, which answer in the consumer.
    async fn set_up(env: &'a Environment, space: &'a Space<'a>, members: [&str; 2]) -> Self {
        let path = Self::with(env, space, members, web()).await;
        path.expose(None).await;
        path.is_answered_by(&path.said()).await;
        path
    }

    /// The same with this Service in the provider, not yet exposed.
    async fn with(
        env: &'a Environment,
        space: &'a Space<'a>,
        [provider, consumer]: [&str; 2],
        own: ServiceFixture,
    ) -> Self {
        let [provider, consumer] = [provider, consumer].map(|name| env.fleet.member(name));
        web().create(env.fleet.hub(), space).await;
        own.create(provider, space).await;
        let pods = space.backends("foo").count(3).create(provider).await;
        Self {
            env,
            space,
            provider,
            consumer,
            pods,
        }
    }

    /// Exposes the service, with this way to its providers if it is not that of their Clusters.
    async fn expose(&self, reach: Option<&str>) {
        let exposed = multi_cluster_service("foo").providers([self.provider.name()]);
        let exposed = exposed.consumers([self.consumer.name()]);
        let exposed = reach.into_iter().fold(exposed, |exposed, reach| {
            exposed.annotation(labels::REACH, reach)
        });
        exposed.create(self.space).await;
    }

    fn said(&self) -> Vec<String> {
        said_in(self.provider, &self.pods)
    }

    async fn is_answered_by(&self, expected: &[String]) {
        is_answered_by(self.consumer, self.space, expected).await;
    }

    /// Returns the URL of the Service in the consumer, by its address.
    async fn url(&self) -> String {
        format!("http://{}", self.addresses().await[0])
    }

    /// Returns the addresses of the Service in the consumer.
    async fn addresses(&self) -> Vec<String> {
        let services = self.space.api::<Service>(self.consumer);
        eventually("the Service has addresses", SOON, || async {
            let service = services.get("foo").await.ok()?;
            service.spec.and_then(|spec| spec.cluster_ips)
        })
        .await
    }

    /// Returns the Services that are the provider's companions.
    async fn companions(&self) -> Vec<Service> {
        let services = self.space.api::<Service>(self.provider);
        let all = services.list(&Default::default()).await.expect("Services");
        let is_companion = |one: &Service| one.annotations().contains_key(labels::COMPANION_OF);
        all.items.into_iter().filter(is_companion).collect()
    }

    /// Lists the addresses, each with the number of a port, of the consumer's copies.
    async fn entry(&self) -> Vec<(String, i32)> {
        let slices = self.space.slices(self.consumer, "foo").await;
        let mut entry: Vec<_> = slices.iter().flat_map(answering_on).collect();
        entry.sort();
        entry
    }

    /// Sends the consumer's packets to a range to the first node of the provider.
    async fn route(&self, range: &str) {
        route(self.consumer, range, self.provider).await;
    }
}

/// Sends the packets of a cluster's first node to a range to the first node of another.
pub(crate) async fn route(from: &Cluster, range: &str, to: &Cluster) {
    let via = to.node_address().expect("a fleet with packets");
    let route = ["route", "add", range, "via", &via];
    from.exec("ip", route).await.ok();
}

/// Lists the addresses of a slice with the numbers of its ports.
fn answering_on(slice: &EndpointSlice) -> impl Iterator<Item = (String, i32)> + '_ {
    let addresses = slice.endpoints.iter().flat_map(|one| &one.addresses);
    let ports = || slice.ports.iter().flatten().filter_map(|port| port.port);
    addresses.flat_map(move |address| ports().map(|port| (address.clone(), port)))
}

/// Returns the answers of these pods of a cluster.
fn said_in(cluster: &Cluster, pods: &[RunningPod]) -> Vec<String> {
    let pods = pods.iter().map(|pod| (pod, cluster.name()));
    said_by(&pods.collect::<Vec<_>>())
}

/// Prints the requests of a client. None of them may have failed.
pub(crate) fn none_failed(what: &str, requests: &[Request]) {
    println!("{what}: {}", seen(requests));
    let failed: Vec<_> = requests.iter().filter(|one| one.failed()).collect();
    assert!(failed.is_empty(), "{what}: {}: {failed:?}", seen(requests));
    assert!(requests.len() > 10, "{what}: {}", seen(requests));
}

/// Waits until these, all of them and no other, answer many requests to `foo` in the consumer. The
/// controller waits half a minute until a farther tier is standby again.
async fn is_answered_by(consumer: &Cluster, space: &Space<'_>, expected: &[String]) {
    let what = format!("exactly {expected:?} answer in {}", consumer.name());
    eventually(&what, SOON + Duration::from_secs(30), || async {
        let answers = answering(consumer, space, "foo").await;
        match answers == expected {
            true => Ok(()),
            false => Err(format!("{answers:?}")),
        }
    })
    .await;
}
