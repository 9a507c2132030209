//! Somebody changes what is causeway's back as often as causeway writes it.

use super::*;
use crate::fixtures::CONFLICT_PAUSE;

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);

/// Somebody patches the selector of the Service of member2, as its API server stores it then.
fn flip(world: &mut World) {
    let value = world
        .service("member2", "foo")
        .cloned()
        .expect("the Service");
    let kind = Kind::Service;
    let theirs = json!({
        "metadata": {"managedFields": [
            {"manager": "causeway", "operation": "Update", "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": {}},
             "time": "2026-01-01T00:00:00Z"},
            {"manager": "kubectl-patch", "operation": "Update", "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": {}},
             "time": "2026-01-01T00:00:01Z"},
        ]},
        "spec": {"selector": {labels::NO_LOCAL_BACKENDS: null, "app": "theirs"}},
    });
    world.on("member2", Object { kind, value }.with(theirs));
}

fn selector(world: &World) -> &Value {
    &world.service("member2", "foo").expect("the Service")["spec"]["selector"]
}

fn to_services(world: &World) -> usize {
    let log = world.log();
    log.iter()
        .filter(|line| *line == "member2 patch Service")
        .count()
}

#[test]
fn a_service_that_somebody_changes_back_again_and_again_is_left_alone_and_that_is_told() {
    let mut world = provided();
    for _ in 0..60 {
        flip(&mut world);
        world.pass(SECOND);
    }
    assert_eq!(to_services(&world), 6, "once, and five times more");
    let text = "False WriteConflict: 1 of 2 clusters: member2 has a write conflict: Service foo is changed by kubectl-patch as often as \
                causeway puts it back, so causeway leaves it as it is for a while; stop one of the two, or leave the Service to the \
                other: kubectl -n shop label service foo mcs.causeway.dev/hub-";
    assert_eq!(world.says("foo", "Ready"), text);
    assert_eq!(world.says("foo", "ServiceApplied"), text);
    assert!(
        world
            .says("foo", "EndpointSliceDispatched")
            .starts_with("True")
    );
    assert!(
        world
            .recorded
            .iter()
            .all(|said| said.reason != "WriteConflict")
    );
    // What else there is to do is done.
    world.on("member1", source("10.1.0.9")).settle();
    assert_eq!(world.addresses("member2", "foo"), ["10.1.0.9"]);
    world.assert_at_rest();

    // It goes on: one more try, then for twice as long.
    for _ in 0..CONFLICT_PAUSE.as_secs() {
        flip(&mut world);
        world.pass(SECOND);
    }
    assert!((1..=2).contains(&to_services(&world)), "{:?}", world.log());
    assert_eq!(world.says("foo", "Ready"), text);

    // The other stops, and causeway puts it right; that is said once it stays.
    world.pass(CONFLICT_PAUSE + CONFLICT_PAUSE);
    assert_eq!(
        *selector(&world),
        json!({labels::NO_LOCAL_BACKENDS: "true"})
    );
    world.pass(MINUTE);
    assert!(world.is_ready("foo"), "{}", world.says("foo", "Ready"));
    world.assert_at_rest();
}

#[test]
fn what_is_desired_may_change_as_often_as_it_likes() {
    let mut world = provided();
    for round in 0..100 {
        world.on("member1", source(&format!("10.1.0.{}", 5 + round % 2)));
        world.pass(SECOND);
    }
    assert_eq!(world.addresses("member2", "foo"), ["10.1.0.6"]);
    assert!(world.is_ready("foo"), "{}", world.says("foo", "Ready"));
}

#[test]
fn a_copy_that_somebody_deletes_again_and_again_is_left_to_them_until_its_source_changes() {
    let mut world = provided();
    for _ in 0..20 {
        if let Some(copy) = world.copies("member2", "foo").pop() {
            world.off("member2", Kind::Slice, &copy.metadata.name.expect("a name"));
        }
        world.pass(SECOND);
    }
    assert_eq!(world.copies("member2", "foo"), []);
    let ready = world.says("foo", "Ready");
    assert!(ready.starts_with("False WriteConflict: 1 of 1 consumers: member2 has a write conflict: EndpointSlice member1-foo-abc-"));
    assert!(ready.contains("is changed by somebody else"), "{ready}");
    world.on("member1", source("10.1.0.9")).settle();
    assert_eq!(world.addresses("member2", "foo"), ["10.1.0.9"]);
    world.pass(CONFLICT_PAUSE + MINUTE);
    assert!(world.is_ready("foo"), "{}", world.says("foo", "Ready"));
}

#[test]
fn a_finalizer_that_somebody_takes_off_again_and_again_is_told_of() {
    let mut world = provided();
    for _ in 0..20 {
        let without = json!({"metadata": {"finalizers": []}});
        world.on_hub(exposure().with(without)).pass(SECOND);
    }
    let ready = world.says("foo", "Ready");
    assert!(
        ready.starts_with(
            "False WriteConflict: MultiClusterService foo is changed by somebody else"
        ),
        "{ready}"
    );
    assert_eq!(finalizers(&world), json!([]));
    world.pass(CONFLICT_PAUSE + MINUTE + MINUTE);
    assert_eq!(finalizers(&world), json!([labels::FINALIZER]));
    assert!(world.is_ready("foo"), "{}", world.says("foo", "Ready"));
}

#[test]
fn a_status_that_somebody_changes_again_and_again_is_left_alone() {
    let mut world = provided();
    for _ in 0..60 {
        let theirs = json!([{"type": "ServiceApplied", "status": "False", "reason": "Theirs", "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z"}]);
        let mut object = exposure().with(json!({"status": {"conditions": theirs}}));
        object.value["metadata"]["finalizers"] = finalizers(&world);
        world.on_hub(object).pass(SECOND);
    }
    assert!(world.log().len() <= 14, "{:?}", world.log());
    world.pass(CONFLICT_PAUSE * 4);
    assert!(world.is_ready("foo"), "{}", world.says("foo", "Ready"));
}
