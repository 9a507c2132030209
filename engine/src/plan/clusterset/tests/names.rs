//! Services that have the name of a derived Service and are none.

use super::*;
use crate::fixtures::{key, name};

const HTTP: &str = "http";

/// Asserts that nothing of the import reaches the Service that a member has in the place of the
/// derived one, and that every export reports that.
fn assert_in_the_way(env: &Environment, of: &str, derived: &str) {
    let copies = env.copies("member3", derived);
    let of_clusterset = copies.iter().filter(|copy| {
        let labels = copy.metadata.labels.as_ref();
        labels.is_some_and(|all| all.contains_key(labels::MULTICLUSTER_SERVICE_NAME))
    });
    assert_eq!(of_clusterset.count(), 0, "{copies:#?}");
    let import = get(env, "member3", Kind::Import, of).expect("an import");
    assert_eq!(import["spec"]["ips"], Value::Null);
    let stands = &import["metadata"]["annotations"][labels::DERIVED_SERVICE];
    assert_eq!(*stands, Value::Null);
    let ready = &import["status"]["conditions"][0];
    assert_eq!(
        (&ready["status"], &ready["reason"]),
        (&json!("False"), &json!("ServiceConflict"))
    );
    let ready = env.export_says("member1", of, "Ready");
    let reported = format!("False Failed: 1 of 3 clusters: member3 has a Service shop/{derived} ");
    assert!(ready.starts_with(&reported), "{ready}");
}

#[test]
fn a_members_own_service_of_the_derived_name_gets_no_foreign_endpoints() {
    for theirs in [
        service("derived-foo").port(HTTP, 80),
        service("derived-foo").port(HTTP, 80).headless(),
        service("derived-foo").port("other", 81),
        service("derived-foo").port(HTTP, 80).with(json!({"metadata": {"labels": {labels::MULTICLUSTER_SERVICE_NAME: "foo"}}})),
        service("derived-foo").port(HTTP, 80).with(json!({"metadata": {"labels": {labels::HUB: "another-hub", labels::MULTICLUSTER_SERVICE_NAME: "foo"}}})),
    ] {
        let mut env = exported();
        env.off("member1", Kind::Export, "foo").settle();
        env.on("member3", theirs).settle();
        let before = derived(&env, "member3").clone();
        env.on("member1", export("foo")).settle();
        assert_in_the_way(&env, "foo", "derived-foo");
        env.assert_at_rest();
        env.restart().settle();
        assert_in_the_way(&env, "foo", "derived-foo");
        assert_eq!(*derived(&env, "member3"), before);
        assert_eq!(env.addresses("member2", "derived-foo"), ["10.1.0.5"]);
        // Once it is gone the import is as it should be.
        env.off("member3", Kind::Service, "derived-foo").settle();
        assert_eq!(env.addresses("member3", "derived-foo"), ["10.1.0.5"]);
        assert_eq!(imported(&env, "member3")["spec"]["ips"], derived(&env, "member3")["spec"]["clusterIPs"]);
        assert!(says(&env, "member1", "Ready").starts_with("True Exported"));
        env.off("member1", Kind::Export, "foo").settle();
        assert_eq!(everything(&env), Vec::<String>::new());
    }
}

#[test]
fn a_service_that_takes_the_place_of_a_derived_one_loses_its_endpoints() {
    let mut env = exported();
    env.off("member3", Kind::Service, "derived-foo");
    env.on("member3", service("derived-foo").port(HTTP, 80))
        .settle();
    assert_in_the_way(&env, "foo", "derived-foo");
    env.off("member1", Kind::Export, "foo").settle();
    assert!(get(&env, "member3", Kind::Service, "derived-foo").is_some());
    env.assert_at_rest();
}

#[test]
fn a_derived_service_and_a_multi_cluster_service_of_its_name_keep_their_endpoints_apart() {
    let mut env = exported();
    let other = || service("derived-foo").port(HTTP, 80);
    env.on("member2", other());
    let pod = slice("derived-foo-abc", "derived-foo")
        .port(HTTP, 8080)
        .endpoint("10.2.0.9");
    env.off("member1", Kind::Export, "foo").settle();
    env.on("member2", pod).on_hub(other());
    let exposure = mcs("derived-foo")
        .providers(&["member2"])
        .consumers(&["member3"]);
    env.on_hub(exposure.clone()).settle();
    // The MultiClusterService was there first.
    assert_eq!(env.addresses("member3", "derived-foo"), ["10.2.0.9"]);
    env.off("member2", Kind::Slice, "derived-foo-abc").settle();
    env.on("member1", export("foo")).settle();
    let import = imported(&env, "member3");
    assert_eq!(import["spec"]["ips"], Value::Null);
    assert_eq!(
        import["status"]["conditions"][0]["reason"],
        "ServiceConflict"
    );
    assert!(env.addresses("member3", "derived-foo").is_empty());
    let ready = says(&env, "member1", "Ready");
    assert!(
        ready.contains(
            "member3 has a Service shop/derived-foo for the MultiClusterService of that name"
        ),
        "{ready}"
    );
    env.assert_at_rest();
    // Now the import is first.
    env.off_hub(Kind::Mcs, "derived-foo").settle();
    assert_eq!(env.addresses("member3", "derived-foo"), ["10.1.0.5"]);
    let pod = slice("derived-foo-abc", "derived-foo")
        .port(HTTP, 8080)
        .endpoint("10.2.0.9");
    env.on("member2", pod).on_hub(exposure).settle();
    assert_eq!(env.addresses("member3", "derived-foo"), ["10.1.0.5"]);
    let applied = env.says("derived-foo", "ServiceApplied");
    assert!(
        applied.contains(
            "member3 has a Service shop/derived-foo that stands for the imported service foo"
        ),
        "{applied}"
    );
    env.assert_at_rest();
}

#[test]
fn a_forged_short_hash_makes_no_derived_service() {
    let long = format!("{}-z", "long".repeat(15));
    let of_long = key(&long).derived();
    let forged = &*of_long.name;
    let mut env = exported();
    env.on("member1", service(&long).port(HTTP, 80))
        .on(
            "member1",
            slice("long-abc", &long)
                .port(HTTP, 8080)
                .endpoint("10.1.0.7"),
        )
        .on("member3", service(forged).port(HTTP, 80))
        .on("member1", export(&long))
        .settle();
    assert_eq!(env.addresses("member2", forged), ["10.1.0.7"]);
    assert_in_the_way(&env, &long, forged);
    // It is looked at again when it goes, and when it comes.
    env.off("member3", Kind::Service, forged).settle();
    assert_eq!(env.addresses("member3", forged), ["10.1.0.7"]);
    env.off("member3", Kind::Service, forged);
    env.on("member3", service(forged).port(HTTP, 80)).settle();
    assert_in_the_way(&env, &long, forged);
    env.off("member3", Kind::Service, forged).settle();
    assert_eq!(env.addresses("member3", forged), ["10.1.0.7"]);
    // A hash that two names share leads from the one to the other no more than any other name.
    let theirs = json!({"metadata": {"labels": {labels::MULTICLUSTER_SERVICE_NAME: "other"}}});
    let mut made = get(&env, "member3", Kind::Service, forged)
        .expect("a derived Service")
        .clone();
    json_patch::merge(&mut made, &theirs);
    made["metadata"]["annotations"] = json!({labels::OWNER: "ServiceExport/other"});
    let made = Object {
        kind: Kind::Service,
        value: made,
    };
    env.index.take_marked();
    env.server("member3").put(made);
    env.deliver();
    let writes = env.writes(&long, "member3");
    assert!(
        writes
            .iter()
            .any(|write| write.operation().verb() == "delete"),
        "{writes:#?}"
    );
    let keeps = |cluster: &str| {
        env.plan(&long)
            .clusterset
            .imports
            .of(&name(cluster))
            .is_some_and(|import| !import.copies.wanted.is_empty())
    };
    assert!(keeps("member2") && !keeps("member3"));
}

#[test]
fn a_label_alone_does_not_make_a_delivered_service_stand_for_another() {
    let mut env = exported();
    env.off("member1", Kind::Export, "foo").settle();
    env.on_hub(foo());
    env.on_hub(mcs("foo").providers(&["member1"]).consumers(&["member3"]))
        .settle();
    let labelled = json!({"metadata": {"labels": {labels::MULTICLUSTER_SERVICE_NAME: "bar"}}});
    env.amend("member3", Kind::Service, "foo", labelled)
        .settle();
    assert_eq!(env.addresses("member3", "foo"), ["10.1.0.5"]);
    env.off_hub(Kind::Mcs, "foo").settle();
    assert!(get(&env, "member3", Kind::Service, "foo").is_none());
    assert!(env.mcs("foo").is_none());
}
