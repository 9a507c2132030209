//! `--publish-exports`: what a MultiClusterService exposes is seen by tools of the clusterset too.

use causeway_tests::{Cluster, Environment, Fleet, Space, service_export};
use tokio::sync::OnceCell;

/// Two members and a controller that publishes. `foo` is provided by member1, which has one pod of
/// it, and consumed by member2.
async fn exposed(prefix: &str) -> (Space<'static>, String) {
    static ENVIRONMENT: OnceCell<Environment> = OnceCell::const_new();
    let start = async || {
        let fleet = Fleet::builder().members(2).clusterset().start().await;
        Environment::builder()
            .flag("--publish-exports")
            .start(fleet)
            .await
    };
    let env = ENVIRONMENT.get_or_init(start).await;
    let space = env.space(prefix).await;
    space.expose("foo", ["member1"], ["member2"]).await;
    let pod = space.pod("foo", "member1").await;
    (space, pod.ip().to_owned())
}

async fn prints(space: &Space<'_>, cluster: &Cluster, what: &[&str], expected: &str) {
    let get = ["get", "--ignore-not-found"].into_iter();
    space
        .prints(cluster, get.chain(what.iter().copied()), expected)
        .await;
}

async fn cluster_ips(space: &Space<'_>, cluster: &Cluster, service: &str) -> String {
    let path = "jsonpath={.spec.clusterIPs}";
    space
        .kubectl(cluster, ["get", "service", service, "-o", path])
        .await
}

const IPS: [&str; 4] = ["serviceimport", "foo", "-o", "jsonpath={.spec.ips}"];
const EXPORTERS: [&str; 4] = [
    "serviceimport",
    "foo",
    "-o",
    "jsonpath={.status.clusters[*].cluster}",
];

#[tokio::test]
async fn published_service_is_imported_under_its_own_address() {
    let (space, ip) = exposed("published").await;
    let (member1, member2) = (space.member("member1"), space.member("member2"));
    let ready = "jsonpath={.status.conditions[?(@.type==\"Ready\")].reason}";
    prints(
        &space,
        member1,
        &["serviceexport", "foo", "-o", ready],
        "Exported",
    )
    .await;
    prints(&space, member2, &EXPORTERS, "member1").await;
    let own = cluster_ips(&space, member2, "foo").await;
    prints(&space, member2, &IPS, own.trim()).await;
    let labelled = [
        "endpointslices",
        "-l",
        "multicluster.kubernetes.io/service-name=foo,multicluster.kubernetes.io/source-cluster=member1",
        "-o",
        "jsonpath={.items[*].endpoints[*].addresses[0]}",
    ];
    prints(&space, member2, &labelled, &ip).await;
    prints(
        &space,
        member2,
        &["service", "derived-foo", "-o", "name"],
        "",
    )
    .await;
    space.delete("foo").await;
    for member in ["member1", "member2"] {
        space.is_clean(member).await;
    }
}

#[tokio::test]
async fn beside_a_persons_export_the_import_is_the_clustersets_alone() {
    let (space, _) = exposed("personal").await;
    let (member1, member2) = (space.member("member1"), space.member("member2"));
    prints(&space, member2, &EXPORTERS, "member1").await;
    service_export("foo").create(member2, &space).await;
    prints(&space, member2, &EXPORTERS, "member2").await;
    prints(&space, member1, &["serviceexport", "-o", "name"], "").await;
    let derived = cluster_ips(&space, member2, "derived-foo").await;
    prints(&space, member2, &IPS, derived.trim()).await;
    space
        .kubectl(member2, ["delete", "serviceexport", "foo"])
        .await;
    prints(&space, member2, &EXPORTERS, "member1").await;
    let own = cluster_ips(&space, member2, "foo").await;
    prints(&space, member2, &IPS, own.trim()).await;
    prints(
        &space,
        member2,
        &["service", "derived-foo", "-o", "name"],
        "",
    )
    .await;
}
