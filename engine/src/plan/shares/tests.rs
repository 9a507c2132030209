//! Shares among three members: member1 is new, and member3 runs no pods.

use std::collections::BTreeMap;

use causeway::api::labels;
use serde_json::{Value, json};

use crate::fixtures::objects::{Kind, Object, cluster, export, foo, mcs, service, slice};
use crate::fixtures::{Environment, env};
use crate::messages::unapplied_shares;
use crate::observed::{Counted, ShareResult};
use crate::plan::tiers::HOLD;

const SHARE: &str = "cluster/member1=10%, rest";
const CONSUMER: &str = "member3";

/// Returns the slice of a member with so many ready endpoints.
fn pods(member: &str, ready: u8) -> Object {
    let number = member.trim_start_matches("member");
    let source = slice("foo-abc", "foo").port("http", 8080);
    (1..=ready).fold(source, |source, last| {
        source.endpoint_with(json!({
            "addresses": [format!("10.{number}.0.{last}")],
            "conditions": {"ready": true, "serving": true, "terminating": false},
        }))
    })
}

fn members([first, second]: [u8; 2]) -> Environment {
    let mut env = env();
    for (member, ready) in [("member1", first), ("member2", second), (CONSUMER, 0)] {
        env.member(member);
        if ready > 0 {
            env.on(member, pods(member, ready));
        }
    }
    env
}

fn shared(annotations: Value) -> Object {
    let providers = mcs("foo").providers(&["member1", "member2"]);
    providers.consumers(&[CONSUMER]).annotated(&annotations)
}

/// Returns an environment in which member1 and member2 have so many pods, and member3 uses them.
fn native(ready: [u8; 2], annotations: Value) -> Environment {
    let mut env = members(ready);
    env.on_hub(foo()).on_hub(shared(annotations));
    env.settle();
    env
}

/// Describes the copies of a consumer: `member1: 1 ready, 2 standby (cut); member2: 9 ready`.
fn roles(env: &Environment, consumer: &str, service: &str) -> String {
    let mut all = BTreeMap::new();
    for copy in env.copies(consumer, service) {
        let labels = copy.metadata.labels.unwrap_or_default();
        let annotations = copy.metadata.annotations.unwrap_or_default();
        let mut counts = BTreeMap::new();
        for endpoint in copy.endpoints {
            let conditions = endpoint.conditions.unwrap_or_default();
            let role = match (conditions.ready, conditions.serving, conditions.terminating) {
                (Some(true), Some(true), Some(false)) => "ready",
                (Some(false), Some(true), Some(true)) => "standby",
                _ => "odd",
            };
            *counts.entry(role).or_insert(0) += 1;
        }
        let counts = counts
            .into_iter()
            .map(|(role, count)| format!("{count} {role}"));
        let counts: Vec<_> = counts.collect();
        let cut = match annotations.contains_key(labels::SHARE) {
            true => " (cut)",
            false => "",
        };
        let provider = labels[labels::SOURCE_CLUSTER].clone();
        let text = format!(
            "{provider} {}: {}{cut}",
            copy.address_type,
            counts.join(", ")
        );
        all.insert((provider, copy.address_type), text);
    }
    all.into_values().collect::<Vec<_>>().join("; ")
}

fn share(value: &str) -> Value {
    json!({labels::SHARE: value})
}

#[test]
fn subset_of_each_provider_is_ready() {
    for (ready, value, expected) in [
        (
            [1, 45],
            SHARE,
            "member1 IPv4: 1 ready; member2 IPv4: 9 ready, 36 standby (cut)",
        ),
        (
            [10, 9],
            SHARE,
            "member1 IPv4: 1 ready, 9 standby (cut); member2 IPv4: 9 ready",
        ),
        (
            [5, 45],
            SHARE,
            "member1 IPv4: 5 ready; member2 IPv4: 45 ready",
        ),
        (
            [3, 3],
            "cluster/member1=0%, rest",
            "member1 IPv4: 3 standby (cut); member2 IPv4: 3 ready",
        ),
    ] {
        let mut env = native(ready, share(value));
        assert_eq!(roles(&env, CONSUMER, "foo"), expected, "{value}");
        env.assert_at_rest();
        // Without the annotation everything is as if it had never been there.
        env.on_hub(shared(json!({labels::SHARE: null}))).settle();
        let all = format!(
            "member1 IPv4: {} ready; member2 IPv4: {} ready",
            ready[0], ready[1]
        );
        assert_eq!(roles(&env, CONSUMER, "foo"), all);
    }
}

#[test]
fn exporters_get_their_shares_in_each_importer() {
    let mut env = members([10, 45]);
    env.on(CONSUMER, pods(CONSUMER, 45));
    for member in ["member1", "member2", CONSUMER] {
        env.on(member, foo());
        env.on(
            member,
            export("foo").annotated(&share("cluster/member1=5%, rest")),
        );
    }
    env.settle();
    let derived = crate::fixtures::key("foo").derived();
    let ready = |env: &Environment, consumer: &str| {
        let endpoints = env.copies(consumer, &derived.name).into_iter();
        let endpoints = endpoints.flat_map(|copy| copy.endpoints);
        let ready = endpoints.filter(|one| {
            one.addresses[0].starts_with("10.1.") && one.conditions.as_ref().unwrap().ready.unwrap()
        });
        ready
            .map(|one| one.addresses[0].clone())
            .collect::<Vec<_>>()
    };
    let all = ["member1", "member2", CONSUMER].map(|consumer| ready(&env, consumer));
    assert_eq!(all.each_ref().map(Vec::len), [5, 5, 5]);
    assert!(
        all[0] != all[1] || all[1] != all[2],
        "consumers choose different endpoints"
    );
    env.assert_at_rest();
}

#[test]
fn changed_endpoint_is_one_write() {
    let mut env = native([5, 45], share(SHARE));
    env.forget_writes();
    for (member, ready) in [
        ("member2", 44),
        ("member1", 4),
        ("member2", 43),
        ("member1", 5),
    ] {
        env.on(member, pods(member, ready)).settle();
    }
    assert_eq!(env.log(), vec!["member3 update EndpointSlice"; 4]);
}

#[test]
fn restarted_controller_continues_with_the_cuts() {
    let mut env = native([1, 45], share(SHARE));
    env.on("member1", pods("member1", 2)).settle();
    let expected =
        "member1 IPv4: 1 ready, 1 standby (cut); member2 IPv4: 9 ready, 36 standby (cut)";
    assert_eq!(roles(&env, CONSUMER, "foo"), expected);
    env.forget_writes().restart();
    env.settle();
    assert_eq!(env.log(), Vec::<String>::new());
    env.pass(HOLD);
    let expected = "member1 IPv4: 2 ready; member2 IPv4: 18 ready, 27 standby (cut)";
    assert_eq!(roles(&env, CONSUMER, "foo"), expected);
    env.assert_at_rest();
}

#[test]
fn unknown_provider_changes_no_share() {
    let mut env = native([1, 45], share(SHARE));
    env.lose("member2");
    env.restart();
    env.forget_writes();
    env.on("member1", pods("member1", 0)).pass(HOLD * 4);
    let ready = roles(&env, CONSUMER, "foo");
    assert!(
        ready.ends_with("member2 IPv4: 9 ready, 36 standby (cut)"),
        "{ready}"
    );
}

/// Returns a slice of member2 with 20 ready endpoints, whose port has this name.
fn part(name: &str, port: &str, first: u8) -> Object {
    let source = slice(name, "foo").port(port, 8080);
    (first..first + 20).fold(source, |source, last| {
        source.endpoint_with(json!({
            "addresses": [format!("10.2.0.{last}")],
            "conditions": {"ready": true, "serving": true, "terminating": false},
        }))
    })
}

/// Counts the ready endpoints of member2 in the consumer, all of whose copies record a cut.
fn ready_of_member2(env: &Environment) -> usize {
    let mut ready = 0;
    for copy in env.copies(CONSUMER, "foo") {
        let labels = copy.metadata.labels.unwrap_or_default();
        if labels[labels::SOURCE_CLUSTER] != "member2" {
            continue;
        }
        let annotations = copy.metadata.annotations.unwrap_or_default();
        assert!(annotations.contains_key(labels::SHARE), "{annotations:?}");
        let conditions = copy.endpoints.into_iter().filter_map(|one| one.conditions);
        ready += conditions.filter(|all| all.ready == Some(true)).count();
    }
    ready
}

#[test]
fn renamed_port_that_some_slices_lack_leaves_the_share() {
    let mut env = members([1, 0]);
    env.on("member2", part("foo-a", "http", 1))
        .on("member2", part("foo-b", "http", 101));
    env.on_hub(foo()).on_hub(shared(share(SHARE))).settle();
    assert_eq!(ready_of_member2(&env), 9);
    env.on_hub(service("foo").port("web", 80)).settle();
    assert_eq!(ready_of_member2(&env), 9);
    env.on("member2", part("foo-a", "web", 1)).settle();
    let copies = env.copies(CONSUMER, "foo").into_iter();
    let ports = copies.flat_map(|copy| copy.ports.unwrap_or_default());
    let names: Vec<_> = ports.filter_map(|port| port.name).collect();
    assert!(names.contains(&"web".to_owned()), "{names:?}");
    assert_eq!(ready_of_member2(&env), 9);
    env.on("member2", part("foo-b", "web", 101)).settle();
    assert_eq!(ready_of_member2(&env), 9);
}

/// Counts the ready endpoints of all providers in the consumer.
fn ready(env: &Environment) -> usize {
    let copies = env.copies(CONSUMER, "foo").into_iter();
    let conditions = copies.flat_map(|copy| copy.endpoints);
    let conditions = conditions.filter_map(|endpoint| endpoint.conditions);
    conditions.filter(|all| all.ready == Some(true)).count()
}

#[test]
fn provider_that_begins_during_a_renaming_gets_its_share() {
    for prefer in [None, Some("cluster/member1, any")] {
        let mut env = members([1, 0]);
        env.on("member2", part("foo-a", "http", 1));
        env.on_hub(foo());
        if prefer.is_some() {
            // Both slices of member2 have copies with standby endpoints.
            env.on("member2", part("foo-b", "http", 101));
            let annotations = json!({labels::SHARE: SHARE, labels::PREFER: prefer});
            env.on_hub(shared(annotations)).settle();
            assert_eq!(ready(&env), 1);
        }
        env.on("member2", part("foo-b", "web", 101));
        env.on_hub(shared(share(SHARE))).settle();
        assert_eq!(ready(&env), 10, "{prefer:?}");
        env.assert_at_rest();
    }
}

#[test]
fn share_is_not_applied_where_standby_endpoints_are_not_used() {
    let mut env = members([1, 45]);
    env.on_hub(cluster(CONSUMER).annotated(&json!({labels::STANDBY: "false"})));
    env.on_hub(foo()).on_hub(shared(share(SHARE)));
    env.settle();
    assert_eq!(
        roles(&env, CONSUMER, "foo"),
        "member1 IPv4: 1 ready; member2 IPv4: 45 ready"
    );
    let expected = "mcs.causeway.dev/share is not applied in member3: the data plane there uses no \
                    standby endpoints";
    let ready = env.says("foo", "Ready");
    assert!(
        ready.starts_with("True Ready: ") && ready.ends_with(expected),
        "{ready}"
    );
    assert_eq!(unapplied_shares(&ready), Some(expected));
    let more = format!("{ready}; standby, because out of reach: member2");
    assert_eq!(unapplied_shares(&more), Some(expected));
    assert_eq!(unapplied_shares("mcs.causeway.dev/share"), None);
}

#[test]
fn coarse_share_is_reported() {
    let env = native([1, 7], share(SHARE));
    let ready = env.says("foo", "Ready");
    assert!(!ready.contains("is wanted"), "{ready}");
    let env = native([1, 6], share(SHARE));
    let expected = "; in member3 member1 gets 14% of 7 endpoints where 10% is wanted: 1 of 1 ready";
    let ready = env.says("foo", "Ready");
    assert!(
        ready.starts_with("True Ready: ") && ready.ends_with(expected),
        "{ready}"
    );

    let mut env = members([1, 6]);
    for member in ["member1", "member2"] {
        env.on(member, foo());
        env.on(member, export("foo").annotated(&share(SHARE)));
    }
    env.settle();
    let ready = env.export_says("member1", "foo", "Ready");
    assert!(
        ready.ends_with("where 10% is wanted: 1 of 1 ready (and in 2 more)"),
        "{ready}"
    );
}

/// Returns the number of services by the result of their shares, and the largest deviation.
fn figures(env: &Environment) -> ([usize; 3], u64) {
    let count = |result| env.counts.get(&Counted::Shares(result)).copied();
    let counts = ShareResult::ALL.map(|result| count(result).unwrap_or_default());
    (counts, env.index.share_deviation())
}

#[test]
fn share_result_is_noted_until_the_share_is_removed() {
    let not_applied = json!({labels::STANDBY: "false"});
    for (ready, of_consumer, expected) in [
        ([1, 9], json!({}), ([1, 0, 0], 0)),
        ([1, 7], json!({}), ([1, 0, 0], 250)),
        ([1, 6], json!({}), ([0, 1, 0], 429)),
        ([1, 6], not_applied, ([0, 0, 1], 0)),
    ] {
        let mut env = members(ready);
        env.on_hub(cluster(CONSUMER).annotated(&of_consumer));
        env.on_hub(foo()).on_hub(shared(share(SHARE))).settle();
        assert_eq!(figures(&env), expected, "{ready:?}");
        env.on_hub(shared(json!({labels::SHARE: null}))).settle();
        assert_eq!(figures(&env), ([0; 3], 0), "{ready:?}");
    }
}

/// member2 consumes as well. In both consumers, one of seven pods is 4.29 points more than 10%.
#[test]
fn worst_result_of_all_consumers_is_noted_with_the_largest_deviation() {
    let not_applied = || json!({labels::STANDBY: "false"});
    for (unable, expected) in [
        ([None, None], ([0, 1, 0], 429)),
        ([Some(CONSUMER), None], ([0, 0, 1], 429)),
        ([Some("member2"), None], ([0, 0, 1], 429)),
        ([Some("member2"), Some(CONSUMER)], ([0, 0, 1], 0)),
    ] {
        let mut env = members([1, 6]);
        for consumer in unable.into_iter().flatten() {
            env.on_hub(cluster(consumer).annotated(&not_applied()));
        }
        let providers = mcs("foo").providers(&["member1", "member2"]);
        let exposed = providers.consumers(&["member2", CONSUMER]);
        env.on_hub(foo()).on_hub(exposed.annotated(&share(SHARE)));
        env.settle();
        assert_eq!(figures(&env), expected, "{unable:?}");
    }
}

#[test]
fn shares_hold_within_the_active_tiers() {
    let annotations = |prefer: &str| json!({labels::SHARE: SHARE, labels::PREFER: prefer});
    let env = native([5, 10], annotations("cluster/member1, any"));
    let expected = "member1 IPv4: 5 ready; member2 IPv4: 10 standby";
    assert_eq!(roles(&env, CONSUMER, "foo"), expected);
    let env = native([5, 9], annotations("any"));
    let expected = "member1 IPv4: 1 ready, 4 standby (cut); member2 IPv4: 9 ready";
    assert_eq!(roles(&env, CONSUMER, "foo"), expected);
}

#[test]
fn own_pods_are_used_whatever_their_share() {
    let mut env = members([10, 9]);
    let exposed = mcs("foo")
        .providers(&["member1", "member2"])
        .consumers(&["member2"]);
    env.on_hub(foo()).on_hub(exposed.annotated(&share(SHARE)));
    env.settle();
    assert_eq!(
        roles(&env, "member2", "foo"),
        "member1 IPv4: 1 ready, 9 standby (cut)"
    );
}

#[test]
fn each_address_family_has_the_shares() {
    let mut env = members([10, 0]);
    env.server(CONSUMER).families = vec!["IPv4", "IPv6"];
    env.on("member2", pods("member2", 9));
    for (member, digit, ready) in [("member1", 1, 4), ("member2", 2, 18)] {
        let made = slice("foo-six", "foo")
            .port("http", 8080)
            .with(json!({"addressType": "IPv6"}));
        let made = (1..=ready).fold(made, |made, last| {
            let conditions = json!({"ready": true, "serving": true, "terminating": false});
            let address = format!("fd00:{digit}::{last}");
            made.endpoint_with(json!({"addresses": [address], "conditions": conditions}))
        });
        env.on(member, made);
    }
    let dual = foo().with(json!({"spec": {"ipFamilyPolicy": "PreferDualStack"}}));
    env.on_hub(dual).on_hub(shared(share(SHARE)));
    env.settle();
    let expected = "member1 IPv4: 1 ready, 9 standby (cut); member1 IPv6: 2 ready, 2 standby (cut); \
                    member2 IPv4: 9 ready; member2 IPv6: 18 ready";
    assert_eq!(roles(&env, CONSUMER, "foo"), expected);
    env.assert_at_rest();
}

#[test]
fn headless_export_follows_no_share() {
    let mut env = members([3, 3]);
    for member in ["member1", "member2"] {
        env.on(member, foo().headless());
        env.on(
            member,
            export("foo").annotated(&share("cluster/member1=0%, rest")),
        );
    }
    env.settle();
    let valid = env.export_says("member1", "foo", "Valid");
    assert!(
        valid.contains("not followed: mcs.causeway.dev/share"),
        "{valid}"
    );
    let derived = crate::fixtures::key("foo").derived();
    let expected = "member1 IPv4: 3 ready; member2 IPv4: 3 ready";
    assert_eq!(roles(&env, CONSUMER, &derived.name), expected);
}

#[test]
fn import_records_the_share() {
    let mut env = members([10, 9]);
    for member in ["member1", "member2"] {
        env.on(member, foo());
        env.on(member, export("foo").annotated(&share(SHARE)));
    }
    env.settle();
    let import = env.members[CONSUMER].get(Kind::Import, "shop", "foo");
    let import = import.expect("an import");
    assert_eq!(import["metadata"]["annotations"][labels::SHARE], SHARE);
    // Nobody knows what an exporter that is lost requests.
    env.lose("member1");
    env.restart();
    env.pass(HOLD * 4);
    let derived = crate::fixtures::key("foo").derived();
    let roles = roles(&env, CONSUMER, &derived.name);
    assert!(
        roles.starts_with("member1 IPv4: 1 ready, 9 standby (cut)"),
        "{roles}"
    );
}
