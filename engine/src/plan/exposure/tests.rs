use std::time::Duration;

use crate::fixtures::objects::{Kind, Object, mcs, service, slice};
use crate::fixtures::{GRACE, World, world};

const ALMOST: Duration = Duration::from_secs(290);

/// `foo`, that member1 provides to member2, ready at one second past midnight.
fn exposed(hub_service: Object, exposure: Object) -> World {
    let mut world = world();
    world
        .member("member1")
        .member("member2")
        .on_hub(hub_service);
    world.on("member1", source("10.1.0.5"));
    world
        .on_hub(exposure.providers(&["member1"]).consumers(&["member2"]))
        .settle();
    assert!(world.is_ready("foo"), "{}", world.says("foo", "Ready"));
    world.forget_writes();
    world
}

fn source(address: &str) -> Object {
    slice("foo-abc", "foo").port("http", 8080).endpoint(address)
}

fn foo() -> Object {
    service("foo").port("http", 80)
}

fn ports(world: &World, cluster: &str) -> Vec<String> {
    let service = world.service(cluster, "foo").expect("a Service");
    let ports = service["spec"]["ports"].as_array().expect("ports").iter();
    ports
        .map(|port| {
            format!(
                "{} {}",
                port["name"].as_str().unwrap_or_default(),
                port["port"]
            )
        })
        .collect()
}

fn member_writes(world: &World) -> Vec<String> {
    world
        .log()
        .into_iter()
        .filter(|line| !line.starts_with("hub"))
        .collect()
}

#[test]
fn a_service_that_is_replaced_by_force_costs_no_write_in_any_member() {
    let mut world = exposed(foo(), mcs("foo"));
    world.off_hub(Kind::Service, "foo").settle();
    let message = "False ServiceNotFound: the hub has no Service shop/foo; what the clusters hold is kept until \
                   2026-01-01T00:05:01Z";
    assert_eq!(
        (
            world.says("foo", "ServiceApplied"),
            world.says("foo", "Ready")
        ),
        (message.to_owned(), message.to_owned())
    );
    assert_eq!(
        world.says("foo", "EndpointSliceApplied"),
        "True EndpointSliceAppliedSuccess: EndpointSlices are propagated to target clusters."
    );
    world.pass(ALMOST).on_hub(foo()).settle();
    assert_eq!(member_writes(&world), Vec::<String>::new());
    assert!(world.is_ready("foo"));
    world.assert_at_rest();
}

#[test]
fn endpoints_still_move_while_the_hubs_service_is_missed() {
    let mut world = exposed(foo(), mcs("foo"));
    world
        .off_hub(Kind::Service, "foo")
        .on("member1", source("10.1.0.6"))
        .settle();
    assert_eq!(world.addresses("member2", "foo"), ["10.1.0.6"]);
}

#[test]
fn a_service_that_stays_away_is_withdrawn_after_the_grace_and_comes_back_whole() {
    let mut world = exposed(foo(), mcs("foo"));
    world.off_hub(Kind::Service, "foo").settle();
    world.pass(ALMOST);
    assert!(world.service("member1", "foo").is_some() && world.copies("member2", "foo").len() == 1);
    world.pass(GRACE - ALMOST);
    assert!(world.service("member1", "foo").is_none() && world.service("member2", "foo").is_none());
    assert_eq!(world.copies("member2", "foo"), []);
    let message = "the hub has no Service shop/foo; nothing of it is offered to other clusters";
    assert_eq!(
        world.says("foo", "Ready"),
        format!("False ServiceNotFound: {message}")
    );
    assert_eq!(
        world.says("foo", "EndpointSliceDispatched"),
        format!("False EndpointSliceDispatchedFailed: {message}")
    );
    assert_eq!(
        world.says("foo", "EndpointSliceApplied"),
        format!("False EndpointSliceAppliedFailed: {message}")
    );
    world.assert_at_rest();
    world.on_hub(foo()).settle();
    assert_eq!(world.addresses("member2", "foo"), ["10.1.0.5"]);
    assert!(world.is_ready("foo"));
}

#[test]
fn a_second_replacement_has_a_grace_of_its_own() {
    let mut world = exposed(foo(), mcs("foo"));
    world.off_hub(Kind::Service, "foo").settle();
    world.pass(ALMOST).on_hub(foo()).settle();
    world.off_hub(Kind::Service, "foo").settle();
    world.pass(ALMOST);
    assert_eq!(member_writes(&world), Vec::<String>::new());
}

#[test]
fn a_listed_port_that_is_removed_is_held_and_then_withdrawn() {
    let both = || service("foo").port("http", 80).port("grpc", 81);
    let mut world = exposed(both(), mcs("foo").port("http", 80).port("grpc", 81));
    world.on_hub(foo()).settle();
    assert_eq!(member_writes(&world), Vec::<String>::new());
    let message = "False PortNotFound: Service shop/foo has no port grpc 81; it has http 80/TCP; what the clusters hold is \
                   kept until 2026-01-01T00:05:01Z";
    assert_eq!(world.says("foo", "Ready"), message);
    world.pass(GRACE);
    for cluster in ["member1", "member2"] {
        assert_eq!(ports(&world, cluster), ["http 80"]);
    }
    let message = "False PortNotFound: Service shop/foo has no port grpc 81; it has http 80/TCP; nothing of it is offered to \
                   other clusters";
    assert_eq!(world.says("foo", "Ready"), message);
    assert_eq!(world.addresses("member2", "foo"), ["10.1.0.5"]);
    world.on_hub(both()).settle();
    assert_eq!(ports(&world, "member2"), ["http 80", "grpc 81"]);
    assert!(world.is_ready("foo"));
}

#[test]
fn a_listed_port_that_comes_back_in_time_costs_nothing() {
    let both = || service("foo").port("grpc", 81).port("http", 80);
    let mut world = exposed(both(), mcs("foo").port("grpc", 81).port("http", 80));
    world.on_hub(foo()).settle();
    world.pass(ALMOST).on_hub(both()).settle();
    world.pass(GRACE);
    assert_eq!(member_writes(&world), Vec::<String>::new());
    assert!(world.is_ready("foo"));
}

#[test]
fn a_second_loss_of_a_port_has_a_grace_of_its_own() {
    let both = || service("foo").port("http", 80).port("grpc", 81);
    let mut world = exposed(both(), mcs("foo").port("http", 80).port("grpc", 81));
    for _ in 0..3 {
        world.on_hub(foo()).settle();
        world.pass(ALMOST).on_hub(both()).settle();
    }
    assert_eq!(member_writes(&world), Vec::<String>::new());
}

#[test]
fn a_port_that_is_renamed_is_held_under_its_name_where_the_name_was_listed() {
    let mut world = exposed(foo(), mcs("foo").port("http", 80));
    world.on_hub(service("foo").port("web", 80)).settle();
    assert_eq!(member_writes(&world), Vec::<String>::new());
    let message = "False PortNotFound: Service shop/foo has no port http 80; it has web 80/TCP; what the clusters hold is \
                   kept until 2026-01-01T00:05:01Z";
    assert_eq!(world.says("foo", "Ready"), message);
    world.pass(GRACE);
    assert!(world.service("member2", "foo").is_none() && world.copies("member2", "foo").is_empty());
}

#[test]
fn a_port_that_is_renamed_is_renamed_everywhere_where_its_name_was_not_listed() {
    for exposure in [mcs("foo"), mcs("foo").port("", 80)] {
        let mut world = exposed(foo(), exposure);
        world.on_hub(service("foo").port("web", 80)).settle();
        assert_eq!(
            (ports(&world, "member1"), ports(&world, "member2")),
            (vec!["web 80".to_owned()], vec!["web 80".to_owned()])
        );
        // The provider's controllers have not renamed the slices yet: that proves nothing.
        assert_eq!(world.addresses("member2", "foo"), ["10.1.0.5"]);
        world
            .on(
                "member1",
                slice("foo-abc", "foo")
                    .port("web", 8080)
                    .endpoint("10.1.0.5"),
            )
            .settle();
        let copies = world.copies("member2", "foo");
        assert_eq!(
            copies[0]
                .ports
                .as_ref()
                .and_then(|ports| ports[0].name.clone())
                .as_deref(),
            Some("web")
        );
        assert!(
            !world
                .log()
                .contains(&"member2 delete EndpointSlice".to_owned()),
            "{:?}",
            world.log()
        );
        assert!(world.is_ready("foo"));
    }
}

#[test]
fn a_port_that_never_was_there_is_named_and_the_others_are_offered() {
    let mut world = world();
    world.member("member1").on_hub(foo());
    world
        .on_hub(mcs("foo").port("http", 80).port("htp", 8080))
        .settle();
    let message = "False PortNotFound: Service shop/foo has no port htp 8080; it has http 80/TCP; nothing of it is offered \
                   to other clusters";
    assert_eq!(world.says("foo", "ServiceApplied"), message);
    assert_eq!(ports(&world, "member1"), ["http 80"]);
}

#[test]
fn a_service_that_never_was_there_is_missed_and_nothing_is_made() {
    let mut world = world();
    world.member("member1").on_hub(mcs("foo")).settle();
    let message = "False ServiceNotFound: the hub has no Service shop/foo; nothing of it is offered to other clusters";
    assert_eq!(world.says("foo", "Ready"), message);
    assert!(world.service("member1", "foo").is_none());
}

#[test]
fn an_external_name_is_not_exposed() {
    let external = service("foo")
        .with(serde_json::json!({"spec": {"type": "ExternalName", "externalName": "example.com"}}));
    let mut world = world();
    world
        .member("member1")
        .on_hub(external)
        .on_hub(mcs("foo"))
        .settle();
    let message = "False ServiceAppliedFailed: Service shop/foo is an ExternalName and has no endpoints; expose a Service \
                   with a selector";
    assert_eq!(world.says("foo", "Ready"), message);
    assert!(world.service("member1", "foo").is_none());
}

#[test]
fn a_restart_in_the_middle_of_a_grace_withdraws_nothing_before_a_grace_of_its_own() {
    let mut world = exposed(foo(), mcs("foo"));
    world.off_hub(Kind::Service, "foo").settle();
    world.pass(ALMOST).restart().settle();
    assert_eq!(member_writes(&world), Vec::<String>::new());
    let message = "False ServiceNotFound: the hub has no Service shop/foo; what the clusters hold is kept until \
                   2026-01-01T00:09:52Z";
    assert_eq!(world.says("foo", "Ready"), message);
    world.pass(ALMOST);
    assert_eq!(member_writes(&world), Vec::<String>::new());
    world.pass(GRACE - ALMOST);
    assert!(world.service("member1", "foo").is_none() && world.copies("member2", "foo").is_empty());
}

#[test]
fn a_restart_in_the_middle_of_a_ports_grace_holds_the_port() {
    let mut world = exposed(
        foo().port("grpc", 81),
        mcs("foo").port("http", 80).port("grpc", 81),
    );
    world.on_hub(foo()).settle();
    world.restart().settle();
    assert_eq!(member_writes(&world), Vec::<String>::new());
    world.pass(ALMOST);
    assert_eq!(ports(&world, "member2"), ["http 80", "grpc 81"]);
    world.pass(GRACE - ALMOST);
    assert_eq!(ports(&world, "member2"), ["http 80"]);
    assert_eq!(world.addresses("member2", "foo"), ["10.1.0.5"]);
}

#[test]
fn endpoints_move_after_a_restart_though_a_listed_port_is_missing() {
    let mut world = exposed(
        foo().port("grpc", 81),
        mcs("foo").port("http", 80).port("grpc", 81),
    );
    world.on_hub(foo()).settle();
    world.pass(GRACE).restart().settle();
    world.on("member1", source("10.1.0.6")).settle();
    assert_eq!(world.addresses("member2", "foo"), ["10.1.0.6"]);
}
