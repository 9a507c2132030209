//! Providers that are reached at the address of a load balancer or of a Service.

use std::time::Duration;

use causeway::api::{MultiClusterService, labels};
use causeway_tests::fixtures::ServiceFixture;
use causeway_tests::reaper::Exit;
use causeway_tests::{
    Cluster, Environment, SOON, Space, eventually, multi_cluster_service, service,
};
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::json;

use super::{Path, env, is_answered_by, none_failed, route, said_in, web};
use crate::client::Client;

/// Time in which a hostname is looked up again, or fails to be.
const LOOKED_UP: Duration = Duration::from_secs(60);

/// Returns Service `foo` of type LoadBalancer.
fn balanced() -> ServiceFixture {
    web().type_("LoadBalancer")
}

#[tokio::test]
async fn load_balancer_of_another_network_answers() {
    let Some(env) = env().await else { return };
    let space = env.fleet.space("balancer").await;
    let members = ["member1", "member2"];
    let path = Path::with(&env, &space, members, balanced()).await;
    let address = "203.0.113.1";
    path.route(address).await;
    path.expose(Some("load-balancer")).await;
    space
        .set_ingress(path.provider, json!({"ip": address}))
        .await;
    path.is_answered_by(&path.said()).await;
    assert_eq!(path.entry().await, [(address.to_owned(), 80)]);
    assert_eq!(path.companions().await, []);
}

#[tokio::test]
async fn load_balancer_is_followed_by_its_hostname() {
    let Some(env) = env().await else { return };
    let space = env.fleet.space("hostname").await;
    let [one, other] = ["203.0.113.2", "203.0.113.3"];
    let members = ["member1", "member2"];
    let addresses = [one, other].map(str::to_owned).to_vec();
    // The proxy answers at the addresses of a load balancer itself, and not at those of a hostname.
    let own = balanced().with(|spec| spec.external_ips = Some(addresses));
    let path = Path::with(&env, &space, members, own).await;
    for address in [one, other] {
        path.route(address).await;
    }
    let names = Names::of(&env, &space).await;
    names.answer(one).await;
    path.expose(Some("load-balancer")).await;
    // A search domain has the name, and DNS has not.
    let relative = format!("lb.{}", space.name());
    space
        .set_ingress(path.provider, json!({"hostname": relative}))
        .await;
    lookup_fails(&env, &relative).await;
    let entry = path.entry().await;
    assert!(entry.is_empty(), "{entry:?}");
    let ingress = json!({"hostname": names.host()});
    space.set_ingress(path.provider, ingress).await;
    path.is_answered_by(&path.said()).await;
    assert_eq!(path.entry().await, [(one.to_owned(), 80)]);

    let client = Client::start(&env.fleet, path.consumer, &path.url().await);
    names.answer(other).await;
    eventually("the entry follows the hostname", LOOKED_UP, || async {
        let entry = path.entry().await;
        let followed = entry == [(other.to_owned(), 80)];
        followed.then_some(()).ok_or(format!("{entry:?}"))
    })
    .await;
    names.refuse().await;
    lookup_fails(&env, &names.host()).await;
    path.is_answered_by(&path.said()).await;
    assert_eq!(path.entry().await, [(other.to_owned(), 80)]);
    let requests = client.stop().await;
    none_failed("a hostname changes, and has no address any more", &requests);
}

/// Waits until a lookup of a hostname has failed.
async fn lookup_fails(env: &Environment, host: &str) {
    let log = env.controller.process().log();
    eventually("a lookup has failed", LOOKED_UP, || async {
        let log = std::fs::read_to_string(log).unwrap_or_default();
        let mut failures = log.lines().filter(|line| line.contains("lookup failed"));
        failures.any(|line| line.contains(host))
    })
    .await;
}

/// Name of a load balancer. The DNS of member3, which the controller asks, has it for the endpoints
/// of a headless Service.
struct Names<'a> {
    space: &'a Space<'a>,
    cluster: &'a Cluster,
}

impl<'a> Names<'a> {
    async fn of(env: &'a Environment, space: &'a Space<'a>) -> Self {
        let cluster = env.fleet.member("member3");
        let own = service("lb").port("http", 80).headless();
        own.without_selector().create(cluster, space).await;
        Self { space, cluster }
    }

    fn host(&self) -> String {
        format!("lb.{}.svc.cluster.local", self.space.name())
    }

    /// Gives the name this address alone.
    async fn answer(&self, address: &str) {
        let slice = json!({
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": {"name": "lb", "labels": {labels::SERVICE_NAME: "lb"}},
            "addressType": "IPv4",
            "endpoints": [{"addresses": [address]}],
            "ports": [{"name": "http", "port": 80}],
        });
        let slices = self.space.api::<EndpointSlice>(self.cluster);
        let params = PatchParams::apply("balancer").force();
        let applied = slices.patch("lb", &params, &Patch::Apply(slice)).await;
        applied.expect("the slice is applied");
    }

    /// Takes the address away: the name is not answered any more.
    async fn refuse(&self) {
        let services = self.space.api::<Service>(self.cluster);
        let deleted = services.delete("lb", &DeleteParams::default()).await;
        deleted.expect("the Service is deleted");
    }
}

#[tokio::test]
async fn address_of_a_service_answers_over_a_routed_range() {
    let Some(env) = env().await else { return };
    let space = env.fleet.space("routed").await;
    let path = Path::with(&env, &space, ["member1", "member2"], web()).await;
    path.route(&path.provider.service_cidr()).await;
    path.expose(Some("cluster-ip")).await;
    path.is_answered_by(&path.said()).await;
    let own = space.api::<Service>(path.provider).get("foo").await;
    let address = own
        .expect("a Service")
        .spec
        .and_then(|spec| spec.cluster_ip);
    let address = address.expect("an address");
    assert_eq!(path.entry().await, [(address, 80)]);
    assert_eq!(path.companions().await, []);
}

#[tokio::test]
async fn edge_behind_nat_reaches_the_cloud_and_is_named_as_provider() {
    let Some(env) = env().await else { return };
    let space = env.fleet.space("edge").await;
    let [cloud, edge, far] = ["member3", "edge", "member1"].map(|name| env.fleet.member(name));
    let node = edge.node_address().expect("a fleet with packets");
    let connect = format!("exec 3<>/dev/tcp/{node}/53");
    let begun = far.exec("timeout", ["2", "bash", "-c", &connect]).await;
    assert_eq!(begun.exit, Exit::Code(124), "{}", begun.stderr);

    web().create(env.fleet.hub(), &space).await;
    balanced().create(cloud, &space).await;
    web().create(edge, &space).await;
    let pods = space.backends("foo").count(2).create(cloud).await;
    let own = space.backends("foo").create(edge).await;
    let address = "203.0.113.4";
    for consumer in [edge, far] {
        route(consumer, address, cloud).await;
    }
    space.set_ingress(cloud, json!({"ip": address})).await;
    let exposed = multi_cluster_service("foo").providers(["member3", "edge"]);
    exposed.consumers(["edge", "member1"]).create(&space).await;
    let of_cloud = said_in(cloud, &pods);
    let mut all = [said_in(edge, &own), of_cloud.clone()].concat();
    all.sort();
    is_answered_by(edge, &space, &all).await;
    is_answered_by(far, &space, &of_cloud).await;
    let client = space.backends("client").create(edge).await.remove(0);
    let url = format!("http://foo.{}", space.name());
    for _ in 0..10 {
        let asked = ["-sS", "--max-time", "3", url.as_str()];
        let answer = client.network().exec(edge, "curl", asked).await.ok();
        assert!(all.contains(&answer.trim().to_owned()), "{answer}");
    }

    let services = space.api::<MultiClusterService>(env.fleet.hub());
    eventually("Ready names the edge and the remedy", SOON, || async {
        let exposed = services.get("foo").await.map_err(|e| e.to_string())?;
        let conditions = exposed.status.and_then(|status| status.conditions);
        let mut conditions = conditions.unwrap_or_default().into_iter();
        let ready = conditions.find(|one| one.type_ == "Ready");
        let ready = ready.map(|ready| ready.message).unwrap_or_default();
        let parts = [
            "edge is of another network than member1: nothing says how to reach edge",
            "kubectl annotate cluster edge mcs.causeway.dev/reach=node-ports",
        ];
        let is_whole = parts.iter().all(|part| ready.contains(part));
        is_whole.then_some(()).ok_or(ready)
    })
    .await;
}
