use causeway::api::labels;
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;

use serde_json::json;

use super::*;
use crate::fixtures::objects::{
    Kind, Object, cluster, foo, mcs, namespace, node, service, slice, source,
};
use crate::fixtures::server::decode;
use crate::fixtures::{Environment, env, key, name};
use crate::lists::need_nodes;
use crate::model::{Failure, FailureKind, HubEvent, Signal};

/// Returns the lists of an environment, with the MultiClusterService as it would be stored.
fn lists(env: &Environment, object: Object) -> (HubLists, Members) {
    let (mut hub, members) = env.lists();
    hub.multi_cluster_services = vec![decode(object.value)];
    (hub, members)
}

/// Returns what clients of a member reach: its Services, and the addresses behind each.
fn reached(services: &[Service], slices: &[EndpointSlice]) -> Vec<String> {
    let services = services.iter().map(|one| one.metadata.name.clone());
    let slices = slices.iter().flat_map(|slice| {
        let endpoints = slice.endpoints.iter();
        let addresses = endpoints.flat_map(|endpoint| endpoint.addresses.clone());
        let name = slice.metadata.name.clone().unwrap_or_default();
        addresses.map(move |address| Some(format!("{name} {address}")))
    });
    let mut all: Vec<_> = services.chain(slices).flatten().collect();
    all.sort();
    all
}

fn provided() -> Environment {
    let mut env = env();
    for (member, address) in [("member1", "10.1.0.5"), ("member2", "10.2.0.5")] {
        env.member(member);
        env.on(member, foo()).on(member, source(address));
    }
    env.member("member3").on_hub(foo()).settle();
    env
}

fn exposure(providers: &[&str], consumers: &[&str]) -> Object {
    mcs("foo").providers(providers).consumers(consumers)
}

#[test]
fn a_preview_shows_what_the_controller_then_does() {
    let mut env = provided();
    for (providers, consumers) in [
        (&["member1"][..], &["member3"][..]),
        (&["member1", "member2"], &["member3"]),
        (&["member2"], &["member1", "member3"]),
        (&["member2"], &["member1"]),
        (&["member1"], &["member2"]),
    ] {
        let wanted = exposure(providers, consumers);
        let (hub, members) = lists(&env, wanted.clone());
        let settings = Settings::default();
        let after = preview(hub, members, &settings, &key("foo"), env.now()).members;
        env.on_hub(wanted.clone()).settle();
        let (_, then) = lists(&env, wanted);
        for (name, then) in then {
            let (then, after) = (then.expect("lists"), after[&name].as_ref().expect("lists"));
            assert_eq!(
                reached(&after.services, &after.slices),
                reached(&then.services, &then.slices),
                "{name} of {providers:?} to {consumers:?}"
            );
        }
    }
}

/// Returns the copies whose endpoints are standby endpoints.
fn standby(slices: &[EndpointSlice]) -> Vec<Option<String>> {
    let marked = |slice: &&EndpointSlice| {
        let annotations = slice.metadata.annotations.as_ref();
        annotations.is_some_and(|all| all.contains_key(labels::STANDBY))
    };
    let marked = slices.iter().filter(marked);
    marked.map(|slice| slice.metadata.name.clone()).collect()
}

#[test]
fn a_preview_shows_which_copies_come_to_be_standby() {
    let mut env = provided();
    let everybody = ["member1", "member2"];
    env.on_hub(exposure(&everybody, &everybody)).settle();
    let annotations = json!({"metadata": {"annotations": {labels::PREFER: "local, any"}}});
    let wanted = exposure(&everybody, &everybody).with(annotations);
    let (hub, members) = lists(&env, wanted.clone());
    let settings = Settings::default();
    let after = preview(hub, members, &settings, &key("foo"), env.now()).members;
    env.on_hub(wanted.clone()).pass(HOLD * 2);
    let (_, then) = lists(&env, wanted);
    for name in everybody.map(crate::fixtures::name) {
        let [after, then] = [&after, &then].map(|all| all[&name].as_ref().expect("lists"));
        assert_eq!(standby(&after.slices), standby(&then.slices), "{name}");
        assert_eq!(standby(&then.slices).len(), 1, "{name}");
    }
}

/// Returns an environment in which clusters of other networks reach member1 by node ports, and its
/// own Service is the entry.
fn entered() -> Environment {
    let mut env = provided();
    let reached = json!({labels::NETWORK: "edge", labels::REACH: "node-ports"});
    let own = json!({"spec": {"type": "NodePort", "externalTrafficPolicy": "Local"}});
    let pod = json!({"addresses": ["10.1.0.5"], "nodeName": "n1", "conditions": {"ready": true}});
    let source = slice("foo-abc", "foo").port("http", 8080);
    env.on("member1", service("foo").port("http", 80).with(own))
        .on("member1", source.endpoint_with(pod))
        .on("member1", node("n1", "192.168.1.1"))
        .on_hub(cluster("member1").annotated(&reached))
        .settle();
    env
}

#[test]
fn preview_of_another_network_shows_the_nodes_of_the_provider() {
    let mut env = entered();
    let wanted = exposure(&["member1"], &["member3"]);
    let (hub, members) = lists(&env, wanted.clone());
    assert_eq!(need_nodes(&hub, &members, env.now()), [name("member1")]);
    let settings = Settings::default();
    let after = preview(hub, members, &settings, &key("foo"), env.now()).members;
    env.on_hub(wanted.clone()).settle();
    let (_, then) = lists(&env, wanted);
    let [after, then] = [&after, &then].map(|all| {
        let lists = all[&name("member3")].as_ref().expect("lists");
        reached(&lists.services, &lists.slices)
    });
    assert_eq!(after, then);
    assert!(
        then.iter().any(|one| one.ends_with(" 192.168.1.1")),
        "{then:?}"
    );
}

#[test]
fn preview_without_the_right_to_nodes_shows_no_entry() {
    let env = entered();
    let wanted = exposure(&["member1"], &["member3"]);
    let (hub, mut members) = lists(&env, wanted);
    let provider = members.get_mut(&name("member1"));
    let provider = provider.and_then(|lists| lists.as_mut().ok());
    provider.expect("lists").nodes = Some(Err(Failure::new(FailureKind::Forbidden, "no")));
    let settings = Settings::default();
    let after = preview(hub, members, &settings, &key("foo"), env.now());
    let consumer = after.members[&name("member3")].as_ref().expect("lists");
    assert_eq!(consumer.slices, []);
    let unreached = &after.unreached[0];
    assert!(unreached.is_pending && unreached.is_unread, "{unreached:?}");
    assert!(
        unreached.message.contains("cannot be read"),
        "{unreached:?}"
    );
}

#[test]
fn preview_shows_the_companion_and_the_entry_before_the_node_port_is_chosen() {
    let mut env = entered();
    let source = slice("foo-abc", "foo")
        .port("http", 8080)
        .port("grpc", 9090);
    let pod = json!({"addresses": ["10.1.0.5"], "nodeName": "n1", "conditions": {"ready": true}});
    let two = service("foo").port("http", 80).port("grpc", 90);
    env.on("member1", source.endpoint_with(pod))
        .on("member1", two.clone())
        .on_hub(two)
        .settle();
    let wanted = exposure(&["member1"], &["member3"]);
    let (hub, members) = lists(&env, wanted);
    let settings = Settings::default();
    let after = preview(hub, members, &settings, &key("foo"), env.now());
    let in_member = |member: &str| after.members[&name(member)].as_ref().expect("lists");
    let companion = key("foo").companion();
    let mut services = in_member("member1").services.iter();
    let made = services.find(|one| one.metadata.name.as_deref() == Some(&*companion.name));
    let spec = made.and_then(|one| one.spec.clone()).expect("a companion");
    let ports = spec.ports.into_iter().flatten();
    let ports: Vec<_> = ports.map(|port| port.node_port).collect();
    assert_eq!(ports, [Some(CHOSEN_LATER); 2]);
    let entry = &in_member("member3").slices[0];
    assert_eq!(entry.endpoints[0].addresses, ["192.168.1.1"]);
    let ports = entry.ports.iter().flatten();
    let ports: Vec<_> = ports.map(|port| port.port).collect();
    assert_eq!(ports, [Some(CHOSEN_LATER); 2]);
    assert_eq!(after.unreached, []);
}

#[test]
fn preview_says_why_a_load_balancer_that_does_not_exist_is_no_entry() {
    let env = entered();
    let wanted =
        exposure(&["member1"], &["member3"]).annotated(&json!({labels::REACH: "load-balancer"}));
    let (hub, members) = lists(&env, wanted);
    let settings = Settings::default();
    let after = preview(hub, members, &settings, &key("foo"), env.now());
    let [unreached] = &after.unreached[..] else {
        panic!("{:?}", after.unreached);
    };
    assert!(unreached.is_pending && !unreached.is_unread);
    assert!(
        unreached.message.contains("no address yet"),
        "{unreached:?}"
    );
}

#[test]
fn preview_has_the_addresses_of_a_hostname_from_copies() {
    let mut env = provided();
    let by = |way: &str| {
        let annotations = json!({labels::NETWORK: "edge", labels::REACH: way});
        cluster("member1").annotated(&annotations)
    };
    let balanced = json!({
        "spec": {"type": "LoadBalancer", "clusterIP": "10.96.0.7"},
        "status": {"loadBalancer": {"ingress": [{"hostname": "lb.example"}]}},
    });
    env.on("member1", service("foo").port("http", 80).with(balanced))
        .on_hub(by("cluster-ip"))
        .on_hub(exposure(&["member1"], &["member3"]))
        .settle();
    let shown = |env: &Environment| {
        let (hub, members) = env.lists();
        let after = preview(hub, members, &Settings::default(), &key("foo"), env.now());
        let consumer = after.members[&name("member3")].as_ref().expect("lists");
        let endpoints = consumer.slices.iter().flat_map(|slice| &slice.endpoints);
        let addresses = endpoints.flat_map(|endpoint| endpoint.addresses.clone());
        (addresses.collect::<Vec<_>>(), after.unreached.len())
    };
    // The copy has an address of another way until the controller knows the hostname's.
    env.on_hub(by("load-balancer")).settle();
    assert_eq!(shown(&env), (vec!["10.96.0.7".to_owned()], 1));
    env.index
        .apply_resolved("lb.example", [[203, 0, 113, 7].into()]);
    env.settle();
    assert_eq!(shown(&env), (vec!["203.0.113.7".to_owned()], 0));
}

/// Returns `shop/foo` of type LoadBalancer, which requests a name.
fn named(name: &str) -> Object {
    let annotations = json!({ labels::HOSTNAME: "foo.example.com" });
    let object = mcs(name).load_balancer().providers(&["member1"]);
    object.with(json!({ "metadata": { "annotations": annotations } }))
}

#[test]
fn preview_shows_the_dns_endpoint_that_follows() {
    let mut env = env();
    env.member("member1");
    let ingress = json!({ "loadBalancer": { "ingress": [{ "ip": "192.0.2.1" }] } });
    let balanced = json!({ "spec": { "type": "LoadBalancer" }, "status": ingress });
    let source = slice("foo-abc", "foo").port("http", 8080);
    env.on("member1", service("foo").port("http", 80).with(balanced))
        .on("member1", source.endpoint("10.1.0.1"))
        .on_hub(service("foo").port("http", 80))
        .on_hub(namespace("shop"))
        .observe_hub(HubEvent::DnsEndpointsServed(true))
        .observe_hub(HubEvent::DnsEndpoints(Signal::Listed(Vec::new())));
    let plain = mcs("foo").load_balancer().providers(&["member1"]);
    let shown = |env: &Environment, rivals: &[&str], object: Object| {
        let (mut hub, members) = lists(env, object);
        if let NameLists::Listed { rivals: others, .. } = &mut hub.names {
            others.extend(
                rivals
                    .iter()
                    .filter_map(|name| env.mcs(name).cloned())
                    .map(decode),
            );
        }
        let settings = Settings::default();
        let after = preview(hub, members, &settings, &key("foo"), env.now());
        let NameLists::Listed { endpoints, .. } = after.names else {
            panic!("no DNSEndpoints");
        };
        let is_own = |one: &&DNSEndpoint| key_of(&one.metadata) == Some(key("foo"));
        let own = endpoints.iter().find(is_own);
        let targets = own.map(|one| one.spec.endpoints[0].targets.join(" "));
        let unpublished = after.unpublished.iter().map(|one| one.message.clone());
        (targets, unpublished.collect::<Vec<_>>().join("; "))
    };
    let none = String::new();
    let target = Some("192.0.2.1".to_owned());
    assert_eq!(
        shown(&env, &[], named("foo")),
        (target.clone(), none.clone())
    );
    let annotations = json!({ labels::HOSTNAME_ROUTING: "aws/region" });
    let routed = named("foo").with(json!({ "metadata": { "annotations": annotations } }));
    let why = "no record of foo.example.com changes, because no cluster with a value for \
               aws/region can serve (without a value: member1)";
    assert_eq!(shown(&env, &[], routed), (None, why.to_owned()));
    env.on_hub(named("foo")).settle();
    assert_eq!(shown(&env, &[], named("foo")), (target, none.clone()));
    assert_eq!(shown(&env, &[], plain), (None, none));
    env.off_hub(Kind::Mcs, "foo");
    env.on_hub(named("bar")).settle();
    let taken = "foo.example.com is not published: MultiClusterService shop/bar has the name";
    let shown = shown(&env, &["bar"], named("foo"));
    assert_eq!(shown, (None, taken.to_owned()));
}
