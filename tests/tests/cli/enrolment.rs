//! A member that nobody reaches from the hub's side joins by a file, which is applied there.

use causeway_tests::causeway::{MEMBERS_NAMESPACE, NAMESPACE, Running};
use causeway_tests::kubectl::Output;
use causeway_tests::reaper::{Exit, Process};
use causeway_tests::tunnel::IssuedTunnel;
use causeway_tests::write::merge;
use causeway_tests::{Cluster, Fleet, Installation, LONG, eventually};
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use serde_json::{Value, json};

use crate::ends;

struct Stage<'a> {
    fleet: &'a Fleet,
    installation: Installation,
    tunnel: IssuedTunnel,
}

impl Stage<'_> {
    async fn mcs(&self, args: &[&str]) -> Output {
        self.installation.kubectl_mcs(args.iter().copied()).await
    }

    async fn install(&self, more: &[&str]) -> Output {
        let address = self.tunnel.address();
        let install = ["install", "--external", "--skip-crds", "--tunnel", &address];
        self.mcs(&[&install, more].concat()).await
    }

    /// Joins member edge by a file.
    async fn join(&self, more: &[&str]) -> Output {
        let address = self.tunnel.address();
        let join = ["join", "edge", "--pull", "--tunnel", &address, "-o", "yaml"];
        self.mcs(&[&join, more].concat()).await
    }

    /// Waits until `kubectl mcs tunnel` ends so and prints all of this.
    async fn shows(&self, code: i32, said: &str) {
        let admin = self.tunnel.admin();
        eventually(said, LONG, async || {
            let output = self.mcs(&["tunnel", "--admin-url", &admin]).await;
            let text = format!("{}{}", output.stdout, output.stderr);
            let is_said = said.split('|').all(|part| text.contains(part.trim()));
            match is_said && output.exit == Exit::Code(code) {
                true => Ok(()),
                false => Err(format!("{:?}\n{text}", output.exit)),
            }
        })
        .await;
    }

    async fn enrolments(&self, outcome: &str) -> f64 {
        let metrics = self.tunnel.metrics().await;
        let labels = [("outcome", outcome)];
        let count = metrics.get("causeway_tunnel_enrolments_total", &labels);
        count.unwrap_or_default()
    }
}

/// Returns the keys of the agent's Secret.
async fn keys(member: &Cluster) -> Vec<String> {
    let secrets = Api::<Secret>::namespaced(member.client(), NAMESPACE);
    let secret = secrets.get("causeway-agent").await.expect("a Secret");
    secret.data.expect("data").into_keys().collect()
}

#[ignore = "slow: make test ALL=1"]
#[tokio::test]
async fn member_joins_by_a_file_that_is_good_once() {
    let fleet = Fleet::builder().members(2).start().await;
    let installation = Installation::new(&fleet).await;
    let tunnel = IssuedTunnel::new();
    let stage = Stage {
        fleet: &fleet,
        installation,
        tunnel,
    };
    enrolment_is_installed_once(&stage).await;
    let replica = stage.tunnel.start_enrolling(&fleet).await;
    stage.tunnel.certify_controller(&fleet).await;
    let files = IssuedTunnel::controller_files(&fleet);
    let controller = stage.installation.controller();
    let controller = controller
        .arg(format!("--tunnel-front={}", stage.tunnel.front()))
        .arg(format!("--tunnel-tls-dir={}", files.display()))
        .start()
        .await;
    let file = file_is_printed(&stage).await;
    let [edge, other] = ["member1", "member2"].map(|name| fleet.member(name));
    let agent = agent_enrols(&stage, edge, &file).await;
    hub_has_the_member_without_a_token(&stage).await;
    uid_is_recorded(&stage, edge).await;
    file_is_good_for_no_other_cluster(&stage, other, &file, &replica).await;
    restarted_agent_needs_no_token(&stage, edge, &agent).await;
    restarted_controller_refuses_another_cluster(&stage, [edge, other], &agent, &controller).await;
    joined_again_prints_another_token(&stage, &file).await;
    documented_rights_suffice_for_a_join_by_file(&stage).await;
    unjoin_removes_all(&stage, edge).await;
    drop((agent, replica, controller));
}

async fn enrolment_is_installed_once(stage: &Stage<'_>) {
    ends(
        &stage.install(&[]).await,
        0,
        "secret/causeway-tunnel created",
    );
    let remedy = "kubectl mcs install --tunnel 127.0.0.1 | --enrolment";
    ends(&stage.join(&[]).await, 1, remedy);
    let incomplete = "--pull --tunnel HOST[:PORT] -o yaml";
    ends(
        &stage.mcs(&["join", "edge", "-o", "yaml"]).await,
        2,
        incomplete,
    );
    let kubeconfig = stage.fleet.member("member1").kubeconfig();
    let kubeconfig = kubeconfig.display().to_string();
    let both = stage.join(&["--member-kubeconfig", &kubeconfig]).await;
    ends(&both, 2, "-o prints the objects of --dry-run");
    let said = "
        secret/causeway-tunnel-ca unchanged
        secret/causeway-tunnel-enrolment created
        role.rbac.authorization.k8s.io/causeway-tunnel created
        role.rbac.authorization.k8s.io/causeway-tunnel-events created
    ";
    ends(&stage.install(&["--enrolment"]).await, 0, said);
    let secrets = Api::<Secret>::namespaced(stage.fleet.hub().client(), NAMESPACE);
    let first = secrets.get("causeway-tunnel-enrolment").await;
    // An upgrade without the flag keeps it.
    let said = "role.rbac.authorization.k8s.io/causeway-tunnel unchanged";
    ends(&stage.install(&[]).await, 0, said);
    let second = secrets.get("causeway-tunnel-enrolment").await;
    let [first, second] = [first, second].map(|secret| secret.expect("an authority").data);
    assert_eq!(first, second);
}

async fn file_is_printed(stage: &Stage<'_>) -> String {
    let hub = stage.fleet.hub();
    let rehearsed = stage.join(&["--dry-run"]).await;
    ends(
        &rehearsed,
        0,
        "# For member edge | # For the hub | kind: Cluster | the token is left out",
    );
    assert!(
        !rehearsed.stdout.contains(" token:"),
        "{}",
        rehearsed.stdout
    );
    let get = ["get", "clusters,secrets", "-n", "causeway-enrolment"];
    assert_eq!(hub.kubectl(get).await.ok(), "");

    let printed = stage.join(&["--region", "eu-1"]).await;
    ends(&printed, 0, "");
    let hints = "cluster.cluster.karmada.io/edge applied | secret/bootstrap-edge created | kubectl apply -f FILE";
    for hint in hints.split(" | ") {
        assert!(printed.stderr.contains(hint), "{}", printed.stderr);
        assert!(!printed.stdout.contains(hint), "{}", printed.stdout);
    }
    let get = ["get", "cluster", "edge", "-o", "json"];
    let cluster: Value = serde_json::from_str(&hub.kubectl(get).await.ok()).expect("JSON");
    let annotations = &cluster["metadata"]["annotations"];
    assert_eq!(annotations["mcs.causeway.dev/tunnel"], "true");
    assert_eq!(annotations["mcs.causeway.dev/credentials"], "agent");
    let spec = &cluster["spec"];
    assert_eq!(
        (&spec["syncMode"], &spec["region"]),
        (&"Pull".into(), &"eu-1".into())
    );
    assert_eq!(spec.get("secretRef"), None);
    printed.stdout
}

async fn agent_enrols(stage: &Stage<'_>, edge: &Cluster, file: &str) -> Process {
    let applied = edge.apply(file).await.ok();
    for object in ["secret/causeway-agent", "deployment.apps/causeway-agent"] {
        assert!(applied.contains(&format!("{object} created")), "{applied}");
    }
    assert_eq!(keys(edge).await, ["ca.crt", "name", "token"]);
    let agent = stage.tunnel.deployed_agent(stage.fleet, edge).await;
    stage.shows(0, "edge | 127.0.0.1 | 1/1").await;
    assert_eq!(keys(edge).await, ["ca.crt", "name", "tls.crt", "tls.key"]);
    assert_eq!(stage.enrolments("enrolled").await, 1.0);
    agent
}

/// The agent gives the controller address, authorities and token of the member.
async fn hub_has_the_member_without_a_token(stage: &Stage<'_>) {
    let hub = stage.fleet.hub();
    hub.says("clusters/edge", "Ready", "True|Synced|", LONG)
        .await;
    let secrets = Api::<Secret>::namespaced(hub.client(), MEMBERS_NAMESPACE);
    let stored = secrets.get_opt("edge").await.expect("an answer");
    assert!(stored.is_none());
    let removed = stage.mcs(&["tunnel", "remove", "edge"]).await;
    ends(&removed, 1, "kubectl mcs unjoin edge");
}

/// No command has reached the member.
async fn uid_is_recorded(stage: &Stage<'_>, edge: &Cluster) {
    let path = "jsonpath={.metadata.uid}";
    let get = ["get", "namespace", "kube-system", "-o", path];
    let uid = edge.kubectl(get).await.ok();
    eventually("the UID is recorded", LONG, async || {
        let get = ["get", "cluster", "edge", "-o", "jsonpath={.spec.id}"];
        let recorded = stage.fleet.hub().kubectl(get).await.ok();
        (recorded == uid).then_some(()).ok_or(recorded)
    })
    .await;
}

/// The agent of another cluster has the certificate of edge, and connects first.
async fn restarted_controller_refuses_another_cluster(
    stage: &Stage<'_>,
    [edge, other]: [&Cluster; 2],
    agent: &Process,
    controller: &Running,
) {
    agent.kill().await;
    let secrets = |cluster: &Cluster| Api::<Secret>::namespaced(cluster.client(), NAMESPACE);
    let [from, to] = [edge, other].map(secrets);
    let stored = from.get("causeway-agent").await.expect("a Secret");
    let mut data = json!(stored.data);
    data["token"] = Value::Null;
    merge(&to, "causeway-agent", json!({ "data": data })).await;
    let stranger = stage.tunnel.deployed_agent(stage.fleet, other).await;
    stage.shows(0, "edge | 1/1").await;
    controller.restart_in_order().await;
    let hub = stage.fleet.hub();
    let refused = "False|Refused|its API server is another cluster's now";
    hub.says("clusters/edge", "Ready", refused, LONG).await;
    stranger.kill().await;
    agent.restart().await;
    stage.shows(0, "edge | 1/1").await;
    hub.says("clusters/edge", "Ready", "True|Synced|", LONG)
        .await;
}

async fn file_is_good_for_no_other_cluster(
    stage: &Stage<'_>,
    other: &Cluster,
    file: &str,
    replica: &Process,
) {
    other.apply(file).await.ok();
    let agent = stage.tunnel.deployed_agent(stage.fleet, other).await;
    eventually("it is refused", LONG, async || {
        let log = agent.log_tail(100);
        let is_refused = log.contains("answered 401 Unauthorized") && log.contains("new file");
        is_refused.then_some(()).ok_or(log)
    })
    .await;
    reused_token_is_an_event_of_the_cluster(stage, replica).await;
    agent.kill().await;
    stage.shows(0, "edge | 1/1").await;
}

/// The agent goes on to present the token.
async fn reused_token_is_an_event_of_the_cluster(stage: &Stage<'_>, replica: &Process) {
    eventually("the token is presented again and again", LONG, async || {
        let used = stage.enrolments("used").await;
        (used >= 4.0).then_some(()).ok_or(used.to_string())
    })
    .await;
    eventually("kubectl describe shows the Event", LONG, async || {
        let described = stage.fleet.hub().kubectl(["describe", "cluster", "edge"]);
        let described = described.await.ok();
        let parts = [
            "Warning",
            "EnrolmentTokenReused",
            "causeway-tunnel",
            "an agent from 127.0.0.1 presented the enrolment token of edge",
            "unjoin edge, and join your cluster by another name or replace the authority",
            "docs/edge.md#join-by-a-file",
        ];
        let is_shown = parts.iter().all(|part| described.contains(part));
        is_shown.then_some(()).ok_or(described)
    })
    .await;
    // One line and one Event in ten minutes, of which two may be under way.
    let log = replica.log_tail(1000);
    assert!(log.matches("enrolment refused").count() <= 2, "{log}");
    assert!(!log.contains("event write failed"), "{log}");
    let get = ["get", "events", "-n", "default", "-o", "name"];
    let events = stage.fleet.hub().kubectl(get).await.ok();
    let count = events.matches("edge.enrolment-token-reused.").count();
    assert!((1..=2).contains(&count), "{events}");
}

async fn restarted_agent_needs_no_token(stage: &Stage<'_>, edge: &Cluster, agent: &Process) {
    agent.kill().await;
    stage.shows(1, "edge | not for").await;
    agent.restart().await;
    stage.shows(0, "edge | 1/1").await;
    assert_eq!(stage.enrolments("enrolled").await, 1.0);
    assert_eq!(keys(edge).await, ["ca.crt", "name", "tls.crt", "tls.key"]);
}

async fn joined_again_prints_another_token(stage: &Stage<'_>, file: &str) {
    // An earlier join with the member's kubeconfig had stored a token.
    let hub = stage.fleet.hub();
    let stored = "{apiVersion: v1, kind: Secret, metadata: {name: edge, \
                  namespace: causeway-members, labels: {app.kubernetes.io/managed-by: causeway}}, \
                  stringData: {token: lasting}}";
    hub.apply(stored).await.ok();
    let again = stage.join(&["--enrol-within", "1h"]).await;
    ends(&again, 0, "kind: Deployment");
    assert_ne!(again.stdout, file);
    let said = "hub: secret/edge deleted|valid until it is deleted in edge";
    assert!(
        said.split('|').all(|part| again.stderr.contains(part)),
        "{again:?}"
    );
    let secrets = Api::<Secret>::namespaced(hub.client(), MEMBERS_NAMESPACE);
    let stored = secrets.get_opt("edge").await.expect("an answer");
    assert!(stored.is_none());
    // What is recorded stays.
    let get = ["get", "cluster", "edge", "-o", "jsonpath={.spec.region}"];
    assert_eq!(stage.fleet.hub().kubectl(get).await.ok(), "eu-1");
    let patch = r#"{"spec":{"id":"another"}}"#;
    let patch = ["patch", "cluster", "edge", "--type=merge", "-p", patch];
    stage.fleet.hub().kubectl(patch).await.ok();
    ends(&stage.join(&["--id", "this"]).await, 1, "another cluster");
    let dialled = "{apiVersion: cluster.karmada.io/v1alpha1, kind: Cluster, metadata: {name: cloud}, \
                   spec: {syncMode: Push}}";
    stage.fleet.hub().apply(dialled).await.ok();
    let address = stage.tunnel.address();
    let join = [
        "join", "cloud", "--pull", "--tunnel", &address, "-o", "yaml",
    ];
    ends(&stage.mcs(&join).await, 1, "the hub dials cloud");
}

/// Rights that docs/edge.md names for a join by a file.
const ENROLLER: &str = "
{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: enroller}, rules: [
  {apiGroups: [cluster.karmada.io], resources: [clusters], verbs: [list, create, patch]},
  {apiGroups: [''], resources: [namespaces], resourceNames: [kube-system, causeway-enrolment],
   verbs: [get]}]}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, metadata: {name: enroller},
 roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: enroller},
 subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: enroller}]}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: Role,
 metadata: {name: enroller, namespace: causeway-system}, rules: [
  {apiGroups: [''], resources: [secrets], resourceNames: [causeway-tunnel], verbs: [get]}]}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding,
 metadata: {name: enroller, namespace: causeway-system},
 roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: enroller},
 subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: enroller}]}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: Role,
 metadata: {name: enroller, namespace: causeway-enrolment}, rules: [
  {apiGroups: [''], resources: [secrets], verbs: [get, create, patch, delete]}]}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding,
 metadata: {name: enroller, namespace: causeway-enrolment},
 roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: enroller},
 subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: enroller}]}
";

async fn documented_rights_suffice_for_a_join_by_file(stage: &Stage<'_>) {
    let hub = stage.fleet.hub();
    hub.apply(ENROLLER).await.ok();
    let address = stage.tunnel.address();
    let join = ["join", "late", "--pull", "--tunnel", &address, "-o", "yaml"];
    let join = [&join[..], &["--as", "enroller"]].concat();
    let note = "you may not read Secret causeway-members/late; if it exists, have it deleted";
    let first = eventually("the rights are granted", LONG, async || {
        let output = stage.mcs(&join).await;
        let is_granted = output.exit == Exit::Code(0);
        is_granted.then_some(output.stdout).ok_or(output.stderr)
    })
    .await;
    assert!(first.contains("kind: Deployment"), "{first}");
    let stored = "{apiVersion: v1, kind: Secret, metadata: {name: late, \
                  namespace: causeway-members, labels: {app.kubernetes.io/managed-by: causeway}}}";
    hub.apply(stored).await.ok();
    let again = stage.mcs(&join).await;
    ends(&again, 0, "kind: Deployment");
    assert!(again.stderr.contains(note), "{}", again.stderr);
    assert!(!again.stdout.contains(note), "{}", again.stdout);
    assert_ne!(again.stdout, first);
    let secrets = Api::<Secret>::namespaced(hub.client(), MEMBERS_NAMESPACE);
    let stored = secrets.get_opt("late").await.expect("an answer");
    assert!(stored.is_some());
    let said = "secret/member-late deleted | secret/bootstrap-late deleted | secret/late deleted";
    ends(&stage.mcs(&["unjoin", "late"]).await, 0, said);
}

async fn unjoin_removes_all(stage: &Stage<'_>, edge: &Cluster) {
    let kubeconfig = edge.kubeconfig().display().to_string();
    let reset = r#"{"spec":{"id":null}}"#;
    let reset = ["patch", "cluster", "edge", "--type=merge", "-p", reset];
    stage.fleet.hub().kubectl(reset).await.ok();
    let said = "
        hub: secret/member-edge deleted
        hub: cluster.cluster.karmada.io/edge deleted
        member: deployment.apps/causeway-agent deleted
        member: role.rbac.authorization.k8s.io/causeway-agent deleted
        member: secret/causeway-agent deleted
        hub: secret/bootstrap-edge deleted
    ";
    let unjoin = ["unjoin", "edge", "--member-kubeconfig", &kubeconfig];
    ends(&stage.mcs(&unjoin).await, 0, said);
    let said = "
        hub: role.rbac.authorization.k8s.io/causeway-tunnel deleted
        hub: role.rbac.authorization.k8s.io/causeway-tunnel-events deleted
        hub: serviceaccount/causeway-tunnel deleted
        hub: secret/causeway-tunnel-enrolment deleted
        hub: namespace/causeway-enrolment kept
    ";
    let uninstall = ["uninstall", "--cascade", "--yes"];
    ends(&stage.mcs(&uninstall).await, 0, said);
}
