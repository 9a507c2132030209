use std::time::Duration;

use causeway::api::condition::TRUE;
use serde_json::json;

use super::*;
use crate::fixtures::objects::{Kind, NAMESPACE, Object, foo, mcs, slice, source};
use crate::fixtures::{Environment, env, key, name};
use k8s_openapi::jiff::SignedDuration;

use crate::model::{Failure, FailureKind, TargetCluster};

mod load_balancer;
mod networks;

const TYPES: [&str; 4] = [
    names::SERVICE_APPLIED,
    names::ENDPOINT_SLICE_DISPATCHED,
    names::ENDPOINT_SLICE_APPLIED,
    names::READY,
];

fn exposure() -> Object {
    mcs("foo")
        .providers(&["member1"])
        .consumers(&["member2", "member3"])
}

/// Returns an environment with three members and the hub's Service of `foo`.
fn members() -> Environment {
    let mut env = env();
    env.member("member1").member("member2").member("member3");
    env.on_hub(foo());
    env
}

/// Returns an environment in which member1 provides `foo` to member2 and member3 without problems.
fn ready() -> Environment {
    let mut env = members();
    env.on("member1", source("10.1.0.5"))
        .on_hub(exposure())
        .settle();
    assert!(env.is_ready("foo"), "{}", env.says("foo", names::READY));
    env.forget_writes();
    env
}

fn all(env: &Environment) -> [String; 4] {
    TYPES.map(|type_| env.says("foo", type_))
}

fn status_writes(env: &Environment) -> usize {
    env.log()
        .iter()
        .filter(|line| *line == "hub patch MultiClusterService")
        .count()
}

fn minute() -> Duration {
    Duration::from_secs(60)
}

#[test]
fn what_is_done_reads_as_karmada_writes_it() {
    let env = ready();
    let expected = [
        "True ServiceAppliedSucceed: Service is propagated to target clusters.",
        "True EndpointSliceDispatchedSucceed: EndpointSlice are dispatched successfully",
        "True EndpointSliceAppliedSuccess: EndpointSlices are propagated to target clusters.",
        "True Ready: shop/foo can be reached from 2 clusters, backed by 1 cluster",
    ];
    assert_eq!(all(&env), expected);
    let order = env.mcs("foo").expect("it is there")["status"]["conditions"].clone();
    let order: Vec<_> = order
        .as_array()
        .expect("conditions")
        .iter()
        .map(|one| one["type"].clone())
        .collect();
    assert_eq!(order, TYPES);
}

#[test]
fn an_unreachable_consumer_is_named_and_what_it_holds_still_counts_as_applied() {
    let mut env = ready();
    env.lose("member3").settle();
    let expected = [
        "False ServiceAppliedFailed: 1 of 3 clusters: member3 unreachable since 2026-01-01T00:00:01Z (connection refused)",
        "False EndpointSliceDispatchedFailed: 1 of 2 consumers: member3 unreachable since 2026-01-01T00:00:01Z (connection refused)",
        "True EndpointSliceAppliedSuccess: EndpointSlices are propagated to target clusters.",
        "False ServiceAppliedFailed: 1 of 3 clusters: member3 unreachable since 2026-01-01T00:00:01Z (connection refused)",
    ];
    assert_eq!(all(&env), expected);
    env.forget_writes().pass(minute() * 60);
    assert_eq!(
        status_writes(&env),
        0,
        "the text stays the same while the problem does"
    );
    env.list("member3").settle();
    assert!(
        TYPES.iter().all(|type_| env
            .condition("foo", type_)
            .is_some_and(|one| one.status == TRUE)),
        "{:?}",
        all(&env)
    );
}

#[test]
fn an_unreachable_provider_is_named_though_its_copies_stay() {
    let mut env = ready();
    env.lose("member1").settle();
    let dispatched = "False EndpointSliceDispatchedFailed: 1 of 1 providers: member1 unreachable since 2026-01-01T00:00:01Z \
                      (connection refused)";
    assert_eq!(
        env.says("foo", names::ENDPOINT_SLICE_DISPATCHED),
        dispatched
    );
    assert_eq!(
        env.says("foo", names::ENDPOINT_SLICE_APPLIED),
        "True EndpointSliceAppliedSuccess: EndpointSlices are propagated to target clusters."
    );
}

#[test]
fn a_consumer_that_never_got_anything_is_not_applied_while_it_is_unreachable() {
    let mut env = members();
    env.lose("member3")
        .on("member1", source("10.1.0.5"))
        .on_hub(exposure())
        .settle();
    let applied = "False EndpointSliceAppliedFailed: 1 of 2 consumers: member3 unreachable since 2026-01-01T00:00:00Z \
                   (connection refused)";
    assert_eq!(env.says("foo", names::ENDPOINT_SLICE_APPLIED), applied);
}

#[test]
fn nothing_is_said_of_members_that_are_still_listing() {
    let mut env = env();
    env.member("member1")
        .member("member2")
        .silent_member("member3")
        .on_hub(foo());
    env.on("member1", source("10.1.0.5"))
        .on_hub(exposure())
        .settle();
    assert_eq!(all(&env), ["unknown"; 4]);
    env.identify("member3", "uid-of-member3", (1, 34))
        .list("member3")
        .settle();
    assert!(env.is_ready("foo"));
}

#[test]
fn a_failed_write_is_a_problem_of_the_member_that_refuses_it() {
    let denied = || Failure::new(FailureKind::Forbidden, "quota exceeded");
    for (kind, condition, message) in [
        (
            Kind::Slice,
            names::ENDPOINT_SLICE_DISPATCHED,
            "False EndpointSliceDispatchedFailed: 1 of 2 consumers: member3 1 EndpointSlice cannot be written (quota exceeded)",
        ),
        (
            Kind::Slice,
            names::ENDPOINT_SLICE_APPLIED,
            "False EndpointSliceAppliedFailed: 1 of 2 consumers: member3 1 EndpointSlice cannot be written (quota exceeded)",
        ),
        (
            Kind::Slice,
            names::READY,
            "False EndpointSliceDispatchedFailed: 1 of 2 consumers: member3 1 EndpointSlice cannot be written (quota exceeded)",
        ),
        (
            Kind::Slice,
            names::SERVICE_APPLIED,
            "True ServiceAppliedSucceed: Service is propagated to target clusters.",
        ),
        (
            Kind::Service,
            names::SERVICE_APPLIED,
            "False ServiceAppliedFailed: 1 of 3 clusters: member3 Service foo cannot be written (quota exceeded)",
        ),
        (
            Kind::Service,
            names::READY,
            "False ServiceAppliedFailed: 1 of 3 clusters: member3 Service foo cannot be written (quota exceeded)",
        ),
    ] {
        let mut env = members();
        env.server("member3").refuses = Some((kind, denied()));
        env.on("member1", source("10.1.0.5"))
            .on_hub(exposure())
            .settle();
        assert_eq!(env.says("foo", condition), message);
        assert_eq!(
            env.addresses("member2", "foo"),
            ["10.1.0.5"],
            "member3's problem stays there"
        );
        env.server("member3").refuses = None;
        env.pass(minute());
        assert!(env.is_ready("foo"));
    }
}

#[test]
fn nothing_flaps_while_writes_are_in_progress() {
    let mut env = ready();
    for round in 0..20 {
        env.on("member1", source(&format!("10.1.0.{round}")))
            .pass(Duration::from_millis(30));
    }
    env.settle();
    assert_eq!(status_writes(&env), 0, "{:?}", env.log());
    assert!(
        env.log().len() > 4 && env.log().len() <= 16,
        "ten a second in each consumer: {:?}",
        env.log()
    );
    assert!(env.recorded.is_empty());
}

#[test]
fn ready_of_a_new_generation_is_not_said_before_it_is_so() {
    let mut env = ready();
    env.member("member4").settle();
    let before = all(&env);
    env.silence("member4")
        .on_hub(exposure().consumers(&["member2", "member3", "member4"]))
        .settle();
    assert_eq!(all(&env), before, "member4's watch has shown nothing yet");
    assert_eq!(
        env.condition("foo", names::READY)
            .and_then(|one| one.observed_generation),
        Some(1)
    );
    env.reconnect("member4").settle();
    assert_eq!(
        env.says("foo", names::READY),
        "True Ready: shop/foo can be reached from 3 clusters, backed by 1 cluster"
    );
    assert_eq!(
        env.condition("foo", names::READY)
            .and_then(|one| one.observed_generation),
        Some(2)
    );
}

#[test]
fn ready_names_the_first_that_does_not_hold_also_while_others_are_under_way() {
    let mut env = ready();
    env.server("member3").refuses = Some((Kind::Slice, Failure::new(FailureKind::Forbidden, "no")));
    env.lose("member2")
        .on("member1", source("10.1.0.6"))
        .settle();
    assert!(
        env.says("foo", names::READY)
            .starts_with("False ServiceAppliedFailed: 1 of 3 clusters: member2 unreachable")
    );
    env.silence("member2").list("member2").settle();
    let message = "False EndpointSliceDispatchedFailed: 1 of 2 consumers: member3 1 EndpointSlice cannot be written (no)";
    assert_eq!(env.says("foo", names::READY), message);
}

#[test]
fn a_slice_that_is_not_seen_back_for_half_a_minute_is_a_problem_and_not_before() {
    let mut env = ready();
    env.silence("member3")
        .on("member1", source("10.1.0.6"))
        .pass(Duration::from_secs(29));
    assert_eq!(status_writes(&env), 0);
    env.settle();
    let applied = "False EndpointSliceAppliedFailed: 1 of 2 consumers: member3 1 EndpointSlices were written and are not seen back";
    assert_eq!(env.says("foo", names::ENDPOINT_SLICE_APPLIED), applied);
    let dispatched = env.says("foo", names::ENDPOINT_SLICE_DISPATCHED);
    assert!(dispatched.starts_with("True"));
    env.reconnect("member3").settle();
    assert!(env.is_ready("foo"));
}

#[test]
fn a_slice_that_a_new_list_shows_is_seen_back() {
    let mut env = ready();
    env.silence("member3")
        .on("member1", source("10.1.0.6"))
        .pass(Duration::from_secs(31));
    assert!(!env.is_ready("foo"));
    env.reconnect("member3").list("member3").settle();
    assert!(env.is_ready("foo"), "{}", env.says("foo", names::READY));
}

#[test]
fn a_provider_without_a_slice_is_not_dispatched_after_half_a_minute() {
    let mut env = members();
    env.on_hub(exposure()).pass(Duration::from_secs(29));
    assert_eq!(env.says("foo", names::ENDPOINT_SLICE_DISPATCHED), "unknown");
    env.pass(Duration::from_secs(2));
    let message = "False EndpointSliceDispatchedFailed: 1 of 1 providers: member1 has no EndpointSlice of Service foo";
    assert_eq!(env.says("foo", names::READY), message);
    env.on("member1", source("10.1.0.5")).settle();
    assert!(env.is_ready("foo"));
}

#[test]
fn provider_whose_clock_is_ahead_lacks_its_slice_all_the_same() {
    let mut env = members();
    env.on_hub(exposure()).settle();
    env.set_clock(SignedDuration::from_mins(-60));
    env.pass(Duration::from_secs(28));
    assert_eq!(env.says("foo", names::ENDPOINT_SLICE_DISPATCHED), "unknown");
    env.pass(Duration::from_secs(4));
    let said = env.says("foo", names::READY);
    assert!(said.contains("has no EndpointSlice"), "{said}");
}

#[test]
fn one_of_several_failures_is_reported_every_time() {
    let mut env = members();
    env.on_hub(exposure()).settle();
    for number in 0..20 {
        let name = format!("foo-{number}");
        let address = format!("10.1.0.{number}");
        let slice = slice(&name, "foo").port("http", 8080).endpoint(&address);
        env.on("member1", slice);
    }
    env.settle().forget_writes();
    let refusal = |number| Failure::new(FailureKind::Forbidden, format!("no {number}"));
    // Each attempt fails in another way, and the texts are of ours: each of them is another
    // failure.
    let mut texts = std::collections::BTreeSet::new();
    for number in 0..20 {
        env.server("member3").refuses = Some((Kind::Slice, refusal(number)));
        let name = format!("foo-{number}");
        let address = format!("10.1.1.{number}");
        let slice = slice(&name, "foo").port("http", 8080).endpoint(&address);
        env.on("member1", slice).work();
        texts.insert(env.says("foo", names::ENDPOINT_SLICE_DISPATCHED));
    }
    let cluster = TargetCluster::Member(crate::fixtures::name("member3"));
    let outstanding = env.writes("foo", "member3");
    let failed = outstanding.iter().filter_map(|write| {
        let failed = env.write_queue.failure_of(&cluster, write.object())?;
        Some((write.object(), failed))
    });
    let least = failed.min_by_key(|(object, _)| *object);
    let (_, least) = least.expect("a failure");
    let said = env.says("foo", names::ENDPOINT_SLICE_DISPATCHED);
    assert!(
        said.contains(&least.failure.to_string()),
        "{said}, {texts:?}"
    );
}

#[test]
fn a_false_message_names_the_clusters_shortest_first_and_not_too_many() {
    let mut env = env();
    env.member("member1")
        .on_hub(foo())
        .on("member1", source("10.1.0.5"));
    let names = [
        "a9",
        "a8",
        "bb7",
        "cc6",
        "dd5",
        "member-with-a-long-name",
        "ee4",
    ];
    env.on_hub(mcs("foo").providers(&["member1"]).consumers(&names))
        .settle();
    let message = "False ServiceAppliedFailed: 7 of 8 clusters: a8 is not joined; a9 is not joined; bb7 is not joined; cc6 is \
                   not joined; dd5 is not joined; and 2 more";
    assert_eq!(env.says("foo", super::names::READY), message);
}

#[test]
fn nobody_to_serve_is_said() {
    let mut env = env();
    env.on_hub(foo()).on_hub(mcs("foo")).settle();
    let message =
        "False ServiceAppliedFailed: no cluster takes part; join some with kubectl mcs join";
    assert_eq!(env.says("foo", names::READY), message);
}

#[test]
fn the_transition_time_moves_with_the_status_alone_and_the_generation_always() {
    let mut env = ready();
    let since = |env: &Environment| {
        env.condition("foo", names::READY)
            .expect("Ready")
            .last_transition_time
            .0
    };
    let generation = |env: &Environment| {
        env.condition("foo", names::SERVICE_APPLIED)
            .and_then(|one| one.observed_generation)
    };
    let first = since(&env);
    assert_eq!(generation(&env), Some(1));
    env.pass(minute())
        .on_hub(exposure().consumers(&["member2"]))
        .settle();
    assert_eq!(
        (since(&env), generation(&env)),
        (first, Some(2)),
        "the message moved, the status did not"
    );
    assert!(env.says("foo", names::READY).contains("from 1 cluster,"));
    env.pass(minute()).lose("member2").settle();
    let second = since(&env);
    assert_eq!(
        second,
        env.now()
            .wall
            .saturating_sub(k8s_openapi::jiff::SignedDuration::from_secs(1))
            .expect("a time")
    );
    env.pass(minute())
        .on_hub(exposure().consumers(&["member2", "member9"]))
        .settle();
    assert_eq!(
        since(&env),
        second,
        "False for another reason is still False"
    );
}

#[test]
fn every_transition_is_recorded_once() {
    let mut env = ready();
    env.lose("member3").settle();
    env.pass(minute() * 10);
    let reasons = |env: &Environment| {
        env.recorded
            .iter()
            .map(|one| (one.warning, one.reason.clone()))
            .collect::<Vec<_>>()
    };
    let warnings = [
        (true, "ServiceAppliedFailed".to_owned()),
        (true, "EndpointSliceDispatchedFailed".to_owned()),
    ];
    assert_eq!(reasons(&env), warnings);
    assert!(
        env.recorded[0]
            .note
            .starts_with("1 of 3 clusters: member3 unreachable")
    );
    env.forget_writes().list("member3").settle();
    let news = [
        (false, "ServiceAppliedSucceed".to_owned()),
        (false, "EndpointSliceDispatchedSucceed".to_owned()),
    ];
    assert_eq!(reasons(&env), news);
}

#[test]
fn a_status_that_says_nothing_new_is_not_written() {
    let mut env = ready();
    for _ in 0..5 {
        env.index.mark_all_services();
        env.pass(minute());
    }
    assert_eq!(env.log(), Vec::<String>::new());
    env.restart().pass(minute());
    assert_eq!(env.log(), Vec::<String>::new());
}

#[test]
fn conditions_that_others_keep_stay() {
    let mut env = env();
    let theirs = json!({"type": "Theirs", "status": "Unknown", "reason": "R", "message": "m", "lastTransitionTime": "2025-01-01T00:00:00Z"});
    env.member("member1")
        .on_hub(foo())
        .on("member1", source("10.1.0.5"));
    env.on_hub(mcs("foo").with(json!({"status": {"conditions": [theirs]}})))
        .settle();
    assert!(env.is_ready("foo"));
    assert_eq!(env.says("foo", "Theirs"), "Unknown R: m");
}

#[test]
fn progress_of_an_unplanned_member_is_none() {
    let env = ready();
    let mcs = env.index.multi_cluster_service(&key("foo")).unwrap();
    let mut progress = HashMap::default();
    progress.insert(
        name("member9"),
        Progress {
            service_problem: Some(WriteProblem::SlicesOfAnotherHub(1)),
            ..Progress::default()
        },
    );
    let view = View {
        finalizer_failure: None,
        name_failure: None,
        index: &env.index,
        key: &key("foo"),
        mcs,
        desired: &env.plan("foo"),
        progress: &progress,
        conflict: None,
        now: env.now(),
    };
    let status = view.status();
    assert!(names::is_true(&status.conditions, names::READY) && status.events.is_empty());
}

/// Returns the Service that causeway delivered into a member, with a person's changes in its spec.
fn changed(env: &Environment, cluster: &str, spec: serde_json::Value) -> Object {
    let delivered = env.members[cluster].get(Kind::Service, NAMESPACE, "foo");
    let value = delivered.expect("a Service").clone();
    let kind = Kind::Service;
    Object { kind, value }.with(json!({ "spec": spec }))
}

const BACKED: &str = "True Ready: shop/foo can be reached from 2 clusters, backed by 1 cluster";

#[test]
fn a_service_that_leads_to_its_own_node_alone_is_named_with_the_way_out() {
    let mut env = ready();
    let local = json!({"internalTrafficPolicy": "Local"});
    let object = changed(&env, "member2", local.clone());
    env.on("member2", object).settle();
    let said = |clusters: &str| {
        format!(
            "{BACKED}; in {clusters} Service shop/foo has internalTrafficPolicy Local, so its clients reach no other cluster's pods: \
             in {clusters}: kubectl -n shop patch service foo --type=merge -p '{{\"spec\":{{\"internalTrafficPolicy\":\"Cluster\"}}}}'"
        )
    };
    assert_eq!(env.says("foo", names::READY), said("member2"));
    let of_a_person = foo().with(json!({ "spec": local }));
    env.on("member3", of_a_person).settle();
    assert_eq!(env.says("foo", names::READY), said("member2, member3"));
    env.assert_at_rest();
    let repaired = foo();
    env.on("member3", repaired).settle();
    let cluster = changed(&env, "member2", json!({"internalTrafficPolicy": "Cluster"}));
    env.on("member2", cluster).settle();
    assert_eq!(env.says("foo", names::READY), BACKED);
}

#[test]
fn a_service_without_the_address_families_of_its_endpoints_is_named() {
    let mut env = ready();
    let six = |address: &str| source(address).with(json!({"addressType": "IPv6"}));
    env.off("member1", Kind::Slice, "foo-abc").settle();
    env.on("member1", six("fd00:1::5")).settle();
    assert_eq!(
        env.says("foo", names::READY),
        format!(
            "{BACKED}; in member2, member3 Service shop/foo has IPv4 alone, and the endpoints of member1 have IPv6, so its clients \
             do not reach them: set spec.ipFamilyPolicy: PreferDualStack on these Services, where the clusters have both families"
        )
    );
    // Endpoints of both families are reached by one of them.
    let four = slice("foo-def", "foo").port("http", 8080);
    env.on("member1", four.endpoint("10.1.0.5")).settle();
    assert_eq!(env.says("foo", names::READY), BACKED);
}

#[test]
fn clients_of_a_headless_service_are_bound_to_no_node() {
    let mut env = env();
    env.member("member1").member("member2");
    let local = json!({"spec": {"internalTrafficPolicy": "Local"}});
    env.on("member2", foo().headless().with(local))
        .on("member1", source("10.1.0.5"))
        .on_hub(foo().headless())
        .on_hub(mcs("foo").providers(&["member1"]).consumers(&["member2"]))
        .settle();
    let ready = "True Ready: shop/foo can be reached from 1 cluster, backed by 1 cluster";
    assert_eq!(env.says("foo", names::READY), ready);
}

#[test]
fn ready_reports_that_no_provider_has_a_ready_endpoint() {
    let mut env = env();
    env.member("member1").member("member2");
    env.on_hub(foo());
    env.on_hub(mcs("foo").providers(&["member1"]).consumers(&["member2"]));
    let source = || slice("foo-abc", "foo").port("http", 8080);
    let unready = json!({"addresses": ["10.1.0.5"], "conditions": {"ready": false}});
    let without = "True Ready: shop/foo is exposed in 1 cluster, backed by 1 cluster; no provider has a ready endpoint";
    for (source, expected) in [
        (source(), without),
        (source().endpoint_with(unready), without),
        (
            source().endpoint("10.1.0.5"),
            "True Ready: shop/foo can be reached from 1 cluster, backed by 1 cluster",
        ),
    ] {
        env.on("member1", source).settle();
        assert_eq!(env.says("foo", "Ready"), expected);
    }
    env.lose("member1").restart().forget_writes();
    env.pass(Duration::from_secs(600));
    let ready = env.says("foo", "Ready");
    assert!(
        !ready.contains("no provider has a ready endpoint"),
        "{ready}"
    );
}
