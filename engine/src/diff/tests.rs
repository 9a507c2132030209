use std::time::Duration;

use causeway::domain::protected::Protection;
use serde_json::{Value, json};

use super::*;
use crate::fixtures::objects::{Kind, Object, mcs, service, slice};
use crate::fixtures::{GRACE, World, key, world};
use crate::model::{Failure, FailureKind};

mod beside;
mod claims;
mod clocks;
mod endings;
mod fights;
mod karmada;
mod occupied;
mod policies;
mod restores;
mod worlds;

fn foo() -> Object {
    service("foo").port("http", 80)
}

fn source(address: &str) -> Object {
    slice("foo-abc", "foo").port("http", 8080).endpoint(address)
}

fn exposure() -> Object {
    mcs("foo").providers(&["member1"]).consumers(&["member2"])
}

fn provided() -> World {
    let mut world = world();
    world.member("member1").member("member2").on_hub(foo());
    world
        .on("member1", source("10.1.0.5"))
        .on_hub(exposure())
        .settle();
    assert!(world.is_ready("foo"));
    world.forget_writes();
    world
}

fn finalizers(world: &World) -> Value {
    world.mcs("foo").expect("it is there")["metadata"]["finalizers"].clone()
}

#[test]
fn the_finalizer_is_there_before_any_member_is_written() {
    let mut world = world();
    world
        .member("member1")
        .member("member2")
        .on_hub(foo())
        .on("member1", source("10.1.0.5"));
    let theirs = json!({"metadata": {"finalizers": ["karmada.io/multiclusterservice-controller"]}});
    world.hub.refuses = Some((Kind::Mcs, Failure::new(FailureKind::Server, "not now")));
    world.on_hub(exposure().with(theirs)).settle();
    assert!(
        world
            .log()
            .iter()
            .all(|line| line == "hub patch MultiClusterService"),
        "{:?}",
        world.log()
    );
    world.hub.refuses = None;
    world.forget_writes().pass(Duration::from_secs(30));
    assert_eq!(world.log()[0], "hub patch MultiClusterService");
    assert!(world.log().len() > 3, "{:?}", world.log());
    assert_eq!(
        finalizers(&world),
        json!([
            "karmada.io/multiclusterservice-controller",
            labels::FINALIZER
        ])
    );
}

#[test]
fn the_finalizer_goes_once_the_members_are_clean_and_others_stay() {
    let mut world = provided();
    let both = json!({"metadata": {"finalizers": [labels::FINALIZER, "somebody.else/one"]}});
    world.on_hub(exposure().with(both)).settle();
    world.forget_writes().off_hub(Kind::Mcs, "foo").settle();
    assert_eq!(
        world.log().last().map(String::as_str),
        Some("hub patch MultiClusterService")
    );
    assert_eq!(finalizers(&world), json!(["somebody.else/one"]));
    assert!(world.service("member1", "foo").is_none() && world.service("member2", "foo").is_none());
    assert_eq!(world.copies("member2", "foo"), []);
    world.assert_at_rest();
}

#[test]
fn the_finalizer_stays_while_a_write_is_under_way() {
    let mut world = provided();
    for cluster in ["member1", "member2"] {
        world.off(cluster, Kind::Service, "foo");
    }
    world.off_hub(Kind::Mcs, "foo").deliver();
    let name = world.copies("member2", "foo")[0]
        .metadata
        .name
        .clone()
        .expect("a name");
    world.off("member2", Kind::Slice, &name).deliver();
    let plan = world.plan("foo");
    for busy in [true, false] {
        let now = world.now();
        let diff = diff(&plan, &world.index, &key("foo"), Moment { now, busy });
        assert_eq!(diff.writes.contains_key(&Lane::Hub), !busy);
    }
}

#[test]
fn a_member_that_does_not_answer_never_blocks_a_deletion_and_is_cleaned_when_it_is_back() {
    let mut world = provided();
    world.lose("member2").off_hub(Kind::Mcs, "foo").settle();
    assert!(world.mcs("foo").is_none());
    assert_eq!(world.addresses("member2", "foo"), ["10.1.0.5"]);
    world.list("member2").settle();
    assert_eq!(
        world.addresses("member2", "foo"),
        ["10.1.0.5"],
        "nothing before the hub was asked"
    );
    assert!(world.asked.contains(&key("foo")));
    world.index.hub.confirmed_gone.insert(key("foo"));
    world.index.mark(crate::model::Item::Service(key("foo")));
    world.settle();
    assert!(world.service("member2", "foo").is_none() && world.copies("member2", "foo").is_empty());
    world.assert_at_rest();
}

#[test]
fn a_member_that_is_still_listing_is_waited_for() {
    let mut world = provided();
    world.restart();
    world
        .index
        .members
        .insert(crate::fixtures::name("member2"), Member::new(1));
    world.off_hub(Kind::Mcs, "foo").settle();
    assert!(world.mcs("foo").is_some());
    world
        .identify("member2", "uid-of-member2", (1, 34))
        .list("member2")
        .settle();
    assert!(world.mcs("foo").is_none() && world.service("member2", "foo").is_none());
}

#[test]
fn what_no_multi_cluster_service_wants_is_left_until_the_hub_was_asked_outright() {
    let mut world = provided();
    // The hub's list lacks it: it may be a cache that is behind.
    world.index.fold_hub(
        crate::model::HubEvent::MultiClusterServices(crate::model::Signal::Listed(Vec::new())),
        world.now(),
    );
    world.settle();
    world.pass(GRACE + GRACE);
    assert_eq!(world.log(), Vec::<String>::new());
    assert!(world.asked.contains(&key("foo")));
    assert_eq!(world.addresses("member2", "foo"), ["10.1.0.5"]);
    world.index.hub.confirmed_gone.insert(key("foo"));
    world.index.mark(crate::model::Item::Service(key("foo")));
    world.settle();
    assert!(world.service("member1", "foo").is_none() && world.copies("member2", "foo").is_empty());
}

#[test]
fn an_answer_about_an_earlier_multi_cluster_service_says_nothing_of_the_next() {
    let mut world = provided();
    world.index.hub.confirmed_gone.insert(key("foo"));
    world
        .on_hub(exposure().with(json!({"metadata": {"labels": {"a": "b"}}})))
        .settle();
    assert!(!world.index.hub.confirmed_gone.contains(&key("foo")));
    assert_eq!(world.addresses("member2", "foo"), ["10.1.0.5"]);
}

#[test]
fn the_hub_is_not_asked_about_what_nobody_holds() {
    let mut world = provided();
    world.off_hub(Kind::Mcs, "foo").settle();
    world.index.mark(crate::model::Item::Service(key("foo")));
    world.settle();
    assert!(world.asked.is_empty(), "{:?}", world.asked);
}

#[test]
fn a_deleted_multi_cluster_service_does_not_come_back_by_a_late_answer() {
    let mut world = provided();
    let last: causeway::api::MultiClusterService =
        crate::fixtures::server::decode(world.mcs("foo").expect("it is there").clone());
    world.off_hub(Kind::Mcs, "foo").settle();
    let now = world.now();
    world.index.fold_ack(
        &Lane::Hub,
        crate::model::Ack::MultiClusterService(last.into()),
        now,
    );
    assert!(world.index.hub.multi_cluster_services.is_empty());
}

#[test]
fn nothing_is_written_where_causeway_is_to_keep_away() {
    let mut world = world();
    world.settings.protection = Protection::new("shop", []);
    world
        .member("member1")
        .on_hub(foo())
        .on_hub(mcs("foo"))
        .settle();
    assert_eq!(world.log(), ["hub patch MultiClusterService"], "its status");
    let message = "False ServiceAppliedFailed: namespace shop is protected; start causeway with --allow-namespace shop to allow it";
    assert_eq!(world.says("foo", "Ready"), message);
    assert_eq!(finalizers(&world), Value::Null);
}

#[test]
fn an_exposure_that_cannot_be_understood_changes_nothing() {
    let mut world = provided();
    world
        .on_hub(exposure().with(json!({"spec": {"types": ["Cross"]}})))
        .settle();
    assert!(
        world.log().iter().all(|line| line.starts_with("hub")),
        "{:?}",
        world.log()
    );
    let message = r#"False ServiceAppliedFailed: spec.types[0]: Unsupported value: "Cross": supported values: "CrossCluster", "LoadBalancer""#;
    assert_eq!(world.says("foo", "Ready"), message);
}

#[test]
fn every_update_and_deletion_bears_the_observed_version() {
    let mut world = provided();
    let uid = |value: &Value| value["metadata"]["uid"].as_str().expect("a UID").to_owned();
    let version = |value: &Value| {
        value["metadata"]["resourceVersion"]
            .as_str()
            .expect("a version")
            .to_owned()
    };
    let stored = world.service("member2", "foo").expect("a Service").clone();
    world.on_hub(foo().port("grpc", 81)).deliver();
    let patch = world
        .writes("foo", "member2")
        .into_iter()
        .find_map(|write| write.operation().patch().cloned());
    assert_eq!(version(&patch.expect("a patch")), version(&stored));
    world.on_hub(exposure().consumers(&["member1"])).deliver();
    let copy = serde_json::to_value(&world.copies("member2", "foo")[0]).expect("JSON");
    let deletions: Vec<_> = world
        .writes("foo", "member2")
        .into_iter()
        .filter_map(|write| write.operation().deleted().cloned())
        .collect();
    let expected = [&stored, &copy].map(|object| observed(&uid(object), &version(object)));
    assert_eq!(deletions, expected);
}

#[test]
fn a_conflict_is_tried_again_with_what_the_watch_shows() {
    let mut world = provided();
    world.silence("member2");
    let name = world.copies("member2", "foo")[0]
        .metadata
        .name
        .clone()
        .expect("a name");
    let mut touched = world.members["member2"]
        .get(Kind::Slice, "shop", &name)
        .expect("a copy")
        .clone();
    touched["metadata"]["annotations"]["touched"] = json!("yes");
    world.on(
        "member2",
        Object {
            kind: Kind::Slice,
            value: touched,
        },
    );
    world
        .on("member1", source("10.1.0.6"))
        .pass(Duration::from_millis(500));
    assert_eq!(world.addresses("member2", "foo"), ["10.1.0.5"]);
    assert!(world.is_ready("foo"), "a passing conflict is no trouble");
    world.hear_again("member2").settle();
    assert_eq!(world.addresses("member2", "foo"), ["10.1.0.6"]);
}

#[test]
fn what_an_old_api_server_drops_is_not_written_for_ever() {
    let mut world = world();
    world.member("member1").member("member2");
    world.server("member2").drops = vec![(Kind::Service, "/spec/publishNotReadyAddresses")];
    world
        .on_hub(foo().with(json!({"spec": {"publishNotReadyAddresses": true}})))
        .on("member1", source("10.1.0.5"));
    world.on_hub(exposure()).settle();
    world.forget_writes().pass(Duration::from_secs(600));
    let writes = world
        .log()
        .iter()
        .filter(|line| line.starts_with("member2"))
        .count();
    assert!(writes < 30, "{writes} writes in ten minutes");
    let message = "False ServiceAppliedFailed: 1 of 2 clusters: member2 Service foo cannot be written (the API server took the \
                   write and left the object as it was)";
    assert_eq!(world.says("foo", "ServiceApplied"), message);
}

#[test]
fn an_old_member_gets_the_traffic_preference_that_it_knows() {
    for (release, preference, given) in [
        ((1, 30), "PreferClose", None),
        ((1, 33), "PreferClose", Some("PreferClose")),
        ((1, 33), "PreferSameNode", Some("PreferClose")),
        ((1, 33), "PreferSameZone", Some("PreferClose")),
        ((1, 34), "PreferSameNode", Some("PreferSameNode")),
    ] {
        let mut world = world();
        world
            .member("member1")
            .silent_member("member2")
            .identify("member2", "uid-of-2", release)
            .list("member2");
        world
            .on_hub(foo().with(json!({"spec": {"trafficDistribution": preference}})))
            .on("member1", source("10.1.0.5"));
        world.on_hub(exposure()).settle();
        let spec = &world.service("member2", "foo").expect("a Service")["spec"];
        assert_eq!(
            spec["trafficDistribution"].as_str(),
            given,
            "{release:?} {preference}"
        );
        assert_eq!(
            world.copies("member2", "foo")[0].endpoints[0]
                .hints
                .is_some(),
            given.is_some()
        );
        world.assert_at_rest();
    }
}

#[test]
fn a_member_that_is_upgraded_is_given_what_it_knows_by_then() {
    let mut world = world();
    world
        .member("member1")
        .silent_member("member2")
        .identify("member2", "uid-of-2", (1, 20))
        .list("member2");
    world
        .on_hub(foo().with(json!({"spec": {"trafficDistribution": "PreferSameNode"}})))
        .on("member1", source("10.1.0.5"));
    world.on_hub(exposure()).settle();
    assert!(world.service("member2", "foo").is_none(), "it is too old");
    for (release, given) in [
        ((1, 30), None),
        ((1, 33), Some("PreferClose")),
        ((1, 34), Some("PreferSameNode")),
        ((1, 33), Some("PreferClose")),
    ] {
        world.upgrade("member2", "uid-of-2", release).settle();
        let spec = &world.service("member2", "foo").expect("a Service")["spec"];
        let preference = spec["trafficDistribution"].as_str();
        assert_eq!(preference, given, "{release:?}");
        assert!(world.is_ready("foo"), "{release:?}");
        world.assert_at_rest();
    }
}

#[test]
fn what_a_person_does_to_a_copy_is_undone() {
    let mut world = provided();
    let name = world.copies("member2", "foo")[0]
        .metadata
        .name
        .clone()
        .expect("a name");
    let mut changed = world.members["member2"]
        .get(Kind::Slice, "shop", &name)
        .expect("a copy")
        .clone();
    changed["endpoints"] = json!([]);
    changed["metadata"]["labels"][labels::SOURCE_CLUSTER] = json!("member9");
    world
        .on(
            "member2",
            Object {
                kind: Kind::Slice,
                value: changed,
            },
        )
        .settle();
    assert_eq!(world.addresses("member2", "foo"), ["10.1.0.5"]);
    world.off("member2", Kind::Slice, &name).settle();
    assert_eq!(world.addresses("member2", "foo"), ["10.1.0.5"]);
    let log = world.log();
    assert_eq!(
        log,
        [
            "member2 update EndpointSlice",
            "member2 create EndpointSlice"
        ]
    );
    world.assert_at_rest();
}

#[test]
fn a_multi_cluster_service_that_was_made_anew_takes_over_what_is_there() {
    let mut world = provided();
    world.lose("member2").off_hub(Kind::Mcs, "foo").settle();
    world.on_hub(exposure()).list("member2").settle();
    let uid = world.mcs("foo").expect("it is there")["metadata"]["uid"]
        .as_str()
        .expect("a UID")
        .to_owned();
    let owner = json!(format!("MultiClusterService/{uid}"));
    let service = world.service("member2", "foo").expect("a Service");
    assert_eq!(service["metadata"]["annotations"][labels::OWNER], owner);
    let copy = serde_json::to_value(&world.copies("member2", "foo")[0]).expect("JSON");
    assert_eq!(copy["metadata"]["annotations"][labels::OWNER], owner);
    assert!(
        !world
            .log()
            .iter()
            .any(|line| line.starts_with("member2 delete")),
        "{:?}",
        world.log()
    );
}
