//! Lookups on the hub: a member's objects decide their number, and not their concurrency.

use std::collections::HashMap;
use std::fs;
use std::time::Duration;

use causeway::api::labels;
use causeway_tests::{Environment, Fault, Fleet, LONG, SOON, Space, eventually, service};
use futures::{StreamExt as _, stream};
use k8s_openapi::api::core::v1::Service;
use kube::api::{ListParams, PostParams};

/// Maximum number of concurrent lookups (`controller/src/lookup/queue.rs`).
const WIDTH: usize = 8;
/// Time for which an answer is remembered (`controller/src/lookup/queue.rs`).
const REMEMBERED: Duration = Duration::from_secs(30);
const MANY: usize = 200;
/// Time that the hub takes for an answer: all lookups take 20 s, one for member2 two of these.
const ANSWER: Duration = Duration::from_millis(800);

/// A Service as the controller of that hub left it for a MultiClusterService.
async fn leave(space: &Space<'_>, member: &str, name: &str, hub: &str) {
    let mut object = service(name).port("http", 80).headless().object();
    let marks = [(labels::HUB, hub), (labels::MANAGED_BY, labels::MANAGER)];
    let meta = &mut object.metadata;
    let own = meta.labels.get_or_insert_default();
    own.extend(marks.map(|(label, value)| (label.to_owned(), value.to_owned())));
    let owner = "MultiClusterService/gone".to_owned();
    meta.annotations
        .get_or_insert_default()
        .insert(labels::OWNER.to_owned(), owner);
    let services = space.api::<Service>(space.fleet().member(member));
    let made = services.create(&PostParams::default(), &object).await;
    made.unwrap_or_else(|e| panic!("cannot make {name} in {member}: {e}"));
}

#[tokio::test]
async fn many_leftovers_neither_flood_the_hub_nor_starve_members() {
    let fleet = Fleet::builder().members(2).start().await;
    let env = Environment::builder().proxies().start(fleet).await;
    env.is_synced("member1").await;
    env.is_synced("member2").await;
    let space = env.space("leftovers").await;
    let hub = env.hub().uid().await;
    // The hub is slow, so that what could be asked at one time is.
    env.set("hub", Fault::Late(ANSWER));
    let flood = stream::iter(0..MANY).for_each_concurrent(32, async |number| {
        leave(&space, "member1", &format!("left-{number}"), &hub).await;
    });
    flood.await;
    let asked = || env.proxy("hub").lookups();
    eventually("the hub is asked", SOON, async || asked().len() > 5 * WIDTH).await;
    leave(&space, "member2", "other", &hub).await;
    let services = space.api::<Service>(env.member("member2"));
    let of_hub = ListParams::default().labels(labels::HUB);
    eventually("what is left in member2 is collected", LONG, async || {
        services
            .list(&of_hub)
            .await
            .is_ok_and(|left| left.items.is_empty())
    })
    .await;
    let asked = asked();
    let widest = asked.iter().map(|lookup| lookup.under_way).max();
    assert_eq!(widest, Some(WIDTH));
    assert!(
        asked.len() < MANY,
        "it did not wait for the others: {}",
        asked.len()
    );
    // A process that loses its lease asks again when it leads again.
    let log = fs::read_to_string(env.controller.process().log()).expect("a log");
    let terms = log.matches("lease acquired").count();
    assert!(terms > 0, "nobody led:\n{log}");
    let mut earlier = HashMap::<_, Vec<_>>::new();
    for lookup in asked {
        earlier.entry(lookup.name).or_default().push(lookup.arrival);
    }
    for (name, times) in earlier {
        assert!(
            times.len() <= terms,
            "{name} is asked {times:?} in {terms} terms"
        );
        let mut pauses = times.windows(2).map(|pair| pair[1] - pair[0]);
        assert!(
            pauses.all(|pause| pause >= REMEMBERED),
            "{name} at {times:?}"
        );
    }
}
