use std::time::Duration;

use causeway::api::labels;
use serde_json::json;

use super::*;
use crate::fixtures::objects::{Kind, drained, mcs, service, slice};
use crate::fixtures::{Environment, env, key, name};

const LONG: Duration = Duration::from_secs(3600);

/// Returns an environment in which member1 and member2 provide `foo` and the service has a request
/// for unreachable providers.
fn provided(requested: Option<&str>) -> Environment {
    let mut env = env();
    for member in ["member1", "member2"] {
        env.member(member);
        let pods = slice("foo-abc", "foo").port("http", 8080);
        env.on(member, pods.endpoint("10.1.0.1"));
    }
    let annotations = json!({labels::UNREACHABLE: requested});
    let exposed = mcs("foo").providers(&["member1", "member2", "member9"]);
    env.on_hub(service("foo").port("http", 80));
    env.on_hub(exposed.with(json!({"metadata": {"annotations": annotations}})));
    env.settle();
    env
}

fn use_of(env: &Environment, provider: &str) -> ProviderUse {
    env.plan("foo")
        .uses
        .get(&env.index, &key("foo"), &name(provider))
}

#[test]
fn provider_is_used_unless_a_request_or_evidence_excludes_it() {
    let env = provided(None);
    assert_eq!(use_of(&env, "member2"), ProviderUse::Used);
    let not_joined = ProviderUse::Unused(Unused::NotJoined);
    assert_eq!(use_of(&env, "member9"), not_joined);

    let mut env = provided(None);
    env.on_hub(drained("member2", true)).settle();
    let expected = ProviderUse::Unused(Unused::Drained);
    assert_eq!(use_of(&env, "member2"), expected);

    let mut env = provided(None);
    env.silent_member("member9");
    env.identify("member9", "uid-of-member1", (1, 34));
    env.list("member9").settle();
    let expected = ProviderUse::Unused(Unused::Duplicate);
    assert_eq!(use_of(&env, "member9"), expected);

    let mut env = provided(None);
    env.lose("member2").restart().settle();
    assert_eq!(use_of(&env, "member2"), ProviderUse::Unknown);
}

#[test]
fn request_of_the_service_precedes_the_provider_ttl() {
    let unused = ProviderUse::Unused;
    for (requested, ttl, expected) in [
        (None, false, ProviderUse::Used),
        (None, true, unused(Unused::TtlExpired)),
        (Some("keep"), true, ProviderUse::Used),
        (Some("standby"), true, ProviderUse::Standby),
        (
            Some("withdraw-after=5m"),
            true,
            unused(Unused::WithdrawAfter),
        ),
        (Some("withdraw-after=2h"), true, ProviderUse::Used),
    ] {
        let mut env = provided(requested);
        env.settings.provider_ttl = ttl.then_some(LONG / 2);
        env.lose("member2").pass(LONG);
        assert_eq!(use_of(&env, "member2"), expected, "{requested:?} {ttl}");
        assert_eq!(use_of(&env, "member1"), ProviderUse::Used);
    }
}

#[test]
fn cluster_that_may_be_lost_is_not_unused() {
    let mut env = provided(None);
    // The first list after a restart lacks the second Cluster, of which member1 holds a copy.
    env.forgets("hub", Kind::Cluster, 1).restart();
    env.introduce("member1").list("member1").work();
    let suspected = env.index.suspected_clusters();
    assert!(suspected.contains(&name("member2")));
    assert_eq!(env.plan("foo").uses.unused(&name("member2")), None);
}
