//! Paths that causeway-agent reports, and what they make of the endpoints of a provider.

use std::time::Duration;

use causeway::api::labels;
use causeway::domain::path::Path::{Bad, Good};
use serde_json::{Value, json};

use super::preferences::{derived_standings, exported, native, source, standings, three, unusable};
use crate::fixtures::objects::{Kind, cluster, foo, mcs};
use crate::fixtures::{Environment, name};
use crate::model::{Failure, FailureKind, MemberEvent, Signal};

const MINUTE: Duration = Duration::from_secs(60);

/// Returns the service with these annotations, whose consumer member1 has no pods of its own and
/// reports its paths.
fn reporting(annotations: Value) -> Environment {
    let mut env = native(annotations);
    env.on("member1", source("member1", &[]));
    env.with_reports(&["member1"]);
    env
}

const ALL: &str = "member2: ready, member3: ready";
const FAR: &str = "member2: ready, member3: standby";

#[test]
fn path_and_api_server_decide_together() {
    // Policy, whether the API server of member3 is gone, the paths to member2 and member3.
    for (policy, is_lost, paths, expected) in [
        (None, false, [None, None], ALL),
        (None, false, [Some(Good), Some(Good)], ALL),
        (None, false, [None, Some(Bad)], FAR),
        (None, false, [Some(Good), Some(Bad)], FAR),
        // All paths fail: the network of the agent may be gone.
        (None, false, [Some(Bad), Some(Bad)], ALL),
        (None, true, [None, None], ALL),
        (None, true, [Some(Good), Some(Good)], ALL),
        (None, true, [Some(Good), Some(Bad)], FAR),
        (Some("standby"), true, [None, None], FAR),
        (Some("standby"), true, [None, Some(Good)], ALL),
        (Some("standby"), true, [None, Some(Bad)], FAR),
        (
            Some("standby"),
            true,
            [Some(Bad), Some(Good)],
            "member2: standby, member3: ready",
        ),
        (
            Some("withdraw-after=60s"),
            true,
            [None, None],
            "member2: ready",
        ),
        (Some("withdraw-after=60s"), true, [None, Some(Good)], ALL),
        (
            Some("withdraw-after=60s"),
            true,
            [None, Some(Bad)],
            "member2: ready",
        ),
        (Some("keep"), true, [Some(Good), Some(Bad)], FAR),
        (
            Some("keep"),
            false,
            [Some(Bad), Some(Good)],
            "member2: standby, member3: ready",
        ),
    ] {
        let case = format!("{policy:?} {is_lost} {paths:?}");
        let mut env = reporting(json!({labels::UNREACHABLE: policy}));
        if is_lost {
            env.lose("member3").pass(MINUTE * 2);
        }
        for (source, path) in ["member2", "member3"].into_iter().zip(paths) {
            if let Some(path) = path {
                env.report("member1", source, path);
            }
        }
        assert_eq!(standings(&env, "member1"), expected, "{case}");
        env.assert_at_rest();
        // Reports that are not renewed say nothing.
        env.pass(MINUTE * 2);
        let mut unknown = reporting(json!({labels::UNREACHABLE: policy}));
        if is_lost {
            unknown.lose("member3").pass(MINUTE * 4);
        }
        let without = standings(&unknown, "member1");
        assert_eq!(standings(&env, "member1"), without, "{case}, later");
    }
}

#[test]
fn failed_path_lowers_a_provider_at_once_and_a_good_one_raises_it() {
    let mut env = reporting(json!({}));
    env.report("member1", "member2", Good)
        .report("member1", "member3", Bad);
    assert_eq!(standings(&env, "member1"), FAR);
    let said = env.says("foo", "Ready");
    let expected = "no endpoint of member3 answers in member1";
    assert!(said.contains(expected), "{said}");
    env.report("member1", "member3", Good);
    assert_eq!(standings(&env, "member1"), ALL);
}

#[test]
fn own_pods_are_another_provider() {
    let mut env = native(json!({}));
    env.with_reports(&["member1"]);
    env.report("member1", "member2", Bad)
        .report("member1", "member3", Bad);
    let both = "member2: standby, member3: standby";
    assert_eq!(standings(&env, "member1"), both);
    env.on("member1", source("member1", &[(1, false)])).settle();
    assert_eq!(standings(&env, "member1"), ALL);
}

#[test]
fn last_provider_that_has_endpoints_for_the_consumer_stays_ready() {
    let mut env = reporting(json!({}));
    let (_, six, _) = unusable().into_iter().next().expect("a case");
    env.on("member2", six);
    let before = standings(&env, "member1");
    env.report("member1", "member3", Bad);
    assert_eq!(standings(&env, "member1"), before);
}

#[test]
fn one_consumer_decides_for_itself_alone() {
    let mut env = native(json!({}));
    env.on("member1", source("member1", &[]))
        .on("member2", source("member2", &[]));
    env.with_reports(&["member1", "member2"]);
    env.on("member1", source("member1", &[(1, true)]))
        .report("member2", "member3", Bad);
    assert_eq!(
        standings(&env, "member2"),
        "member1: ready, member3: standby"
    );
    assert!(standings(&env, "member1").contains("member3: ready"));
}

#[test]
fn tier_without_a_path_gives_way_to_the_next() {
    let mut env = reporting(json!({labels::PREFER: "cluster/member3, any"}));
    assert_eq!(
        standings(&env, "member1"),
        "member2: standby, member3: ready"
    );
    env.report("member1", "member3", Bad);
    assert_eq!(standings(&env, "member1"), FAR);
}

#[test]
fn provider_that_no_tier_takes_replaces_none_with_a_failed_path() {
    let mut env = reporting(json!({labels::PREFER: "cluster/member2"}));
    assert_eq!(standings(&env, "member1"), "member2: ready");
    env.report("member1", "member3", Bad);
    assert_eq!(standings(&env, "member1"), "member2: ready");
    env.report("member1", "member3", Good)
        .report("member1", "member2", Bad);
    assert_eq!(standings(&env, "member1"), "member2: ready");
}

#[test]
fn ready_names_unserved_consumers_whatever_the_paths_are() {
    let mut env = reporting(json!({labels::PREFER: "cluster/member9"}));
    env.report("member1", "member3", Bad);
    let ready = env.says("foo", "Ready");
    let expected = "no endpoint in member1, member2, member3";
    assert!(ready.contains(expected), "{ready}");
}

#[test]
fn path_from_outside_the_service_restores_a_withdrawn_provider() {
    let mut env = three();
    let policy = json!({labels::UNREACHABLE: "withdraw-after=60s"});
    let exposed = mcs("foo").providers(&["member3"]).consumers(&["member2"]);
    env.on_hub(foo())
        .on_hub(exposed.annotated(&policy))
        .settle();
    env.with_reports(&["member1"]);
    env.lose("member3").pass(MINUTE * 2);
    assert_eq!(standings(&env, "member2"), "");
    env.report("member1", "member3", Good);
    assert_eq!(standings(&env, "member2"), "member3: ready");
}

#[test]
fn importers_decide_alike() {
    let mut env = exported(json!({}));
    env.with_reports(&["member1"]);
    env.report("member1", "member3", Bad);
    let expected = "member1: ready, member2: ready, member3: standby";
    assert_eq!(derived_standings(&env, "member1"), expected);
}

#[test]
fn headless_service_keeps_all_endpoints() {
    let mut env = reporting(json!({}));
    env.on_hub(foo().headless()).settle();
    env.report("member1", "member2", Good)
        .report("member1", "member3", Bad);
    assert_eq!(standings(&env, "member1"), ALL);
}

#[test]
fn reports_are_not_read_without_the_annotation() {
    let mut env = reporting(json!({}));
    env.report("member1", "member3", Bad);
    assert_eq!(standings(&env, "member1"), FAR);
    env.on_hub(cluster("member1")).settle();
    assert_eq!(standings(&env, "member1"), ALL);
}

#[test]
fn paths_of_a_member_that_is_not_written_to_stay_unseen() {
    let mut env = reporting(json!({}));
    env.report("member1", "member3", Bad);
    let refused = Failure::new(FailureKind::Forbidden, "forbidden: services");
    for (signal, count) in [(Signal::Failed(refused), 0), (Signal::Connected, 1)] {
        env.observe("member1", MemberEvent::Services(signal));
        assert_eq!(env.index.unseen_paths(&name("member1")).len(), count);
    }
}

#[test]
fn mark_of_the_agent_leaves_a_copy_by_one_write() {
    let mut env = reporting(json!({}));
    env.report("member1", "member2", Good)
        .report("member1", "member3", Bad);
    assert_eq!(standings(&env, "member1"), FAR);
    let names = env.copies("member1", "foo").into_iter();
    let names: Vec<_> = names.filter_map(|copy| copy.metadata.name).collect();
    let mark = json!({"metadata": {"annotations": {labels::LOWERED: "causeway-agent"}}});
    env.forget_writes();
    for name in &names {
        env.amend("member1", Kind::Slice, name, mark.clone());
    }
    env.settle();
    assert_eq!(env.member_log(), ["member1 update EndpointSlice"; 2]);
    for copy in env.copies("member1", "foo") {
        let annotations = copy.metadata.annotations.unwrap_or_default();
        assert_eq!(annotations.get(labels::LOWERED), None);
    }
    assert_eq!(standings(&env, "member1"), FAR);
}

#[test]
fn renewed_reports_write_nothing() {
    let mut env = reporting(json!({}));
    for _ in 0..2 {
        env.report("member1", "member2", Good)
            .report("member1", "member3", Bad);
        env.forget_writes();
    }
    for _ in 0..10 {
        env.pass(MINUTE / 2);
        let since = env.now().wall;
        env.report("member1", "member2", Good)
            .report("member1", "member3", Bad);
        assert!(since <= env.now().wall);
        assert_eq!(env.member_log(), Vec::<String>::new());
    }
}
