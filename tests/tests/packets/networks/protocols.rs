//! Protocols and address families of entries.

use causeway_tests::dns::core_dns;
use causeway_tests::{SOON, eventually, multi_cluster_service, network, pod, service};
use k8s_openapi::api::core::v1::{Service, ServicePort};

use super::{Path, env, web};
use crate::answering_at;

/// Port of a Service whose pods listen on the same number.
fn port(name: &str, number: i32, protocol: &str) -> ServicePort {
    ServicePort {
        name: Some(name.to_owned()),
        port: number,
        protocol: Some(protocol.to_owned()),
        ..ServicePort::default()
    }
}

/// SCTP is compared by the entry alone: few kernels have it.
#[tokio::test]
async fn udp_and_sctp_ports_are_entered_by_their_node_ports() {
    let Some(env) = env().await else { return };
    if let Err(missing) = network::dig() {
        eprintln!("skipped, no names: {missing}");
        return;
    }
    let space = env.fleet.space("protocols").await;
    let [provider, consumer] = ["member1", "member2"].map(|name| env.fleet.member(name));
    let ports = vec![
        port("dns", 53, "UDP"),
        port("dns-tcp", 53, "TCP"),
        port("signal", 2905, "SCTP"),
    ];
    for cluster in [env.fleet.hub(), provider] {
        let ports = Some(ports.clone());
        let own = service("foo").with(|spec| spec.ports = ports);
        own.create(cluster, &space).await;
    }
    let pods = space.backends("foo").create(provider).await;
    // The pod serves the names of its cluster.
    let names = core_dns(provider).in_network(pods[0].network().namespace());
    let _names = env.fleet.reaper().run(names);
    let path = Path {
        env: &env,
        space: &space,
        provider,
        consumer,
        pods,
    };
    path.expose(None).await;
    let at = format!("@{}", path.addresses().await[0]);
    let name = format!("foo.{}.svc.cluster.local", space.name());
    let own = space.api::<Service>(provider).get("foo").await;
    let own = own
        .expect("a Service")
        .spec
        .and_then(|spec| spec.cluster_ip);
    for protocol in ["+notcp", "+tcp"] {
        let what = format!("the pod answers by {protocol}");
        eventually(&what, SOON, || async {
            for _ in 0..10 {
                let how = ["+short", "+tries=1", "+time=2", protocol];
                let asked = how.into_iter().chain([&*at, &*name]);
                let answer = consumer.exec("dig", asked).await.stdout;
                if Some(answer.trim()) != own.as_deref() {
                    return Err(answer);
                }
            }
            Ok(())
        })
        .await;
    }

    let companion = path.companions().await.remove(0);
    let own = companion.spec.and_then(|spec| spec.ports);
    let mut own: Vec<_> = own.iter().flatten().collect();
    own.sort_by_key(|port| port.name.clone());
    let own = own
        .iter()
        .map(|port| (&port.name, &port.protocol, port.node_port));
    let slices = space.slices(consumer, "foo").await;
    let copy = slices.into_iter().find(|slice| !slice.endpoints.is_empty());
    let mut entry = copy.and_then(|copy| copy.ports).expect("a copy");
    entry.sort_by_key(|port| port.name.clone());
    let entry = entry
        .iter()
        .map(|port| (&port.name, &port.protocol, port.port));
    assert!(own.clone().all(|(.., number)| number.is_some()));
    assert_eq!(entry.collect::<Vec<_>>(), own.collect::<Vec<_>>());
}

#[ignore = "slow: make test ALL=1"]
#[tokio::test]
async fn both_address_families_answer_by_node_ports() {
    let Some(env) = env().await else { return };
    let space = env.fleet.space("families").await;
    let [provider, consumer] = ["member1", "member2"].map(|name| env.fleet.member(name));
    for cluster in [env.fleet.hub(), provider] {
        let policy = Some("PreferDualStack".to_owned());
        let own = web().with(|spec| spec.ip_family_policy = policy);
        own.create(cluster, &space).await;
    }
    let mut pods = space.backends("foo").count(2).create(provider).await;
    let other = pod("other", "foo").on_node(&provider.node_name_of(1));
    pods.push(other.create(provider, &space).await);
    let exposed = multi_cluster_service("foo").providers(["member1"]);
    exposed.consumers(["member2"]).create(&space).await;
    let path = Path {
        env: &env,
        space: &space,
        provider,
        consumer,
        pods,
    };
    let addresses = path.addresses().await;
    assert_eq!(addresses.len(), 2, "{addresses:?}");
    for address in addresses {
        let url = match address.contains(':') {
            true => format!("http://[{address}]"),
            false => format!("http://{address}"),
        };
        let expected = path.said();
        eventually(&format!("all pods answer at {url}"), SOON, || async {
            let answers = answering_at(consumer, &url).await;
            match answers == expected {
                true => Ok(()),
                false => Err(format!("{answers:?}")),
            }
        })
        .await;
    }
}
