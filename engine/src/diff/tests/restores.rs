//! Stores that are restored from a snapshot: their versions run lower than the observed ones.

use super::*;
use crate::fixtures::objects::{cluster, drained};
use crate::fixtures::server::Snapshot;
use crate::fixtures::{member_event, name};
use crate::model::Signal;

/// Time that exceeds the interval of a second list.
const CONFIRMED: Duration = Duration::from_secs(35);

fn source_version(env: &Environment) -> u64 {
    let copies = env.copies("member2", "foo");
    let annotations = copies[0]
        .metadata
        .annotations
        .as_ref()
        .expect("annotations");
    let (_, version) = annotations[labels::SOURCE]
        .split_once('/')
        .expect("a version");
    version.parse().expect("a number")
}

/// Returns an environment in which copies were made of a state of member1 that is to be lost.
fn outrun() -> (Environment, Snapshot) {
    let mut env = provided();
    let snapshot = env.server("member1").snapshot();
    for number in 6..16 {
        let address = format!("10.1.0.{number}");
        env.on("member1", source(&address)).settle();
    }
    assert_eq!(env.addresses("member2", "foo"), ["10.1.0.15"]);
    (env, snapshot)
}

#[test]
fn copies_follow_a_provider_that_was_restored_once_a_second_list_confirms_it() {
    let (mut env, snapshot) = outrun();
    env.restore("member1", snapshot);
    env.on("member1", source("10.1.0.77")).settle();
    assert_eq!(env.addresses("member2", "foo"), ["10.1.0.15"]);
    env.pass(CONFIRMED);
    assert_eq!(env.addresses("member2", "foo"), ["10.1.0.77"]);
    env.on("member1", source("10.1.0.78")).settle();
    assert_eq!(
        env.addresses("member2", "foo"),
        ["10.1.0.78"],
        "lower versions are the truth from then on"
    );
    env.assert_at_rest();
}

#[test]
fn a_controller_that_starts_after_the_restore_finds_out_by_the_copies() {
    let (mut env, snapshot) = outrun();
    env.server("member1").restore(snapshot);
    env.on("member1", source("10.1.0.77"));
    env.restart().settle();
    assert_eq!(env.addresses("member2", "foo"), ["10.1.0.15"]);
    env.pass(CONFIRMED);
    assert_eq!(env.addresses("member2", "foo"), ["10.1.0.77"]);
    env.restart().settle();
    env.on("member1", source("10.1.0.78")).settle();
    assert_eq!(env.addresses("member2", "foo"), ["10.1.0.78"]);
    env.pass(CONFIRMED).assert_at_rest();
}

#[test]
fn copies_that_hold_the_same_get_the_versions_of_the_restored_store() {
    let (mut env, snapshot) = outrun();
    env.restore("member1", snapshot);
    env.on("member1", source("10.1.0.15")).settle();
    env.forget_writes().pass(CONFIRMED);
    assert_eq!(env.log(), ["member2 update EndpointSlice"]);
    assert!(source_version(&env) < 110, "{}", source_version(&env));
    env.on("member1", source("10.1.0.78")).settle();
    assert_eq!(env.addresses("member2", "foo"), ["10.1.0.78"]);
}

#[test]
fn a_consumer_that_is_observed_after_the_others_follows_too() {
    let (mut env, snapshot) = outrun();
    env.lose("member2").restore("member1", snapshot);
    env.on("member1", source("10.1.0.77")).pass(CONFIRMED);
    assert_eq!(env.addresses("member2", "foo"), ["10.1.0.15"]);
    env.list("member2").pass(CONFIRMED);
    assert_eq!(env.addresses("member2", "foo"), ["10.1.0.77"]);
}

#[test]
fn an_index_that_is_merely_behind_replaces_nothing_newer() {
    let mut env = provided();
    let at_first = source_version(&env);
    env.silence("member1").on("member1", source("10.1.0.6"));
    let newest = env.server("member1").snapshot();
    // Another process, that knew more, has written the copy.
    env.reconnect("member1").settle();
    assert!(source_version(&env) > at_first);
    let copied = env.server("member2").snapshot();
    let mut behind = provided();
    behind.server("member2").restore(copied);
    behind.silence("member1");
    behind.server("member1").restore(newest);
    behind
        .list("member2")
        .forget_writes()
        .pass(Duration::from_secs(10));
    assert_eq!(behind.addresses("member2", "foo"), ["10.1.0.6"]);
    assert_eq!(behind.log(), Vec::<String>::new());
    behind.reconnect("member1").list("member1").pass(CONFIRMED);
    assert_eq!(behind.addresses("member2", "foo"), ["10.1.0.6"]);
    assert_eq!(behind.log(), Vec::<String>::new());
}

#[test]
fn a_rollback_that_is_suspected_while_a_list_is_under_way_waits_for_the_next() {
    let (mut env, snapshot) = outrun();
    env.server("member1").restore(snapshot);
    env.on("member1", source("10.1.0.77"));
    env.list("member1").settle();
    env.observe("member1", member_event(Kind::Slice, Signal::Confirmed))
        .settle();
    assert_eq!(env.addresses("member2", "foo"), ["10.1.0.15"]);
    env.pass(CONFIRMED);
    assert_eq!(env.addresses("member2", "foo"), ["10.1.0.77"]);
}

#[test]
fn second_list_of_a_restored_provider_is_requested_by_its_next_watches() {
    let (mut env, snapshot) = outrun();
    env.restore("member1", snapshot);
    env.on("member1", source("10.1.0.77")).settle();
    env.index.engage(&name("member1"), 2, None);
    env.introduce("member1").settle();
    assert!(!env.take_second_lists().is_empty());
    env.list("member1").settle();
    assert_eq!(env.addresses("member2", "foo"), ["10.1.0.15"]);
    env.pass(CONFIRMED);
    assert_eq!(env.addresses("member2", "foo"), ["10.1.0.77"]);
}

#[test]
fn what_a_restored_hub_lists_counts_whatever_its_versions() {
    let mut env = provided();
    env.keeps_clusters = true;
    env.settle();
    let snapshot = env.hub.snapshot();
    for round in 0..10 {
        let name = json!({"metadata": {"annotations": {"round": round.to_string()}}});
        env.on_hub(cluster("member1").with(name.clone()))
            .on_hub(foo().with(name.clone()))
            .on_hub(exposure().with(name))
            .settle();
    }
    env.restore_hub(snapshot).settle();
    env.on_hub(drained("member1", true)).pass(CONFIRMED);
    assert_eq!(env.addresses("member2", "foo"), Vec::<String>::new());
    let served = json!({"metadata": {"annotations": {labels::WITHDRAW: null}}});
    env.on_hub(cluster("member1").with(served)).settle();
    assert_eq!(env.addresses("member2", "foo"), ["10.1.0.5"]);
    env.on_hub(mcs("foo").providers(&["member1"]).consumers(&["member1"]))
        .settle();
    assert_eq!(env.addresses("member2", "foo"), Vec::<String>::new());
    env.off_hub(Kind::Cluster, "member1").pass(CONFIRMED);
    assert!(
        env.index
            .cluster_names()
            .all(|known| known.as_str() != "member1")
    );
    env.assert_at_rest();
}
