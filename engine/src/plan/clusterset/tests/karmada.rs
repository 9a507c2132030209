//! Exports that Karmada manages too. For a ServiceImport on the hub, Karmada's controllers make a
//! Service `derived-<name>` there, and put both and EndpointSlices into members.

use super::*;
use crate::fixtures::objects::{derived_foo, karmadas};
use crate::model::HubEvent;

/// Time for which causeway waits for the hub's lists of Works and ServiceImports.
const AWAITED: Duration = Duration::from_secs(60);

const MESSAGE: &str = "False ManagedByKarmada: Karmada's own controllers import this service (ServiceImport shop/foo on the hub)";

/// Returns Karmada's slice of the one that member1 has under that name.
fn collected(name: &str, address: &str) -> Object {
    let managed = json!({"metadata": {"labels": {labels::SLICE_MANAGED_BY: labels::KARMADA_SLICE_CONTROLLER}}});
    let name = format!("imported-member1-{name}");
    let slice = slice(&name, "derived-foo").port("http", 8080);
    karmadas(slice.endpoint(address).with(managed))
}

/// Returns a hub with Karmada, and `foo` in member1 of three, without an export.
fn karmada_managed() -> Environment {
    let mut env = env();
    env.hear_works(true);
    env.member("member1").member("member2").member("member3");
    env.on("member1", foo())
        .on("member1", source("foo-abc", "10.1.0.5"))
        .settle();
    env
}

/// Creates a ServiceImport on the hub as a user, and its Service as Karmada.
fn import_on_hub(env: &mut Environment) {
    env.on_hub(import("foo").port("http", 80))
        .on_hub(derived_foo())
        .settle();
}

/// Lists the writes to members, except the statuses of exports.
fn to_members(env: &Environment) -> Vec<String> {
    let mut log = env.member_log();
    log.retain(|line| !line.ends_with("patch ServiceExport"));
    log
}

#[test]
fn an_export_that_karmada_only_propagated_is_carried() {
    let mut env = karmada_managed();
    env.on("member1", karmadas(export("foo"))).settle();
    // So is one whose import Karmada only propagated, its own controllers being switched off.
    env.on_hub(import("foo").port("http", 80)).settle();
    env.on("member2", karmadas(import("foo").port("http", 80)))
        .settle();
    for member in ["member1", "member2", "member3"] {
        assert_eq!(env.addresses(member, "derived-foo"), ["10.1.0.5"]);
    }
    assert!(says(&env, "member1", "Ready").starts_with("True Exported"));
}

#[test]
fn import_of_karmadas_needs_no_companion() {
    let mut env = karmada_managed();
    let edge = json!({labels::NETWORK: "edge", labels::REACH: "node-ports"});
    env.on_hub(cluster("member1").annotated(&edge));
    import_on_hub(&mut env);
    env.on("member1", karmadas(export("foo"))).settle();
    assert_eq!(to_members(&env), Vec::<String>::new());
}

#[test]
fn where_karmadas_controllers_import_a_service_nothing_is_begun_and_that_is_said() {
    let mut env = karmada_managed();
    import_on_hub(&mut env);
    env.on("member1", karmadas(export("foo"))).settle();
    assert_eq!(to_members(&env), Vec::<String>::new());
    let reported = says(&env, "member1", "Ready");
    assert!(reported.starts_with(MESSAGE), "{reported}");
    assert!(
        reported.contains("leaves it to them in member1, member2, member3"),
        "{reported}"
    );
    assert!(
        reported.contains("kubectl -n shop delete serviceimport foo"),
        "{reported}"
    );

    // Karmada delivers it, and causeway leaves that alone, also after a restart.
    env.on("member2", karmadas(import("foo").port("http", 80)))
        .on("member2", karmadas(derived_foo()))
        .on("member2", collected("foo-abc", "10.1.0.5"))
        .settle();
    assert_eq!(to_members(&env), Vec::<String>::new());
    env.assert_at_rest();
    env.restart().settle();
    assert_eq!(to_members(&env), Vec::<String>::new());

    // Once that is gone, causeway imports it, whatever goes first.
    env.off_hub(Kind::Import, "foo")
        .off_hub(Kind::Service, "derived-foo");
    env.settle();
    assert_eq!(env.addresses("member3", "derived-foo"), ["10.1.0.5"]);
    assert_eq!(
        env.addresses("member2", "derived-foo"),
        Vec::<String>::new()
    );
    env.off("member2", Kind::Slice, "imported-member1-foo-abc");
    env.off("member2", Kind::Service, "derived-foo").settle();
    env.off("member2", Kind::Import, "foo").settle();
    assert_eq!(env.addresses("member2", "derived-foo"), ["10.1.0.5"]);
    let ready = says(&env, "member1", "Ready");
    assert_eq!(
        ready,
        "True Exported: the service is exported to the clusterset"
    );
    env.assert_at_rest();
}

#[test]
fn what_causeway_imported_first_is_kept_up_beside_karmadas_and_that_is_said() {
    let mut env = karmada_managed();
    env.on("member1", karmadas(export("foo"))).settle();
    let before = everything(&env);
    env.forget_writes();
    import_on_hub(&mut env);
    assert_eq!(everything(&env), before);
    assert_eq!(to_members(&env), Vec::<String>::new());
    let reported = says(&env, "member1", "Ready");
    assert!(reported.starts_with(MESSAGE), "{reported}");
    assert!(
        reported.contains("goes on in member1, member2, member3"),
        "{reported}"
    );
    env.on("member1", source("foo-abc", "10.1.0.6")).settle();
    for member in ["member1", "member2", "member3"] {
        assert_eq!(env.addresses(member, "derived-foo"), ["10.1.0.6"]);
    }
    let before = everything(&env);
    // A cluster that comes later is not begun with.
    env.member("member4").settle();
    assert!(get(&env, "member4", Kind::Service, "derived-foo").is_none());
    env.restart().settle();
    assert_eq!(everything(&env), before);
}

#[test]
fn of_each_source_there_is_one_manager_behind_a_service_of_causeways() {
    let mut env = karmada_managed();
    let addresses = |env: &Environment| env.addresses("member2", "derived-foo");
    env.on("member1", source("foo-def", "10.1.0.7"))
        .on("member1", karmadas(export("foo")))
        .settle();
    import_on_hub(&mut env);
    env.on("member2", collected("foo-abc", "10.1.0.4")).settle();
    assert_eq!(addresses(&env), ["10.1.0.5", "10.1.0.7"], "it is behind");
    env.forget_writes();
    env.on("member2", collected("foo-abc", "10.1.0.5")).settle();
    assert_eq!(addresses(&env), ["10.1.0.7"]);
    assert_eq!(to_members(&env), ["member2 delete EndpointSlice"]);
    // Karmada may be behind for a moment; what it has no slice of is copied as ever.
    env.on("member1", source("foo-abc", "10.1.0.6"))
        .on("member1", source("foo-ghi", "10.1.0.8"))
        .settle();
    assert_eq!(addresses(&env), ["10.1.0.7", "10.1.0.8"]);
    env.restart().settle();
    assert_eq!(addresses(&env), ["10.1.0.7", "10.1.0.8"]);
    // The ServiceImport goes from the hub, and causeway copies all of it before Karmada takes its
    // slices away.
    env.off_hub(Kind::Import, "foo").settle();
    assert_eq!(addresses(&env), ["10.1.0.6", "10.1.0.7", "10.1.0.8"]);
}

#[test]
fn copies_behind_what_karmada_overwrote_stay_until_its_own_slices_stand_there() {
    let mut env = karmada_managed();
    env.on("member1", source("foo-def", "10.1.0.7"))
        .on("member1", karmadas(export("foo")))
        .settle();
    import_on_hub(&mut env);
    for (kind, name) in [(Kind::Import, "foo"), (Kind::Service, "derived-foo")] {
        let value = get(&env, "member2", kind, name)
            .cloned()
            .expect("it is there");
        env.on("member2", karmadas(Object { kind, value }));
    }
    env.on("member1", source("foo-abc", "10.1.0.6")).settle();
    let service = derived(&env, "member2").clone();
    assert!(
        service["metadata"]["labels"][labels::HUB].is_null(),
        "{service}"
    );
    let addresses = |env: &Environment| env.addresses("member2", "derived-foo");
    assert_eq!(addresses(&env), ["10.1.0.6", "10.1.0.7"]);
    env.on("member2", collected("foo-def", "10.1.0.7"))
        .pass(AWAITED);
    assert_eq!(addresses(&env), ["10.1.0.6"]);
    env.on("member2", collected("foo-abc", "10.1.0.6"))
        .pass(AWAITED);
    assert_eq!(addresses(&env), Vec::<String>::new());
    assert_eq!(*derived(&env, "member2"), service);
    env.assert_at_rest();
}

#[test]
fn while_it_is_not_known_what_karmada_imports_nothing_is_begun_and_nothing_withdrawn() {
    let mut env = karmada_managed();
    env.on("member1", export("foo")).settle();
    env.says_imports = false;
    env.restart();
    let bar = slice("bar-abc", "bar")
        .port("http", 8080)
        .endpoint("10.1.0.9");
    env.on("member1", source("foo-abc", "10.1.0.6"))
        .on("member1", service("bar").port("http", 80))
        .on("member1", bar)
        .on("member1", export("bar"))
        .pass(AWAITED / 2);
    assert_eq!(env.addresses("member2", "derived-foo"), ["10.1.0.6"]);
    assert!(get(&env, "member2", Kind::Service, "derived-bar").is_none());
    // A hub that does not say is not waited for for ever.
    let failure = Failure::new(FailureKind::Forbidden, "no");
    env.observe_hub(HubEvent::Imports(crate::model::Signal::Failed(failure)));
    env.pass(AWAITED);
    assert_eq!(env.addresses("member2", "derived-bar"), ["10.1.0.9"]);
}
