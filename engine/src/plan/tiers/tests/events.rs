//! Events that report promotions and demotions.

use causeway::api::labels;
use serde_json::json;

use super::preferences::{exported, native, source};
use crate::fixtures::Environment;
use crate::plan::tiers::HOLD;

fn news(env: &Environment) -> Vec<String> {
    let all = env.recorded.iter();
    let of_tiers = all.filter(|event| ["Promoted", "Demoted"].contains(&&*event.reason));
    let mut texts: Vec<_> = of_tiers
        .map(|event| format!("{}: {}", event.reason, event.note))
        .collect();
    texts.sort();
    texts
}

#[test]
fn a_promotion_and_a_demotion_are_reported_once_for_each_consumer() {
    let annotations = json!({labels::PREFER: "local, region, any", labels::MIN_READY: "50%"});
    for mut env in [native(annotations.clone()), exported(annotations)] {
        env.forget_writes();
        env.on(
            "member1",
            source("member1", &[(1, true), (2, false), (3, false)]),
        )
        .settle();
        let promoted = "Promoted: member1 uses region (member2): local has 1 of 3 endpoints ready, fewer than 50%";
        assert_eq!(news(&env), [promoted]);
        env.forget_writes();
        env.on(
            "member1",
            source("member1", &[(1, true), (2, true), (3, false)]),
        )
        .pass(HOLD * 2);
        let demoted =
            "Demoted: member1 has region (member2) as standby: local has 2 of 3 endpoints ready";
        assert_eq!(news(&env), [demoted]);
    }
}

#[test]
fn endpoints_that_become_standby_because_nobody_reaches_their_cluster_are_reported() {
    let mut env = native(json!({labels::UNREACHABLE: "standby"}));
    env.forget_writes();
    env.lose("member3").pass(HOLD * 4);
    let why = "member3 cannot be reached; its endpoints are used where no other is ready";
    let expected = ["member1", "member2"].map(|consumer| format!("Demoted: {consumer}: {why}"));
    assert_eq!(news(&env), expected);
}
