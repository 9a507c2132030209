//! All near pods are restarted under load: one by one, as a Deployment rolls out, and all at one
//! time.

use std::time::{Instant, SystemTime};

use causeway::api::labels;
use causeway_tests::{SOON, eventually};

use super::{DEMOTED, Tiers, again, copied};
use crate::client::{Client, Request, answers_of, seen};
use crate::env;

#[ignore = "slow: make test ALL=1"]
#[tokio::test]
async fn a_restart_of_all_near_pods_costs_no_request() {
    let Some(env) = env().await else { return };
    let space = env.fleet.space("rolling").await;
    let annotations = [(labels::PREFER, "local, any"), (labels::MIN_READY, "50%")];
    let mut tiers = Tiers::set_up(&env.fleet, &space, [4, 2], &annotations).await;
    tiers.is_answered_by(&tiers.said_near(), SOON).await;
    let far = tiers.said_far();

    let client = Client::start(tiers.fleet, tiers.near, &tiers.url);
    let (begun, mut turns) = (Instant::now(), 0);
    while again(begun, turns) {
        one_by_one(&mut tiers).await;
        turns += 1;
    }
    let requests = client.stop().await;
    report("one by one", &requests, &far);
    assert_eq!(
        answers_of(&requests, &far),
        0,
        "three of four were always ready"
    );

    let client = Client::start(tiers.fleet, tiers.near, &tiers.url);
    all_at_one_time(&mut tiers, &client).await;
    let requests = client.stop().await;
    report("all at one time", &requests, &far);
    assert!(answers_of(&requests, &far) > 0);
}

fn report(how: &str, requests: &[Request], far: &[String]) {
    let away = answers_of(requests, far);
    eprintln!("{how}: {}; {away} went afar", seen(requests));
    let failed: Vec<_> = requests.iter().filter(|one| one.failed()).collect();
    assert!(failed.is_empty(), "{how}: {failed:#?}");
}

/// `maxUnavailable: 1`: an old pod terminates, its successor becomes ready, and the old one ends
/// when nobody is sent to it any more.
async fn one_by_one(tiers: &mut Tiers<'_>) {
    for _ in 0..tiers.local.len() {
        let old = tiers.local.remove(0);
        old.terminate().await;
        let new = tiers.space.backends("foo").create(tiers.near).await;
        tiers.local.extend(new);
        tiers.is_answered_by(&tiers.said_near(), SOON).await;
        old.delete().await;
    }
}

/// As a Deployment of the strategy `Recreate`: all terminate, and new ones come when they have
/// ended.
async fn all_at_one_time(tiers: &mut Tiers<'_>, client: &Client) {
    let began = SystemTime::now();
    let old = std::mem::take(&mut tiers.local);
    for pod in &old {
        pod.terminate().await;
    }
    client.answered_by(&tiers.said_far(), began).await;
    let far = tiers.remote.len();
    eventually("the far tier is promoted", SOON, || async {
        let [ready, standby] = copied(tiers.space, tiers.near, "foo").await;
        match ready == far {
            true => Ok(()),
            false => Err(format!("{ready} are ready, {standby} standby")),
        }
    })
    .await;
    tiers.is_answered_by(&tiers.said_far(), SOON).await;
    for pod in &old {
        pod.delete().await;
    }
    tiers.local = tiers
        .space
        .backends("foo")
        .count(4)
        .create(tiers.near)
        .await;
    tiers.is_answered_by(&tiers.said_near(), DEMOTED).await;
}
