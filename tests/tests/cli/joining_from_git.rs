//! `kubectl mcs join --dry-run=client`: what it prints is applied by somebody else.

use std::path::Path;

use causeway_tests::binaries::Testbed;
use causeway_tests::causeway::NAMESPACE;
use causeway_tests::kubectl::{Command, Output};
use causeway_tests::{Cluster, Fleet, Installation, SOON, eventually};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::Value;

use crate::{credentials, ends, join, json};

const CLUSTER: &str = "cluster.cluster.karmada.io/member1";

async fn printed(installation: &Installation, member: &Cluster, more: &str) -> Output {
    let more: Vec<_> = more.split_whitespace().collect();
    let more = [&["--dry-run=client"], more.as_slice()].concat();
    let output = join(installation, "member1", member, &more).await;
    ends(&output, 0, "");
    output
}

/// The command that a person copies, run by a shell.
async fn copy_token(fleet: &Fleet, note: &str) -> Result<(), String> {
    let command = note.lines().last().expect("a command");
    let file = |cluster: &Cluster| cluster.kubeconfig().display().to_string();
    let command = command
        .replace("MEMBER", &file(fleet.member("member1")))
        .replace("HUB", &file(fleet.hub()));
    let kubectl = Testbed::get().program("kubectl");
    let directory = kubectl.parent().map(Path::display).expect("a directory");
    let output = Command::new(fleet.reaper(), fleet.directory(), "/bin/sh")
        .env("PATH", format!("{directory}:/usr/bin:/bin"))
        .args(["-c", &command])
        .run()
        .await;
    let succeeded = output.exit.success();
    succeeded.then_some(()).ok_or(output.stderr)
}

async fn ready(hub: &Cluster) -> String {
    let path = "-o=jsonpath={.status.conditions[?(@.type==\"Ready\")]}";
    hub.kubectl(["get", CLUSTER, path]).await.ok()
}

#[tokio::test]
async fn dry_run_of_join_prints_objects_that_join_the_member() {
    let fleet = Fleet::builder().members(1).start().await;
    let installation = Installation::new(&fleet).await;
    let _controller = installation.controller().start().await;
    let (hub, member) = (fleet.hub(), fleet.member("member1"));

    let for_member = printed(&installation, member, "-o yaml --only=member").await;
    let for_hub = printed(&installation, member, "-o yaml --only=hub").await;
    assert_eq!(for_member.stderr, "");
    let both = printed(&installation, member, "").await;
    let sets = [&for_member, &for_hub].map(|set| set.stdout.trim_end());
    assert_eq!(both.stdout.trim_end(), sets.join("\n---\n"));
    let list = json(&printed(&installation, member, "-o json --only=hub").await);
    let objects: Vec<Value> = serde_saphyr::from_multiple(&for_hub.stdout).expect("YAML");
    assert_eq!(list["items"], Value::from(objects));
    assert!(list["items"][0]["data"]["token"].is_null(), "{list}");

    // It changed nothing.
    let namespace = ["get", "namespace", NAMESPACE];
    member.kubectl(namespace).await.refused();
    hub.kubectl(["get", CLUSTER]).await.refused();
    assert!(credentials(hub, "member1").await.is_none());

    member.apply(&for_member.stdout).await.ok();
    hub.apply(&for_hub.stdout).await.ok();
    eventually("the Cluster lacks its token", SOON, || async {
        let ready = ready(hub).await;
        let is_said = ready.contains("has no key token");
        is_said.then_some(()).ok_or(ready)
    })
    .await;
    eventually("the member issues the token", SOON, || {
        copy_token(&fleet, &for_hub.stderr)
    })
    .await;
    let wait = ["wait", "--for=condition=Ready", "--timeout=180s", CLUSTER];
    hub.kubectl(wait).await.ok();
    let again = hub.apply(&for_hub.stdout).await.ok();
    assert!(!again.contains("configured"), "{again}");
    let secret = credentials(hub, "member1").await.expect("credentials");
    assert!(secret.data.is_some_and(|data| data.contains_key("token")));

    let more = ["--dry-run=client"];
    let other = join(&installation, "another", member, &more).await;
    ends(&other, 1, "named member1 | kubectl mcs unjoin member1");
    let joined = join(&installation, "member1", member, &[]).await;
    ends(&joined, 0, "member1 is synced");
}

#[tokio::test]
async fn flux_keeps_token_and_drain_of_a_member_from_git() {
    let fleet = Fleet::builder().members(1).start().await;
    let installation = Installation::new(&fleet).await;
    let (hub, member) = (fleet.hub(), fleet.member("member1"));
    let for_member = printed(&installation, member, "--only=member").await;
    member.apply(&for_member.stdout).await.ok();
    let for_hub = printed(&installation, member, "--only=hub").await;
    let reconcile = async || {
        let apply = ["apply", "--server-side", "--force-conflicts", "-f", "-"];
        let apply = apply
            .into_iter()
            .chain(["--field-manager=kustomize-controller"]);
        hub.kubectl_with(apply, &for_hub.stdout).await.ok();
    };
    reconcile().await;
    eventually("the member issues the token", SOON, || {
        copy_token(&fleet, &for_hub.stderr)
    })
    .await;
    let drained = installation.kubectl_mcs(["drain", "member1"]).await;
    ends(&drained, 0, "member1 drained");
    reconcile().await;

    let secret = credentials(hub, "member1").await.expect("credentials");
    assert!(secret.data.is_some_and(|data| data.contains_key("token")));
    let get = ["get", CLUSTER, "-o", "json", "--show-managed-fields"];
    let cluster = json(&hub.kubectl(get).await)["metadata"].clone();
    let annotations = &cluster["annotations"];
    assert_eq!(annotations["mcs.causeway.dev/withdraw"], "true");
    let cluster: ObjectMeta = serde_json::from_value(cluster).expect("metadata");
    for meta in [secret.metadata, cluster] {
        // Flux takes over the fields of managers with this prefix, and then removes them.
        let entries = meta.managed_fields.iter().flatten();
        let managers: Vec<_> = entries
            .filter_map(|entry| entry.manager.as_deref())
            .collect();
        let is_kubectl = |manager: &&str| manager.starts_with("kubectl");
        assert!(!managers.iter().any(is_kubectl), "{managers:?}");
        // Without this annotation, those that `kubectl mcs join` writes too.
        let annotations = meta.annotations.expect("annotations");
        assert_eq!(annotations["kustomize.toolkit.fluxcd.io/ssa"], "Merge");
    }
}
