use causeway::api::labels;
use causeway_tests::kubectl::Output;
use causeway_tests::{Cluster, Fleet, Installation, SOON, eventually};

use crate::{read, unanswered};

/// A hub that sends MultiClusterServices to a webhook that is down: what passes has not been sent.
#[tokio::test]
async fn changes_of_validated_parts_alone_wait_for_the_webhook() {
    let fleet = Fleet::builder().start().await;
    let hub = fleet.hub();
    Installation::new(&fleet).await;
    stored_before_the_webhook(hub).await;
    hub.apply(&unanswered("hub/options/webhook-by-url.yaml", hub))
        .await
        .ok();
    eventually("the webhook is asked", SOON, || async {
        let probe = mcs("probe", "", "");
        let output = hub
            .kubectl_with(["create", "--dry-run=server", "-f", "-"], probe)
            .await;
        output
            .stderr
            .contains("failed calling webhook")
            .then_some(())
            .ok_or(output.stderr)
    })
    .await;

    for name in ["bare", "labelled"] {
        let patch = async |kind: &str, body: &str| patch(hub, name, kind, body).await;
        assert!(is_sent(
            patch("merge", r#"{"spec":{"types":["LoadBalancer"]}}"#).await
        ));
        assert!(is_sent(
            patch("merge", r#"{"spec":{"ports":[{"port":80}]}}"#).await
        ));
        assert!(is_sent(
            patch("merge", r#"{"metadata":{"labels":{"a":"other"}}}"#).await
        ));
        patch("merge", r#"{"metadata":{"annotations":{"a":"b"}}}"#)
            .await
            .ok();
        patch("merge", r#"{"metadata":{"finalizers":["example.com/x"]}}"#)
            .await
            .ok();
        patch("merge", r#"{"metadata":{"finalizers":null}}"#)
            .await
            .ok();
        patch("merge", r#"{"spec":{"types":["CrossCluster"]}}"#)
            .await
            .ok();
        // What Karmada's webhook adds to every change is none.
        patch("merge", r#"{"spec":{"range":{}}}"#).await.ok();
        patch("merge", r#"{"spec":{"range":null}}"#).await.ok();
        assert!(is_sent(
            patch("merge", r#"{"spec":{"range":{"clusterNames":["a"]}}}"#).await
        ));
        assert!(is_sent(patch("merge", r#"{"spec":{"types":null}}"#).await));
    }
    assert!(is_sent(
        patch(
            hub,
            "labelled",
            "json",
            r#"[{"op":"remove","path":"/metadata/labels"}]"#
        )
        .await
    ));
    validated_annotations_are_sent(hub).await;
    the_status_is_written_without_the_webhook(hub).await;
    what_is_being_deleted_is_not_sent(hub).await;
    what_has_no_spec_is_matched_too(hub).await;
}

fn mcs(name: &str, metadata: &str, finalizers: &str) -> String {
    format!(
        "apiVersion: networking.karmada.io/v1alpha1\nkind: MultiClusterService\n\
         metadata: {{name: {name}, namespace: default{metadata}{finalizers}}}\nspec: {{types: [CrossCluster]}}\n"
    )
}

/// Adds, changes and removes each annotation, with and without others.
async fn validated_annotations_are_sent(hub: &Cluster) {
    let without = r#"[{"op":"remove","path":"/metadata/annotations"}]"#;
    // Of "plain" nothing is left, "bare" has others, "annotated" has all.
    patch(hub, "plain", "json", without).await.ok();
    for annotation in labels::VALIDATED {
        let set =
            |value: &str| format!(r#"{{"metadata":{{"annotations":{{"{annotation}":{value}}}}}}}"#);
        for (name, value) in [
            ("bare", r#""x""#),
            ("bare", r#""""#),
            ("plain", r#""x""#),
            ("plain", r#""""#),
            ("annotated", r#""x""#),
            ("annotated", r#""""#),
            ("annotated", "null"),
        ] {
            let output = patch(hub, name, "merge", &set(value)).await;
            assert!(is_sent(output), "{annotation}: {value} of {name}");
        }
    }
    assert!(is_sent(patch(hub, "annotated", "json", without).await));
    let other = r#"{"metadata":{"annotations":{"mcs.causeway.dev/probe":"now"}}}"#;
    for name in ["plain", "annotated"] {
        patch(hub, name, "merge", other).await.ok();
    }
}

async fn stored_before_the_webhook(hub: &Cluster) {
    hub.apply(&mcs("bare", "", "")).await.ok();
    hub.apply(&mcs("labelled", ", labels: {a: b}", ""))
        .await
        .ok();
    hub.apply(&mcs("plain", "", "")).await.ok();
    let annotations = labels::VALIDATED.map(|name| format!("{name}: any"));
    let annotations = format!(", annotations: {{{}}}", annotations.join(", "));
    hub.apply(&mcs("annotated", &annotations, "")).await.ok();
    hub.apply(&mcs(
        "going",
        ", labels: {a: b}",
        ", finalizers: [example.com/x]",
    ))
    .await
    .ok();
    // An object of a definition that asked for less.
    let relax = r#"[{"op":"remove","path":"/spec/versions/0/schema/openAPIV3Schema/required"}]"#;
    let definition = "crd/multiclusterservices.networking.karmada.io";
    hub.kubectl(["patch", definition, "--type=json", "-p", relax])
        .await
        .ok();
    let specless = "apiVersion: networking.karmada.io/v1alpha1\nkind: MultiClusterService\n\
                    metadata: {name: specless, namespace: default}\n";
    eventually("the definition asks for less", SOON, || async {
        let output = hub.apply(specless).await;
        output.exit.success().then_some(()).ok_or(output.stderr)
    })
    .await;
}

async fn patch(hub: &Cluster, name: &str, kind: &str, body: &str) -> Output {
    let kind = format!("--type={kind}");
    hub.kubectl(["patch", "mcs", name, kind.as_str(), "-p", body])
        .await
}

/// Whether the API server wanted to ask the webhook; anything else that went wrong is no answer.
fn is_sent(output: Output) -> bool {
    if output.exit.success() {
        return false;
    }
    let text = output.refused();
    assert!(text.contains("failed calling webhook"), "{text}");
    true
}

async fn the_status_is_written_without_the_webhook(hub: &Cluster) {
    let status = r#"{"status":{"loadBalancer":{"ingress":[{"ip":"192.0.2.1"}]}}}"#;
    let args = [
        "patch",
        "mcs",
        "bare",
        "--subresource=status",
        "--type=merge",
        "-p",
        status,
    ];
    hub.kubectl(args).await.ok();
}

async fn what_is_being_deleted_is_not_sent(hub: &Cluster) {
    hub.kubectl(["delete", "mcs", "going", "--wait=false"])
        .await
        .ok();
    patch(
        hub,
        "going",
        "merge",
        r#"{"metadata":{"labels":{"a":"other"}}}"#,
    )
    .await
    .ok();
    // A replacement that omits the deletion timestamp, as an edited manifest does.
    let replacement = mcs("going", ", labels: {c: d}", ", finalizers: [example.com/x]");
    hub.kubectl_with(["replace", "-f", "-"], replacement)
        .await
        .ok();
    patch(hub, "going", "merge", r#"{"metadata":{"finalizers":null}}"#)
        .await
        .ok();
    let gone = hub.kubectl(["get", "mcs", "going"]).await.refused();
    assert!(gone.contains("not found"), "{gone}");
}

async fn what_has_no_spec_is_matched_too(hub: &Cluster) {
    patch(
        hub,
        "specless",
        "merge",
        r#"{"metadata":{"annotations":{"a":"b"}}}"#,
    )
    .await
    .ok();
    assert!(is_sent(
        patch(
            hub,
            "specless",
            "merge",
            r#"{"metadata":{"labels":{"a":"b"}}}"#
        )
        .await
    ));
    assert!(is_sent(
        patch(
            hub,
            "specless",
            "merge",
            r#"{"spec":{"types":["CrossCluster"]}}"#
        )
        .await
    ));
    hub.kubectl(["delete", "mcs", "specless"]).await.ok();
}

#[test]
fn both_ways_to_reach_the_webhook_differ_in_nothing_else() {
    let configurations = |path: &str| {
        let mut all: Vec<serde_json::Value> =
            serde_saphyr::from_multiple(&read(path)).expect("YAML");
        for configuration in &mut all {
            let webhook = &mut configuration["webhooks"][0];
            let target = webhook["clientConfig"].take();
            let kept_by_the_webhook = target["caBundle"].is_null();
            assert_eq!(kept_by_the_webhook, !target["service"].is_null(), "{path}");
        }
        all
    };
    let by_service = configurations("hub/webhook-by-service.yaml");
    assert_eq!(by_service.len(), 2);
    assert_eq!(
        by_service,
        configurations("hub/options/webhook-by-url.yaml")
    );
    for configuration in by_service {
        let webhook = &configuration["webhooks"][0];
        assert_eq!(webhook["failurePolicy"], "Fail");
        assert_eq!(webhook["timeoutSeconds"], 5);
        assert_eq!(webhook["sideEffects"], "None");
        assert_eq!(webhook["matchPolicy"], "Equivalent");
        let again = configuration["kind"] == "MutatingWebhookConfiguration";
        assert_eq!(webhook["reinvocationPolicy"] == "IfNeeded", again);
    }
}
