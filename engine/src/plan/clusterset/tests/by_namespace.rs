//! Namespaces whose Services are exported, with defaults for the exports, and members in which
//! causeway creates the namespaces of exported services.

use super::*;
use crate::fixtures::key;

/// Returns namespace shop with these annotations.
fn shop(annotations: Value) -> Object {
    namespace(NAMESPACE).with(json!({"metadata": {"annotations": annotations}}))
}

fn exporting() -> Value {
    json!({labels::EXPORT: "all"})
}

/// Returns three members with `foo` in member1, whose namespace has these annotations.
fn annotated(annotations: Value) -> Environment {
    let mut env = env();
    env.member("member1").member("member2").member("member3");
    env.on("member1", foo())
        .on("member1", source("foo-abc", "10.1.0.5"))
        .on("member1", shop(annotations))
        .settle();
    env
}

fn exports_of(env: &Environment, cluster: &str) -> Vec<String> {
    let all = env.members[cluster].all(Kind::Export);
    all.map(|one| {
        one["metadata"]["name"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    })
    .collect()
}

#[test]
fn services_of_an_exported_namespace_are_exported_like_others() {
    let mut env = annotated(exporting());
    let export = get(&env, "member1", Kind::Export, "foo").expect("an export");
    let owner = export["metadata"]["annotations"][labels::OWNER].as_str();
    assert!(
        owner.is_some_and(|owner| owner.starts_with("Namespace/")),
        "{owner:?}"
    );
    assert!(says(&env, "member1", "Valid").starts_with("True Valid"));
    for member in ["member1", "member2", "member3"] {
        assert_eq!(
            env.addresses(member, "derived-foo"),
            ["10.1.0.5"],
            "{member}"
        );
    }
    env.assert_at_rest();
    let bar = service("bar").port("http", 80);
    env.on("member1", bar).settle();
    assert_eq!(exports_of(&env, "member1"), ["bar", "foo"]);
    // What causeway made is exported by nobody: derived Services of all three members are there.
    assert!(exports_of(&env, "member2").is_empty());
    env.restart().settle();
    env.assert_at_rest();
}

#[test]
fn other_values_of_the_annotation_export_nothing() {
    for annotations in [
        json!({}),
        json!({labels::EXPORT: "none"}),
        json!({labels::EXPORT: ""}),
    ] {
        let env = annotated(annotations.clone());
        assert!(exports_of(&env, "member1").is_empty(), "{annotations}");
    }
}

#[test]
fn without_the_annotation_its_exports_go_and_those_of_users_stay() {
    let mut env = annotated(exporting());
    env.on("member1", service("own").port("http", 80))
        .on("member1", export("own"))
        .settle();
    env.on("member1", shop(json!({}))).settle();
    assert_eq!(exports_of(&env, "member1"), ["own"]);
    assert!(get(&env, "member2", Kind::Import, "foo").is_none());
    env.assert_at_rest();
}

#[test]
fn exports_of_users_take_precedence() {
    let mut env = annotated(json!({}));
    env.on("member1", export("foo")).settle();
    env.on("member1", shop(exporting())).settle();
    let export = get(&env, "member1", Kind::Export, "foo").expect("an export");
    assert_eq!(export["metadata"]["labels"][labels::HUB], Value::Null);
    env.assert_at_rest();
}

#[test]
fn export_that_flux_applies_over_one_of_causeways_stays() {
    let mut env = annotated(exporting());
    let label = json!({"f:metadata": {"f:labels": {"f:kustomize.toolkit.fluxcd.io/name": {}}}});
    let entries = json!([
        {"manager": labels::MANAGER, "operation": "Update", "fieldsV1": {"f:spec": {}}},
        {"manager": "kustomize-controller", "operation": "Apply", "fieldsV1": label},
    ]);
    let applied = json!({"metadata": {"managedFields": entries}});
    env.amend("member1", Kind::Export, "foo", applied).settle();
    env.on("member1", shop(json!({}))).settle();
    assert_eq!(exports_of(&env, "member1"), ["foo"]);
    assert_eq!(env.addresses("member2", "derived-foo"), ["10.1.0.5"]);
    env.assert_at_rest();
}

#[test]
fn services_that_are_no_backends_of_their_own_are_not_exported() {
    let mut env = annotated(exporting());
    let external = json!({"spec": {"type": "ExternalName", "externalName": "example.com"}});
    env.on("member1", service("outside").with(external))
        // Delivered on behalf of a MultiClusterService.
        .on("member2", shop(exporting()))
        .on_hub(service("bar").port("http", 80))
        .on_hub(mcs("bar").providers(&["member3"]).consumers(&["member2"]))
        .settle();
    assert_eq!(exports_of(&env, "member1"), ["foo"]);
    assert!(exports_of(&env, "member2").is_empty());
}

#[test]
fn namespaces_that_the_hub_does_not_permit_are_not_exported() {
    let mut env = annotated(json!({}));
    env.on_hub(permitted("member1", "other"))
        .on("member1", shop(exporting()))
        .settle();
    assert!(exports_of(&env, "member1").is_empty());
    env.on_hub(permitted("member1", "shop")).settle();
    assert_eq!(exports_of(&env, "member1"), ["foo"]);
}

#[test]
fn export_outlives_a_service_that_is_replaced_and_ends_with_one_that_is_gone() {
    let mut env = annotated(exporting());
    env.off("member1", Kind::Service, "foo").settle();
    assert_eq!(exports_of(&env, "member1"), ["foo"]);
    env.pass(GRACE / 2);
    assert_eq!(exports_of(&env, "member1"), ["foo"]);
    env.pass(GRACE);
    assert!(exports_of(&env, "member1").is_empty());
    assert!(get(&env, "member2", Kind::Import, "foo").is_none());
}

#[test]
fn exports_of_a_member_that_is_not_reached_stay() {
    let mut env = annotated(exporting());
    env.lose("member1").settle();
    env.restart().settle();
    assert_eq!(exports_of(&env, "member1"), ["foo"]);
    assert_eq!(env.addresses("member2", "derived-foo"), ["10.1.0.5"]);
}

#[test]
fn removed_member_loses_its_exports() {
    let mut env = annotated(exporting());
    env.off_hub(Kind::Cluster, "member1").settle();
    assert!(exports_of(&env, "member1").is_empty());
    assert!(env.addresses("member2", "derived-foo").is_empty());
}

#[test]
fn namespace_has_defaults_for_its_exports() {
    let prefer = |env: &Environment| {
        let export = env.observed("member1").export(&key("foo"));
        let export = export.expect("an export");
        let preference = export.failover.preference.as_ref();
        preference.map(ToString::to_string)
    };
    let with = |value: &str| {
        let mut all = exporting();
        all[labels::PREFER] = json!(value);
        shop(all)
    };
    let mut env = annotated(exporting());
    assert_eq!(prefer(&env), None);
    env.on("member1", with("local, any")).settle();
    assert_eq!(prefer(&env).as_deref(), Some("local, any"));
    env.restart().settle();
    assert_eq!(prefer(&env).as_deref(), Some("local, any"));
    // That of the export takes precedence.
    let own = json!({"metadata": {"annotations": {labels::PREFER: "region, any"}}});
    env.on("member1", export("foo").with(own)).settle();
    assert_eq!(prefer(&env).as_deref(), Some("region, any"));
    env.on("member1", with("zone, any")).settle();
    assert_eq!(prefer(&env).as_deref(), Some("region, any"));
    env.on("member1", export("foo")).settle();
    assert_eq!(prefer(&env).as_deref(), Some("zone, any"));
    env.on("member1", with("nearest")).settle();
    let valid = env.export_says("member1", "foo", "Valid");
    let expected = "Namespace shop: metadata.annotations[mcs.causeway.dev/prefer]: Unsupported";
    assert!(valid.contains(expected), "{valid}");
}

#[test]
fn consumers_of_a_namespace_are_those_of_its_exports() {
    let mut all = exporting();
    all[labels::CONSUMERS] = json!("member2");
    let mut env = annotated(all);
    assert!(get(&env, "member2", Kind::Import, "foo").is_some());
    assert!(get(&env, "member3", Kind::Import, "foo").is_none());
    env.on("member1", shop(exporting())).settle();
    assert!(get(&env, "member3", Kind::Import, "foo").is_some());
    env.assert_at_rest();
}

#[test]
fn missing_namespaces_of_exported_services_are_created_where_the_cluster_asks_for_it() {
    let mut env = annotated(json!({}));
    for member in ["member2", "member3"] {
        env.off(member, Kind::Namespace, NAMESPACE);
    }
    env.settle();
    env.on("member1", export("foo")).settle();
    assert!(get(&env, "member2", Kind::Import, "foo").is_none());
    let creates =
        json!({"metadata": {"annotations": {labels::CREATE_EXPORTED_NAMESPACES: "true"}}});
    env.on_hub(cluster("member2").with(creates)).settle();
    assert_eq!(env.addresses("member2", "derived-foo"), ["10.1.0.5"]);
    assert!(
        env.members["member3"]
            .get(Kind::Namespace, "", NAMESPACE)
            .is_none()
    );
    env.assert_at_rest();
}
