//! A hub that a webhook cannot reach, or may not watch, while the API server goes on asking it.

use std::time::Duration;

use causeway::api::MultiClusterService;
use causeway_tests::eventually::throughout;
use causeway_tests::relay::Relay;
use causeway_tests::{
    Fault, Fleet, Installation, Running, Space, eventually, multi_cluster_service, service,
};
use kube::Api;
use kube::api::{DeleteParams, PostParams};
use serde_json::json;

use crate::{ASKED_AGAIN, apply, documents, mcs};

/// Longer than a webhook ever rests before it asks the hub again.
const LONG: Duration = Duration::from_secs(12);

/// Starts a webhook that reaches the hub through a relay.
async fn start(fleet: &Fleet) -> (Relay, Running) {
    let (hub, installation) = (fleet.hub(), Installation::new(fleet).await);
    let target = hub.url().trim_start_matches("https://").parse();
    let relay = Relay::start(target.expect("an address"), Duration::ZERO).await;
    let url = format!("https://{}", relay.address());
    let webhook = installation.webhook_through(hub, &url).start().await;
    installation.register(&webhook).await;
    (relay, webhook)
}

/// Creates a MultiClusterService and deletes it, which no webhook is asked about.
async fn tried(api: &Api<MultiClusterService>, name: &str) -> kube::Result<()> {
    let object = multi_cluster_service(name).port("http", 80).object();
    api.create(&PostParams::default(), &object).await?;
    api.delete(name, &DeleteParams::default()).await?;
    Ok(())
}

#[tokio::test]
async fn unreachable_hub_is_answered_from_the_cache() {
    let fleet = Fleet::builder().start().await;
    let hub = fleet.hub();
    let space = fleet.space("away").await;
    service("known").port("http", 80).create(hub, &space).await;
    let (relay, webhook) = start(&fleet).await;
    let api = Api::namespaced(hub.unrepeating_client(), space.name());
    tried(&api, "known").await.expect("it is right");

    relay.set(Fault::Refused);
    service("new").port("http", 80).create(hub, &space).await;
    throughout("what is known is decided", LONG, async || {
        let (status, text) = webhook.get("/readyz").await.map_err(|e| e.to_string())?;
        if status != 200 {
            return Err(text);
        }
        tried(&api, "known")
            .await
            .map_err(|error| error.to_string())
    })
    .await;
    let refused = tried(&api, "new")
        .await
        .expect_err("nothing is known of it");
    let refused = refused.to_string();
    for part in [
        "failed calling webhook",
        "request to the hub for the Service failed",
    ] {
        assert!(refused.contains(part), "{part:?} is not in: {refused}");
    }

    relay.heal();
    // Known without asking: the watch is there again.
    eventually("the new Service is in the cache", ASKED_AGAIN, async || {
        relay.set(Fault::Refused);
        let outcome = tried(&api, "new").await;
        relay.heal();
        tokio::time::sleep(Duration::from_millis(500)).await;
        outcome.map_err(|error| error.to_string())
    })
    .await;
    assert!(webhook.process().is_running());
}

/// The rights of the webhook without those to list and to watch Services.
async fn forbid_watching(fleet: &Fleet) {
    let mut documents = documents("hub/rbac.yaml");
    documents.retain(|document| {
        document["kind"] == "ClusterRole" && document["metadata"]["name"] == "causeway-webhook"
    });
    let rules = documents[0]["rules"].as_array_mut().expect("rules");
    for rule in rules {
        if rule["resources"] == json!(["services"]) {
            rule["verbs"] = json!(["get"]);
        }
    }
    apply(fleet.hub(), &documents).await;
}

#[tokio::test]
async fn a_webhook_whose_watch_is_broken_looks_live_before_it_refuses() {
    let fleet = Fleet::builder().start().await;
    let hub = fleet.hub();
    let space = fleet.space("broken").await;
    service("foo").port("http", 80).create(hub, &space).await;
    let (relay, webhook) = start(&fleet).await;

    forbid_watching(&fleet).await;
    let before = relay.accepted();
    relay.set(Fault::Refused);
    // The watch is broken as well.
    eventually("a connection is refused", ASKED_AGAIN, async || {
        relay.accepted() > before
    })
    .await;
    relay.heal();
    eventually("the watch is refused", ASKED_AGAIN, async || {
        let log = std::fs::read_to_string(webhook.process().log()).expect("the log");
        log.contains("services is forbidden")
    })
    .await;
    service("late").port("grpc", 90).create(hub, &space).await;
    let changed = r#"{"spec":{"ports":[{"name":"http","port":81}]}}"#;
    let patch = [
        "patch",
        "service",
        "foo",
        "--type=merge",
        "-n",
        space.name(),
        "-p",
        changed,
    ];
    hub.kubectl(patch).await.ok();
    checked(&space, "late", "grpc", 90, None).await;
    checked(&space, "foo", "http", 81, None).await;
    checked(&space, "foo", "htp", 81, Some("has no port named \"htp\"")).await;
    checked(&space, "never", "http", 80, Some("there is no Service")).await;
    let (status, _) = webhook.get("/readyz").await.expect("an answer");
    assert_eq!(status, 200, "it serves sensibly");
}

async fn checked(space: &Space<'_>, name: &str, port: &str, number: u16, refusal: Option<&str>) {
    let ports = json!({"ports": [{"name": port, "port": number}]});
    let apply = ["apply", "-f", "-", "-n", space.name()];
    let hub = space.fleet().hub();
    let applied = hub.kubectl_with(apply, mcs(name, &ports)).await;
    match refusal {
        None => drop(applied.ok()),
        Some(part) => {
            let said = applied.refused();
            assert!(said.contains(part), "{part:?} is not in: {said}");
        }
    }
}
