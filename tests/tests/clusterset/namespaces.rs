//! Namespaces whose Services are exported, and missing namespaces of exported Services.

use causeway::api::labels;
use causeway_tests::{SOON, eventually, repository, service_export};

use super::Turn;

async fn annotate_namespace(turn: &Turn, member: &str, annotation: &str) {
    let name = turn.name().to_owned();
    turn.kubectl(
        member,
        ["annotate", "--overwrite", "namespace", &name, annotation],
    )
    .await;
}

#[tokio::test]
async fn services_of_an_exported_namespace_are_imported_until_the_annotation_goes() {
    let turn = Turn::on_three().await;
    turn.service("member1").await;
    let pod = turn.pod("member1").await;
    annotate_namespace(&turn, "member1", &format!("{}=all", labels::EXPORT)).await;
    for member in turn.members() {
        turn.imported_from(member.name(), &["member1"]).await;
        turn.reaches(member.name(), &[pod.ip()]).await;
    }
    turn.says("member1", "Ready", "True", "Exported").await;
    // Services of other members, and those that causeway made, are not exported.
    let exports = turn.exports(turn.member("member2"));
    assert!(exports.get_opt("foo").await.expect("exports").is_none());

    annotate_namespace(&turn, "member1", &format!("{}=member2", labels::CONSUMERS)).await;
    eventually("member3 imports it no more", SOON, async || {
        turn.import("member3").await.is_none()
    })
    .await;
    turn.imported_from("member2", &["member1"]).await;

    annotate_namespace(&turn, "member1", &format!("{}-", labels::EXPORT)).await;
    eventually("nobody imports it", SOON, async || {
        turn.import("member2").await.is_none() && turn.import("member1").await.is_none()
    })
    .await;
    let exports = turn.exports(turn.member("member1"));
    assert!(exports.get_opt("foo").await.expect("exports").is_none());
}

#[tokio::test]
async fn exports_of_users_outlive_the_annotation_of_their_namespace() {
    let turn = Turn::on_two().await;
    annotate_namespace(&turn, "member1", &format!("{}=all", labels::EXPORT)).await;
    let own = service_export("foo")
        .create(turn.member("member1"), &turn)
        .await;
    turn.service("member1").await;
    let pod = turn.pod("member1").await;
    turn.reaches("member2", &[pod.ip()]).await;
    annotate_namespace(&turn, "member1", &format!("{}-", labels::EXPORT)).await;
    turn.says("member1", "Ready", "True", "Exported").await;
    let exports = turn.exports(turn.member("member1"));
    let now = exports.get("foo").await.expect("the export");
    assert_eq!(now.metadata.uid, own.metadata.uid);
}

#[tokio::test]
async fn missing_namespace_of_an_exported_service_is_created_if_the_cluster_asks_for_it() {
    let turn = Turn::alone_in(&["member1"]).await;
    let pod = turn.exporter("member1").await;
    turn.imported_from("member1", &["member1"]).await;
    let hub = turn.set.fleet.hub();
    let annotate = async |annotation: String| {
        hub.kubectl(["annotate", "cluster", "member2", &annotation])
            .await
            .ok();
    };
    let key = labels::CREATE_EXPORTED_NAMESPACES;
    annotate(format!("{key}=true")).await;
    eventually("the export says what is missing", SOON, async || {
        let ready = turn.says("member1", "Ready", "False", "Failed").await;
        let is_said = ready.contains("member2 has no namespace") && ready.contains("forbidden");
        is_said.then_some(()).ok_or(ready)
    })
    .await;
    let right = repository().join("manifests/member/namespace-creation.yaml");
    let right = right.display().to_string();
    let member2 = turn.member("member2");
    member2.kubectl(["apply", "-f", &right]).await.ok();
    turn.reaches("member2", &[pod.ip()]).await;
    annotate(format!("{key}-")).await;
    member2.kubectl(["delete", "-f", &right]).await.ok();
}
