//! Effects and conditions of a ServiceExport.

use std::time::Duration;

use causeway_tests::eventually::throughout;
use causeway_tests::{SOON, eventually, service, service_export};

use super::Turn;
use super::turn::sources;

on_two_and_three_clusters!(
    a_service_is_not_visible_before_it_is_exported,
    an_export_makes_an_import_in_every_cluster_the_exporter_included,
    an_export_that_is_good_says_so,
    exports_of_one_name_are_one_service,
    a_service_without_an_export_in_its_cluster_does_not_take_part,
    the_end_of_one_export_leaves_those_of_others,
    the_end_of_the_last_export_leaves_nothing_anywhere,
    an_export_without_a_service_is_invalid_until_there_is_one,
    an_external_name_service_is_refused,
);

async fn a_service_is_not_visible_before_it_is_exported(turn: Turn) {
    turn.service("member1").await;
    turn.pod("member1").await;
    throughout("no import", Duration::from_secs(1), async || {
        turn.import("member2").await.is_none()
    })
    .await;
    turn.export("member1").await;
    turn.imported_from("member2", &["member1"]).await;
}

async fn an_export_makes_an_import_in_every_cluster_the_exporter_included(turn: Turn) {
    let pod = turn.exporter("member1").await;
    for member in turn.members() {
        turn.imported_from(member.name(), &["member1"]).await;
        turn.reaches(member.name(), &[pod.ip()]).await;
    }
}

async fn an_export_that_is_good_says_so(turn: Turn) {
    turn.exporter("member1").await;
    turn.says("member1", "Valid", "True", "Valid").await;
    turn.says("member1", "Ready", "True", "Exported").await;
    turn.says("member1", "Conflict", "False", "NoConflicts")
        .await;
}

async fn exports_of_one_name_are_one_service(turn: Turn) {
    let first = turn.exporter("member1").await;
    let second = turn.exporter("member2").await;
    for member in turn.members() {
        turn.imported_from(member.name(), &["member1", "member2"])
            .await;
        turn.reaches(member.name(), &[first.ip(), second.ip()])
            .await;
    }
}

async fn a_service_without_an_export_in_its_cluster_does_not_take_part(turn: Turn) {
    turn.service("member2").await;
    turn.pod("member2").await;
    let exported = turn.exporter("member1").await;
    for member in turn.members() {
        turn.imported_from(member.name(), &["member1"]).await;
        turn.reaches(member.name(), &[exported.ip()]).await;
    }
    throughout(
        "the import has one source",
        Duration::from_secs(1),
        async || {
            let import = turn.import("member2").await;
            import.is_some_and(|import| sources(&import) == ["member1"])
        },
    )
    .await;
}

async fn the_end_of_one_export_leaves_those_of_others(turn: Turn) {
    let first = turn.exporter("member1").await;
    let second = turn.exporter("member2").await;
    let before = turn.imported_from("member1", &["member1", "member2"]).await;
    turn.reaches("member1", &[first.ip(), second.ip()]).await;
    turn.unexport("member1").await;
    for member in turn.members() {
        turn.imported_from(member.name(), &["member2"]).await;
        turn.reaches(member.name(), &[second.ip()]).await;
    }
    let after = turn.imported_from("member1", &["member2"]).await;
    assert_eq!(after.metadata.uid, before.metadata.uid);
    assert_eq!(after.spec.ips, before.spec.ips);
}

async fn the_end_of_the_last_export_leaves_nothing_anywhere(turn: Turn) {
    let pod = turn.exporter("member1").await;
    for member in turn.members() {
        turn.reaches(member.name(), &[pod.ip()]).await;
    }
    turn.unexport("member1").await;
    for member in turn.members() {
        turn.is_clean(member.name()).await;
    }
    let left = turn.kubectl("member1", ["get", "svc", "-o", "name"]).await;
    assert_eq!(left, "service/foo\n", "the Service itself is a person's");
}

async fn an_export_without_a_service_is_invalid_until_there_is_one(turn: Turn) {
    turn.export("member1").await;
    let message = turn.says("member1", "Valid", "False", "NoService").await;
    assert!(message.contains("member1"), "{message}");
    turn.says("member1", "Ready", "False", "Pending").await;
    assert!(turn.import("member2").await.is_none());
    turn.service("member1").await;
    turn.says("member1", "Valid", "True", "Valid").await;
    turn.says("member1", "Ready", "True", "Exported").await;
    turn.imported_from("member2", &["member1"]).await;
}

async fn an_external_name_service_is_refused(turn: Turn) {
    let outside = service("foo").without_selector().with(|spec| {
        spec.type_ = Some("ExternalName".to_owned());
        spec.external_name = Some("shop.example.org".to_owned());
    });
    outside.create(turn.member("member1"), &turn).await;
    turn.export("member1").await;
    let message = turn
        .says("member1", "Valid", "False", "InvalidServiceType")
        .await;
    assert!(message.contains("ExternalName"), "{message}");
    turn.says("member1", "Ready", "False", "Failed").await;
    assert!(turn.import("member2").await.is_none());
    // It takes nothing from those that are good.
    let pod = turn.exporter("member2").await;
    for member in turn.members() {
        turn.imported_from(member.name(), &["member2"]).await;
        turn.reaches(member.name(), &[pod.ip()]).await;
    }
    turn.says("member2", "Conflict", "False", "NoConflicts")
        .await;
}

#[tokio::test]
async fn node_port_and_load_balancer_become_a_clusterset_ip() {
    let turn = Turn::on_three().await;
    let pod = turn.pod("member1").await;
    for (type_, name) in [("NodePort", "node"), ("LoadBalancer", "balanced")] {
        let exported = service(name)
            .port("http", 80)
            .selector("app", "foo")
            .type_(type_);
        let made = exported.create(turn.member("member1"), &turn).await;
        let export = service_export(name);
        export.create(turn.member("member1"), &turn).await;
        let derived = format!("derived-{name}");
        eventually("the pod is reached", SOON, async || {
            let member = turn.member("member2");
            turn.ready_addresses(member, &derived).await == [pod.ip()]
        })
        .await;
        let imports = turn.imports(turn.member("member2"));
        let import = imports.get(name).await.expect("the import");
        assert_eq!(import.spec.type_, "ClusterSetIP");
        let fields = [
            "get",
            "svc",
            &derived,
            "-o",
            "jsonpath={.spec.type} {.spec.ports[0].nodePort}",
        ];
        assert_eq!(turn.kubectl("member2", fields).await, "ClusterIP ");
        let services = turn.api::<k8s_openapi::api::core::v1::Service>(turn.member("member1"));
        let after = services.get(name).await.expect("the Service");
        assert_eq!(after.spec, made.spec, "the local Service is as it was");
    }
}

#[tokio::test]
async fn nothing_is_exported_from_the_namespaces_of_the_system() {
    let turn = Turn::on_three().await;
    let member = turn.member("member1");
    let system = causeway_tests::Space::existing(turn.fleet(), "kube-system");
    let name = format!("system-{}", turn.name());
    service(&name)
        .port("http", 80)
        .create(member, &system)
        .await;
    service_export(&name).create(member, &system).await;
    let exports = system.exports(member);
    let message = eventually("the export is refused", SOON, async || {
        let export = exports.get(&name).await.map_err(|e| e.to_string())?;
        let conditions = export.status.unwrap_or_default().conditions;
        let ready = causeway::api::condition::find(&conditions, "Ready");
        let failed = ready.filter(|ready| ready.reason == "Failed");
        failed
            .map(|failed| failed.message.clone())
            .ok_or_else(|| format!("{conditions:?}"))
    })
    .await;
    assert!(message.contains("kube-system"), "{message}");
    let imports = system.imports(turn.member("member2"));
    assert!(imports.get_opt(&name).await.expect("the imports").is_none());
}

#[tokio::test]
async fn exported_label_never_changes_the_owner_of_an_import() {
    let turn = Turn::on_three().await;
    turn.service("member1").await;
    let export = service_export("foo")
        .label("karmada.io/managed", "true")
        .label("app.kubernetes.io/managed-by", "somebody")
        .label("mcs.causeway.dev/hub", "another")
        .annotation("kubectl.kubernetes.io/last-applied-configuration", "{}")
        .annotation("meta.helm.sh/release-name", "shop");
    export.create(turn.member("member1"), &turn).await;
    turn.imported_from("member2", &["member1"]).await;
    turn.unexport("member1").await;
    for member in turn.members() {
        turn.is_clean(member.name()).await;
        assert!(turn.import(member.name()).await.is_none());
    }
}
