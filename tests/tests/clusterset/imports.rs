//! ServiceImports, and their derived Services.

use std::time::Duration;

use causeway::api::labels;
use causeway::api::multicluster::ServiceImport;
use causeway_tests::{SOON, eventually, eventually::throughout, service, service_export};
use futures::{StreamExt as _, pin_mut};
use k8s_openapi::api::core::v1::Service;
use kube::Api;
use kube::api::{ListParams, WatchEvent, WatchParams};

use super::turn::sources;
use super::{Turn, cluster_set_ip, condition_of};

/// All versions of `foo`'s import that a watch sees until it has its sources, the watch having
/// begun before `change`.
pub(crate) async fn versions<F: Future<Output = ()>>(
    imports: &Api<ServiceImport>,
    change: F,
    last: impl Fn(&ServiceImport) -> bool,
) -> Vec<ServiceImport> {
    let list = imports.list(&ListParams::default()).await.expect("a list");
    let from = list.metadata.resource_version.expect("a version");
    let events = imports
        .watch(&WatchParams::default(), &from)
        .await
        .expect("a watch");
    pin_mut!(events);
    change.await;
    let mut seen = Vec::new();
    let collected = async {
        loop {
            match events.next().await.expect("a watch that goes on") {
                Ok(WatchEvent::Added(import) | WatchEvent::Modified(import)) => {
                    let done = last(&import);
                    seen.push(import);
                    if done {
                        return;
                    }
                }
                Ok(WatchEvent::Bookmark(_)) => {}
                other => panic!("{other:?} after {seen:?}"),
            }
        }
    };
    let collected = tokio::time::timeout(SOON, collected).await;
    assert!(
        collected.is_ok(),
        "the last version is not seen in {seen:?}"
    );
    seen
}

#[tokio::test]
async fn an_import_is_complete_from_its_first_version() {
    let turn = Turn::on_three().await;
    turn.service("member1").await;
    turn.pod("member1").await;
    let imports = turn.imports(turn.member("member2"));
    let export = async {
        turn.export("member1").await;
    };
    let seen = versions(&imports, export, |import| !sources(import).is_empty()).await;
    for import in &seen {
        assert_eq!(import.spec.type_, "ClusterSetIP", "{import:?}");
        assert_eq!(import.spec.ips.len(), 1, "{import:?}");
        assert_eq!(import.spec.ip_families, ["IPv4"], "{import:?}");
        assert_eq!(import.spec.ips, seen[0].spec.ips, "{import:?}");
        let ports: Vec<_> = import.spec.ports.iter().map(|port| port.port).collect();
        assert_eq!(ports, [80], "{import:?}");
    }
}

#[tokio::test]
async fn an_import_has_the_addresses_of_a_service_without_a_selector() {
    let turn = Turn::on_three().await;
    turn.exporter("member1").await;
    for member in turn.members() {
        let import = turn.imported_from(member.name(), &["member1"]).await;
        let derived = turn.derived(member.name()).await;
        let spec = derived.spec.expect("a spec");
        let annotations = import.metadata.annotations.clone().unwrap_or_default();
        assert_eq!(annotations[labels::DERIVED_SERVICE], "derived-foo");
        assert_eq!(spec.cluster_ips, Some(import.spec.ips.clone()));
        assert_eq!(spec.ip_families, Some(import.spec.ip_families.clone()));
        assert_eq!(spec.selector.unwrap_or_default(), Default::default());
        let ports = spec.ports.expect("ports");
        assert_eq!(ports[0].name.as_deref(), Some("http"));
        assert_eq!(ports[0].port, 80);
        let marks = derived.metadata.labels.expect("labels");
        assert_eq!(marks[labels::MANAGED_BY], "causeway");
        assert_eq!(marks[labels::MULTICLUSTER_SERVICE_NAME], "foo");
        let port = &import.spec.ports[0];
        assert_eq!(port.name.as_deref(), Some("http"));
        assert_eq!(port.protocol.as_deref().unwrap_or("TCP"), "TCP");
    }
}

#[tokio::test]
async fn an_import_says_how_it_is() {
    let turn = Turn::on_three().await;
    turn.exporter("member2").await;
    for member in turn.members() {
        let import = turn.imported_from(member.name(), &["member2"]).await;
        let ready = condition_of(&import, "Ready").expect("a condition");
        assert_eq!((&*ready.status, &*ready.reason), ("True", "Ready"));
        let status = import.status.expect("a status");
        assert_eq!(status.endpoint_slice_objects.as_deref(), Some("Present"));
    }
}

#[tokio::test]
async fn the_address_of_an_import_outlives_the_service_that_is_exported() {
    let turn = Turn::on_three().await;
    let pod = turn.exporter("member1").await;
    turn.reaches("member2", &[pod.ip()]).await;
    let before = turn.imported_from("member2", &["member1"]).await;
    turn.kubectl("member1", ["delete", "svc", "foo"]).await;
    turn.says("member1", "Valid", "False", "NoService").await;
    throughout("the import stays", Duration::from_secs(1), async || {
        let import = turn.import("member2").await;
        import.is_some_and(|import| import.spec == before.spec)
    })
    .await;
    turn.service("member1").await;
    turn.says("member1", "Valid", "True", "Valid").await;
    let more = turn.pod("member1").await;
    turn.reaches("member2", &[pod.ip(), more.ip()]).await;
    let after = turn.imported_from("member2", &["member1"]).await;
    assert_eq!(after.metadata.uid, before.metadata.uid);
    assert_eq!(after.spec, before.spec);
}

#[tokio::test]
async fn what_somebody_breaks_of_an_import_is_put_right() {
    let turn = Turn::on_three().await;
    let pod = turn.exporter("member1").await;
    turn.reaches("member2", &[pod.ip()]).await;
    let before = turn.imported_from("member2", &["member1"]).await;
    let patch = r#"{"spec": {"type": "Headless", "ports": [{"port": 81}], "ips": null}}"#;
    turn.kubectl(
        "member2",
        ["patch", "serviceimport", "foo", "--type=merge", "-p", patch],
    )
    .await;
    turn.imported_as("member2", "its spec again", |import| {
        import.spec == before.spec
    })
    .await;
    turn.kubectl("member2", ["delete", "svc", "derived-foo"])
        .await;
    turn.imported_as("member2", "its address again", |import| {
        import.spec == before.spec
    })
    .await;
    eventually("the Service has its address again", SOON, async || {
        let services = turn.api::<Service>(turn.member("member2"));
        let derived = services
            .get("derived-foo")
            .await
            .map_err(|e| e.to_string())?;
        let addresses = derived.spec.unwrap_or_default().cluster_ips;
        if addresses.as_ref() == Some(&before.spec.ips) {
            Ok(())
        } else {
            Err(format!("{addresses:?}"))
        }
    })
    .await;
    let copies = "--selector=multicluster.kubernetes.io/source-cluster=member1";
    turn.kubectl("member2", ["delete", "endpointslices", copies])
        .await;
    turn.reaches("member2", &[pod.ip()]).await;
    turn.kubectl("member2", ["delete", "serviceimport", "foo"])
        .await;
    turn.imported_from("member2", &["member1"]).await;
    turn.reaches("member2", &[pod.ip()]).await;
}

#[tokio::test]
async fn a_local_service_of_the_same_name_is_left_alone() {
    let turn = Turn::on_three().await;
    turn.service("member2").await;
    let local = turn.pod("member2").await;
    let member2 = turn.member("member2");
    eventually("the local endpoints", SOON, async || {
        turn.ready_addresses(member2, "foo").await == [local.ip()]
    })
    .await;
    let services = turn.api::<Service>(member2);
    let before = services.get("foo").await.expect("the Service");
    let slices = turn.slices(member2, "foo").await;
    let remote = turn.exporter("member1").await;
    turn.reaches("member2", &[remote.ip()]).await;
    let import = turn.imported_from("member2", &["member1"]).await;
    assert_eq!(services.get("foo").await.expect("the Service"), before);
    assert_eq!(turn.slices(member2, "foo").await, slices);
    let own = before.spec.and_then(|spec| spec.cluster_ip);
    assert_ne!(own.as_deref(), Some(cluster_set_ip(&import)));
    turn.unexport("member1").await;
    turn.is_clean("member2").await;
    assert_eq!(turn.slices(member2, "foo").await, slices);
}

#[tokio::test]
async fn a_cluster_without_the_namespace_imports_when_it_has_it() {
    let turn = Turn::on_three_in(&["member1", "member2"]).await;
    let pod = turn.exporter("member1").await;
    turn.reaches("member2", &[pod.ip()]).await;
    turn.says("member1", "Ready", "True", "Exported").await;
    let namespace = ["get", "namespace", turn.name()];
    let missing = turn.member("member3").kubectl(namespace).await.refused();
    assert!(missing.contains("NotFound"), "{missing}");
    turn.create_in(turn.member("member3")).await;
    turn.imported_from("member3", &["member1"]).await;
    turn.reaches("member3", &[pod.ip()]).await;
}

#[tokio::test]
async fn cluster_that_loses_the_namespace_affects_no_other() {
    let turn = Turn::on_three().await;
    let pod = turn.exporter("member1").await;
    turn.reaches("member3", &[pod.ip()]).await;
    let delete = ["delete", "namespace", turn.name()];
    turn.member("member3").kubectl(delete).await.ok();
    let more = turn.pod("member1").await;
    turn.reaches("member2", &[pod.ip(), more.ip()]).await;
    turn.says("member1", "Ready", "True", "Exported").await;
    turn.create_in(turn.member("member3")).await;
    turn.imported_from("member3", &["member1"]).await;
    turn.reaches("member3", &[pod.ip(), more.ip()]).await;
}

#[tokio::test]
async fn a_name_that_is_long_is_imported_too() {
    let turn = Turn::on_three().await;
    let name = format!("{}-z", "long".repeat(15));
    assert_eq!(name.len(), 62);
    let pod = turn.pod("member1").await;
    let long = service(&name).port("http", 80).selector("app", "foo");
    long.create(turn.member("member1"), &turn).await;
    let export = service_export(&name);
    export.create(turn.member("member1"), &turn).await;
    let imports = turn.imports(turn.member("member2"));
    let import = eventually("the import", SOON, async || {
        imports.get(&name).await.map_err(|e| e.to_string())
    })
    .await;
    let services = turn.api::<Service>(turn.member("member2"));
    let of_name = format!("{}={name}", labels::MULTICLUSTER_SERVICE_NAME);
    let derived = services.list(&ListParams::default().labels(&of_name)).await;
    let derived = derived.expect("the Services").items;
    assert_eq!(derived.len(), 1, "{derived:?}");
    let derived_name = derived[0].metadata.name.as_deref().expect("a name");
    assert!(derived_name.starts_with("derived-long"), "{derived_name}");
    assert!(derived_name.len() <= 63, "{derived_name}");
    let addresses = derived[0]
        .spec
        .as_ref()
        .and_then(|spec| spec.cluster_ips.clone());
    assert_eq!(addresses, Some(import.spec.ips));
    eventually("the pod is reached", SOON, async || {
        let member = turn.member("member2");
        turn.ready_addresses(member, derived_name).await == [pod.ip()]
    })
    .await;
}

#[tokio::test]
async fn who_may_edit_a_namespace_may_not_write_imports() {
    let turn = Turn::on_three().await;
    turn.exporter("member1").await;
    turn.imported_from("member2", &["member1"]).await;
    let bind = [
        "create",
        "rolebinding",
        "editor",
        "--clusterrole=edit",
        "--user=editor",
    ];
    turn.kubectl("member2", bind).await;
    let may = async |verb: &str, what: &str| {
        let ask = [
            "auth",
            "can-i",
            verb,
            what,
            "--as=editor",
            "-n",
            turn.name(),
        ];
        turn.member("member2").kubectl(ask).await.stdout.trim() == "yes"
    };
    eventually("the editor's rights", SOON, async || {
        may("create", "services").await
    })
    .await;
    for verb in ["create", "update", "patch", "delete"] {
        assert!(
            !may(verb, "serviceimports.multicluster.x-k8s.io").await,
            "{verb}"
        );
    }
}
