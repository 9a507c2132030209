use std::time::Duration;

use causeway::api::labels;
use serde_json::{Value, json};

use crate::fixtures::objects::{
    Kind, Object, cluster, export, foo, mcs, namespace, node, service, slice,
};
use crate::fixtures::{Environment, GRACE, env, key, name};
use crate::model::slice::Exposure;

mod companion;

/// Returns the Cluster of a member of that network, which others reach that way.
fn in_network(member: &str, network: &str, reach: Option<&str>) -> Object {
    cluster(member).annotated(&json!({labels::NETWORK: network, labels::REACH: reach}))
}

/// Returns the slice of two ready pods on node n1 and of one on n2 that is not ready.
fn pods() -> Object {
    let pod = |address: &str, node: &str, ready: bool| json!({"addresses": [address], "nodeName": node, "conditions": {"ready": ready, "serving": ready, "terminating": false}});
    slice("foo-abc", "foo")
        .port("http", 8080)
        .endpoint_with(pod("10.1.0.5", "n1", true))
        .endpoint_with(pod("10.1.0.6", "n1", true))
        .endpoint_with(pod("10.1.0.7", "n2", false))
}

/// Returns an environment in which member1, of network `edge`, provides `foo` to member2 by its own
/// Service, which is `own` beside that.
fn provided(reach: &str, own: Value) -> Environment {
    let mut env = env();
    env.member("member1").member("member2");
    env.on_hub(in_network("member1", "edge", Some(reach)))
        .on_hub(foo())
        .on("member1", foo().with(own))
        .on("member1", pods())
        .on("member1", node("n1", "192.168.1.1"))
        .on("member1", node("n2", "192.168.1.2"))
        .on_hub(mcs("foo").providers(&["member1"]).consumers(&["member2"]))
        .settle();
    env
}

/// Returns the addresses of a copy's endpoints, each with whether it is ready, and its port.
fn reached(env: &Environment) -> (Vec<(String, Option<bool>)>, Option<i32>) {
    let copy = env.only_copy();
    let endpoints = copy.endpoints.iter();
    let endpoints = endpoints.map(|endpoint| {
        let ready = endpoint.conditions.as_ref().and_then(|all| all.ready);
        (endpoint.addresses.join(","), ready)
    });
    let port = copy
        .ports
        .iter()
        .flatten()
        .next()
        .and_then(|port| port.port);
    (endpoints.collect(), port)
}

fn node_port(env: &Environment, member: &str, service: &str) -> Option<i32> {
    let service = env.service(member, service)?;
    let port = service["spec"]["ports"][0]["nodePort"].as_i64()?;
    i32::try_from(port).ok()
}

#[test]
fn clusters_of_one_network_get_the_addresses_of_pods() {
    let mut env = provided("node-ports", json!({}));
    env.on_hub(in_network("member2", "edge", None)).settle();
    let (addresses, port) = reached(&env);
    assert_eq!(addresses.len(), 3);
    assert_eq!((addresses[0].0.as_str(), port), ("10.1.0.5", Some(8080)));
}

#[test]
fn another_network_gets_the_nodes_that_endpoints_are_on() {
    let own = json!({"spec": {"type": "NodePort", "externalTrafficPolicy": "Local"}});
    let env = provided("node-ports", own);
    let nodes = [("192.168.1.1", true), ("192.168.1.2", false)];
    let nodes = nodes.map(|(address, ready)| (address.to_owned(), Some(ready)));
    assert_eq!(
        reached(&env),
        (nodes.to_vec(), node_port(&env, "member1", "foo"))
    );
    let copy = env.only_copy();
    assert_eq!(copy.endpoints[0].node_name, None);
    assert!(env.is_ready("foo"), "{}", env.says("foo", "Ready"));
}

#[test]
fn each_ready_node_leads_to_every_endpoint_under_policy_cluster() {
    let mut env = provided("node-ports", json!({"spec": {"type": "NodePort"}}));
    let ready = |env: &Environment| {
        let (nodes, _) = reached(env);
        nodes
            .iter()
            .filter(|(_, ready)| *ready == Some(true))
            .count()
    };
    assert_eq!(ready(&env), 2);
    let lost = json!({"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}});
    env.on("member1", node("n2", "192.168.1.2").with(lost))
        .settle();
    assert_eq!(ready(&env), 1);
}

#[test]
fn left_out_node_is_used_while_no_other_is_ready() {
    let label = "node.kubernetes.io/exclude-from-external-load-balancers";
    let taint = json!({"key": "ToBeDeletedByClusterAutoscaler", "effect": "NoSchedule"});
    let lost = json!({"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}});
    for left_out in [
        json!({"metadata": {"labels": {label: ""}}}),
        json!({"spec": {"taints": [taint]}}),
    ] {
        let mut env = provided("node-ports", json!({"spec": {"type": "NodePort"}}));
        env.on("member1", node("n1", "192.168.1.1").with(left_out))
            .settle();
        assert_eq!(ready_nodes(&env), [false, true]);
        env.on("member1", node("n2", "192.168.1.2").with(lost.clone()))
            .settle();
        assert_eq!(ready_nodes(&env), [true, false]);
    }
}

#[test]
fn left_out_node_is_used_until_the_proxy_of_another_has_synced() {
    let label = "node.kubernetes.io/exclude-from-external-load-balancers";
    let left_out = json!({"metadata": {"labels": {label: ""}}});
    let lost = json!({"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}});
    let mut env = provided("node-ports", json!({"spec": {"type": "NodePort"}}));
    env.on("member1", node("n2", "192.168.1.2").with(lost));
    env.pass(Duration::from_secs(6));
    env.on("member1", node("n1", "192.168.1.1").with(left_out))
        .on("member1", node("n2", "192.168.1.2"))
        .settle();
    assert_eq!(ready_nodes(&env), [true, false]);
    env.pass(Duration::from_secs(5));
    assert_eq!(ready_nodes(&env), [false, true]);
}

#[test]
fn another_network_gets_the_virtual_address() {
    let env = provided("cluster-ip", json!({"spec": {"clusterIP": "10.96.0.7"}}));
    let address = vec![("10.96.0.7".to_owned(), Some(true))];
    assert_eq!(reached(&env), (address, Some(80)));
}

#[test]
fn pods_that_come_and_go_behind_an_address_write_nothing() {
    let mut env = provided("cluster-ip", json!({"spec": {"clusterIP": "10.96.0.7"}}));
    env.forget_writes();
    env.on("member1", pods().endpoint("10.1.0.9")).settle();
    assert_eq!(env.log(), Vec::<String>::new());
}

#[test]
fn another_network_gets_the_addresses_of_the_load_balancer() {
    let balanced = json!({
        "spec": {"type": "LoadBalancer"},
        "status": {"loadBalancer": {"ingress": [{"ip": "203.0.113.7"}, {"ip": "203.0.113.8"}]}},
    });
    let env = provided("load-balancer", balanced);
    let addresses = ["203.0.113.7", "203.0.113.8"];
    let addresses = addresses.map(|address| (address.to_owned(), Some(true)));
    assert_eq!(reached(&env), (addresses.to_vec(), Some(80)));
}

#[test]
fn load_balancer_of_a_terminating_service_is_no_entry() {
    let balanced = json!({
        "spec": {"type": "LoadBalancer"},
        "status": {"loadBalancer": {"ingress": [{"ip": "203.0.113.7"}]}},
    });
    let mut env = provided("load-balancer", balanced);
    let finalizers = ["service.kubernetes.io/load-balancer-cleanup"];
    let held = json!({"metadata": { "finalizers": finalizers }});
    env.amend("member1", Kind::Service, "foo", held)
        .off("member1", Kind::Service, "foo")
        .settle();
    assert_eq!(env.copies("member2", "foo"), []);
    let (plan, member1) = (env.plan("foo"), name("member1"));
    let copies = plan.copies_in(Exposure::Native, &name("member2"));
    let entry = copies.and_then(|copies| copies.entry(&member1));
    let why = entry.expect("another network").expect_err("no entry");
    let (sentence, _) = why.words(&key("foo"), &member1);
    assert!(sentence.contains("is terminating"), "{sentence}");
}

#[test]
fn renamed_port_leaves_copies_while_the_slices_have_its_former_name() {
    let virtual_address = json!({"spec": {"clusterIP": "10.96.0.7"}});
    for (reach, own) in [
        ("node-ports", json!({"spec": {"type": "NodePort"}})),
        ("node-ports", json!({})),
        ("cluster-ip", virtual_address),
    ] {
        let mut env = provided(reach, own.clone());
        let before = reached(&env);
        env.on("member1", service("foo").port("web", 80).with(own))
            .settle();
        assert_eq!(reached(&env), before, "{reach}");
        let named = json!({"ports": [{"name": "web", "port": 8080, "protocol": "TCP"}]});
        env.on("member1", pods().with(named)).settle();
        assert_eq!(reached(&env), before, "{reach}");
        assert!(env.is_ready("foo"), "{}", env.says("foo", "Ready"));
    }
}

#[test]
fn entry_goes_with_the_service_and_its_slices() {
    let mut env = provided("node-ports", json!({"spec": {"type": "NodePort"}}));
    let ends = json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["shop/x"]}});
    env.on("member1", namespace("shop").with(ends))
        .off("member1", Kind::Service, "foo")
        .settle();
    assert_eq!(reached(&env).0.len(), 2, "there are slices");
    env.off("member1", Kind::Slice, "foo-abc").settle();
    assert_eq!(env.copies("member2", "foo"), []);
}

#[test]
fn load_balancer_without_node_ports_gets_a_companion() {
    let own = json!({"spec": {"type": "LoadBalancer", "allocateLoadBalancerNodePorts": false}});
    let env = provided("node-ports", own);
    let companion = key("foo").companion();
    let port = node_port(&env, "member1", &companion.name);
    assert!(port.is_some(), "a companion");
    assert_eq!(reached(&env).1, port);
}

#[test]
fn headless_consumer_gets_no_entry() {
    let mut env = provided("node-ports", json!({"spec": {"type": "NodePort"}}));
    env.on_hub(foo().with(json!({"spec": {"clusterIP": "None"}})))
        .off("member2", Kind::Service, "foo")
        .settle();
    assert_eq!(env.copies("member2", "foo"), []);
    let ready = env.says("foo", "Ready");
    assert!(
        ready.contains("a headless Service in the consumer"),
        "{ready}"
    );
}

#[test]
fn load_balancer_fails_a_port_by_protocol_and_on_each_address() {
    let udp = json!({"port": 80, "protocol": "UDP", "error": "MixedProtocolNotSupported"});
    let tcp = json!({"port": 80, "protocol": "TCP", "error": "Quota"});
    for (ports, copies) in [
        ([udp, Value::Null], 1),
        ([tcp.clone(), Value::Null], 1),
        ([tcp.clone(), tcp], 0),
    ] {
        let ingress = ports.into_iter().zip(["203.0.113.7", "203.0.113.8"]);
        let ingress = ingress.map(|(port, ip)| match port {
            Value::Null => json!({"ip": ip}),
            port => json!({"ip": ip, "ports": [port]}),
        });
        let ingress: Vec<_> = ingress.collect();
        let balanced = json!({
            "spec": {"type": "LoadBalancer"},
            "status": {"loadBalancer": {"ingress": ingress}},
        });
        let env = provided("load-balancer", balanced);
        assert_eq!(env.copies("member2", "foo").len(), copies);
    }
}

#[test]
fn port_that_the_load_balancer_refuses_is_left_out() {
    let balanced = json!({
        "spec": {"type": "LoadBalancer"},
        "status": {"loadBalancer": {"ingress": [{
            "ip": "203.0.113.7",
            "ports": [{"port": 80, "protocol": "TCP", "error": "Quota"}],
        }]}},
    });
    let env = provided("load-balancer", balanced);
    assert_eq!(env.copies("member2", "foo"), []);
    let ready = env.says("foo", "Ready");
    assert!(ready.contains("reports an error of each port"), "{ready}");
}

#[test]
fn provider_that_nothing_reaches_is_named_with_the_remedy() {
    let mut env = provided("node-ports", json!({"spec": {"type": "NodePort"}}));
    env.on_hub(in_network("member1", "edge", None)).settle();
    assert_eq!(env.copies("member2", "foo"), []);
    let ready = env.says("foo", "Ready");
    for part in [
        "member1 is of another network than member2: nothing says how to reach member1",
        "kubectl annotate cluster member1 mcs.causeway.dev/reach=node-ports",
    ] {
        assert!(ready.contains(part), "{ready}");
    }
}

/// Sets the pods of `foo`: each is on a node, and is ready, or else serves or does not.
fn on_nodes(env: &mut Environment, pods: &[(&str, bool, bool)]) {
    let slice = slice("foo-abc", "foo").port("http", 8080);
    let slice = pods
        .iter()
        .zip(5..)
        .fold(slice, |slice, ((node, ready, serving), last)| {
            slice.endpoint_with(json!({
                "addresses": [format!("10.1.0.{last}")],
                "nodeName": node,
                "conditions": {"ready": ready, "serving": serving, "terminating": !ready},
            }))
        });
    env.on("member1", slice).settle();
}

/// Returns whether each node is ready in the copy, in the order of their names.
fn ready_nodes(env: &Environment) -> Vec<bool> {
    let (nodes, _) = reached(env);
    nodes
        .iter()
        .map(|(_, ready)| *ready == Some(true))
        .collect()
}

#[test]
fn first_endpoint_of_a_node_is_used_once_its_proxy_has_synced() {
    let own = json!({"spec": {"type": "NodePort", "externalTrafficPolicy": "Local"}});
    let mut env = provided("node-ports", own);
    let both = [("n1", true, true), ("n2", true, true)];
    on_nodes(&mut env, &both);
    assert_eq!(ready_nodes(&env), [true, false]);
    env.pass(Duration::from_secs(5));
    assert_eq!(ready_nodes(&env), [true, true]);
    assert!(env.is_ready("foo"), "{}", env.says("foo", "Ready"));

    for serving in [false, true] {
        on_nodes(&mut env, &[("n1", true, true), ("n2", false, false)]);
        on_nodes(&mut env, &both);
        assert_eq!(ready_nodes(&env), [true, false]);
        // No other node is ready.
        on_nodes(&mut env, &[("n1", false, serving), ("n2", true, true)]);
        assert_eq!(ready_nodes(&env), [false, true]);
    }
}

#[test]
fn node_that_is_observed_after_its_endpoint_is_new() {
    let own = json!({"spec": {"type": "NodePort", "externalTrafficPolicy": "Local"}});
    let mut env = provided("node-ports", own);
    on_nodes(&mut env, &[("n1", true, true), ("n3", true, true)]);
    env.on("member1", node("n3", "192.168.1.3")).settle();
    assert_eq!(ready_nodes(&env), [true, false]);
    env.pass(Duration::from_secs(5));
    assert_eq!(ready_nodes(&env), [true, true]);
}

#[test]
fn all_nodes_stay_in_use_over_a_restart() {
    let own = json!({"spec": {"type": "NodePort", "externalTrafficPolicy": "Local"}});
    let mut env = provided("node-ports", own);
    on_nodes(&mut env, &[("n1", true, true), ("n2", true, true)]);
    env.pass(Duration::from_secs(6));
    env.forget_writes();
    env.restart().settle();
    assert_eq!(env.log(), Vec::<String>::new());
    assert_eq!(ready_nodes(&env), [true, true]);
}

/// Asserts that the count and a Ready condition name member1 exactly while it has an endpoint:
/// without a way, and with one that its Service refuses.
fn assert_named_with_endpoints(env: &mut Environment, ready: impl Fn(&Environment) -> String) {
    for (way, reason) in [(None, "NoReach"), (Some("load-balancer"), "EntryRefused")] {
        env.on_hub(in_network("member1", "edge", way));
        assert_named(env, reason, &ready);
    }
}

fn assert_named(env: &mut Environment, reason: &str, ready: impl Fn(&Environment) -> String) {
    let none = || slice("foo-abc", "foo").port("http", 8080);
    let unready = json!({"addresses": ["10.1.0.5"], "conditions": {"ready": false}});
    for (endpoints, is_named) in [
        (none(), false),
        (none().endpoint_with(unready), true),
        (none(), false),
        (pods(), true),
        (none(), false),
    ] {
        env.on("member1", endpoints).settle();
        let unreached = is_named.then_some(("member1", reason));
        assert_eq!(env.unreached(), Vec::from_iter(unreached));
        let ready = ready(env);
        let words = [
            "nothing says how to reach member1",
            "not of type LoadBalancer",
        ];
        let remark = words.iter().any(|words| ready.contains(words));
        assert_eq!(remark, is_named, "{ready}");
    }
    env.off("member1", Kind::Slice, "foo-abc").settle();
    assert_eq!(env.unreached(), []);
}

#[test]
fn unreached_provider_is_named_while_it_has_an_endpoint() {
    let mut env = provided("node-ports", json!({"spec": {"type": "NodePort"}}));
    assert_named_with_endpoints(&mut env, |env| env.says("foo", "Ready"));
}

#[test]
fn unreached_exporter_is_named_while_it_has_an_endpoint() {
    let mut env = env();
    env.member("member1").member("member2");
    env.on("member1", foo()).on("member1", export("foo"));
    assert_named_with_endpoints(&mut env, |env| env.export_says("member1", "foo", "Ready"));
}

#[test]
fn services_of_unreached_providers_are_counted_by_reason() {
    let mut env = provided("node-ports", json!({}));
    assert_eq!(env.unreached(), []);
    env.on_hub(in_network("member1", "edge", None)).settle();
    assert_eq!(env.unreached(), [("member1", "NoReach")]);
    env.on_hub(in_network("member1", "edge", Some("load-balancer")))
        .settle();
    assert_eq!(env.unreached(), [("member1", "EntryRefused")]);
    env.off_hub(Kind::Mcs, "foo").settle();
    assert_eq!(env.unreached(), []);
}

#[test]
fn service_annotation_precedes_that_of_the_cluster() {
    let mut env = provided("node-ports", json!({"spec": {"clusterIP": "10.96.0.7"}}));
    let asked = mcs("foo").providers(&["member1"]).consumers(&["member2"]);
    env.on_hub(asked.annotated(&json!({labels::REACH: "cluster-ip"})))
        .settle();
    assert_eq!(reached(&env).0[0].0, "10.96.0.7");
}

#[test]
fn headless_service_has_no_entry() {
    let headless = json!({"spec": {"clusterIP": "None"}});
    let mut env = provided("node-ports", headless.clone());
    env.on_hub(foo().with(headless)).settle();
    assert_eq!(env.copies("member2", "foo"), []);
    let ready = env.says("foo", "Ready");
    assert!(ready.contains("Service shop/foo is headless"), "{ready}");
}

/// Returns the address of member1 that leads to its pods by a Service without a selector, and
/// Ready's message before.
fn without_selector(reach: &str, remedy: [&str; 2], spec: Value) -> Vec<(String, Option<bool>)> {
    let own = json!({"spec": {"selector": null, "clusterIP": "10.96.0.7"}});
    let mut env = provided(reach, own.clone());
    let both = mcs("foo").providers(&["member1"]);
    env.on_hub(both.clone()).settle();
    assert_eq!(env.copies("member2", "foo"), []);
    let ready = env.says("foo", "Ready");
    assert!(remedy.iter().all(|part| ready.contains(part)), "{ready}");
    env.on_hub(both.annotated(&json!({labels::REACH: "node-ports"})))
        .on("member1", foo().with(own).with(json!({ "spec": spec })))
        .settle();
    reached(&env).0
}

#[test]
fn remedy_of_a_service_without_selector_leads_to_its_nodes() {
    let patch = json!({"type": "NodePort", "externalTrafficPolicy": "Local"});
    let text = r#"kubectl -n shop patch service foo -p '{"spec":{"type":"NodePort","externalTrafficPolicy":"Local"}}'"#;
    let annotate = "annotate multiclusterservice foo mcs.causeway.dev/reach=node-ports";
    for (reach, other) in [("node-ports", "has no selector"), ("cluster-ip", annotate)] {
        let nodes = without_selector(reach, [text, other], patch.clone());
        assert_eq!(nodes[0], ("192.168.1.1".to_owned(), Some(true)), "{reach}");
    }
}

#[test]
fn entry_outside_the_ranges_of_the_cluster_is_refused() {
    let mut env = provided("node-ports", json!({"spec": {"type": "NodePort"}}));
    let ranges = json!({labels::ENDPOINT_CIDRS: "192.168.1.2/32"});
    let bounded = in_network("member1", "edge", Some("node-ports")).annotated(&ranges);
    env.on_hub(bounded).settle();
    let (nodes, _) = reached(&env);
    assert_eq!(nodes, [("192.168.1.2".to_owned(), Some(true))]);
}

#[test]
fn clusters_of_two_networks_may_declare_the_same_range() {
    let mut env = provided("node-ports", json!({"spec": {"type": "NodePort"}}));
    let ranges = json!({labels::ENDPOINT_CIDRS: "10.1.0.0/16, 192.168.1.0/24"});
    let edge = |name| in_network(name, "edge", Some("node-ports"));
    env.member("member3")
        .on_hub(edge("member1").annotated(&ranges))
        .on_hub(cluster("member3").annotated(&json!({labels::ENDPOINT_CIDRS: "10.1.0.0/16"})))
        .on_hub(edge("member2"))
        .settle();
    assert_eq!(reached(&env).0.len(), 3);
}

#[test]
fn copies_stay_while_the_nodes_are_unknown() {
    let mut env = provided("node-ports", json!({"spec": {"type": "NodePort"}}));
    env.forget_writes();
    let pod = json!({"addresses": ["10.1.0.9"], "nodeName": "n3", "conditions": {"ready": true}});
    env.off("member1", Kind::Node, "n1")
        .off("member1", Kind::Node, "n2");
    let own = json!({"spec": {"type": "NodePort", "externalTrafficPolicy": "Local"}});
    env.on("member1", foo().with(own))
        .on("member1", pods().endpoint_with(pod))
        .settle();
    assert_eq!(reached(&env).0.len(), 2);
    let ready = env.says("foo", "Ready");
    assert!(
        ready.contains("of member1, which has ready endpoints, is unknown"),
        "{ready}"
    );
}

#[test]
fn entry_outlasts_a_restart_that_lists_the_provider_late() {
    let mut env = provided("node-ports", json!({"spec": {"type": "NodePort"}}));
    env.forget_writes();
    env.restart().settle();
    assert_eq!(env.log(), Vec::<String>::new());
    assert_eq!(reached(&env).0.len(), 2);
}

#[test]
fn importers_of_other_networks_get_the_entry_and_the_exporter_its_pods() {
    let mut env = env();
    env.member("member1").member("member2");
    env.on_hub(in_network("member1", "edge", Some("cluster-ip")))
        .on(
            "member1",
            foo().with(json!({"spec": {"clusterIP": "10.96.0.7"}})),
        )
        .on("member1", pods())
        .on("member1", export("foo"))
        .settle();
    assert_eq!(env.addresses("member1", "derived-foo").len(), 3);
    assert_eq!(env.addresses("member2", "derived-foo"), ["10.96.0.7"]);
}

#[test]
fn annotation_of_an_export_applies_to_its_cluster() {
    let mut env = env();
    env.member("member1").member("member2");
    env.on_hub(in_network("member1", "edge", None))
        .on(
            "member1",
            foo().with(json!({"spec": {"clusterIP": "10.96.0.7"}})),
        )
        .on("member1", pods())
        .on("member1", export("foo"))
        .settle();
    assert_eq!(
        env.addresses("member2", "derived-foo"),
        Vec::<String>::new()
    );
    let ready = env.export_says("member1", "foo", "Ready");
    assert!(
        ready.contains("nothing says how to reach member1"),
        "{ready}"
    );
    env.on(
        "member1",
        export("foo").annotated(&json!({labels::REACH: "cluster-ip"})),
    )
    .settle();
    assert_eq!(env.addresses("member2", "derived-foo"), ["10.96.0.7"]);
}

#[test]
fn cluster_that_reaches_all_by_load_balancers_makes_none() {
    let env = provided("load-balancer", json!({}));
    assert_eq!(env.copies("member2", "foo"), []);
    let ready = env.says("foo", "Ready");
    assert!(ready.contains("is not of type LoadBalancer"), "{ready}");
    let companion = key("foo").companion();
    assert_eq!(env.service("member1", &companion.name), None);
}

#[test]
fn tiers_count_the_pods_behind_an_entry() {
    let mut env = provided("cluster-ip", json!({"spec": {"clusterIP": "10.96.0.7"}}));
    let near = slice("foo-near", "foo").port("http", 8080);
    env.on("member2", foo())
        .on("member2", near.clone().endpoint("10.2.0.5"));
    let both = mcs("foo")
        .consumers(&["member2"])
        .providers(&["member1", "member2"]);
    env.on_hub(both.annotated(&json!({labels::PREFER: "local, any"})))
        .pass(Duration::from_secs(40));
    let standby = env.only_copy().metadata.annotations.unwrap_or_default();
    assert_eq!(
        standby.get(labels::STANDBY).map(String::as_str),
        Some("true")
    );
    env.on("member2", near).settle();
    assert_eq!(reached(&env).0, [("10.96.0.7".to_owned(), Some(true))]);
}

/// Returns the number of copies in member2 whose endpoints are standby endpoints.
fn standby(env: &Environment) -> usize {
    let copies = env.copies("member2", "foo").into_iter();
    let standby = copies.filter(|copy| {
        let annotations = copy.metadata.annotations.as_ref();
        annotations.is_some_and(|all| all.contains_key(labels::STANDBY))
    });
    standby.count()
}

#[test]
fn tiers_count_no_pod_behind_an_entry_without_a_ready_node() {
    let mut env = provided("node-ports=external", json!({"spec": {"type": "NodePort"}}));
    let public = |ready: &str| {
        node("n1", "192.168.1.1").with(json!({"status": {
            "addresses": [{"type": "ExternalIP", "address": "203.0.113.1"}],
            "conditions": [{"type": "Ready", "status": ready}],
        }}))
    };
    let far = slice("foo-far", "foo").port("http", 8080);
    env.on("member1", public("True"))
        .member("member3")
        .on("member3", foo())
        .on("member3", far.endpoint("10.3.0.5"));
    let tiers = json!({labels::PREFER: "cluster/member1, any"});
    let all = mcs("foo").consumers(&["member2"]).annotated(&tiers);
    env.on_hub(all.providers(&["member1", "member3"]))
        .pass(Duration::from_secs(40));
    assert_eq!(standby(&env), 1);
    // Node n2 is ready and has no external address.
    env.on("member1", public("Unknown")).settle();
    assert_eq!(standby(&env), 0, "member3 serves");
}

#[test]
fn entry_by_any_node_leads_to_each_endpoint_though_no_node_is_ready() {
    let mut env = provided("node-ports", json!({"spec": {"type": "NodePort"}}));
    let lost = json!({"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}});
    for (name, address) in [("n1", "192.168.1.1"), ("n2", "192.168.1.2")] {
        env.on("member1", node(name, address).with(lost.clone()));
    }
    env.settle();
    assert!(
        reached(&env)
            .0
            .iter()
            .all(|(_, ready)| *ready == Some(false))
    );
    let (plan, member1) = (env.plan("foo"), name("member1"));
    let copies = plan.copies_in(Exposure::Native, &name("member2"));
    let entry = copies.and_then(|copies| copies.entry(&member1)?.ok());
    let entry = entry.expect("an entry");
    for (_, source) in env.observed("member1").sources(&key("foo")) {
        assert_eq!(entry.misses(source, Some("n3")), None);
    }
}

#[test]
fn tiers_count_no_pod_behind_a_node_that_is_not_ready() {
    let own = json!({"spec": {"type": "NodePort", "externalTrafficPolicy": "Local"}});
    let mut env = provided("node-ports", own);
    let far = slice("foo-far", "foo").port("http", 8080);
    env.member("member3")
        .on("member3", foo())
        .on("member3", far.endpoint("10.3.0.5"));
    let tiers = json!({labels::PREFER: "cluster/member1, any"});
    let all = mcs("foo").consumers(&["member2"]).annotated(&tiers);
    env.on_hub(all.providers(&["member1", "member3"]))
        .pass(Duration::from_secs(40));
    assert_eq!(standby(&env), 1);
    let lost = json!({"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}});
    env.on("member1", node("n1", "192.168.1.1").with(lost))
        .settle();
    assert_eq!(standby(&env), 0, "member3 serves");
}

#[test]
fn order_of_endpoints_does_not_decide_conditions_of_an_entry() {
    let own = json!({"spec": {"type": "NodePort", "externalTrafficPolicy": "Local"}});
    let pod = |address: &str, terminating: bool| {
        let conditions = json!({"ready": false, "serving": false, "terminating": terminating});
        json!({"addresses": [address], "nodeName": "n1", "conditions": conditions})
    };
    for order in [[true, false], [false, true]] {
        let mut env = provided("node-ports", own.clone());
        let none = slice("foo-abc", "foo").port("http", 8080);
        let both = none
            .endpoint_with(pod("10.1.0.5", order[0]))
            .endpoint_with(pod("10.1.0.6", order[1]));
        env.on("member1", both).settle();
        let copy = env.only_copy();
        let conditions = copy.endpoints[0].conditions.as_ref();
        let terminating = conditions.and_then(|all| all.terminating);
        assert_eq!(terminating, Some(false), "{order:?}");
    }
}

#[test]
fn ready_node_stands_for_others_of_its_address() {
    let unready = json!({"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}});
    for (ready, lost) in [("n1", "n2"), ("n2", "n1")] {
        let mut env = provided("node-ports", json!({"spec": {"type": "NodePort"}}));
        env.on("member1", node(ready, "192.168.1.1"))
            .on("member1", node(lost, "192.168.1.1").with(unready.clone()))
            .settle();
        assert_eq!(reached(&env).0, [("192.168.1.1".to_owned(), Some(true))]);
    }
}

#[test]
fn copy_of_an_entry_names_a_slice_that_exists() {
    let own = json!({"spec": {"type": "NodePort", "externalTrafficPolicy": "Local"}});
    let mut env = provided("node-ports", own);
    let source = |env: &Environment| {
        let annotations = env.only_copy().metadata.annotations.unwrap_or_default();
        annotations.get(labels::SOURCE).cloned()
    };
    let before = source(&env);
    let Value::String(name) = pods().value["metadata"]["name"].take() else {
        panic!("a slice without a name");
    };
    let mut moved = pods();
    moved.value["metadata"]["name"] = json!("foo-xyz");
    env.on("member1", moved).settle();
    assert_eq!(source(&env), before);
    env.off("member1", Kind::Slice, &name).settle();
    assert_ne!(source(&env), before);
    env.assert_at_rest();
}

#[test]
fn drained_provider_of_another_network_is_withdrawn() {
    let mut env = provided("node-ports", json!({"spec": {"type": "NodePort"}}));
    let drained = in_network("member1", "edge", Some("node-ports"));
    env.on_hub(drained.annotated(&json!({labels::WITHDRAW: "true"})))
        .settle();
    assert_eq!(env.copies("member2", "foo"), []);
}

#[test]
fn unreachable_provider_of_another_network_keeps_its_entry() {
    let mut env = provided("node-ports", json!({"spec": {"type": "NodePort"}}));
    env.lose("member1").settle();
    assert_eq!(reached(&env).0.len(), 2);
}

#[test]
fn hostname_of_a_load_balancer_gives_its_last_good_answer() {
    let balanced = json!({
        "spec": {"type": "LoadBalancer"},
        "status": {"loadBalancer": {"ingress": [{"hostname": "lb.example"}]}},
    });
    let mut env = provided("load-balancer", balanced);
    assert_eq!(env.copies("member2", "foo"), []);
    let ready = env.says("foo", "Ready");
    assert!(ready.contains("the hostname lb.example"), "{ready}");
    let needed = env.index.take_hostnames().expect("a hostname is needed");
    assert_eq!(
        needed.into_iter().collect::<Vec<_>>(),
        ["lb.example".into()]
    );
    let answers = [
        ["203.0.113.8", "203.0.113.7"],
        ["203.0.113.7", "203.0.113.8"],
    ];
    for answer in answers {
        let answer = answer.map(|address| address.parse().expect("an address"));
        env.forget_writes();
        env.index.apply_resolved("lb.example", answer);
        env.settle();
    }
    assert_eq!(
        env.log(),
        Vec::<String>::new(),
        "the order of an answer counts"
    );
    assert_eq!(reached(&env).0.len(), 2);
    env.index.apply_resolved("lb.example", []);
    env.settle();
    assert_eq!(reached(&env).0.len(), 2);
    env.off_hub(Kind::Mcs, "foo").settle();
    assert_eq!(env.index.take_hostnames(), Some([].into()));
}

/// Returns the part of a Service whose load balancer has these addresses and hostnames.
fn balanced(ingress: &[Value]) -> Value {
    json!({
        "spec": {"type": "LoadBalancer"},
        "status": {"loadBalancer": {"ingress": ingress}},
    })
}

/// Answers a lookup of a hostname of a load balancer.
fn answer(env: &mut Environment, host: &str, last: u8) {
    env.index.apply_resolved(host, [[203, 0, 113, last].into()]);
    env.settle();
}

#[test]
fn hostname_without_an_answer_after_a_restart_withdraws_nothing() {
    let host = |name: &str| json!({ "hostname": name });
    for first in [json!({"ip": "203.0.113.8"}), host("a.example")] {
        let mut env = provided("load-balancer", balanced(&[first, host("b.example")]));
        answer(&mut env, "a.example", 8);
        assert_eq!(env.copies("member2", "foo"), [], "an entry begins whole");
        answer(&mut env, "b.example", 7);
        let both = reached(&env);
        assert_eq!(both.0.len(), 2);
        env.restart().settle();
        answer(&mut env, "a.example", 8);
        assert_eq!(reached(&env), both);
        let ready = env.says("foo", "Ready");
        assert!(ready.contains("the hostname b.example"), "{ready}");
        answer(&mut env, "b.example", 7);
        assert_eq!(reached(&env), both);
    }
}

#[test]
fn hostname_without_an_answer_holds_nothing_after_the_grace() {
    let both = ["a.example", "c.example"].map(|host| json!({ "hostname": host }));
    for first in [&both[..1], &both] {
        let mut env = provided("load-balancer", balanced(first));
        answer(&mut env, "a.example", 8);
        env.on("member1", foo().with(balanced(&both))).settle();
        let ready = env.says("foo", "Ready");
        assert!(ready.contains("the hostname c.example"), "{ready}");
        env.pass(GRACE);
        let ready = env.says("foo", "Ready");
        assert!(!ready.contains("hostname"), "{ready}");
        assert_eq!(ready_nodes(&env), [true]);
        on_nodes(&mut env, &[("n1", false, false)]);
        assert_eq!(ready_nodes(&env), [false]);
        answer(&mut env, "c.example", 9);
        assert_eq!(ready_nodes(&env), [false, false]);
    }
}

#[test]
fn hostname_that_another_leader_resolved_withdraws_nothing() {
    let both = [
        json!({"ip": "203.0.113.8"}),
        json!({"hostname": "b.example"}),
    ];
    let mut env = provided("load-balancer", balanced(&both));
    env.pass(GRACE);
    assert_eq!(reached(&env).0.len(), 1);
    let copy = env.only_copy().metadata.name.expect("a name");
    let endpoints = ["203.0.113.8", "203.0.113.7"].map(|address| json!({"addresses": [address]}));
    env.amend(
        "member2",
        Kind::Slice,
        &copy,
        json!({ "endpoints": endpoints }),
    );
    env.index.begin_term(2);
    env.index.mark_all_services();
    env.settle();
    assert_eq!(reached(&env).0.len(), 2);
}

#[test]
fn hostname_that_is_needed_again_withdraws_nothing() {
    let host = |host: &str| json!({ "hostname": host });
    let ip = json!({"ip": "203.0.113.8"});
    let reached_by = |way: &str| in_network("member1", "edge", Some(way));
    let mut env = env();
    env.member("member1").member("member2").member("member3");
    env.on_hub(reached_by("load-balancer"))
        .on_hub(in_network("member3", "far", Some("load-balancer")))
        .on("member1", foo().with(balanced(&[ip, host("b.example")])))
        .on("member3", foo().with(balanced(&[host("c.example")])))
        .on("member1", pods())
        .on("member3", pods())
        .on_hub(foo());
    let foo = mcs("foo").providers(&["member1", "member3"]);
    env.on_hub(foo.consumers(&["member2"])).settle();
    answer(&mut env, "b.example", 7);
    answer(&mut env, "c.example", 9);
    let all = env.addresses("member2", "foo");
    assert_eq!(all.len(), 3, "{all:?}");
    for way in ["load-balancers", "load-balancer"] {
        env.on_hub(reached_by(way)).settle();
        assert_eq!(env.addresses("member2", "foo"), all, "{way}");
    }
}

/// Declares the way to member1 on its Cluster, on the MultiClusterService or on the Namespace.
fn declare(env: &mut Environment, bearer: Kind, way: Option<&str>) {
    let reach = json!({ labels::REACH: way });
    let object = match bearer {
        Kind::Cluster => in_network("member1", "edge", way),
        Kind::Mcs => {
            let foo = mcs("foo").providers(&["member1"]).consumers(&["member2"]);
            foo.annotated(&reach)
        }
        _ => namespace("shop").annotated(&reach),
    };
    env.on_hub(object).settle();
}

#[test]
fn unreadable_way_keeps_copies_and_companion_and_begins_none() {
    let companion = key("foo").companion();
    for bearer in [Kind::Cluster, Kind::Mcs, Kind::Namespace] {
        let mut env = provided("node-ports", json!({}));
        declare(&mut env, bearer, Some("node-ports"));
        if bearer != Kind::Cluster {
            declare(&mut env, Kind::Cluster, None);
        }
        let before = reached(&env);
        declare(&mut env, bearer, Some("nodeports"));
        assert_eq!(reached(&env), before, "{bearer:?}");
        assert!(env.service("member1", &companion.name).is_some());
        let ready = env.says("foo", "Ready");
        let object = match bearer {
            Kind::Cluster => "Cluster member1",
            _ => "the MultiClusterService, ServiceExport or Namespace of shop/foo",
        };
        let why = format!(
            "annotation mcs.causeway.dev/reach of {object} has the unknown value \"nodeports\""
        );
        assert!(ready.contains(&why), "{ready}");
        let copy = env.only_copy().metadata.name.expect("a name");
        env.off("member2", Kind::Slice, &copy).settle();
        assert_eq!(env.copies("member2", "foo"), [], "{bearer:?}");
        declare(&mut env, bearer, Some("node-ports"));
        assert_eq!(reached(&env).0, before.0, "{bearer:?}");
        declare(&mut env, bearer, None);
        assert_eq!(env.copies("member2", "foo"), [], "{bearer:?}");
    }
}

#[test]
fn unreadable_way_of_a_service_precedes_that_of_the_cluster() {
    let mut env = provided("cluster-ip", json!({"spec": {"clusterIP": "10.96.0.7"}}));
    declare(&mut env, Kind::Mcs, Some("node-ports"));
    let before = reached(&env);
    declare(&mut env, Kind::Mcs, Some("nodeports"));
    assert_eq!(reached(&env), before);
    let companion = key("foo").companion();
    assert!(env.service("member1", &companion.name).is_some());
    declare(&mut env, Kind::Mcs, None);
    assert_eq!(reached(&env).0, [("10.96.0.7".to_owned(), Some(true))]);
}

/// Returns an environment in which member1 exports `foo`, and member2 may import it.
fn exported(clusters: impl IntoIterator<Item = Object>, export: Object) -> Environment {
    let mut env = env();
    env.member("member1").member("member2");
    for cluster in clusters {
        env.on_hub(cluster);
    }
    env.on("member1", foo()).on("member1", pods());
    env.nodes("member1").on("member1", export).settle();
    env
}

/// Restarts the controller while it does not reach member2.
fn restart_without_member2(env: &mut Environment) {
    env.lose("member2").pass(Duration::from_secs(40));
    env.restart().pass(Duration::from_secs(40));
}

#[test]
fn status_over_a_restart_names_importers_that_are_lost() {
    let edge = in_network("member2", "edge", None);
    let listed = export("foo").annotated(&json!({labels::CONSUMERS: "member1"}));
    for (cluster, export, part) in [
        (
            Some(edge),
            export("foo"),
            "member1 is of another network than member2",
        ),
        (None, listed, "not imported by member2"),
    ] {
        let mut env = exported(cluster, export);
        let before = env.export_says("member1", "foo", "Ready");
        assert!(before.contains(part), "{before}");
        restart_without_member2(&mut env);
        assert_eq!(env.export_says("member1", "foo", "Ready"), before);
    }
}

#[test]
fn companion_stays_while_an_importer_is_lost_over_a_restart() {
    let edge = in_network("member1", "edge", Some("node-ports"));
    let mut env = exported([edge], export("foo"));
    let companion = key("foo").companion().name.to_string();
    assert!(env.service("member1", &companion).is_some());
    restart_without_member2(&mut env);
    assert!(env.service("member1", &companion).is_some());
}

#[test]
fn text_that_is_no_hostname_is_not_looked_up() {
    let long = format!("{}.example", "x".repeat(250));
    for hostname in ["lb\u{1b}[31m.example", "", "a..b", &long] {
        let balanced = json!({
            "spec": {"type": "LoadBalancer"},
            "status": {"loadBalancer": {"ingress": [{"hostname": hostname}]}},
        });
        let mut env = provided("load-balancer", balanced);
        assert_eq!(env.index.take_hostnames(), None, "{hostname:?}");
        let ready = env.says("foo", "Ready");
        assert!(ready.contains("has no address yet"), "{ready}");
    }
}

#[test]
fn both_address_families_of_an_entry_come_to_rest() {
    let mut env = env();
    env.member("member1").member("member2");
    env.server("member1").families = vec!["IPv4", "IPv6"];
    let dual = json!({"spec": {"ipFamilyPolicy": "PreferDualStack"}});
    env.on_hub(in_network("member1", "edge", Some("cluster-ip")))
        .on("member1", foo().with(dual))
        .on("member1", pods())
        .on("member1", export("foo"))
        .settle();
    let types = env.copies("member2", "derived-foo").into_iter();
    let types: Vec<_> = types.map(|copy| copy.address_type).collect();
    assert_eq!(types, ["IPv4", "IPv6"]);
    env.assert_at_rest();
}
