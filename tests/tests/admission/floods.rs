//! Objects of many entries, from somebody who may edit one namespace.

use std::time::Duration;

use causeway_tests::kubectl::Output;
use causeway_tests::{SOON, eventually};
use futures::future::join_all;
use serde_json::json;
use tokio::time::timeout;

use crate::hub::{Hub, Shop, holds, mcs};

/// Entries of a list, of three bytes each: as many as an API server takes.
const ENTRIES: usize = 300_000;

/// Objects at one time: more than the cores of CI. An API server gives itself 34 s for each.
const AT_ONCE: usize = 3;

/// A kubelet's time limit for a probe.
const PROBE: Duration = Duration::from_secs(1);

async fn flood(shop: &Shop<'_>) -> Vec<Output> {
    let entries = vec![json!({}); ENTRIES];
    let manifest = mcs("flood", json!({"consumerClusters": entries}));
    let args = [
        "create",
        "--dry-run=server",
        "--validate=false",
        "--as=editor",
    ];
    join_all((0..AT_ONCE).map(|_| shop.send_all(&args, &manifest))).await
}

#[tokio::test]
async fn flood_of_entries_from_an_editor_stops_nobody() {
    let hub = Hub::start(async |_| {}).await;
    let shop = hub.shop().await;
    let role = ["create", "role", "editor", "--verb=create"];
    let role = role.into_iter().chain([
        "--resource=multiclusterservices.networking.karmada.io",
        "-n",
        shop.space.name(),
    ]);
    hub.cluster().kubectl(role).await.ok();
    shop.kubectl([
        "create",
        "rolebinding",
        "editor",
        "--role=editor",
        "--user=editor",
    ])
    .await
    .ok();
    eventually("the editor's rights", SOON, async || {
        let asked = ["auth", "can-i", "create", "mcs", "--as=editor"];
        shop.kubectl(asked).await.stdout.trim() == "yes"
    })
    .await;

    let others = async {
        for round in 0..10 {
            let applied = shop
                .apply(&mcs("foo", json!({"ports": [{"port": 80}]})))
                .await;
            applied.ok();
            let probed = timeout(PROBE, hub.webhook.get("/livez")).await;
            let (code, _) = probed.expect("in time").expect("an answer");
            assert_eq!(code, 200, "in round {round}");
        }
    };
    let (flooded, ()) = tokio::join!(flood(&shop), others);
    for output in flooded {
        let refused = output.refused();
        holds(
            &refused,
            &["spec.consumerClusters: Too many: must have at most 1024 items"],
        );
    }
}
