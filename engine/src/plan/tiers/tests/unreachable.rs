//! Unreachable providers, and the requests of a service for them.

use std::time::Duration;

use causeway::api::condition::find;
use causeway::api::labels;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use k8s_openapi::jiff::Timestamp;
use serde_json::json;

use super::preferences::{
    MEMBERS, derived_standings, exported, native, source, standings, three, unusable,
};
use crate::fixtures::annotations::located;
use crate::fixtures::objects::{Kind, Object, cluster, export, foo, mcs};
use crate::fixtures::server::decode;
use crate::fixtures::{Change, Environment, key, name};
use crate::model::slice::Exposure;
use crate::model::{
    Configuration, ConfigurationError, Failure, FailureKind, MemberEvent, MemberState, Signal,
};
use crate::plan::provider_use::{ProviderUse, Unused};
use causeway::domain::Unreachable;

fn unused(env: &Environment, provider: &str) -> Option<Unused> {
    env.plan("foo").uses.unused(&name(provider))
}

const MINUTE: Duration = Duration::from_secs(60);

#[test]
fn the_endpoints_of_a_provider_out_of_reach_stay_become_standby_or_go_as_it_is_asked_for() {
    for (answer, soon, later) in [
        (
            None,
            "member2: ready, member3: ready",
            "member2: ready, member3: ready",
        ),
        (
            Some("keep"),
            "member2: ready, member3: ready",
            "member2: ready, member3: ready",
        ),
        (
            Some("standby"),
            "member2: ready, member3: ready",
            "member2: ready, member3: standby",
        ),
        (
            Some("withdraw-after=10m"),
            "member2: ready, member3: ready",
            "member2: ready, member3: ready",
        ),
        (
            Some("withdraw-after=90s"),
            "member2: ready, member3: ready",
            "member2: ready",
        ),
    ] {
        let mut env = native(json!({labels::UNREACHABLE: answer}));
        env.lose("member3").pass(MINUTE / 2);
        assert_eq!(standings(&env, "member1"), soon, "{answer:?}");
        env.pass(MINUTE * 2);
        assert_eq!(standings(&env, "member1"), later, "{answer:?}");
        env.pass(MINUTE * 60 * 24);
        let last = match answer {
            Some("withdraw-after=10m") => "member2: ready",
            _ => later,
        };
        assert_eq!(standings(&env, "member1"), last, "{answer:?}");
        env.list("member3").settle();
        assert_eq!(standings(&env, "member1"), soon, "{answer:?}");
        env.assert_at_rest();
    }
}

#[test]
fn the_flag_answers_where_the_service_does_not() {
    let mut env = native(json!({}));
    env.settings.unreachable = Unreachable::Standby;
    env.lose("member3").pass(MINUTE * 2);
    assert_eq!(
        standings(&env, "member1"),
        "member2: ready, member3: standby"
    );
    let mut env = native(json!({labels::UNREACHABLE: "keep"}));
    env.settings.unreachable = Unreachable::Standby;
    env.settings.provider_ttl = Some(MINUTE);
    env.lose("member3").pass(MINUTE * 2);
    assert_eq!(standings(&env, "member1"), "member2: ready, member3: ready");
}

#[test]
fn exporters_are_answered_alike() {
    let mut env = exported(json!({labels::UNREACHABLE: "standby"}));
    env.lose("member3").pass(MINUTE * 2);
    let expected = "member1: ready, member2: ready, member3: standby";
    assert_eq!(derived_standings(&env, "member1"), expected);
    env.list("member3").settle();
    let expected = "member1: ready, member2: ready, member3: ready";
    assert_eq!(derived_standings(&env, "member1"), expected);
}

#[test]
fn one_out_of_reach_does_not_count_among_the_ready_ones_of_its_tier() {
    let annotations =
        json!({labels::PREFER: "cluster/member2, any", labels::UNREACHABLE: "standby"});
    let mut env = native(annotations);
    assert_eq!(
        standings(&env, "member1"),
        "member2: ready, member3: standby"
    );
    env.on("member1", source("member1", &[])).settle();
    env.lose("member2").pass(MINUTE * 2);
    assert_eq!(
        standings(&env, "member1"),
        "member2: standby, member3: ready"
    );
}

#[test]
fn unreachable_provider_that_no_tier_takes_is_not_used() {
    let annotations = json!({labels::PREFER: "cluster/member2", labels::UNREACHABLE: "standby"});
    let mut env = native(annotations);
    assert_eq!(standings(&env, "member1"), "member2: ready");
    env.lose("member3").pass(MINUTE * 2);
    assert_eq!(standings(&env, "member1"), "member2: ready");
    env.lose("member2").pass(MINUTE * 2);
    assert_eq!(standings(&env, "member1"), "member2: standby");
}

#[test]
fn consumer_without_a_provider_in_its_tiers_is_unserved_during_an_outage() {
    let annotations = json!({labels::PREFER: "cluster/member9", labels::UNREACHABLE: "standby"});
    let mut env = native(annotations);
    env.lose("member3").pass(MINUTE * 2);
    assert_eq!(standings(&env, "member1"), "");
    let plan = env.plan("foo");
    let copies = plan.copies_in(Exposure::Native, &name("member1"));
    assert!(copies.is_some_and(|copies| copies.unserved().is_some()));
}

#[test]
fn where_standby_endpoints_are_not_used_the_last_ones_stay_ready() {
    let mut env = native(json!({labels::UNREACHABLE: "standby"}));
    env.on("member1", source("member1", &[]));
    let no =
        json!({"metadata": {"annotations": {labels::STANDBY: "false"}}, "spec": {"region": "eu"}});
    env.on_hub(crate::fixtures::objects::cluster("member1").with(no))
        .settle();
    env.lose("member2").pass(MINUTE * 2);
    assert_eq!(
        standings(&env, "member1"),
        "member2: not ready (marked), member3: ready"
    );
    env.lose("member3").pass(MINUTE * 2);
    assert_eq!(standings(&env, "member1"), "member2: ready, member3: ready");
}

#[test]
fn what_is_headless_keeps_its_endpoints_for_dns_shows_ready_ones_alone() {
    let mut env = native(json!({labels::UNREACHABLE: "standby"}));
    env.on_hub(foo().headless()).settle();
    env.lose("member3").pass(MINUTE * 2);
    let kept = "member2: ready, member3: ready";
    assert_eq!(standings(&env, "member1"), kept);
    env.list("member3").settle();
    let said = env.says("foo", "Ready");
    let expected = "not followed: mcs.causeway.dev/unreachable, for the Service is headless";
    assert!(said.contains(expected), "{said}");
    let mut env = three();
    for member in MEMBERS {
        env.on(member, foo().headless());
        let standby = json!({labels::UNREACHABLE: "standby"});
        env.on(member, export("foo").annotated(&standby));
    }
    env.settle().lose("member3").pass(MINUTE * 2);
    let kept = "member1: ready, member2: ready, member3: ready";
    assert_eq!(derived_standings(&env, "member1"), kept);
}

#[test]
fn consumer_whose_own_service_is_headless_keeps_its_endpoints() {
    for (annotation, value) in [
        (labels::UNREACHABLE, "standby"),
        (labels::PREFER, "local, any"),
        (labels::SHARE, "cluster/member2=10%, rest"),
    ] {
        let mut env = three();
        env.on("member1", foo().headless())
            .on_hub(foo())
            .on_hub(mcs("foo").annotated(&json!({annotation: value})))
            .settle();
        env.lose("member3").pass(MINUTE * 2);
        let kept = "member2: ready, member3: ready";
        assert_eq!(standings(&env, "member1"), kept, "{annotation}");
        let plan = env.plan("foo");
        let chooses = ["member1", "member2"].map(|consumer| {
            let copies = plan.copies_in(Exposure::Native, &name(consumer));
            copies.is_some_and(|copies| copies.tiers.is_some() || copies.shares.is_some())
        });
        assert_eq!(chooses, [false, true], "{annotation}");
    }
}

#[test]
fn stored_early_withdrawal_waits_for_the_minimum() {
    let mut env = native(json!({labels::UNREACHABLE: "withdraw-after=0s"}));
    let said = env.says("foo", "Ready");
    for expected in ["must be at least 60s", "withdraw-after=60s is used instead"] {
        assert!(said.contains(expected), "{said}");
    }
    env.lose("member3").pass(MINUTE - Duration::from_secs(1));
    assert_eq!(unused(&env, "member3"), None);
    env.pass(Duration::from_secs(1));
    assert_eq!(unused(&env, "member3"), Some(Unused::WithdrawAfter));
}

#[test]
fn ready_tells_who_is_out_of_reach_and_what_that_means() {
    for (answer, expected_use, expected) in [
        (
            "standby",
            ProviderUse::Standby,
            "standby, because out of reach: member3",
        ),
        (
            "withdraw-after=1m",
            ProviderUse::Unused(Unused::WithdrawAfter),
            "member3 (out of reach for longer than withdraw-after)",
        ),
    ] {
        let mut env = native(json!({labels::UNREACHABLE: answer}));
        env.lose("member3").pass(MINUTE * 2);
        let uses = env.plan("foo").uses;
        let used = uses.get(&env.index, &key("foo"), &name("member3"));
        assert_eq!(used, expected_use);
        let said = env.says("foo", "Ready");
        assert!(
            said.contains("member3 unreachable since"),
            "{said}: {expected}"
        );
    }
}

#[test]
fn endpoints_of_an_unreachable_provider_stay_where_the_service_cannot_use_the_others() {
    let mut env = native(json!({labels::UNREACHABLE: "standby"}));
    let without = json!({"metadata": {"annotations": {labels::STANDBY: "false"}}});
    env.on_hub(cluster("member1").with(without));
    env.on("member1", source("member1", &[]));
    let (_, six, _) = unusable().into_iter().next().expect("a case");
    env.on("member2", six);
    env.lose("member3").pass(MINUTE * 2);
    assert_eq!(standings(&env, "member1"), "member2: ready, member3: ready");
}

/// Returns the Cluster of member3, whose Ready condition has been False for a reason since a time.
fn recorded(reason: &str, since: &str) -> Object {
    let ready = json!({"type": "Ready", "status": "False", "reason": reason, "message": "",
        "lastTransitionTime": since, "observedGeneration": 1});
    located("member3").with(json!({"status": {"conditions": [ready]}}))
}

#[test]
fn restart_continues_the_outage_that_the_cluster_records() {
    let ten = MINUTE * 10;
    let (second, past, future) = (
        Duration::from_secs(1),
        "1970-01-01T00:00:00Z",
        "2999-01-01T00:00:00Z",
    );
    // Outage before the restart, what somebody writes into the Cluster's status, and the rest of
    // the patience.
    for (outage, status, rest) in [
        (Duration::ZERO, None, ten),
        (MINUTE * 6, None, MINUTE * 4),
        // The provider may have been back while nobody looked.
        (ten - second, None, MINUTE),
        (MINUTE * 6, Some(("Unreachable", past)), MINUTE),
        (MINUTE * 6, Some(("Unreachable", future)), ten),
        (MINUTE * 6, Some(("Refused", past)), ten),
        (MINUTE * 6, Some(("ClusterNotReachable", past)), ten),
    ] {
        let mut env = native(json!({labels::UNREACHABLE: "withdraw-after=10m"}));
        env.keeps_clusters = true;
        env.restart().settle();
        env.lose("member3");
        if outage > Duration::ZERO {
            env.pass(outage);
        }
        if let Some((reason, since)) = status {
            env.on_hub(recorded(reason, since));
        }
        let case = format!("{outage:?} {status:?}");
        env.restart().pass(rest - second);
        let kept = "member2: ready, member3: ready";
        assert_eq!(standings(&env, "member1"), kept, "{case}");
        env.pass(second);
        assert_eq!(standings(&env, "member1"), "member2: ready", "{case}");
    }
}

#[test]
fn changed_address_of_a_dead_provider_restores_no_endpoint() {
    for (answer, ttl, lost) in [
        (Some("withdraw-after=10m"), None, "member2: ready"),
        (Some("standby"), None, "member2: ready, member3: standby"),
        (None, Some(MINUTE * 10), "member2: ready"),
    ] {
        let mut env = native(json!({labels::UNREACHABLE: answer}));
        env.settings.provider_ttl = ttl;
        env.lose("member3").pass(MINUTE * 11);
        assert_eq!(standings(&env, "member1"), lost, "{answer:?}");
        let state = env.index.member_state(&name("member3"));
        env.index.engage(&name("member3"), 2, None);
        env.settle();
        assert_eq!(standings(&env, "member1"), lost, "{answer:?}");
        assert_eq!(env.index.member_state(&name("member3")), state);
        env.lose("member3").pass(MINUTE);
        assert_eq!(standings(&env, "member1"), lost, "{answer:?}");
        assert_eq!(env.index.member_state(&name("member3")), state);
        env.introduce("member3").list("member3").settle();
        let restored = "member2: ready, member3: ready";
        assert_eq!(standings(&env, "member1"), restored, "{answer:?}");
        let state = env.index.member_state(&name("member3"));
        assert_eq!(state, MemberState::Synced, "{answer:?}");
    }
}

/// Refuses member3 for its configuration, or because another cluster answers at a new address.
fn refuse(env: &mut Environment, by_configuration: bool) {
    let (member3, now) = (name("member3"), env.now());
    match by_configuration {
        true => {
            let refused = Configuration::Refused(ConfigurationError::NoSecretRef);
            env.index.note_configuration(&member3, refused, now);
        }
        false => {
            let known = env.index.member(&member3).expect("a member");
            let uid = known.identity().map(|identity| identity.uid.clone());
            env.index.engage(&member3, 2, uid);
            env.identify("member3", "uid-of-a-stranger", (1, 34))
                .observe("member3", MemberEvent::Probed(Ok(())));
        }
    }
    env.settle();
    let state = env.index.member_state(&member3);
    assert!(matches!(state, MemberState::Refused(_)), "{state:?}");
}

#[test]
fn refusal_of_a_dead_provider_neither_restores_nor_withdraws_endpoints() {
    let both = "member2: ready, member3: ready";
    for (answer, ttl, lost) in [
        (Some("withdraw-after=10m"), None, "member2: ready"),
        (Some("standby"), None, "member2: ready, member3: standby"),
        (None, Some(MINUTE * 10), "member2: ready"),
    ] {
        for (by_configuration, outage, expected) in [
            (true, MINUTE * 11, lost),
            (false, MINUTE * 11, lost),
            (true, Duration::from_secs(20), both),
            (false, Duration::from_secs(20), both),
        ] {
            let mut env = native(json!({labels::UNREACHABLE: answer}));
            env.settings.provider_ttl = ttl;
            env.lose("member3").pass(outage);
            let case = format!("{answer:?}, {by_configuration}, {outage:?}");
            assert_eq!(standings(&env, "member1"), expected, "{case}");
            refuse(&mut env, by_configuration);
            assert_eq!(standings(&env, "member1"), expected, "{case}");
            env.pass(MINUTE * 30);
            assert_eq!(standings(&env, "member1"), expected, "{case}");
            // Another address at which nothing answers: the outage continues where it was.
            env.index.engage(&name("member3"), 3, None);
            let (valid, now) = (Configuration::Valid, env.now());
            env.index.note_configuration(&name("member3"), valid, now);
            env.lose("member3").settle();
            assert_eq!(standings(&env, "member1"), expected, "{case}");
            env.pass(MINUTE * 11);
            assert_eq!(standings(&env, "member1"), lost, "{case}");
            env.introduce("member3").list("member3").settle();
            assert_eq!(standings(&env, "member1"), both, "{case}");
        }
    }
}

#[test]
fn restart_leaves_the_start_of_an_outage_in_statuses() {
    let mut env = native(json!({labels::UNREACHABLE: "withdraw-after=10m"}));
    env.keeps_clusters = true;
    env.restart().settle();
    env.lose("member3").pass(MINUTE * 5);
    let said = env.says("foo", "Ready");
    assert!(said.contains("member3 unreachable since"), "{said}");
    env.forget_writes().restart().pass(MINUTE * 2);
    assert_eq!(env.log(), Vec::<String>::new());
    assert_eq!(env.says("foo", "Ready"), said);
    // Once it has answered, the record no longer counts.
    env.reconnect("member3")
        .identify("member3", "uid-of-member3", (1, 34));
    env.list("member3").lose("member3").pass(MINUTE * 9);
    assert_eq!(unused(&env, "member3"), None);
}

/// Returns the reason of Ready of member3's Cluster, and its last transition.
fn ready(env: &Environment) -> (String, Timestamp) {
    let cluster = env.hub.get(Kind::Cluster, "", "member3");
    let cluster = cluster.expect("a Cluster");
    let all: Vec<Condition> = decode(cluster["status"]["conditions"].clone());
    let ready = find(&all, "Ready").expect("a condition").clone();
    (ready.reason, ready.last_transition_time.0)
}

/// Returns clusters of which member3 has been unreachable for five minutes.
fn lost() -> Environment {
    let mut env = native(json!({}));
    env.keeps_clusters = true;
    env.restart().settle();
    env.lose("member3").pass(MINUTE * 5);
    env
}

#[test]
fn restart_leaves_a_recorded_outage_until_the_member_answers() {
    let mut env = lost();
    let lost = ready(&env);
    assert_eq!(lost.0, "Unreachable");
    // The next process has tried no request yet.
    env.restart().engage("member3").settle();
    assert_eq!(ready(&env), lost);
    env.lose("member3").pass(MINUTE);
    assert_eq!(ready(&env), lost);
    env.introduce("member3").list("member3").settle();
    let (synced, since) = ready(&env);
    assert_eq!(synced, "Synced");
    assert!(since > lost.1);
}

#[test]
fn another_reason_than_a_recorded_outage_does_not_stay() {
    let mut env = lost();
    env.restart().engage("member3").settle();
    assert_eq!(ready(&env).0, "Unreachable");
    let other = json!({
        "type": "Ready", "status": "False", "reason": "Refused", "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    });
    let written = json!({"status": {"conditions": [other]}});
    env.on_hub(cluster("member3").with(written)).settle();
    assert_eq!(ready(&env).0, "Syncing");
}

#[test]
fn outage_begins_when_the_member_is_lost_whatever_was_wrong_before() {
    let wrong: [Change; 2] = [
        |env| env.identify("member3", "uid-of-a-stranger", (1, 34)),
        unwatched,
    ];
    for wrong in wrong {
        let mut env = native(json!({}));
        env.keeps_clusters = true;
        wrong(&mut env).pass(MINUTE);
        let (refused, since) = ready(&env);
        env.pass(MINUTE)
            .identify("member3", "uid-of-member3", (1, 34));
        env.lose("member3").settle();
        let (lost, began) = ready(&env);
        assert_eq!((&*refused, &*lost), ("Refused", "Unreachable"));
        assert!(began.duration_since(since).as_secs() >= 60);
    }
}

/// Has member3 answer, and refuse the watch of its Services.
fn unwatched(env: &mut Environment) -> &mut Environment {
    let refused = Failure::new(FailureKind::Forbidden, "forbidden: services");
    env.observe("member3", MemberEvent::Services(Signal::Failed(refused)))
        .observe("member3", MemberEvent::Probed(Ok(())))
}

#[test]
fn restart_counts_no_time_in_which_the_member_answered() {
    for was_lost in [false, true] {
        let mut env = native(json!({labels::UNREACHABLE: "withdraw-after=10m"}));
        env.keeps_clusters = true;
        env.restart().settle();
        if was_lost {
            env.lose("member3").pass(MINUTE * 5);
        }
        unwatched(&mut env).pass(MINUTE * 20);
        env.lose("member3").pass(MINUTE * 5);
        env.restart().pass(MINUTE * 4);
        let kept = "member2: ready, member3: ready";
        assert_eq!(standings(&env, "member1"), kept, "{was_lost}");
        env.pass(MINUTE * 2);
        assert_eq!(standings(&env, "member1"), "member2: ready", "{was_lost}");
    }
}
