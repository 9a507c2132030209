//! Ids of clusters in their clusterset (KEP-2149), as members have them in ClusterProperties.

use causeway::api::labels;
use causeway_tests::{SOON, eventually};
use k8s_openapi::api::discovery::v1::EndpointSlice;

use super::names::headless;
use super::{Turn, dig_is_there};

/// Returns the copy in member2 of what member1 exports, once it bears that id.
async fn copy_with_id(turn: &Turn, id: &str) -> EndpointSlice {
    let what = format!("the copy of member1 in member2 has the id {id}");
    eventually(&what, SOON, async || {
        let slices = turn.imported_slices("member2").await;
        let copy = slices.iter().find(|slice| {
            let annotations = slice.metadata.annotations.as_ref();
            annotations.is_some_and(|all| all[labels::PROVISION_CLUSTER] == "member1")
        });
        let has_id = |copy: &&EndpointSlice| {
            let labels = copy.metadata.labels.as_ref();
            labels.is_some_and(|all| all[labels::SOURCE_CLUSTER] == id)
        };
        copy.filter(has_id).cloned().ok_or(format!("{slices:?}"))
    })
    .await
}

#[tokio::test]
async fn headless_names_and_labels_bear_the_id_of_the_cluster() {
    let turn = Turn::with_ids().await;
    let pods = headless(&turn, "member1", &["db-0"]).await;
    headless(&turn, "member2", &["db-0"]).await;
    turn.imported_from("member2", &["eu-1", "member2"]).await;
    let copy = copy_with_id(&turn, "eu-1").await;
    let name = turn.dns_name("clusterset.local");
    let has_names = dig_is_there();
    if has_names {
        let of_pod = format!("db-0.eu-1.{name}");
        turn.resolves("member2", &of_pod, "A", &[pods[0].ip()])
            .await;
        let of_cluster = format!("db-0.member1.{name}");
        turn.unknown("member2", &of_cluster, "A").await;
    }
    // The controller reads the id when it starts, and every 10 minutes.
    turn.member("member1").set_cluster_id("eu-2").await;
    turn.set.controller.restart().await;
    turn.imported_from("member2", &["eu-2", "member2"]).await;
    let changed = copy_with_id(&turn, "eu-2").await;
    assert_eq!(changed.metadata.uid, copy.metadata.uid, "changed in place");
    if has_names {
        let of_pod = format!("db-0.eu-2.{name}");
        turn.resolves("member2", &of_pod, "A", &[pods[0].ip()])
            .await;
    }
    let drain = ["drain", "member1", "--wait"];
    let drained = turn.set.installation.kubectl_mcs(drain).await.ok();
    let slices = turn.imported_slices("member2").await;
    assert_eq!(slices.len(), 1, "{drained}: {slices:?}");
}
