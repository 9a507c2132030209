//! Events that the hub does not take at once, and events that repeat others in all but their note.

use std::time::Duration;

use causeway_tests::causeway::Lent;
use causeway_tests::{
    Fault, Proxy, SOON, Space, eventually, multi_cluster_service, same, service, throughout,
};

/// Longer than the controller waits for an answer to an event.
const UNANSWERED: Duration = Duration::from_secs(12);

/// Returns the notes of the Events of that reason about foo.
async fn notes(space: &Space<'_>, reason: &str) -> Vec<String> {
    let about = format!("involvedObject.name=foo,reason={reason}");
    let path = "jsonpath={range .items[*]}{.message}{\"\\n\"}{end}";
    let get = ["get", "events", "--field-selector", &about, "-o", path];
    let said = space.kubectl(space.hub(), get).await;
    said.lines().map(str::to_owned).collect()
}

async fn tells(space: &Space<'_>, expected: &[&str]) {
    eventually(&format!("Events say {expected:?}"), SOON, async || {
        same(notes(space, "ServiceAppliedFailed").await, expected)
    })
    .await;
}

#[tokio::test]
async fn refused_event_is_retried_and_another_note_is_another_event() {
    let mut env = Lent::take().await;
    let proxy = Proxy::before(env.hub()).await;
    let launch = env.installation.controller_through(env.hub(), &proxy.url());
    env.relaunch(launch).await;
    let space = env.space("events").await;
    service("foo")
        .port("http", 80)
        .create(env.hub(), &space)
        .await;

    let foo = multi_cluster_service("foo").providers(["member1"]);
    foo.consumers(["member1"]).create(&space).await;
    space.says("foo", "ServiceApplied", "True|").await;

    // The fault ends the watches of the hub too: the Service is known before.
    proxy.set(Fault::Withholds(&["events"]));
    consume(&space, "first").await;
    let failed = "False|ServiceAppliedFailed|";
    let first = space.says("foo", "ServiceApplied", failed).await;
    throughout("no event is taken", UNANSWERED, async || {
        notes(&space, "ServiceAppliedFailed").await.is_empty()
    })
    .await;
    proxy.set(Fault::None);
    tells(&space, &[&first]).await;

    consume(&space, "member1").await;
    space.says("foo", "ServiceApplied", "True|").await;
    consume(&space, "second").await;
    let second = space.says("foo", "ServiceApplied", failed).await;
    assert!(second.contains("second is not joined"), "{second}");
    tells(&space, &[&first, &second]).await;
    drop(space);
    env.restore().await;
}

async fn consume(space: &Space<'_>, consumer: &str) {
    let patch = format!(r#"{{"spec":{{"consumerClusters":[{{"name":"{consumer}"}}]}}}}"#);
    let patch = ["patch", "mcs", "foo", "--type=merge", "-p", &patch];
    space.kubectl(space.hub(), patch).await;
}
