//! Watches of the EndpointSlices of exposed Services alone.

use std::time::Duration;

use causeway::api::condition::READY;
use causeway::api::labels;
use serde_json::json;

use crate::fixtures::objects::{Kind, cluster, export, mcs, service, slice};
use crate::fixtures::{Environment, env, key, name};
use crate::model::TargetCluster;
use crate::model::slice::SliceScope;

const SECOND_LIST: Duration = Duration::from_secs(31);

fn watch(env: &mut Environment, value: &str) {
    let annotated = cluster("member1").annotated(&json!({labels::WATCH: value}));
    env.on_hub(annotated).settle();
}

fn put(env: &mut Environment, name: &str, address: &str) {
    let one = slice(&format!("{name}-abc"), name).port("http", 8080);
    env.on("member1", one.endpoint(address));
}

fn expose(env: &mut Environment, name: &str) {
    let exposed = mcs(name).providers(&["member1"]).consumers(&["member2"]);
    env.on_hub(service(name).port("http", 80)).on_hub(exposed);
}

/// Returns an environment whose member1 has slices of three services, of which foo alone is exposed
/// to member2, and watches exposed ones alone.
fn narrow() -> Environment {
    let mut env = env();
    env.keeps_clusters = true;
    env.member("member1").member("member2");
    for (name, address) in [
        ("foo", "10.1.0.5"),
        ("bar", "10.1.0.6"),
        ("quiet", "10.1.0.7"),
    ] {
        env.on("member1", service(name).port("http", 80));
        put(&mut env, name, address);
    }
    expose(&mut env, "foo");
    env.settle();
    watch(&mut env, "exposed");
    env
}

fn names(env: &Environment) -> Vec<String> {
    match env.slice_scope("member1") {
        SliceScope::All => vec!["*".to_owned()],
        SliceScope::Named(names) => names.iter().map(|name| name.to_string()).collect(),
    }
}

fn sources(env: &Environment, name: &str) -> usize {
    env.observed("member1").sources(&key(name)).count()
}

fn ready_of_member1(env: &Environment) -> String {
    env.cluster_says("member1", READY)
}

#[test]
fn annotation_that_comes_and_goes_writes_nothing() {
    let mut env = narrow();
    let addresses = |env: &Environment| env.addresses("member2", "foo");
    assert_eq!(
        (names(&env), sources(&env, "quiet")),
        (vec!["foo".into()], 0)
    );
    assert_eq!(addresses(&env), ["10.1.0.5"]);
    let said = "True Synced: Services and the EndpointSlices of exposed Services are watched";
    assert_eq!(ready_of_member1(&env), said);
    env.forget_writes();
    put(&mut env, "quiet", "10.1.0.8");
    env.restart().settle();
    assert_eq!(
        (names(&env), sources(&env, "quiet")),
        (vec!["foo".into()], 0)
    );
    assert!(env.written.is_empty(), "{:?}", env.log());
    env.on_hub(cluster("member1")).settle();
    assert_eq!((names(&env), sources(&env, "quiet")), (vec!["*".into()], 1));
    assert_eq!(addresses(&env), ["10.1.0.5"]);
    let slices = env.log().into_iter().filter(|write| write.contains("lice"));
    assert_eq!(slices.collect::<Vec<_>>(), [""; 0]);
}

#[test]
fn new_service_is_served_once_its_slices_are_listed() {
    let mut env = narrow();
    env.silence("member1");
    expose(&mut env, "bar");
    env.settle();
    assert!(!env.observed("member1").sources_are_known(&key("bar")));
    assert!(env.observed("member1").sources_are_known(&key("foo")));
    assert_eq!(env.addresses("member2", "bar"), [""; 0]);
    assert!(!env.says("bar", READY).contains("no ready endpoint"));
    env.reconnect("member1").settle();
    assert_eq!(names(&env), ["bar", "foo"]);
    assert_eq!(env.addresses("member2", "bar"), ["10.1.0.6"]);
    put(&mut env, "bar", "10.1.0.9");
    env.settle();
    assert_eq!(env.addresses("member2", "bar"), ["10.1.0.9"]);
    env.off_hub(Kind::Mcs, "bar").settle();
    assert_eq!((names(&env), sources(&env, "bar")), (vec!["foo".into()], 0));
    assert_eq!(env.addresses("member2", "bar"), [""; 0]);
    env.assert_at_rest();
}

#[test]
fn exports_are_watched_and_slices_of_other_managers_too() {
    let mut env = narrow();
    let by_hand = slice("quiet-hand", "quiet").with(json!({
        "metadata": {"labels": {labels::SLICE_MANAGED_BY: "somebody.example.com"}}
    }));
    env.on("member1", export("bar"))
        .on("member1", by_hand)
        .settle();
    assert_eq!(names(&env), ["bar", "foo"]);
    assert_eq!(sources(&env, "quiet"), 1);
    env.off("member1", Kind::Export, "bar").settle();
    assert_eq!((names(&env), sources(&env, "bar")), (vec!["foo".into()], 0));
}

/// Returns an environment in which member2 holds a copy of a slice of bar, whose name member1 has
/// dropped from its watch.
fn with_an_old_copy() -> Environment {
    let mut env = narrow();
    expose(&mut env, "bar");
    env.settle();
    env.lose("member2").off_hub(Kind::Mcs, "bar").settle();
    assert_eq!(names(&env), ["foo"]);
    env.silence("member1").list("member2");
    expose(&mut env, "bar");
    env.settle();
    assert_eq!(env.addresses("member2", "bar"), ["10.1.0.6"], "held");
    env
}

#[test]
fn copy_of_a_service_whose_slices_are_not_listed_is_held() {
    let mut env = with_an_old_copy();
    put(&mut env, "bar", "10.1.0.9");
    env.pass(SECOND_LIST);
    assert_eq!(env.addresses("member2", "bar"), ["10.1.0.6"]);
    env.reconnect("member1").settle();
    assert_eq!(env.addresses("member2", "bar"), ["10.1.0.9"]);
    assert_eq!(env.listed_again, 0);
}

#[test]
fn list_without_a_recorded_source_is_confirmed_by_a_second_one() {
    let mut env = with_an_old_copy();
    env.off("member1", Kind::Slice, "bar-abc")
        .reconnect("member1")
        .settle();
    assert_eq!(names(&env), ["bar", "foo"]);
    assert_eq!(env.addresses("member2", "bar"), ["10.1.0.6"], "held");
    env.pass(SECOND_LIST);
    assert_eq!(env.addresses("member2", "bar"), [""; 0]);
    assert_eq!(env.listed_again, 1);
}

#[test]
fn second_list_is_requested_again_once_other_watches_begin() {
    let rows: [fn(&mut Environment); 3] = [
        |env| {
            env.index.engage(&name("member1"), 2, None);
            env.introduce("member1").list("member1");
        },
        |env| {
            env.introduce("member1").list("member1");
        },
        |env| {
            env.on_hub(cluster("member1"));
        },
    ];
    for begin in rows {
        let mut env = with_an_old_copy();
        env.off("member1", Kind::Slice, "bar-abc")
            .reconnect("member1")
            .settle();
        let requested = env.take_second_lists();
        assert!(requested.contains(&TargetCluster::Member(name("member1"))));
        begin(&mut env);
        env.settle();
        assert_eq!(env.addresses("member2", "bar"), ["10.1.0.6"], "held");
        env.pass(SECOND_LIST);
        assert_eq!(env.addresses("member2", "bar"), [""; 0]);
        assert_eq!(env.listed_again, 1);
    }
}

#[test]
fn too_many_names_make_the_watch_one_of_all_slices() {
    let mut env = narrow();
    let long = |number: usize| format!("{number:03}-{}", "x".repeat(56));
    for number in 0..100 {
        expose(&mut env, &long(number));
    }
    env.settle();
    assert_eq!((names(&env), sources(&env, "quiet")), (vec!["*".into()], 1));
    let said = ready_of_member1(&env);
    assert!(said.contains("is not followed"), "{said}");
    assert_eq!(env.addresses("member2", "foo"), ["10.1.0.5"]);
    for (numbers, named) in [(95..100, false), (60..95, true)] {
        for number in numbers {
            env.off_hub(Kind::Mcs, &long(number));
        }
        env.settle();
        assert_eq!(env.slice_scope("member1") != SliceScope::All, named);
    }
    assert_eq!(env.addresses("member2", "foo"), ["10.1.0.5"]);
    assert!(!ready_of_member1(&env).contains("is not followed"));
}

#[test]
fn ready_of_a_cluster_names_an_unknown_value() {
    let mut env = narrow();
    watch(&mut env, "Exposed");
    let said = "True Synced: Services and EndpointSlices are watched; annotation \
                mcs.causeway.dev/watch has the unknown value \"Exposed\", which is ignored; write \
                exposed";
    assert_eq!(ready_of_member1(&env), said);
    assert_eq!(names(&env), ["*"]);
}
