//! Clusters that do not serve ServiceExport and ServiceImport, or serve older definitions of them.

use std::time::Duration;

use causeway_tests::fixtures::RunningPod;
use causeway_tests::{eventually, multi_cluster_service, service, service_export};

use super::Stage;
use super::stage::sources;

/// Longer than it takes to look whether definitions came or went.
const NOTICED: Duration = Duration::from_secs(45);

/// Waits until the Cluster of a member says this of ServiceExport and ServiceImport.
async fn api_is(stage: &Stage, member: &str, status: &str) {
    let path = "jsonpath={.status.conditions[?(@.type==\"ClustersetAPI\")].status}";
    let what = format!("ClustersetAPI of {member} is {status}");
    eventually(&what, NOTICED, async || {
        let hub = stage.space.fleet().hub();
        let seen = hub
            .kubectl(["get", "cluster", member, "-o", path])
            .await
            .stdout;
        if seen == status { Ok(()) } else { Err(seen) }
    })
    .await;
}

/// Waits until a member has nothing of imports, whether or not it serves them.
async fn clean_of_imports(stage: &Stage, member: &str) {
    eventually(
        &format!("{member} has nothing of imports"),
        NOTICED,
        async || {
            let own = "--selector=multicluster.kubernetes.io/service-name";
            let left = ["get", "services,endpointslices", own, "-o", "name"];
            let left = stage.kubectl(member, left).await;
            if left.is_empty() { Ok(()) } else { Err(left) }
        },
    )
    .await;
}

#[tokio::test]
async fn cluster_without_definitions_neither_imports_nor_exports() {
    let stage = Stage::alone().await;
    let pod = stage.exporter("member1").await;
    stage.reaches("member2", &[pod.ip()]).await;
    let before = stage.imported_from("member1", &["member1"]).await;
    let member2 = stage.member("member2");
    let lost = exported_as_lost(&stage).await;
    api_is(&stage, "member2", "True").await;

    member2.forget_clusterset().await;
    api_is(&stage, "member2", "False").await;
    clean_of_imports(&stage, "member2").await;
    let imports = stage.space.imports(stage.member("member1"));
    eventually(
        "what it exported is imported no more",
        NOTICED,
        async || {
            let import = imports.get_opt("lost").await.map_err(|e| e.to_string())?;
            let left = stage.space.slices(stage.member("member1"), "derived-lost");
            match (import, left.await.as_slice()) {
                (None, []) => Ok(()),
                other => Err(format!("{other:?}")),
            }
        },
    )
    .await;
    let services = stage.space.slices(member2, "lost").await;
    let own = services.iter().flat_map(|slice| &slice.endpoints);
    let own: Vec<_> = own.flat_map(|endpoint| &endpoint.addresses).collect();
    assert_eq!(own, [lost.ip()], "the Service itself is a person's");
    // The others do not notice, and what is carried under its own name is carried there too.
    stage.says("member1", "Ready", "True", "Exported").await;
    let after = stage.imported_from("member1", &["member1"]).await;
    assert_eq!(after.metadata.uid, before.metadata.uid);
    own_name_is_carried(&stage).await;

    member2.serve_older_clusterset().await;
    api_is(&stage, "member2", "True").await;
    let own = serves_v1alpha1(&stage, pod.ip()).await;

    // Newer ones in their place.
    member2.serve_clusterset().await;
    eventually("member2 imports as v1beta1", NOTICED, async || {
        let import = stage.import("member2").await.ok_or("no import")?;
        let families = !import.spec.ip_families.is_empty();
        if families && sources(&import) == ["member1", "member2"] {
            Ok(())
        } else {
            Err(format!("{import:?}"))
        }
    })
    .await;
    stage.reaches("member2", &[pod.ip(), own.ip()]).await;
}

/// member2 exports `lost`, and member1 reaches its pod.
async fn exported_as_lost(stage: &Stage) -> RunningPod {
    let member2 = stage.member("member2");
    let fixture = service("lost").port("http", 80);
    fixture.create(member2, &stage.space).await;
    let pods = stage.space.backends("lost").create(member2).await;
    let export = service_export("lost");
    export.create(member2, &stage.space).await;
    eventually("member1 reaches the pod", NOTICED, async || {
        let member1 = stage.member("member1");
        stage.space.ready_addresses(member1, "derived-lost").await == [pods[0].ip()]
    })
    .await;
    pods.into_iter().next().expect("one pod")
}

async fn own_name_is_carried(stage: &Stage) {
    let hub = stage.space.fleet().hub();
    let bar = service("bar").port("http", 80);
    bar.create(hub, &stage.space).await;
    let native = multi_cluster_service("bar").providers(["member1"]);
    native.create(&stage.space).await;
    let pods = stage.space.backends("bar");
    let pod = pods.create(stage.member("member1")).await.remove(0);
    eventually("member2 reaches the pod", NOTICED, async || {
        let member2 = stage.member("member2");
        stage.space.ready_addresses(member2, "bar").await == [pod.ip()]
    })
    .await;
}

/// member2 imports and exports `foo` by its older definitions, beside member1 that exports that pod.
async fn serves_v1alpha1(stage: &Stage, other: &str) -> RunningPod {
    stage.reaches("member2", &[other]).await;
    let imported = "jsonpath={.spec.type} {.status.clusters[*].cluster} {.spec.ips[*]}";
    let kind = "serviceimports.v1alpha1.multicluster.x-k8s.io";
    let imported = stage
        .kubectl("member2", ["get", kind, "foo", "-o", imported])
        .await;
    let derived = stage.derived("member2").await.spec.expect("a spec");
    let address = derived.cluster_ip.expect("an address");
    assert_eq!(imported, format!("ClusterSetIP member1 {address}"));

    stage.service("member2").await;
    let own = stage.pod("member2").await;
    let export = "apiVersion: multicluster.x-k8s.io/v1alpha1
kind: ServiceExport
metadata: {name: foo}
";
    let apply = ["apply", "-n", stage.space.name(), "-f", "-"];
    stage
        .member("member2")
        .kubectl_with(apply, export)
        .await
        .ok();
    stage.reaches("member1", &[other, own.ip()]).await;
    stage
        .imported_from("member1", &["member1", "member2"])
        .await;
    let valid = "jsonpath={.status.conditions[?(@.type==\"Valid\")].status}";
    let kind = "serviceexports.v1alpha1.multicluster.x-k8s.io";
    eventually("the export is valid", NOTICED, async || {
        let seen = stage
            .kubectl("member2", ["get", kind, "foo", "-o", valid])
            .await;
        if seen == "True" { Ok(()) } else { Err(seen) }
    })
    .await;
    own
}
