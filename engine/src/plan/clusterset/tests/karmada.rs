//! Exports that Karmada's own controllers carry too: for a ServiceImport on the hub they make a Service `derived-<name>` there, and put both and
//! EndpointSlices into members.

use super::*;
use crate::model::HubEvent;

/// How long is waited for what the hub says of its Works and ServiceImports.
const AWAITED: Duration = Duration::from_secs(60);

const TOLD: &str = "False ManagedByKarmada: Karmada's own controllers import this service (ServiceImport shop/foo on the hub)";

/// An object as Karmada puts it into a member.
fn karmadas(object: Object) -> Object {
    object.with(json!({"metadata": {"labels": {labels::KARMADA_MANAGED: "true"}}}))
}

fn derived_foo() -> Object {
    let without_selector = json!({"spec": {"selector": null}});
    service("derived-foo")
        .port("http", 80)
        .with(without_selector)
}

fn import_foo() -> Object {
    let ports = json!([{"name": "http", "port": 80, "protocol": "TCP"}]);
    import("foo").with(json!({"spec": {"ports": ports}}))
}

/// Karmada's slice of the one that member1 has under that name.
fn collected(name: &str, address: &str) -> Object {
    let managed = json!({"metadata": {"labels": {labels::SLICE_MANAGED_BY: labels::KARMADA_SLICE_CONTROLLER}}});
    let name = format!("imported-member1-{name}");
    let slice = slice(&name, "derived-foo").port("http", 8080);
    karmadas(slice.endpoint(address).with(managed))
}

/// A hub with Karmada, and foo in member1 of three, exported by nobody.
fn beside_karmada() -> World {
    let mut world = world();
    world.hear_works(true);
    for member in ["member1", "member2", "member3"] {
        world.member(member);
    }
    world
        .on("member1", foo())
        .on("member1", source("foo-abc", "10.1.0.5"))
        .settle();
    world
}

/// Somebody makes a ServiceImport on the hub, and Karmada a Service.
fn import_on_hub(world: &mut World) {
    world.on_hub(import_foo()).on_hub(derived_foo()).settle();
}

/// The writes to members, but for the statuses of exports.
fn to_members(world: &World) -> Vec<String> {
    let log = world.log().into_iter();
    log.filter(|line| !line.starts_with("hub") && !line.ends_with("patch ServiceExport"))
        .collect()
}

#[test]
fn an_export_that_karmada_only_propagated_is_carried() {
    let mut world = beside_karmada();
    world.on("member1", karmadas(export("foo"))).settle();
    // So is one whose import Karmada only propagated, its own controllers being switched off.
    world.on_hub(import_foo()).settle();
    world.on("member2", karmadas(import_foo())).settle();
    for member in ["member1", "member2", "member3"] {
        assert_eq!(world.addresses(member, "derived-foo"), ["10.1.0.5"]);
    }
    assert!(says(&world, "member1", "Ready").starts_with("True Exported"));
}

#[test]
fn where_karmadas_controllers_import_a_service_nothing_is_begun_and_that_is_said() {
    let mut world = beside_karmada();
    import_on_hub(&mut world);
    world.on("member1", karmadas(export("foo"))).settle();
    assert_eq!(to_members(&world), Vec::<String>::new());
    let told = says(&world, "member1", "Ready");
    assert!(told.starts_with(TOLD), "{told}");
    assert!(
        told.contains("leaves it to them in member1, member2, member3"),
        "{told}"
    );
    assert!(
        told.contains("kubectl -n shop delete serviceimport foo"),
        "{told}"
    );

    // Karmada delivers it, and causeway leaves that alone, also after a restart.
    world
        .on("member2", karmadas(import_foo()))
        .on("member2", karmadas(derived_foo()))
        .on("member2", collected("foo-abc", "10.1.0.5"))
        .settle();
    assert_eq!(to_members(&world), Vec::<String>::new());
    world.assert_at_rest();
    world.restart().settle();
    assert_eq!(to_members(&world), Vec::<String>::new());

    // Once that is given up, causeway imports it, whatever goes first.
    world
        .off_hub(Kind::Import, "foo")
        .off_hub(Kind::Service, "derived-foo");
    world.settle();
    assert_eq!(world.addresses("member3", "derived-foo"), ["10.1.0.5"]);
    assert_eq!(
        world.addresses("member2", "derived-foo"),
        Vec::<String>::new()
    );
    world.off("member2", Kind::Slice, "imported-member1-foo-abc");
    world.off("member2", Kind::Service, "derived-foo").settle();
    world.off("member2", Kind::Import, "foo").settle();
    assert_eq!(world.addresses("member2", "derived-foo"), ["10.1.0.5"]);
    let ready = says(&world, "member1", "Ready");
    assert_eq!(
        ready,
        "True Exported: the service is exported to the clusterset"
    );
    world.assert_at_rest();
}

#[test]
fn what_causeway_imported_first_is_kept_up_beside_karmadas_and_that_is_said() {
    let mut world = beside_karmada();
    world.on("member1", karmadas(export("foo"))).settle();
    let before = everything(&world);
    world.forget_writes();
    import_on_hub(&mut world);
    assert_eq!(everything(&world), before);
    assert_eq!(to_members(&world), Vec::<String>::new());
    let told = says(&world, "member1", "Ready");
    assert!(told.starts_with(TOLD), "{told}");
    assert!(
        told.contains("goes on in member1, member2, member3"),
        "{told}"
    );
    world.on("member1", source("foo-abc", "10.1.0.6")).settle();
    for member in ["member1", "member2", "member3"] {
        assert_eq!(world.addresses(member, "derived-foo"), ["10.1.0.6"]);
    }
    let before = everything(&world);
    // A cluster that comes later is not begun with.
    world.member("member4").settle();
    assert!(get(&world, "member4", Kind::Service, "derived-foo").is_none());
    world.restart().settle();
    assert_eq!(everything(&world), before);
}

#[test]
fn of_each_source_there_is_one_carrier_behind_a_service_of_causeways() {
    let mut world = beside_karmada();
    let addresses = |world: &World| world.addresses("member2", "derived-foo");
    world
        .on("member1", source("foo-def", "10.1.0.7"))
        .on("member1", karmadas(export("foo")))
        .settle();
    import_on_hub(&mut world);
    world
        .on("member2", collected("foo-abc", "10.1.0.4"))
        .settle();
    assert_eq!(addresses(&world), ["10.1.0.5", "10.1.0.7"], "it is behind");
    world.forget_writes();
    world
        .on("member2", collected("foo-abc", "10.1.0.5"))
        .settle();
    assert_eq!(addresses(&world), ["10.1.0.7"]);
    assert_eq!(to_members(&world), ["member2 delete EndpointSlice"]);
    // Karmada may be behind for a moment; what it has no slice of is copied as ever.
    world
        .on("member1", source("foo-abc", "10.1.0.6"))
        .on("member1", source("foo-ghi", "10.1.0.8"))
        .settle();
    assert_eq!(addresses(&world), ["10.1.0.7", "10.1.0.8"]);
    world.restart().settle();
    assert_eq!(addresses(&world), ["10.1.0.7", "10.1.0.8"]);
    // The ServiceImport goes from the hub, and causeway carries all of it before Karmada takes its slices away.
    world.off_hub(Kind::Import, "foo").settle();
    assert_eq!(addresses(&world), ["10.1.0.6", "10.1.0.7", "10.1.0.8"]);
}

#[test]
fn copies_behind_what_karmada_overwrote_stay_until_its_own_slices_stand_there() {
    let mut world = beside_karmada();
    world
        .on("member1", source("foo-def", "10.1.0.7"))
        .on("member1", karmadas(export("foo")))
        .settle();
    import_on_hub(&mut world);
    for (kind, name) in [(Kind::Import, "foo"), (Kind::Service, "derived-foo")] {
        let value = get(&world, "member2", kind, name)
            .cloned()
            .expect("it is there");
        world.on("member2", karmadas(Object { kind, value }));
    }
    world.on("member1", source("foo-abc", "10.1.0.6")).settle();
    let service = derived(&world, "member2").clone();
    assert!(
        service["metadata"]["labels"][labels::HUB].is_null(),
        "{service}"
    );
    let addresses = |world: &World| world.addresses("member2", "derived-foo");
    assert_eq!(addresses(&world), ["10.1.0.6", "10.1.0.7"]);
    world
        .on("member2", collected("foo-def", "10.1.0.7"))
        .pass(AWAITED);
    assert_eq!(addresses(&world), ["10.1.0.6"]);
    world
        .on("member2", collected("foo-abc", "10.1.0.6"))
        .pass(AWAITED);
    assert_eq!(addresses(&world), Vec::<String>::new());
    assert_eq!(*derived(&world, "member2"), service);
    world.assert_at_rest();
}

#[test]
fn while_it_is_not_known_what_karmada_imports_nothing_is_begun_and_nothing_withdrawn() {
    let mut world = beside_karmada();
    world.on("member1", export("foo")).settle();
    world.says_imports = false;
    world.restart();
    let bar = slice("bar-abc", "bar")
        .port("http", 8080)
        .endpoint("10.1.0.9");
    world
        .on("member1", source("foo-abc", "10.1.0.6"))
        .on("member1", service("bar").port("http", 80))
        .on("member1", bar)
        .on("member1", export("bar"))
        .pass(AWAITED / 2);
    assert_eq!(world.addresses("member2", "derived-foo"), ["10.1.0.6"]);
    assert!(get(&world, "member2", Kind::Service, "derived-bar").is_none());
    // A hub that does not say is not waited for for ever.
    let failure = Failure::new(FailureKind::Forbidden, "no");
    world.hear_hub(HubEvent::Imports(crate::model::Signal::Failed(failure)));
    world.pass(AWAITED);
    assert_eq!(world.addresses("member2", "derived-bar"), ["10.1.0.9"]);
}
