use std::time::Duration;

use causeway::domain::protected::Protection;
use serde_json::{Value, json};

use super::*;
use crate::fixtures::objects::{Kind, Object, cluster, foo, mcs, service, slice, source};
use crate::fixtures::{Environment, GRACE, env, key};
use crate::model::{Failure, FailureKind, ObservedVersion, Operation};

mod claims;
mod clocks;
mod endings;
mod karmada;
mod managed_by_karmada;
mod occupied;
mod policies;
mod restores;
mod write_conflicts;

fn exposure() -> Object {
    mcs("foo").providers(&["member1"]).consumers(&["member2"])
}

fn provided() -> Environment {
    let mut env = env();
    env.member("member1").member("member2").on_hub(foo());
    env.on("member1", source("10.1.0.5"))
        .on_hub(exposure())
        .settle();
    assert!(env.is_ready("foo"));
    env.forget_writes();
    env
}

fn finalizers(env: &Environment) -> Value {
    env.mcs("foo").expect("it is there")["metadata"]["finalizers"].clone()
}

#[test]
fn the_finalizer_is_there_before_any_member_is_written() {
    let mut env = env();
    env.member("member1")
        .member("member2")
        .on_hub(foo())
        .on("member1", source("10.1.0.5"));
    let theirs = json!({"metadata": {"finalizers": ["karmada.io/multiclusterservice-controller"]}});
    env.hub.refuses = Some((Kind::Mcs, Failure::new(FailureKind::Server, "not now")));
    env.on_hub(exposure().with(theirs)).settle();
    env.assert_writes(|line| line == "hub patch MultiClusterService");
    env.hub.refuses = None;
    env.forget_writes().pass(Duration::from_secs(30));
    assert_eq!(env.log()[0], "hub patch MultiClusterService");
    assert!(env.log().len() > 3, "{:?}", env.log());
    assert_eq!(
        finalizers(&env),
        json!([
            "karmada.io/multiclusterservice-controller",
            labels::FINALIZER
        ])
    );
}

#[test]
fn companion_and_import_wait_for_the_finalizer() {
    let mut env = env();
    env.settings.publish_exports = true;
    let edge = json!({labels::NETWORK: "edge", labels::REACH: "node-ports"});
    env.member("member1").member("member2").on_hub(foo());
    env.on_hub(cluster("member1").annotated(&edge))
        .on("member1", foo())
        .on("member1", source("10.1.0.5"))
        .on("member2", foo());
    env.hub.refuses = Some((Kind::Mcs, Failure::new(FailureKind::Server, "not now")));
    env.on_hub(exposure()).settle();
    let log = env.log();
    let is_of_hub = |line: &String| line == "hub patch MultiClusterService";
    assert!(log.iter().all(is_of_hub), "{log:?}");
    env.hub.refuses = None;
    env.forget_writes().pass(Duration::from_secs(30));
    let log = env.log();
    assert!(is_of_hub(&log[0]), "{log:?}");
    for line in ["member1 create Service", "member2 create ServiceImport"] {
        assert!(log.iter().any(|written| written == line), "{log:?}");
    }
}

#[test]
fn companion_of_an_export_waits_for_no_finalizer() {
    let mut env = env();
    let edge = json!({labels::NETWORK: "edge", labels::REACH: "node-ports"});
    env.member("member1").member("member2").on_hub(foo());
    env.on_hub(cluster("member1").annotated(&edge))
        .on("member1", foo())
        .on("member1", source("10.1.0.5"))
        .on("member1", crate::fixtures::objects::export("foo"));
    env.hub.refuses = Some((Kind::Mcs, Failure::new(FailureKind::Server, "not now")));
    env.on_hub(exposure()).settle();
    let companion = key("foo").companion();
    let made = env.service("member1", &companion.name);
    let owner = &made.expect("a companion")["metadata"]["annotations"][labels::OWNER];
    assert_eq!(owner, "ServiceExport/foo");
}

#[test]
fn the_finalizer_goes_once_the_members_are_clean_and_others_stay() {
    let mut env = provided();
    let both = json!({"metadata": {"finalizers": [labels::FINALIZER, "somebody.else/one"]}});
    env.on_hub(exposure().with(both)).settle();
    env.forget_writes().off_hub(Kind::Mcs, "foo").settle();
    assert_eq!(
        env.log().last().map(String::as_str),
        Some("hub patch MultiClusterService")
    );
    assert_eq!(finalizers(&env), json!(["somebody.else/one"]));
    assert!(env.service("member1", "foo").is_none() && env.service("member2", "foo").is_none());
    assert_eq!(env.copies("member2", "foo"), []);
    env.assert_at_rest();
}

#[test]
fn the_finalizer_stays_while_a_write_is_under_way() {
    let mut env = provided();
    for cluster in ["member1", "member2"] {
        env.off(cluster, Kind::Service, "foo");
    }
    env.off_hub(Kind::Mcs, "foo").deliver();
    let name = env.only_copy().metadata.name.expect("a name");
    env.off("member2", Kind::Slice, &name).deliver();
    let plan = env.plan("foo");
    for busy in [true, false] {
        let now = env.now();
        let diff = diff(&plan, &env.index, &key("foo"), Moment { now, busy });
        assert_eq!(diff.writes.contains_key(&TargetCluster::Hub), !busy);
    }
}

#[test]
fn a_member_that_does_not_answer_never_blocks_a_deletion_and_is_cleaned_when_it_is_back() {
    let mut env = provided();
    env.lose("member2").off_hub(Kind::Mcs, "foo").settle();
    assert!(env.mcs("foo").is_none());
    assert_eq!(env.addresses("member2", "foo"), ["10.1.0.5"]);
    env.list("member2").settle();
    assert_eq!(
        env.addresses("member2", "foo"),
        ["10.1.0.5"],
        "nothing before the lookup"
    );
    assert!(env.looked_up.contains(&key("foo")));
    env.index.apply_confirmed_absence(key("foo"));
    env.index.mark(crate::model::Item::Service(key("foo")));
    env.settle();
    assert!(env.service("member2", "foo").is_none() && env.copies("member2", "foo").is_empty());
    env.assert_at_rest();
}

#[test]
fn a_member_that_is_still_listing_is_waited_for() {
    let mut env = provided();
    env.restart();
    env.engage("member2");
    env.off_hub(Kind::Mcs, "foo").settle();
    assert!(env.mcs("foo").is_some());
    env.identify("member2", "uid-of-member2", (1, 34))
        .list("member2")
        .settle();
    assert!(env.mcs("foo").is_none() && env.service("member2", "foo").is_none());
}

/// Returns an environment whose hub's list lacks the MultiClusterService: it may be a cache that is
/// behind.
fn unlisted() -> Environment {
    let mut env = provided();
    env.index.apply_hub(
        crate::model::HubEvent::MultiClusterServices(crate::model::Signal::Listed(Vec::new())),
        env.now(),
    );
    env.settle();
    env
}

#[test]
fn what_no_multi_cluster_service_wants_is_left_until_the_hub_was_asked_outright() {
    let mut env = unlisted();
    env.pass(GRACE + GRACE);
    assert_eq!(env.log(), Vec::<String>::new());
    assert!(env.looked_up.contains(&key("foo")));
    assert_eq!(env.addresses("member2", "foo"), ["10.1.0.5"]);
    env.index.apply_confirmed_absence(key("foo"));
    env.index.mark(crate::model::Item::Service(key("foo")));
    env.settle();
    assert!(env.service("member1", "foo").is_none() && env.copies("member2", "foo").is_empty());
}

#[test]
fn absence_is_looked_up_again_by_a_process_that_begins_to_lead() {
    let mut env = unlisted();
    env.index.apply_confirmed_absence(key("foo"));
    env.index.drop_confirmed_absences();
    env.looked_up.clear();
    env.index.mark(crate::model::Item::Service(key("foo")));
    env.settle();
    assert!(env.looked_up.contains(&key("foo")));
    assert_eq!(env.addresses("member2", "foo"), ["10.1.0.5"]);
}

#[test]
fn an_answer_about_an_earlier_multi_cluster_service_says_nothing_of_the_next() {
    let mut env = provided();
    env.index.apply_confirmed_absence(key("foo"));
    env.on_hub(exposure().with(json!({"metadata": {"labels": {"a": "b"}}})))
        .settle();
    assert!(!env.index.is_absence_confirmed(&key("foo")));
    assert_eq!(env.addresses("member2", "foo"), ["10.1.0.5"]);
}

#[test]
fn the_hub_is_not_asked_about_what_nobody_holds() {
    let mut env = provided();
    env.off_hub(Kind::Mcs, "foo").settle();
    env.index.mark(crate::model::Item::Service(key("foo")));
    env.settle();
    assert!(env.looked_up.is_empty(), "{:?}", env.looked_up);
}

#[test]
fn a_deleted_multi_cluster_service_does_not_come_back_by_a_late_answer() {
    let mut env = provided();
    let last: causeway::api::MultiClusterService =
        crate::fixtures::server::decode(env.mcs("foo").expect("it is there").clone());
    env.off_hub(Kind::Mcs, "foo").settle();
    let now = env.now();
    env.index.apply_ack(
        &TargetCluster::Hub,
        crate::model::Ack::MultiClusterService(last.into()),
        now,
    );
    assert!(env.index.multi_cluster_services().len() == 0);
}

#[test]
fn nothing_is_written_where_causeway_is_to_keep_away() {
    let mut env = env();
    env.settings.protection = Protection::new("shop", []);
    env.member("member1")
        .on_hub(foo())
        .on_hub(mcs("foo"))
        .settle();
    assert_eq!(env.log(), ["hub patch MultiClusterService"], "its status");
    let message = "False ServiceAppliedFailed: namespace shop is protected; start causeway with --allow-namespace shop to allow it";
    assert_eq!(env.says("foo", "Ready"), message);
    assert_eq!(finalizers(&env), Value::Null);
}

#[test]
fn an_exposure_that_cannot_be_understood_changes_nothing() {
    let mut env = provided();
    env.on_hub(exposure().with(json!({"spec": {"types": ["Cross"]}})))
        .settle();
    env.assert_writes(|line| line.starts_with("hub"));
    let message = r#"False ServiceAppliedFailed: spec.types[0]: Unsupported value: "Cross": supported values: "CrossCluster", "LoadBalancer""#;
    assert_eq!(env.says("foo", "Ready"), message);
}

#[test]
fn every_update_and_deletion_bears_the_observed_version() {
    let mut env = provided();
    let uid = |value: &Value| value["metadata"]["uid"].as_str().expect("a UID").to_owned();
    let version = |value: &Value| {
        value["metadata"]["resourceVersion"]
            .as_str()
            .expect("a version")
            .to_owned()
    };
    let stored = env.service("member2", "foo").expect("a Service").clone();
    env.on_hub(foo().port("grpc", 81)).deliver();
    let patch = env
        .writes("foo", "member2")
        .into_iter()
        .find_map(|write| write.operation().patch().cloned());
    assert_eq!(version(&patch.expect("a patch")), version(&stored));
    env.on_hub(exposure().consumers(&["member1"])).deliver();
    let copy = serde_json::to_value(&env.copies("member2", "foo")[0]).expect("JSON");
    let deletions: Vec<_> = env
        .writes("foo", "member2")
        .into_iter()
        .filter_map(|write| match write.operation() {
            Operation::Delete(observed) => Some(observed.clone()),
            _ => None,
        })
        .collect();
    let expected = [&stored, &copy].map(|object| ObservedVersion {
        uid: uid(object).into(),
        resource_version: version(object).into(),
    });
    assert_eq!(deletions, expected);
}

#[test]
fn a_conflict_is_tried_again_with_what_the_watch_shows() {
    let mut env = provided();
    env.silence("member2");
    let name = env.only_copy().metadata.name.expect("a name");
    let touched = json!({"metadata": {"annotations": {"touched": "yes"}}});
    env.amend("member2", Kind::Slice, &name, touched);
    env.on("member1", source("10.1.0.6"))
        .pass(Duration::from_millis(500));
    assert_eq!(env.addresses("member2", "foo"), ["10.1.0.5"]);
    assert!(env.is_ready("foo"), "a passing conflict is no problem");
    env.reconnect("member2").settle();
    assert_eq!(env.addresses("member2", "foo"), ["10.1.0.6"]);
}

#[test]
fn what_an_old_api_server_drops_is_not_written_for_ever() {
    let mut env = env();
    env.member("member1").member("member2");
    env.server("member2").drops = vec![(Kind::Service, "/spec/publishNotReadyAddresses")];
    env.on_hub(foo().with(json!({"spec": {"publishNotReadyAddresses": true}})))
        .on("member1", source("10.1.0.5"));
    env.on_hub(exposure()).settle();
    env.forget_writes().pass(Duration::from_secs(600));
    let writes = env
        .log()
        .iter()
        .filter(|line| line.starts_with("member2"))
        .count();
    assert!(writes < 30, "{writes} writes in ten minutes");
    let message = "False ServiceAppliedFailed: 1 of 2 clusters: member2 Service foo cannot be written (the API server took the \
                   write and left the object as it was)";
    assert_eq!(env.says("foo", "ServiceApplied"), message);
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
        let mut env = env();
        env.member("member1")
            .silent_member("member2")
            .identify("member2", "uid-of-2", release)
            .list("member2");
        env.on_hub(foo().with(json!({"spec": {"trafficDistribution": preference}})))
            .on("member1", source("10.1.0.5"));
        env.on_hub(exposure()).settle();
        let spec = &env.service("member2", "foo").expect("a Service")["spec"];
        assert_eq!(
            spec["trafficDistribution"].as_str(),
            given,
            "{release:?} {preference}"
        );
        assert_eq!(
            env.copies("member2", "foo")[0].endpoints[0].hints.is_some(),
            given.is_some()
        );
        env.assert_at_rest();
    }
}

#[test]
fn a_member_that_is_upgraded_is_given_what_it_knows_by_then() {
    let mut env = env();
    env.member("member1")
        .silent_member("member2")
        .identify("member2", "uid-of-2", (1, 20))
        .list("member2");
    env.on_hub(foo().with(json!({"spec": {"trafficDistribution": "PreferSameNode"}})))
        .on("member1", source("10.1.0.5"));
    env.on_hub(exposure()).settle();
    assert!(env.service("member2", "foo").is_none(), "it is too old");
    for (release, given) in [
        ((1, 30), None),
        ((1, 33), Some("PreferClose")),
        ((1, 34), Some("PreferSameNode")),
        ((1, 33), Some("PreferClose")),
    ] {
        env.upgrade("member2", "uid-of-2", release).settle();
        let spec = &env.service("member2", "foo").expect("a Service")["spec"];
        let preference = spec["trafficDistribution"].as_str();
        assert_eq!(preference, given, "{release:?}");
        assert!(env.is_ready("foo"), "{release:?}");
        env.assert_at_rest();
    }
}

#[test]
fn what_a_person_does_to_a_copy_is_undone() {
    let mut env = provided();
    let name = env.only_copy().metadata.name.expect("a name");
    let elsewhere = json!({"labels": {labels::SOURCE_CLUSTER: "member9"}});
    let changed = json!({"endpoints": [], "metadata": elsewhere});
    env.amend("member2", Kind::Slice, &name, changed).settle();
    assert_eq!(env.addresses("member2", "foo"), ["10.1.0.5"]);
    env.off("member2", Kind::Slice, &name).settle();
    assert_eq!(env.addresses("member2", "foo"), ["10.1.0.5"]);
    let log = env.log();
    assert_eq!(
        log,
        [
            "member2 update EndpointSlice",
            "member2 create EndpointSlice"
        ]
    );
    env.assert_at_rest();
}

#[test]
fn a_multi_cluster_service_that_was_recreated_takes_over_what_is_there() {
    let mut env = provided();
    env.lose("member2").off_hub(Kind::Mcs, "foo").settle();
    env.on_hub(exposure()).list("member2").settle();
    let uid = env.mcs("foo").expect("it is there")["metadata"]["uid"]
        .as_str()
        .expect("a UID")
        .to_owned();
    let owner = json!(format!("MultiClusterService/{uid}"));
    let service = env.service("member2", "foo").expect("a Service");
    assert_eq!(service["metadata"]["annotations"][labels::OWNER], owner);
    let copy = serde_json::to_value(&env.copies("member2", "foo")[0]).expect("JSON");
    assert_eq!(copy["metadata"]["annotations"][labels::OWNER], owner);
    env.assert_writes(|line| !line.starts_with("member2 delete"));
}
