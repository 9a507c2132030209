use serde_json::{Value, json};

use super::*;
use crate::fixtures::objects::{Kind, export, mcs, service, slice};
use crate::fixtures::{Environment, env};

/// Returns the fields that API servers of that release drop from written objects, according to the
/// releases' own sources.
fn dropped(release: (u32, u32)) -> Vec<(Kind, &'static str)> {
    let until = [
        (Kind::Slice, "/endpoints/*/conditions/serving", 21),
        (Kind::Slice, "/endpoints/*/conditions/terminating", 21),
        (Kind::Slice, "/endpoints/*/hints", 23),
        (Kind::Slice, "/endpoints/*/hints/forNodes", 33),
        (Kind::Service, "/spec/internalTrafficPolicy", 21),
        (Kind::Service, "/spec/trafficDistribution", 30),
    ];
    let all = until.into_iter();
    all.filter(|(.., last)| release.1 <= *last)
        .map(|(kind, path, _)| (kind, path))
        .collect()
}

/// Returns an environment in which a member of the newest release provides `foo` and one of an
/// older release consumes it, by its own name and that of the clusterset.
fn consumed(release: (u32, u32)) -> Environment {
    let mut env = env();
    env.member("member1").silent_member("member2");
    env.server("member2").drops = dropped(release);
    env.identify("member2", "uid-of-member2", release)
        .list("member2");
    let foo = || {
        let policy = json!({"spec": {"trafficDistribution": "PreferSameNode", "internalTrafficPolicy": "Local"}});
        service("foo").port("http", 80).with(policy)
    };
    let terminating = json!({
        "addresses": ["10.1.0.5"], "zone": "a", "nodeName": "n", "hostname": "foo-0",
        "conditions": {"ready": false, "serving": true, "terminating": true},
    });
    let source = slice("foo-abc", "foo")
        .port("http", 8080)
        .endpoint_with(terminating)
        .endpoint("10.1.0.6");
    env.on_hub(foo()).on("member1", foo()).on("member1", source);
    env.on_hub(mcs("foo").providers(&["member1"]).consumers(&["member2"]));
    env.on("member1", export("foo")).settle();
    env
}

#[test]
fn what_a_release_drops_is_not_planned_for_it_so_that_nothing_is_written_twice() {
    for minor in 21..=36 {
        let mut env = consumed((1, minor));
        assert!(
            env.is_ready("foo"),
            "1.{minor}: {}",
            env.says("foo", "Ready")
        );
        let export = env.members["member1"]
            .get(Kind::Export, "shop", "foo")
            .expect("the export");
        assert_eq!(
            export["status"]["conditions"][2]["status"], "True",
            "1.{minor}: {export}"
        );
        for name in ["foo", "derived-foo"] {
            assert_eq!(
                env.addresses("member2", name),
                ["10.1.0.5", "10.1.0.6"],
                "1.{minor}"
            );
        }
        env.forget_writes()
            .pass(std::time::Duration::from_secs(120));
        assert_eq!(env.log(), Vec::<String>::new(), "1.{minor}");
        env.assert_at_rest();
        env.restart().settle();
        env.assert_at_rest();
    }
}

#[test]
fn what_a_release_stores_is_planned_for_it() {
    for (release, conditions, policy, preference, hints) in [
        (
            (1, 21),
            json!({"ready": false}),
            Value::Null,
            Value::Null,
            Value::Null,
        ),
        (
            (1, 22),
            json!({"ready": false, "serving": true, "terminating": true}),
            json!("Local"),
            Value::Null,
            Value::Null,
        ),
        (
            (1, 33),
            json!({"ready": false, "serving": true, "terminating": true}),
            json!("Local"),
            json!("PreferClose"),
            json!({"forZones": [{"name": "a"}]}),
        ),
        (
            (1, 34),
            json!({"ready": false, "serving": true, "terminating": true}),
            json!("Local"),
            json!("PreferSameNode"),
            json!({"forZones": [{"name": "a"}], "forNodes": [{"name": "member1.remote"}]}),
        ),
    ] {
        let env = consumed(release);
        let copies = env.copies("member2", "derived-foo");
        let endpoint = serde_json::to_value(&copies[0].endpoints[0]).expect("JSON");
        assert_eq!(endpoint["conditions"], conditions, "{release:?}");
        assert_eq!(endpoint["hints"], hints, "{release:?}");
        let derived = &env.service("member2", "derived-foo").expect("a Service")["spec"];
        assert_eq!(derived["internalTrafficPolicy"], policy, "{release:?}");
        assert_eq!(derived["trafficDistribution"], preference, "{release:?}");
    }
}

#[test]
fn a_member_that_is_upgraded_gets_what_it_stores_from_then_on() {
    let mut env = consumed((1, 21));
    env.server("member2").drops.clear();
    env.identify("member2", "uid-of-member2", (1, 22))
        .list("member2")
        .settle();
    let copies = env.copies("member2", "foo");
    let conditions = copies[0].endpoints[0]
        .conditions
        .clone()
        .expect("conditions");
    assert_eq!(
        (conditions.serving, conditions.terminating),
        (Some(true), Some(true))
    );
    env.assert_at_rest();
}

#[test]
fn each_field_is_stored_since_its_release_and_not_before() {
    for (field, gate, since) in SINCE {
        let stores =
            |major, minor| Capabilities(Some(KubernetesVersion::new(major, minor))).stores(field);
        assert!(stores(1, since) && !stores(1, since - 1), "{gate}");
        assert!(stores(2, 0) && Capabilities(None).stores(field), "{gate}");
    }
}
