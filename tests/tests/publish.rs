//! `--publish-exports`: what a MultiClusterService exposes is seen by tools of the clusterset too.

use causeway_tests::causeway::{Installation, Running};
use causeway_tests::{
    Cluster, Fleet, SOON, Space, eventually, multi_cluster_service, service, service_export,
};
use tokio::sync::OnceCell;

struct Environment {
    fleet: Fleet,
    #[allow(dead_code, reason = "it is there to run")]
    controller: Running,
}

/// Two members and a controller that publishes.
async fn env() -> &'static Fleet {
    static ENVIRONMENT: OnceCell<Environment> = OnceCell::const_new();
    let env = ENVIRONMENT.get_or_init(async || {
        let fleet = Fleet::builder().members(2).clusterset().start().await;
        let installation = Installation::new(&fleet).await;
        let launch = installation.controller().arg("--publish-exports");
        let controller = launch.start().await;
        for member in fleet.members() {
            installation.join(member).await;
        }
        Environment { fleet, controller }
    });
    &env.await.fleet
}

/// `foo` is provided by member1 and consumed by member2.
async fn exposed(space: &Space<'_>) -> String {
    let fleet = space.fleet();
    service("foo")
        .port("http", 80)
        .create(fleet.hub(), space)
        .await;
    let mcs = multi_cluster_service("foo")
        .providers(["member1"])
        .consumers(["member2"]);
    mcs.create(space).await;
    let pods = space.backends("foo").count(1);
    pods.create(fleet.member("member1")).await[0]
        .ip()
        .to_owned()
}

async fn prints(space: &Space<'_>, cluster: &Cluster, what: &[&str], expected: &str) {
    let name = format!("{what:?} in {} prints {expected:?}", cluster.name());
    eventually(&name, SOON, async || {
        let get = ["get", "-n", space.name(), "--ignore-not-found"];
        let output = cluster.kubectl(get.iter().chain(what).copied()).await;
        let seen = format!("{}{}", output.stdout, output.stderr);
        if seen.trim() == expected {
            Ok(())
        } else {
            Err(seen)
        }
    })
    .await;
}

async fn cluster_ips(space: &Space<'_>, cluster: &Cluster, service: &str) -> String {
    let path = "jsonpath={.spec.clusterIPs}";
    let get = ["get", "service", service, "-n", space.name(), "-o", path];
    cluster.kubectl(get).await.ok()
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
    let fleet = env().await;
    let space = fleet.space("published").await;
    let ip = exposed(&space).await;
    let (member1, member2) = (fleet.member("member1"), fleet.member("member2"));
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
    let delete = ["delete", "mcs", "foo", "-n", space.name()];
    fleet.hub().kubectl(delete).await.ok();
    for member in [member1, member2] {
        let own = [
            "serviceexports,serviceimports,services,endpointslices",
            "-l",
            "app.kubernetes.io/managed-by=causeway",
            "-o",
            "name",
        ];
        prints(&space, member, &own, "").await;
    }
}

#[tokio::test]
async fn beside_a_persons_export_the_import_is_the_clustersets_alone() {
    let fleet = env().await;
    let space = fleet.space("personal").await;
    exposed(&space).await;
    let (member1, member2) = (fleet.member("member1"), fleet.member("member2"));
    prints(&space, member2, &EXPORTERS, "member1").await;
    service_export("foo").create(member2, &space).await;
    prints(&space, member2, &EXPORTERS, "member2").await;
    prints(&space, member1, &["serviceexport", "-o", "name"], "").await;
    let derived = cluster_ips(&space, member2, "derived-foo").await;
    prints(&space, member2, &IPS, derived.trim()).await;
    let delete = ["delete", "serviceexport", "foo", "-n", space.name()];
    member2.kubectl(delete).await.ok();
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
