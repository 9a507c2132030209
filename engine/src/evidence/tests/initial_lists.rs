use std::time::Duration;

use causeway::api::labels;
use serde_json::json;

use super::{Environment, env, exposing};
use crate::fixtures::objects::{Kind, cluster, export, service, slice};
use crate::fixtures::{key, name};

const EARLY: Duration = Duration::from_secs(20);
const LATER: Duration = Duration::from_secs(31);

/// Returns an environment in which member1 exports that number of services.
fn exporting(services: usize) -> Environment {
    let mut env = env();
    env.member("member1").member("member2");
    for number in 0..services {
        let name = format!("s{number:02}");
        let source = slice(&format!("{name}-abc"), &name);
        env.on("member1", service(&name).port("http", 80))
            .on("member1", export(&name))
            .on("member1", source.port("http", 8080).endpoint("10.1.0.5"));
    }
    env.settle().forget_writes();
    env
}

fn deletions(env: &Environment) -> usize {
    let log = env.log();
    log.iter().filter(|line| line.contains(" delete ")).count()
}

#[test]
fn an_initial_list_that_lacks_much_of_what_copies_record_counts_when_a_second_one_lacks_it_too() {
    // All slices of member1 are listed by name, its sources before the rest.
    for (services, left, suspended) in [
        (1, 0, true),
        (3, 0, true),
        (3, 1, false),
        (12, 2, false),
        (12, 1, true),
        (12, 0, true),
        (60, 48, false),
        (60, 47, true),
    ] {
        let mut env = exposing(services);
        env.forgets("member1", Kind::Slice, left)
            .restart()
            .pass(EARLY);
        let case = format!("{left} of {services}");
        let lost = 2 * (services - left);
        assert_eq!(deletions(&env), if suspended { 0 } else { lost }, "{case}");
        let member = env.observed("member1");
        assert_eq!(
            member.suspended_deletions().count,
            if suspended { services - left } else { 0 },
            "{case}"
        );
        env.pass(LATER);
        assert_eq!(deletions(&env), lost, "{case}");
        assert_eq!(
            env.observed("member1").suspended_deletions().count,
            0,
            "{case}"
        );
        env.assert_at_rest();
    }
}

#[test]
fn what_an_initial_list_lacked_and_a_second_one_holds_was_never_gone() {
    let mut env = exposing(12);
    env.forgets("member1", Kind::Slice, 0).restart().pass(EARLY);
    env.remembers().pass(LATER);
    assert_eq!(env.member_log(), Vec::<String>::new());
    env.assert_at_rest();
    env.off("member1", Kind::Slice, "s00-abc").settle();
    assert_eq!(deletions(&env), 2, "a deletion that is seen counts at once");
}

#[test]
fn it_does_not_matter_who_lists_first() {
    for late in ["member1", "member2"] {
        let mut env = exposing(12);
        env.lose(late).forgets("member1", Kind::Slice, 0).restart();
        env.settle().list(late).pass(EARLY);
        let from = |member: &str| env.copies(member, "s00").len();
        assert_eq!((from("member2"), from("member3")), (1, 1), "{late}");
        env.remembers().pass(LATER);
        assert_eq!(env.member_log(), Vec::<String>::new(), "{late}");
    }
}

#[test]
fn a_member_that_is_engaged_again_is_compared_again() {
    let mut env = exposing(12);
    env.pass(LATER).forgets("member1", Kind::Slice, 0);
    env.index.expect_initial_lists(&name("member1"));
    env.list("member1").pass(EARLY);
    assert_eq!(deletions(&env), 0);
    env.remembers().pass(LATER);
    assert_eq!(env.member_log(), Vec::<String>::new());
}

#[test]
fn cluster_made_again_under_its_name_is_compared_with_copies() {
    let mut env = exposing(12);
    let later = json!({"metadata": {"uid": "uid-of-a-later-cluster"}});
    env.pass(LATER)
        .forgets("member1", Kind::Slice, 0)
        .on_hub(cluster("member1").with(later))
        .deliver();
    env.index.engage(&name("member1"), 2, None);
    env.introduce("member1").list("member1").pass(EARLY);
    assert_eq!(deletions(&env), 0);
    env.remembers().pass(LATER);
    assert_eq!(env.member_log(), Vec::<String>::new());
}

#[test]
fn exports_that_copies_record_and_an_initial_list_lacks_are_suspended() {
    for (left, suspended) in [(0, true), (1, true), (2, false)] {
        let mut env = exporting(12);
        env.forgets("member1", Kind::Export, left)
            .restart()
            .pass(EARLY);
        assert_eq!(deletions(&env) == 0, suspended, "{left}");
        env.remembers().pass(LATER);
        assert_eq!(deletions(&env) == 0, suspended, "{left}");
    }
}

#[test]
fn a_cluster_that_copies_record_and_the_hubs_initial_list_lacks_is_unknown() {
    let mut env = exposing(1);
    env.forgets("hub", Kind::Cluster, 0).restart();
    env.remembers().on_hub(cluster("member2")).pass(EARLY);
    assert_eq!(deletions(&env), 0);
    assert_eq!(env.index.hub_suspended_deletions(), 1);
    env.pass(LATER);
    assert_eq!(
        (env.member_log(), env.index.hub_suspended_deletions()),
        (Vec::new(), 0)
    );

    env.off_hub(Kind::Cluster, "member1").restart().pass(EARLY);
    assert_eq!(deletions(&env), 0);
    env.pass(LATER);
    assert_eq!(deletions(&env), 2, "two lists lack it");
}

#[test]
fn many_services_that_the_hubs_initial_list_lacks_are_not_requested_before_a_second_list() {
    for (services, left, suspended) in [(12, 2, false), (12, 1, true), (12, 0, true), (3, 0, false)]
    {
        let mut env = exposing(services);
        env.forgets("hub", Kind::Mcs, left).restart().pass(EARLY);
        let asked = if suspended { 0 } else { services - left };
        assert_eq!(env.looked_up.len(), asked, "{left} of {services}");
        env.pass(LATER);
        assert_eq!(env.looked_up.len(), services - left, "{left} of {services}");
        assert!(!env.looked_up.contains(&key("s00")) || left == 0);
        env.remembers().restart().pass(LATER);
        assert_eq!(deletions(&env), 0, "nobody said that there are none");
    }
}

#[test]
fn removed_member_leaves_no_suspected_deletions_behind() {
    let mut env = exposing(12);
    env.forgets("hub", Kind::Mcs, 0).restart().pass(EARLY);
    assert_eq!(env.index.hub_suspended_deletions(), 12);
    env.off_hub(Kind::Cluster, "member3").deliver();
    env.index.remove_cluster(&name("member3"));
    env.pass(LATER);
    assert_eq!(env.index.hub_suspended_deletions(), 0);
    assert_eq!(env.looked_up.len(), 12, "leftovers in member2");
}

#[test]
fn what_is_there_although_an_initial_list_lacks_it_is_found_by_a_second_one() {
    for kind in [Kind::Service, Kind::Slice] {
        let mut env = exposing(2);
        env.forgets("member2", kind, 0).restart().pass(EARLY);
        let source = slice("s00-abc", "s00").port("http", 8080);
        env.remembers().on("member1", source.endpoint("10.1.0.6"));
        env.pass(4 * LATER);
        assert_eq!(env.addresses("member2", "s00"), ["10.1.0.6"], "{kind:?}");
        env.assert_at_rest();
    }
}

#[test]
fn a_person_confirms_the_deletions_that_are_suspended_and_no_later_ones() {
    let mut env = exposing(24);
    env.forgets("member1", Kind::Slice, 12)
        .restart()
        .pass(EARLY);
    let (member, second) = (name("member1"), Duration::from_secs(1));
    let suspended = env.observed("member1").suspended_deletions().since;
    let suspended = suspended.expect("something is suspended");
    let now = env.now();
    for (at, confirmed) in [
        (suspended.wall - second, false),
        (suspended.wall, true),
        (now.wall, true),
        (now.wall + 30 * second, true),
        (now.wall + 90 * second, false),
    ] {
        let annotations = json!({labels::CONFIRM_DELETIONS: at.to_string()});
        let marked = cluster("member1").with(json!({"metadata": {"annotations": annotations}}));
        env.on_hub(marked).deliver();
        assert_eq!(
            env.index.deletions_are_confirmed(&member, now),
            confirmed,
            "{at}"
        );
    }
    let annotations = json!({labels::CONFIRM_DELETIONS: now.to_string()});
    let said = cluster("member1").with(json!({"metadata": {"annotations": annotations}}));
    env.on_hub(said).pass(2 * second);
    env.forgets("member1", Kind::Slice, 2).list("member1");
    let member1 = env.observed("member1");
    assert_eq!(member1.suspended_deletions().count, 22);
    assert!(
        !env.index.deletions_are_confirmed(&member, env.now()),
        "more is lost since"
    );
    env.remembers().list("member1");
    assert!(
        !env.index.deletions_are_confirmed(&member, env.now()),
        "nothing is suspended"
    );
}
