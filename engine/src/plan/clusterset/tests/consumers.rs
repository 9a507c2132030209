//! Services with a list of consumers, as their exports request it.

use super::*;

/// Returns `foo` in member1, which exports it for these consumers. member2 is in region eu, member3
/// in us.
fn exported_for(consumers: Value) -> Environment {
    let mut env = super::exported();
    for (member, region) in [("member2", "eu"), ("member3", "us")] {
        env.on_hub(cluster(member).with(json!({"spec": {"region": region}})));
    }
    env.on("member1", annotated(consumers)).settle();
    env
}

fn annotated(consumers: Value) -> Object {
    export("foo").with(json!({"metadata": {"annotations": {labels::CONSUMERS: consumers}}}))
}

fn importers(env: &Environment) -> Vec<&str> {
    let members = ["member1", "member2", "member3"].into_iter();
    members
        .filter(|member| {
            let import = get(env, member, Kind::Import, "foo").is_some();
            let derived = get(env, member, Kind::Service, "derived-foo").is_some();
            let copies = !env.copies(member, "derived-foo").is_empty();
            assert!(import == derived && derived == copies, "{member}");
            import
        })
        .collect()
}

#[test]
fn those_import_that_are_named_and_those_that_export() {
    for (consumers, expected) in [
        (Value::Null, vec!["member1", "member2", "member3"]),
        (json!("member2"), vec!["member1", "member2"]),
        (json!("region/us"), vec!["member1", "member3"]),
        (
            json!("member2, region/us"),
            vec!["member1", "member2", "member3"],
        ),
        (json!("zone/nowhere"), vec!["member1"]),
    ] {
        let mut env = exported_for(consumers.clone());
        assert_eq!(importers(&env), expected, "{consumers}");
        env.assert_at_rest();
    }
}

#[test]
fn invalid_or_forbidden_export_does_not_import() {
    let mut env = exported_for(json!("member2"));
    env.pass(Duration::from_secs(60));
    env.on("member3", export("foo")).settle();
    assert_eq!(importers(&env), ["member1", "member2"], "it has no Service");
    env.on_hub(permitted("member3", "web"))
        .on("member3", foo())
        .settle();
    assert_eq!(importers(&env), ["member1", "member2"], "it is forbidden");
    env.on_hub(cluster("member3")).settle();
    assert_eq!(importers(&env), ["member1", "member2", "member3"]);
    env.off("member3", Kind::Service, "foo").settle();
    let all = ["member1", "member2", "member3"];
    assert_eq!(importers(&env), all, "within the grace period");
    env.pass(GRACE);
    assert_eq!(importers(&env), ["member1", "member2"]);
    env.assert_at_rest();
}

#[test]
fn drained_exporter_still_imports() {
    let mut env = exported_for(json!("member2"));
    env.pass(Duration::from_secs(60));
    env.on("member3", foo())
        .on("member3", export("foo"))
        .settle();
    let all = ["member1", "member2", "member3"];
    assert_eq!(importers(&env), all);
    env.on_hub(drained("member3", true)).settle();
    assert_eq!(importers(&env), all);
    env.off("member3", Kind::Service, "foo").settle();
    assert_eq!(importers(&env), all, "within the grace period");
    env.pass(GRACE);
    assert_eq!(importers(&env), ["member1", "member2"]);
}

#[test]
fn a_member_that_is_taken_off_the_list_loses_import_and_copies_and_the_export_says_so() {
    let mut env = exported_for(json!("member2, member3"));
    assert_eq!(importers(&env), ["member1", "member2", "member3"]);
    env.on("member1", annotated(json!("member2"))).settle();
    assert_eq!(importers(&env), ["member1", "member2"]);
    let ready = says(&env, "member1", "Ready");
    let expected = "not imported by member3, which mcs.causeway.dev/consumers does not name";
    assert!(
        ready.starts_with("True") && ready.contains(expected),
        "{ready}"
    );
    env.on("member1", annotated(Value::Null)).settle();
    assert_eq!(importers(&env), ["member1", "member2", "member3"]);
}

#[test]
fn a_list_that_cannot_be_read_changes_nothing_and_is_reported() {
    let mut env = exported_for(json!("member2"));
    env.on("member1", annotated(json!("Member3"))).settle();
    assert_eq!(importers(&env), ["member1", "member2"]);
    let valid = says(&env, "member1", "Valid");
    assert!(
        valid.contains("metadata.annotations[mcs.causeway.dev/consumers]"),
        "{valid}"
    );
    env.off("member2", Kind::Import, "foo").settle();
    assert_eq!(importers(&env), ["member1", "member2"], "it is made again");
    env.on("member3", import("foo").port("http", 80)).settle();
    assert_eq!(env.service("member3", "derived-foo"), None);
    let env = exported_for(json!("Member3"));
    assert_eq!(
        importers(&env),
        ["member1", "member2", "member3"],
        "they imported it before"
    );
}

#[test]
fn of_lists_that_differ_that_of_the_oldest_export_counts() {
    let mut env = exported_for(json!("member2"));
    env.pass(Duration::from_secs(60));
    env.on("member2", annotated(json!("member3"))).settle();
    assert_eq!(importers(&env), ["member1", "member2"]);
    let conflict = says(&env, "member2", "Conflict");
    assert!(conflict.contains("ConsumersConflict"), "{conflict}");
}

#[test]
fn nobody_begins_or_ceases_to_import_while_the_oldest_exporter_is_unknown() {
    let mut env = exported_for(json!("member2"));
    env.on("member3", foo())
        .on("member3", source("foo-ghi", "10.3.0.5"))
        .pass(Duration::from_secs(60));
    env.on("member2", export("foo")).settle();
    assert_eq!(importers(&env), ["member1", "member2"]);
    env.lose("member1").restart().pass(Duration::from_secs(600));
    assert_eq!(importers(&env), ["member1", "member2"]);
}

/// Exports `foo` from all members: member1 first, without annotations, then member2 and member3
/// with the given ones.
fn exported_by_all(second: Value, third: Value) -> Environment {
    let mut env = super::exported();
    env.on("member3", foo())
        .on("member3", source("foo-ghi", "10.3.0.5"))
        .pass(Duration::from_secs(60));
    let with = |annotations: Value| export("foo").annotated(&annotations);
    env.on("member2", with(second)).settle();
    env.on("member3", with(third)).settle();
    env
}

#[test]
fn a_recorded_default_outlasts_its_unknown_exporter() {
    let mut env = super::exported();
    env.pass(Duration::from_secs(60));
    env.on("member2", annotated(json!("member2"))).settle();
    env.forget_writes();
    env.lose("member1").restart().pass(Duration::from_secs(600));
    assert_eq!(importers(&env), ["member1", "member2", "member3"]);
    let deleted = env.log().into_iter().filter(|line| line.contains("delete"));
    assert_eq!(deleted.collect::<Vec<_>>(), Vec::<String>::new());
}

#[test]
fn a_forged_import_takes_the_import_from_no_other_member() {
    let mut env = super::exported();
    env.pass(Duration::from_secs(60)).forget_writes();
    env.lose("member1").restart().settle();
    env.on("member2", forged()).pass(Duration::from_secs(120));
    let deleted = env.log().into_iter().filter(|line| line.contains("delete"));
    assert_eq!(
        deleted.collect::<Vec<_>>(),
        ["member2 delete EndpointSlice"],
        "its own record"
    );
    assert_eq!(env.addresses("member3", "derived-foo"), ["10.1.0.5"]);
}

#[test]
fn a_younger_export_withdraws_nothing_while_the_oldest_is_unknown() {
    let withdraw = json!({labels::UNREACHABLE: "withdraw-after=60s"});
    let mut env = exported_by_all(withdraw, json!({}));
    env.lose("member1").restart().settle();
    env.lose("member3").pass(Duration::from_secs(600));
    assert_eq!(env.addresses("member2", "derived-foo").len(), 3);
}

#[test]
fn nobody_begins_to_import_after_a_list_that_cannot_be_read() {
    let mut env = exported_for(json!("member2"));
    env.on("member3", foo()).pass(Duration::from_secs(60));
    env.on("member1", annotated(json!("Member3"))).settle();
    env.on("member2", export("foo")).settle();
    assert_eq!(importers(&env), ["member1", "member2"]);
    env.lose("member1").restart().pass(Duration::from_secs(600));
    assert_eq!(importers(&env), ["member1", "member2"]);
}

#[test]
fn hand_made_import_begins_nothing_while_all_records_are_lost() {
    let mut env = exported_for(json!("member1"));
    env.on("member3", import("foo").port("http", 80)).settle();
    env.lose("member1").restart().pass(Duration::from_secs(600));
    assert!(get(&env, "member3", Kind::Service, "derived-foo").is_none());
}

#[test]
fn nobody_begins_to_import_while_a_recorded_exporter_and_every_list_are_unknown() {
    let mut env = exported_for(json!("member1"));
    // The import made by hand records no list; its copies record member1.
    env.on("member3", import("foo").port("http", 80)).settle();
    let younger = service("foo").port("http", 80);
    env.on("member3", younger).on("member3", export("foo"));
    env.settle();
    assert!(!env.copies("member3", "derived-foo").is_empty());
    env.lose("member1").restart().pass(Duration::from_secs(600));
    assert!(get(&env, "member2", Kind::Import, "foo").is_none());
    env.reconnect("member1")
        .introduce("member1")
        .list("member1");
    env.settle();
    assert!(get(&env, "member2", Kind::Import, "foo").is_none());
}

#[test]
fn hand_made_import_uses_no_further_provider_while_the_preference_is_unknown() {
    let mut env = super::exported();
    let prefers = json!({"metadata": {"annotations": {labels::PREFER: "local"}}});
    env.on("member1", export("foo").with(prefers));
    env.on("member3", import("foo").port("http", 80)).settle();
    env.on("member2", service("foo").port("http", 80));
    env.on("member2", export("foo"));
    let pods = slice("foo-abc", "foo").port("http", 8080);
    env.on("member2", pods.endpoint("10.2.0.1")).settle();
    assert!(env.copies("member3", "derived-foo").is_empty());
    env.lose("member1").restart().pass(Duration::from_secs(600));
    assert!(env.copies("member3", "derived-foo").is_empty());
}

/// Returns the clusters that the status of member1's export names.
fn exported_to(env: &Environment) -> Value {
    let export = get(env, "member1", Kind::Export, "foo").expect("an export");
    let clusters = export["status"]["clusters"].as_array();
    let names = clusters.into_iter().flatten();
    names.map(|entry| entry["cluster"].clone()).collect()
}

#[test]
fn the_status_of_an_export_names_the_other_clusters_that_import_it() {
    let mut env = exported_for(Value::Null);
    assert_eq!(
        exported_to(&env),
        json!([]),
        "the definition has no such field"
    );
    env.server("member1").served.export_clusters = true;
    let served = env.server("member1").served.clone();
    env.observe("member1", MemberEvent::Served(served)).settle();
    let all = json!(["member2", "member3"]);
    assert_eq!(exported_to(&env), all);
    env.assert_at_rest();

    env.lose("member3").restart().settle();
    assert_eq!(exported_to(&env), all, "nothing is known of member3");
    env.assert_at_rest();
    env.identify("member3", "uid-of-member3", (1, 34))
        .list("member3")
        .settle();

    let lost = Failure::new(FailureKind::Network, "the connection was lost");
    env.observe("member3", MemberEvent::Imports(Signal::Failed(lost)))
        .settle();
    assert_eq!(exported_to(&env), all, "its watch fails");
    env.observe("member3", MemberEvent::Imports(Signal::Connected))
        .settle();

    env.on("member1", annotated(json!("member2"))).settle();
    assert_eq!(exported_to(&env), json!(["member2"]));
    env.off("member1", Kind::Service, "foo").settle();
    env.pass(Duration::from_secs(3600));
    assert_eq!(exported_to(&env), json!([]), "it is exported no more");
    env.assert_at_rest();
}
