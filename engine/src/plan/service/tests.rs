use serde_json::{Value, json};

use causeway::api::labels;

use crate::fixtures::objects::{Kind, Object, foo, mcs, namespace, service, source};
use crate::fixtures::{Environment, env};

/// Returns an environment in which member1 provides the hub's Service `foo` to member2.
fn exposed(hub_service: Object) -> Environment {
    let mut env = env();
    env.member("member1").member("member2");
    env.on_hub(hub_service);
    env.on_hub(mcs("foo").providers(&["member1"]).consumers(&["member2"]));
    env.settle();
    env
}

/// Adds a MultiClusterService by which member1 provides `foo` to all members.
fn provide(env: &mut Environment) {
    env.on("member1", source("10.1.0.5"));
    env.on_hub(foo())
        .on_hub(mcs("foo").providers(&["member1"]))
        .settle();
}

fn spec(env: &Environment, cluster: &str) -> Value {
    env.service(cluster, "foo").expect("a Service")["spec"].clone()
}

#[test]
fn ports_affinity_distribution_and_unready_addresses_are_copied() {
    let config = json!({"clientIP": {"timeoutSeconds": 600}});
    let part = json!({
        "sessionAffinity": "ClientIP", "sessionAffinityConfig": config, "trafficDistribution": "PreferClose",
        "publishNotReadyAddresses": true, "ports": [{"name": "http", "port": 80, "targetPort": "web", "appProtocol": "h2c"}],
    });
    let mut env = exposed(foo().with(json!({"spec": part})));
    for cluster in ["member1", "member2"] {
        let spec = spec(&env, cluster);
        assert_eq!(spec["sessionAffinity"], "ClientIP");
        assert_eq!(spec["sessionAffinityConfig"], config);
        assert_eq!(spec["trafficDistribution"], "PreferClose");
        assert_eq!(spec["publishNotReadyAddresses"], true);
        let port = json!([{"name": "http", "port": 80, "protocol": "TCP", "targetPort": "web", "appProtocol": "h2c"}]);
        assert_eq!(spec["ports"], port);
    }
    env.assert_at_rest();
}

#[test]
fn nothing_else_is_copied() {
    let hub_service = foo()
        .with(json!({"metadata": {"labels": {"team": "a"}, "annotations": {"note": "b"}}}))
        .with(json!({"spec": {
            "type": "LoadBalancer", "internalTrafficPolicy": "Local", "externalTrafficPolicy": "Local",
            "externalIPs": ["192.0.2.1"], "loadBalancerIP": "192.0.2.2", "loadBalancerClass": "x",
            "loadBalancerSourceRanges": ["192.0.2.0/24"], "clusterIP": "10.0.0.9", "clusterIPs": ["10.0.0.9"],
            "ipFamilies": ["IPv6"], "healthCheckNodePort": 30001, "allocateLoadBalancerNodePorts": false,
            "ports": [{"name": "http", "port": 80, "nodePort": 30000}],
        }}));
    let env = exposed(hub_service);
    for cluster in ["member1", "member2"] {
        let service = env.service(cluster, "foo").expect("a Service");
        let known = [
            "clusterIP",
            "clusterIPs",
            "internalTrafficPolicy",
            "ipFamilies",
            "ipFamilyPolicy",
            "ports",
            "publishNotReadyAddresses",
            "selector",
            "sessionAffinity",
            "type",
        ];
        let fields: Vec<_> = service["spec"]
            .as_object()
            .expect("a spec")
            .keys()
            .cloned()
            .collect();
        assert_eq!(fields, known);
        assert_eq!(service["spec"]["internalTrafficPolicy"], "Cluster");
        assert_eq!(service["spec"]["type"], "ClusterIP");
        assert_eq!(service["spec"]["ipFamilies"], json!(["IPv4"]));
        assert_ne!(service["spec"]["clusterIP"], "10.0.0.9");
        assert_eq!(service["spec"]["ports"][0]["nodePort"], Value::Null);
        let names: Vec<_> = service["metadata"]["labels"]
            .as_object()
            .expect("labels")
            .keys()
            .cloned()
            .collect();
        assert_eq!(names, [labels::MANAGED_BY, labels::HUB]);
    }
}

#[test]
fn dual_stack_is_preferred_where_it_is_required() {
    for (asked, given) in [
        (Value::Null, "SingleStack"),
        (json!("SingleStack"), "SingleStack"),
        (json!("PreferDualStack"), "PreferDualStack"),
        (json!("RequireDualStack"), "PreferDualStack"),
    ] {
        let mut env = exposed(foo().with(json!({"spec": {"ipFamilyPolicy": asked}})));
        assert_eq!(spec(&env, "member2")["ipFamilyPolicy"], given, "{asked}");
        env.assert_at_rest();
    }
}

#[test]
fn providers_select_pods_and_mere_consumers_select_nothing() {
    let mut env = env();
    env.member("member1").member("member2").member("member3");
    env.on_hub(foo());
    env.on_hub(
        mcs("foo")
            .providers(&["member1", "member3"])
            .consumers(&["member2", "member3"]),
    );
    env.settle();
    assert_eq!(spec(&env, "member1")["selector"], json!({"app": "foo"}));
    assert_eq!(spec(&env, "member3")["selector"], json!({"app": "foo"}));
    assert_eq!(
        spec(&env, "member2")["selector"],
        json!({labels::NO_LOCAL_BACKENDS: "true"})
    );
}

#[test]
fn a_service_bears_its_hub_its_owner_and_its_manager() {
    let env = exposed(foo());
    let uid = env.mcs("foo").expect("it is there")["metadata"]["uid"]
        .as_str()
        .expect("a UID")
        .to_owned();
    let meta = &env.service("member2", "foo").expect("a Service")["metadata"];
    let owner = format!("MultiClusterService/{uid}");
    assert_eq!(
        meta["labels"],
        json!({labels::MANAGED_BY: "causeway", labels::HUB: "hub-uid"})
    );
    assert_eq!(meta["annotations"], json!({labels::OWNER: owner}));
}

#[test]
fn only_the_listed_ports_are_exposed() {
    let hub_service = service("foo")
        .port("http", 80)
        .port("grpc", 81)
        .protocol_port("dns", 53, "UDP")
        .protocol_port("dns-tcp", 53, "TCP");
    for (listed, exposed) in [
        (mcs("foo"), &["http", "grpc", "dns", "dns-tcp"][..]),
        (mcs("foo").port("grpc", 81), &["grpc"]),
        (mcs("foo").port("", 80), &["http"]),
        (mcs("foo").port("", 53), &["dns", "dns-tcp"]),
        (
            mcs("foo").port("dns", 53).port("http", 80),
            &["http", "dns"],
        ),
    ] {
        let mut env = env();
        env.member("member1")
            .on_hub(hub_service.clone())
            .on_hub(listed)
            .settle();
        let spec = spec(&env, "member1");
        let names: Vec<_> = spec["ports"]
            .as_array()
            .expect("ports")
            .iter()
            .map(|port| port["name"].clone())
            .collect();
        assert_eq!(names, exposed);
        env.assert_at_rest();
    }
}

#[test]
fn a_change_of_the_hubs_service_changes_the_members() {
    let mut env = exposed(foo().with(
        json!({"spec": {"sessionAffinity": "ClientIP", "trafficDistribution": "PreferClose"}}),
    ));
    let address = spec(&env, "member1")["clusterIP"].clone();
    let changed = foo()
        .port("metrics", 90)
        .with(json!({"spec": {"selector": {"app": null, "tier": "web"}}}));
    env.on_hub(changed).settle();
    let spec = spec(&env, "member1");
    assert_eq!(spec["selector"], json!({"tier": "web"}));
    assert_eq!(spec["ports"].as_array().map(Vec::len), Some(2));
    assert_eq!(spec["sessionAffinity"], "None");
    assert_eq!(
        (&spec["sessionAffinityConfig"], &spec["trafficDistribution"]),
        (&Value::Null, &Value::Null)
    );
    assert_eq!(spec["clusterIP"], address);
    env.assert_at_rest();
}

#[test]
fn what_a_person_changes_in_a_members_copy_is_changed_back() {
    let mut env = exposed(foo());
    env.on(
        "member2",
        service("foo")
            .port("http", 8888)
            .with(json!({"metadata": {"labels": {labels::HUB: "hub-uid"}}})),
    );
    env.settle();
    assert_eq!(spec(&env, "member2")["ports"][0]["port"], 80);
    env.off("member2", Kind::Service, "foo").settle();
    assert_eq!(spec(&env, "member2")["ports"][0]["port"], 80);
}

#[test]
fn a_foreign_service_is_used_as_it_is() {
    let mut env = env();
    env.member("member1").member("member2");
    let theirs = service("foo").port("web", 80).port("admin", 9000);
    env.on("member2", theirs).on("member1", source("10.1.0.5"));
    env.on_hub(foo())
        .on_hub(mcs("foo").providers(&["member1"]).consumers(&["member2"]))
        .settle();
    assert_eq!(spec(&env, "member2")["selector"], json!({"app": "foo"}));
    let copies = env.copies("member2", "foo");
    let ports = copies[0].ports.as_deref().unwrap_or_default();
    assert_eq!(ports.len(), 1);
    assert_eq!(
        (ports[0].name.as_deref(), ports[0].port),
        (Some("web"), Some(8080))
    );
    assert!(env.is_ready("foo"));
    env.off_hub(Kind::Mcs, "foo").settle();
    assert!(env.service("member2", "foo").is_some());
    assert_eq!(env.copies("member2", "foo"), []);
}

#[test]
fn a_foreign_service_that_does_not_fit_is_reported_with_a_remedy() {
    for (theirs, message) in [
        (
            service("foo").port("web", 8000),
            "False ServiceAppliedFailed: 1 of 2 clusters: member2 has a Service shop/foo of its own without http 80/TCP; \
             it has web 8000/TCP; add the port there or remove that Service",
        ),
        (
            service("foo").protocol_port("http", 80, "UDP"),
            "False ServiceAppliedFailed: 1 of 2 clusters: member2 has a Service shop/foo of its own without http 80/TCP; \
             it has http 80/UDP; add the port there or remove that Service",
        ),
        (
            service("foo")
                .with(json!({"spec": {"type": "ExternalName", "externalName": "example.com"}})),
            "False ServiceAppliedFailed: 1 of 2 clusters: member2 has a Service shop/foo of its own that is an \
             ExternalName; remove or rename it",
        ),
    ] {
        let mut env = env();
        env.member("member1")
            .member("member2")
            .on("member2", theirs);
        env.on("member1", source("10.1.0.5"));
        env.on_hub(foo())
            .on_hub(mcs("foo").providers(&["member1"]).consumers(&["member2"]))
            .settle();
        assert_eq!(env.says("foo", "ServiceApplied"), message);
        assert_eq!(env.copies("member2", "foo"), []);
        env.off("member2", Kind::Service, "foo").settle();
        assert!(env.is_ready("foo"));
        assert_eq!(env.addresses("member2", "foo"), ["10.1.0.5"]);
    }
}

#[test]
fn another_hubs_service_is_foreign() {
    let mut env = env();
    env.member("member1").member("member2");
    let theirs = service("foo")
        .port("http", 80)
        .with(json!({"metadata": {"labels": {labels::HUB: "other-hub"}}}));
    env.on("member2", theirs)
        .on_hub(foo())
        .on_hub(mcs("foo"))
        .settle();
    env.off_hub(Kind::Mcs, "foo").settle();
    assert!(env.service("member1", "foo").is_none());
    let left = env.service("member2", "foo").expect("a Service");
    assert_eq!(
        left["metadata"]["labels"],
        json!({labels::HUB: "other-hub"})
    );
    env.assert_writes(|line| !line.starts_with("member2"));
}

#[test]
fn headless_becomes_headless_and_a_flip_makes_it_again_once_it_is_gone() {
    let mut env = exposed(foo().headless());
    assert_eq!(spec(&env, "member2")["clusterIP"], "None");
    env.assert_at_rest();
    for (flipped, note) in [
        (
            foo(),
            "Service shop/foo of member2 is recreated: it was headless and is to be ClusterIP",
        ),
        (
            foo().headless(),
            "Service shop/foo of member2 is recreated: it was ClusterIP and is to be headless",
        ),
    ] {
        let headless = flipped.value["spec"]["clusterIP"] == "None";
        env.forget_writes()
            .off_hub(Kind::Service, "foo")
            .on_hub(flipped);
        env.silence("member2").settle();
        let log = env.log();
        assert_eq!(
            log.iter()
                .filter(|line| *line == "member2 delete Service")
                .count(),
            1,
            "{log:?}"
        );
        assert!(
            !log.contains(&"member2 create Service".to_owned()),
            "it was not seen gone: {log:?}"
        );
        env.reconnect("member2").settle();
        assert!(env.log().contains(&"member2 create Service".to_owned()));
        assert_eq!(spec(&env, "member2")["clusterIP"] == "None", headless);
        let said = env
            .recorded
            .iter()
            .filter(|one| one.reason == "ServiceRecreated");
        assert!(
            said.clone().any(|one| one.warning && one.note == note),
            "{:?}",
            env.recorded
        );
        assert_eq!(said.count(), 2, "one for each member");
        env.assert_at_rest();
    }
}

#[test]
fn a_missing_namespace_is_made_and_never_deleted() {
    let mut env = env();
    env.member("member1")
        .member("member2")
        .off("member2", Kind::Namespace, "shop");
    provide(&mut env);
    let made = env.members["member2"]
        .get(Kind::Namespace, "", "shop")
        .expect("a namespace");
    assert_eq!(
        made["metadata"]["labels"],
        json!({labels::MANAGED_BY: "causeway"})
    );
    assert!(env.service("member2", "foo").is_some() && env.is_ready("foo"));
    env.off_hub(Kind::Mcs, "foo").settle();
    assert!(env.service("member2", "foo").is_none());
    assert!(
        env.members["member2"]
            .get(Kind::Namespace, "", "shop")
            .is_some()
    );
}

#[test]
fn a_terminating_namespace_waits() {
    let mut env = env();
    let held = json!({"metadata": {"finalizers": ["kubernetes"]}});
    env.member("member1")
        .member("member2")
        .on("member2", namespace("shop").with(held));
    env.off("member2", Kind::Namespace, "shop");
    provide(&mut env);
    env.assert_writes(|line| !line.starts_with("member2"));
    let message = "False ServiceAppliedFailed: 1 of 2 clusters: member2 namespace shop is being deleted there";
    assert_eq!(env.says("foo", "ServiceApplied"), message);
    env.on(
        "member2",
        namespace("shop").with(json!({"metadata": {"finalizers": []}})),
    );
    env.settle();
    assert!(env.is_ready("foo"), "{}", env.says("foo", "Ready"));
}

#[test]
fn a_hub_that_is_its_own_member_keeps_its_service() {
    let mut env = env();
    env.member("own")
        .member("member2")
        .on("own", foo())
        .on_hub(foo());
    env.on("own", source("10.1.0.5"));
    env.on_hub(
        mcs("foo")
            .providers(&["own"])
            .consumers(&["own", "member2"]),
    )
    .settle();
    env.assert_writes(|line| !line.starts_with("own"));
    assert_eq!(env.addresses("member2", "foo"), ["10.1.0.5"]);
    assert!(env.is_ready("foo"));
}
