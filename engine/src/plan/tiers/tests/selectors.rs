//! Selectors of clusters by their properties (KEP-5939), in exports and in words of a preference.

use super::preferences::*;
use causeway::api::labels;
use serde_json::{Value, json};

use crate::fixtures::Environment;
use crate::fixtures::objects::{Kind, NAMESPACE, cluster, export, foo};
use crate::plan::tiers::HOLD;

const HIGH_NEAR: &str = "region.topology.k8s.io";

/// Returns selectors of clusters of the importer's region with a high `gpu`, then of its region.
fn selectors() -> Value {
    json!([
        {"propertySelector": {"matchProperties": {HIGH_NEAR: "@SameAsImporter@", "gpu": "high"}}},
        {"propertySelector": {"matchProperties": {HIGH_NEAR: "@SameAsImporter@"}}},
    ])
}

/// Returns an environment of [`three`] members, of which member2 and member3 have a high `gpu`,
/// that export `foo` with these selectors.
fn selected(selectors: &Value) -> Environment {
    let mut env = three();
    for member in ["member2", "member3"] {
        label(&mut env, member, "high");
    }
    for member in MEMBERS {
        env.on(member, foo());
        env.on(member, with_selectors(selectors));
    }
    env.settle();
    env
}

fn label(env: &mut Environment, member: &str, gpu: &str) {
    let region = if member == "member3" { "us" } else { "eu" };
    let labels = json!({"metadata": {"labels": {"gpu": gpu}}, "spec": {"region": region}});
    env.on_hub(cluster(member).with(labels));
}

fn with_selectors(selectors: &Value) -> crate::fixtures::objects::Object {
    export("foo").with(json!({"spec": {"clusterSelectors": selectors}}))
}

fn import<'a>(env: &'a Environment, member: &str) -> &'a Value {
    let import = env.members[member].get(Kind::Import, NAMESPACE, "foo");
    import.expect("an import")
}

#[test]
fn clusters_of_the_first_selector_are_used_and_else_all() {
    let mut env = selected(&selectors());
    let near = "member1: standby, member2: ready, member3: standby";
    assert_eq!(derived_standings(&env, "member1"), near);
    env.on("member2", source("member2", &[(1, false), (2, false)]));
    env.settle();
    let second = "member1: ready, member2: not ready, member3: standby";
    assert_eq!(derived_standings(&env, "member1"), second);
    env.on("member1", source("member1", &[(1, false), (2, false)]));
    env.settle();
    let all = "member1: not ready, member2: not ready, member3: ready";
    assert_eq!(derived_standings(&env, "member1"), all);
}

#[test]
fn import_has_the_selectors_and_their_results() {
    let mut env = selected(&selectors());
    let results = |env: &Environment, member: &str| {
        let status = &import(env, member)["status"];
        assert_eq!(
            status["observedGeneration"],
            import(env, member)["metadata"]["generation"]
        );
        status["clusterSelectorResults"].clone()
    };
    assert_eq!(
        import(&env, "member1")["spec"]["clusterSelectors"],
        selectors()
    );
    let of_eu = json!([{"clusters": ["member2"]}, {"clusters": ["member1", "member2"]}]);
    assert_eq!(results(&env, "member1"), of_eu);
    let of_us = json!([{"clusters": ["member3"]}, {"clusters": ["member3"]}]);
    assert_eq!(results(&env, "member3"), of_us);
    env.on("member2", source("member2", &[(1, false), (2, false)]));
    env.settle();
    assert_eq!(results(&env, "member1"), of_eu, "conditions do not matter");
    label(&mut env, "member2", "low");
    env.settle();
    let none = json!([{"clusters": []}, {"clusters": ["member1", "member2"]}]);
    assert_eq!(results(&env, "member1"), none);
    for member in MEMBERS {
        env.on(member, with_selectors(&Value::Null));
    }
    env.settle();
    let import = import(&env, "member1");
    assert_eq!(import["spec"]["clusterSelectors"], Value::Null);
    assert_eq!(import["status"]["clusterSelectorResults"], json!([]));
    env.assert_at_rest();
}

#[test]
fn words_of_a_preference_are_selectors_too() {
    let prefer = format!("same({HIGH_NEAR})&property(gpu)=high, any");
    let mut env = native(json!({labels::PREFER: prefer}));
    label(&mut env, "member2", "high");
    env.settle().pass(HOLD);
    let near = "member2: ready, member3: standby";
    assert_eq!(standings(&env, "member1"), near);
    label(&mut env, "member3", "high");
    env.settle().pass(HOLD);
    assert_eq!(
        standings(&env, "member3"),
        "member1: standby, member2: standby"
    );
}

#[test]
fn selectors_that_differ_are_a_conflict_and_the_oldest_decides() {
    let mut env = selected(&selectors());
    let other = json!([{"propertySelector": {"matchProperties": {"gpu": "low"}}}]);
    env.on("member3", with_selectors(&other)).settle();
    for member in MEMBERS {
        let conflict = env.export_says(member, "foo", "Conflict");
        assert!(
            conflict.starts_with("True ClusterSelectorsConflict"),
            "{conflict}"
        );
    }
    assert_eq!(
        import(&env, "member3")["spec"]["clusterSelectors"],
        selectors()
    );
}

#[test]
fn wrong_selectors_are_reported_and_the_service_is_exported_without() {
    let wrong = json!([{"propertySelector": {}}]);
    let env = selected(&wrong);
    let valid = env.export_says("member1", "foo", "Valid");
    assert!(valid.starts_with("False InvalidClusterSelector"), "{valid}");
    assert!(
        valid.contains("spec.clusterSelectors[0].propertySelector"),
        "{valid}"
    );
    let all = "member1: ready, member2: ready, member3: ready";
    assert_eq!(derived_standings(&env, "member1"), all);
    assert_eq!(
        import(&env, "member1")["spec"]["clusterSelectors"],
        Value::Null
    );
}

#[test]
fn headless_service_has_no_selectors() {
    let mut env = three();
    for member in MEMBERS {
        env.on(member, foo().headless());
        env.on(member, with_selectors(&selectors()));
    }
    env.settle();
    let valid = env.export_says("member1", "foo", "Valid");
    assert!(valid.starts_with("False InvalidServiceType"), "{valid}");
    assert_eq!(
        import(&env, "member1")["spec"]["clusterSelectors"],
        Value::Null
    );
    env.assert_at_rest();
}
