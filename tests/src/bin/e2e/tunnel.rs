//! A member that causeway reaches by its tunnel: causeway-tunnel and causeway-agent run as pods, in
//! namespaces that enforce the strictest Pod Security standard.

use causeway::domain::path::{self, Path, PathLease};
use causeway_tests::causeway::NAMESPACE;
use causeway_tests::{Cluster, LONG, eventually};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::jiff::Timestamp;
use kube::Api;
use kube::api::ListParams;
use serde_json::Value;

use crate::Clusters;
use crate::networks::{APART, FROM_HUB};

/// Port of each node of the hub at which agents reach causeway-tunnel.
const NODE_PORT: u16 = 30443;

/// Joins the member in each way that an agent may take, and replaces the pods of both ends.
pub(crate) async fn carries_a_member(clusters: &Clusters) {
    let person = &clusters.person;
    let of_member = format!("--kubeconfig ~/.kube/{APART}");
    let unjoin = format!("kubectl mcs unjoin {APART} --member-kubeconfig ~/.kube/{APART}");
    person.types(&unjoin).await;
    let restricted = "pod-security.kubernetes.io/enforce=restricted";
    for of in ["", &of_member] {
        let namespace = format!("create namespace {NAMESPACE}");
        let apply = format!("kubectl {of} apply -f -");
        let label = format!("kubectl {of} label namespace {NAMESPACE} {restricted} --overwrite");
        let create = format!("kubectl {namespace} --dry-run=client -o yaml | {apply}");
        person.types(&format!("{create} && {label}")).await;
    }
    let node = clusters.hub().node_address().expect("a fleet with packets");
    let tunnel = format!("--tunnel {node}:{NODE_PORT}");
    let install = format!("kubectl mcs install {tunnel} --enrolment --through-api-server");
    person.types(&install).await;
    clusters.did(&format!("{install}: all pods are ready"));
    let port =
        format!(r#"{{"spec": {{"ports": [{{"port": {NODE_PORT}, "nodePort": {NODE_PORT}}}]}}}}"#);
    let patch = format!("kubectl patch service causeway-tunnel-agents -n {NAMESPACE} -p '{port}'");
    person.types(&patch).await;

    let network = "--network edge --reach node-ports";
    let both = format!("--member-kubeconfig ~/.kube/{APART} --pull {tunnel} {network}");
    for ways in [
        format!("{both} --report-paths"),
        format!("{both} --through-api-server"),
        format!("--pull {tunnel} {network} -o yaml | kubectl {of_member} apply -f -"),
    ] {
        let join = format!("kubectl mcs join {APART} {ways}");
        person.types(&join).await;
        is_connected(clusters).await;
        clusters.did(&join);
        FROM_HUB.is_answered(clusters).await;
        if ways.contains("--report-paths") {
            reports_paths(clusters.fleet.member(APART)).await;
            clusters.did("causeway-agent reports a good path to the hub's pods");
            replaces_pods(clusters, &of_member).await;
        }
        person.types(&unjoin).await;
    }
}

/// Waits until each replica of causeway-tunnel has the agent, and the member is synced.
async fn is_connected(clusters: &Clusters) {
    eventually("the agent is connected to each replica", LONG, async || {
        let shown = clusters.person.tries("kubectl mcs tunnel -o json").await;
        let report: Value = serde_json::from_str(&shown.stdout).map_err(|e| e.to_string())?;
        let member = &report["members"][0];
        let is_so = member["name"] == APART
            && member["connected"] == true
            && member["replicas"] == report["replicas"]
            && report["replicas"] == 2;
        is_so.then_some(()).ok_or_else(|| report.to_string())
    })
    .await;
    let ready = format!("kubectl wait --for=condition=Ready cluster/{APART} --timeout=180s");
    clusters.person.types(&ready).await;
}

async fn reports_paths(member: &Cluster) {
    let leases = Api::<Lease>::namespaced(member.client(), path::NAMESPACE);
    eventually("the path to the hub is good", LONG, async || {
        let found = leases.list(&ListParams::default()).await;
        let found = found.map_err(|e| e.to_string())?.items;
        let now = Timestamp::now();
        let mut read = found.iter().filter_map(PathLease::read);
        let is_good = read.any(|lease| {
            let report = lease.report_at(now);
            lease.source.as_str() == "hub" && report.is_some_and(|one| one.path == Path::Good)
        });
        is_good.then_some(()).ok_or_else(|| format!("{found:?}"))
    })
    .await;
}

/// Replaces the pods of causeway-tunnel, then that of the agent.
async fn replaces_pods(clusters: &Clusters, of_member: &str) {
    for (program, kubeconfig) in [("causeway-tunnel", ""), ("causeway-agent", of_member)] {
        let rollout = format!("kubectl {kubeconfig} rollout");
        let deployment = format!("-n {NAMESPACE} deployment/{program}");
        clusters
            .person
            .types(&format!(
                "{rollout} restart {deployment} && {rollout} status {deployment} --timeout=180s"
            ))
            .await;
        is_connected(clusters).await;
        FROM_HUB.is_answered(clusters).await;
        clusters.did(&format!("the pods of {program} were replaced"));
    }
}
