//! Companions, from their creation to their deletion.

use super::*;
use crate::explain::tests::explained;
use crate::model::{Failure, FailureKind, ObjectId};
use crate::reasons::Reason;

/// Returns the name of the companion of `foo`.
fn companion() -> String {
    key("foo").companion().name.to_string()
}

#[test]
fn service_without_node_ports_gets_a_companion() {
    let env = provided("node-ports", json!({}));
    let made = env.service("member1", &companion()).expect("a companion");
    assert_eq!(made["spec"]["type"], "NodePort");
    assert_eq!(made["spec"]["externalTrafficPolicy"], "Local");
    assert_eq!(made["spec"]["selector"], json!({"app": "foo"}));
    assert_eq!(made["metadata"]["annotations"][labels::COMPANION_OF], "foo");
    let (nodes, port) = reached(&env);
    assert_eq!(
        (nodes.len(), port),
        (2, node_port(&env, "member1", &companion()))
    );
    assert!(env.is_ready("foo"), "{}", env.says("foo", "Ready"));
}

#[test]
fn companion_is_the_entry_of_a_provider_that_consumes() {
    let mut env = provided("node-ports", json!({"spec": {"type": "NodePort"}}));
    assert_eq!(env.service("member1", &companion()), None);
    env.on_hub(mcs("foo").providers(&["member1"])).settle();
    assert_eq!(reached(&env).1, node_port(&env, "member1", &companion()));
}

#[test]
fn companion_follows_the_ports_of_its_service() {
    let mut env = provided("node-ports", json!({}));
    let before = node_port(&env, "member1", &companion());
    let two = foo().port("grpc", 90);
    env.on_hub(two.clone()).on("member1", two);
    env.on("member1", pods().port("grpc", 9090)).settle();
    let copy = env.only_copy();
    assert_eq!(copy.ports.as_ref().map(Vec::len), Some(2));
    assert_eq!(node_port(&env, "member1", &companion()), before);
}

#[test]
fn entry_follows_pods_while_a_companion_lacks_an_added_port() {
    let mut env = provided("node-ports", json!({}));
    let refused = Failure::new(FailureKind::Forbidden, "exceeded quota");
    let companion = ObjectId::Service(key("foo").companion());
    env.server("member1").refuses_object = Some((companion, refused));
    let two = foo().port("grpc", 90);
    env.on_hub(two.clone()).on("member1", two).settle();
    assert_eq!(reached(&env).0.len(), 2);
    on_nodes(&mut env, &[("n1", true, true)]);
    assert_eq!(reached(&env).0, [("192.168.1.1".to_owned(), Some(true))]);
}

#[test]
fn companion_has_the_primary_address_family_of_its_service() {
    let mut env = env();
    env.member("member1").member("member2");
    for member in ["member1", "member2"] {
        env.server(member).families = vec!["IPv4", "IPv6"];
    }
    let in_family =
        |service: Object, family| service.with(json!({"spec": {"ipFamilies": [family]}}));
    let pod = json!({"addresses": ["fd00:1::5"], "nodeName": "n1", "conditions": {"ready": true}});
    let six = slice("foo-six", "foo")
        .port("http", 8080)
        .endpoint_with(pod);
    env.on_hub(in_network("member1", "edge", Some("node-ports")))
        .on("member1", in_family(foo(), "IPv6"))
        .on("member1", six.with(json!({"addressType": "IPv6"})))
        .on("member1", node("n1", "fd00:9::1"))
        .on("member1", export("foo"))
        .settle();
    assert_eq!(env.addresses("member2", "derived-foo"), ["fd00:9::1"]);

    env.off("member1", Kind::Service, "foo")
        .on("member1", in_family(foo(), "IPv4"))
        .settle();
    let made = env.service("member1", &companion()).expect("a companion");
    assert_eq!(made["spec"]["ipFamilies"], json!(["IPv4"]));
}

#[test]
fn companion_goes_after_the_last_copy_that_needs_it() {
    let mut env = provided("node-ports", json!({}));
    env.forget_writes();
    env.off_hub(Kind::Mcs, "foo").settle();
    assert_eq!(env.service("member1", &companion()), None);
    let log = env.log();
    let at = |part: &str| log.iter().position(|line| line == part);
    let (copy, companion) = (
        at("member2 delete EndpointSlice"),
        at("member1 delete Service"),
    );
    assert!(copy.is_some() && copy < companion, "{log:#?}");
    assert_eq!(env.mcs("foo"), None);
}

#[test]
fn companion_stays_while_an_export_needs_it() {
    let mut env = provided("node-ports", json!({}));
    env.on("member1", export("foo")).settle();
    env.off_hub(Kind::Mcs, "foo").settle();
    let made = env.service("member1", &companion()).expect("a companion");
    let owner = &made["metadata"]["annotations"][labels::OWNER];
    assert_eq!(owner, "ServiceExport/foo");
    env.off("member1", Kind::Export, "foo").settle();
    assert_eq!(env.service("member1", &companion()), None);
}

#[test]
fn service_of_another_writer_with_the_name_stays() {
    let mut env = env();
    env.member("member1").member("member2");
    let theirs = service(&companion()).port("http", 80);
    env.on_hub(in_network("member1", "edge", Some("node-ports")))
        .on_hub(foo())
        .on("member1", foo())
        .on("member1", theirs)
        .on("member1", pods())
        .on("member1", node("n1", "192.168.1.1"))
        .on_hub(mcs("foo").providers(&["member1"]).consumers(&["member2"]))
        .settle();
    let kept = env.service("member1", &companion()).expect("their Service");
    assert_eq!(kept["metadata"]["labels"][labels::HUB], Value::Null);
    assert_eq!(env.copies("member2", "foo"), []);
}

#[test]
fn deleted_companion_is_made_again_and_copies_stay_until_then() {
    let mut env = provided("node-ports", json!({}));
    env.forget_writes();
    env.off("member1", Kind::Service, &companion()).settle();
    assert!(env.service("member1", &companion()).is_some());
    let log = env.log();
    let deletes = |line: &String| line.contains("delete EndpointSlice");
    assert!(!log.iter().any(deletes), "{log:#?}");
}

#[test]
fn service_that_asks_for_a_load_balancer_gets_a_companion_of_that_type() {
    let mut env = provided("node-ports", json!({}));
    let asked = mcs("foo").providers(&["member1"]).consumers(&["member2"]);
    env.on_hub(asked.annotated(&json!({labels::REACH: "load-balancer"})));
    env.settle();
    let made = env.service("member1", &companion()).expect("a companion");
    assert_eq!(made["spec"]["type"], "LoadBalancer");
    let ready = env.says("foo", "Ready");
    assert!(ready.contains("has no address yet"), "{ready}");
    let ingress = json!({"status": {"loadBalancer": {"ingress": [{"ip": "203.0.113.9"}]}}});
    env.amend("member1", Kind::Service, &companion(), ingress)
        .settle();
    assert_eq!(reached(&env).0[0].0, "203.0.113.9");
}

/// Returns a slice by hand, of an endpoint on node n1 that the Service does not select.
fn by_hand() -> Object {
    let ready = json!({"ready": true});
    let endpoint = json!({"addresses": ["10.9.0.1"], "nodeName": "n1", "conditions": ready});
    let labels = json!({labels::SLICE_MANAGED_BY: null});
    let made = slice("foo-by-hand", "foo").with(json!({"metadata": {"labels": labels}}));
    made.port("http", 8080).endpoint_with(endpoint)
}

#[test]
fn companion_leads_to_no_endpoints_by_hand() {
    for reach in ["node-ports", "cluster-ip"] {
        let mut env = provided(reach, json!({}));
        env.on_hub(mcs("foo").providers(&["member1"])).settle();
        let unready = pods().with(json!({"endpoints": [
            {"addresses": ["10.1.0.5"], "nodeName": "n1", "conditions": {"ready": false}},
        ]}));
        env.on("member1", unready).on("member1", by_hand()).settle();
        let ready: Vec<_> = reached(&env)
            .0
            .into_iter()
            .map(|(_, ready)| ready)
            .collect();
        assert_eq!(ready, [Some(false)], "{reach}");
    }
}

#[test]
fn service_without_copies_needs_no_companion() {
    let mut env = provided("node-ports", json!({}));
    assert!(env.service("member1", &companion()).is_some());
    let types = json!({"spec": {"types": ["LoadBalancer"]}});
    let asked = mcs("foo").providers(&["member1"]);
    env.on_hub(asked.with(types)).settle();
    assert_eq!(env.service("member1", &companion()), None);
}

#[test]
fn consumer_that_is_not_joined_needs_no_companion() {
    let mut env = provided("node-ports", json!({}));
    env.on_hub(mcs("foo").providers(&["member1"]).consumers(&["member9"]))
        .settle();
    assert_eq!(env.service("member1", &companion()), None);
}

#[test]
fn own_service_is_the_entry_of_a_load_balanced_service() {
    let mut env = provided("node-ports", json!({"spec": {"type": "NodePort"}}));
    let types = json!({"spec": {"types": ["LoadBalancer"]}});
    env.on_hub(mcs("foo").with(types))
        .on("member1", export("foo"))
        .settle();
    assert_eq!(env.service("member1", &companion()), None);
    assert_eq!(env.addresses("member2", "derived-foo").len(), 2);
}

#[test]
fn companion_goes_after_the_last_copy_leads_another_way() {
    let mut env = provided("node-ports", json!({"spec": {"clusterIP": "10.96.0.7"}}));
    assert!(env.service("member1", &companion()).is_some());
    env.on_hub(in_network("member1", "edge", Some("cluster-ip")))
        .settle();
    assert_eq!(reached(&env).0[0].0, "10.96.0.7");
    assert_eq!(env.service("member1", &companion()), None);
}

#[test]
fn companion_goes_after_the_copies_when_networks_become_one() {
    let mut env = provided("node-ports", json!({}));
    env.lose("member2");
    env.on_hub(cluster("member1")).settle();
    assert!(env.service("member1", &companion()).is_some());
    env.forget_writes();
    env.list("member2").settle();
    assert_eq!(env.service("member1", &companion()), None);
    assert_eq!(reached(&env).0.len(), 3, "the pods");
    let log = env.log();
    let is_copy = |line: &String| line.starts_with("member2") && line.ends_with("EndpointSlice");
    let copy = log.iter().rposition(is_copy);
    let gone = log.iter().position(|line| line == "member1 delete Service");
    assert!(copy.is_some() && copy < gone, "{log:#?}");
}

#[test]
fn companion_goes_once_a_lost_cluster_that_holds_no_copy_is_back() {
    let mut env = provided("node-ports", json!({}));
    env.member("member3").settle();
    env.lose("member3").pass(Duration::from_secs(40)).restart();
    env.off_hub(Kind::Mcs, "foo").pass(Duration::from_secs(120));
    env.index.apply_confirmed_absence(key("foo"));
    env.settle();
    assert!(env.service("member1", &companion()).is_some());
    env.introduce("member3").list("member3").settle();
    assert_eq!(env.service("member1", &companion()), None);
}

#[test]
fn companion_stays_while_a_consumer_has_lost_its_credentials() {
    let mut env = provided("node-ports", json!({}));
    env.pull_without_credentials("member2").settle();
    assert!(env.service("member1", &companion()).is_some());
    env.off_hub(Kind::Mcs, "foo").settle();
    assert_eq!(env.service("member1", &companion()), None);
}

#[test]
fn companion_stays_the_entry_while_the_provider_holds_copies() {
    let mut env = provided("node-ports", json!({"spec": {"type": "NodePort"}}));
    let three = slice("foo-three", "foo").port("http", 8080);
    env.member("member3")
        .on_hub(in_network("member3", "edge", None))
        .on("member3", foo())
        .on("member3", three.endpoint("10.3.0.5"));
    let both = || mcs("foo").providers(&["member1", "member3"]);
    env.on_hub(both()).settle();
    let port = node_port(&env, "member1", &companion());
    assert!(port.is_some(), "a companion");
    assert_eq!(env.copies("member1", "foo").len(), 1);
    assert_eq!(reached(&env).1, port);
    env.lose("member1");
    env.on_hub(both().consumers(&["member2"])).settle();
    assert_eq!(reached(&env).1, port);
    env.list("member1").settle();
    assert_eq!(env.copies("member1", "foo"), []);
    assert_eq!(reached(&env).1, node_port(&env, "member1", "foo"));
}

#[test]
fn explanation_names_what_a_companion_does_not_lead_to() {
    for reach in ["node-ports", "cluster-ip"] {
        let mut env = provided(reach, json!({}));
        env.on_hub(mcs("foo").providers(&["member1"])).settle();
        env.on("member1", by_hand()).settle();
        let found = explained(&env);
        let provider = &found.exposures[0].providers[0];
        let mut endpoints = provider.endpoints.iter();
        let by_hand = endpoints.find(|one| one.slice.as_deref() == Some("foo-by-hand"));
        let states = &by_hand.expect("the slice").consumers;
        let state = states.iter().find(|state| state.cluster == "member2");
        let diagnosis = &state.expect("the consumer").diagnosis;
        assert_eq!(diagnosis.reason, Reason::EntryRefused, "{reach}");
        assert!(
            diagnosis.message.contains("is of another writer"),
            "{diagnosis:?}"
        );
    }
}

#[test]
fn entry_whose_selector_finds_no_endpoint_is_refused() {
    let mut env = provided("node-ports", json!({}));
    env.on_hub(mcs("foo").providers(&["member1"])).settle();
    env.off("member1", Kind::Slice, "foo-abc")
        .on("member1", by_hand());
    env.settle();
    let ready = env.says("foo", "Ready");
    assert!(ready.contains("finds none of its endpoints"), "{ready}");
}
