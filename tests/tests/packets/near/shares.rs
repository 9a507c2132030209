//! Shares of traffic, on real packets through kube-proxy.

use std::collections::BTreeMap;
use std::time::SystemTime;

use causeway::api::labels;
use causeway_tests::fixtures::RunningPod;
use causeway_tests::{Cluster, Fleet, SOON, eventually, multi_cluster_service};

use super::{copied, said_in, url_in};
use crate::client::{Client, sample, seen};
use crate::{packets, web};

/// Number of connections by which a share is measured.
const CONNECTIONS: usize = 10_000;
/// Wanted share of member1, and the largest deviation, in hundredths of a percent.
const WANTED: usize = 2500;
const DEVIATION: usize = 300;

/// Connects often, and returns which of these answers came. Panics unless they have their share.
async fn measured(client: &Cluster, url: &str, new: &[String]) -> Vec<String> {
    let answers: BTreeMap<_, _> = sample(client, url, CONNECTIONS).await.expect("answers");
    let of_new = answers.iter().filter(|(answer, _)| new.contains(answer));
    let count: usize = of_new.clone().map(|(_, count)| count).sum();
    let share = count * 10_000 / CONNECTIONS;
    eprintln!("{count} of {CONNECTIONS} connections: {answers:?}");
    assert!(share.abs_diff(WANTED) <= DEVIATION, "{share}, {answers:?}");
    of_new.map(|(answer, _)| answer.clone()).collect()
}

#[ignore = "slow: make test ALL=1"]
#[tokio::test]
async fn share_holds_without_hub_and_while_its_subset_dies() {
    if !packets() {
        return;
    }
    let env = crate::started(Fleet::builder().members(3).packets()).await;
    let space = env.fleet.space("shares").await;
    let [new, old, client] = ["member1", "member2", "member3"].map(|name| env.fleet.member(name));
    for cluster in [env.fleet.hub(), new, old] {
        web().create(cluster, &space).await;
    }
    let added = space.backends("foo").count(2).create(new).await;
    space.backends("foo").count(3).create(old).await;
    let exposed = multi_cluster_service("foo").providers(["member1", "member2"]);
    let exposed = exposed.consumers(["member3"]);
    let exposed = exposed.annotation(labels::SHARE, "cluster/member1=25%, rest");
    exposed.create(&space).await;
    let is_applied = || async {
        match copied(&space, client, "foo").await {
            [4, 1] => Ok(()),
            [ready, standby] => Err(format!("{ready} are ready, {standby} standby")),
        }
    };
    eventually("one of five pods is standby", SOON, is_applied).await;
    let url = url_in(&space, client, "foo").await;
    let said = said_in(&added, "member1");
    eventually("kube-proxy serves", SOON, || sample(client, &url, 10)).await;
    let chosen = measured(client, &url, &said).await;
    assert_eq!(chosen.len(), 1, "one pod of member1 is ready: {chosen:?}");

    let stopped = [&env.controller, env.webhook()];
    stopped.iter().for_each(|one| one.process().pause());
    env.fleet.hub().pause();
    assert_eq!(measured(client, &url, &said).await, chosen);
    env.fleet.hub().resume();
    stopped.iter().for_each(|one| one.process().resume());

    let is_chosen = |(_, answer): &(&RunningPod, &String)| chosen.contains(answer);
    let (subset, others): (Vec<_>, Vec<_>) = added.iter().zip(&said).partition(is_chosen);
    let requests = Client::start(&env.fleet, client, &url);
    let killed = SystemTime::now();
    for (pod, _) in subset {
        pod.network().kill().await;
        pod.set_ready(false).await;
    }
    let others: Vec<_> = others
        .into_iter()
        .map(|(_, answer)| answer.clone())
        .collect();
    let noticed = requests.answered_by(&others, killed).await;
    let share = measured(client, &url, &said).await;
    assert_eq!(share, others);
    let requests = requests.stop().await;
    let after: Vec<_> = requests
        .into_iter()
        .filter(|one| one.begun > noticed.ended)
        .collect();
    eprintln!("after the subset died: {}", seen(&after));
    assert!(!after.is_empty() && after.iter().all(|one| !one.failed()));
}
