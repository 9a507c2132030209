//! Deletions with an obstacle.

use super::*;
use crate::fixtures::name;
use crate::fixtures::objects::namespace;
use crate::model::Item;

/// Time that exceeds the maximum for which a clean-up may hold a MultiClusterService.
const HELD: Duration = Duration::from_secs(61);

/// Confirms by a lookup that the hub has no MultiClusterService.
fn confirm(env: &mut Environment) -> &mut Environment {
    env.index.apply_confirmed_absence(key("foo"));
    env.index.mark(Item::Service(key("foo")));
    env.pass(HELD)
}

fn is_clean(env: &Environment, cluster: &str) -> bool {
    env.service(cluster, "foo").is_none() && env.copies(cluster, "foo").is_empty()
}

fn forbids(kind: Kind) -> Option<(Kind, Failure)> {
    Some((kind, Failure::new(FailureKind::Forbidden, "not here")))
}

#[test]
fn nothing_that_a_member_refuses_holds_up_a_deletion_for_long() {
    for kind in [Kind::Service, Kind::Slice] {
        let mut env = provided();
        env.server("member2").refuses = forbids(kind);
        env.off_hub(Kind::Mcs, "foo").pass(HELD / 2);
        assert!(env.mcs("foo").is_some(), "{kind:?}: it has its time");
        assert!(is_clean(&env, "member1"));
        env.pass(HELD / 2);
        assert!(env.mcs("foo").is_none(), "{kind:?}");
        let notes: Vec<_> = env
            .recorded
            .iter()
            .map(|one| (one.warning, &*one.reason))
            .collect();
        assert_eq!(notes, [(true, "LeftoversRemain")], "{kind:?}");
        let note = &env.recorded[0].note;
        assert!(note.contains("left in member2:"), "{note}");
        env.server("member2").refuses = None;
        confirm(&mut env);
        assert!(is_clean(&env, "member2"), "{kind:?}");
        env.assert_at_rest();
    }
}

#[test]
fn a_deletion_that_a_process_finds_has_its_time_from_then_on() {
    let mut env = provided();
    env.server("member2").refuses = forbids(Kind::Slice);
    env.off_hub(Kind::Mcs, "foo").pass(HELD / 2).restart();
    env.pass(HELD / 2);
    assert!(env.mcs("foo").is_some());
    env.pass(HELD / 2);
    assert!(env.mcs("foo").is_none());
}

#[test]
fn a_member_that_is_not_engaged_yet_is_waited_for() {
    let mut env = provided();
    env.off_hub(Kind::Mcs, "foo").restart();
    env.index.stop_watching(&name("member2"));
    env.settle();
    assert!(env.mcs("foo").is_some(), "its Secret may be read next");
    env.engage("member2")
        .identify("member2", "uid-of-member2", (1, 34))
        .list("member2")
        .settle();
    assert!(env.mcs("foo").is_none() && is_clean(&env, "member2"));
}

#[test]
fn in_a_namespace_that_is_long_terminating_what_is_wanted_no_more_is_deleted_and_nothing_is_made() {
    let held = json!({"metadata": {"finalizers": ["kubernetes"]}});
    let mut env = provided();
    env.on("member2", namespace("shop").with(held))
        .off("member2", Kind::Namespace, "shop");
    let more = slice("foo-def", "foo")
        .port("http", 8080)
        .endpoint("10.1.0.6");
    env.on("member1", more).pass(HELD);
    assert_eq!(env.addresses("member2", "foo"), ["10.1.0.5"]);
    let writes = |env: &Environment| {
        env.log()
            .iter()
            .filter(|line| line.starts_with("member2"))
            .count()
    };
    assert_eq!(writes(&env), 0, "{:?}", env.log());
    env.off_hub(Kind::Mcs, "foo").settle();
    assert!(env.mcs("foo").is_none() && is_clean(&env, "member2"));
    assert_eq!(writes(&env), 2, "{:?}", env.log());
    env.assert_at_rest();
}
