//! Events that the hub does not take at once, and events that repeat others in all but their note.

use std::time::Duration;

use causeway_tests::eventually::throughout;
use causeway_tests::proxy::{Fault, Proxy};
use causeway_tests::{
    Cluster, Fleet, Installation, SOON, Space, eventually, multi_cluster_service, service,
};

use super::says;

/// Longer than the controller waits for an answer to an event.
const UNANSWERED: Duration = Duration::from_secs(12);

/// Returns the notes of the Events of that reason about foo.
async fn notes(space: &Space<'_>, hub: &Cluster, reason: &str) -> Vec<String> {
    let about = format!("involvedObject.name=foo,reason={reason}");
    let get = [
        "get",
        "events",
        "-n",
        space.name(),
        "--field-selector",
        &about,
    ];
    let path = "jsonpath={range .items[*]}{.message}{\"\\n\"}{end}";
    let said = hub.kubectl(get.into_iter().chain(["-o", path])).await.ok();
    said.lines().map(str::to_owned).collect()
}

async fn tells(space: &Space<'_>, hub: &Cluster, expected: &[&str]) {
    eventually(&format!("Events say {expected:?}"), SOON, async || {
        let notes = notes(space, hub, "ServiceAppliedFailed").await;
        if notes == expected {
            Ok(())
        } else {
            Err(format!("{notes:?}"))
        }
    })
    .await;
}

#[tokio::test]
async fn refused_event_is_retried_and_another_note_is_another_event() {
    let fleet = Fleet::builder().members(1).start().await;
    let installation = Installation::new(&fleet).await;
    let hub = fleet.hub();
    let proxy = Proxy::before(hub).await;
    let controller = installation.controller_through(hub, &proxy.url());
    let _controller = controller.start().await;
    installation.join(fleet.member("member1")).await;
    let space = fleet.space("events").await;
    service("foo").port("http", 80).create(hub, &space).await;

    proxy.set(Fault::Withholds(&["events"]));
    let foo = multi_cluster_service("foo").providers(["member1"]);
    foo.consumers(["first"]).create(&space).await;
    let first = says(
        &space,
        "ServiceApplied",
        "False|ServiceAppliedFailed|",
        SOON,
    )
    .await;
    throughout("no event is taken", UNANSWERED, async || {
        notes(&space, hub, "ServiceAppliedFailed").await.is_empty()
    })
    .await;
    proxy.set(Fault::None);
    tells(&space, hub, &[&first]).await;

    consume(&space, hub, "member1").await;
    says(&space, "ServiceApplied", "True|", SOON).await;
    consume(&space, hub, "second").await;
    let second = says(
        &space,
        "ServiceApplied",
        "False|ServiceAppliedFailed|",
        SOON,
    )
    .await;
    assert!(second.contains("second is not joined"), "{second}");
    tells(&space, hub, &[&first, &second]).await;
}

async fn consume(space: &Space<'_>, hub: &Cluster, consumer: &str) {
    let patch = format!(r#"{{"spec":{{"consumerClusters":[{{"name":"{consumer}"}}]}}}}"#);
    let args = [
        "patch",
        "mcs",
        "foo",
        "--type=merge",
        "-p",
        &patch,
        "-n",
        space.name(),
    ];
    hub.kubectl(args).await.ok();
}
