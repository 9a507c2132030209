//! Reports on paths in a member, without the program that makes them.

use causeway::api::labels;
use causeway::domain::ClusterName;
use causeway::domain::path::{NAMESPACE, Path, PathReport};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::Api;
use kube::api::{Patch, PatchParams};

use crate::{Cluster, Environment};

/// Has hub and member ready for reports on paths from the member: rights, and the annotation.
pub async fn with_path_reports(env: &Environment, member: &Cluster) {
    let manifest = env.installation.manifest("member/paths.yaml");
    member.kubectl(["apply", "-f", &manifest]).await.ok();
    let annotation = format!("{}=true", labels::PATH_REPORTS);
    let annotate = ["annotate", "cluster", member.name(), &annotation];
    env.fleet.hub().kubectl(annotate).await.ok();
}

/// Has the hub read no more reports on paths from the member.
pub async fn without_path_reports(env: &Environment, member: &Cluster) {
    let annotation = format!("{}-", labels::PATH_REPORTS);
    let annotate = ["annotate", "cluster", member.name(), &annotation];
    env.fleet.hub().kubectl(annotate).await.ok();
}

/// Reports the path from a member to a cluster, as of that many seconds ago. Without a path the
/// report is unreadable.
pub async fn report_path(member: &Cluster, source: &str, path: Option<Path>, seconds_ago: i64) {
    let probed = Timestamp::now() - SignedDuration::from_secs(seconds_ago);
    let report = PathReport {
        path: path.unwrap_or(Path::Good),
        since: probed,
        probed,
        answered: 0,
        tried: 3,
    };
    let source = ClusterName::try_from(source).expect("a name");
    let mut lease = report.lease(&source, "a test", None);
    if path.is_none() {
        let annotations = lease.metadata.annotations.as_mut();
        let annotations = annotations.expect("the report");
        annotations.insert(labels::PATH.to_owned(), "unreadable".to_owned());
    }
    let leases = Api::<Lease>::namespaced(member.client(), NAMESPACE);
    let name = lease.metadata.name.clone().expect("a name");
    // Applied, not replaced: a write that is repeated because its answer was lost is no conflict.
    let parameters = PatchParams::apply("a test").force();
    let stored = leases
        .patch(&name, &parameters, &Patch::Apply(&lease))
        .await;
    drop(stored.expect("it is stored"));
}
