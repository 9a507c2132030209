//! What causeway has made already of services that Karmada's own controllers carry.

use super::*;
use crate::fixtures::objects::{export, work};

const BESIDE: &str = "False ManagedByKarmada: Karmada's own MultiClusterService controllers carry this service (Work \
     karmada-es-member1/foo-5d5d), and causeway begins nothing beside them. ";
const REMEDY: &str = ". For causeway to carry it, without a gap: kubectl mcs adopt foo -n shop";

/// How long Karmada is given before it is told what consumers lack.
const PATIENCE: Duration = Duration::from_secs(30);
const ALL: &str = "Every ready endpoint is in every consumer";

/// What Ready says between who carries the service and what to do.
fn said(world: &World) -> String {
    let ready = world.says("foo", "Ready");
    let said = ready
        .strip_prefix(BESIDE)
        .and_then(|rest| rest.strip_suffix(REMEDY));
    said.unwrap_or_else(|| panic!("{ready}")).to_owned()
}

/// Karmada's slice of the one that member1 has under that name.
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

/// Karmada writes over the Service in that member, and keeps the labels that it finds there.
fn overwritten(world: &mut World, member: &str) {
    let value = world.service(member, "foo").cloned().expect("the Service");
    let kind = Kind::Service;
    let managed = json!({"metadata": {"labels": {labels::KARMADA_MANAGED: "true"}},
        "spec": {"selector": {labels::NO_LOCAL_BACKENDS: null, "app": "foo"}}});
    world.on(member, Object { kind, value }.with(managed));
}

/// Causeway has delivered foo, of two slices, and Karmada begins to.
fn taken_over() -> World {
    let mut world = provided();
    world.on("member1", second("10.1.0.7")).settle();
    world
        .forget_writes()
        .hear_works(true)
        .on_hub(work("member1", "foo-5d5d", "foo"))
        .settle();
    world
}

fn addresses(world: &World) -> Vec<String> {
    world.addresses("member2", "foo")
}

#[test]
fn copies_are_kept_up_to_date_until_karmadas_slice_of_the_same_source_has_every_ready_endpoint() {
    let mut world = taken_over();
    assert_eq!(
        world.log(),
        ["hub patch MultiClusterService"],
        "Ready alone"
    );
    world.on("member1", source("10.1.0.6")).settle();
    assert_eq!(addresses(&world), ["10.1.0.6", "10.1.0.7"]);

    // A slice that is behind replaces nothing, nor does one with other ports, or of another source.
    world
        .on("member2", karmadas("foo-abc", "10.1.0.5"))
        .settle();
    assert_eq!(addresses(&world), ["10.1.0.5", "10.1.0.6", "10.1.0.7"]);
    let other_ports = json!({"ports": [{"name": "web", "port": 8080, "protocol": "TCP"}]});
    world
        .on("member2", karmadas("foo-abc", "10.1.0.6").with(other_ports))
        .settle();
    assert_eq!(addresses(&world), ["10.1.0.6", "10.1.0.6", "10.1.0.7"]);
    world
        .on("member2", karmadas("foo-abc", "10.1.0.6"))
        .settle();
    assert_eq!(addresses(&world), ["10.1.0.6", "10.1.0.7"]);

    // What is withdrawn does not come back when Karmada's is behind for a moment, or gone, and neither does another process bring it.
    world.on("member1", source("10.1.0.8")).settle();
    assert_eq!(addresses(&world), ["10.1.0.6", "10.1.0.7"]);
    world.restart().settle();
    assert_eq!(addresses(&world), ["10.1.0.6", "10.1.0.7"]);
    world.on("member2", karmadas("foo-abc", "10.1.0.8"));
    world
        .on("member2", karmadas("foo-def", "10.1.0.7"))
        .settle();
    let copies = world.copies("member2", "foo").into_iter();
    let names: Vec<_> = copies.filter_map(|copy| copy.metadata.name).collect();
    assert_eq!(names, ["member1-foo-abc", "member1-foo-def"], "Karmada's");
    world.assert_at_rest();
}

#[test]
fn endpoints_that_are_not_ready_are_not_waited_for() {
    let mut world = taken_over();
    let waiting = json!({"addresses": ["10.1.0.9"], "conditions": {"ready": false}});
    let source = second("10.1.0.7").endpoint_with(waiting);
    world.on("member1", source).settle();
    world
        .on("member2", karmadas("foo-def", "10.1.0.7"))
        .settle();
    assert_eq!(addresses(&world), ["10.1.0.5", "10.1.0.7"]);
}

#[test]
fn nothing_is_begun_beside_karmada() {
    let mut world = taken_over();
    let third = slice("foo-ghi", "foo")
        .port("http", 8080)
        .endpoint("10.1.0.9");
    world.on("member1", third).settle();
    assert_eq!(addresses(&world), ["10.1.0.5", "10.1.0.7"]);
    world
        .member("member3")
        .on_hub(
            mcs("foo")
                .providers(&["member1"])
                .consumers(&["member2", "member3"]),
        )
        .settle();
    assert!(
        world.service("member3", "foo").is_none(),
        "{:?}",
        world.log()
    );
    assert_eq!(world.copies("member3", "foo"), []);
    // A copy that somebody deletes is Karmada's to replace.
    let copy = world.copies("member2", "foo").remove(0);
    world.off("member2", Kind::Slice, &copy.metadata.name.expect("a name"));
    world.settle();
    assert_eq!(addresses(&world), ["10.1.0.7"]);
}

#[test]
fn a_source_that_is_gone_is_withdrawn_and_one_that_is_unknown_is_not() {
    let mut world = taken_over();
    world.off("member1", Kind::Slice, "foo-def").settle();
    assert_eq!(addresses(&world), ["10.1.0.5"]);
    world.lose("member1").settle();
    world
        .on("member2", karmadas("foo-xyz", "10.1.0.9"))
        .settle();
    assert_eq!(addresses(&world), ["10.1.0.5", "10.1.0.9"]);
    let unknown = said(&world);
    let expected =
        "Every ready endpoint is in every consumer, as far as is known: member1 cannot be asked";
    assert!(unknown.starts_with(expected), "{unknown}");
}

#[test]
fn services_stay_as_they_are_until_they_are_karmadas_and_at_the_end_nothing_of_causeways_is_left() {
    let mut world = taken_over();
    world.forget_writes();
    // A change of the hub's Service is Karmada's to carry.
    world.on_hub(foo().port("web", 81)).settle();
    let touched = |world: &World| {
        world
            .log()
            .iter()
            .any(|line| line.ends_with("Service") && !line.starts_with("hub"))
    };
    assert!(!touched(&world), "{:?}", world.log());
    world.on_hub(foo()).settle();
    let left = "What causeway made stays until Karmada's stands in its place: \
         its Service in member1, member2; EndpointSlices in member2";
    assert_eq!(said(&world), format!("{ALL}. {left}"));

    for member in ["member1", "member2"] {
        overwritten(&mut world, member);
        world.settle();
        let meta = &world.service(member, "foo").expect("the Service")["metadata"];
        assert!(meta["labels"][labels::HUB].is_null(), "{meta}");
    }
    assert_eq!(
        finalizers(&world),
        json!([labels::FINALIZER]),
        "copies are left"
    );
    world.on("member2", karmadas("foo-abc", "10.1.0.5"));
    world
        .on("member2", karmadas("foo-def", "10.1.0.7"))
        .settle();
    assert_eq!(finalizers(&world), json!([]));
    assert_eq!(said(&world), ALL);
    world.assert_at_rest();

    world.forget_writes().off_hub(Kind::Mcs, "foo").settle();
    assert_eq!(world.log(), Vec::<String>::new());
    assert!(world.mcs("foo").is_none());
}

#[test]
fn while_a_member_may_still_hold_something_the_finalizer_stays() {
    let mut world = taken_over();
    world.lose("member2");
    overwritten(&mut world, "member1");
    world.pass(PATIENCE);
    assert_eq!(finalizers(&world), json!([labels::FINALIZER]));
}

#[test]
fn karmada_that_is_behind_for_a_moment_is_not_told_of_and_one_that_stays_behind_is() {
    let mut world = taken_over();
    overwritten(&mut world, "member1");
    overwritten(&mut world, "member2");
    world.on("member2", karmadas("foo-abc", "10.1.0.5"));
    world
        .on("member2", karmadas("foo-def", "10.1.0.7"))
        .settle();
    assert_eq!(said(&world), ALL);
    world.forget_writes();
    world.on("member1", source("10.1.0.6")).pass(PATIENCE / 2);
    world
        .on("member2", karmadas("foo-abc", "10.1.0.6"))
        .settle();
    world.pass(PATIENCE + PATIENCE);
    assert_eq!(world.log(), Vec::<String>::new());

    world.on("member1", source("10.1.0.8"));
    world
        .off("member1", Kind::Slice, "foo-def")
        .pass(PATIENCE + PATIENCE);
    let behind = "Not every ready endpoint is in every consumer: \
         member2 lacks those of EndpointSlice foo-abc of member1; \
         Karmada's EndpointSlice member1-foo-abc in member2 is behind; \
         Karmada's EndpointSlice member1-foo-def in member2 is behind";
    assert_eq!(said(&world), behind);
    assert_eq!(world.log(), ["hub patch MultiClusterService"]);
    world.restart().pass(PATIENCE + PATIENCE);
    assert_eq!(said(&world), behind);

    world.on("member2", karmadas("foo-abc", "10.1.0.8"));
    world
        .off("member2", Kind::Slice, "member1-foo-def")
        .settle();
    assert_eq!(said(&world), ALL);
}

#[test]
fn a_service_whose_providers_have_no_ready_endpoint_is_not_said_to_be_served() {
    let mut world = taken_over();
    world.off("member1", Kind::Slice, "foo-def");
    let waiting = json!({"addresses": ["10.1.0.5"], "conditions": {"ready": false}});
    let empty = slice("foo-abc", "foo").port("http", 8080);
    world
        .on("member1", empty.endpoint_with(waiting))
        .pass(PATIENCE);
    let none = said(&world);
    assert!(
        none.starts_with("No provider has a ready endpoint. What"),
        "{none}"
    );
}

#[test]
fn the_works_are_gone_in_the_midst_of_it_and_causeway_carries_the_service_again() {
    let mut world = taken_over();
    world
        .on("member2", karmadas("foo-abc", "10.1.0.5"))
        .settle();
    world.off_karmada("member1", "foo-5d5d").settle();
    world
        .off("member2", Kind::Slice, "member1-foo-abc")
        .settle();
    assert_eq!(addresses(&world), ["10.1.0.5", "10.1.0.7"]);
    assert!(world.is_ready("foo"), "{}", world.says("foo", "Ready"));
    assert_eq!(finalizers(&world), json!([labels::FINALIZER]));
    world.assert_at_rest();
}

#[test]
fn what_was_published_for_it_stays_and_nothing_more_is_published() {
    for begun in [true, false] {
        let mut world = world();
        world.settings.publish_exports = true;
        world.member("member1").member("member2").on_hub(foo());
        world.on("member1", source("10.1.0.5"));
        if begun {
            world.on_hub(exposure()).settle();
        }
        world
            .hear_works(true)
            .on_hub(work("member1", "foo-5d5d", "foo"))
            .on_hub(exposure())
            .settle();
        for (member, kind) in [("member1", Kind::Export), ("member2", Kind::Import)] {
            let there = world.members[member].get(kind, "shop", "foo").is_some();
            assert_eq!(there, begun, "{member} {kind:?}");
        }
    }
}

#[test]
fn a_persons_export_of_it_is_carried_as_ever() {
    let mut world = taken_over();
    world.on("member1", export("foo")).settle();
    assert_eq!(
        world.addresses("member2", "derived-foo"),
        ["10.1.0.5", "10.1.0.7"]
    );
}
