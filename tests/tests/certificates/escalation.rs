//! Attempts to turn the webhook's account into another one, with the rights and policies of the
//! manifests.

use causeway_tests::causeway::NAMESPACE;
use causeway_tests::{Cluster, SOON, eventually};
use serde_json::{Value, json};

use crate::hub::{CA_SECRET, SECRET, stage};

const AS_WEBHOOK: [&str; 3] = [
    "--as=system:serviceaccount:causeway-system:causeway-webhook",
    "--as-group=system:serviceaccounts",
    "--as-group=system:authenticated",
];
const KINDS: [&str; 2] = [
    "mutatingwebhookconfiguration",
    "validatingwebhookconfiguration",
];

/// Applies a JSON patch to a registration of causeway as the webhook's account; returns the
/// refusal.
async fn patched(hub: &Cluster, kind: &str, patch: &Value) -> Result<(), String> {
    let patch = patch.to_string();
    let args = ["patch", kind, "causeway", "--type=json", "-p", &patch];
    let output = hub.kubectl(args.into_iter().chain(AS_WEBHOOK)).await;
    output.exit.success().then_some(()).ok_or(output.stderr)
}

/// Creates a Secret as the webhook's account; returns the refusal.
async fn created(hub: &Cluster, name: &str, kind: &str) -> Result<(), String> {
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "type": kind,
        "metadata": {
            "name": name, "namespace": NAMESPACE,
            "annotations": {"kubernetes.io/service-account.name": "causeway-controller"},
        },
    });
    let create = ["create", "-f", "-"].into_iter().chain(AS_WEBHOOK);
    let output = hub.kubectl_with(create, secret.to_string()).await;
    output.exit.success().then_some(()).ok_or(output.stderr)
}

#[tokio::test]
async fn webhook_account_may_change_only_ca_bundles() {
    let (stage, _turn) = stage().await;
    let hub = stage.hub();
    let webhook = stage.launch().start_unready();
    stage.register(&webhook).await;
    let add = |path: &str, value: Value| json!([{"op": "add", "path": path, "value": value}]);
    let rule = json!({
        "apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*/*"],
    });
    let owner = json!([{"apiVersion": "v1", "kind": "Namespace", "name": "gone", "uid": "gone"}]);
    let another = json!({
        "name": "another.causeway.dev", "admissionReviewVersions": ["v1"], "sideEffects": "None",
        "clientConfig": {"url": "https://elsewhere.example"},
        "rules": [rule],
    });
    let attempts = [
        ("rules", add("/webhooks/0/rules", json!([rule]))),
        (
            "url",
            add(
                "/webhooks/0/clientConfig/url",
                json!("https://elsewhere.example"),
            ),
        ),
        (
            "failure policy",
            add("/webhooks/0/failurePolicy", json!("Ignore")),
        ),
        ("conditions", add("/webhooks/0/matchConditions", json!([]))),
        (
            "selector",
            add(
                "/webhooks/0/objectSelector",
                json!({"matchLabels": {"a": "b"}}),
            ),
        ),
        ("another webhook", add("/webhooks/-", another)),
        ("no webhook", add("/webhooks", json!([]))),
        ("owner", add("/metadata/ownerReferences", owner)),
        (
            "finalizer",
            add("/metadata/finalizers", json!(["causeway.dev/stays"])),
        ),
        (
            "annotation",
            add(
                "/metadata/annotations",
                json!({"cert-manager.io/inject-ca-from": "a/b"}),
            ),
        ),
    ];
    let policy = "causeway-webhook may change only the caBundle";
    for kind in KINDS {
        for (what, patch) in &attempts {
            // A policy takes effect a moment after it is created; until then nothing else is
            // refused.
            let outcome = patched(hub, kind, patch).await;
            let refusal = outcome.expect_err(what);
            assert!(refusal.contains(policy), "{what} of {kind}: {refusal}");
        }
        let bundle = add("/webhooks/0/clientConfig/caBundle", json!(""));
        patched(hub, kind, &bundle).await.expect("a caBundle");
    }
}

#[tokio::test]
async fn webhook_account_gets_no_token_of_another_account() {
    let (stage, _turn) = stage().await;
    let hub = stage.hub();
    stage.delete_secrets().await;
    let token = "kubernetes.io/service-account-token";
    for (name, kind) in [(SECRET, token), (CA_SECRET, "Opaque"), ("another", token)] {
        let refusal = created(hub, name, kind).await.expect_err(name);
        assert!(
            refusal.contains("cannot create resource \"secrets\""),
            "{refusal}"
        );
    }
    // The policy holds where somebody granted the right.
    let role = [
        "create",
        "clusterrole",
        "creates-secrets",
        "--verb=create",
        "--resource=secrets",
    ];
    hub.kubectl(role).await.ok();
    let account = format!("--serviceaccount={NAMESPACE}:causeway-webhook");
    let bind = [
        "create",
        "clusterrolebinding",
        "creates-secrets",
        "--clusterrole=creates-secrets",
    ];
    hub.kubectl(bind.into_iter().chain([account.as_str()]))
        .await
        .ok();
    let policy = "may write only the Secrets of its certificates";
    for (name, kind) in [
        (SECRET, token),
        (CA_SECRET, token),
        ("another", token),
        ("another", "Opaque"),
    ] {
        eventually("the policy refuses it", SOON, || async {
            let refusal = created(hub, name, kind).await.expect_err(name);
            refusal.contains(policy).then_some(()).ok_or(refusal)
        })
        .await;
    }
    for name in [SECRET, CA_SECRET] {
        created(hub, name, "Opaque").await.expect(name);
    }
    for kind in ["clusterrolebinding", "clusterrole"] {
        hub.kubectl(["delete", kind, "creates-secrets"]).await.ok();
    }
}
