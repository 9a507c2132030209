//! Bounds on the cost of one member's exports for the others.

use super::*;
use crate::fixtures::key;
use crate::model::Item;
use crate::observed::quota::Quota;

/// Exports that service from member1, created at that second, with that many bytes of annotations.
fn exports(env: &mut Environment, name: &str, second: u8, bytes: usize) {
    let spec = json!({"exportedAnnotations": {"a": "x".repeat(bytes)}});
    exports_with(env, name, second, &json!({ "spec": spec }));
}

/// Exports that service from member1, created at that second, with that part of the object.
fn exports_with(env: &mut Environment, name: &str, second: u8, part: &Value) {
    let created = format!("2026-01-01T00:00:{second:02}Z");
    let created = json!({"metadata": {"creationTimestamp": created}});
    let object = export(name).with(part.clone()).with(created);
    let source = slice(&format!("{name}-abc"), name).port("http", 8080);
    env.on("member1", service(name).port("http", 80))
        .on("member1", source.endpoint("10.1.0.5"))
        // Made now, and then of an earlier time: what API servers say of that counts.
        .on("member1", object.clone())
        .on("member1", object)
        .settle();
}

fn is_imported(env: &Environment, name: &str) -> bool {
    get(env, "member2", Kind::Import, name).is_some()
}

fn imported_of<'a>(env: &Environment, names: &[&'a str]) -> Vec<&'a str> {
    let names = names.iter().copied();
    names.filter(|name| is_imported(env, name)).collect()
}

fn ready(env: &Environment, name: &str) -> String {
    env.export_says("member1", name, condition::READY)
}

fn two_members(exports: usize, metadata: usize) -> Environment {
    let mut env = env();
    env.settings.quota = Quota { exports, metadata };
    env.member("member1").member("member2");
    env
}

#[test]
fn beyond_the_quota_the_oldest_exports_of_a_member_keep_their_place_and_the_others_say_why() {
    let mut env = two_members(2, 1024 * 1024);
    let all = ["a", "b", "c", "d"];
    for (name, second) in [("c", 3), ("b", 2)] {
        exports(&mut env, name, second, 0);
    }
    exports(&mut env, "d", 4, 0);
    assert_eq!(imported_of(&env, &all), ["b", "c"]);
    assert_eq!(
        ready(&env, "d"),
        "False QuotaExceeded: the cluster exports more than 2 services (--max-member-exports of causeway-controller); the \
         oldest are served: delete ServiceExports that are not needed, or raise the flag"
    );
    env.assert_at_rest();
    // An older one does not take the place of what is imported.
    exports(&mut env, "a", 1, 0);
    assert_eq!(imported_of(&env, &all), ["a", "b", "c"]);
    env.assert_at_rest();
    for name in ["a", "b"] {
        env.off("member1", Kind::Export, name).settle();
    }
    assert_eq!(imported_of(&env, &all), ["c", "d"]);
    assert!(ready(&env, "d").starts_with("True Exported"));
    env.assert_at_rest();
}

#[test]
fn import_that_a_member_forges_does_not_extend_its_quota() {
    let mut env = two_members(1, 1024 * 1024);
    exports(&mut env, "a", 1, 0);
    let forged = import("b").port("http", 80).with(json!({
        "metadata": {"labels": {labels::HUB: env.index.hub_uid(), labels::MANAGED_BY: labels::MANAGER}},
        "status": {"clusters": [{"cluster": "member1"}]},
    }));
    env.on("member1", forged);
    exports(&mut env, "b", 2, 0);
    assert_eq!(imported_of(&env, &["a", "b"]), ["a"]);
}

#[test]
fn a_quota_that_is_lowered_withdraws_nothing_and_one_that_is_raised_is_observed() {
    let mut env = two_members(3, 1024 * 1024);
    let all = ["a", "b", "c", "d"];
    for (name, second) in [("a", 1), ("b", 2), ("c", 3)] {
        exports(&mut env, name, second, 0);
    }
    env.settings.quota.exports = 1;
    env.restart().settle();
    exports(&mut env, "d", 4, 0);
    assert_eq!(imported_of(&env, &all), ["a", "b", "c"]);
    assert!(ready(&env, "c").starts_with("True Exported"));
    env.assert_at_rest();
    env.settings.quota.exports = 4;
    env.restart().settle();
    assert_eq!(imported_of(&env, &all), all);
}

#[test]
fn what_a_member_exports_in_labels_and_annotations_counts_together() {
    let mut env = two_members(1000, 1024 * 1024);
    for (name, second) in [("a", 1), ("b", 2), ("c", 3), ("d", 4), ("e", 5), ("f", 6)] {
        exports(&mut env, name, second, 200 * 1024);
    }
    assert_eq!(imported_of(&env, &["a", "e", "f"]), ["a", "e"]);
    let reported = "False QuotaExceeded: what imports copy of the cluster's exports has more than \
                    1 MiB (--max-member-exported-mib of causeway-controller)";
    assert!(
        ready(&env, "f").starts_with(reported),
        "{}",
        ready(&env, "f")
    );
    env.assert_at_rest();
}

#[test]
fn text_beyond_what_an_import_holds_takes_no_quota() {
    let mut env = two_members(1000, 1024 * 1024);
    exports(&mut env, "a", 1, 1200 * 1024);
    let selectors = json!([{
        "propertySelector": {"matchProperties": {"gpu": "x".repeat(1200 * 1024)}},
    }]);
    let part = json!({"spec": {"clusterSelectors": selectors}});
    exports_with(&mut env, "b", 2, &part);
    exports(&mut env, "c", 3, 0);
    assert_eq!(imported_of(&env, &["a", "b", "c"]), ["a", "b", "c"]);
    env.assert_at_rest();
}

#[test]
fn forbidden_exports_do_not_count_towards_the_quota() {
    let mut env = two_members(1, 1024 * 1024);
    env.on_hub(permitted("member1", "shop"));
    for name in ["x", "y"] {
        let elsewhere = json!({"metadata": {"namespace": "attic"}});
        exports_with(&mut env, name, 1, &elsewhere);
    }
    exports(&mut env, "a", 2, 0);
    assert_eq!(imported_of(&env, &["a"]), ["a"]);
    env.assert_at_rest();
    // The others count as soon as the hub permits them.
    env.on_hub(permitted("member1", "shop, attic"));
    exports(&mut env, "b", 3, 0);
    assert_eq!(imported_of(&env, &["a", "b"]), ["a"]);
    let reported = ready(&env, "b");
    assert!(reported.starts_with("False QuotaExceeded"), "{reported}");
    env.on_hub(permitted("member1", "shop")).settle();
    env.off("member1", Kind::Export, "a").settle();
    assert_eq!(imported_of(&env, &["a", "b"]), ["b"]);
}

#[test]
fn export_beyond_the_quota_is_planned_again_once_it_is_within() {
    let mut env = two_members(2, 1024 * 1024);
    for (name, second) in [("a", 1), ("b", 2), ("c", 3), ("d", 4)] {
        exports(&mut env, name, second, 0);
    }
    for beyond in ["c", "d"] {
        assert_eq!(env.plan(beyond).again_at, None, "{beyond}");
    }
    env.off("member1", Kind::Export, "a").deliver();
    env.index.apply_quota(&env.settings.quota);
    let mut marked: Vec<_> = env.index.take_marked().into_keys().collect();
    marked.sort();
    assert_eq!(marked, ["a", "c"].map(|name| Item::Service(key(name))));
}

#[test]
fn export_beyond_another_limit_reports_it() {
    let mut env = two_members(2, 100 * 1024);
    let bytes = 60 * 1024;
    for (name, second, bytes) in [("a", 1, bytes), ("b", 2, bytes), ("c", 3, 0), ("d", 4, 0)] {
        exports(&mut env, name, second, bytes);
    }
    assert_eq!(imported_of(&env, &["a", "b", "c", "d"]), ["a"]);
    exports(&mut env, "a", 1, 0);
    assert_eq!(imported_of(&env, &["a", "b", "c", "d"]), ["a", "b"]);
    let reported = "False QuotaExceeded: the cluster exports more than 2 services";
    for beyond in ["c", "d"] {
        let ready = ready(&env, beyond);
        assert!(ready.starts_with(reported), "{ready}");
    }
    env.assert_at_rest();
}

#[test]
fn selectors_and_recorded_texts_count_towards_the_quota() {
    let name = |number: usize| format!("{:x<40}-{number}", "c");
    let names: Vec<_> = (0..1000).map(name).collect();
    let tiers: Vec<_> = names.iter().map(|name| format!("cluster/{name}")).collect();
    let prefer = tiers.join(", ") + ", any";
    let consumers = format!("member2, {}", names.join(", "));
    let properties = json!({"matchProperties": {"gpu": "x".repeat(20_000)}});
    let selectors = json!([{ "propertySelector": properties }]);
    for part in [
        json!({"metadata": {"annotations": {labels::PREFER: prefer}}}),
        json!({"metadata": {"annotations": {labels::CONSUMERS: consumers}}}),
        json!({"spec": {"clusterSelectors": selectors}}),
    ] {
        let mut env = two_members(1000, 64 * 1024);
        exports_with(&mut env, "a", 1, &part);
        exports_with(&mut env, "b", 2, &part);
        assert_eq!(imported_of(&env, &["a", "b"]), ["a"]);
        let ready = ready(&env, "b");
        assert!(ready.starts_with("False QuotaExceeded"), "{ready}");
    }
}
