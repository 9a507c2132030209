use std::time::Duration;

use crate::fixtures::objects::{Kind, Object, foo, mcs, service, slice, source};
use crate::fixtures::{Environment, GRACE, env, key};
use crate::model::{Failure, HubEvent, Signal};
use crate::observed::hub::LOST_PORTS_MAX;

const ALMOST: Duration = Duration::from_secs(290);

/// Returns an environment in which member1 provides `foo` to member2, ready at one second past
/// midnight.
fn exposed(hub_service: Object, exposure: Object) -> Environment {
    let mut env = env();
    env.member("member1").member("member2").on_hub(hub_service);
    env.on("member1", source("10.1.0.5"));
    env.on_hub(placed(exposure)).settle();
    assert!(env.is_ready("foo"), "{}", env.says("foo", "Ready"));
    env.forget_writes();
    env
}

fn placed(exposure: Object) -> Object {
    exposure.providers(&["member1"]).consumers(&["member2"])
}

fn ports(env: &Environment, cluster: &str) -> Vec<String> {
    let service = env.service(cluster, "foo").expect("a Service");
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

#[test]
fn a_service_that_is_replaced_by_force_costs_no_write_in_any_member() {
    let mut env = exposed(foo(), mcs("foo"));
    env.off_hub(Kind::Service, "foo").settle();
    let message = "False ServiceNotFound: the hub has no Service shop/foo; what the clusters hold is kept until \
                   2026-01-01T00:05:01Z";
    assert_eq!(
        (env.says("foo", "ServiceApplied"), env.says("foo", "Ready")),
        (message.to_owned(), message.to_owned())
    );
    assert_eq!(
        env.says("foo", "EndpointSliceApplied"),
        "True EndpointSliceAppliedSuccess: EndpointSlices are propagated to target clusters."
    );
    env.pass(ALMOST).on_hub(foo()).settle();
    assert_eq!(env.member_log(), Vec::<String>::new());
    assert!(env.is_ready("foo"));
    env.assert_at_rest();
}

fn services_fail() -> HubEvent {
    HubEvent::Services(Signal::Failed(Failure::timeout()))
}

#[test]
fn nothing_is_missed_while_the_hubs_services_are_not_watched() {
    let lacks = ["ServiceNotFound", "PortNotFound"];
    for (service, lack) in [None, Some(foo())].into_iter().zip(lacks) {
        let mut env = env();
        env.member("member1").member("member2");
        if let Some(service) = service {
            env.on_hub(service);
        }
        env.observe_hub(services_fail());
        env.on_hub(placed(mcs("foo").port("grpc", 81))).settle();
        assert_eq!(env.says("foo", "Ready"), "unknown");
        env.observe_hub(HubEvent::Services(Signal::Connected))
            .settle();
        assert_eq!(env.says("foo", "Ready"), "unknown");
        env.pass(Duration::from_secs(5)).settle();
        assert!(env.says("foo", "Ready").contains(lack));
        env.assert_at_rest();
    }
}

#[test]
fn no_grace_ends_while_the_hubs_services_are_not_watched() {
    let both = || service("foo").port("http", 80).port("grpc", 81);
    let listed = || mcs("foo").port("http", 80).port("grpc", 81);
    let lose_service: crate::fixtures::Change = |env| env.off_hub(Kind::Service, "foo");
    let lose_port: crate::fixtures::Change = |env| env.on_hub(foo());
    for (lose, left) in [(lose_service, None), (lose_port, Some(vec!["http 80"]))] {
        let mut env = exposed(both(), listed());
        lose(&mut env).settle();
        env.pass(GRACE / 2);
        for _ in 0..2 {
            env.observe_hub(services_fail()).pass(GRACE);
            env.observe_hub(HubEvent::Services(Signal::Connected))
                .pass(GRACE / 5);
            assert_eq!(env.member_log(), Vec::<String>::new());
        }
        env.pass(GRACE / 5);
        match left {
            Some(left) => assert_eq!(ports(&env, "member2"), left),
            None => assert!(env.service("member2", "foo").is_none()),
        }
        env.assert_at_rest();
    }
}

#[test]
fn what_was_withdrawn_stays_so_while_the_hubs_services_are_not_watched() {
    let mut env = exposed(foo(), mcs("foo"));
    env.off_hub(Kind::Service, "foo").settle();
    env.pass(GRACE).forget_writes();
    env.observe_hub(services_fail()).pass(GRACE);
    assert_eq!(env.member_log(), Vec::<String>::new());
    env.observe_hub(HubEvent::Services(Signal::Connected))
        .pass(GRACE);
    assert_eq!(env.member_log(), Vec::<String>::new());
    env.assert_at_rest();
}

#[test]
fn endpoints_still_move_while_the_hubs_service_is_missed() {
    let mut env = exposed(foo(), mcs("foo"));
    env.off_hub(Kind::Service, "foo")
        .on("member1", source("10.1.0.6"))
        .settle();
    assert_eq!(env.addresses("member2", "foo"), ["10.1.0.6"]);
}

#[test]
fn a_service_that_stays_away_is_withdrawn_after_the_grace_and_comes_back_whole() {
    let mut env = exposed(foo(), mcs("foo"));
    env.off_hub(Kind::Service, "foo").settle();
    env.pass(ALMOST);
    assert!(env.service("member1", "foo").is_some() && env.copies("member2", "foo").len() == 1);
    env.pass(GRACE - ALMOST);
    assert!(env.service("member1", "foo").is_none() && env.service("member2", "foo").is_none());
    assert_eq!(env.copies("member2", "foo"), []);
    let message = "the hub has no Service shop/foo; nothing of it is offered to other clusters";
    assert_eq!(
        env.says("foo", "Ready"),
        format!("False ServiceNotFound: {message}")
    );
    assert_eq!(
        env.says("foo", "EndpointSliceDispatched"),
        format!("False EndpointSliceDispatchedFailed: {message}")
    );
    assert_eq!(
        env.says("foo", "EndpointSliceApplied"),
        format!("False EndpointSliceAppliedFailed: {message}")
    );
    env.assert_at_rest();
    env.on_hub(foo()).settle();
    assert_eq!(env.addresses("member2", "foo"), ["10.1.0.5"]);
    assert!(env.is_ready("foo"));
}

#[test]
fn a_second_replacement_has_a_grace_of_its_own() {
    let mut env = exposed(foo(), mcs("foo"));
    env.off_hub(Kind::Service, "foo").settle();
    env.pass(ALMOST).on_hub(foo()).settle();
    env.off_hub(Kind::Service, "foo").settle();
    env.pass(ALMOST);
    assert_eq!(env.member_log(), Vec::<String>::new());
}

#[test]
fn held_port_stays_while_the_service_is_replaced_by_force() {
    let listed = || mcs("foo").port("http", 80);
    for exposure in [listed(), listed().port("grpc", 81)] {
        let mut env = exposed(foo().port("grpc", 81), exposure);
        let renamed = || service("foo").port("web", 80).port("grpc", 81);
        env.on_hub(renamed()).settle();
        env.off_hub(Kind::Service, "foo").settle();
        env.on_hub(renamed()).settle();
        assert_eq!(env.member_log(), Vec::<String>::new());
    }
}

#[test]
fn service_deleted_while_its_port_is_held_has_its_own_grace() {
    let listed = || mcs("foo").port("http", 80);
    for exposure in [listed(), listed().port("grpc", 81)] {
        let mut env = exposed(foo().port("grpc", 81), exposure);
        let renamed = service("foo").port("web", 80).port("grpc", 81);
        env.on_hub(renamed).settle();
        env.pass(ALMOST).off_hub(Kind::Service, "foo").settle();
        let until = "kept until 2026-01-01T00:09:52Z";
        assert!(env.says("foo", "Ready").ends_with(until));
        env.pass(ALMOST);
        assert_eq!(env.member_log(), Vec::<String>::new());
        env.pass(GRACE - ALMOST);
        assert!(env.service("member2", "foo").is_none());
        assert_eq!(env.copies("member2", "foo"), []);
    }
}

#[test]
fn service_that_comes_back_after_the_grace_exposes_no_port_that_it_lacks() {
    let mut env = exposed(foo(), mcs("foo").port("http", 80));
    env.off_hub(Kind::Service, "foo").settle();
    env.pass(GRACE).forget_writes();
    env.on_hub(service("foo").port("metrics", 9090)).settle();
    assert_eq!(env.member_log(), Vec::<String>::new());
    let message = "False PortNotFound: Service shop/foo has no port http 80; it has metrics 9090/TCP; the \
                   missing ports are not offered to other clusters";
    assert_eq!(env.says("foo", "Ready"), message);
}

#[test]
fn deleted_service_of_which_nothing_was_exposed_holds_nothing() {
    let mut env = exposed(foo(), mcs("foo").port("http", 80));
    env.on_hub(service("foo").port("web", 80)).settle();
    env.pass(GRACE).off_hub(Kind::Service, "foo").settle();
    let message = "False ServiceNotFound: the hub has no Service shop/foo; nothing of it is offered to other clusters";
    assert_eq!(env.says("foo", "Ready"), message);
}

#[test]
fn deleted_external_name_leaves_the_members_as_they_are() {
    let external = serde_json::json!({"type": "ExternalName", "externalName": "example.com"});
    let mut env = exposed(foo(), mcs("foo"));
    env.on_hub(foo().with(serde_json::json!({ "spec": external })))
        .settle();
    env.off_hub(Kind::Service, "foo").settle();
    env.on_hub(foo()).settle();
    assert_eq!(env.member_log(), Vec::<String>::new());
    assert!(env.is_ready("foo"), "{}", env.says("foo", "Ready"));
}

#[test]
fn port_of_both_objects_may_change_in_spec_ports_first() {
    for (name, number, restarts) in [
        ("web", 80, false),
        ("http", 8080, false),
        ("web", 8080, false),
        ("web", 80, true),
        ("http", 8080, true),
        ("web", 8080, true),
    ] {
        let mut env = exposed(foo(), mcs("foo").port("http", 80));
        env.on_hub(placed(mcs("foo").port(name, number))).settle();
        assert_eq!(env.member_log(), Vec::<String>::new());
        let message = format!(
            "False PortNotFound: Service shop/foo has no port {name} {number}; it has http 80/TCP; \
             what the clusters hold is kept until 2026-01-01T00:05:01Z"
        );
        assert_eq!(env.says("foo", "Ready"), message);
        if restarts {
            env.restart().settle();
            assert_eq!(env.member_log(), Vec::<String>::new());
        }
        env.on_hub(service("foo").port(name, number)).settle();
        // The former port is not exposed again.
        env.on_hub(service("foo").port("other", 81)).settle();
        for cluster in ["member1", "member2"] {
            assert_eq!(ports(&env, cluster), [format!("{name} {number}")]);
            let deletion = format!("{cluster} delete Service");
            assert!(!env.log().contains(&deletion), "{:?}", env.log());
        }
    }
}

#[test]
fn spec_ports_hold_renamed_ports_and_withdraw_removed_ones() {
    let listed = |entries: &[(&str, u16)]| {
        let all = entries.iter();
        let all = all.fold(mcs("foo"), |mcs, (name, number)| mcs.port(name, *number));
        placed(all)
    };
    let (http, web, grpc, ghost) = (("http", 80), ("web", 80), ("grpc", 81), ("ghost", 9));
    for (wait, changes, left) in [
        // An entry that is always missing ends no grace of a rename, and delays no removal.
        (
            GRACE,
            vec![listed(&[http, grpc, ghost]), listed(&[web, grpc, ghost])],
            vec!["grpc 81", "http 80"],
        ),
        (
            Duration::ZERO,
            vec![listed(&[http, grpc, ghost]), listed(&[http, ghost])],
            vec!["http 80"],
        ),
        // The Service lost the port before.
        (
            Duration::ZERO,
            vec![listed(&[http, grpc, ghost]), foo(), listed(&[http, ghost])],
            vec!["http 80"],
        ),
        // The port was withdrawn before.
        (
            Duration::ZERO,
            vec![placed(mcs("foo")), foo(), listed(&[web])],
            vec!["http 80"],
        ),
    ] {
        let mut env = exposed(foo().port("grpc", 81), listed(&[http, grpc]));
        // Until then the ports in the members count, as after a restart.
        env.pass(GRACE);
        for object in changes {
            env.pass(wait).on_hub(object).settle();
        }
        for cluster in ["member1", "member2"] {
            let mut exposed = ports(&env, cluster);
            exposed.sort();
            assert_eq!(exposed, left);
        }
    }
}

#[test]
fn port_renamed_while_the_spec_is_unreadable_has_its_grace() {
    let listed = |name| placed(mcs("foo").port(name, 80));
    let unreadable = || listed("http").with(serde_json::json!({"spec": {"types": ["Sideways"]}}));
    for changes in [
        vec![service("foo").port("web", 80), listed("http")],
        vec![listed("web")],
    ] {
        let mut env = exposed(foo(), listed("http"));
        // Until then the ports in the members count, as after a restart.
        env.pass(GRACE).on_hub(unreadable()).settle();
        assert!(!env.is_ready("foo"));
        for object in changes {
            env.on_hub(object).settle();
        }
        assert_eq!(env.member_log(), Vec::<String>::new());
        env.pass(GRACE);
        assert!(env.service("member2", "foo").is_none());
    }
}

#[test]
fn unchanged_spec_ports_record_no_loss() {
    let env = exposed(foo(), mcs("foo").port("http", 80));
    assert!(env.index.lost_service(&key("foo")).is_none());
}

#[test]
fn restart_exposes_no_port_that_a_member_alone_has() {
    let mut env = exposed(foo(), mcs("foo").port("http", 80));
    env.on_hub(placed(mcs("foo").port("http", 80).port("ghost", 9)))
        .settle();
    let ports_of_member = foo().port("admin", 9999).value["spec"]["ports"].clone();
    let part = serde_json::json!({"spec": {"ports": ports_of_member}});
    env.amend("member1", Kind::Service, "foo", part);
    env.restart().settle();
    for cluster in ["member1", "member2"] {
        assert_eq!(ports(&env, cluster), ["http 80"]);
    }
}

#[test]
fn newest_of_the_lost_ports_of_an_entry_is_held() {
    let mut env = exposed(foo(), mcs("foo").port("", 80));
    env.on_hub(service("foo").port("web", 80)).settle();
    env.on_hub(service("foo").port("other", 81)).settle();
    for cluster in ["member1", "member2"] {
        assert_eq!(ports(&env, cluster), ["web 80"]);
    }
}

#[test]
fn port_that_spec_ports_dropped_is_withdrawn_after_the_grace() {
    let mut env = exposed(foo(), mcs("foo").port("http", 80));
    env.on_hub(placed(mcs("foo").port("web", 80)));
    env.pass(ALMOST);
    env.on_hub(placed(mcs("foo").port("other", 80))).settle();
    assert_eq!(env.member_log(), Vec::<String>::new());
    env.pass(GRACE - ALMOST);
    assert!(env.service("member2", "foo").is_none() && env.copies("member2", "foo").is_empty());
}

#[test]
fn held_port_that_fits_into_no_service_is_left_out() {
    for name in ["http", ""] {
        let both = foo().port("alt", 8080);
        let mut env = exposed(both, mcs("foo").port("", 80).port("", 8080));
        env.on_hub(service("foo").port(name, 8080)).settle();
        for cluster in ["member1", "member2"] {
            assert_eq!(ports(&env, cluster), [format!("{name} 8080")]);
        }
    }
}

#[test]
fn a_listed_port_that_is_removed_is_held_and_then_withdrawn() {
    let both = || service("foo").port("http", 80).port("grpc", 81);
    let mut env = exposed(both(), mcs("foo").port("http", 80).port("grpc", 81));
    env.on_hub(foo()).settle();
    assert_eq!(env.member_log(), Vec::<String>::new());
    let message = "False PortNotFound: Service shop/foo has no port grpc 81; it has http 80/TCP; what the clusters hold is \
                   kept until 2026-01-01T00:05:01Z";
    assert_eq!(env.says("foo", "Ready"), message);
    env.pass(GRACE);
    for cluster in ["member1", "member2"] {
        assert_eq!(ports(&env, cluster), ["http 80"]);
    }
    let message = "False PortNotFound: Service shop/foo has no port grpc 81; it has http 80/TCP; the missing ports are not \
                   offered to other clusters";
    assert_eq!(env.says("foo", "Ready"), message);
    assert_eq!(env.addresses("member2", "foo"), ["10.1.0.5"]);
    env.on_hub(both()).settle();
    assert_eq!(ports(&env, "member2"), ["http 80", "grpc 81"]);
    assert!(env.is_ready("foo"));
}

#[test]
fn a_listed_port_that_comes_back_in_time_costs_nothing() {
    let both = || service("foo").port("grpc", 81).port("http", 80);
    let mut env = exposed(both(), mcs("foo").port("grpc", 81).port("http", 80));
    env.on_hub(foo()).settle();
    env.pass(ALMOST).on_hub(both()).settle();
    env.pass(GRACE);
    assert_eq!(env.member_log(), Vec::<String>::new());
    assert!(env.is_ready("foo"));
}

#[test]
fn a_second_loss_of_a_port_has_a_grace_of_its_own() {
    let both = || service("foo").port("http", 80).port("grpc", 81);
    let mut env = exposed(both(), mcs("foo").port("http", 80).port("grpc", 81));
    for _ in 0..3 {
        env.on_hub(foo()).settle();
        env.pass(ALMOST).on_hub(both()).settle();
    }
    assert_eq!(env.member_log(), Vec::<String>::new());
}

#[test]
fn a_port_that_is_renamed_is_held_under_its_name_where_the_name_was_listed() {
    let mut env = exposed(foo(), mcs("foo").port("http", 80));
    env.on_hub(service("foo").port("web", 80)).settle();
    assert_eq!(env.member_log(), Vec::<String>::new());
    let message = "False PortNotFound: Service shop/foo has no port http 80; it has web 80/TCP; what the clusters hold is \
                   kept until 2026-01-01T00:05:01Z";
    assert_eq!(env.says("foo", "Ready"), message);
    env.pass(GRACE);
    assert!(env.service("member2", "foo").is_none() && env.copies("member2", "foo").is_empty());
}

#[test]
fn a_port_that_is_renamed_is_renamed_everywhere_where_its_name_was_not_listed() {
    for exposure in [mcs("foo"), mcs("foo").port("", 80)] {
        let mut env = exposed(foo(), exposure);
        env.on_hub(service("foo").port("web", 80)).settle();
        assert_eq!(
            (ports(&env, "member1"), ports(&env, "member2")),
            (vec!["web 80".to_owned()], vec!["web 80".to_owned()])
        );
        // The provider's controllers have not renamed the slices yet: that proves nothing.
        assert_eq!(env.addresses("member2", "foo"), ["10.1.0.5"]);
        env.on(
            "member1",
            slice("foo-abc", "foo")
                .port("web", 8080)
                .endpoint("10.1.0.5"),
        )
        .settle();
        let copies = env.copies("member2", "foo");
        assert_eq!(
            copies[0]
                .ports
                .as_ref()
                .and_then(|ports| ports[0].name.clone())
                .as_deref(),
            Some("web")
        );
        env.assert_writes(|line| line != "member2 delete EndpointSlice");
        assert!(env.is_ready("foo"));
    }
}

#[test]
fn lost_ports_of_a_service_are_bounded_and_the_newest_are_held() {
    let numbers = || 1000..1400;
    let with_ports = |service: Object, round: usize| {
        numbers().fold(service, |service, number| {
            service.port(&format!("r{round}-{number}"), number)
        })
    };
    let listed = mcs("foo").port("http", 80);
    let listed = numbers().fold(listed, |mcs, number| mcs.port("", number));
    let mut env = exposed(with_ports(foo(), 0), listed);
    for round in 1..4 {
        env.on_hub(service("foo")).settle();
        env.on_hub(with_ports(service("foo"), round)).settle();
    }
    env.on_hub(service("foo")).pass(GRACE);
    env.on_hub(foo()).settle();
    assert_eq!(ports(&env, "member2"), ["http 80"]);
    env.on_hub(service("foo").port("web", 80)).settle();
    let lost = env.index.lost_service(&key("foo")).expect("losses");
    assert_eq!(lost.ports.len(), LOST_PORTS_MAX);
    assert_eq!(ports(&env, "member2"), ["http 80"], "within its grace");
}

#[test]
fn a_port_that_never_was_there_is_named_and_the_others_are_offered() {
    let mut env = env();
    env.member("member1").on_hub(foo());
    env.on_hub(mcs("foo").port("http", 80).port("htp", 8080))
        .settle();
    let message = "False PortNotFound: Service shop/foo has no port htp 8080; it has http 80/TCP; the missing ports are not \
                   offered to other clusters";
    assert_eq!(env.says("foo", "ServiceApplied"), message);
    assert_eq!(ports(&env, "member1"), ["http 80"]);
}

#[test]
fn a_service_that_never_was_there_is_missed_and_nothing_is_made() {
    let mut env = env();
    env.member("member1").on_hub(mcs("foo")).settle();
    let message = "False ServiceNotFound: the hub has no Service shop/foo; nothing of it is offered to other clusters";
    assert_eq!(env.says("foo", "Ready"), message);
    assert!(env.service("member1", "foo").is_none());
}

#[test]
fn an_external_name_is_not_exposed() {
    let external = service("foo")
        .with(serde_json::json!({"spec": {"type": "ExternalName", "externalName": "example.com"}}));
    let mut env = env();
    env.member("member1")
        .on_hub(external)
        .on_hub(mcs("foo"))
        .settle();
    let message = "False ServiceAppliedFailed: Service shop/foo is an ExternalName and has no endpoints; expose a Service \
                   with a selector";
    assert_eq!(env.says("foo", "Ready"), message);
    assert!(env.service("member1", "foo").is_none());
}

#[test]
fn a_restart_in_the_middle_of_a_grace_withdraws_nothing_before_a_grace_of_its_own() {
    let mut env = exposed(foo(), mcs("foo"));
    env.off_hub(Kind::Service, "foo").settle();
    env.pass(ALMOST).restart().settle();
    assert_eq!(env.member_log(), Vec::<String>::new());
    let message = "False ServiceNotFound: the hub has no Service shop/foo; what the clusters hold is kept until \
                   2026-01-01T00:09:52Z";
    assert_eq!(env.says("foo", "Ready"), message);
    env.pass(ALMOST);
    assert_eq!(env.member_log(), Vec::<String>::new());
    env.pass(GRACE - ALMOST);
    assert!(env.service("member1", "foo").is_none() && env.copies("member2", "foo").is_empty());
}

#[test]
fn a_restart_in_the_middle_of_a_ports_grace_holds_the_port() {
    let mut env = exposed(
        foo().port("grpc", 81),
        mcs("foo").port("http", 80).port("grpc", 81),
    );
    env.on_hub(foo()).settle();
    env.restart().settle();
    assert_eq!(env.member_log(), Vec::<String>::new());
    env.pass(ALMOST);
    assert_eq!(ports(&env, "member2"), ["http 80", "grpc 81"]);
    env.pass(GRACE - ALMOST);
    assert_eq!(ports(&env, "member2"), ["http 80"]);
    assert_eq!(env.addresses("member2", "foo"), ["10.1.0.5"]);
}

#[test]
fn endpoints_move_after_a_restart_though_a_listed_port_is_missing() {
    let mut env = exposed(
        foo().port("grpc", 81),
        mcs("foo").port("http", 80).port("grpc", 81),
    );
    env.on_hub(foo()).settle();
    env.pass(GRACE).restart().settle();
    env.on("member1", source("10.1.0.6")).settle();
    assert_eq!(env.addresses("member2", "foo"), ["10.1.0.6"]);
}

#[test]
fn restart_holds_a_renamed_port_beside_services_of_other_writers() {
    for renamed in [
        service("foo").port("web", 80),
        placed(mcs("foo").port("web", 80)),
    ] {
        let mut env = env();
        env.member("member1").member("member2").on_hub(foo());
        env.on("member1", foo()).on("member2", foo());
        env.on("member1", source("10.1.0.5"));
        env.on_hub(placed(mcs("foo").port("http", 80))).settle();
        assert_eq!(env.addresses("member2", "foo"), ["10.1.0.5"]);
        env.forget_writes();
        env.on_hub(renamed).restart().settle();
        env.pass(ALMOST);
        assert_eq!(env.member_log(), Vec::<String>::new());
        env.pass(GRACE - ALMOST);
        assert_eq!(env.copies("member2", "foo"), []);
    }
}
