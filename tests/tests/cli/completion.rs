//! `kubectl mcs` is completed by kubectl, which runs `kubectl_complete-mcs`.

use std::os::unix::fs::symlink;
use std::path::PathBuf;

use causeway_tests::binaries::{self, Testbed};
use causeway_tests::kubectl::Command;
use causeway_tests::{Fleet, Installation};

/// A PATH with the plugin, and with the same program under the name by which it completes.
fn path(fleet: &Fleet) -> PathBuf {
    let directory = fleet.directory().join("path");
    std::fs::create_dir_all(&directory).expect("a directory");
    for (target, name) in [
        (binaries::causeway("kubectl-mcs"), "kubectl-mcs"),
        ("kubectl-mcs".into(), "kubectl_complete-mcs"),
    ] {
        symlink(target, directory.join(name)).expect("a link");
    }
    directory
}

/// Returns kubectl's completion of this line: candidates, and the directive.
async fn completed(fleet: &Fleet, words: &[&str]) -> Vec<String> {
    let kubectl = Testbed::get().program("kubectl");
    let path = fleet.directory().join("path").display().to_string();
    let output = Command::new(fleet.reaper(), fleet.directory(), kubectl)
        .env("PATH", path)
        .env("KUBECONFIG", fleet.hub().kubeconfig().display().to_string())
        .args(["__complete", "mcs"].iter().chain(words).copied())
        .run()
        .await;
    let lines = output.ok();
    lines.lines().map(str::to_owned).collect()
}

#[tokio::test]
async fn kubectl_offers_commands_flags_and_the_names_of_the_hub() {
    let fleet = Fleet::builder().start().await;
    Installation::new(&fleet).await;
    let hub = fleet.hub();
    path(&fleet);
    let objects = "
apiVersion: v1
kind: Namespace
metadata: {name: shop}
---
apiVersion: cluster.karmada.io/v1alpha1
kind: Cluster
metadata: {name: member1}
spec: {syncMode: Push}
---
apiVersion: networking.karmada.io/v1alpha1
kind: MultiClusterService
metadata: {name: foo, namespace: shop}
spec: {types: [CrossCluster]}
---
apiVersion: networking.karmada.io/v1alpha1
kind: MultiClusterService
metadata: {name: bar, namespace: default}
spec: {types: [CrossCluster]}
";
    hub.apply(objects).await.ok();

    let commands = completed(&fleet, &[""]).await;
    let join = "join\tJoin a cluster to the hub, or update it";
    assert!(commands.contains(&join.to_owned()), "{commands:?}");
    assert_eq!(commands.last().map(String::as_str), Some(":4"));
    let flags = completed(&fleet, &["status", "--al"]).await;
    let all = "--all-namespaces\tShow all namespaces";
    assert!(flags.contains(&all.to_owned()), "{flags:?}");

    let closed = fleet.directory().join("closed");
    let text = std::fs::read_to_string(hub.kubeconfig()).expect("a kubeconfig");
    let text = text.replace(hub.url(), "https://127.0.0.1:1");
    std::fs::write(&closed, text).expect("a kubeconfig");
    let closed = closed.display().to_string();
    for (words, expected) in [
        (vec!["status", "-o", ""], "json yaml :4"),
        (vec!["status", "--output=j"], "json :4"),
        (vec!["drain", ""], "member1 :4"),
        (vec!["tunnel", "remove", ""], "member1 :4"),
        (vec!["unjoin", "x"], ":4"),
        (vec!["explain", "--member", ""], "member1= :6"),
        (vec!["top", "--member-kubeconfig", ""], ":0"),
        (vec!["explain", ""], "bar :4"),
        (vec!["explain", "-n", "shop", ""], "foo :4"),
        (vec!["status", "-n", "sh"], "shop :4"),
        (vec!["diff", "-f", ""], "json yaml yml :8"),
        (vec!["join", "a", "--member-kubeconfig", ""], ":0"),
        (vec!["drain", "--kubeconfig", &closed, ""], ":4"),
        (vec!["drain", "--kubeconfig", "/nowhere", ""], ":4"),
    ] {
        assert_eq!(
            completed(&fleet, &words).await.join(" "),
            expected,
            "{words:?}"
        );
    }
}
