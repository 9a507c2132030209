//! Clusters whose pods have addresses of one range, and no route to each other's pods.

use std::time::{Duration, SystemTime};

use causeway::api::{self, MultiClusterService, labels};
use causeway_tests::fixtures::RunningPod;
use causeway_tests::{
    Cluster, Environment, Fleet, SOON, Space, eventually, multi_cluster_service, pod, service,
    service_export,
};
use k8s_openapi::api::core::v1::{Node, Service};
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointPort, EndpointSlice};
use kube::Api;
use kube::api::{DeleteParams, ObjectMeta, Patch, PatchParams, PostParams};
use serde_json::json;
use tokio::sync::OnceCell;

use crate::client::{Client, answers_of, sample, seen};
use crate::{answering, answering_at, packets, said_by};

/// Four members that are reached by node ports, and causeway at work. member1, which has two nodes,
/// and member4 are each of a network of their own, and their pods have addresses of one range.
/// member2 and member3 share a network. The proxy of member2 writes rules of iptables.
async fn env() -> Option<&'static Environment> {
    static ENVIRONMENT: OnceCell<Environment> = OnceCell::const_new();
    if !packets() {
        return None;
    }
    let start = || async {
        let members = Fleet::builder()
            .members(4)
            .clusterset()
            .proxies("member1", 2);
        let separate = members
            .separate_network("member1")
            .separate_network("member4");
        let env = Environment::start(separate.iptables("member2")).await;
        for member in env.fleet.members() {
            let rights = env.installation.manifest("member/networks.yaml");
            member.kubectl(["apply", "-f", &rights]).await.ok();
            let network = match member.name() {
                name @ ("member1" | "member4") => name,
                _ => "",
            };
            let annotations = json!({labels::NETWORK: network, labels::REACH: "node-ports"});
            annotate(env.fleet.hub(), member.name(), &annotations).await;
        }
        env
    };
    Some(ENVIRONMENT.get_or_init(start).await)
}

async fn annotate(hub: &Cluster, cluster: &str, annotations: &serde_json::Value) {
    let clusters = Api::<api::Cluster>::all(hub.client());
    let patch = Patch::Merge(json!({"metadata": {"annotations": annotations}}));
    let patched = clusters
        .patch(cluster, &PatchParams::default(), &patch)
        .await;
    patched.expect("the Cluster is annotated");
}

/// `foo` with three pods in `provider`, consumed by `consumer`.
struct Stage<'a> {
    env: &'a Environment,
    space: &'a Space<'a>,
    provider: &'a Cluster,
    consumer: &'a Cluster,
    pods: Vec<RunningPod>,
}

impl<'a> Stage<'a> {
    async fn set_up(
        env: &'a Environment,
        space: &'a Space<'a>,
        [provider, consumer]: [&str; 2],
    ) -> Self {
        let [provider, consumer] = [provider, consumer].map(|name| env.fleet.member(name));
        for cluster in [env.fleet.hub(), provider] {
            let own = service("foo").port_to("http", 80, 8080);
            own.create(cluster, space).await;
        }
        let pods = space.backends("foo").count(3).create(provider).await;
        let exposed = multi_cluster_service("foo").providers([provider.name()]);
        exposed.consumers([consumer.name()]).create(space).await;
        let stage = Self {
            env,
            space,
            provider,
            consumer,
            pods,
        };
        stage.is_answered_by(&stage.said()).await;
        stage
    }

    fn said(&self) -> Vec<String> {
        let pods = self.pods.iter().map(|pod| (pod, self.provider.name()));
        said_by(&pods.collect::<Vec<_>>())
    }

    async fn is_answered_by(&self, expected: &[String]) {
        is_answered_by(self.consumer, self.space, expected).await;
    }

    /// Returns the URL of the Service in the consumer, by its address.
    async fn url(&self) -> String {
        let services = self.space.api::<Service>(self.consumer);
        let service = services.get("foo").await.expect("a Service");
        let address = service.spec.and_then(|spec| spec.cluster_ip);
        format!("http://{}", address.expect("an address"))
    }
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

#[tokio::test]
async fn slice_of_node_ports_is_served_without_a_route_to_pods() {
    if !packets() {
        return;
    }
    let members = Fleet::builder().members(2).iptables("member2");
    let separate = members
        .separate_network("member1")
        .separate_network("member2");
    let fleet = separate.start().await;
    let space = fleet.space("hand").await;
    let [provider, consumer] = ["member1", "member2"].map(|name| fleet.member(name));
    let opened = service("foo")
        .port_to("http", 80, 8080)
        .type_("NodePort")
        .with(|spec| {
            spec.external_traffic_policy = Some("Local".to_owned());
        });
    opened.create(provider, &space).await;
    service("foo")
        .port_to("http", 80, 8080)
        .create(consumer, &space)
        .await;
    let pods = space.backends("foo").count(2).create(provider).await;
    let by_pod = format!("http://{}:8080", pods[0].ip());
    let failed = consumer.curl(&by_pod).await;
    assert!(
        !failed.exit.success(),
        "there is a route to the pods: {}",
        failed.stdout
    );

    let made = space
        .api::<Service>(provider)
        .get("foo")
        .await
        .expect("a Service");
    let port = made.spec.and_then(|spec| spec.ports?.first()?.node_port);
    let slice = EndpointSlice {
        metadata: ObjectMeta {
            name: Some("by-hand".to_owned()),
            labels: Some([(labels::SERVICE_NAME.to_owned(), "foo".to_owned())].into()),
            ..ObjectMeta::default()
        },
        address_type: "IPv4".to_owned(),
        endpoints: vec![Endpoint {
            addresses: vec![provider.node_address().expect("a fleet with packets")],
            ..Endpoint::default()
        }],
        ports: Some(vec![EndpointPort {
            name: Some("http".to_owned()),
            port,
            protocol: Some("TCP".to_owned()),
            ..EndpointPort::default()
        }]),
    };
    let slices = space.api::<EndpointSlice>(consumer);
    slices
        .create(&PostParams::default(), &slice)
        .await
        .expect("a slice");
    let expected = said_by(&pods.iter().map(|pod| (pod, "member1")).collect::<Vec<_>>());
    eventually("the pods answer by the node port", SOON, || async {
        answering(consumer, &space, "foo").await == expected
    })
    .await;
}

#[tokio::test]
async fn pods_of_another_network_answer_by_node_ports() {
    let Some(env) = env().await else { return };
    let both_ways = [["member1", "member2"], ["member2", "member1"]];
    for members in both_ways.into_iter().chain([["member4", "member1"]]) {
        let space = env.fleet.space("ports").await;
        let stage = Stage::set_up(env, &space, members).await;
        let client = space
            .backends("client")
            .create(stage.consumer)
            .await
            .remove(0);
        let url = format!("http://foo.{}", space.name());
        let asked = ["-sS", "--max-time", "3", url.as_str()];
        let answer = client
            .network()
            .exec(stage.consumer, "curl", asked)
            .await
            .ok();
        let answer = answer.trim().to_owned();
        assert!(stage.said().contains(&answer), "a pod gets {answer}");
    }
}

#[tokio::test]
async fn roll_out_behind_node_ports_fails_no_request() {
    let Some(env) = env().await else { return };
    let space = env.fleet.space("roll").await;
    let mut stage = Stage::set_up(env, &space, ["member1", "member2"]).await;
    let url = stage.url().await;
    let client = Client::start(&env.fleet, stage.consumer, &url);
    let begun = SystemTime::now();
    // Each pod is replaced by one on the other node.
    for number in 0..stage.pods.len() {
        let node = stage.provider.node_name_of(1);
        let fresh = pod(&format!("fresh-{number}"), "foo").on_node(&node);
        let fresh = fresh.create(stage.provider, &space).await;
        let said = said_by(&[(&fresh, stage.provider.name())]);
        client.answered_by(&said, begun).await;
        let old = stage.pods.remove(0);
        old.terminate().await;
        stage.pods.push(fresh);
        stage.is_answered_by(&stage.said()).await;
        old.delete().await;
    }
    let requests = client.stop().await;
    let failed = requests.iter().filter(|request| request.failed()).count();
    println!("roll-out behind node ports: {}", seen(&requests));
    assert_eq!(failed, 0, "{}", seen(&requests));
    assert!(answers_of(&requests, &stage.said()) > 0);
}

#[tokio::test]
async fn pods_of_own_and_other_networks_answer_together() {
    let Some(env) = env().await else { return };
    let space = env.fleet.space("mixed").await;
    let [far, near, consumer] =
        ["member1", "member3", "member2"].map(|name| env.fleet.member(name));
    for cluster in [env.fleet.hub(), far, near] {
        let own = service("foo").port_to("http", 80, 8080);
        own.create(cluster, &space).await;
    }
    let far_pods = space.backends("foo").count(2).create(far).await;
    let near_pods = space.backends("foo").count(2).create(near).await;
    let exposed = multi_cluster_service("foo").providers(["member1", "member3"]);
    exposed.consumers(["member2"]).create(&space).await;
    let far_pods = far_pods.iter().map(|pod| (pod, "member1"));
    let near_pods = near_pods.iter().map(|pod| (pod, "member3"));
    let expected = said_by(&far_pods.chain(near_pods).collect::<Vec<_>>());
    is_answered_by(consumer, &space, &expected).await;
}

#[tokio::test]
async fn lost_node_of_another_network_is_left_out() {
    let Some(env) = env().await else { return };
    let space = env.fleet.space("node").await;
    let stage = Stage::set_up(env, &space, ["member1", "member2"]).await;
    let node = stage.provider.node_name_of(1);
    let other = pod("other", "foo").on_node(&node);
    let other = other.create(stage.provider, &space).await;
    let mut all = [stage.said(), said_by(&[(&other, "member1")])].concat();
    all.sort();
    stage.is_answered_by(&all).await;
    set_node_ready(stage.provider, &node, "Unknown").await;
    stage.is_answered_by(&stage.said()).await;
    set_node_ready(stage.provider, &node, "True").await;
    stage.is_answered_by(&all).await;
}

/// Sets the condition Ready of a node.
async fn set_node_ready(cluster: &Cluster, node: &str, status: &str) {
    let nodes = Api::<Node>::all(cluster.client());
    let condition = json!({"type": "Ready", "status": status});
    let patch = Patch::Strategic(json!({"status": {"conditions": [condition]}}));
    let params = PatchParams::default();
    let patched = nodes.patch_status(node, &params, &patch);
    patched.await.expect("the status of the node is patched");
}

#[tokio::test]
async fn standby_of_another_network_takes_over() {
    let Some(env) = env().await else { return };
    let space = env.fleet.space("tiers").await;
    let [far, near] = ["member1", "member2"].map(|name| env.fleet.member(name));
    for cluster in [env.fleet.hub(), far, near] {
        let own = service("foo").port_to("http", 80, 8080);
        own.create(cluster, &space).await;
    }
    let near_pods = space.backends("foo").count(2).create(near).await;
    let far_pods = space.backends("foo").count(2).create(far).await;
    let exposed = multi_cluster_service("foo").providers(["member1", "member2"]);
    let exposed = exposed.consumers(["member2"]);
    let exposed = exposed.annotation(labels::PREFER, "local, any");
    exposed.create(&space).await;
    let said = |pods: &[RunningPod], member| {
        said_by(&pods.iter().map(|pod| (pod, member)).collect::<Vec<_>>())
    };
    is_answered_by(near, &space, &said(&near_pods, "member2")).await;
    for pod in &near_pods {
        pod.set_ready(false).await;
    }
    is_answered_by(near, &space, &said(&far_pods, "member1")).await;
}

#[tokio::test]
async fn traffic_between_networks_continues_without_hub_and_controller() {
    let Some(env) = env().await else { return };
    let space = env.fleet.space("stopped").await;
    let stage = Stage::set_up(env, &space, ["member1", "member2"]).await;
    env.controller.process().kill().await;
    let answers = sample(stage.consumer, &stage.url().await, 200).await;
    env.controller.restart().await;
    let answers = answers.expect("all requests are answered");
    assert_eq!(answers.len(), stage.pods.len(), "{answers:?}");
}

#[tokio::test]
async fn importers_of_another_network_reach_the_exporter() {
    let Some(env) = env().await else { return };
    let space = env.fleet.space("exported").await;
    let [exporter, importer] = ["member1", "member2"].map(|name| env.fleet.member(name));
    service("foo")
        .port_to("http", 80, 8080)
        .create(exporter, &space)
        .await;
    let pods = space.backends("foo").count(2).create(exporter).await;
    service_export("foo").create(exporter, &space).await;
    let url = format!("http://foo.{}.svc.clusterset.local", space.name());
    let expected = said_by(&pods.iter().map(|pod| (pod, "member1")).collect::<Vec<_>>());
    for member in [importer, exporter] {
        eventually(
            "all pods answer under the clusterset's name",
            SOON,
            || async {
                let answers = answering_at(member, &url).await;
                match answers == expected {
                    true => Ok(()),
                    false => Err(format!("{}: {answers:?}", member.name())),
                }
            },
        )
        .await;
    }
}

#[tokio::test]
async fn companion_goes_with_the_service() {
    let Some(env) = env().await else { return };
    let space = env.fleet.space("gone").await;
    let stage = Stage::set_up(env, &space, ["member1", "member2"]).await;
    let services = space.api::<Service>(stage.provider);
    let count = || async {
        let all = services.list(&Default::default()).await;
        all.map(|all| all.items.len()).map_err(|e| e.to_string())
    };
    assert_eq!(count().await, Ok(2), "the Service and its companion");
    let exposed = space.api::<MultiClusterService>(stage.env.fleet.hub());
    exposed
        .delete("foo", &DeleteParams::default())
        .await
        .expect("it is deleted");
    eventually("the companion is gone", SOON, || async {
        match count().await? {
            1 => Ok(()),
            more => Err(format!("{more} Services")),
        }
    })
    .await;
}
