//! Objects of causeway's that somebody changes back as often as causeway writes them.

use super::*;
use crate::fixtures::CONFLICT_PAUSE;

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);

/// Patches the selector of the Service of member2, as its API server stores it then.
fn flip(env: &mut Environment) {
    let theirs = json!({
        "metadata": {"managedFields": [
            {"manager": "causeway", "operation": "Update", "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": {}},
             "time": "2026-01-01T00:00:00Z"},
            {"manager": "kubectl-patch", "operation": "Update", "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": {}},
             "time": "2026-01-01T00:00:01Z"},
        ]},
        "spec": {"selector": {labels::NO_LOCAL_BACKENDS: null, "app": "theirs"}},
    });
    env.amend("member2", Kind::Service, "foo", theirs);
}

fn selector(env: &Environment) -> &Value {
    &env.service("member2", "foo").expect("the Service")["spec"]["selector"]
}

fn to_services(env: &Environment) -> usize {
    let log = env.log();
    log.iter()
        .filter(|line| *line == "member2 patch Service")
        .count()
}

#[test]
fn a_service_that_somebody_changes_back_again_and_again_is_left_alone_and_that_is_reported() {
    let mut env = provided();
    for _ in 0..60 {
        flip(&mut env);
        env.pass(SECOND);
    }
    assert_eq!(to_services(&env), 6, "once, and five times more");
    let text = "False WriteConflict: 1 of 2 clusters: member2 has a write conflict: Service foo is changed by kubectl-patch as often as \
                causeway puts it back, so causeway leaves it as it is for a while; stop one of the two, or leave the Service to the \
                other: kubectl -n shop label service foo mcs.causeway.dev/hub-";
    assert_eq!(env.says("foo", "Ready"), text);
    assert_eq!(env.says("foo", "ServiceApplied"), text);
    assert!(
        env.says("foo", "EndpointSliceDispatched")
            .starts_with("True")
    );
    assert!(
        env.recorded
            .iter()
            .all(|said| said.reason != "WriteConflict")
    );
    // What else there is to do is done.
    env.on("member1", source("10.1.0.9")).settle();
    assert_eq!(env.addresses("member2", "foo"), ["10.1.0.9"]);
    env.assert_at_rest();

    // It goes on: one more try, then for twice as long.
    for _ in 0..CONFLICT_PAUSE.as_secs() {
        flip(&mut env);
        env.pass(SECOND);
    }
    assert!((1..=2).contains(&to_services(&env)), "{:?}", env.log());
    assert_eq!(env.says("foo", "Ready"), text);

    // The other stops, and causeway puts it right; that is said once it stays.
    env.pass(CONFLICT_PAUSE + CONFLICT_PAUSE);
    assert_eq!(*selector(&env), json!({labels::NO_LOCAL_BACKENDS: "true"}));
    env.pass(MINUTE);
    assert!(env.is_ready("foo"), "{}", env.says("foo", "Ready"));
    env.assert_at_rest();
}

#[test]
fn what_is_desired_may_change_as_often_as_it_likes() {
    let mut env = provided();
    for round in 0..100 {
        env.on("member1", source(&format!("10.1.0.{}", 5 + round % 2)));
        env.pass(SECOND);
    }
    assert_eq!(env.addresses("member2", "foo"), ["10.1.0.6"]);
    assert!(env.is_ready("foo"), "{}", env.says("foo", "Ready"));
}

/// Deletes each copy in member2 until causeway makes none.
fn delete_copies(env: &mut Environment) {
    for _ in 0..20 {
        if let Some(copy) = env.copies("member2", "foo").pop() {
            env.off("member2", Kind::Slice, &copy.metadata.name.expect("a name"));
        }
        env.pass(SECOND);
    }
    assert_eq!(env.copies("member2", "foo"), []);
}

#[test]
fn a_copy_that_somebody_deletes_again_and_again_is_left_to_them_until_its_source_changes() {
    let mut env = provided();
    delete_copies(&mut env);
    let ready = env.says("foo", "Ready");
    assert!(ready.starts_with("False WriteConflict: 1 of 1 consumers: member2 has a write conflict: EndpointSlice member1-foo-abc-"));
    assert!(
        ready.contains("is changed by a manager that is not known"),
        "{ready}"
    );
    env.on("member1", source("10.1.0.9")).settle();
    assert_eq!(env.addresses("member2", "foo"), ["10.1.0.9"]);
    env.pass(CONFLICT_PAUSE + MINUTE);
    assert!(env.is_ready("foo"), "{}", env.says("foo", "Ready"));
}

#[test]
fn content_of_a_conflict_is_written_again_after_other_content() {
    let mut env = provided();
    delete_copies(&mut env);
    for address in ["10.1.0.9", "10.1.0.5"] {
        env.on("member1", source(address)).settle();
        assert_eq!(env.addresses("member2", "foo"), [address]);
    }
}

#[test]
fn a_finalizer_that_somebody_takes_off_again_and_again_is_reported() {
    let mut env = provided();
    for _ in 0..20 {
        let without = json!({"metadata": {"finalizers": []}});
        env.on_hub(exposure().with(without)).pass(SECOND);
    }
    let ready = env.says("foo", "Ready");
    assert!(
        ready.starts_with(
            "False WriteConflict: MultiClusterService foo is changed by a manager that is not known"
        ),
        "{ready}"
    );
    assert_eq!(finalizers(&env), json!([]));
    env.on("member1", source("10.1.0.9")).settle();
    assert_eq!(finalizers(&env), json!([]));
    assert_eq!(env.addresses("member2", "foo"), ["10.1.0.9"]);
    env.pass(CONFLICT_PAUSE + MINUTE + MINUTE);
    assert_eq!(finalizers(&env), json!([labels::FINALIZER]));
    assert!(env.is_ready("foo"), "{}", env.says("foo", "Ready"));
}

#[test]
fn a_status_that_somebody_changes_again_and_again_is_left_alone() {
    let mut env = provided();
    for _ in 0..60 {
        let theirs = json!([{"type": "ServiceApplied", "status": "False", "reason": "Theirs", "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z"}]);
        let mut object = exposure().with(json!({"status": {"conditions": theirs}}));
        object.value["metadata"]["finalizers"] = finalizers(&env);
        env.on_hub(object).pass(SECOND);
    }
    assert!(env.log().len() <= 14, "{:?}", env.log());
    env.pass(CONFLICT_PAUSE * 4);
    assert!(env.is_ready("foo"), "{}", env.says("foo", "Ready"));
}
