//! A member that karmada-agent registered is added to the tunnel, and removed. Nobody answers at
//! the address of its Cluster, which its own pods do not use; the certificate of its API server is
//! valid for that host.

use std::collections::BTreeMap;

use causeway_tests::causeway::NAMESPACE;
use causeway_tests::karmada;
use causeway_tests::kubectl::Output;
use causeway_tests::tunnel::IssuedTunnel;
use causeway_tests::{Cluster, Fleet, Installation, LONG};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use serde_json::{Value, json};

use crate::{ends, join};

const NOBODY: &str = "https://127.0.0.1:1";
/// Namespace of the credentials on a Karmada control plane, and of accounts in members.
const KARMADA: &str = "karmada-cluster";

struct Stage<'a> {
    fleet: &'a Fleet,
    installation: Installation,
    tunnel: IssuedTunnel,
}

impl Stage<'_> {
    fn hub(&self) -> &Cluster {
        self.fleet.hub()
    }

    fn edge(&self) -> &Cluster {
        self.fleet.member("member1")
    }

    /// Runs `kubectl mcs tunnel` with a kubeconfig of a member, if any.
    async fn tunnel(&self, words: &[&str], member: Option<&Cluster>) -> Output {
        let file = member.map(|member| member.kubeconfig().display().to_string());
        let file = file.iter().flat_map(|file| ["--member-kubeconfig", file]);
        let words = ["tunnel"].iter().chain(words).copied();
        self.installation.kubectl_mcs(words.chain(file)).await
    }

    /// Adds edge, and reads it by the front of the tunnel.
    async fn add(&self, member: Option<&Cluster>, more: &[&str]) -> Output {
        let (address, front) = (self.tunnel.address(), self.tunnel.front());
        let add = [
            "add",
            "edge",
            "--tunnel",
            &address,
            "--tunnel-front",
            &front,
        ];
        self.tunnel(&[&add, more].concat(), member).await
    }

    async fn remove(&self, member: Option<&Cluster>, more: &[&str]) -> Output {
        let remove = ["remove", "edge"];
        self.tunnel(&[&remove, more].concat(), member).await
    }

    async fn cluster(&self) -> Value {
        let get = ["get", "cluster.cluster.karmada.io", "edge", "-o", "json"];
        let cluster = self.hub().kubectl(get).await.ok();
        serde_json::from_str(&cluster).expect("JSON")
    }

    async fn patch(&self, patch: &Value) {
        let patch = patch.to_string();
        let cluster = "cluster.cluster.karmada.io/edge";
        let args = ["patch", cluster, "--type=merge", "-p", &patch];
        self.hub().kubectl(args).await.ok();
    }

    async fn is_tunnelled(&self) -> bool {
        self.cluster().await["metadata"]["annotations"]["mcs.causeway.dev/tunnel"] == "true"
    }

    /// The files of the agent's certificate in edge.
    async fn certificate(&self) -> Option<BTreeMap<String, ByteString>> {
        let secrets = Api::<Secret>::namespaced(self.edge().client(), NAMESPACE);
        let secret = secrets.get_opt("causeway-agent").await.expect("an answer");
        secret.and_then(|secret| secret.data)
    }
}

#[tokio::test]
async fn karmadas_pull_member_is_added_to_the_tunnel_and_removed() {
    let fleet = Fleet::builder().members(2).start().await;
    karmada::define(fleet.hub()).await;
    let installation = Installation::new(&fleet).await;
    let tunnel = IssuedTunnel::new();
    let controller = installation
        .controller()
        .arg(format!("--tunnel-front={}", tunnel.front()))
        .arg(format!("--secret-namespace=causeway-members,{KARMADA}"))
        .start()
        .await;
    let stage = Stage {
        fleet: &fleet,
        installation,
        tunnel,
    };
    what_is_missing_is_named(&stage).await;
    let address = stage.tunnel.address();
    let install = ["install", "--external", "--skip-crds", "--tunnel", &address];
    ends(&stage.installation.kubectl_mcs(install).await, 0, "");
    let replica = stage.tunnel.start(&fleet).await;

    let spec = stage.cluster().await["spec"].clone();
    trials_change_nothing(&stage).await;
    printed_objects_connect_the_member(&stage).await;
    let agent = stage.tunnel.agent(&fleet, stage.edge()).await;
    let synced = "True|Synced|";
    let hub = fleet.hub();
    hub.says("clusters/edge", "Ready", synced, LONG).await;

    added_again_keeps_the_certificate(&stage).await;
    agent.kill().await;
    let late = stage.add(Some(stage.edge()), &["--timeout", "5s"]).await;
    let said =
        "edge is not connected within 5 s | its agent is not connected | see kubectl mcs tunnel";
    ends(&late, 1, said);
    agent.restart().await;
    interrupted_runs_are_completed(&stage).await;
    host_has_to_be_in_the_certificate(&stage).await;
    joined_members_are_left_to_join(&stage).await;
    assert_eq!(stage.cluster().await["spec"], spec);

    own_agent_alone_is_removed(&stage).await;
    assert_eq!(stage.cluster().await["spec"], spec);
    drop((replica, agent, controller));
}

/// Does as karmada-agent: an account in the member, and its token on the hub.
async fn report_secret(stage: &Stage<'_>) {
    let edge = stage.edge();
    let account = format!("--serviceaccount={KARMADA}:karmada-edge");
    for args in [
        &["create", "namespace", KARMADA][..],
        &["create", "serviceaccount", "karmada-edge", "-n", KARMADA],
        &[
            "create",
            "clusterrolebinding",
            "karmada-edge",
            "--clusterrole=cluster-admin",
            &account,
        ],
    ] {
        edge.kubectl(args.iter().copied()).await.ok();
    }
    let token = edge.token(KARMADA, "karmada-edge").await;
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": "edge", "namespace": KARMADA},
        "stringData": {"token": token, "caBundle": edge.ca_pem()},
    });
    stage.hub().apply(&secret.to_string()).await.ok();
}

async fn what_is_missing_is_named(stage: &Stage<'_>) {
    let refused = async |said: &str| {
        for way in [
            stage.add(Some(stage.edge()), &[]).await,
            stage.add(None, &["-o", "yaml"]).await,
        ] {
            ends(&way, 1, said);
            assert!(!way.stdout.contains("kind:"), "{}", way.stdout);
        }
    };
    refused("the hub has no Cluster edge").await;
    ends(&stage.remove(None, &[]).await, 1, "the hub has no Cluster");
    let uid = ["get", "namespace", "kube-system"];
    let uid = uid.into_iter().chain(["-o", "jsonpath={.metadata.uid}"]);
    let uid = stage.edge().kubectl(uid).await.ok();
    let cluster = json!({
        "apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster",
        "metadata": {"name": "edge"},
        "spec": {"id": uid, "syncMode": "Push", "apiEndpoint": NOBODY},
    });
    stage.hub().apply(&cluster.to_string()).await.ok();
    refused("Cluster edge is not in Pull mode").await;
    stage.patch(&json!({"spec": {"syncMode": "Pull"}})).await;
    refused("names no Secret with credentials | --report-secrets").await;
    let reference = json!({"namespace": KARMADA, "name": "edge"});
    stage
        .patch(&json!({"spec": {"secretRef": reference}}))
        .await;
    refused("Secret karmada-cluster/edge not found on the hub").await;
    report_secret(stage).await;
    refused("kubectl mcs install --tunnel").await;
    assert!(!stage.is_tunnelled().await && stage.certificate().await.is_none());
}

async fn trials_change_nothing(stage: &Stage<'_>) {
    let other = stage.add(Some(stage.fleet.member("member2")), &[]).await;
    ends(&other, 1, "another cluster than edge | Nothing was changed");
    for (flag, said) in [
        (
            "--dry-run",
            "secret/causeway-agent applied (dry run) | edge annotated (dry run)",
        ),
        (
            "--dry-run=server",
            "secret/causeway-agent created (dry run, not validated | edge annotated (server dry run)",
        ),
    ] {
        ends(&stage.add(Some(stage.edge()), &[flag]).await, 0, said);
        let printed = stage.add(None, &["-o", "yaml", flag]).await;
        ends(&printed, 0, "kind: Deployment | is left out");
        assert!(!printed.stdout.contains("tls.key"), "{}", printed.stdout);
    }
    assert!(!stage.is_tunnelled().await);
    let none = ["get", "namespace", NAMESPACE];
    stage.edge().kubectl(none).await.refused();
}

async fn printed_objects_connect_the_member(stage: &Stage<'_>) {
    let printed = stage.add(None, &["-o", "yaml"]).await;
    ends(&printed, 0, "edge annotated | private key of the agent");
    assert!(stage.is_tunnelled().await);
    assert!(stage.certificate().await.is_none());
    let applied = stage.edge().apply(&printed.stdout).await;
    let said = "namespace/causeway-system | secret/causeway-agent | deployment.apps/causeway-agent";
    ends(&applied, 0, said);
    let list = stage.add(None, &["-o", "json"]).await;
    ends(&list, 0, "cluster.cluster.karmada.io/edge unchanged");
    let list: Value = serde_json::from_str(&list.stdout).expect("JSON");
    let items = list["items"].as_array().expect("items");
    let kinds: Vec<_> = items.iter().map(|item| item["kind"].as_str()).collect();
    assert_eq!(kinds, ["Namespace", "Secret", "Deployment"].map(Some));
}

async fn added_again_keeps_the_certificate(stage: &Stage<'_>) {
    let before = stage.certificate().await.expect("a certificate");
    let said = format!(
        "cluster.cluster.karmada.io/edge unchanged | edge is connected, at {NOBODY} through causeway-tunnel"
    );
    ends(&stage.add(Some(stage.edge()), &[]).await, 0, &said);
    let said = "secret/causeway-agent unchanged | deployment.apps/causeway-agent unchanged";
    ends(&stage.add(Some(stage.edge()), &[]).await, 0, said);
    assert_eq!(stage.certificate().await.as_ref(), Some(&before));
    let address = stage.tunnel.address();
    let unread = ["add", "edge", "--tunnel", &address];
    let unread = stage.tunnel(&unread, Some(stage.edge())).await;
    ends(&unread, 3, "edge unchanged | is not known | --tunnel-front");
}

/// Removes what an interrupted run would not have made yet.
async fn interrupted_runs_are_completed(stage: &Stage<'_>) {
    let delete = ["delete", "deployment", "causeway-agent", "-n", NAMESPACE];
    let annotation = json!({"metadata": {"annotations": {"mcs.causeway.dev/tunnel": null}}});
    let said = "deployment.apps/causeway-agent created | edge annotated | edge is connected";
    for _ in 0..2 {
        stage.edge().kubectl(delete).await.ok();
        stage.patch(&annotation).await;
        ends(&stage.add(Some(stage.edge()), &[]).await, 0, said);
    }
}

async fn host_has_to_be_in_the_certificate(stage: &Stage<'_>) {
    let endpoint = |url: &str| json!({"spec": {"apiEndpoint": url}});
    stage.patch(&endpoint("https://edge.invalid:6443")).await;
    let wrong = stage.add(Some(stage.edge()), &["--timeout", "5s"]).await;
    let said = "certificate of the member's API server has to be valid for the host of https://edge.invalid:6443";
    ends(&wrong, 1, said);
    stage.patch(&endpoint(NOBODY)).await;
    ends(&stage.add(Some(stage.edge()), &[]).await, 0, "connected");
}

async fn joined_members_are_left_to_join(stage: &Stage<'_>) {
    let member = stage.fleet.member("member2");
    ends(
        &join(&stage.installation, "plain", member, &[]).await,
        0,
        "",
    );
    let add = ["add", "plain", "--tunnel", "a", "-o", "yaml"];
    let said = "kubectl mcs join plain --member-kubeconfig FILE --pull --tunnel a:443";
    ends(&stage.tunnel(&add, None).await, 1, said);
    let remove = stage.tunnel(&["remove", "plain"], Some(member)).await;
    ends(&remove, 1, "kubectl mcs unjoin plain");
}

async fn own_agent_alone_is_removed(stage: &Stage<'_>) {
    let edge = stage.edge();
    let another = stage.remove(Some(stage.fleet.member("member2")), &[]).await;
    ends(&another, 1, "kubeconfig is of | Nothing was changed");
    let said = "deployment.apps/causeway-agent deleted (dry run) | secret/causeway-agent deleted (dry run)";
    ends(&stage.remove(Some(edge), &["--dry-run"]).await, 0, said);
    assert!(stage.is_tunnelled().await && stage.certificate().await.is_some());

    let said = "edge annotated | its agent remains | the hub dials edge from now on, at";
    ends(&stage.remove(None, &[]).await, 0, said);
    assert!(!stage.is_tunnelled().await && stage.certificate().await.is_some());
    let said =
        "edge unchanged | deployment.apps/causeway-agent deleted | secret/causeway-agent deleted";
    ends(&stage.remove(Some(edge), &[]).await, 0, said);
    assert!(stage.certificate().await.is_none());

    let secret = "secret/causeway-agent";
    let create = [
        "create",
        "secret",
        "generic",
        "causeway-agent",
        "-n",
        NAMESPACE,
    ];
    edge.kubectl(create).await.ok();
    let said = format!("{secret} of the member is not of kubectl mcs join or tunnel add");
    ends(&stage.add(Some(edge), &[]).await, 1, &said);
    let said = format!("{secret} kept");
    ends(&stage.remove(Some(edge), &[]).await, 0, &said);
}
