//! Annotations of a ServiceExport: its consumers, and the order of its providers.

use causeway::api::labels;
use causeway_tests::{SOON, eventually};
use k8s_openapi::api::core::v1::Event;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::ListParams;
use serde_json::{Value, json};

use super::Turn;

async fn annotate(turn: &Turn, member: &str, annotation: &str, value: &str) {
    let text = format!("{annotation}={value}");
    let export = ["annotate", "--overwrite", "serviceexport", "foo", &text];
    turn.kubectl(member, export).await;
}

/// Waits until the status of member1's export names those clusters.
async fn exported_to(turn: &Turn, clusters: &str) {
    let path = "jsonpath={.status.clusters[*].cluster}";
    let get = ["get", "serviceexport", "foo", "-o", path];
    eventually("the export names its importers", SOON, async || {
        let named = turn.kubectl("member1", get).await;
        (named == clusters).then_some(()).ok_or(named)
    })
    .await;
}

#[tokio::test]
async fn cluster_removed_from_the_consumers_loses_the_import() {
    let turn = Turn::on_three().await;
    let pod = turn.exporter("member1").await;
    for member in turn.members() {
        turn.reaches(member.name(), &[pod.ip()]).await;
    }
    exported_to(&turn, "member2 member3").await;
    annotate(&turn, "member1", labels::CONSUMERS, "member2").await;
    turn.is_clean("member3").await;
    exported_to(&turn, "member2").await;
    turn.reaches("member2", &[pod.ip()]).await;
    turn.reaches("member1", &[pod.ip()]).await;
    eventually("the export says who does not import it", SOON, async || {
        let ready = turn.says("member1", "Ready", "True", "Exported").await;
        ready.contains("not imported by member3")
    })
    .await;
    annotate(&turn, "member1", labels::CONSUMERS, "Member3").await;
    eventually("the export says what is wrong", SOON, async || {
        let valid = turn.says("member1", "Valid", "True", "Valid").await;
        valid.contains("metadata.annotations[mcs.causeway.dev/consumers]")
    })
    .await;
    turn.reaches("member2", &[pod.ip()]).await;
    assert!(turn.import("member3").await.is_none());
    annotate(&turn, "member1", labels::CONSUMERS, "member2,member3").await;
    turn.reaches("member3", &[pod.ip()]).await;
}

#[tokio::test]
async fn preference_of_an_export_promotes_the_next_tier() {
    let turn = Turn::on_three().await;
    let near = turn.exporter("member1").await;
    annotate(&turn, "member1", labels::PREFER, "cluster/member1,any").await;
    let far = turn.exporter("member2").await;
    turn.reaches("member3", &[near.ip()]).await;
    let import = turn
        .imported_as("member3", "the preference", |import| {
            let annotations = import.metadata.annotations.as_ref();
            annotations.is_some_and(|all| all.contains_key(labels::PREFER))
        })
        .await;
    turn.says("member2", "Conflict", "True", "PreferConflict")
        .await;
    eventually("member2's slice is a standby", SOON, async || {
        let slices = turn.imported_slices("member3").await;
        let is_standby = |slice: &&EndpointSlice| {
            let annotations = slice.metadata.annotations.as_ref();
            annotations.is_some_and(|all| all.contains_key(labels::STANDBY))
        };
        let standby = slices.iter().find(is_standby).ok_or("it is not there")?;
        let conditions = standby.endpoints[0].conditions.clone().unwrap_or_default();
        let all = (conditions.ready, conditions.serving, conditions.terminating);
        let expected = (Some(false), Some(true), Some(true));
        (all == expected).then_some(()).ok_or(format!("{all:?}"))
    })
    .await;
    near.set_ready(false).await;
    turn.reaches("member3", &[far.ip()]).await;
    let events = turn.api::<Event>(turn.member("member3"));
    let of_import = format!(
        "involvedObject.uid={}",
        import.metadata.uid.unwrap_or_default()
    );
    eventually("the promotion is reported", SOON, async || {
        let parameters = ListParams::default().fields(&of_import);
        let all = events
            .list(&parameters)
            .await
            .map_err(|e| e.to_string())?
            .items;
        let is_there = all
            .iter()
            .any(|event| event.reason.as_deref() == Some("Promoted"));
        if is_there {
            Ok(())
        } else {
            Err(format!("{all:?}"))
        }
    })
    .await;
}

/// Sets the selectors of the export in a member.
async fn select(turn: &Turn, member: &str, selectors: &Value) {
    let patch = json!({"spec": {"clusterSelectors": selectors}}).to_string();
    let export = [
        "patch",
        "serviceexport",
        "foo",
        "--type=merge",
        "-p",
        &patch,
    ];
    turn.kubectl(member, export).await;
}

#[tokio::test]
async fn selectors_of_an_export_choose_the_clusters_and_the_import_has_the_results() {
    let turn = Turn::on_three().await;
    let label = format!("{}.gpu", turn.name());
    let labelled = ["label", "cluster", "member2", &format!("{label}=high")];
    turn.set.fleet.hub().kubectl(labelled).await.ok();
    let near = turn.exporter("member1").await;
    let far = turn.exporter("member2").await;
    turn.reaches("member3", &[near.ip(), far.ip()]).await;
    let by_label = json!({"propertySelector": {"matchProperties": {label: "high"}}});
    let by_id = json!({"propertySelector": {"matchExpressions": [
        {"key": "cluster.clusterset.k8s.io", "operator": "In", "values": ["member1", "@SameAsImporter@"]},
    ]}});
    let selectors = json!([by_label, by_id]);
    for member in ["member1", "member2"] {
        select(&turn, member, &selectors).await;
    }
    let import = turn
        .imported_as("member3", "the results", |import| {
            let status = import.status.as_ref();
            status.is_some_and(|status| !status.cluster_selector_results.is_empty())
        })
        .await;
    assert_eq!(import.spec.cluster_selectors.len(), 2);
    let status = import.status.expect("a status");
    let results: Vec<_> = status
        .cluster_selector_results
        .iter()
        .map(|one| one.clusters.join(","))
        .collect();
    assert_eq!(results, ["member2", "member1"]);
    assert_eq!(status.observed_generation, import.metadata.generation);
    turn.reaches("member3", &[far.ip()]).await;
    far.set_ready(false).await;
    turn.reaches("member3", &[near.ip()]).await;
    let wrong = json!([{"propertySelector": {}}]);
    select(&turn, "member1", &wrong).await;
    let valid = turn
        .says("member1", "Valid", "False", "InvalidClusterSelector")
        .await;
    assert!(
        valid.contains("spec.clusterSelectors[0].propertySelector"),
        "{valid}"
    );
    let conflict = turn
        .says("member2", "Conflict", "True", "ClusterSelectorsConflict")
        .await;
    assert!(conflict.contains("clusterSelectors"), "{conflict}");
}
