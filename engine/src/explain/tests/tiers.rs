//! Services whose consumers prefer some of the providers.

use causeway::api::labels;
use serde_json::json;

use super::{all, backed, explained, foo};
use crate::explain::{DefaultReport, EndpointState, Explanation, explain};
use crate::fixtures::objects::{Object, mcs, namespace, slice};
use crate::fixtures::{Environment, key};
use crate::model::{Failure, FailureKind};
use crate::plan::Settings;
use crate::plan::tiers::HOLD;
use crate::reasons::Reason;

fn own(ready: &[bool]) -> Object {
    let source = slice("foo-def", "foo").port("http", 8080);
    ready
        .iter()
        .enumerate()
        .fold(source, |source, (number, ready)| {
            source.endpoint_with(json!({
                "addresses": [format!("10.2.0.{}", number + 1)],
                "conditions": {"ready": ready},
            }))
        })
}

/// Returns `foo`, which a and b provide. b consumes it with that preference and has pods of its
/// own.
fn preferring(prefer: &str, own_pods: &[bool]) -> Environment {
    let mut env = backed();
    env.on("b", own(own_pods)).on_hub(foo());
    let annotations =
        json!({"metadata": {"annotations": {labels::PREFER: prefer, labels::MIN_READY: "50%"}}});
    env.on_hub(mcs("foo").consumers(&["b"]).with(annotations));
    env.settle();
    env
}

#[test]
fn explanation_names_the_namespace_of_a_default() {
    let mut env = preferring("local, any", &[true]);
    let defaults = json!({labels::PREFER: "region, any", labels::UNREACHABLE: "standby"});
    env.on_hub(namespace("shop").annotated(&defaults)).settle();
    let defaults = &explained(&env).exposures[0].defaults;
    let expected = DefaultReport {
        annotation: labels::UNREACHABLE.to_owned(),
        value: "standby".to_owned(),
        namespace: "shop".to_owned(),
    };
    assert_eq!(*defaults, [expected]);
}

#[test]
fn unread_namespace_is_unknown_unless_the_object_has_all_annotations() {
    let mut env = preferring("local, any", &[true]);
    let unread = |env: &Environment| {
        let (mut hub, members) = env.lists();
        hub.namespaces = Err(Failure::new(FailureKind::Forbidden, "no"));
        let settings = Settings::reported(&hub, &members, &key("foo"));
        let explanation = explain(&hub, &members, &settings, &key("foo"), env.now());
        let found = all(&explanation);
        let found = found
            .into_iter()
            .find(|one| one.reason == Reason::NamespaceNotRead);
        assert_eq!(explanation.is_wrong_only_where_unread(), found.is_some());
        found.map(|one| one.message)
    };
    let message = unread(&env).expect("a diagnosis");
    assert!(
        message.starts_with("Namespace shop of the hub could not be read"),
        "{message}"
    );
    let every = json!({
        labels::PREFER: "local, any", labels::MIN_READY: "50%", labels::UNREACHABLE: "keep",
        labels::REACH: "cluster-ip",
    });
    env.on_hub(mcs("foo").consumers(&["b"]).annotated(&every))
        .settle();
    assert_eq!(unread(&env), None);
}

/// Returns reason, state and message of the first endpoint of a in b.
fn of_a(explanation: &Explanation) -> (Reason, EndpointState, String) {
    let provider = &explanation.exposures[0].providers[0];
    let state = &provider.endpoints[0].consumers[0];
    let message = state.diagnosis.message.clone();
    (state.diagnosis.reason, state.state, message)
}

#[test]
fn standby_endpoints_promoted_ones_and_those_that_are_never_used_have_their_reasons() {
    for (prefer, own_pods, reason, message) in [
        (
            "local, any",
            &[true, true][..],
            Reason::Standby,
            "prefer: local has 2 of 2 endpoints ready; any is used where no other is ready",
        ),
        (
            "local, any",
            &[true, false, false],
            Reason::Promoted,
            "prefer: any is used, for local has 1 of 3 endpoints ready, fewer than 50%",
        ),
        (
            "local, any",
            &[],
            Reason::Promoted,
            "prefer: any is used, for local has no endpoints, fewer than 50%",
        ),
        ("any", &[true], Reason::Copied, "b has it"),
        (
            "local, cluster/c",
            &[true],
            Reason::NotPreferred,
            "a is in none of the tiers of b (prefer: local, cluster/c)",
        ),
    ] {
        let env = preferring(prefer, own_pods);
        let explanation = explained(&env);
        let (found, state, text) = of_a(&explanation);
        assert_eq!((found, &*text), (reason, message), "{prefer} {own_pods:?}");
        let is_there = state == EndpointState::Present;
        assert_eq!(is_there, reason != Reason::NotPreferred);
        assert!(explanation.ready, "{:#?}", all(&explanation));
    }
}

#[test]
fn each_consumer_says_which_tiers_serve_it_and_which_stand_by() {
    let env = preferring("local, any", &[true, false]);
    let explanation = explained(&env);
    let consumer = serde_json::to_value(&explanation.exposures[0].consumers[0]).expect("JSON");
    assert_eq!(
        consumer,
        json!({
            "cluster": "b",
            "servingFrom": [{"tier": "local", "clusters": ["b"], "ready": 1, "endpoints": 2}],
            "standby": [{"tier": "any", "clusters": ["a"], "ready": 2, "endpoints": 2}],
            "diagnoses": [],
        })
    );
}

#[test]
fn a_tier_that_is_about_to_be_given_up_says_so() {
    let mut env = preferring("local, any", &[false, false]);
    env.on("b", own(&[true, true])).pass(HOLD / 2);
    let (reason, _, message) = of_a(&explained(&env));
    assert_eq!(reason, Reason::Promoted);
    assert!(
        message.contains("local has 2 of 2 endpoints ready since"),
        "{message}"
    );
    env.pass(HOLD);
    assert_eq!(of_a(&explained(&env)).0, Reason::Standby);
}

#[test]
fn preference_for_tiers_without_providers_is_reported() {
    for prefer in ["zone", "cluster/c", "region, cluster/c"] {
        let mut env = preferring(prefer, &[]);
        let explanation = explained(&env);
        assert!(!explanation.ready, "{prefer}");
        let consumer = &explanation.exposures[0].consumers[0];
        let reasons: Vec<_> = consumer.diagnoses.iter().map(|one| one.reason).collect();
        assert_eq!(reasons, [Reason::NoPreferredProvider], "{prefer}");
        let ready = env.says("foo", "Ready");
        let why = format!(
            "True Ready: shop/foo can be reached from 0 clusters, backed by 2 clusters; no endpoint in b: \
             mcs.causeway.dev/prefer names only tiers that no provider is in ({prefer})"
        );
        assert!(ready.starts_with(&why), "{ready}");
        env.on("b", own(&[true])).pass(HOLD);
        assert_eq!(
            env.says("foo", "Ready").contains("no endpoint in b"),
            prefer == "cluster/c"
        );
    }
}
