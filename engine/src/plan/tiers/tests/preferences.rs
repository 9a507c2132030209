//! Preferences among three members, of which member1 and member2 are in one region.

use causeway::api::labels;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use serde_json::{Value, json};

use crate::fixtures::annotations::located;
use crate::fixtures::objects::{Kind, Object, cluster, export, foo, mcs, namespace, slice};
use crate::fixtures::{Environment, env, name};
use crate::observed::Counted;
use crate::plan::tiers::HOLD;

pub(super) const MEMBERS: [&str; 3] = ["member1", "member2", "member3"];

/// Returns the slice of a member, from the last part of each address and its readiness.
pub(super) fn source(member: &str, endpoints: &[(u8, bool)]) -> Object {
    let number = member.trim_start_matches("member");
    let source = slice("foo-abc", "foo").port("http", 8080);
    endpoints.iter().fold(source, |source, (address, ready)| {
        source.endpoint_with(json!({
            "addresses": [format!("10.{number}.0.{address}")],
            "conditions": {"ready": ready, "serving": ready, "terminating": false},
        }))
    })
}

/// Returns an environment of three members that have two ready endpoints each.
pub(super) fn three() -> Environment {
    let mut env = env();
    for member in MEMBERS {
        env.member(member);
        env.on_hub(located(member));
        env.on(member, source(member, &[(1, true), (2, true)]));
    }
    env
}

/// Returns an environment of [`three`] members that provide `foo` to each other by a
/// MultiClusterService with these annotations.
pub(super) fn native(annotations: Value) -> Environment {
    let mut env = three();
    env.on_hub(foo()).on_hub(mcs("foo").annotated(&annotations));
    env.settle();
    env
}

/// Returns an environment of [`three`] members that export `foo` with these annotations.
pub(super) fn exported(annotations: Value) -> Environment {
    let mut env = three();
    for member in MEMBERS {
        env.on(member, foo());
        env.on(member, export("foo").annotated(&annotations));
    }
    env.settle();
    env
}

/// Describes the roles of a member's copies: `member2: ready, member3: standby`.
pub(super) fn standings(env: &Environment, consumer: &str) -> String {
    standings_of(&env.copies(consumer, "foo"))
}

pub(super) fn derived_standings(env: &Environment, consumer: &str) -> String {
    let key = crate::fixtures::key("foo").derived();
    standings_of(&env.copies(consumer, &key.name))
}

fn standings_of(copies: &[EndpointSlice]) -> String {
    let mut texts: Vec<_> = copies.iter().map(standing).collect();
    texts.sort();
    texts.join(", ")
}

fn standing(copy: &EndpointSlice) -> String {
    let labels = copy.metadata.labels.clone().unwrap_or_default();
    let annotations = copy.metadata.annotations.clone().unwrap_or_default();
    let conditions = copy.endpoints.iter().map(|endpoint| {
        let all = endpoint.conditions.clone().unwrap_or_default();
        match (all.ready, all.serving, all.terminating) {
            (Some(true), Some(true), Some(false)) => "ready",
            (Some(false), Some(true), Some(true)) => "standby",
            (Some(false), Some(false), Some(false)) => "not ready",
            _ => "odd",
        }
    });
    let mut kinds: Vec<_> = conditions.collect();
    kinds.dedup();
    let marked = annotations.contains_key(labels::STANDBY);
    let is_standby = kinds.contains(&"standby");
    assert!(!is_standby || marked, "{copy:#?}");
    let mark = if marked && !is_standby {
        " (marked)"
    } else {
        ""
    };
    let source = &labels[labels::SOURCE_CLUSTER];
    format!("{source}: {}{mark}", kinds.join("+"))
}

const LOCAL_REGION_ANY: &str = "local, region, any";

#[test]
fn farther_tiers_are_standby_endpoints_both_ways() {
    let annotations = json!({labels::PREFER: LOCAL_REGION_ANY});
    let env = native(annotations.clone());
    assert_eq!(
        standings(&env, "member1"),
        "member2: standby, member3: standby"
    );
    assert_eq!(
        standings(&env, "member3"),
        "member1: standby, member2: standby"
    );
    let env = exported(annotations);
    let expected = "member1: ready, member2: standby, member3: standby";
    assert_eq!(derived_standings(&env, "member1"), expected);
}

#[test]
fn every_word_means_its_clusters_and_who_is_in_no_tier_is_never_used() {
    for (prefer, member1, member3) in [
        (
            "local, any",
            "member2: standby, member3: standby",
            "member1: standby, member2: standby",
        ),
        (
            "LocalFirst",
            "member2: standby, member3: standby",
            "member1: standby, member2: standby",
        ),
        (
            "region, any",
            "member2: ready, member3: standby",
            "member1: standby, member2: standby",
        ),
        ("region", "member2: ready", ""),
        (
            "zone, any",
            "member2: standby, member3: standby",
            "member1: standby, member2: standby",
        ),
        ("local", "", ""),
        (
            "any",
            "member2: ready, member3: ready",
            "member1: ready, member2: ready",
        ),
        (
            "RemoteAndLocal",
            "member2: ready, member3: ready",
            "member1: ready, member2: ready",
        ),
        (
            "cluster/member3, any",
            "member2: standby, member3: ready",
            "member1: standby, member2: standby",
        ),
        ("cluster/member2", "member2: ready", "member2: ready"),
    ] {
        let env = native(json!({labels::PREFER: prefer}));
        assert_eq!(standings(&env, "member1"), member1, "{prefer}");
        assert_eq!(standings(&env, "member3"), member3, "{prefer}");
    }
}

#[test]
fn service_counts_once_by_consumer_and_kind_of_the_farthest_tier() {
    for (prefer, kind) in [
        ("cluster/member2, any", "cluster"),
        ("property(team)=a", "property"),
        ("any", "any"),
    ] {
        let annotations = json!({labels::PREFER: prefer});
        let (mut env, providers) = (three(), ["member1", "member2"]);
        for provider in providers {
            env.on(provider, foo())
                .on(provider, export("foo").annotated(&annotations));
        }
        let exposed = mcs("foo").providers(&providers).consumers(&["member3"]);
        env.on_hub(foo()).on_hub(exposed.annotated(&annotations));
        let counted = Counted::Tier(name("member3"), kind);
        assert_eq!(env.settle().counts.get(&counted), Some(&1), "{prefer}");
    }
}

#[test]
fn the_nearest_of_the_farther_tiers_is_promoted_and_demoted_after_a_while() {
    let mut env = native(json!({labels::PREFER: LOCAL_REGION_ANY, labels::MIN_READY: "50%"}));
    env.on(
        "member1",
        source("member1", &[(1, false), (2, true), (3, false)]),
    );
    env.settle();
    assert_eq!(
        standings(&env, "member1"),
        "member2: ready, member3: standby"
    );
    assert_eq!(
        standings(&env, "member2"),
        "member1: not ready+standby+not ready, member3: standby"
    );
    env.on(
        "member1",
        source("member1", &[(1, true), (2, true), (3, false)]),
    );
    env.pass(HOLD / 2);
    assert_eq!(
        standings(&env, "member1"),
        "member2: ready, member3: standby"
    );
    env.pass(HOLD);
    assert_eq!(
        standings(&env, "member1"),
        "member2: standby, member3: standby"
    );
    env.assert_at_rest();
}

#[test]
fn a_restart_neither_promotes_nor_forgets_to_demote() {
    let mut env = native(json!({labels::PREFER: LOCAL_REGION_ANY}));
    env.on("member1", source("member1", &[(1, false)])).settle();
    assert_eq!(
        standings(&env, "member1"),
        "member2: ready, member3: standby"
    );
    env.forget_writes().restart().settle();
    assert_eq!(env.log(), Vec::<String>::new());
    env.on("member1", source("member1", &[(1, true)])).settle();
    env.restart().settle();
    assert_eq!(
        standings(&env, "member1"),
        "member2: ready, member3: standby"
    );
    env.pass(HOLD);
    assert_eq!(
        standings(&env, "member1"),
        "member2: standby, member3: standby"
    );
}

#[test]
fn an_annotation_that_comes_later_waits_before_it_takes_endpoints_away() {
    let mut env = native(json!({}));
    assert_eq!(standings(&env, "member1"), "member2: ready, member3: ready");
    env.on_hub(mcs("foo").annotated(&json!({labels::PREFER: "local, any"})));
    env.settle();
    assert_eq!(standings(&env, "member1"), "member2: ready, member3: ready");
    env.pass(HOLD);
    assert_eq!(
        standings(&env, "member1"),
        "member2: standby, member3: standby"
    );
    env.on_hub(mcs("foo").annotated(&json!({labels::PREFER: null})))
        .settle();
    assert_eq!(standings(&env, "member1"), "member2: ready, member3: ready");
    env.assert_at_rest();
}

#[test]
fn where_standby_endpoints_are_not_used_farther_tiers_are_not_ready_until_they_are_promoted() {
    for is_old in [true, false] {
        let mut env = native(json!({labels::PREFER: "local, any"}));
        if is_old {
            env.upgrade("member1", "uid-of-member1", (1, 25));
        } else {
            let no = json!({labels::STANDBY: "false"});
            env.on_hub(located("member1").annotated(&no));
        }
        env.settle();
        let marked = "member2: not ready (marked), member3: not ready (marked)";
        assert_eq!(standings(&env, "member1"), marked);
        env.on("member1", source("member1", &[(1, false)])).settle();
        assert_eq!(standings(&env, "member1"), "member2: ready, member3: ready");
    }
}

#[test]
fn a_headless_service_has_no_preference_and_ready_says_so() {
    let mut env = native(json!({labels::PREFER: "local, any"}));
    env.on_hub(foo().headless()).settle();
    env.pass(HOLD);
    assert_eq!(standings(&env, "member1"), "member2: ready, member3: ready");
    let said = env.says("foo", "Ready");
    assert!(
        said.contains("not followed: mcs.causeway.dev/prefer"),
        "{said}"
    );
}

#[test]
fn of_exports_that_disagree_the_oldest_decides() {
    let mut env = three();
    for (member, prefer) in [
        ("member1", "local, any"),
        ("member2", "region"),
        ("member3", "local, any"),
    ] {
        env.on(member, foo());
        env.on(
            member,
            export("foo").annotated(&json!({labels::PREFER: prefer})),
        );
        env.settle();
        env.pass(std::time::Duration::from_secs(60));
    }
    let expected = "member1: standby, member2: standby, member3: ready";
    assert_eq!(derived_standings(&env, "member3"), expected);
    let conflict = env.export_says("member2", "foo", "Conflict");
    assert!(conflict.contains("PreferConflict"), "{conflict}");
    assert!(conflict.contains("in member1 (local, any)"), "{conflict}");
}

#[test]
fn a_mistake_in_an_annotation_of_an_export_is_reported_and_takes_nothing_away() {
    let env = exported(json!({labels::PREFER: "nearby"}));
    let expected = "member1: ready, member2: ready, member3: ready";
    assert_eq!(derived_standings(&env, "member1"), expected);
    let valid = env.export_says("member1", "foo", "Valid");
    assert!(valid.starts_with("True"), "{valid}");
    assert!(
        valid.contains(
            r#"metadata.annotations[mcs.causeway.dev/prefer]: Unsupported value: "nearby""#
        ),
        "{valid}"
    );
}

#[test]
fn while_the_oldest_exporter_is_unknown_its_preference_goes_on() {
    let mut env = three();
    for member in MEMBERS {
        env.on(member, foo());
        let export = match member {
            "member1" => export("foo").annotated(&json!({labels::PREFER: LOCAL_REGION_ANY})),
            _ => export("foo"),
        };
        env.on(member, export).settle();
        env.pass(std::time::Duration::from_secs(60));
    }
    let before = derived_standings(&env, "member3");
    assert_eq!(before, "member1: standby, member2: standby, member3: ready");
    env.lose("member1").forget_writes().restart().pass(HOLD * 2);
    assert_eq!(derived_standings(&env, "member3"), before);
}

#[test]
fn a_service_without_annotations_has_no_mark_of_them() {
    let mut env = exported(json!({}));
    let text = format!("{:?}", env.copies("member1", "derived-x")) + &format!("{:?}", env.log());
    assert!(!text.contains(labels::STANDBY));
    for annotation in causeway::domain::Failover::ANNOTATIONS {
        let import = env.members["member1"]
            .get(Kind::Import, "shop", "foo")
            .expect("an import");
        assert!(import["metadata"]["annotations"][annotation].is_null());
    }
    env.on("member1", namespace("other")).assert_at_rest();
}

#[test]
fn ready_names_the_clusters_whose_region_is_not_known() {
    let mut env = native(json!({labels::PREFER: "region, any"}));
    let said = env.says("foo", "Ready");
    assert!(!said.contains("region"), "{said}");
    env.on_hub(cluster("member3")).settle();
    let said = env.says("foo", "Ready");
    let expected = "the Cluster of member3 has no region, which mcs.causeway.dev/prefer names: kubectl mcs join member3 --member-kubeconfig FILE --region NAME";
    assert!(
        said.starts_with("True") && said.contains(expected),
        "{said}"
    );
}

/// Returns slices of member2 that a Service of one port and IPv4 alone leads to in part or not at
/// all, and a description of their copied part.
pub(super) fn unusable() -> [(&'static str, Object, &'static str); 3] {
    let one = |slice: Object, address: &str| {
        let conditions = json!({"ready": true, "serving": true, "terminating": false});
        slice.endpoint_with(json!({"addresses": [address], "conditions": conditions}))
    };
    let six = json!({"addressType": "IPv6"});
    let by_hand = json!({"metadata": {"labels": {labels::SLICE_MANAGED_BY: "a-person"}}});
    let other = slice("foo-abc", "foo").port("other", 9999).with(by_hand);
    [
        (
            "another family",
            one(
                slice("foo-abc", "foo").port("http", 8080).with(six),
                "fd00::5",
            ),
            "member2: ready, ",
        ),
        ("another port", one(other, "10.2.0.5"), ""),
        ("no port", one(slice("foo-abc", "foo"), "10.2.0.5"), ""),
    ]
}

#[test]
fn tier_whose_endpoints_the_service_cannot_use_does_not_carry_alone() {
    for (case, near, copied) in unusable() {
        for used in ["true", "false"] {
            let mut env = three();
            let annotated = json!({"metadata": {"annotations": {labels::STANDBY: used}}});
            env.on_hub(cluster("member1").with(annotated));
            env.on("member2", near.clone());
            env.on_hub(foo());
            let prefer =
                json!({"metadata": {"annotations": {labels::PREFER: "cluster/member2, any"}}});
            let providers = mcs("foo").providers(&["member2", "member3"]);
            env.on_hub(providers.consumers(&["member1"]).with(prefer));
            env.settle();
            let expected = format!("{copied}member3: ready");
            assert_eq!(standings(&env, "member1"), expected, "{case}, {used}");
        }
    }
}

#[test]
fn tier_of_an_import_whose_endpoints_the_service_cannot_use_does_not_carry_alone() {
    for (case, near, copied) in unusable() {
        let mut env = three();
        env.on("member2", near);
        let prefer = json!({labels::PREFER: "cluster/member2, any"});
        for exporter in ["member2", "member3"] {
            env.on(exporter, foo());
            env.on(exporter, export("foo").annotated(&prefer));
        }
        env.settle();
        let expected = format!("{copied}member3: ready");
        assert_eq!(derived_standings(&env, "member1"), expected, "{case}");
    }
}

#[test]
fn own_endpoints_that_the_service_cannot_use_leave_the_others_in_use() {
    let (_, six, _) = unusable().into_iter().next().expect("a case");
    let mut env = native(json!({labels::PREFER: LOCAL_REGION_ANY}));
    env.on("member1", six);
    env.settle();
    assert_eq!(
        standings(&env, "member1"),
        "member2: ready, member3: standby"
    );
}
