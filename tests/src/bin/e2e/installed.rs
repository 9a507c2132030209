//! The installation, by Helm and as README.md says.

use std::collections::BTreeSet;

use causeway_tests::book::blocks;
use causeway_tests::causeway::NAMESPACE;
use causeway_tests::{SOON, eventually};
use serde_json::Value;

use crate::Clusters;
use crate::processes::listening;

/// Those that run as pods.
pub(crate) const PROGRAMS: [&str; 2] = ["causeway-webhook", "causeway-controller"];

/// Installs with Helm into a namespace that enforces the strictest Pod Security standard, and joins
/// the member, and the hub.
pub(crate) async fn by_helm(clusters: &Clusters) {
    let person = &clusters.person;
    person
        .types(&format!(
            "kubectl create namespace {NAMESPACE}
             kubectl label namespace {NAMESPACE} pod-security.kubernetes.io/enforce=restricted
             helm install causeway manifests/chart -n {NAMESPACE} --set image.registry=registry.example/team"
        ))
        .await;
    are_ready(clusters).await;
    clusters.did("helm install: all pods are ready under the restricted standard, on both nodes");
    let test = format!("helm test causeway -n {NAMESPACE} --logs");
    person.types(&test).await;
    clusters.did("helm test has passed");
    the_webhook_refuses(clusters).await;
    person.types(&readme_with("kubectl mcs join")).await;
    person
        .types("kubectl mcs join hub --member-kubeconfig ~/.kube/config")
        .await;
    clusters.did("the member and the hub itself have joined");
}

/// Removes the release, and installs as README.md does, but takes over the CRDs that Helm leaves.
pub(crate) async fn by_readme(clusters: &Clusters) {
    let person = &clusters.person;
    person
        .types(&format!("helm uninstall causeway -n {NAMESPACE} --wait"))
        .await;
    let command = readme_with("kubectl mcs install");
    assert_eq!(command.lines().count(), 1, "{command}");
    // Helm leaves its CRDs.
    let command = format!("{} --force-conflicts", command.trim_end());
    person.types(&command).await;
    are_ready(clusters).await;
    the_webhook_refuses(clusters).await;
    let checked = person.types("kubectl mcs check").await;
    clusters.did(&format!(
        "{}: all pods are ready; kubectl mcs check: {}",
        command,
        last_line(&checked)
    ));
}

/// Waits until both Deployments have the pods that they should.
pub(crate) async fn rolled_out(clusters: &Clusters) {
    for program in PROGRAMS {
        let status =
            format!("kubectl rollout status -n {NAMESPACE} deployment/{program} --timeout=180s");
        clusters.person.types(&status).await;
    }
}

/// Both Deployments have all their pods, on both nodes, from the images that were pushed, and no
/// pod was started again.
async fn are_ready(clusters: &Clusters) {
    rolled_out(clusters).await;
    for program in PROGRAMS {
        let pods = pods(clusters, program).await;
        let each = |path: &str| -> BTreeSet<String> {
            let values = pods.iter().map(|pod| pod.pointer(path));
            values
                .map(|value| text(value.unwrap_or(&Value::Null)))
                .collect()
        };
        assert_eq!(pods.len(), 2, "{pods:#?}");
        assert_eq!(each("/spec/nodeName").len(), 2, "on one node: {pods:#?}");
        let restarts = each("/status/containerStatuses/0/restartCount");
        assert_eq!(restarts, BTreeSet::from(["0".to_owned()]));
        for image in each("/spec/containers/0/image") {
            assert!(image.starts_with("registry.example/team/"), "{image}");
        }
    }
}

/// The API server calls the webhook at its Service: what no namespace of the system may expose is
/// refused, in the webhook's words.
async fn the_webhook_refuses(clusters: &Clusters) {
    let wrong = "kubectl create --dry-run=server -f - <<END
apiVersion: networking.karmada.io/v1alpha1
kind: MultiClusterService
metadata: {name: nothing, namespace: kube-system}
spec: {types: [CrossCluster]}
END";
    eventually("the webhook refuses what is wrong", SOON, async || {
        let said = clusters.person.tries(wrong).await.stderr;
        let named = said.contains("namespace kube-system is protected");
        named.then_some(()).ok_or(said)
    })
    .await;
    clusters.did("the API server reaches the webhook at its Service");
}

/// The NetworkPolicies let in what the programs listen on, and nothing else.
pub(crate) async fn policies_let_in_what_is_served(clusters: &Clusters) {
    clusters
        .person
        .types(&format!(
            "helm upgrade causeway manifests/chart -n {NAMESPACE} --reuse-values --set networkPolicy.enabled=true"
        ))
        .await;
    for program in PROGRAMS {
        let policy = format!("networkpolicy {program} -n {NAMESPACE}");
        let policy = clusters.get(&policy).await;
        let pod = &pods(clusters, program).await[0];
        let named: Vec<_> = items(&pod["spec"]["containers"][0]["ports"]).collect();
        let allowed: BTreeSet<u64> = items(&policy["spec"]["ingress"])
            .flat_map(|rule| items(&rule["ports"]))
            .map(|port| {
                let found = named.iter().find(|named| named["name"] == port["port"]);
                let found = found.unwrap_or_else(|| panic!("no port {port} in {named:?}"));
                found["containerPort"].as_u64().expect("a port")
            })
            .collect();
        let served = listening(&text(&pod["metadata"]["uid"]), program);
        assert_eq!(allowed, served, "{program} listens on the latter");
    }
    clusters.did("NetworkPolicies let in what the programs listen on, and nothing else");
}

/// The pods of a program that are not about to go.
pub(crate) async fn pods(clusters: &Clusters, program: &str) -> Vec<Value> {
    let component = program.trim_start_matches("causeway-");
    let label = format!("app.kubernetes.io/component={component}");
    let pods = clusters
        .get(&format!("pods -n {NAMESPACE} -l {label}"))
        .await;
    let stays = |pod: &&Value| pod["metadata"]["deletionTimestamp"].is_null();
    items(&pods["items"]).filter(stays).cloned().collect()
}

impl Clusters {
    /// Returns the output of `kubectl get` for objects of the hub.
    pub(crate) async fn get(&self, what: &str) -> Value {
        let get = format!("kubectl get {what} -o json");
        let said = self.person.types(&get).await;
        serde_json::from_str(&said).expect("JSON")
    }
}

fn items(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}

pub(crate) fn text(value: &Value) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned)
}

fn last_line(said: &str) -> &str {
    let mut lines = said.lines().rev().filter(|line| !line.trim().is_empty());
    lines.next().unwrap_or_default()
}

/// The only block of README.md's commands with these words.
fn readme_with(words: &str) -> String {
    let mut blocks = blocks("README.md", "bash");
    blocks.retain(|block| block.contains(words));
    let [block] = <[String; 1]>::try_from(blocks)
        .unwrap_or_else(|found| panic!("README.md says {words:?} in {} blocks", found.len()));
    block
}
