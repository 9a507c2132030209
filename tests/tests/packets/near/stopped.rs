//! Fail-over and the way back while nobody is there to do anything: the hub, the controller and the
//! webhook are stopped.

use std::time::{Instant, SystemTime};

use causeway::api::labels;
use causeway_tests::{Fleet, SOON};

use super::{Tiers, again, own_are_ready, said_in};
use crate::client::{Client, Request, seconds_between, seen};
use crate::packets;

#[tokio::test]
async fn fail_over_and_back_work_without_hub_and_controller() {
    if !packets() {
        return;
    }
    let env = crate::started(Fleet::builder().members(2).packets()).await;
    let space = env.fleet.space("stopped").await;
    let prefer = [(labels::PREFER, "local, any")];
    let mut tiers = Tiers::set_up(&env.fleet, &space, [2, 1], &prefer).await;
    tiers.is_answered_by(&tiers.said_near(), SOON).await;
    for causeway in [&env.controller, env.webhook()] {
        causeway.process().pause();
    }
    env.fleet.hub().pause();

    let client = Client::start(&env.fleet, tiers.near, &tiers.url);
    let (begun, mut turns) = (Instant::now(), 0);
    while again(begun, turns) {
        there_and_back(&tiers, &client).await;
        turns += 1;
    }
    let requests = client.stop().await;
    eprintln!(
        "unready pods, {turns} times there and back: {}",
        seen(&requests)
    );
    assert!(
        requests.iter().all(|one| !one.failed()),
        "{}",
        failures(&requests)
    );

    let client = Client::start(&env.fleet, tiers.near, &tiers.url);
    let (killed, synced) = the_near_pods_die(&mut tiers, &client).await;
    let requests = client.stop().await;
    let before: Vec<_> = requests
        .iter()
        .filter(|one| one.ended < killed)
        .cloned()
        .collect();
    let after: Vec<_> = requests
        .iter()
        .filter(|one| one.begun > synced)
        .cloned()
        .collect();
    let between = requests.len() - before.len() - after.len();
    eprintln!(
        "pods that die: before {}; {between} requests until kube-proxy had synced, {:.2} s; after {}",
        seen(&before),
        seconds_between(killed, synced).as_secs_f64(),
        seen(&after)
    );
    for requests in [before, after] {
        assert!(!requests.is_empty());
        assert!(
            requests.iter().all(|one| !one.failed()),
            "{}",
            failures(&requests)
        );
    }
}

/// All near pods become unready, and ready again.
async fn there_and_back(tiers: &Tiers<'_>, client: &Client) {
    for (ready, pods) in [(false, tiers.said_far()), (true, tiers.said_near())] {
        let count = if ready { tiers.local.len() } else { 0 };
        let (changed, ()) = tokio::join!(own_are_ready(tiers.space, tiers.near, count), async {
            for pod in &tiers.local {
                pod.set_ready(ready).await;
            }
        });
        let first = client.answered_by(&pods, changed).await;
        eprintln!(
            "near pods ready: {ready}; the first answer of the others {:.2} s after the slice's change",
            seconds_between(changed, first.ended).as_secs_f64()
        );
        tiers.is_answered_by(&pods, SOON).await;
    }
}

/// The near pods die at once, as their kubelet notices; when, and when kube-proxy had synced. Then
/// others come.
async fn the_near_pods_die(tiers: &mut Tiers<'_>, client: &Client) -> (SystemTime, SystemTime) {
    client
        .answered_by(&tiers.said_near(), SystemTime::now())
        .await;
    let killed = SystemTime::now();
    for pod in &tiers.local {
        pod.network().kill().await;
    }
    for pod in &tiers.local {
        pod.set_ready(false).await;
    }
    let first = client.answered_by(&tiers.said_far(), killed).await;
    tiers.is_answered_by(&tiers.said_far(), SOON).await;
    tiers.local = tiers
        .space
        .backends("foo")
        .count(2)
        .create(tiers.near)
        .await;
    let new = said_in(&tiers.local, "member2");
    tiers.is_answered_by(&new, SOON).await;
    (killed, first.ended)
}

fn failures(requests: &[Request]) -> String {
    let failed = requests.iter().filter(|one| one.failed()).take(5);
    format!("{:#?}", failed.collect::<Vec<_>>())
}
