mod identity;

use std::time::Duration;

use causeway::api::labels;
use k8s_openapi::api::core::v1::Service;
use serde_json::json;

use super::*;
use crate::fixtures::objects::{Kind, Object, foo, mcs, namespace, slice, source};
use crate::fixtures::{Environment, GRACE, env, key, member_event, name, now};
use crate::model::{Ack, MemberEvent, Refusal, Signal};

/// Returns an environment in which member1 and member2 provide `foo` to member3.
fn provided() -> Environment {
    let mut env = env();
    env.member("member1")
        .member("member2")
        .member("member3")
        .on_hub(foo());
    env.on("member1", source("10.1.0.5"))
        .on("member2", source("10.2.0.5"));
    env.on_hub(exposed(&["member3"])).settle();
    assert_eq!(addresses(&env), ["10.1.0.5", "10.2.0.5"]);
    env.forget_writes();
    env
}

fn addresses(env: &Environment) -> Vec<String> {
    let mut all = env.addresses("member3", "foo");
    all.sort();
    all
}

/// Returns `foo`, which member1 and member2 provide to these consumers.
fn exposed(consumers: &[&str]) -> Object {
    let exposed = mcs("foo").providers(&["member1", "member2"]);
    exposed.consumers(consumers)
}

#[test]
fn an_unreachable_provider_keeps_what_it_gave() {
    let mut env = provided();
    env.lose("member1").settle();
    assert_eq!(addresses(&env), ["10.1.0.5", "10.2.0.5"]);
    env.pass(Duration::from_secs(86_400));
    assert_eq!(addresses(&env), ["10.1.0.5", "10.2.0.5"]);
    env.assert_writes(|line| line.starts_with("hub"));
    env.on("member2", source("10.2.0.6")).settle();
    assert_eq!(addresses(&env), ["10.1.0.5", "10.2.0.6"]);
}

#[test]
fn what_went_while_a_provider_was_away_goes_when_it_is_back() {
    let mut env = provided();
    env.on(
        "member1",
        slice("foo-def", "foo")
            .port("http", 8080)
            .endpoint("10.1.0.6"),
    )
    .settle();
    env.lose("member1")
        .off("member1", Kind::Slice, "foo-abc")
        .settle();
    assert_eq!(addresses(&env), ["10.1.0.5", "10.1.0.6", "10.2.0.5"]);
    env.list("member1").settle();
    assert_eq!(addresses(&env), ["10.1.0.6", "10.2.0.5"]);
    assert!(env.is_ready("foo"), "{}", env.says("foo", "Ready"));
}

#[test]
fn unobserved_provider_holds_its_copies_in_consumers() {
    let mut env = provided();
    env.lose("member1").restart().settle();
    env.pass(GRACE + GRACE);
    assert_eq!(addresses(&env), ["10.1.0.5", "10.2.0.5"]);
    env.on("member2", source("10.2.0.6")).settle();
    assert_eq!(addresses(&env), ["10.1.0.5", "10.2.0.6"]);
}

#[test]
fn provider_named_no_more_is_withdrawn_unobserved() {
    let mut env = provided();
    env.lose("member1")
        .restart()
        .on_hub(mcs("foo").providers(&["member2"]).consumers(&["member3"]))
        .settle();
    assert_eq!(addresses(&env), ["10.2.0.5"]);
}

#[test]
fn partial_knowledge_deletes_nothing() {
    let mut env = provided();
    let all = |env: &Environment, kind| {
        Signal::Listed(env.members["member1"].all(kind).cloned().collect())
    };
    for observed in [
        &[][..],
        &[Kind::Slice],
        &[Kind::Service],
        &[Kind::Namespace, Kind::Service],
    ] {
        env.restart();
        env.index.members.insert(name("member1"), Member::new(1));
        for kind in observed {
            let event = member_event(
                *kind,
                if *kind == Kind::Slice {
                    Signal::Listed(Vec::new())
                } else {
                    all(&env, *kind)
                },
            );
            env.observe("member1", event);
        }
        env.settle();
        assert_eq!(addresses(&env), ["10.1.0.5", "10.2.0.5"], "{observed:?}");
    }
}

#[test]
fn a_complete_list_without_the_source_is_evidence() {
    let mut env = provided();
    env.observe(
        "member1",
        member_event(Kind::Slice, Signal::Listed(Vec::new())),
    )
    .settle();
    assert_eq!(addresses(&env), ["10.2.0.5"]);
}

#[test]
fn a_member_that_is_not_synced_is_never_written() {
    let mut env = provided();
    env.silent_member("member4").settle();
    env.on_hub(exposed(&["member3", "member4"])).settle();
    let lists = [Kind::Namespace, Kind::Service, Kind::Slice];
    let empty = |kind| member_event(kind, Signal::Listed(Vec::new()));
    for missing in 0..3 {
        env.index.members.insert(name("member4"), Member::new(1));
        env.identify("member4", "uid-of-4", (1, 34));
        for (index, kind) in lists.into_iter().enumerate() {
            if index != missing {
                env.observe("member4", empty(kind));
            }
        }
        env.index.mark_all_services();
        env.settle();
        assert_eq!(env.writes("foo", "member4"), []);
        assert_eq!(
            env.index.member_state(&name("member4")),
            MemberState::Syncing,
            "without {:?}",
            lists[missing]
        );
    }
    env.index.members.insert(name("member4"), Member::new(1));
    for kind in lists {
        env.observe("member4", empty(kind));
    }
    env.settle();
    assert_eq!(
        env.index.member_state(&name("member4")),
        MemberState::Syncing,
        "nobody said who it is"
    );
    env.assert_writes(|line| !line.starts_with("member4"));
    env.identify("member4", "uid-of-4", (1, 34))
        .list("member4")
        .settle();
    assert_eq!(env.addresses("member4", "foo").len(), 2);
}

#[test]
fn an_unreachable_consumer_is_not_written_and_catches_up() {
    let mut env = provided();
    env.lose("member3")
        .on("member1", source("10.1.0.6"))
        .settle();
    env.assert_writes(|line| line.starts_with("hub"));
    assert_eq!(env.writes("foo", "member3"), []);
    env.list("member3").settle();
    assert_eq!(addresses(&env), ["10.1.0.6", "10.2.0.5"]);
    assert!(env.is_ready("foo"));
}

#[test]
fn an_older_source_never_replaces_a_newer_one() {
    let mut env = provided();
    env.on("member1", source("10.1.0.6")).settle();
    let newer = env
        .copies("member3", "foo")
        .into_iter()
        .find(|copy| copy.endpoints[0].addresses == ["10.1.0.6"])
        .expect("the copy");
    env.forget_writes();
    // Another process that is behind: it still knows the first version of the source.
    let mut old = serde_json::to_value(source("10.1.0.5").value).expect("JSON");
    let stored = env.members["member1"]
        .get(Kind::Slice, "shop", "foo-abc")
        .expect("a source")["metadata"]
        .clone();
    let uid = stored["uid"].clone();
    old["metadata"]["uid"] = uid;
    old["metadata"]["resourceVersion"] = json!("101");
    env.observe("member1", member_event(Kind::Slice, Signal::Applied(old)))
        .settle();
    assert_eq!(env.log(), Vec::<String>::new());
    assert_eq!(addresses(&env), ["10.1.0.6", "10.2.0.5"]);
    let source = newer
        .metadata
        .annotations
        .and_then(|all| all.get(labels::SOURCE).cloned());
    assert!(
        source.is_some_and(|source| source.starts_with(stored["uid"].as_str().expect("a UID")))
    );
}

#[test]
fn recreated_source_replaces_one_of_a_later_version() {
    let mut env = provided();
    env.off("member1", Kind::Slice, "foo-abc")
        .on("member1", source("10.1.0.7"))
        .settle();
    assert_eq!(addresses(&env), ["10.1.0.7", "10.2.0.5"]);
}

#[test]
fn another_hubs_copies_are_never_touched() {
    let mut env = provided();
    let theirs = slice("theirs", "foo").port("http", 8080).endpoint("10.9.0.5").with(json!({"metadata": {"labels": {
        labels::SLICE_MANAGED_BY: labels::SLICE_DISPATCHER, labels::HUB: "other-hub", labels::SOURCE_CLUSTER: "member9",
    }}}));
    let unmanaged = slice("unmanaged", "foo").port("http", 8080).endpoint("10.9.0.6").with(json!({"metadata": {"labels": {
        labels::SLICE_MANAGED_BY: labels::SLICE_DISPATCHER, labels::HUB: "hub-uid", labels::SOURCE_CLUSTER: "member9",
    }}}));
    env.on("member3", theirs).on("member3", unmanaged).settle();
    assert_eq!(
        addresses(&env),
        ["10.1.0.5", "10.2.0.5", "10.9.0.5"],
        "the unmanaged one is this hub's own and nobody wants it"
    );
    env.off_hub(Kind::Mcs, "foo").settle();
    assert_eq!(addresses(&env), ["10.9.0.5"]);
    assert!(
        env.mcs("foo").is_none(),
        "what another hub left does not hold the finalizer"
    );
}

#[test]
fn write_answer_precedes_the_watch_and_older_events() {
    let mut env = provided();
    env.silence("member3")
        .on("member1", source("10.1.0.6"))
        .settle();
    assert_eq!(
        env.log(),
        ["member3 update EndpointSlice"],
        "written once though no watch showed it"
    );
    env.on("member1", source("10.1.0.7")).settle();
    // The watch shows both versions now, the older first.
    env.forget_writes().reconnect("member3").settle();
    env.assert_writes(|line| !line.starts_with("member3"));
    assert_eq!(addresses(&env), ["10.1.0.7", "10.2.0.5"]);
}

#[test]
fn event_of_an_older_version_restores_no_service() {
    let mut env = provided();
    env.silence("member3")
        .on_hub(foo().port("grpc", 81))
        .settle();
    env.on_hub(foo().port("grpc", 81).port("dns", 53)).settle();
    env.forget_writes().reconnect("member3").settle();
    env.assert_writes(|line| !line.starts_with("member3"));
    assert_eq!(
        env.service("member3", "foo").expect("a Service")["spec"]["ports"]
            .as_array()
            .map(Vec::len),
        Some(3)
    );
}

#[test]
fn deleted_object_counts_until_its_removal_is_observed() {
    let mut env = provided();
    env.silence("member3").off_hub(Kind::Mcs, "foo").settle();
    env.pass(Duration::from_secs(50));
    let deletions = env
        .log()
        .iter()
        .filter(|line| line.starts_with("member3 delete"))
        .count();
    assert_eq!(deletions, 3, "a Service and two copies: {:?}", env.log());
    assert!(
        env.mcs("foo").is_some(),
        "the finalizer waits for the watch"
    );
    assert!(env.index.members["member3"].owns_any(&key("foo"), "hub-uid"));
    env.reconnect("member3").settle();
    assert!(env.mcs("foo").is_none());
}

#[test]
fn a_member_that_is_suddenly_another_cluster_is_not_listened_to() {
    let mut env = provided();
    env.identify("member1", "uid-of-a-stranger", (1, 34));
    env.observe(
        "member1",
        member_event(Kind::Slice, Signal::Listed(Vec::new())),
    );
    env.observe(
        "member1",
        member_event(Kind::Service, Signal::Listed(Vec::new())),
    )
    .settle();
    assert_eq!(addresses(&env), ["10.1.0.5", "10.2.0.5"]);
    let message = "False ServiceAppliedFailed: 1 of 3 clusters: member1 its API server is another cluster's now (the UID of \
                   kube-system changed); if that is meant, unjoin it and join it again, or delete \
                   the Cluster of a ClusterProfile";
    assert_eq!(env.says("foo", "ServiceApplied"), message);
    env.identify("member1", "uid-of-member1", (1, 34))
        .list("member1")
        .settle();
    assert!(env.is_ready("foo"));
}

#[test]
fn a_cluster_that_is_joined_twice_counts_once() {
    let mut env = provided();
    env.pass(Duration::from_secs(60));
    env.silent_member("again").on("again", source("10.1.0.5"));
    env.identify("again", "uid-of-member1", (1, 34))
        .list("again");
    env.on_hub(mcs("foo").consumers(&["member3", "again"]))
        .settle();
    let refused = "is the same cluster as member1 (one kube-system UID); unjoin one of them";
    assert_eq!(
        env.index.member_state(&name("again")),
        MemberState::Refused(Refusal::DuplicateOf(name("member1")))
    );
    assert_eq!(addresses(&env), ["10.1.0.5", "10.2.0.5"]);
    env.assert_writes(|line| !line.starts_with("again"));
    assert_eq!(
        env.says("foo", "ServiceApplied"),
        format!("False ServiceAppliedFailed: 1 of 4 clusters: again {refused}")
    );
    env.off_hub(Kind::Cluster, "member1").settle();
    assert_eq!(
        env.index.member_state(&name("again")),
        MemberState::Synced,
        "the elder has left"
    );
}

#[test]
fn a_namespace_that_appears_lets_its_services_in() {
    let mut env = provided();
    env.member("member4").server("member4").refuses = Some((
        Kind::Namespace,
        Failure::new(
            crate::model::FailureKind::Forbidden,
            "may not create namespaces",
        ),
    ));
    env.off("member4", Kind::Namespace, "shop");
    env.on_hub(exposed(&["member3", "member4"])).settle();
    let message = "False ServiceAppliedFailed: 1 of 4 clusters: member4 has no namespace shop, and it cannot be made (may not \
                   create namespaces); make it, or join the cluster with --allow-namespace-creation";
    assert_eq!(env.says("foo", "ServiceApplied"), message);
    env.on("member4", namespace("shop")).work();
    assert_eq!(env.addresses("member4", "foo").len(), 2);
    env.settle();
    assert!(env.is_ready("foo"), "{}", env.says("foo", "Ready"));
}

#[test]
fn member_with_another_recorded_uid_is_refused() {
    let mut env = provided();
    env.silent_member("member4");
    let member = env.index.members.get_mut("member4").expect("a member");
    member.recorded_uid = Some("uid-of-member4".to_owned());
    let exposure = mcs("foo")
        .providers(&["member1", "member4"])
        .consumers(&["member3", "member4"]);
    env.on("member4", source("10.4.0.5"))
        .identify("member4", "uid-of-a-stranger", (1, 34))
        .list("member4");
    env.on_hub(exposure).settle();
    assert!(matches!(
        env.index.member_state(&name("member4")),
        MemberState::Refused(_)
    ));
    assert_eq!(
        addresses(&env),
        ["10.1.0.5"],
        "member2 provides no more, and the stranger is not listened to"
    );
    assert!(env.service("member4", "foo").is_none());
    env.identify("member4", "uid-of-member4", (1, 34))
        .list("member4")
        .settle();
    assert_eq!(addresses(&env), ["10.1.0.5", "10.4.0.5"]);
}

#[test]
fn write_answer_restores_no_object_deleted_since() {
    let object: Service = serde_json::from_value(json!({
        "metadata": {"name": "foo", "namespace": "shop", "uid": "u", "resourceVersion": "7"},
        "spec": {"ports": [{"port": 80}]},
    }))
    .expect("a Service decodes");
    let key = ServiceKey::new("shop", "foo");
    let mut member = Member::new(1);
    member.apply(
        MemberEvent::Services(Signal::Deleted(object.clone())),
        now(),
    );
    member.apply_ack(Ack::Service(object.clone().into()), now());
    assert_eq!(member.service(&key), None);
    let mut recreated = object;
    recreated.metadata.uid = Some("another".to_owned());
    member.apply_ack(Ack::Service(recreated.into()), now());
    assert!(member.service(&key).is_some());
}

#[test]
fn reengaged_member_is_not_written_to_before_it_is_identified() {
    let mut env = provided();
    let consumer = name("member3");
    env.index
        .engage(&consumer, 1, Some("uid-of-member3".to_owned()));
    env.introduce("member3").list("member3").settle();
    assert_eq!(env.index.member_state(&consumer), MemberState::Synced);
    for recorded in ["uid-of-member3", "uid-of-another"] {
        env.index.engage(&consumer, 2, Some(recorded.to_owned()));
        assert_eq!(env.index.member_state(&consumer), MemberState::Syncing);
    }
    // Its Secret names another API server now, which has not reported its identity.
    env.index
        .engage(&consumer, 3, Some("uid-of-member3".to_owned()));
    env.on("member1", source("10.1.0.6"));
    env.pass(Duration::from_secs(60));
    assert_eq!(env.index.member_state(&consumer), MemberState::Syncing);
    let written = |env: &Environment| env.log().into_iter().any(|line| line.contains("member3"));
    assert!(!written(&env), "{:?}", env.log());
    env.identify("member3", "uid-of-a-stranger", (1, 34))
        .pass(Duration::from_secs(60));
    assert!(!written(&env), "{:?}", env.log());
    env.introduce("member3").settle();
    assert_eq!(env.index.member_state(&consumer), MemberState::Synced);
    assert_eq!(addresses(&env), ["10.1.0.6", "10.2.0.5"]);
}
