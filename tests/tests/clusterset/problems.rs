//! The clusterset while clusters or the controller are away.

use causeway::api::multicluster::ServiceImportSpec;
use causeway_tests::{LONG, SOON, eventually, service, service_export};
use kube::api::DeleteParams;

use super::Turn;

/// Waits until the controller says that of a member.
async fn member_is(turn: &Turn, member: &str, state: &str) {
    eventually(&format!("{member} is {state}"), LONG, async || {
        let metrics = turn.set.controller.metrics().await;
        let labels = [("cluster", member), ("state", state)];
        metrics.get("causeway_controller_member_state", &labels) == Some(1.0)
    })
    .await;
}

#[tokio::test]
async fn a_service_whose_address_somebody_took_meanwhile_gets_another() {
    let turn = Turn::alone().await;
    let pod = turn.exporter("member1").await;
    let before = turn.imported_from("member2", &["member1"]).await.spec;
    turn.set.controller.process().kill().await;
    let derived = ["delete", "svc", "derived-foo"];
    turn.kubectl("member2", derived).await;
    let address = format!("--clusterip={}", before.ips[0]);
    let squat = [
        "create",
        "svc",
        "clusterip",
        "squatter",
        "--tcp=80",
        &address,
    ];
    let squat = squat.into_iter().chain(["-n", turn.name()]);
    // The API server gives an address back a moment after the Service is gone.
    eventually("the address is somebody else's", SOON, async || {
        let made = turn.member("member2").kubectl(squat.clone()).await;
        made.exit.success().then_some(()).ok_or(made.stderr)
    })
    .await;
    turn.set.controller.restart().await;
    let after = turn
        .imported_as("member2", "another address", |import| {
            import.spec.ips.len() == 1 && import.spec.ips != before.ips
        })
        .await;
    turn.reaches("member2", &[pod.ip()]).await;
    let service = turn.derived("member2").await.spec.expect("a spec");
    assert_eq!(service.cluster_ips, Some(after.spec.ips));
    turn.says("member1", "Ready", "True", "Exported").await;
}

#[tokio::test]
async fn unreachable_exporter_counts_with_its_last_state() {
    let turn = Turn::alone().await;
    let older = service("foo").port("http", 80).port("metrics", 9090);
    older.create(turn.member("member1"), &turn).await;
    turn.export("member1").await;
    let away = turn.pod("member1").await;
    turn.service("member2").await;
    let here = turn.pod("member2").await;
    turn.export_later("member2").await;
    turn.reaches("member2", &[away.ip(), here.ip()]).await;
    let before = turn.imported_from("member2", &["member1", "member2"]).await;
    assert_eq!(before.spec.ports.len(), 2);

    gone_is_exported(&turn).await;

    turn.member("member1").pause();
    member_is(&turn, "member1", "unreachable").await;
    here.set_ready(false).await;
    turn.reaches("member2", &[away.ip()]).await;
    here.set_ready(true).await;
    turn.reaches("member2", &[away.ip(), here.ip()]).await;
    gone_is_exported_no_more(&turn).await;
    let while_away = turn.imported_from("member2", &["member1", "member2"]).await;
    assert_eq!(while_away.spec, before.spec);

    // A controller that never observed the exporter knows of it from the import.
    turn.set.controller.restart().await;
    member_is(&turn, "member2", "synced").await;
    let grown = with_a_port_more(&turn).await;
    assert_eq!(grown.ports[..2], before.spec.ports[..]);
    assert_eq!(grown.ips, before.spec.ips);
    turn.reaches("member2", &[away.ip(), here.ip()]).await;

    turn.member("member1").resume();
    member_is(&turn, "member1", "synced").await;
    turn.imported_from("member1", &["member1", "member2"]).await;
    turn.reaches("member1", &[away.ip(), here.ip()]).await;
    gone_is_forgotten(&turn).await;
    turn.unexport("member1").await;
    turn.imported_from("member2", &["member2"]).await;
    turn.reaches("member2", &[here.ip()]).await;
    turn.imported_as("member2", "the ports that are left", |import| {
        let ports = import.spec.ports.iter().map(|port| port.port);
        ports.collect::<Vec<_>>() == [80, 7070]
    })
    .await;
}

/// Returns the import of member2 when it exports a third port.
async fn with_a_port_more(turn: &Turn) -> ServiceImportSpec {
    let add =
        r#"[{"op": "add", "path": "/spec/ports/-", "value": {"name": "admin", "port": 7070}}]"#;
    let patch = ["patch", "svc", "foo", "--type=json", "-p", add];
    turn.kubectl("member2", patch).await;
    let grown = turn.imported_as("member2", "a third port", |import| {
        import.spec.ports.len() == 3
    });
    grown.await.spec
}

/// member2 exports `gone`, and member1 imports it.
async fn gone_is_exported(turn: &Turn) {
    let member2 = turn.member("member2");
    let fixture = service("gone").port("http", 80);
    fixture.create(member2, turn).await;
    service_export("gone").create(member2, turn).await;
    let imports = turn.imports(turn.member("member1"));
    eventually("it is imported", SOON, async || {
        imports.get("gone").await.map_err(|e| e.to_string())
    })
    .await;
}

/// The export of `gone` ends.
async fn gone_is_exported_no_more(turn: &Turn) {
    let exports = turn.exports(turn.member("member2"));
    let deleted = exports.delete("gone", &DeleteParams::default()).await;
    deleted.expect("the export is there");
    let imports = turn.imports(turn.member("member2"));
    eventually("member2 imports it no more", SOON, async || {
        matches!(imports.get_opt("gone").await, Ok(None))
    })
    .await;
}

/// Waits until nothing of `gone` is left in member1, which is back.
async fn gone_is_forgotten(turn: &Turn) {
    let of_gone = "--selector=multicluster.kubernetes.io/service-name=gone";
    eventually("member1 has nothing of it", LONG, async || {
        let left = ["get", "services,endpointslices", of_gone, "-o", "name"];
        let left = turn.kubectl("member1", left).await;
        let import = [
            "get",
            "serviceimport",
            "gone",
            "--ignore-not-found",
            "-o",
            "name",
        ];
        let left = left + &turn.kubectl("member1", import).await;
        if left.is_empty() { Ok(()) } else { Err(left) }
    })
    .await;
}

#[tokio::test]
async fn removed_member_loses_its_imports_and_its_exports() {
    let turn = Turn::alone().await;
    let first = turn.exporter("member1").await;
    let second = turn.exporter("member2").await;
    for member in ["member1", "member2"] {
        turn.reaches(member, &[first.ip(), second.ip()]).await;
    }
    let member2 = turn.member("member2");
    let kubeconfig = member2.kubeconfig().display().to_string();
    let kubeconfig = ["--member-kubeconfig", &kubeconfig];
    let leave = ["unjoin", "member2", "--lease="]
        .into_iter()
        .chain(kubeconfig);
    turn.set.installation.kubectl_mcs(leave).await.ok();
    let left = [
        "get",
        "services,endpointslices,serviceimports",
        "--selector=app.kubernetes.io/managed-by=causeway",
        "-o",
        "name",
    ];
    assert_eq!(turn.kubectl("member2", left).await, "");
    turn.imported_from("member1", &["member1"]).await;
    turn.reaches("member1", &[first.ip()]).await;
    eventually("nothing of it is known", SOON, async || {
        let metrics = turn.set.controller.metrics().await;
        let labels = [("cluster", "member2"), ("state", "synced")];
        metrics.get("causeway_controller_member_state", &labels) != Some(1.0)
    })
    .await;
    turn.set.installation.join(member2).await;
    turn.imported_from("member2", &["member1", "member2"]).await;
    turn.reaches("member2", &[first.ip(), second.ip()]).await;
}

async fn imports_bar(turn: &Turn, member: &str) {
    let imports = turn.imports(turn.member(member));
    eventually(&format!("{member} imports bar"), SOON, async || {
        let import = imports.get_opt("bar").await.map_err(|e| e.to_string())?;
        import.ok_or_else(|| "no import".to_owned())
    })
    .await;
}

#[tokio::test]
async fn exports_of_another_controller_are_left_to_it() {
    let turn = Turn::alone().await;
    let pod = turn.exporter("member1").await;
    turn.reaches("member2", &[pod.ip()]).await;
    turn.set.controller.process().kill().await;
    let theirs = service_export("theirs");
    theirs.create(turn.member("member2"), &turn).await;
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
    turn.kubectl("member2", by_another).await;
    turn.set.controller.restart().await;

    // What is served already goes on, and what comes is the other controller's.
    let hub = turn.fleet().hub();
    let api = "jsonpath={.status.conditions[?(@.type==\"ClustersetAPI\")]}";
    eventually("the Cluster names the other controller", SOON, async || {
        let cluster = ["get", "cluster", "member2", "-o", api];
        let api = hub.kubectl(cluster).await.ok();
        let is_named = api.contains("ManagedByOther") && api.contains("cilium-operator");
        if is_named { Ok(()) } else { Err(api) }
    })
    .await;
    let second = turn.pod("member1").await;
    turn.reaches("member2", &[pod.ip(), second.ip()]).await;
    turn.service("member2").await;
    let own = turn.export("member2").await;
    let bar = service("bar").port("http", 80);
    bar.create(turn.member("member1"), &turn).await;
    let export = service_export("bar");
    export.create(turn.member("member1"), &turn).await;
    imports_bar(&turn, "member1").await;
    let imports = turn.imports(turn.member("member2"));
    let bar = imports.get_opt("bar").await.expect("an answer");
    assert!(bar.is_none(), "{bar:?}");
    let exports = turn.exports(turn.member("member2"));
    let left = exports.get("foo").await.expect("the export");
    assert_eq!(
        left.metadata.resource_version,
        own.metadata.resource_version
    );
    let check = turn.set.installation.kubectl_mcs(["check"]).await;
    let warning = "cilium-operator manages ServiceExports and ServiceImports in member2";
    assert!(check.stdout.contains(warning), "{}", check.stdout);

    // Once its last object is gone, causeway serves the member as all others.
    turn.kubectl("member2", ["delete", "serviceexport", "theirs"])
        .await;
    imports_bar(&turn, "member2").await;
    turn.says("member2", "Valid", "True", "Valid").await;
}
