//! The clusterset while clusters or the controller are away.

use std::time::Duration;

use causeway::api::multicluster::ServiceImportSpec;
use causeway_tests::eventually::throughout;
use causeway_tests::{SOON, eventually, service, service_export};
use kube::api::DeleteParams;

use super::Stage;

/// Long enough for a probe to miss a member, or to find it again.
const NOTICED: Duration = Duration::from_secs(45);

/// Waits until the controller says that of a member.
async fn member_is(stage: &Stage, member: &str, state: &str) {
    eventually(&format!("{member} is {state}"), NOTICED, async || {
        let metrics = stage.set.controller.metrics().await;
        let labels = [("cluster", member), ("state", state)];
        metrics.get("causeway_controller_member_state", &labels) == Some(1.0)
    })
    .await;
}

/// Everything of the import in a member, with the versions of all objects.
async fn everything(stage: &Stage, member: &str) -> String {
    let kinds = "services,endpointslices,serviceimports,serviceexports";
    let versions = "jsonpath={range .items[*]}{.kind}/{.metadata.name} {.metadata.uid} {.metadata.resourceVersion}{\"\\n\"}{end}";
    stage.kubectl(member, ["get", kinds, "-o", versions]).await
}

#[tokio::test]
async fn over_a_restart_of_the_controller_nothing_is_written() {
    let stage = Stage::alone().await;
    let first = stage.exporter("member1").await;
    let second = stage.exporter("member2").await;
    for member in ["member1", "member2"] {
        stage.reaches(member, &[first.ip(), second.ip()]).await;
        stage.imported_from(member, &["member1", "member2"]).await;
        stage.says(member, "Ready", "True", "Exported").await;
    }
    let before = [
        everything(&stage, "member1").await,
        everything(&stage, "member2").await,
    ];
    stage.set.controller.restart().await;
    // A new controller has been through everything when it has dealt with what is new.
    service("bar")
        .port("http", 80)
        .create(stage.member("member1"), &stage.space)
        .await;
    let bar = service_export("bar");
    bar.create(stage.member("member1"), &stage.space).await;
    let imports = stage.space.imports(stage.member("member2"));
    eventually("the new export is imported", NOTICED, async || {
        imports.get("bar").await.map_err(|e| e.to_string())
    })
    .await;
    throughout("nothing is written", Duration::from_secs(2), async || {
        for (member, before) in ["member1", "member2"].into_iter().zip(&before) {
            let after = everything(&stage, member).await;
            if let Some(changed) = before.lines().find(|line| !after.contains(line)) {
                return Err(format!("{member}: {changed} is not in {after}"));
            }
        }
        Ok(())
    })
    .await;
}

#[tokio::test]
async fn a_service_whose_address_somebody_took_meanwhile_gets_another() {
    let stage = Stage::alone().await;
    let pod = stage.exporter("member1").await;
    let before = stage.imported_from("member2", &["member1"]).await.spec;
    stage.set.controller.process().kill().await;
    let derived = ["delete", "svc", "derived-foo"];
    stage.kubectl("member2", derived).await;
    let address = format!("--clusterip={}", before.ips[0]);
    let squat = [
        "create",
        "svc",
        "clusterip",
        "squatter",
        "--tcp=80",
        &address,
    ];
    let squat = squat.into_iter().chain(["-n", stage.space.name()]);
    // The API server gives an address back a moment after the Service is gone.
    eventually("the address is somebody else's", SOON, async || {
        let made = stage.member("member2").kubectl(squat.clone()).await;
        made.exit.success().then_some(()).ok_or(made.stderr)
    })
    .await;
    stage.set.controller.restart().await;
    let after = stage
        .imported_as("member2", "another address", |import| {
            import.spec.ips.len() == 1 && import.spec.ips != before.ips
        })
        .await;
    stage.reaches("member2", &[pod.ip()]).await;
    let service = stage.derived("member2").await.spec.expect("a spec");
    assert_eq!(service.cluster_ips, Some(after.spec.ips));
    stage.says("member1", "Ready", "True", "Exported").await;
}

#[tokio::test]
async fn unreachable_exporter_counts_with_its_last_state() {
    let stage = Stage::alone().await;
    let older = service("foo").port("http", 80).port("metrics", 9090);
    older.create(stage.member("member1"), &stage.space).await;
    stage.export("member1").await;
    let away = stage.pod("member1").await;
    stage.service("member2").await;
    let here = stage.pod("member2").await;
    stage.export_later("member2").await;
    stage.reaches("member2", &[away.ip(), here.ip()]).await;
    let before = stage
        .imported_from("member2", &["member1", "member2"])
        .await;
    assert_eq!(before.spec.ports.len(), 2);

    gone_is_exported(&stage).await;

    stage.member("member1").pause();
    member_is(&stage, "member1", "unreachable").await;
    here.set_ready(false).await;
    stage.reaches("member2", &[away.ip()]).await;
    here.set_ready(true).await;
    stage.reaches("member2", &[away.ip(), here.ip()]).await;
    gone_is_exported_no_more(&stage).await;
    let while_away = stage
        .imported_from("member2", &["member1", "member2"])
        .await;
    assert_eq!(while_away.spec, before.spec);

    // A controller that never observed the exporter knows of it from the import.
    stage.set.controller.restart().await;
    member_is(&stage, "member2", "synced").await;
    let grown = with_a_port_more(&stage).await;
    assert_eq!(grown.ports[..2], before.spec.ports[..]);
    assert_eq!(grown.ips, before.spec.ips);
    stage.reaches("member2", &[away.ip(), here.ip()]).await;

    stage.member("member1").resume();
    member_is(&stage, "member1", "synced").await;
    stage
        .imported_from("member1", &["member1", "member2"])
        .await;
    stage.reaches("member1", &[away.ip(), here.ip()]).await;
    gone_is_forgotten(&stage).await;
    stage.unexport("member1").await;
    stage.imported_from("member2", &["member2"]).await;
    stage.reaches("member2", &[here.ip()]).await;
    stage
        .imported_as("member2", "the ports that are left", |import| {
            let ports = import.spec.ports.iter().map(|port| port.port);
            ports.collect::<Vec<_>>() == [80, 7070]
        })
        .await;
}

/// Returns the import of member2 when it exports a third port.
async fn with_a_port_more(stage: &Stage) -> ServiceImportSpec {
    let add =
        r#"[{"op": "add", "path": "/spec/ports/-", "value": {"name": "admin", "port": 7070}}]"#;
    let patch = ["patch", "svc", "foo", "--type=json", "-p", add];
    stage.kubectl("member2", patch).await;
    let grown = stage.imported_as("member2", "a third port", |import| {
        import.spec.ports.len() == 3
    });
    grown.await.spec
}

/// member2 exports `gone`, and member1 imports it.
async fn gone_is_exported(stage: &Stage) {
    let member2 = stage.member("member2");
    let fixture = service("gone").port("http", 80);
    fixture.create(member2, &stage.space).await;
    service_export("gone").create(member2, &stage.space).await;
    let imports = stage.space.imports(stage.member("member1"));
    eventually("it is imported", SOON, async || {
        imports.get("gone").await.map_err(|e| e.to_string())
    })
    .await;
}

/// The export of `gone` ends.
async fn gone_is_exported_no_more(stage: &Stage) {
    let exports = stage.space.exports(stage.member("member2"));
    let deleted = exports.delete("gone", &DeleteParams::default()).await;
    deleted.expect("the export is there");
    let imports = stage.space.imports(stage.member("member2"));
    eventually("member2 imports it no more", SOON, async || {
        matches!(imports.get_opt("gone").await, Ok(None))
    })
    .await;
}

/// Waits until nothing of `gone` is left in member1, which is back.
async fn gone_is_forgotten(stage: &Stage) {
    let of_gone = "--selector=multicluster.kubernetes.io/service-name=gone";
    eventually("member1 has nothing of it", NOTICED, async || {
        let left = ["get", "services,endpointslices", of_gone, "-o", "name"];
        let left = stage.kubectl("member1", left).await;
        let import = [
            "get",
            "serviceimport",
            "gone",
            "--ignore-not-found",
            "-o",
            "name",
        ];
        let left = left + &stage.kubectl("member1", import).await;
        if left.is_empty() { Ok(()) } else { Err(left) }
    })
    .await;
}

#[tokio::test]
async fn removed_member_loses_its_imports_and_its_exports() {
    let stage = Stage::alone().await;
    let first = stage.exporter("member1").await;
    let second = stage.exporter("member2").await;
    for member in ["member1", "member2"] {
        stage.reaches(member, &[first.ip(), second.ip()]).await;
    }
    let member2 = stage.member("member2");
    let kubeconfig = member2.kubeconfig().display().to_string();
    let kubeconfig = ["--member-kubeconfig", &kubeconfig];
    let leave = ["unjoin", "member2", "--lease="]
        .into_iter()
        .chain(kubeconfig);
    stage.set.installation.kubectl_mcs(leave).await.ok();
    let left = [
        "get",
        "services,endpointslices,serviceimports",
        "--selector=app.kubernetes.io/managed-by=causeway",
        "-o",
        "name",
    ];
    assert_eq!(stage.kubectl("member2", left).await, "");
    stage.imported_from("member1", &["member1"]).await;
    stage.reaches("member1", &[first.ip()]).await;
    eventually("nothing of it is known", SOON, async || {
        let metrics = stage.set.controller.metrics().await;
        let labels = [("cluster", "member2"), ("state", "synced")];
        metrics.get("causeway_controller_member_state", &labels) != Some(1.0)
    })
    .await;
    stage.set.installation.join(member2).await;
    stage
        .imported_from("member2", &["member1", "member2"])
        .await;
    stage.reaches("member2", &[first.ip(), second.ip()]).await;
}

async fn imports_bar(stage: &Stage, member: &str) {
    let imports = stage.space.imports(stage.member(member));
    eventually(&format!("{member} imports bar"), SOON, async || {
        let import = imports.get_opt("bar").await.map_err(|e| e.to_string())?;
        import.ok_or_else(|| "no import".to_owned())
    })
    .await;
}

#[tokio::test]
async fn exports_of_another_controller_are_left_to_it() {
    let stage = Stage::alone().await;
    let pod = stage.exporter("member1").await;
    stage.reaches("member2", &[pod.ip()]).await;
    stage.set.controller.process().kill().await;
    let theirs = service_export("theirs");
    theirs.create(stage.member("member2"), &stage.space).await;
    let conditions = r#"{"status":{"conditions":[{"type":"Ready","status":"True","reason":"Exported","message":"","lastTransitionTime":"2026-11-26T00:00:00Z"}]}}"#;
    let by_another = [
        "patch",
        "serviceexport",
        "theirs",
        "--subresource=status",
        "--field-manager=cilium-operator",
        "--type=merge",
        "-p",
        conditions,
    ];
    stage.kubectl("member2", by_another).await;
    stage.set.controller.restart().await;

    // What is served already goes on, and what comes is the other controller's.
    let hub = stage.space.fleet().hub();
    let api = "jsonpath={.status.conditions[?(@.type==\"ClustersetAPI\")]}";
    eventually("the Cluster names the other controller", SOON, async || {
        let cluster = ["get", "cluster", "member2", "-o", api];
        let api = hub.kubectl(cluster).await.ok();
        let is_named = api.contains("ManagedByOther") && api.contains("cilium-operator");
        if is_named { Ok(()) } else { Err(api) }
    })
    .await;
    let second = stage.pod("member1").await;
    stage.reaches("member2", &[pod.ip(), second.ip()]).await;
    stage.service("member2").await;
    let own = stage.export("member2").await;
    let bar = service("bar").port("http", 80);
    bar.create(stage.member("member1"), &stage.space).await;
    let export = service_export("bar");
    export.create(stage.member("member1"), &stage.space).await;
    imports_bar(&stage, "member1").await;
    let imports = stage.space.imports(stage.member("member2"));
    let bar = imports.get_opt("bar").await.expect("an answer");
    assert!(bar.is_none(), "{bar:?}");
    let exports = stage.space.exports(stage.member("member2"));
    let left = exports.get("foo").await.expect("the export");
    assert_eq!(
        left.metadata.resource_version,
        own.metadata.resource_version
    );
    let check = stage.set.installation.kubectl_mcs(["check"]).await;
    let warning = "cilium-operator manages ServiceExports and ServiceImports in member2";
    assert!(check.stdout.contains(warning), "{}", check.stdout);

    // Once its last object is gone, causeway serves the member as all others.
    stage
        .kubectl("member2", ["delete", "serviceexport", "theirs"])
        .await;
    imports_bar(&stage, "member2").await;
    stage.says("member2", "Valid", "True", "Valid").await;
}
