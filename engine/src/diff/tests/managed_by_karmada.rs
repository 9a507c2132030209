//! Objects that causeway had already made for services that Karmada manages.

use super::karmada::said;
use super::*;
use crate::fixtures::objects::{export, node, work};

/// Time for which Karmada may lag before the objects that consumers lack are reported.
const PATIENCE: Duration = Duration::from_secs(30);
const ALL: &str = "Every ready endpoint is in every consumer";

/// Returns Karmada's slice of the one that member1 has under that name.
fn karmadas(name: &str, address: &str) -> Object {
    let marks = json!({"metadata": {
        "labels": {labels::SLICE_MANAGED_BY: labels::SLICE_DISPATCHER, labels::KARMADA_MANAGED: "true"},
        "annotations": {labels::PROVISION_CLUSTER: "member1"},
    }});
    let slice = slice(&format!("member1-{name}"), "foo").port("http", 8080);
    slice.endpoint(address).with(marks)
}

fn second(address: &str) -> Object {
    slice("foo-def", "foo").port("http", 8080).endpoint(address)
}

/// Overwrites the Service in that member as Karmada does: Karmada preserves its labels.
fn overwritten(env: &mut Environment, member: &str) {
    let managed = json!({"metadata": {"labels": {labels::KARMADA_MANAGED: "true"}},
        "spec": {"selector": {labels::NO_LOCAL_BACKENDS: null, "app": "foo"}}});
    env.amend(member, Kind::Service, "foo", managed);
}

/// Returns an environment in which causeway has delivered foo, of two slices, and Karmada begins
/// to.
fn taken_over() -> Environment {
    let mut env = provided();
    env.on("member1", second("10.1.0.7")).settle();
    env.forget_writes()
        .hear_works(true)
        .on_hub(work("member1", "foo-5d5d", "foo"))
        .settle();
    env
}

/// Returns the slice of member1, whose endpoint is on that node.
fn on_node(node: &str) -> Object {
    let ready = json!({"ready": true});
    let pod = json!({"addresses": ["10.1.0.5"], "nodeName": node, "conditions": ready});
    let slice = slice("foo-abc", "foo").port("http", 8080);
    slice.endpoint_with(pod)
}

/// Returns an environment in which member1, of a network of its own, may provide foo to member2.
fn across_networks() -> Environment {
    let mut env = env();
    let edge = json!({labels::NETWORK: "edge", labels::REACH: "node-ports"});
    env.member("member1").member("member2").on_hub(foo());
    env.on_hub(cluster("member1").annotated(&edge));
    env.on("member1", foo())
        .on("member1", on_node("n1"))
        .on("member1", node("n1", "192.168.1.1"));
    env
}

fn has_companion(env: &Environment) -> bool {
    let companion = key("foo").companion();
    env.service("member1", &companion.name).is_some()
}

fn addresses(env: &Environment) -> Vec<String> {
    env.addresses("member2", "foo")
}

#[test]
fn copies_are_kept_up_to_date_until_karmadas_slice_of_the_same_source_has_every_ready_endpoint() {
    let mut env = taken_over();
    assert_eq!(env.log(), ["hub patch MultiClusterService"], "Ready alone");
    env.on("member1", source("10.1.0.6")).settle();
    assert_eq!(addresses(&env), ["10.1.0.6", "10.1.0.7"]);

    // A slice that is behind replaces nothing, nor does one with other ports, or of another source.
    env.on("member2", karmadas("foo-abc", "10.1.0.5")).settle();
    assert_eq!(addresses(&env), ["10.1.0.5", "10.1.0.6", "10.1.0.7"]);
    let other_ports = json!({"ports": [{"name": "web", "port": 8080, "protocol": "TCP"}]});
    env.on("member2", karmadas("foo-abc", "10.1.0.6").with(other_ports))
        .settle();
    assert_eq!(addresses(&env), ["10.1.0.6", "10.1.0.6", "10.1.0.7"]);
    env.on("member2", karmadas("foo-abc", "10.1.0.6")).settle();
    assert_eq!(addresses(&env), ["10.1.0.6", "10.1.0.7"]);

    // What is withdrawn does not come back when Karmada's is behind for a moment, or gone, and
    // neither does another process bring it.
    env.on("member1", source("10.1.0.8")).settle();
    assert_eq!(addresses(&env), ["10.1.0.6", "10.1.0.7"]);
    env.restart().settle();
    assert_eq!(addresses(&env), ["10.1.0.6", "10.1.0.7"]);
    env.on("member2", karmadas("foo-abc", "10.1.0.8"));
    env.on("member2", karmadas("foo-def", "10.1.0.7")).settle();
    let copies = env.copies("member2", "foo").into_iter();
    let names: Vec<_> = copies.filter_map(|copy| copy.metadata.name).collect();
    assert_eq!(names, ["member1-foo-abc", "member1-foo-def"], "Karmada's");
    env.assert_at_rest();
}

#[test]
fn endpoints_that_are_not_ready_are_not_waited_for() {
    let mut env = taken_over();
    let waiting = json!({"addresses": ["10.1.0.9"], "conditions": {"ready": false}});
    let source = second("10.1.0.7").endpoint_with(waiting);
    env.on("member1", source).settle();
    env.on("member2", karmadas("foo-def", "10.1.0.7")).settle();
    assert_eq!(addresses(&env), ["10.1.0.5", "10.1.0.7"]);
}

#[test]
fn nothing_is_begun_beside_karmada() {
    let mut env = taken_over();
    let third = slice("foo-ghi", "foo")
        .port("http", 8080)
        .endpoint("10.1.0.9");
    env.on("member1", third).settle();
    assert_eq!(addresses(&env), ["10.1.0.5", "10.1.0.7"]);
    env.member("member3")
        .on_hub(
            mcs("foo")
                .providers(&["member1"])
                .consumers(&["member2", "member3"]),
        )
        .settle();
    assert!(env.service("member3", "foo").is_none(), "{:?}", env.log());
    assert_eq!(env.copies("member3", "foo"), []);
    // A copy that somebody deletes is Karmada's to replace.
    let copy = env.copies("member2", "foo").remove(0);
    env.off("member2", Kind::Slice, &copy.metadata.name.expect("a name"));
    env.settle();
    assert_eq!(addresses(&env), ["10.1.0.7"]);
}

#[test]
fn no_companion_is_begun_beside_karmada() {
    let mut env = across_networks();
    env.hear_works(true)
        .on_hub(work("member1", "foo-5d5d", "foo"))
        .on_hub(exposure())
        .settle();
    assert_eq!(env.log(), ["hub patch MultiClusterService"], "its status");
    assert_eq!(finalizers(&env), Value::Null);
    env.pass(PATIENCE + PATIENCE);
    let lacking = "Not every ready endpoint is in every consumer: member2 has no Service foo; \
         member2 lacks those of EndpointSlice foo-abc of member1";
    assert_eq!(said(&env), lacking);
    assert_eq!(env.unreached(), []);
}

#[test]
fn entry_and_companion_go_once_karmada_delivers_the_provider() {
    // Node n9 is unknown, so the entry is too.
    for last in ["n1", "n9"] {
        let mut env = across_networks();
        env.on_hub(exposure()).settle();
        assert_eq!(addresses(&env), ["192.168.1.1"]);
        env.hear_works(true)
            .on_hub(work("member1", "foo-5d5d", "foo"))
            .settle();
        overwritten(&mut env, "member2");
        env.on("member1", node("n1", "192.168.1.9")).settle();
        env.on("member1", on_node(last)).settle();
        assert_eq!(addresses(&env), ["192.168.1.9"], "{last}");
        assert!(has_companion(&env), "{last}");
        assert_eq!(finalizers(&env), json!([labels::FINALIZER]), "{last}");
        let empty = json!({"endpoints": []});
        env.on("member2", karmadas("foo-abc", "10.1.0.5").with(empty))
            .settle();
        assert_eq!(addresses(&env), ["192.168.1.9"], "{last}");

        env.forget_writes();
        env.on("member2", karmadas("foo-abc", "10.1.0.5")).settle();
        assert_eq!(addresses(&env), ["10.1.0.5"], "{last}: Karmada's");
        assert!(!has_companion(&env), "{last}");
        assert_eq!(finalizers(&env), json!([]), "{last}");
        let log = env.log();
        let at = |part: &str| log.iter().position(|line| line == part);
        let copy = at("member2 delete EndpointSlice");
        let companion = at("member1 delete Service");
        assert!(copy.is_some() && copy < companion, "{log:#?}");
        assert_eq!(said(&env), ALL, "{last}");
        env.assert_at_rest();
    }
}

#[test]
fn change_of_network_withdraws_nothing_beside_karmada() {
    let edge = json!({labels::NETWORK: "edge", labels::REACH: "node-ports"});
    let apart = || cluster("member1").annotated(&edge);
    let with_node_ports = foo().with(json!({"spec": {"type": "NodePort"}}));
    for (before, after, service, served) in [
        (cluster("member1"), apart(), foo(), "10.1.0.5"),
        (cluster("member1"), apart(), with_node_ports, "10.1.0.5"),
        (apart(), cluster("member1"), foo(), "192.168.1.1"),
    ] {
        let mut env = across_networks();
        env.on_hub(before)
            .on("member1", service)
            .on_hub(exposure())
            .settle();
        assert_eq!(addresses(&env), [served]);
        let had_companion = has_companion(&env);
        env.hear_works(true)
            .on_hub(work("member1", "foo-5d5d", "foo"))
            .settle();
        env.on_hub(after).settle();
        assert_eq!(addresses(&env), [served]);
        assert_eq!(has_companion(&env), had_companion);
        env.lose("member2").restart().settle();
        assert_eq!(has_companion(&env), had_companion, "member2 is unknown");
        env.introduce("member2").list("member2").settle();
        assert_eq!(addresses(&env), [served]);

        env.on("member2", karmadas("foo-abc", "10.1.0.5")).settle();
        assert_eq!(addresses(&env), ["10.1.0.5"], "Karmada's");
        assert!(!has_companion(&env));
        env.assert_at_rest();
    }
}

#[test]
fn a_source_that_is_gone_is_withdrawn_and_one_that_is_unknown_is_not() {
    let mut env = taken_over();
    env.off("member1", Kind::Slice, "foo-def").settle();
    assert_eq!(addresses(&env), ["10.1.0.5"]);
    env.lose("member1").settle();
    env.on("member2", karmadas("foo-xyz", "10.1.0.9")).settle();
    assert_eq!(addresses(&env), ["10.1.0.5", "10.1.0.9"]);
    let unknown = said(&env);
    let expected =
        "Every ready endpoint is in every consumer, as far as is known: member1 cannot be read";
    assert!(unknown.starts_with(expected), "{unknown}");
}

#[test]
fn provider_whose_only_slice_is_unreadable_is_unknown() {
    let mut env = taken_over();
    env.off("member1", Kind::Slice, "foo-def");
    env.garble("member1", "foo-abc").settle();
    let expected = "No provider has a ready endpoint, as far as is known: member1 cannot be read";
    let unknown = said(&env);
    assert!(unknown.starts_with(expected), "{unknown}");
}

#[test]
fn services_stay_as_they_are_until_they_are_karmadas_and_at_the_end_nothing_of_causeways_is_left() {
    let mut env = taken_over();
    env.forget_writes();
    // A change of the hub's Service is Karmada's to carry.
    env.on_hub(foo().port("web", 81)).settle();
    let touched = |env: &Environment| {
        env.log()
            .iter()
            .any(|line| line.ends_with("Service") && !line.starts_with("hub"))
    };
    assert!(!touched(&env), "{:?}", env.log());
    env.on_hub(foo()).settle();
    let left = "What causeway made stays until Karmada's stands in its place: \
         its Service in member1, member2; EndpointSlices in member2";
    assert_eq!(said(&env), format!("{ALL}. {left}"));

    for member in ["member1", "member2"] {
        overwritten(&mut env, member);
        env.settle();
        let meta = &env.service(member, "foo").expect("the Service")["metadata"];
        assert!(meta["labels"][labels::HUB].is_null(), "{meta}");
    }
    assert_eq!(
        finalizers(&env),
        json!([labels::FINALIZER]),
        "copies are left"
    );
    env.on("member2", karmadas("foo-abc", "10.1.0.5"));
    env.on("member2", karmadas("foo-def", "10.1.0.7")).settle();
    assert_eq!(finalizers(&env), json!([]));
    assert_eq!(said(&env), ALL);
    env.assert_at_rest();

    env.forget_writes().off_hub(Kind::Mcs, "foo").settle();
    assert_eq!(env.log(), Vec::<String>::new());
    assert!(env.mcs("foo").is_none());
}

#[test]
fn while_a_member_may_still_hold_something_the_finalizer_stays() {
    let mut env = taken_over();
    env.lose("member2");
    overwritten(&mut env, "member1");
    env.pass(PATIENCE);
    assert_eq!(finalizers(&env), json!([labels::FINALIZER]));
}

#[test]
fn karmada_that_is_behind_for_a_moment_is_not_reported_and_one_that_stays_behind_is() {
    let mut env = taken_over();
    overwritten(&mut env, "member1");
    overwritten(&mut env, "member2");
    env.on("member2", karmadas("foo-abc", "10.1.0.5"));
    env.on("member2", karmadas("foo-def", "10.1.0.7")).settle();
    assert_eq!(said(&env), ALL);
    env.forget_writes();
    env.on("member1", source("10.1.0.6")).pass(PATIENCE / 2);
    env.on("member2", karmadas("foo-abc", "10.1.0.6")).settle();
    env.pass(PATIENCE + PATIENCE);
    assert_eq!(env.log(), Vec::<String>::new());

    env.on("member1", source("10.1.0.8"));
    env.off("member1", Kind::Slice, "foo-def")
        .pass(PATIENCE + PATIENCE);
    let behind = "Not every ready endpoint is in every consumer: \
         member2 lacks those of EndpointSlice foo-abc of member1; \
         Karmada's EndpointSlice member1-foo-abc in member2 is behind; \
         Karmada's EndpointSlice member1-foo-def in member2 is behind";
    assert_eq!(said(&env), behind);
    assert_eq!(env.log(), ["hub patch MultiClusterService"]);
    env.restart().pass(PATIENCE + PATIENCE);
    assert_eq!(said(&env), behind);

    env.on("member2", karmadas("foo-abc", "10.1.0.8"));
    env.off("member2", Kind::Slice, "member1-foo-def").settle();
    assert_eq!(said(&env), ALL);
}

#[test]
fn a_service_whose_providers_have_no_ready_endpoint_is_not_said_to_be_served() {
    let mut env = taken_over();
    env.off("member1", Kind::Slice, "foo-def");
    let waiting = json!({"addresses": ["10.1.0.5"], "conditions": {"ready": false}});
    let empty = slice("foo-abc", "foo").port("http", 8080);
    env.on("member1", empty.endpoint_with(waiting))
        .pass(PATIENCE);
    let none = said(&env);
    assert!(
        none.starts_with("No provider has a ready endpoint. What"),
        "{none}"
    );
}

#[test]
fn the_works_are_gone_in_the_midst_of_it_and_causeway_carries_the_service_again() {
    let mut env = taken_over();
    env.on("member2", karmadas("foo-abc", "10.1.0.5")).settle();
    env.off_karmada("member1", "foo-5d5d").settle();
    env.off("member2", Kind::Slice, "member1-foo-abc").settle();
    assert_eq!(addresses(&env), ["10.1.0.5", "10.1.0.7"]);
    assert!(env.is_ready("foo"), "{}", env.says("foo", "Ready"));
    assert_eq!(finalizers(&env), json!([labels::FINALIZER]));
    env.assert_at_rest();
}

#[test]
fn what_was_published_for_it_stays_and_nothing_more_is_published() {
    for begun in [true, false] {
        let mut env = env();
        env.settings.publish_exports = true;
        env.member("member1").member("member2").on_hub(foo());
        env.on("member1", source("10.1.0.5"));
        if begun {
            env.on_hub(exposure()).settle();
        }
        env.hear_works(true)
            .on_hub(work("member1", "foo-5d5d", "foo"))
            .on_hub(exposure())
            .settle();
        for (member, kind) in [("member1", Kind::Export), ("member2", Kind::Import)] {
            let there = env.members[member].get(kind, "shop", "foo").is_some();
            assert_eq!(there, begun, "{member} {kind:?}");
        }
    }
}

#[test]
fn a_persons_export_of_it_is_carried_as_ever() {
    let mut env = taken_over();
    env.on("member1", export("foo")).settle();
    assert_eq!(
        env.addresses("member2", "derived-foo"),
        ["10.1.0.5", "10.1.0.7"]
    );
}
