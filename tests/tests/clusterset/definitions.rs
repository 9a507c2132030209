//! Clusters that do not serve ServiceExport and ServiceImport, or serve older definitions of them.

use causeway_tests::fixtures::RunningPod;
use causeway_tests::{LONG, eventually, multi_cluster_service, service, service_export};

use super::Turn;
use super::turn::sources;

/// Waits until the Cluster of a member says this of ServiceExport and ServiceImport.
async fn api_is(turn: &Turn, member: &str, status: &str) {
    let path = "jsonpath={.status.conditions[?(@.type==\"ClustersetAPI\")].status}";
    let what = format!("ClustersetAPI of {member} is {status}");
    eventually(&what, LONG, async || {
        let hub = turn.fleet().hub();
        let seen = hub
            .kubectl(["get", "cluster", member, "-o", path])
            .await
            .stdout;
        if seen == status { Ok(()) } else { Err(seen) }
    })
    .await;
}

/// Waits until a member has nothing of imports, whether or not it serves them.
async fn clean_of_imports(turn: &Turn, member: &str) {
    eventually(
        &format!("{member} has nothing of imports"),
        LONG,
        async || {
            let own = "--selector=multicluster.kubernetes.io/service-name";
            let left = ["get", "services,endpointslices", own, "-o", "name"];
            let left = turn.kubectl(member, left).await;
            if left.is_empty() { Ok(()) } else { Err(left) }
        },
    )
    .await;
}

#[ignore = "slow: make test ALL=1"]
#[tokio::test]
async fn cluster_without_definitions_neither_imports_nor_exports() {
    let turn = Turn::alone().await;
    let pod = turn.exporter("member1").await;
    turn.reaches("member2", &[pod.ip()]).await;
    let before = turn.imported_from("member1", &["member1"]).await;
    let member2 = turn.member("member2");
    let lost = exported_as_lost(&turn).await;
    api_is(&turn, "member2", "True").await;

    member2.forget_clusterset().await;
    api_is(&turn, "member2", "False").await;
    clean_of_imports(&turn, "member2").await;
    let imports = turn.imports(turn.member("member1"));
    eventually("what it exported is imported no more", LONG, async || {
        let import = imports.get_opt("lost").await.map_err(|e| e.to_string())?;
        let left = turn.slices(turn.member("member1"), "derived-lost");
        match (import, left.await.as_slice()) {
            (None, []) => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    let services = turn.slices(member2, "lost").await;
    let own = services.iter().flat_map(|slice| &slice.endpoints);
    let own: Vec<_> = own.flat_map(|endpoint| &endpoint.addresses).collect();
    assert_eq!(own, [lost.ip()], "the Service itself is a person's");
    // The others do not notice, and what is carried under its own name is carried there too.
    turn.says("member1", "Ready", "True", "Exported").await;
    let after = turn.imported_from("member1", &["member1"]).await;
    assert_eq!(after.metadata.uid, before.metadata.uid);
    own_name_is_carried(&turn).await;

    member2.serve_older_clusterset().await;
    api_is(&turn, "member2", "True").await;
    let own = serves_v1alpha1(&turn, pod.ip()).await;

    // Newer ones in their place.
    member2.serve_clusterset().await;
    eventually("member2 imports as v1beta1", LONG, async || {
        let import = turn.import("member2").await.ok_or("no import")?;
        let families = !import.spec.ip_families.is_empty();
        if families && sources(&import) == ["member1", "member2"] {
            Ok(())
        } else {
            Err(format!("{import:?}"))
        }
    })
    .await;
    turn.reaches("member2", &[pod.ip(), own.ip()]).await;
}

/// member2 exports `lost`, and member1 reaches its pod.
async fn exported_as_lost(turn: &Turn) -> RunningPod {
    let member2 = turn.member("member2");
    let fixture = service("lost").port("http", 80);
    fixture.create(member2, turn).await;
    let pods = turn.backends("lost").create(member2).await;
    let export = service_export("lost");
    export.create(member2, turn).await;
    eventually("member1 reaches the pod", LONG, async || {
        let member1 = turn.member("member1");
        turn.ready_addresses(member1, "derived-lost").await == [pods[0].ip()]
    })
    .await;
    pods.into_iter().next().expect("one pod")
}

async fn own_name_is_carried(turn: &Turn) {
    let hub = turn.fleet().hub();
    let bar = service("bar").port("http", 80);
    bar.create(hub, turn).await;
    let native = multi_cluster_service("bar").providers(["member1"]);
    native.create(turn).await;
    let pods = turn.backends("bar");
    let pod = pods.create(turn.member("member1")).await.remove(0);
    eventually("member2 reaches the pod", LONG, async || {
        let member2 = turn.member("member2");
        turn.ready_addresses(member2, "bar").await == [pod.ip()]
    })
    .await;
}

/// member2 imports and exports `foo` by its older definitions, beside member1 that exports that
/// pod.
async fn serves_v1alpha1(turn: &Turn, other: &str) -> RunningPod {
    turn.reaches("member2", &[other]).await;
    let imported = "jsonpath={.spec.type} {.status.clusters[*].cluster} {.spec.ips[*]}";
    let kind = "serviceimports.v1alpha1.multicluster.x-k8s.io";
    let imported = turn
        .kubectl("member2", ["get", kind, "foo", "-o", imported])
        .await;
    let derived = turn.derived("member2").await.spec.expect("a spec");
    let address = derived.cluster_ip.expect("an address");
    assert_eq!(imported, format!("ClusterSetIP member1 {address}"));

    turn.service("member2").await;
    let own = turn.pod("member2").await;
    let export = "apiVersion: multicluster.x-k8s.io/v1alpha1
kind: ServiceExport
metadata: {name: foo}
";
    let apply = ["apply", "-n", turn.name(), "-f", "-"];
    turn.member("member2")
        .kubectl_with(apply, export)
        .await
        .ok();
    turn.reaches("member1", &[other, own.ip()]).await;
    turn.imported_from("member1", &["member1", "member2"]).await;
    let valid = "jsonpath={.status.conditions[?(@.type==\"Valid\")].status}";
    let kind = "serviceexports.v1alpha1.multicluster.x-k8s.io";
    eventually("the export is valid", LONG, async || {
        let seen = turn
            .kubectl("member2", ["get", kind, "foo", "-o", valid])
            .await;
        if seen == "True" { Ok(()) } else { Err(seen) }
    })
    .await;
    own
}
