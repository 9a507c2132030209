//! Pods that come back one by one do not get everything.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use causeway::api::labels;
use causeway_tests::SOON;

use super::{DEMOTED, Tiers, again};
use crate::client::sample;
use crate::env;

const PODS: usize = 10;
/// Requests of a sample: so many that chance does not double a pod's share of them.
const SAMPLE: usize = 1000;
/// Twice the share that a pod has when all near ones are ready.
const MOST: usize = 2 * SAMPLE / PODS;

#[ignore = "slow: make test ALL=1"]
#[tokio::test]
async fn returning_pods_get_at_most_twice_their_fair_share() {
    let Some(env) = env().await else { return };
    let space = env.fleet.space("herd").await;
    let annotations = [(labels::PREFER, "local, any"), (labels::MIN_READY, "50%")];
    let tiers = Tiers::set_up(&env.fleet, &space, [PODS, PODS], &annotations).await;
    let (begun, mut turns) = (Instant::now(), 0);
    while again(begun, turns) {
        away_and_back(&tiers).await;
        turns += 1;
    }
}

async fn away_and_back(tiers: &Tiers<'_>) {
    for pod in &tiers.local {
        pod.set_ready(false).await;
    }
    tiers.is_answered_by(&tiers.said_far(), SOON).await;
    for (number, (pod, said)) in tiers.local.iter().zip(said_one_by_one(tiers)).enumerate() {
        pod.set_ready(true).await;
        let what = format!("{} of {PODS} are back", number + 1);
        until(tiers, &what, SOON, |answers| answers.contains_key(&said)).await;
    }
    let far = tiers.said_far();
    let is_near =
        |answers: &BTreeMap<String, usize>| !far.iter().any(|pod| answers.contains_key(pod));
    until(tiers, "the far ones are standby", DEMOTED, is_near).await;
}

/// Returns the answer of each near pod, in their order.
fn said_one_by_one(tiers: &Tiers<'_>) -> impl Iterator<Item = String> {
    let pods = tiers.local.iter();
    pods.map(|pod| format!("pod {} in member2", pod.name()))
}

/// Looks at the share of each pod until that holds, and prints the last. No pod ever gets too much.
async fn until(
    tiers: &Tiers<'_>,
    what: &str,
    within: Duration,
    holds: impl Fn(&BTreeMap<String, usize>) -> bool,
) {
    let deadline = Instant::now() + within;
    loop {
        let answers = sample(tiers.near, &tiers.url, SAMPLE).await;
        let answers = answers.expect("no request fails");
        let (pod, most) = answers
            .iter()
            .max_by_key(|(_, count)| **count)
            .expect("answers");
        assert!(
            *most <= MOST,
            "{what}: {pod} gets {most} of {SAMPLE} requests, twice its share is {MOST}: {answers:#?}"
        );
        if holds(&answers) {
            eprintln!(
                "{what}: {} pods answer, at most {most} of {SAMPLE} each",
                answers.len()
            );
            return;
        }
        assert!(
            Instant::now() < deadline,
            "not within {within:?}: {what}: {answers:#?}"
        );
    }
}
