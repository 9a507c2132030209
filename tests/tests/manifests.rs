//! The manifests, applied to a real API server: they are accepted, and they mean what they say.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test: what fails here fails it"
)]

use std::path::PathBuf;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use causeway_tests::causeway::NAMESPACE;
use causeway_tests::kubectl::Output;
use causeway_tests::{Cluster, Fleet, Installation, SOON, binaries, eventually};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::authorization::v1::SubjectAccessReview;
use kube::Api;
use kube::api::{ListParams, PostParams};
use serde_json::json;
use tokio::process::Command;
use tokio::sync::OnceCell;

/// A hub with the definitions and the rights of causeway, and members.
async fn fleet() -> &'static Fleet {
    static FLEET: OnceCell<Fleet> = OnceCell::const_new();
    FLEET
        .get_or_init(|| async {
            let fleet = Fleet::builder().members(2).start().await;
            Installation::new(&fleet).await;
            fleet
        })
        .await
}

fn manifest(path: &str) -> String {
    let file = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../manifests")
        .join(path);
    file.display().to_string()
}

fn read(path: &str) -> String {
    std::fs::read_to_string(manifest(path)).expect("a manifest")
}

/// A webhook configuration for a webhook that is not there.
fn unanswered(path: &str, hub: &Cluster) -> String {
    read(path)
        .replace("WEBHOOK_URL", "https://127.0.0.1:1")
        .replace("CA_BUNDLE", &STANDARD.encode(hub.ca_pem()))
}

/// Whether an account may do that to `group:resource`, `group:resource/subresource` or `group:resource=name`,
/// in a namespace or, where that is empty, everywhere.
async fn may(cluster: &Cluster, account: &str, verb: &str, what: &str, namespace: &str) -> bool {
    let (what, name) = what.split_once('=').unwrap_or((what, ""));
    let (what, subresource) = what.split_once('/').unwrap_or((what, ""));
    let (group, resource) = what.split_once(':').expect("group:resource");
    let review: SubjectAccessReview = serde_json::from_value(json!({
        "metadata": {},
        "spec": {
            "user": format!("system:serviceaccount:{NAMESPACE}:{account}"),
            "groups": ["system:serviceaccounts", "system:authenticated"],
            "resourceAttributes": {
                "verb": verb, "group": group, "resource": resource, "subresource": subresource,
                "name": name, "namespace": namespace,
            },
        },
    }))
    .expect("a review");
    let reviews = Api::<SubjectAccessReview>::all(cluster.client());
    let answer = reviews.create(&PostParams::default(), &review).await;
    answer
        .expect("an answer")
        .status
        .expect("a verdict")
        .allowed
}

#[tokio::test]
async fn every_file_for_the_hub_is_accepted_as_it_is_but_for_its_placeholders() {
    let hub = fleet().await.hub();
    hub.kubectl(["create", "namespace", "karmada-cluster"])
        .await
        .ok();
    for path in [
        "hub/rbac.yaml",
        "hub/deployments.yaml",
        "hub/tokens.yaml",
        "hub/karmada.yaml",
    ] {
        let file = manifest(path);
        let output = hub
            .kubectl([
                "apply",
                "--dry-run=server",
                "--validate=strict",
                "-f",
                &file,
            ])
            .await;
        let warnings = output.stderr.clone();
        output.ok();
        assert_eq!(warnings, "", "{path}");
    }
    for path in ["hub/webhook-by-url.yaml", "hub/webhook-by-service.yaml"] {
        let apply = ["apply", "--dry-run=server", "--validate=strict", "-f", "-"];
        hub.kubectl_with(apply, unanswered(path, hub)).await.ok();
        let unfilled = hub.kubectl_with(apply, read(path)).await.refused();
        assert!(unfilled.contains("illegal base64"), "{path}: {unfilled}");
    }
}

#[tokio::test]
async fn every_file_for_a_member_is_accepted() {
    let member = fleet().await.member("member1");
    for path in [
        "crds/member",
        "member/rbac.yaml",
        "member/namespace-creation.yaml",
    ] {
        let output = member
            .kubectl(["apply", "--validate=strict", "-f", &manifest(path)])
            .await;
        let warnings = output.stderr.clone();
        output.ok();
        assert_eq!(warnings, "", "{path}");
    }
    for version in ["v1alpha1", "v1beta1"] {
        let export = format!(
            "apiVersion: multicluster.x-k8s.io/{version}\nkind: ServiceExport\nmetadata: {{name: foo, namespace: default}}\n"
        );
        eventually("the definition is served", SOON, || async {
            let output = member.apply(&export).await;
            output.exit.success().then_some(()).ok_or(output.stderr)
        })
        .await;
    }
}

#[tokio::test]
async fn the_pods_of_the_deployments_pass_the_restricted_pod_security_of_their_namespace() {
    let hub = fleet().await.hub();
    let file = manifest("hub/deployments.yaml");
    hub.kubectl(["apply", "-f", &file]).await.ok();
    let deployments = Api::<Deployment>::namespaced(hub.client(), NAMESPACE);
    let deployments = deployments.list(&ListParams::default()).await.unwrap();
    assert_eq!(deployments.items.len(), 2);
    let create = ["create", "--dry-run=server", "-f", "-"];
    for deployment in deployments {
        let spec = deployment.spec.unwrap();
        assert_eq!(spec.replicas, Some(2));
        let mut pod = json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": { "generateName": "probe-", "namespace": NAMESPACE },
            "spec": spec.template.spec,
        });
        hub.kubectl_with(create, pod.to_string()).await.ok();
        pod["spec"]["containers"][0]["securityContext"]["allowPrivilegeEscalation"] = json!(true);
        let refused = hub.kubectl_with(create, pod.to_string()).await.refused();
        assert!(refused.contains("violates PodSecurity"), "{refused}");
    }
}

#[tokio::test]
async fn the_deployments_use_flags_that_the_programs_have() {
    let documents: Vec<serde_json::Value> =
        serde_saphyr::from_multiple(&read("hub/deployments.yaml")).expect("YAML");
    let deployments = documents.iter().filter(|one| one["kind"] == "Deployment");
    let mut checked = 0;
    for deployment in deployments {
        let name = deployment["metadata"]["name"].as_str().unwrap();
        let help = Command::new(binaries::causeway(name))
            .arg("--help")
            .output()
            .await;
        let help = String::from_utf8(help.expect("the help").stdout).unwrap();
        for arg in deployment["spec"]["template"]["spec"]["containers"][0]["args"]
            .as_array()
            .unwrap()
        {
            let flag = arg.as_str().unwrap().split('=').next().unwrap();
            assert!(help.contains(flag), "{name} has no {flag}:\n{help}");
            checked += 1;
        }
    }
    assert!(checked > 4);
}

#[tokio::test]
async fn the_webhook_may_read_services_and_clusters_and_list_multi_cluster_services_and_nothing_else()
 {
    let hub = fleet().await.hub();
    for (verb, what, expected) in [
        ("get", ":services", true),
        ("watch", ":services", true),
        ("list", "cluster.karmada.io:clusters", true),
        ("watch", "cluster.karmada.io:clusters", true),
        ("list", "networking.karmada.io:multiclusterservices", true),
        ("get", ":secrets", false),
        ("list", ":secrets", false),
        ("create", ":services", false),
        ("update", ":services", false),
        ("get", "networking.karmada.io:multiclusterservices", false),
        ("patch", "networking.karmada.io:multiclusterservices", false),
        ("update", "cluster.karmada.io:clusters", false),
        ("list", "discovery.k8s.io:endpointslices", false),
        ("list", ":pods", false),
        ("update", "coordination.k8s.io:leases", false),
        ("create", "events.k8s.io:events", false),
        (
            "patch",
            "admissionregistration.k8s.io:validatingwebhookconfigurations",
            false,
        ),
    ] {
        let answer = may(hub, "causeway-webhook", verb, what, "").await;
        assert_eq!(answer, expected, "{verb} {what}");
    }
}

#[tokio::test]
async fn the_controller_reads_secrets_and_holds_its_lease_in_its_own_namespace_only() {
    let hub = fleet().await.hub();
    for (verb, what, namespace, expected) in [
        (
            "patch",
            "networking.karmada.io:multiclusterservices",
            "",
            true,
        ),
        (
            "patch",
            "networking.karmada.io:multiclusterservices/status",
            "",
            true,
        ),
        (
            "delete",
            "networking.karmada.io:multiclusterservices",
            "shop",
            false,
        ),
        (
            "create",
            "networking.karmada.io:multiclusterservices",
            "shop",
            false,
        ),
        ("watch", ":services", "", true),
        ("patch", ":services", "shop", false),
        ("create", ":services", "shop", false),
        ("create", "events.k8s.io:events", "shop", true),
        ("list", "work.karmada.io:works", "", true),
        ("delete", "work.karmada.io:works", "shop", false),
        ("watch", "cluster.karmada.io:clusters", "", true),
        ("patch", "cluster.karmada.io:clusters/status", "", true),
        ("delete", "cluster.karmada.io:clusters", "", false),
        ("get", ":namespaces=kube-system", "", true),
        ("create", ":namespaces", "", false),
        (
            "get",
            "apiextensions.k8s.io:customresourcedefinitions=clusters.cluster.karmada.io",
            "",
            true,
        ),
        (
            "get",
            "apiextensions.k8s.io:customresourcedefinitions=others.example.com",
            "",
            false,
        ),
        ("list", ":secrets", NAMESPACE, true),
        ("update", ":secrets", NAMESPACE, false),
        ("list", ":secrets", "", false),
        ("get", ":secrets", "kube-system", false),
        ("create", "coordination.k8s.io:leases", NAMESPACE, true),
        ("create", "coordination.k8s.io:leases", "shop", false),
        (
            "update",
            "coordination.k8s.io:leases=causeway-controller",
            NAMESPACE,
            true,
        ),
        (
            "update",
            "coordination.k8s.io:leases=another",
            NAMESPACE,
            false,
        ),
    ] {
        let answer = may(hub, "causeway-controller", verb, what, namespace).await;
        assert_eq!(answer, expected, "{verb} {what} in {namespace:?}");
    }
}

#[tokio::test]
async fn the_account_in_a_member_makes_namespaces_only_where_that_was_allowed_and_reads_no_secrets()
{
    let member = fleet().await.member("member2");
    member
        .kubectl(["apply", "-f", &manifest("member/rbac.yaml")])
        .await
        .ok();
    for (verb, what, expected) in [
        ("create", ":services", true),
        ("delete", ":services", true),
        ("create", "discovery.k8s.io:endpointslices", true),
        ("watch", ":namespaces", true),
        (
            "update",
            "multicluster.x-k8s.io:serviceexports/status",
            true,
        ),
        ("create", ":namespaces", false),
        ("delete", ":namespaces", false),
        ("get", ":secrets", false),
        ("list", ":pods", false),
        ("create", ":endpoints", false),
        ("update", ":services/status", false),
    ] {
        let answer = may(member, "causeway", verb, what, "").await;
        assert_eq!(answer, expected, "{verb} {what}");
    }
    let creation = manifest("member/namespace-creation.yaml");
    member.kubectl(["apply", "-f", &creation]).await.ok();
    assert!(may(member, "causeway", "create", ":namespaces", "").await);
    assert!(!may(member, "causeway", "delete", ":namespaces", "").await);
}

/// A hub that sends MultiClusterServices to a webhook that is down: what passes has not been sent.
#[tokio::test]
async fn only_creations_and_changes_of_spec_or_labels_wait_for_the_webhook() {
    let fleet = Fleet::builder().start().await;
    let hub = fleet.hub();
    Installation::new(&fleet).await;
    stored_before_the_webhook(hub).await;
    hub.apply(&unanswered("hub/webhook-by-url.yaml", hub))
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

async fn stored_before_the_webhook(hub: &Cluster) {
    hub.apply(&mcs("bare", "", "")).await.ok();
    hub.apply(&mcs("labelled", ", labels: {a: b}", ""))
        .await
        .ok();
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
