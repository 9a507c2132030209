//! Identity of a member, and the consequences of another cluster under its name.

use super::*;
use crate::fixtures::objects::cluster;
use crate::model::{Configuration, ConfigurationError, Failure, FailureKind, Item};
use crate::plan::provider_use::Unused;

fn member_state(env: &Environment, cluster: &str) -> MemberState {
    env.index.member_state(&name(cluster))
}

#[test]
fn member_recovers_after_its_address_was_anothers() {
    let mut env = provided();
    let refused = Failure::new(FailureKind::Refused, "connection refused");
    env.observe("member1", MemberEvent::Probed(Err(refused)));
    env.identify("member1", "uid-of-a-stranger", (1, 34));
    env.observe("member1", MemberEvent::Probed(Ok(())));
    assert!(matches!(
        member_state(&env, "member1"),
        MemberState::Refused(_)
    ));
    // That it answers was reported already.
    env.identify("member1", "uid-of-member1", (1, 34));
    assert_eq!(member_state(&env, "member1"), MemberState::Synced);
}

#[test]
fn refused_duplicate_may_become_a_member_of_its_own() {
    let mut env = provided();
    env.pass(Duration::from_secs(60));
    env.silent_member("again").on("again", source("10.1.0.5"));
    env.identify("again", "uid-of-member1", (1, 34));
    env.list("again").settle();
    assert!(matches!(
        member_state(&env, "again"),
        MemberState::Refused(_)
    ));

    env.identify("again", "uid-of-again", (1, 34)).settle();
    assert_eq!(
        member_state(&env, "again"),
        MemberState::Syncing,
        "nothing counts that the other one said"
    );
    assert_eq!(addresses(&env), ["10.1.0.5", "10.2.0.5"]);
    env.list("again").settle();
    assert_eq!(member_state(&env, "again"), MemberState::Synced);
    assert_eq!(member_state(&env, "member1"), MemberState::Synced);
}

#[test]
fn the_younger_name_counts_as_soon_as_the_elder_takes_no_part() {
    let mut env = provided();
    env.pass(Duration::from_secs(60));
    env.silent_member("again");
    env.identify("again", "uid-of-member1", (1, 34));
    env.list("again").settle();
    assert!(matches!(
        member_state(&env, "again"),
        MemberState::Refused(_)
    ));
    env.index.members.remove("member1");
    env.index.note_engagement(&name("member1"));
    assert_eq!(member_state(&env, "again"), MemberState::Synced);
}

#[test]
fn corrected_uid_of_the_cluster_identifies_the_member() {
    let mut env = provided();
    let engage = |env: &mut Environment, recorded: &str| {
        let member = env.index.members.get_mut("member1").expect("a member");
        let generation = member.generation;
        member.engage_again(generation);
        member.recorded_uid = Some(recorded.to_owned());
        env.index.expect_initial_lists(&name("member1"));
        env.identify("member1", "uid-of-member1", (1, 34));
    };
    engage(&mut env, "uid-of-nobody");
    assert!(matches!(
        member_state(&env, "member1"),
        MemberState::Refused(_)
    ));
    engage(&mut env, "uid-of-member1");
    env.list("member1").settle();
    assert_eq!(member_state(&env, "member1"), MemberState::Synced);
    assert_eq!(addresses(&env), ["10.1.0.5", "10.2.0.5"]);
}

#[test]
fn record_of_a_uid_is_noted_while_the_member_is_synced() {
    let mut env = provided();
    let member1 = name("member1");
    for (recorded, is_lost, is_noted) in [
        (json!(null), false, false),
        (json!("uid-of-nobody"), false, false),
        (json!("uid-of-member1"), true, false),
        (json!("uid-of-member1"), false, true),
    ] {
        let spec = json!({"spec": {"id": recorded}});
        env.on_hub(cluster("member1").with(spec)).deliver();
        match is_lost {
            true => env.lose("member1"),
            false => env.list("member1"),
        };
        assert_eq!(env.index.note_recorded_uid(&member1), is_noted);
        let noted = env.observed("member1").recorded_uid.is_some();
        assert_eq!(noted, is_noted, "{recorded} {is_lost}");
    }
}

#[test]
fn second_name_waits_for_the_elder_after_a_restart() {
    let mut env = provided();
    let recorded = json!({"spec": {"id": "uid-of-member1"}});
    env.on_hub(cluster("member1").with(recorded))
        .pass(Duration::from_secs(60));
    env.silent_member("again").on("again", source("10.1.0.5"));
    env.identify("again", "uid-of-member1", (1, 34))
        .list("again");
    env.on_hub(
        mcs("foo")
            .providers(&["member1", "again"])
            .consumers(&["member3"]),
    )
    .settle();
    assert_eq!(addresses(&env), ["10.1.0.5"]);
    env.lose("member1").lose("again").restart();
    env.identify("again", "uid-of-member1", (1, 34))
        .list("again")
        .pass(Duration::from_secs(120));
    assert_eq!(env.copies("member3", "foo").len(), 1);
    assert!(Unused::excludes(&env.index, &name("again")));
    env.identify("member1", "uid-of-member1", (1, 34))
        .list("member1")
        .settle();
    assert_eq!(addresses(&env), ["10.1.0.5"]);
}

#[test]
fn corrected_cluster_or_secret_clears_its_error() {
    let mut env = provided();
    let member1 = name("member1");
    for (configuration, refused) in [
        (
            Configuration::Outdated(ConfigurationError::NoSecretRef),
            false,
        ),
        (
            Configuration::Refused(ConfigurationError::NoSecretRef),
            true,
        ),
    ] {
        env.index.take_marked();
        assert!(
            env.index
                .note_configuration(&member1, configuration.clone(), now())
        );
        assert!(!env.index.note_configuration(&member1, configuration, now()));
        let stands = member_state(&env, "member1");
        assert_eq!(
            matches!(stands, MemberState::Refused(Refusal::Configuration(_))),
            refused
        );
        assert_eq!(stands == MemberState::Synced, !refused);
        assert!(
            env.index
                .note_configuration(&member1, Configuration::Valid, now())
        );
        assert_eq!(member_state(&env, "member1"), MemberState::Synced);
        let dirty = env.index.take_marked();
        assert!(
            dirty.contains_key(&Item::Cluster(member1.clone())),
            "{dirty:?}"
        );
        assert!(dirty.contains_key(&Item::Service(key("foo"))), "{dirty:?}");
    }
}
