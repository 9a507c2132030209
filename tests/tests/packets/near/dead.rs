//! A provider that is dead as a whole, and one that only lost its API server; `unreachable:
//! standby`.

use std::time::{Duration, SystemTime};

use causeway::api::labels;
use causeway_tests::{Fleet, SOON, Space, eventually, multi_cluster_service, service, soak};

use super::{copied, url_in};
use crate::client::{Client, Request, sample, seconds_between, seen};
use crate::packets;

/// After the death of a provider, whether it refuses connections or falls silent, as a machine
/// without power: then two probes in a row have to fail first.
const OVER: Duration = Duration::from_secs(75);
/// Time for which requests are observed after that.
const LONGER: Duration = Duration::from_secs(20);
/// Failed requests are counted by windows of that length.
const WINDOW: Duration = Duration::from_secs(15);
/// A request may hang for its three seconds: several clients send them, each from ports of its own.
const CLIENTS: u16 = 4;
/// Below those that the testbed's servers listen on.
const FIRST_PORT: u16 = 12_000;
const PORTS: u16 = 2000;

/// A service that these clusters provide to member3, with a pod in each.
async fn expose<const N: usize>(
    fleet: &Fleet,
    space: &Space<'_>,
    name: &str,
    providers: [&str; N],
) -> String {
    let exposed = service(name).port_to("http", 80, 8080);
    exposed.create(fleet.hub(), space).await;
    for provider in providers {
        space.pods(name, provider, 1).await;
    }
    let exposed = multi_cluster_service(name)
        .providers(providers)
        .consumers(["member3"]);
    let exposed = exposed.annotation(labels::UNREACHABLE, "standby");
    exposed.create(space).await;
    let consumer = fleet.member("member3");
    eventually(&format!("{name} is there"), SOON, || async {
        let [ready, standby] = copied(space, consumer, name).await;
        match ready == N {
            true => Ok(()),
            false => Err(format!("{ready} are ready, {standby} standby")),
        }
    })
    .await;
    let url = url_in(space, consumer, name).await;
    // kube-proxy comes after the API server, and refuses connections until then.
    eventually(&format!("{name} answers"), SOON, || {
        sample(consumer, &url, 1)
    })
    .await;
    url
}

#[ignore = "slow: make test ALL=1"]
#[tokio::test]
async fn dead_provider_costs_no_request_after_75_seconds() {
    if !packets() {
        return;
    }
    // The long form is about the death that is harder to notice.
    let is_silent = soak().is_some();
    let env = crate::started(Fleet::builder().members(4).packets()).await;
    let fleet = &env.fleet;
    let space = fleet.space("dead").await;
    let [dead, consumer, silent] = ["member1", "member3", "member4"].map(|name| fleet.member(name));
    // member1 dies. member4 loses its API server, and is the only one to provide `alone`.
    let dying = expose(fleet, &space, "dying", ["member1", "member2"]).await;
    let alone = expose(fleet, &space, "alone", ["member4"]).await;
    let beside = expose(fleet, &space, "beside", ["member2", "member4"]).await;
    let clients: Vec<_> = (0..CLIENTS)
        .map(|number| FIRST_PORT + number * PORTS)
        .map(|first| Client::start_from(fleet, consumer, &dying, first..first + PORTS))
        .collect();
    let [of_alone, of_beside] = [alone, beside].map(|url| Client::start(fleet, consumer, &url));
    for client in clients.iter().chain([&of_alone, &of_beside]) {
        eventually("requests are answered", SOON, || async {
            client.so_far().iter().filter(|one| !one.failed()).count() > 50
        })
        .await;
    }

    let death = SystemTime::now();
    // No packet comes from its node any more.
    let down = ["link", "set", "eth0", "down"];
    dead.exec("ip", down).await.ok();
    match is_silent {
        true => dead.pause(),
        false => dead.stop().await,
    }
    silent.pause();
    eventually(
        "they have gone on for long enough",
        OVER + LONGER + SOON,
        || async {
            let requests = of_beside.so_far();
            requests
                .last()
                .is_some_and(|last| last.begun > death + OVER + LONGER)
        },
    )
    .await;

    let mut requests = Vec::new();
    for client in clients {
        requests.extend(client.stop().await);
    }
    report(&requests, death);
    let [of_alone, of_beside] = [of_alone.stop().await, of_beside.stop().await];
    for (name, requests) in [("alone", &of_alone), ("beside", &of_beside)] {
        eprintln!(
            "{name}, whose provider lost its API server: {}",
            seen(requests)
        );
        let failed: Vec<_> = requests.iter().filter(|one| one.failed()).collect();
        let before = failed.iter().filter(|one| one.begun < death).count();
        assert!(failed.is_empty(), "{name}, {before} before: {failed:#?}");
    }
    let [ready, standby] = copied(&space, consumer, "alone").await;
    assert_eq!([ready, standby], [0, 1], "and it is standby by now");

    let is_late = |request: &&Request| request.begun > death + OVER;
    let late: Vec<_> = requests.iter().filter(is_late).cloned().collect();
    assert!(late.len() > 100, "{} requests after that", late.len());
    let failed: Vec<_> = late.iter().filter(|one| one.failed()).collect();
    assert!(failed.is_empty(), "after {OVER:?}: {failed:#?}");
}

/// Prints how many requests failed, window by window, and when the last that did began.
fn report(requests: &[Request], death: SystemTime) {
    let before: Vec<_> = requests
        .iter()
        .filter(|one| one.begun < death)
        .cloned()
        .collect();
    eprintln!("before the death: {}", seen(&before));
    let mut begin = death;
    while begin < death + OVER + LONGER {
        let end = begin + WINDOW;
        let window = requests
            .iter()
            .filter(|one| (begin..end).contains(&one.begun));
        let window: Vec<_> = window.cloned().collect();
        let since = seconds_between(death, begin).as_secs();
        eprintln!("from {since} s after it: {}", seen(&window));
        begin = end;
    }
    let last = requests
        .iter()
        .filter(|one| one.failed())
        .map(|one| one.begun)
        .max();
    let last = last.map(|last| seconds_between(death, last).as_secs_f64());
    eprintln!("the last request that failed began {last:.1?} seconds after it");
}
