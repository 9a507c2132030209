//! Exports that disagree: the oldest decides, and all of them say so.

use causeway::api::multicluster::{ServiceImport, ServiceImportSpec};
use causeway_tests::clusterset::ServiceExportFixture;
use causeway_tests::fixtures::ServiceFixture;
use causeway_tests::{SOON, eventually, service, service_export};
use k8s_openapi::api::core::v1::{ClientIPConfig, SessionAffinityConfig};

use super::Turn;
use super::imports::versions;
use super::turn::sources;

/// `foo` with port 80 in both.
fn foo() -> ServiceFixture {
    service("foo").port("http", 80)
}

/// member2 exports first, so that the names of the clusters decide nothing; then member1 disagrees.
/// Both say so.
async fn disagree(
    turn: &Turn,
    older: (ServiceFixture, ServiceExportFixture),
    younger: (ServiceFixture, ServiceExportFixture),
    reason: &str,
) -> ServiceImportSpec {
    let space = &turn;
    let [member1, member2] = ["member1", "member2"].map(|name| turn.member(name));
    older.0.create(member2, space).await;
    older.1.create(member2, space).await;
    let alone = turn.imported_from("member1", &["member2"]).await;
    turn.says("member2", "Conflict", "False", "NoConflicts")
        .await;
    younger.0.create(member1, space).await;
    turn.next_second().await;
    younger.1.create(member1, space).await;
    for member in ["member1", "member2"] {
        let message = turn.says(member, "Conflict", "True", reason).await;
        assert!(message.contains("member2"), "who wins: {message}");
    }
    for member in turn.members() {
        turn.imported_from(member.name(), &["member1", "member2"])
            .await;
    }
    turn.says("member1", "Valid", "True", "Valid").await;
    let both = turn.imported_from("member1", &["member1", "member2"]).await;
    assert_eq!(both.spec.ips, alone.spec.ips);
    both.spec
}

fn exported_as(older: ServiceFixture) -> (ServiceFixture, ServiceExportFixture) {
    (older, service_export("foo"))
}

#[tokio::test]
async fn a_headless_and_another_service_are_imported_as_the_oldest_is() {
    let turn = Turn::on_three().await;
    let older = exported_as(foo().headless());
    let spec = disagree(&turn, older, exported_as(foo()), "TypeConflict").await;
    assert_eq!(spec.type_, "Headless");
    assert_eq!(spec.ips, Vec::<String>::new());
}

fn sticky(seconds: i32) -> ServiceFixture {
    foo().with(|spec| {
        spec.session_affinity = Some("ClientIP".to_owned());
        spec.session_affinity_config = Some(SessionAffinityConfig {
            client_ip: Some(ClientIPConfig {
                timeout_seconds: Some(seconds),
            }),
        });
    })
}

fn seconds(spec: &ServiceImportSpec) -> Option<i32> {
    let config = spec.session_affinity_config.as_ref()?;
    config.client_ip.as_ref()?.timeout_seconds
}

#[tokio::test]
async fn session_affinity_is_the_oldest_s() {
    let turn = Turn::on_three().await;
    let older = exported_as(sticky(77));
    let reason = "SessionAffinityConflict";
    let spec = disagree(&turn, older, exported_as(foo()), reason).await;
    assert_eq!(spec.session_affinity.as_deref(), Some("ClientIP"));
    assert_eq!(seconds(&spec), Some(77));
    let what = "the session affinity of the import";
    turn.derived_as("member1", what, |derived| {
        derived.session_affinity.as_deref() == Some("ClientIP")
            && derived.session_affinity_config == spec.session_affinity_config
    })
    .await;
}

#[tokio::test]
async fn the_settings_of_session_affinity_are_the_oldest_s() {
    let turn = Turn::on_three().await;
    let reason = "SessionAffinityConfigConflict";
    let spec = disagree(
        &turn,
        exported_as(sticky(77)),
        exported_as(sticky(88)),
        reason,
    )
    .await;
    assert_eq!(seconds(&spec), Some(77));
}

#[tokio::test]
async fn the_internal_traffic_policy_is_the_oldest_s() {
    let turn = Turn::on_three().await;
    let local = foo().with(|spec| spec.internal_traffic_policy = Some("Local".to_owned()));
    let reason = "InternalTrafficPolicyConflict";
    let spec = disagree(&turn, exported_as(local), exported_as(foo()), reason).await;
    assert_eq!(spec.internal_traffic_policy.as_deref(), Some("Local"));
}

#[tokio::test]
async fn the_traffic_distribution_is_the_oldest_s() {
    let turn = Turn::on_three().await;
    let near = foo().with(|spec| spec.traffic_distribution = Some("PreferSameZone".to_owned()));
    let reason = "TrafficDistributionConflict";
    let spec = disagree(&turn, exported_as(near), exported_as(foo()), reason).await;
    assert_eq!(spec.traffic_distribution.as_deref(), Some("PreferSameZone"));
}

fn bears(import: &ServiceImport, key: &str) -> (Option<String>, Option<String>) {
    let label = import.metadata.labels.as_ref();
    let annotation = import.metadata.annotations.as_ref();
    (
        label.and_then(|all| all.get(key).cloned()),
        annotation.and_then(|all| all.get(key).cloned()),
    )
}

#[tokio::test]
async fn exported_labels_are_those_of_the_oldest_export() {
    let turn = Turn::on_three().await;
    let older = service_export("foo").label("team", "blue");
    let younger = service_export("foo")
        .label("team", "red")
        .label("tier", "web");
    disagree(&turn, (foo(), older), (foo(), younger), "LabelsConflict").await;
    for member in turn.members() {
        let import = turn
            .imported_from(member.name(), &["member1", "member2"])
            .await;
        let blue = Some("blue".to_owned());
        assert_eq!(bears(&import, "team"), (blue, None), "{}", member.name());
        assert_eq!(bears(&import, "tier"), (None, None), "{}", member.name());
    }
    turn.unexport("member2").await;
    turn.imported_as("member3", "the labels of the one that is left", |import| {
        let (red, web) = (Some("red".to_owned()), Some("web".to_owned()));
        bears(import, "team").0 == red && bears(import, "tier").0 == web
    })
    .await;
}

#[tokio::test]
async fn exported_annotations_are_those_of_the_oldest_export() {
    let turn = Turn::on_three().await;
    let older = service_export("foo").annotation("example.org/owner", "blue");
    let younger = service_export("foo").annotation("example.org/owner", "red");
    let reason = "AnnotationsConflict";
    disagree(&turn, (foo(), older), (foo(), younger), reason).await;
    let import = turn.imported_from("member3", &["member1", "member2"]).await;
    let blue = Some("blue".to_owned());
    assert_eq!(bears(&import, "example.org/owner"), (None, blue));
}

#[tokio::test]
async fn metadata_of_service_and_export_objects_is_not_exported() {
    let turn = Turn::on_three().await;
    let mut exported = foo().annotation("example.org/note", "home").object();
    exported.metadata.labels = Some([("note".to_owned(), "home".to_owned())].into());
    let services = turn.api(turn.member("member1"));
    let made = services.create(&Default::default(), &exported).await;
    made.expect("a Service");
    let export = service_export("foo")
        .own_label("note", "home")
        .label("sent", "yes")
        .label("multicluster.kubernetes.io/note", "home")
        .annotation("two words", "home");
    export.create(turn.member("member1"), &turn).await;
    let import = turn.imported_from("member2", &["member1"]).await;
    assert_eq!(bears(&import, "note"), (None, None));
    assert_eq!(bears(&import, "example.org/note"), (None, None));
    assert_eq!(bears(&import, "sent").0.as_deref(), Some("yes"));
    // What was asked for and cannot be carried is named.
    let valid = turn.says("member1", "Valid", "True", "Valid").await;
    for left_out in [
        "label multicluster.kubernetes.io/note (reserved)",
        "annotation two words (not a valid name and value)",
    ] {
        assert!(valid.contains(left_out), "{valid}");
    }
}

#[tokio::test]
async fn several_conflicts_are_named_together_and_end_when_the_exports_agree() {
    let turn = Turn::on_three().await;
    let younger = sticky(88).port("metrics", 9090);
    disagree_on_several(&turn, younger).await;
    port_conflict(&turn, "member2").await;

    let patch = r#"[
        {"op": "remove", "path": "/spec/ports/1"},
        {"op": "replace", "path": "/spec/sessionAffinity", "value": "None"},
        {"op": "remove", "path": "/spec/sessionAffinityConfig"}
    ]"#;
    turn.kubectl(
        "member1",
        ["patch", "svc", "foo", "--type=json", "-p", patch],
    )
    .await;
    for member in ["member1", "member2"] {
        turn.says(member, "Conflict", "False", "NoConflicts").await;
    }
    turn.imported_as("member1", "one port", |import| import.spec.ports.len() == 1)
        .await;
}

/// Waits for the event about ports that differ, and returns its object, type, reasons and message.
/// One about a Service that is not observed yet may come before.
async fn port_conflict(turn: &Turn, member: &str) -> String {
    let about = "jsonpath={range .items[*]}{.involvedObject.kind}/{.involvedObject.name} {.type} \
                 {.reason} {.message}{\"\\n\"}{end}";
    eventually("the event", SOON, async || {
        let events = turn.kubectl(member, ["get", "events", "-o", about]).await;
        let mut lines = events.lines();
        let event = lines.find(|line| line.starts_with("ServiceExport/foo Warning PortConflict"));
        event.map(ToOwned::to_owned).ok_or(events)
    })
    .await
}

/// The reasons, in whatever order.
async fn disagree_on_several(turn: &Turn, younger: ServiceFixture) {
    let space = &turn;
    foo().create(turn.member("member2"), space).await;
    turn.export("member2").await;
    younger.create(turn.member("member1"), space).await;
    turn.export_later("member1").await;
    for member in ["member1", "member2"] {
        let exports = space.exports(turn.member(member));
        eventually("both reasons", SOON, async || {
            let export = exports.get("foo").await.map_err(|e| e.to_string())?;
            let conditions = export.status.unwrap_or_default().conditions;
            let conflict = causeway::api::condition::find(&conditions, "Conflict");
            let conflict = conflict.ok_or("no condition")?;
            let mut reasons: Vec<_> = conflict.reason.split(',').collect();
            reasons.sort_unstable();
            let expected = ["PortConflict", "SessionAffinityConflict"];
            if conflict.status == "True" && reasons == expected {
                Ok(())
            } else {
                Err(format!("{conflict:?}"))
            }
        })
        .await;
    }
}

/// The reasons of six conflicts are longer together than an Event's reason may be.
#[tokio::test]
async fn the_event_of_six_conflicts_is_stored() {
    let turn = Turn::on_three().await;
    let older = (foo(), service_export("foo"));
    let younger = sticky(88).port("metrics", 9090).with(|spec| {
        spec.internal_traffic_policy = Some("Local".to_owned());
        spec.traffic_distribution = Some("PreferSameNode".to_owned());
    });
    let export = service_export("foo")
        .label("team", "red")
        .annotation("example.org/owner", "red");
    let reasons = "PortConflict,SessionAffinityConflict,InternalTrafficPolicyConflict,TrafficDistributionConflict,\
                   LabelsConflict,AnnotationsConflict";
    disagree(&turn, older, (younger, export), reasons).await;
    for member in ["member1", "member2"] {
        let event = port_conflict(&turn, member).await;
        let kept = "ServiceExport/foo Warning PortConflict,SessionAffinityConflict,InternalTrafficPolicyConflict,\
                    TrafficDistributionConflict,LabelsConflict Conflicting ports: ";
        assert!(event.starts_with(kept), "{event}");
        assert!(event.contains("Conflicting annotations: "), "{event}");
    }
}

#[tokio::test]
async fn the_type_of_an_import_changes_when_the_oldest_export_goes() {
    let turn = Turn::on_three().await;
    let older = exported_as(foo().headless());
    disagree(&turn, older, exported_as(foo()), "TypeConflict").await;
    let before = turn.imported_from("member2", &["member1", "member2"]).await;
    let imports = turn.imports(turn.member("member2"));
    let unexport = turn.unexport("member2");
    let seen = versions(&imports, unexport, |import| {
        import.spec.type_ == "ClusterSetIP" && sources(import) == ["member1"]
    })
    .await;
    for import in seen {
        assert_eq!(import.metadata.uid, before.metadata.uid);
        let has_address = !import.spec.ips.is_empty();
        assert_eq!(
            import.spec.type_ == "ClusterSetIP",
            has_address,
            "{import:?}"
        );
        assert_eq!(import.spec.ip_families, ["IPv4"], "{import:?}");
    }
    turn.says("member1", "Conflict", "False", "NoConflicts")
        .await;
}
