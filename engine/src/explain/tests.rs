//! Every reason, each from a healthy service in which one thing was changed.

pub(crate) mod agreement;
mod clusterset;
mod entry_clusters;
mod names;
mod native;
mod shares;
mod tiers;

use causeway::api::labels;
use causeway::domain::ServiceKey;
use causeway::domain::protected::{DEFAULT_NAMESPACE, Protection};
use serde_json::json;

use super::{Diagnosis, EndpointState, Explanation, explain};
use crate::fixtures::objects::{Kind, Object, cluster, foo, mcs, namespace, slice};
use crate::fixtures::{Change, Environment, env, key};
use crate::lists::HubLists;
use crate::plan::Settings;
use crate::reasons::Reason;

fn source(addresses: &[&str]) -> Object {
    let empty = slice("foo-abc", "foo").port("http", 8080);
    addresses.iter().fold(empty, |made, one| made.endpoint(one))
}

/// Begins to delete the namespace of b, and changes the endpoints.
fn terminate_namespace(env: &mut Environment) -> &mut Environment {
    let held = json!({"metadata": {"finalizers": ["kubernetes"]}});
    env.on("b", namespace("shop").with(held));
    env.off("b", Kind::Namespace, "shop");
    env.on("a", source(&["10.1.0.9"])).settle()
}

/// Returns members a and b that are synced, and pods of `foo` in a.
fn backed() -> Environment {
    let mut env = env();
    env.keeps_clusters = true;
    env.member("a").member("b");
    env.on("a", source(&["10.1.0.1", "10.1.0.2"]));
    env
}

/// Returns the healthy `shop/foo`, which a provides and b consumes.
fn healthy() -> Environment {
    let mut env = backed();
    env.on_hub(foo());
    env.on_hub(mcs("foo").providers(&["a"]).consumers(&["b"]));
    env.settle();
    env
}

/// Annotates a Cluster, as a user does.
fn annotate<'e>(
    env: &'e mut Environment,
    name: &str,
    annotation: &str,
    value: &str,
) -> &'e mut Environment {
    let annotations = json!({ annotation: value });
    env.on_hub(cluster(name).with(json!({"metadata": {"annotations": annotations}})))
}

/// Returns the explanation of kubectl-mcs, with the settings that the objects show.
pub(crate) fn explained(env: &Environment) -> Explanation {
    let (hub, members) = env.lists();
    let settings = Settings::reported(&hub, &members, &key("foo"));
    explain(&hub, &members, &settings, &key("foo"), env.now())
}

fn all(explanation: &Explanation) -> Vec<Diagnosis> {
    let all = explanation.diagnoses_with(|_| true).into_iter();
    all.cloned().collect()
}

/// Case: description, change, expected readiness, expected reason, and a part of its remedy.
type Case = (&'static str, Change, bool, Reason, &'static str);

#[track_caller]
fn hold(start: fn() -> Environment, cases: &[Case]) {
    for (what, change, well, reason, remedy) in cases {
        let mut env = start();
        change(&mut env);
        let explanation = explained(&env);
        let diagnoses = all(&explanation);
        assert_eq!(explanation.ready, *well, "{what}: {diagnoses:#?}");
        let is_it = |one: &&Diagnosis| {
            let text = one.remedy.as_deref().unwrap_or_default();
            one.reason == *reason && text.contains(remedy)
        };
        assert!(
            diagnoses.iter().any(|one| is_it(&one)),
            "{what}: {reason:?} {remedy:?} is not in {diagnoses:#?}"
        );
    }
}

#[track_caller]
fn assert_said(env: &Environment, reason: Reason, part: &str) {
    let diagnoses = all(&explained(env));
    let is_it = |one: &&Diagnosis| one.reason == reason && one.message.contains(part);
    assert!(
        diagnoses.iter().any(|one| is_it(&one)),
        "{reason:?} {part:?} is not in {diagnoses:#?}"
    );
}

#[test]
fn where_all_is_well_each_endpoint_is_present_with_the_slice_that_holds_it() {
    let explanation = explained(&healthy());
    assert!(explanation.ready, "{explanation:#?}");
    let states = explanation.consumer_states(|_| true);
    assert_eq!(states.len(), 2);
    for state in states {
        assert_eq!(state.state, EndpointState::Present);
        assert_eq!(state.diagnosis.reason, Reason::Copied);
        let slice = state.slice.as_deref().expect("a slice");
        assert!(slice.starts_with("a-foo-abc-"), "{slice}");
    }
}

#[test]
fn an_endpoint_that_is_on_its_way_is_missing_with_what_the_controller_says() {
    let mut env = healthy();
    env.on("a", source(&["10.1.0.1", "10.1.0.2", "10.1.0.3"]));
    let explanation = explained(&env);
    let states = explanation.consumer_states(|_| true);
    let missing: Vec<_> = states
        .iter()
        .filter(|one| one.state == EndpointState::Missing)
        .collect();
    assert_eq!(missing.len(), 1);
    let diagnosis = &missing[0].diagnosis;
    assert_eq!(diagnosis.reason, Reason::Progressing);
    assert!(
        diagnosis.message.contains("a copy of an older version"),
        "{diagnosis:?}"
    );
    assert!(
        diagnosis.message.contains("the controller says Ready ("),
        "{diagnosis:?}"
    );
}

#[test]
fn a_provider_whose_ttl_expired_is_reported_by_what_the_service_reports() {
    let mut env = healthy();
    env.settings.provider_ttl = Some(std::time::Duration::from_secs(60));
    env.lose("a").pass(std::time::Duration::from_secs(120));
    assert_said(&env, Reason::ProviderTtlExpired, "--provider-ttl");
    let mut env = healthy();
    env.lose("a").pass(std::time::Duration::from_secs(120));
    assert_said(&env, Reason::Kept, "b keeps what a gave last");
    assert_said(&env, Reason::MemberUnreachable, "is kept");
}

/// Returns the healthy service with a policy, two minutes after its provider was lost.
fn lost_with(unreachable: &str) -> Environment {
    let mut env = healthy();
    env.settings.provider_ttl = Some(std::time::Duration::from_secs(60));
    let annotations = json!({ labels::UNREACHABLE: unreachable });
    let foo = mcs("foo").providers(&["a"]).consumers(&["b"]);
    env.on_hub(foo.with(json!({"metadata": {"annotations": annotations}})));
    env.settle();
    env.lose("a").pass(std::time::Duration::from_secs(120));
    env
}

#[test]
fn request_of_the_service_is_the_reason_of_a_withdrawn_provider() {
    let (_, readable) = healthy().lists();
    let reason = |env: &Environment, is_readable: bool| {
        let (hub, members) = env.lists();
        let members = if is_readable { &readable } else { &members };
        let settings = Settings::reported(&hub, members, &key("foo"));
        let explanation = explain(&hub, members, &settings, &key("foo"), env.now());
        let provider = &explanation.exposures[0].providers[0];
        let first = provider.diagnoses.first().expect("a diagnosis");
        (first.reason, first.message.clone())
    };
    for is_readable in [false, true] {
        let (kept, message) = reason(&lost_with("keep"), is_readable);
        assert_eq!(kept, Reason::MemberUnreachable, "{message}");
        let (withdrawn, message) = reason(&lost_with("withdraw-after=60s"), is_readable);
        assert_eq!(withdrawn, Reason::ProviderTtlExpired, "{message}");
        assert!(
            message.contains("withdraw-after of the service"),
            "{message}"
        );
    }
}

#[test]
fn a_namespace_that_is_protected_is_reported() {
    let mut env = healthy();
    env.settings.protection = Protection::new("shop", []);
    env.index.mark_all_services();
    env.settle();
    let (hub, members) = env.lists();
    let explanation = explain(&hub, &members, &env.settings, &key("foo"), env.now());
    let reasons: Vec<_> = all(&explanation).iter().map(|one| one.reason).collect();
    assert!(reasons.contains(&Reason::NamespaceProtected), "{reasons:?}");
}

#[test]
fn a_protected_namespace_is_taken_for_allowed_where_the_controller_serves_it() {
    let key = ServiceKey::new("kube-public", "foo");
    let (mut hub, members) = healthy().lists();
    let settings = |hub: &HubLists| Settings::reported(hub, &members, &key);
    let is_allowed = |hub: &HubLists| settings(hub).protection.check("kube-public", "foo").is_ok();
    assert!(is_allowed(&hub), "it is Ready");
    let protected = Protection::new(DEFAULT_NAMESPACE, []).check("kube-public", "foo");
    let protected = protected.expect_err("it is protected").to_string();
    let status = hub.multi_cluster_services[0].status.as_mut();
    let conditions = status.and_then(|status| status.conditions.as_mut());
    for condition in conditions.expect("conditions") {
        condition.message.clone_from(&protected);
    }
    assert!(!is_allowed(&hub), "it says that it is protected");
}

#[test]
fn the_same_cluster_under_two_names_counts_once() {
    let mut env = healthy();
    env.silent_member("c");
    env.identify("c", "uid-of-a", (1, 34)).list("c");
    env.on_hub(mcs("foo").providers(&["a", "c"]).consumers(&["b"]));
    env.settle();
    assert_said(&env, Reason::DuplicateMember, "is the same cluster as a");
}

#[test]
fn annotations_of_a_cluster_are_read_as_the_controller_reads_them() {
    let mut env = healthy();
    annotate(&mut env, "a", labels::WITHDRAW, "true");
    env.settle();
    assert_said(&env, Reason::Drained, "a is drained");
}

#[test]
fn copy_in_a_write_conflict_is_not_reported_as_absent() {
    let mut env = healthy();
    for _ in 0..10 {
        let copy = env.members["b"].all(Kind::Slice).next().expect("a copy");
        let mut value = copy.clone();
        value["endpoints"] = json!([]);
        let kind = Kind::Slice;
        env.on("b", Object { kind, value })
            .pass(std::time::Duration::from_secs(1));
    }
    assert_said(&env, Reason::WriteConflict, "b has a copy that lacks it: ");
}

#[test]
fn ready_of_karmada_is_no_report_of_the_controller() {
    let mut env = healthy();
    env.keeps_clusters = false;
    let ready = json!([{
        "type": "Ready", "status": "Unknown", "reason": "ClusterStatusUnknown", "message": "the agent is silent",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }]);
    for name in ["a", "b"] {
        let status = json!({"status": {"conditions": ready}});
        env.on_hub(cluster(name).with(status));
    }
    env.settle();
    let explanation = explained(&env);
    assert!(explanation.ready, "{:#?}", all(&explanation));
}
