//! Services that Karmada's own controllers carry, or may carry.

use super::*;
use crate::fixtures::objects::{export, work};
use crate::model::{HubEvent, Signal};

/// How long is waited for what the hub says of its Works.
const AWAITED: Duration = Duration::from_secs(60);

const BESIDE: &str = "False ManagedByKarmada: Karmada's own MultiClusterService controllers carry this service (Work \
     karmada-es-member1/foo-5d5d), and causeway begins nothing beside them. ";
const REMEDY: &str = ". For causeway to carry it, without a gap: kubectl mcs adopt foo -n shop";

/// How long Karmada is given before it is told what consumers lack.
const LACKING: Duration = Duration::from_secs(31);

/// What Ready says between who carries the service and what to do.
fn said(world: &World) -> String {
    let ready = world.says("foo", "Ready");
    let said = ready
        .strip_prefix(BESIDE)
        .and_then(|rest| rest.strip_suffix(REMEDY));
    said.unwrap_or_else(|| panic!("{ready}")).to_owned()
}

fn is_left_alone(world: &World) -> bool {
    world.log().iter().all(|line| line.starts_with("hub"))
}

fn failed(kind: FailureKind) -> HubEvent {
    HubEvent::Works(Signal::Failed(Failure::new(kind, "not now")))
}

fn source_of_bar() -> Object {
    slice("bar-abc", "bar")
        .port("http", 8080)
        .endpoint("10.1.0.9")
}

/// A hub with Karmada and two members, and a service that nobody has carried.
fn beside_karmada() -> World {
    let mut world = world();
    world
        .member("member1")
        .member("member2")
        .hear_works(true)
        .on_hub(foo())
        .on("member1", source("10.1.0.5"));
    world
}

#[test]
fn what_karmada_carries_is_left_alone_until_its_works_are_gone() {
    let mut world = beside_karmada();
    world
        .on_hub(work("member1", "foo-5d5d", "foo"))
        .on_hub(work("member2", "foo-77aa", "foo"))
        .on_hub(exposure())
        .settle();
    assert_eq!(world.log(), ["hub patch MultiClusterService"], "its status");
    assert_eq!(
        said(&world),
        "Not every ready endpoint is in every consumer yet"
    );
    assert_eq!(finalizers(&world), Value::Null);
    let recorded: Vec<_> = world.recorded.iter().map(|one| &*one.reason).collect();
    assert_eq!(recorded, ["ManagedByKarmada"]);
    world.assert_at_rest();

    world.off_karmada("member2", "foo-77aa").settle();
    assert_eq!(world.log(), Vec::<String>::new());
    world.pass(LACKING);
    let lacking = "Not every ready endpoint is in every consumer: member2 has no Service foo; \
         member2 lacks those of EndpointSlice foo-abc of member1";
    assert_eq!(said(&world), lacking);
    world.off_karmada("member1", "foo-5d5d").settle();
    assert_eq!(world.addresses("member2", "foo"), ["10.1.0.5"]);
    assert!(world.is_ready("foo"));
    world.assert_at_rest();
}

#[test]
fn the_other_conditions_are_karmadas_to_write() {
    let mut world = beside_karmada();
    let said = json!({"type": "ServiceApplied", "status": "True", "reason": "ServiceAppliedSucceed",
        "message": "Service is propagated to target clusters.", "lastTransitionTime": "2026-01-01T00:00:00Z"});
    let theirs = exposure().with(json!({"status": {"conditions": [said]}}));
    world
        .on_hub(work("member1", "foo-5d5d", "foo"))
        .on_hub(theirs)
        .settle();
    let status = &world.mcs("foo").expect("it is there")["status"]["conditions"];
    assert_eq!(status[0], said);
    assert_eq!(
        (&status[1]["type"], &status[2]),
        (&json!("Ready"), &Value::Null)
    );
}

#[test]
fn a_deletion_ends_whoever_carries_the_service_and_takes_along_what_is_causeways() {
    for served in [true, false] {
        let mut world = provided();
        let theirs = slice("member1-foo-abc", "foo").with(json!({"metadata": {"labels":
            {labels::SLICE_MANAGED_BY: labels::SLICE_DISPATCHER}}}));
        world.on("member2", theirs);
        match served {
            true => world
                .hear_works(true)
                .on_hub(work("member1", "foo-5d5d", "foo")),
            false => world.hear_of_works(true),
        };
        world.settle().off_hub(Kind::Mcs, "foo").settle();
        assert!(world.mcs("foo").is_none(), "{served}");
        assert!(world.service("member2", "foo").is_none(), "{served}");
        let left = world.copies("member2", "foo").into_iter();
        let left: Vec<_> = left.filter_map(|slice| slice.metadata.name).collect();
        assert_eq!(left, ["member1-foo-abc"], "{served}: Karmada's");
    }
}

#[test]
fn while_it_is_not_known_what_karmada_carries_nothing_is_written_and_nothing_withdrawn() {
    let mut world = provided();
    world
        .hear_of_works(true)
        .on_hub(mcs("bar").providers(&["member1"]))
        .on_hub(service("bar").port("http", 80))
        .on("member1", source_of_bar())
        .on("member1", source("10.1.0.6"))
        .off_hub(Kind::Service, "foo")
        .pass(AWAITED / 2);
    assert_eq!(world.log(), Vec::<String>::new());
    world.on_hub(foo()).list_works().settle();
    assert_eq!(world.addresses("member2", "foo"), ["10.1.0.6"]);
    assert!(world.is_ready("foo") && world.is_ready("bar"));
}

#[test]
fn a_process_that_has_just_started_waits_for_what_the_hub_says_of_works() {
    let mut world = provided();
    world
        .say_nothing_of_works()
        .restart()
        .on("member1", source("10.1.0.6"))
        .pass(AWAITED / 2);
    assert_eq!(world.log(), Vec::<String>::new());
    world.hear_works(false).settle();
    assert_eq!(world.addresses("member2", "foo"), ["10.1.0.6"]);
}

#[test]
fn a_hub_that_does_not_say_what_karmada_carries_is_not_waited_for_for_ever() {
    for (kind, ends) in [
        (FailureKind::Forbidden, true),
        (FailureKind::Server, true),
        (FailureKind::Excess, false),
    ] {
        let mut world = provided();
        world.hear_of_works(true).hear_hub(failed(kind));
        world.on("member1", source("10.1.0.6")).pass(AWAITED / 2);
        assert_eq!(world.log(), Vec::<String>::new(), "{kind:?}");
        world.pass(AWAITED / 2);
        let carried = world.addresses("member2", "foo") == ["10.1.0.6"];
        assert_eq!(carried, ends, "{kind:?}");
        let unknown = "; unknown whether Karmada carries it too (its Works cannot be read)";
        assert_eq!(world.says("foo", "Ready").ends_with(unknown), ends);
        assert!(world.is_ready("foo"), "{kind:?}");
        world.assert_at_rest();
        world.list_works().settle();
        assert!(!world.says("foo", "Ready").contains("Karmada"), "{kind:?}");
        assert_eq!(world.addresses("member2", "foo"), ["10.1.0.6"], "{kind:?}");
    }
}

#[test]
fn what_was_listed_once_stays_known_while_the_hub_does_not_answer() {
    let mut world = beside_karmada();
    world
        .on_hub(work("member1", "foo-5d5d", "foo"))
        .on_hub(exposure())
        .settle();
    world
        .hear_hub(failed(FailureKind::Forbidden))
        .pass(AWAITED + AWAITED);
    assert!(world.says("foo", "Ready").starts_with(BESIDE));
    assert!(is_left_alone(&world), "{:?}", world.log());
    world
        .on_hub(mcs("bar").providers(&["member1"]))
        .on_hub(service("bar").port("http", 80))
        .on("member1", source_of_bar())
        .settle();
    assert!(world.is_ready("bar"), "{}", world.says("bar", "Ready"));
}

#[test]
fn with_the_definition_of_works_karmada_is_gone() {
    let mut world = beside_karmada();
    world
        .on_hub(work("member1", "foo-5d5d", "foo"))
        .on_hub(exposure())
        .settle();
    assert!(world.says("foo", "Ready").starts_with(BESIDE));
    world.hear_works(false).settle();
    assert!(world.is_ready("foo"), "{}", world.says("foo", "Ready"));
}

#[test]
fn of_what_karmada_carries_for_nobody_nothing_is_said_and_exports_are_carried_as_ever() {
    let mut world = beside_karmada();
    world
        .on_hub(work("member1", "foo-5d5d", "foo"))
        .on("member1", foo())
        .on("member1", export("foo"))
        .settle();
    let derived = world.service("member2", "derived-foo");
    assert!(derived.is_some(), "{:?}", world.log());
}

#[test]
fn the_load_balancers_of_a_service_that_karmada_carries_stay_in_its_status() {
    let mut world = beside_karmada();
    let ingress = json!([{"ip": "192.0.2.7"}]);
    let balanced = mcs("foo").providers(&["member1"]).load_balancer();
    world
        .on_hub(work("member1", "foo-5d5d", "foo"))
        .on_hub(balanced.with(json!({"status": {"loadBalancer": {"ingress": ingress}}})))
        .settle();
    assert!(world.says("foo", "Ready").starts_with(BESIDE));
    let status = &world.mcs("foo").expect("it is there")["status"];
    assert_eq!(status["loadBalancer"]["ingress"], ingress);
}
