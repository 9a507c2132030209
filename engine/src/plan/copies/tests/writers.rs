//! Slices of other writers beside those that Kubernetes maintains.

use super::*;
use crate::explain::tests::explained;
use crate::messages::Diagnosis;
use crate::reasons::Reason;

const COPIED: &str = "True Ready: shop/foo can be reached from 1 cluster, backed by 1 cluster";
const DISAGREE: &str = "; in member1 EndpointSlice foo-by-hand and those that Kubernetes keeps \
                        (foo-abc) disagree on which endpoints are ready";

/// Returns a slice that the mirroring controller made from Endpoints.
fn mirrored() -> Object {
    let manager = json!({labels::SLICE_MANAGED_BY: labels::SLICE_MIRRORING_CONTROLLER});
    abc().with(json!({"metadata": {"labels": manager}}))
}

/// Returns a slice of port 8080 without a managed-by label.
fn by_hand() -> Object {
    let bare = json!({"metadata": {"labels": {labels::SLICE_MANAGED_BY: null}}});
    slice("foo-by-hand", "foo").port("http", 8080).with(bare)
}

fn endpoint(address: &str, ready: bool) -> Value {
    json!({"addresses": [address], "conditions": {"ready": ready}})
}

/// Returns a mirrored slice and one written by hand, with the readiness that each has for 10.1.0.5.
fn written_twice(mirrored_ready: bool, by_hand_ready: bool) -> [Object; 2] {
    let with = |slice: Object, ready| slice.endpoint_with(endpoint("10.1.0.5", ready));
    [
        with(mirrored(), mirrored_ready),
        with(by_hand(), by_hand_ready),
    ]
}

fn sorted_addresses(env: &Environment) -> Vec<String> {
    let mut all = env.addresses("member2", "foo");
    all.sort();
    all
}

#[track_caller]
fn assert_explained(env: &Environment, reason: Reason, parts: &[&str]) {
    let explanation = explained(env);
    let all = explanation.diagnoses_with(|_| true);
    let is_it = |one: &&&Diagnosis| {
        one.reason == reason && parts.iter().all(|part| one.message.contains(part))
    };
    assert!(
        all.iter().any(|one| is_it(&one)),
        "{reason:?} {parts:?} is not in {all:#?}"
    );
}

#[test]
fn uncopyable_slice_beside_endpoints_is_reported() {
    let names = json!({"addressType": "FQDN", "endpoints": [{"addresses": ["foo.example"]}]});
    let unread = by_hand().endpoint("10.1.0.5");
    for (case, kept, unfit, why, reason) in [
        (
            "names",
            mirrored(),
            by_hand().with(names),
            "1 EndpointSlice of member1 (its addressType is neither IPv4 nor IPv6)",
            Reason::AddressTypeNotSupported,
        ),
        (
            "unreadable, beside a slice without ports",
            mirrored().with(json!({"ports": []})),
            unread,
            "1 EndpointSlice of member1 (it cannot be read; copies made of it before stay)",
            Reason::SliceInvalid,
        ),
    ] {
        let hub_service = match kept.value["ports"] == json!([]) {
            true => service("foo").headless(),
            false => foo(),
        };
        let mut env = provided(hub_service, [kept.endpoint("10.1.0.5"), unfit]);
        if reason == Reason::SliceInvalid {
            env.garble("member1", "foo-by-hand").settle();
        }
        assert_eq!(env.addresses("member2", "foo"), ["10.1.0.5"], "{case}");
        let expected = format!("{COPIED}; not copied: {why}");
        assert_eq!(env.says("foo", "Ready"), expected, "{case}");
        if reason == Reason::AddressTypeNotSupported {
            assert_explained(&env, reason, &["EndpointSlice foo-by-hand of member1"]);
        }
    }
}

#[test]
fn unreadable_slice_beside_endpoints_keeps_its_copies() {
    let kept = mirrored().with(json!({"ports": []})).endpoint("10.1.0.5");
    let bare = by_hand().with(json!({"ports": []}));
    let mut env = provided(service("foo").headless(), [kept, bare.endpoint("10.1.0.6")]);
    assert_eq!(sorted_addresses(&env), ["10.1.0.5", "10.1.0.6"]);
    env.garble("member1", "foo-by-hand").settle();
    assert_eq!(sorted_addresses(&env), ["10.1.0.5", "10.1.0.6"]);
}

#[test]
fn odd_endpoint_of_a_redundant_slice_is_reported() {
    let odd = json!({"addresses": ["foo.example"]});
    let env = provided(
        foo(),
        [
            mirrored().endpoint("10.1.0.5"),
            by_hand().endpoint("10.1.0.5").endpoint_with(odd),
        ],
    );
    let why = "some endpoints of member1 (an endpoint without an IPv4 address)";
    assert_eq!(
        env.says("foo", "Ready"),
        format!("{COPIED}; not copied: {why}")
    );
}

#[test]
fn slice_is_redundant_only_beside_slices_that_hold_all_of_it() {
    let both = json!({"addresses": ["10.1.0.5", "10.1.0.9"]});
    let other_port = |address: &str| {
        let manager = json!({labels::SLICE_MANAGED_BY: labels::SLICE_CONTROLLER});
        let made = slice("foo-other", "foo").port("http", 9090);
        made.endpoint(address)
            .with(json!({"metadata": {"labels": manager}}))
    };
    let too_many: Vec<_> = (0..1001)
        .map(|n| json!({"addresses": [format!("10.2.{}.{}", n / 250, n % 250)]}))
        .collect();
    let cases = [
        (
            "the same",
            vec![mirrored().endpoint("10.1.0.5")],
            by_hand().endpoint("10.1.0.5"),
            false,
        ),
        (
            "the address by one slice, the port by another",
            vec![mirrored().endpoint("10.1.0.6"), other_port("10.1.0.5")],
            by_hand().endpoint("10.1.0.5"),
            true,
        ),
        (
            "a second address of an endpoint",
            vec![mirrored().endpoint("10.1.0.5")],
            by_hand().endpoint_with(both),
            true,
        ),
        (
            "a slice that is not copied itself",
            vec![mirrored().with(json!({"endpoints": too_many}))],
            by_hand().endpoint("10.2.0.1"),
            true,
        ),
    ];
    for (case, kept, other, copied) in cases {
        let env = provided(foo(), kept.into_iter().chain([other]));
        let copies = env.copies("member2", "foo").into_iter();
        let names: Vec<_> = copies.filter_map(|copy| copy.metadata.name).collect();
        let is_copied = names.iter().any(|name| name.contains("-foo-by-hand-"));
        assert_eq!(is_copied, copied, "{case}: {names:?}");
    }
}

#[test]
fn readiness_of_kubernetes_slices_decides() {
    for (mirrored_ready, by_hand_ready) in [(true, true), (true, false), (false, true)] {
        let mut env = provided(foo(), written_twice(mirrored_ready, by_hand_ready));
        let endpoints = env.only_copy().endpoints;
        let ready = endpoints[0].conditions.as_ref().and_then(|one| one.ready);
        assert_eq!(ready, Some(mirrored_ready), "{by_hand_ready}");
        env.assert_at_rest();
    }
}

#[test]
fn disagreeing_writers_are_reported_after_30_seconds() {
    for (mirrored_ready, by_hand_ready) in [(true, false), (false, true)] {
        let mut env = provided(foo(), written_twice(true, true));
        for slice in written_twice(mirrored_ready, by_hand_ready) {
            env.on("member1", slice);
        }
        env.pass(Duration::from_secs(29));
        assert!(!env.says("foo", "Ready").contains(DISAGREE));
        env.pass(Duration::from_secs(2));
        let said = env.says("foo", "Ready");
        assert!(said.contains(DISAGREE), "{said}");
        env.forget_writes().restart().pass(Duration::from_secs(40));
        assert_eq!(env.log(), Vec::<String>::new(), "a restart writes nothing");
        assert_eq!(env.says("foo", "Ready"), said);
        env.on(
            "member1",
            by_hand().endpoint_with(endpoint("10.1.0.5", mirrored_ready)),
        );
        env.settle();
        assert!(!env.says("foo", "Ready").contains(DISAGREE));
        env.assert_at_rest();
    }
}

#[test]
fn disagreement_of_a_moment_writes_nothing() {
    let mut env = provided(foo(), written_twice(true, true));
    env.forget_writes();
    for ready in [false, true, false, true] {
        let by_hand = by_hand().endpoint_with(endpoint("10.1.0.5", ready));
        env.on("member1", by_hand).pass(Duration::from_secs(20));
    }
    assert_eq!(env.log(), Vec::<String>::new());
}

#[test]
fn disagreeing_writers_are_explained_and_never_progressing() {
    for (mirrored_ready, by_hand_ready) in [(true, false), (false, true)] {
        let env = provided(foo(), written_twice(mirrored_ready, by_hand_ready));
        assert_explained(&env, Reason::WritersDisagree, &["foo-by-hand", "foo-abc"]);
        let explanation = explained(&env);
        let all = explanation.diagnoses_with(|_| true);
        let progressing = all.iter().find(|one| one.reason == Reason::Progressing);
        assert_eq!(progressing, None);
        let providers = explanation.exposures.iter().flat_map(|one| &one.providers);
        let endpoints = providers.flat_map(|one| &one.endpoints);
        assert_eq!(endpoints.count(), 1, "{explanation:#?}");
        assert!(!explanation.ready);
    }
}

#[test]
fn explain_and_ready_name_the_same_kept_slice() {
    let [kept, by_hand] = written_twice(true, false);
    let manager = json!({labels::SLICE_MANAGED_BY: labels::SLICE_CONTROLLER});
    let other = slice("foo-other", "foo").port("http", 8080);
    let other = other.with(json!({"metadata": {"labels": manager}}));
    let slices = [kept, other.endpoint("10.1.0.5"), by_hand];
    let mut env = provided(foo(), slices);
    env.pass(Duration::from_secs(40));
    assert!(env.says("foo", "Ready").contains(DISAGREE));
    let names_both = DISAGREE.trim_start_matches("; ");
    assert_explained(&env, Reason::WritersDisagree, &[names_both]);
}

#[test]
fn export_reports_disagreeing_writers() {
    let mut env = env();
    env.member("member1").member("member2").on("member1", foo());
    for slice in written_twice(true, false) {
        env.on("member1", slice);
    }
    env.on("member1", export("foo"))
        .pass(Duration::from_secs(40));
    let said = env.export_says("member1", "foo", "Ready");
    assert!(said.contains(DISAGREE), "{said}");
    env.assert_at_rest();
}
