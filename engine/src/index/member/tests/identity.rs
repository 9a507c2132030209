//! Who a member is, and what becomes of it when that was, or becomes, another.

use super::*;
use crate::model::{Failure, FailureKind, Item};

fn standing(world: &World, cluster: &str) -> Standing {
    world.index.standing(&name(cluster))
}

#[test]
fn a_member_whose_address_was_a_strangers_for_a_while_is_not_taken_for_unreachable_for_ever() {
    let mut world = provided();
    let refused = Failure::new(FailureKind::Refused, "connection refused");
    world.hear("member1", MemberEvent::Probed(Err(refused)));
    world.identify("member1", "uid-of-a-stranger", (1, 34));
    world.hear("member1", MemberEvent::Probed(Ok(())));
    assert!(matches!(standing(&world, "member1"), Standing::Refused(_)));
    // That it answers was told already.
    world.identify("member1", "uid-of-member1", (1, 34));
    assert_eq!(standing(&world, "member1"), Standing::Synced);
}

#[test]
fn a_cluster_that_was_refused_as_anothers_second_name_may_become_one_of_its_own() {
    let mut world = provided();
    world.pass(Duration::from_secs(60));
    world.silent_member("again").on("again", source("10.1.0.5"));
    world.identify("again", "uid-of-member1", (1, 34));
    world.list("again").settle();
    assert!(matches!(standing(&world, "again"), Standing::Refused(_)));

    world.identify("again", "uid-of-again", (1, 34)).settle();
    assert_eq!(
        standing(&world, "again"),
        Standing::Syncing,
        "nothing counts that the other one said"
    );
    assert_eq!(addresses(&world), ["10.1.0.5", "10.2.0.5"]);
    world.list("again").settle();
    assert_eq!(standing(&world, "again"), Standing::Synced);
    assert_eq!(standing(&world, "member1"), Standing::Synced);
}

#[test]
fn the_younger_name_counts_as_soon_as_the_elder_takes_no_part() {
    let mut world = provided();
    world.pass(Duration::from_secs(60));
    world.silent_member("again");
    world.identify("again", "uid-of-member1", (1, 34));
    world.list("again").settle();
    assert!(matches!(standing(&world, "again"), Standing::Refused(_)));
    world.index.members.remove("member1");
    world.index.note_engagement(&name("member1"));
    assert_eq!(standing(&world, "again"), Standing::Synced);
}

#[test]
fn who_is_meant_is_what_the_cluster_records_when_that_is_put_right() {
    let mut world = provided();
    let engage = |world: &mut World, recorded: &str| {
        let member = world.index.members.get_mut("member1").expect("a member");
        let generation = member.generation;
        member.engage_again(generation);
        member.recorded_uid = Some(recorded.to_owned());
        world.index.await_lists(&name("member1"));
        world.identify("member1", "uid-of-member1", (1, 34));
    };
    engage(&mut world, "uid-of-nobody");
    assert!(matches!(standing(&world, "member1"), Standing::Refused(_)));
    engage(&mut world, "uid-of-member1");
    world.list("member1").settle();
    assert_eq!(standing(&world, "member1"), Standing::Synced);
    assert_eq!(addresses(&world), ["10.1.0.5", "10.2.0.5"]);
}

#[test]
fn what_is_wrong_with_a_cluster_or_its_secret_is_forgotten_when_it_is_put_right() {
    let mut world = provided();
    let member1 = name("member1");
    for (configuration, refused) in [
        (Configuration::Outdated("no Secret".to_owned()), false),
        (Configuration::Refused("no Secret".to_owned()), true),
    ] {
        world.index.take_marked();
        assert!(
            world
                .index
                .note_configuration(&member1, configuration.clone())
        );
        assert!(!world.index.note_configuration(&member1, configuration));
        let stands = standing(&world, "member1");
        assert_eq!(stands == Standing::Refused("no Secret".to_owned()), refused);
        assert_eq!(stands == Standing::Synced, !refused);
        assert!(
            world
                .index
                .note_configuration(&member1, Configuration::Valid)
        );
        assert_eq!(standing(&world, "member1"), Standing::Synced);
        let dirty = world.index.take_marked();
        assert!(
            dirty.contains_key(&Item::Cluster(member1.clone())),
            "{dirty:?}"
        );
        assert!(dirty.contains_key(&Item::Service(key("foo"))), "{dirty:?}");
    }
}
