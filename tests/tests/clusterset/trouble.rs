//! The clusterset while clusters or the controller are away.

use std::time::Duration;

use causeway_tests::eventually::throughout;
use causeway_tests::{SOON, eventually, service};

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
    let bar = causeway_tests::service_export("bar");
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
async fn an_exporter_that_is_away_counts_with_what_it_last_said() {
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

    stage.member("member1").pause();
    member_is(&stage, "member1", "unreachable").await;
    here.set_ready(false).await;
    stage.reaches("member2", &[away.ip()]).await;
    here.set_ready(true).await;
    stage.reaches("member2", &[away.ip(), here.ip()]).await;
    let while_away = stage
        .imported_from("member2", &["member1", "member2"])
        .await;
    assert_eq!(while_away.spec, before.spec);

    // A controller that never heard the exporter knows of it from the import.
    stage.set.controller.restart().await;
    member_is(&stage, "member2", "synced").await;
    stage
        .kubectl("member2", ["patch", "svc", "foo", "--type=json", "-p",
            r#"[{"op": "add", "path": "/spec/ports/-", "value": {"name": "admin", "port": 7070}}]"#])
        .await;
    let grown = stage
        .imported_as("member2", "a third port", |import| {
            import.spec.ports.len() == 3
        })
        .await;
    assert_eq!(grown.spec.ports[..2], before.spec.ports[..]);
    assert_eq!(grown.spec.ips, before.spec.ips);
    stage.reaches("member2", &[away.ip(), here.ip()]).await;

    stage.member("member1").resume();
    member_is(&stage, "member1", "synced").await;
    stage
        .imported_from("member1", &["member1", "member2"])
        .await;
    stage.reaches("member1", &[away.ip(), here.ip()]).await;
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

#[tokio::test]
async fn an_export_that_ends_while_the_importer_is_away_leaves_nothing_when_it_is_back() {
    let stage = Stage::alone().await;
    let pod = stage.exporter("member1").await;
    stage.reaches("member2", &[pod.ip()]).await;
    stage.member("member2").pause();
    member_is(&stage, "member2", "unreachable").await;
    stage.unexport("member1").await;
    stage.clean("member1").await;
    stage.member("member2").resume();
    eventually("member2 is clean", NOTICED, async || {
        stage.import("member2").await.is_none()
    })
    .await;
    stage.clean("member2").await;
}

#[tokio::test]
async fn a_member_that_leaves_keeps_nothing_of_imports_and_takes_its_exports_along() {
    let stage = Stage::alone().await;
    let first = stage.exporter("member1").await;
    let second = stage.exporter("member2").await;
    for member in ["member1", "member2"] {
        stage.reaches(member, &[first.ip(), second.ip()]).await;
    }
    let member2 = stage.member("member2");
    let kubeconfig = member2.kubeconfig().display().to_string();
    let leave = ["unjoin", "member2", "--member-kubeconfig", &kubeconfig];
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
