//! Copies whose names are taken, or that lost their labels.

use super::*;

/// Returns the copy in member2, as it is stored.
fn copy(env: &Environment) -> Value {
    let name = env.only_copy().metadata.name.expect("a name");
    let stored = env.members["member2"].get(Kind::Slice, "shop", &name);
    stored.expect("a copy").clone()
}

fn put(env: &mut Environment, value: Value) {
    let kind = Kind::Slice;
    env.on("member2", Object { kind, value }).settle();
}

#[test]
fn a_copy_that_lost_labels_is_taken_back_and_kept_up() {
    let all = [
        labels::HUB,
        labels::SLICE_MANAGED_BY,
        labels::SERVICE_NAME,
        labels::SOURCE_CLUSTER,
    ];
    for lost in [&all[..1], &all[1..2], &all[2..3], &all[1..], &all[..]] {
        let mut env = provided();
        let whole = copy(&env);
        let mut stripped = whole.clone();
        for label in lost {
            let labels = stripped["metadata"]["labels"].as_object_mut();
            labels.expect("labels").remove(*label);
        }
        put(&mut env, stripped.clone());
        assert_eq!(
            copy(&env)["metadata"]["labels"],
            whole["metadata"]["labels"],
            "{lost:?}"
        );
        assert_eq!(env.log(), ["member2 update EndpointSlice"], "{lost:?}");
        // The same while nobody looked.
        env.silence("member2");
        put(&mut env, stripped);
        env.reconnect("member2").restart().settle();
        env.on("member1", source("10.1.0.6")).settle();
        assert_eq!(env.addresses("member2", "foo"), ["10.1.0.6"], "{lost:?}");
        assert!(env.is_ready("foo"));
        assert_eq!(env.listed_again, 0);
        env.assert_at_rest();
    }
}

#[test]
fn copy_that_lost_its_labels_and_its_source_is_reported_and_left_alone() {
    let mut env = provided();
    let mut stripped = copy(&env);
    let labels = stripped["metadata"]["labels"]
        .as_object_mut()
        .expect("labels");
    labels.retain(|label, _| label == "kubernetes.io/service-name");
    let other = slice("foo-xyz", "foo").port("http", 8080);
    env.on("member1", other.endpoint("10.1.0.7"))
        .off("member1", Kind::Slice, "foo-abc");
    put(&mut env, stripped.clone());
    env.settle();
    let name = stripped["metadata"]["name"].as_str().expect("a name");
    let said = env.says("foo", "Ready");
    let expected = format!("kubectl delete endpointslice {name} -n shop");
    assert!(said.contains(&expected), "{said}");
    assert!(
        env.members["member2"]
            .get(Kind::Slice, "shop", name)
            .is_some()
    );
    env.off("member2", Kind::Slice, name).settle();
    let said = env.says("foo", "Ready");
    assert!(!said.contains("without its labels"), "{said}");
}

#[test]
fn what_has_a_copys_name_is_reported_and_left_alone_and_no_member_is_listed_again_for_it() {
    let name = copy(&provided())["metadata"]["name"].clone();
    let name = name.as_str().expect("a name");
    let of_kubernetes = slice(name, "other").port("http", 8080);
    let foreign = slice(name, "foo").with(json!({"metadata": {"labels": {
        labels::SLICE_MANAGED_BY: labels::SLICE_DISPATCHER, labels::SOURCE_CLUSTER: "member9"}}}));
    let bare = slice(name, "foo").with(json!({"metadata": {"labels": null}}));
    let of_another = foreign
        .clone()
        .with(json!({"metadata": {"annotations": {labels::OWNER: "MultiClusterService/other"}}}));
    for theirs in [of_kubernetes, foreign, bare, of_another] {
        let mut env = env();
        env.member("member1").member("member2").on_hub(foo());
        env.on("member2", theirs.endpoint("10.9.0.9"))
            .on("member1", source("10.1.0.5"))
            .on_hub(exposure())
            .pass(Duration::from_secs(600));
        let said = env.says("foo", "Ready");
        let remedy = format!(
            "False EndpointSliceDispatchedFailed: 1 of 1 consumers: member2 has an EndpointSlice {name} that is not \
             causeway's, in the way of a copy; kubectl -n shop delete endpointslice {name}"
        );
        assert_eq!(said, remedy);
        env.assert_writes(|line| !line.contains("EndpointSlice"));
        assert_eq!(env.listed_again, 0);
        env.assert_at_rest();
        env.off("member2", Kind::Slice, name)
            .pass(Duration::from_secs(31));
        assert_eq!(env.addresses("member2", "foo"), ["10.1.0.5"]);
        assert!(env.is_ready("foo"), "{}", env.says("foo", "Ready"));
        env.assert_at_rest();
    }
}

#[test]
fn an_api_server_that_says_for_ever_that_something_is_there_is_listed_again_less_and_less_often() {
    let mut env = env();
    env.member("member1").member("member2").on_hub(foo());
    let there = Failure::new(FailureKind::AlreadyExists, "already exists");
    env.server("member2").refuses = Some((Kind::Slice, there));
    env.on("member1", source("10.1.0.5"))
        .on_hub(exposure())
        .pass(Duration::from_secs(3600));
    let listed = env.listed_again;
    assert!((2..=6).contains(&listed), "{listed}");
}
