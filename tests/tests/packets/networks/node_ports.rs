//! Providers that are reached by node ports.

use causeway::api::{MultiClusterService, labels};
use causeway_tests::{Fleet, SOON, eventually, multi_cluster_service, service, service_export};
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointPort, EndpointSlice};
use kube::api::{DeleteParams, ObjectMeta, PostParams};

use super::{Path, env, is_answered_by, web};
use crate::{answering, answering_at, packets, said_by};

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
    for members in both_ways.into_iter().chain([["member1", "edge"]]) {
        let space = env.fleet.space("ports").await;
        let path = Path::set_up(&env, &space, members).await;
        let client = space
            .backends("client")
            .create(path.consumer)
            .await
            .remove(0);
        let url = format!("http://foo.{}", space.name());
        let asked = ["-sS", "--max-time", "3", url.as_str()];
        let answer = client
            .network()
            .exec(path.consumer, "curl", asked)
            .await
            .ok();
        let answer = answer.trim().to_owned();
        assert!(path.said().contains(&answer), "a pod gets {answer}");
    }
}

#[tokio::test]
async fn own_node_ports_of_a_service_need_no_companion() {
    let Some(env) = env().await else { return };
    let space = env.fleet.space("own").await;
    // A provider that consumes too: each node must lead to its own pods alone.
    let local = |policy: &str| {
        let policy = Some(policy.to_owned());
        web()
            .type_("NodePort")
            .with(|spec| spec.external_traffic_policy = policy)
    };
    let members = ["member1", "member2"];
    let path = Path::with(&env, &space, members, local("Local")).await;
    let exposed = multi_cluster_service("foo").providers(["member1"]);
    exposed.consumers(members).create(&space).await;
    path.is_answered_by(&path.said()).await;
    let services = space.api::<Service>(path.provider);
    let own = services.get("foo").await.expect("a Service");
    let port = own.spec.and_then(|spec| spec.ports?.first()?.node_port);
    let node = path.provider.node_address().expect("a fleet with packets");
    assert_eq!(path.entry().await, [(node, port.expect("a node port"))]);
    assert_eq!(path.companions().await, []);
}

#[tokio::test]
async fn own_node_ports_of_an_exported_service_need_no_companion() {
    let Some(env) = env().await else { return };
    let space = env.fleet.space("own-exported").await;
    let members = ["member1", "member2"];
    let path = Path::with(&env, &space, members, web().type_("NodePort")).await;
    service_export("foo").create(path.provider, &space).await;
    let url = format!("http://foo.{}.svc.clusterset.local", space.name());
    let expected = path.said();
    eventually(
        "all pods answer under the clusterset's name",
        SOON,
        || async {
            let answers = answering_at(path.consumer, &url).await;
            match answers == expected {
                true => Ok(()),
                false => Err(format!("{answers:?}")),
            }
        },
    )
    .await;
    assert_eq!(path.companions().await, []);
}

#[tokio::test]
async fn pods_of_own_and_other_networks_answer_together() {
    let Some(env) = env().await else { return };
    let space = env.fleet.space("mixed").await;
    let [far, near, consumer] =
        ["member1", "member3", "member2"].map(|name| env.fleet.member(name));
    for cluster in [env.fleet.hub(), far, near] {
        web().create(cluster, &space).await;
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
    let path = Path::set_up(&env, &space, ["member1", "member2"]).await;
    assert_eq!(path.companions().await.len(), 1);
    let exposed = space.api::<MultiClusterService>(path.env.fleet.hub());
    exposed
        .delete("foo", &DeleteParams::default())
        .await
        .expect("it is deleted");
    eventually("the companion is gone", SOON, || async {
        match path.companions().await.len() {
            0 => Ok(()),
            more => Err(format!("{more} companions")),
        }
    })
    .await;
}
