//! The manifests, applied to a real API server: they are accepted, and they mean what they say.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test: what fails here fails it"
)]

mod health;
mod matching;
mod rights;

use std::collections::BTreeSet;
use std::path::PathBuf;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use causeway_tests::causeway::NAMESPACE;
use causeway_tests::{Cluster, Fleet, Installation, SOON, binaries, eventually};
use k8s_openapi::api::apps::v1::Deployment;
use kube::Api;
use kube::api::ListParams;
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

#[tokio::test]
async fn every_file_for_the_hub_is_accepted_as_it_is_but_for_its_placeholders() {
    let hub = fleet().await.hub();
    for namespace in ["karmada-cluster", "cluster-inventory", "causeway-enrolment"] {
        let object = format!("apiVersion: v1\nkind: Namespace\nmetadata: {{name: {namespace}}}\n");
        hub.apply(&object).await.ok();
    }
    for path in [
        "hub/rbac.yaml",
        "hub/webhook-by-service.yaml",
        "hub/workloads.yaml",
        "hub/options/tokens.yaml",
        "hub/options/karmada.yaml",
        "hub/options/cluster-profiles.yaml",
        "hub/options/tunnel.yaml",
        "hub/options/tunnel-clients.yaml",
        "hub/options/tunnel-through-api-server.yaml",
        "hub/options/tunnel-enrolment.yaml",
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
    let path = "hub/options/webhook-by-url.yaml";
    let apply = ["apply", "--dry-run=server", "--validate=strict", "-f", "-"];
    hub.kubectl_with(apply, unanswered(path, hub)).await.ok();
    let unfilled = hub.kubectl_with(apply, read(path)).await.refused();
    assert!(unfilled.contains("illegal base64"), "{path}: {unfilled}");
}

#[tokio::test]
async fn every_file_for_a_member_is_accepted() {
    let member = fleet().await.member("member1");
    for path in [
        "crds/member",
        "member/rbac.yaml",
        "member/policy.yaml",
        "member/namespace-creation.yaml",
        "member/networks.yaml",
        "member/agent.yaml",
        "member/credentials.yaml",
        "member/paths.yaml",
        "member/paths-provider-ttl.yaml",
        "member/enrolment.yaml",
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
    let file = manifest("hub/workloads.yaml");
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
        serde_saphyr::from_multiple(&read("hub/workloads.yaml")).expect("YAML");
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

#[test]
fn programs_listen_on_both_address_families() {
    let mut addresses = 0;
    for directory in ["chart/templates", "hub", "hub/options", "member"] {
        for entry in std::fs::read_dir(manifest(directory)).expect("a directory") {
            let path = entry.expect("an entry").path();
            if path.extension().is_none_or(|kind| kind != "yaml") {
                continue;
            }
            let text = std::fs::read_to_string(&path).expect("a manifest");
            for (_, address) in text.lines().filter_map(|line| line.split_once("bind=")) {
                let is_any = address.starts_with("[::]:");
                assert!(is_any, "{}: {address}", path.display());
                addresses += 1;
            }
        }
    }
    assert!(addresses > 20, "{addresses}");
}

#[test]
fn pods_run_on_nodes_with_linux() {
    let mut deployments = 0;
    for path in [
        "hub/workloads.yaml",
        "hub/options/tunnel.yaml",
        "hub/options/tunnel-clients.yaml",
        "hub/options/tunnel-through-api-server.yaml",
        "hub/options/tunnel-enrolment.yaml",
        "member/agent.yaml",
        "member/paths.yaml",
    ] {
        let documents: Vec<serde_json::Value> =
            serde_saphyr::from_multiple(&read(path)).expect("YAML");
        for deployment in documents.iter().filter(|one| one["kind"] == "Deployment") {
            let selector = &deployment["spec"]["template"]["spec"]["nodeSelector"];
            assert_eq!(selector, &json!({"kubernetes.io/os": "linux"}), "{path}");
            deployments += 1;
        }
    }
    assert_eq!(deployments, 8);
}

#[tokio::test]
async fn the_patch_for_cert_manager_makes_the_webhook_serve_what_it_mounts() {
    let hub = fleet().await.hub();
    let apply = ["apply", "-f", &manifest("hub/workloads.yaml")];
    hub.kubectl(apply).await.ok();
    let patch = manifest("hub/options/cert-manager.patch.yaml");
    let patched = hub
        .kubectl([
            "patch",
            "deployment",
            "causeway-webhook",
            "-n",
            NAMESPACE,
            "--dry-run=server",
            "-o",
            "json",
            "--patch-file",
            &patch,
        ])
        .await
        .ok();
    let patched: Deployment = serde_json::from_str(&patched).expect("a Deployment");
    let pod = patched.spec.unwrap().template.spec.unwrap();
    let container = &pod.containers[0];
    let args = container.args.clone().unwrap();
    let webhook = Api::<Deployment>::namespaced(hub.client(), NAMESPACE);
    let webhook = webhook.get("causeway-webhook").await.unwrap();
    let pod_before = webhook.spec.unwrap().template.spec.unwrap();
    let before = pod_before.containers[0].args.clone().unwrap();
    let is_source = |arg: &String| arg.starts_with("--self-managed-certs=");
    let others = before.into_iter().filter(|arg| !is_source(arg));
    let tls_dir = "--tls-dir=/etc/causeway/tls".to_owned();
    let expected: BTreeSet<_> = others.chain([tls_dir]).collect();
    assert_eq!(args.into_iter().collect::<BTreeSet<_>>(), expected);
    let mounts = container.volume_mounts.clone().unwrap();
    assert_eq!(mounts[0].mount_path, "/etc/causeway/tls");
    let certificate: Vec<serde_json::Value> =
        serde_saphyr::from_multiple(&read("hub/options/cert-manager.yaml")).expect("YAML");
    let secret = pod.volumes.unwrap()[0].secret.clone().unwrap();
    let kept = certificate
        .iter()
        .find(|one| one["metadata"]["name"] == "causeway-webhook")
        .expect("a Certificate");
    assert_eq!(kept["spec"]["secretName"], secret.secret_name.unwrap());
}
