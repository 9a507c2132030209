//! Members in which another controller of the Multi-Cluster Services API works.

use super::*;

/// Returns an object whose status another controller keeps up.
fn kept_by_another(object: Object) -> Object {
    let entry =
        json!({"manager": "cilium-operator", "operation": "Update", "subresource": "status"});
    object.with(json!({"metadata": {"managedFields": [entry]}}))
}

fn in_namespace(namespace: &str, object: Object) -> Object {
    object.with(json!({"metadata": {"namespace": namespace}}))
}

fn conditions(env: &Environment, cluster: &str, kind: Kind) -> Value {
    let object = get(env, cluster, kind, "foo").expect("the object");
    object["status"]["conditions"].clone()
}

/// Returns what the Cluster of member2 says of the API.
fn served(env: &Environment) -> String {
    env.cluster_says("member2", condition::CLUSTERSET_API)
}

/// Lists what causeway wrote into a member.
fn written(env: &Environment, member: &str) -> Vec<String> {
    let mut all = everything(env);
    all.retain(|line| line.starts_with(member));
    all
}

#[test]
fn member_of_another_controller_is_left_to_it() {
    let mut env = env();
    env.member("member1").member("member2").member("member3");
    env.keeps_clusters = true;
    env.on("member2", kept_by_another(export("bar")));
    for (member, address) in [("member1", "10.1.0.5"), ("member2", "10.2.0.5")] {
        env.on(member, foo()).on(member, source("foo-abc", address));
        env.on(member, export("foo"));
    }
    env.settle();
    assert_eq!(conditions(&env, "member2", Kind::Export), Value::Null);
    assert_eq!(written(&env, "member2"), Vec::<String>::new());
    assert_eq!(env.addresses("member3", "derived-foo"), ["10.1.0.5"]);
    let api = served(&env);
    assert!(api.starts_with("True ManagedByOther"), "{api}");
    assert!(api.contains("cilium-operator manages"), "{api}");
    let named = "(it writes the status of ServiceExport shop/bar)";
    assert!(
        api.contains(named) && api.ends_with("in namespace shop yet"),
        "{api}"
    );
    // The other controller ends.
    env.off("member2", Kind::Export, "bar").settle();
    assert_eq!(
        env.addresses("member3", "derived-foo"),
        ["10.1.0.5", "10.2.0.5"]
    );
    assert_eq!(
        env.addresses("member2", "derived-foo"),
        ["10.1.0.5", "10.2.0.5"]
    );
    let api = served(&env);
    assert!(api.starts_with("True Served"), "{api}");
}

#[test]
fn other_controller_in_one_namespace_leaves_the_others() {
    let mut env = env();
    env.member("member1").member("member2");
    env.keeps_clusters = true;
    let forged = |namespace| in_namespace(namespace, kept_by_another(export("bar")));
    env.on("member2", forged("attic"));
    env.on("member2", foo()).on("member2", export("foo"));
    env.on("member2", source("foo-abc", "10.2.0.5")).settle();
    for member in ["member1", "member2"] {
        assert_eq!(
            env.addresses(member, "derived-foo"),
            ["10.2.0.5"],
            "{member}"
        );
    }
    assert!(says(&env, "member2", "Valid").starts_with("True Valid"));
    let api = served(&env);
    let named = "(it writes the status of ServiceExport attic/bar)";
    assert!(
        api.contains(named) && api.ends_with("in namespace attic yet"),
        "{api}"
    );
    // A second namespace shows that it works in the whole member.
    env.on("member2", forged("cellar"));
    env.on("member2", service("web").port("http", 80));
    env.on("member2", export("web")).settle();
    assert!(get(&env, "member1", Kind::Import, "web").is_none());
    assert!(served(&env).ends_with("does not serve there yet"));
    let server = env.server("member2");
    server.delete(Kind::Export, "cellar", "bar");
    env.settle();
    assert!(get(&env, "member1", Kind::Import, "web").is_some());
}

#[test]
fn what_is_served_already_stays_when_another_controller_comes() {
    let mut env = exported();
    let before = everything(&env);
    for member in ["member1", "member2"] {
        env.on(member, kept_by_another(export("bar")));
    }
    env.settle();
    assert_eq!(everything(&env), before);
    env.on("member1", source("foo-abc", "10.1.0.6")).settle();
    assert_eq!(env.addresses("member2", "derived-foo"), ["10.1.0.6"]);
    env.restart().settle();
    assert_eq!(everything(&env), before);
}

#[test]
fn import_of_another_controller_gets_no_service() {
    let mut env = exported();
    env.member("member4");
    env.on("member4", kept_by_another(import("foo"))).settle();
    assert_eq!(written(&env, "member4"), Vec::<String>::new());
    assert_eq!(env.addresses("member3", "derived-foo"), ["10.1.0.5"]);
}
