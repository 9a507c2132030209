//! Conditions that a webhook waits for, and its reports about them.

use causeway_tests::causeway::NAMESPACE;
use causeway_tests::causeway::replicas::register_by_service;
use causeway_tests::{Fleet, Installation, SOON, eventually, service};
use serde_json::{Value, json};
use std::net::Ipv4Addr;
use std::path::Path;

use crate::{ASKED_AGAIN, apply, awaits, documents, mcs};

const CACHES: &str = "awaiting the Services of the hub, the Clusters of the hub";

fn is_account(document: &Value) -> bool {
    ["Namespace", "ServiceAccount"].contains(&document["kind"].as_str().unwrap_or_default())
}

#[tokio::test]
async fn webhook_waits_for_hub_rights_and_definitions() {
    let fleet = Fleet::builder().start().await;
    let hub = fleet.hub();
    let (accounts, rights): (Vec<_>, Vec<_>) =
        documents("hub/rbac.yaml").into_iter().partition(is_account);
    apply(hub, &accounts).await;
    let installation = Installation::applied(&fleet).await;

    hub.stop().await;
    let webhook = installation.webhook().start_unready();
    awaits(
        &webhook,
        CACHES,
        &[
            "the Services of the hub: ",
            "the Clusters of the hub: ",
            "onnect",
        ],
    )
    .await;
    hub.start().await;
    let forbidden = [
        "cannot list resource \"services\"",
        "cannot list resource \"clusters\"",
    ];
    awaits(&webhook, CACHES, &forbidden).await;
    apply(hub, &rights).await;
    // There are no definitions yet; that is an answer.
    eventually("it is ready", ASKED_AGAIN, async || {
        webhook
            .get("/readyz")
            .await
            .is_ok_and(|(status, _)| status == 200)
    })
    .await;

    let definitions = causeway_tests::repository().join("manifests/crds/hub");
    hub.kubectl(["apply", "-f", &definitions.display().to_string()])
        .await
        .ok();
    installation.register(&webhook).await;
    let space = fleet.space("late").await;
    service("foo").port("http", 80).create(hub, &space).await;
    let in_space = ["apply", "-f", "-", "-n", space.name()];
    let mut turn = 0;
    eventually(
        "the late definition of Clusters is noticed",
        ASKED_AGAIN,
        || {
            turn += 1;
            let named = json!({"providerClusters": [{"name": format!("nowhere-{turn}")}]});
            let (hub, manifest) = (hub, mcs("foo", &named));
            async move {
                let applied = hub.kubectl_with(in_space, manifest).await;
                let warned = applied.stderr.contains("no Cluster is named");
                warned.then_some(()).ok_or(applied.stderr)
            }
        },
    )
    .await;
    let stored = ["get", "mcs", "foo", "-o", "name", "-n", space.name()];
    hub.kubectl(stored).await.ok();

    webhook.process().terminate();
    awaits(&webhook, "shutting down", &[]).await;
    assert!(webhook.process().exited(SOON).await.success());
    let log = std::fs::read_to_string(webhook.process().log()).expect("the log");
    assert_eq!(
        log.matches("webhook listening").count(),
        1,
        "it was restarted"
    );
}

#[tokio::test]
async fn self_managed_webhook_waits_for_hub_and_rights() {
    let fleet = Fleet::builder().start().await;
    let hub = fleet.hub();
    let (accounts, rights): (Vec<_>, Vec<_>) =
        documents("hub/rbac.yaml").into_iter().partition(is_account);
    apply(hub, &accounts).await;
    // The registration is there first of all. It stops nothing that causeway needs.
    register_by_service(hub, None).await;
    let installation = Installation::applied(&fleet).await;

    hub.stop().await;
    let secret = format!("{NAMESPACE}/causeway-webhook-tls");
    let authority = format!("{NAMESPACE}/causeway-webhook-ca");
    let webhook = installation
        .webhook_without_certificate(Ipv4Addr::LOCALHOST.into(), Path::new(""))
        .arg(format!("--self-managed-certs={secret}"))
        .start_unready();
    let all = format!(
        "{CACHES}, Secret {secret}, Secret {authority}, the MutatingWebhookConfigurations of the hub, the ValidatingWebhookConfigurations of the hub, \
         the serving certificate"
    );
    awaits(&webhook, &all, &[]).await;
    hub.start().await;
    awaits(
        &webhook,
        &all,
        &["cannot list resource \"services\"", "forbidden"],
    )
    .await;
    apply(hub, &rights).await;
    eventually("it is ready", ASKED_AGAIN, async || {
        webhook
            .get("/readyz")
            .await
            .is_ok_and(|(status, _)| status == 200)
    })
    .await;
    let bundles = "jsonpath={.items[*].webhooks[*].clientConfig.caBundle}";
    eventually("its authority is published", SOON, async || {
        let kinds = "mutatingwebhookconfigurations,validatingwebhookconfigurations";
        let seen = hub.kubectl(["get", kinds, "-o", bundles]).await.ok();
        let bundles: Vec<_> = seen
            .split(' ')
            .filter(|bundle| !bundle.is_empty())
            .collect();
        (bundles.len() == 2 && bundles[0] == bundles[1])
            .then_some(())
            .ok_or_else(|| seen.clone())
    })
    .await;
}
