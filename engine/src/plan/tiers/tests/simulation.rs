//! Simulation of failover: after any sequence of pod changes, preferences, outages and restarts,
//! every consumer holds the copies that the rules require.

use std::collections::BTreeMap;
use std::time::Duration;

use causeway::api::labels;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use proptest::prelude::*;
use serde_json::json;

use super::preferences::{MEMBERS, annotated, foo, native, source};
use crate::explain::tests::agreement::assert_agrees;
use crate::fixtures::Environment;
use crate::fixtures::objects::mcs;
use crate::plan::tiers::HOLD;

#[derive(Clone, Debug)]
enum Step {
    /// Sets the number of ready endpoints of a member and of all its endpoints.
    Pods {
        member: usize,
        ready: u8,
        total: u8,
    },
    Prefer {
        which: usize,
        min_ready: u8,
    },
    Lose {
        member: usize,
    },
    Back {
        member: usize,
    },
    Restart,
    Wait {
        seconds: u64,
    },
}

const PREFERENCES: [&str; 4] = [
    "local, any",
    "local, region, any",
    "region, any",
    "local, cluster/member3, any",
];

fn step() -> impl Strategy<Value = Step> {
    let member = 0..MEMBERS.len();
    prop_oneof![
        6 => (member.clone(), 0..4u8, 0..4u8).prop_map(|(member, ready, more)| Step::Pods { member, ready, total: ready + more }),
        1 => (0..PREFERENCES.len(), 0..101u8).prop_map(|(which, min_ready)| Step::Prefer { which, min_ready }),
        1 => member.clone().prop_map(|member| Step::Lose { member }),
        1 => member.prop_map(|member| Step::Back { member }),
        1 => Just(Step::Restart),
        3 => (0..90u64).prop_map(|seconds| Step::Wait { seconds }),
    ]
}

/// Reference model of the rules of failover.
struct Reader {
    pods: BTreeMap<&'static str, (u8, u8)>,
    prefer: &'static str,
    min_ready: u8,
}

impl Reader {
    /// Returns the tiers of a consumer, nearest first, each with its clusters.
    fn tiers(&self, consumer: &str) -> Vec<Vec<&'static str>> {
        let region = |member: &str| member != "member3";
        let mut left: Vec<_> = MEMBERS.to_vec();
        let mut tiers = Vec::new();
        for word in self.prefer.split(", ") {
            let takes = |member: &str| match word {
                "local" => member == consumer,
                "region" => region(member) == region(consumer),
                "any" => true,
                named => named == format!("cluster/{member}"),
            };
            let (taken, rest) = left.iter().partition(|member| takes(member));
            left = rest;
            tiers.push(taken);
        }
        tiers
    }

    /// Returns the number of active tiers according to the rules.
    fn active(&self, consumer: &str) -> usize {
        let tiers = self.tiers(consumer);
        let has_enough = |tier: &Vec<&str>| {
            let sum = |part: fn(&(u8, u8)) -> u8| -> usize {
                tier.iter()
                    .map(|member| usize::from(part(&self.pods[member])))
                    .sum()
            };
            let (ready, total) = (sum(|pods| pods.0), sum(|pods| pods.1));
            ready > 0 && ready * 100 >= total * usize::from(self.min_ready)
        };
        let first = tiers.iter().position(has_enough);
        first.map_or(tiers.len(), |first| first + 1)
    }
}

fn annotations(which: usize, min_ready: u8) -> serde_json::Value {
    let min_ready = (min_ready > 0).then(|| format!("{min_ready}%"));
    json!({labels::PREFER: PREFERENCES[which], labels::MIN_READY: min_ready})
}

fn pods(ready: u8, total: u8) -> Vec<(u8, bool)> {
    (0..total)
        .map(|number| (number + 1, number < ready))
        .collect()
}

/// Counts ready and standby endpoints of a consumer's copies, per provider.
fn usable(copies: &[EndpointSlice]) -> BTreeMap<String, (usize, usize)> {
    let mut found = BTreeMap::new();
    for copy in copies {
        let labels = copy.metadata.labels.clone().unwrap_or_default();
        let conditions = copy
            .endpoints
            .iter()
            .filter_map(|one| one.conditions.as_ref());
        let count = |is_one: fn(&(bool, bool, bool)) -> bool| {
            let all = conditions.clone().map(|all| {
                let given = |one: Option<bool>| one.unwrap_or_default();
                (given(all.ready), given(all.serving), given(all.terminating))
            });
            all.filter(is_one).count()
        };
        let ready = count(|(ready, _, _)| *ready);
        let standby = count(|(ready, serving, terminating)| !ready && *serving && *terminating);
        found.insert(labels[labels::SOURCE_CLUSTER].clone(), (ready, standby));
    }
    found
}

fn agrees(
    env: &Environment,
    reader: &Reader,
    consumer: &str,
    settled: bool,
) -> Result<(), TestCaseError> {
    let usable = usable(&env.copies(consumer, "foo"));
    let active = reader.active(consumer);
    for (place, tier) in reader.tiers(consumer).iter().enumerate() {
        for member in tier.iter().filter(|member| **member != consumer) {
            let pods = usize::from(reader.pods[member].0);
            let (ready, standby) = usable.get(*member).copied().unwrap_or_default();
            let of_member = format!("{member} in {consumer}, {}", reader.prefer);
            // Never fewer than the rules say, and nothing that is not ready at its source.
            prop_assert_eq!(ready + standby, pods, "{}", of_member);
            prop_assert!(place >= active || ready == pods, "promoted: {}", of_member);
            prop_assert!(
                !settled || place < active || ready == 0,
                "demoted: {}",
                of_member
            );
        }
    }
    Ok(())
}

fn cases() -> ProptestConfig {
    ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(
            std::env::var("PROPTEST_CASES")
                .ok()
                .and_then(|cases| cases.parse().ok())
                .unwrap_or(60),
        )
    }
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn consumers_hold_what_a_reader_of_the_rules_expects_and_nothing_flaps(steps in prop::collection::vec(step(), 1..30)) {
        let mut env = native(annotations(0, 0));
        let mut lost: [bool; 3] = [false; 3];
        let mut reader = Reader {
            pods: MEMBERS.iter().map(|member| (*member, (2, 2))).collect(),
            prefer: PREFERENCES[0],
            min_ready: 0,
        };
        for step in steps {
            env.forget_writes();
            // Between what a member has and what is known of it nothing is said here: it changes while it can be seen.
            match step {
                Step::Pods { member, ready, total } if !lost[member] => {
                    let name = MEMBERS[member];
                    env.on(name, source(name, &pods(ready, total)));
                    reader.pods.insert(name, (ready, total));
                }
                Step::Pods { .. } => {}
                Step::Prefer { which, min_ready } => {
                    env.on_hub(annotated(mcs("foo"), annotations(which, min_ready)));
                    reader.prefer = PREFERENCES[which];
                    reader.min_ready = min_ready;
                }
                Step::Lose { member } => {
                    env.lose(MEMBERS[member]);
                    lost[member] = true;
                }
                Step::Back { member } => {
                    env.list(MEMBERS[member]);
                    lost[member] = false;
                }
                // A process that never saw a member leaves what it gave as it is: that is another test.
                Step::Restart if lost.contains(&true) => {}
                Step::Restart => {
                    env.restart();
                }
                Step::Wait { seconds } => {
                    env.pass(Duration::from_secs(seconds));
                }
            }
            env.settle();
            let slices = env.log().iter().filter(|line| line.ends_with("EndpointSlice")).count();
            // Each consumer writes each copy at most twice for one change: as the source changes, and when it is given up.
            prop_assert!(slices <= 2 * 6, "{:?}", env.log());
            for (member, lost) in MEMBERS.iter().zip(lost) {
                if !lost {
                    agrees(&env, &reader, member, false)?;
                }
            }
        }
        env.pass(HOLD * 2);
        for (member, lost) in MEMBERS.iter().zip(lost) {
            if !lost {
                agrees(&env, &reader, member, true)?;
            }
        }
        if !lost.contains(&true) {
            assert_agrees(&env);
            env.assert_at_rest();
        }
    }
}

#[test]
fn a_reader_of_the_rules_can_be_disappointed() {
    let mut env = native(annotations(0, 0));
    let reader = Reader {
        pods: MEMBERS.iter().map(|member| (*member, (2, 2))).collect(),
        prefer: "any",
        min_ready: 0,
    };
    assert!(agrees(&env, &reader, "member1", true).is_err());
    env.on_hub(annotated(mcs("foo"), json!({labels::PREFER: null})))
        .on_hub(foo())
        .settle();
    assert!(agrees(&env, &reader, "member1", true).is_ok());
}
