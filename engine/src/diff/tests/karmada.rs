//! Services that Karmada manages, or may manage.

use super::*;
use crate::fixtures::objects::{export, work};
use crate::model::{HubEvent, Signal};

/// Time for which the list of the hub's Works is awaited.
const AWAITED: Duration = Duration::from_secs(60);

const BESIDE: &str = "False ManagedByKarmada: Karmada's own MultiClusterService controllers manage this service (Work \
     karmada-es-member1/foo-5d5d), and causeway begins nothing beside them. ";
const REMEDY: &str = ". For causeway to manage it, without a gap: kubectl mcs adopt foo -n shop";

/// Time for which Karmada may lag before the objects that consumers lack are reported.
const LACKING: Duration = Duration::from_secs(31);

/// Returns the part of Ready between the manager of the service and the remedy.
pub(super) fn said(env: &Environment) -> String {
    let ready = env.says("foo", "Ready");
    let said = ready
        .strip_prefix(BESIDE)
        .and_then(|rest| rest.strip_suffix(REMEDY));
    said.unwrap_or_else(|| panic!("{ready}")).to_owned()
}

fn is_left_alone(env: &Environment) -> bool {
    env.member_log().is_empty()
}

fn failed(kind: FailureKind) -> HubEvent {
    HubEvent::Works(Signal::Failed(Failure::new(kind, "not now")))
}

fn source_of_bar() -> Object {
    slice("bar-abc", "bar")
        .port("http", 8080)
        .endpoint("10.1.0.9")
}

/// Returns an environment with Karmada on the hub, two members, and a service that nobody manages.
fn karmada_managed() -> Environment {
    let mut env = env();
    env.member("member1")
        .member("member2")
        .hear_works(true)
        .on_hub(foo())
        .on("member1", source("10.1.0.5"));
    env
}

#[test]
fn what_karmada_carries_is_left_alone_until_its_works_are_gone() {
    let mut env = karmada_managed();
    env.on_hub(work("member1", "foo-5d5d", "foo"))
        .on_hub(work("member2", "foo-77aa", "foo"))
        .on_hub(exposure())
        .settle();
    assert_eq!(env.log(), ["hub patch MultiClusterService"], "its status");
    assert_eq!(
        said(&env),
        "Not every ready endpoint is in every consumer yet"
    );
    assert_eq!(finalizers(&env), Value::Null);
    let recorded: Vec<_> = env.recorded.iter().map(|one| &*one.reason).collect();
    assert_eq!(recorded, ["ManagedByKarmada"]);
    env.assert_at_rest();

    env.off_karmada("member2", "foo-77aa").settle();
    assert_eq!(env.log(), Vec::<String>::new());
    env.pass(LACKING);
    let lacking = "Not every ready endpoint is in every consumer: member2 has no Service foo; \
         member2 lacks those of EndpointSlice foo-abc of member1";
    assert_eq!(said(&env), lacking);
    env.off_karmada("member1", "foo-5d5d").settle();
    assert_eq!(env.addresses("member2", "foo"), ["10.1.0.5"]);
    assert!(env.is_ready("foo"));
    env.assert_at_rest();
}

#[test]
fn the_other_conditions_are_karmadas_to_write() {
    let mut env = karmada_managed();
    let said = json!({"type": "ServiceApplied", "status": "True", "reason": "ServiceAppliedSucceed",
        "message": "Service is propagated to target clusters.", "lastTransitionTime": "2026-01-01T00:00:00Z"});
    let theirs = exposure().with(json!({"status": {"conditions": [said]}}));
    env.on_hub(work("member1", "foo-5d5d", "foo"))
        .on_hub(theirs)
        .settle();
    let status = &env.mcs("foo").expect("it is there")["status"]["conditions"];
    assert_eq!(status[0], said);
    assert_eq!(
        (&status[1]["type"], &status[2]),
        (&json!("Ready"), &Value::Null)
    );
}

#[test]
fn a_deletion_ends_whoever_carries_the_service_and_takes_along_what_is_causeways() {
    for served in [true, false] {
        let mut env = provided();
        let theirs = slice("member1-foo-abc", "foo").with(json!({"metadata": {"labels":
            {labels::SLICE_MANAGED_BY: labels::SLICE_DISPATCHER}}}));
        env.on("member2", theirs);
        match served {
            true => env
                .hear_works(true)
                .on_hub(work("member1", "foo-5d5d", "foo")),
            false => env.hear_of_works(true),
        };
        env.settle().off_hub(Kind::Mcs, "foo").settle();
        assert!(env.mcs("foo").is_none(), "{served}");
        assert!(env.service("member2", "foo").is_none(), "{served}");
        let left = env.copies("member2", "foo").into_iter();
        let left: Vec<_> = left.filter_map(|slice| slice.metadata.name).collect();
        assert_eq!(left, ["member1-foo-abc"], "{served}: Karmada's");
    }
}

#[test]
fn while_it_is_not_known_what_karmada_carries_nothing_is_written_and_nothing_withdrawn() {
    let mut env = provided();
    env.hear_of_works(true)
        .on_hub(mcs("bar").providers(&["member1"]))
        .on_hub(service("bar").port("http", 80))
        .on("member1", source_of_bar())
        .on("member1", source("10.1.0.6"))
        .off_hub(Kind::Service, "foo")
        .pass(AWAITED / 2);
    assert_eq!(env.log(), Vec::<String>::new());
    env.on_hub(foo()).list_works().settle();
    assert_eq!(env.addresses("member2", "foo"), ["10.1.0.6"]);
    assert!(env.is_ready("foo") && env.is_ready("bar"));
}

#[test]
fn a_process_that_has_just_started_waits_for_what_the_hub_says_of_works() {
    let mut env = provided();
    env.say_nothing_of_works()
        .restart()
        .on("member1", source("10.1.0.6"))
        .pass(AWAITED / 2);
    assert_eq!(env.log(), Vec::<String>::new());
    env.hear_works(false).settle();
    assert_eq!(env.addresses("member2", "foo"), ["10.1.0.6"]);
}

#[test]
fn a_hub_that_does_not_say_what_karmada_carries_is_not_waited_for_for_ever() {
    for (kind, ends) in [
        (FailureKind::Forbidden, true),
        (FailureKind::Server, true),
        (FailureKind::Excess, false),
    ] {
        let mut env = provided();
        env.hear_of_works(true).observe_hub(failed(kind));
        env.on("member1", source("10.1.0.6")).pass(AWAITED / 2);
        assert_eq!(env.log(), Vec::<String>::new(), "{kind:?}");
        env.pass(AWAITED / 2);
        let carried = env.addresses("member2", "foo") == ["10.1.0.6"];
        assert_eq!(carried, ends, "{kind:?}");
        let unknown = "; unknown whether Karmada manages it too (its Works cannot be read)";
        assert_eq!(env.says("foo", "Ready").ends_with(unknown), ends);
        assert!(env.is_ready("foo"), "{kind:?}");
        env.assert_at_rest();
        env.list_works().settle();
        assert!(!env.says("foo", "Ready").contains("Karmada"), "{kind:?}");
        assert_eq!(env.addresses("member2", "foo"), ["10.1.0.6"], "{kind:?}");
    }
}

#[test]
fn what_was_listed_once_stays_known_while_the_hub_does_not_answer() {
    let mut env = karmada_managed();
    env.on_hub(work("member1", "foo-5d5d", "foo"))
        .on_hub(exposure())
        .settle();
    env.observe_hub(failed(FailureKind::Forbidden))
        .pass(AWAITED + AWAITED);
    assert!(env.says("foo", "Ready").starts_with(BESIDE));
    assert!(is_left_alone(&env), "{:?}", env.log());
    env.on_hub(mcs("bar").providers(&["member1"]))
        .on_hub(service("bar").port("http", 80))
        .on("member1", source_of_bar())
        .settle();
    assert!(env.is_ready("bar"), "{}", env.says("bar", "Ready"));
}

#[test]
fn with_the_definition_of_works_karmada_is_gone() {
    let mut env = karmada_managed();
    env.on_hub(work("member1", "foo-5d5d", "foo"))
        .on_hub(exposure())
        .settle();
    assert!(env.says("foo", "Ready").starts_with(BESIDE));
    env.hear_works(false).settle();
    assert!(env.is_ready("foo"), "{}", env.says("foo", "Ready"));
}

#[test]
fn of_what_karmada_carries_for_nobody_nothing_is_said_and_exports_are_carried_as_ever() {
    let mut env = karmada_managed();
    env.on_hub(work("member1", "foo-5d5d", "foo"))
        .on("member1", foo())
        .on("member1", export("foo"))
        .settle();
    let derived = env.service("member2", "derived-foo");
    assert!(derived.is_some(), "{:?}", env.log());
}

#[test]
fn the_load_balancers_of_a_service_that_karmada_carries_stay_in_its_status() {
    let mut env = karmada_managed();
    let ingress = json!([{"ip": "192.0.2.7"}]);
    let balanced = mcs("foo").providers(&["member1"]).load_balancer();
    env.on_hub(work("member1", "foo-5d5d", "foo"))
        .on_hub(balanced.with(json!({"status": {"loadBalancer": {"ingress": ingress}}})))
        .settle();
    assert!(env.says("foo", "Ready").starts_with(BESIDE));
    let status = &env.mcs("foo").expect("it is there")["status"];
    assert_eq!(status["loadBalancer"]["ingress"], ingress);
}
