//! The EndpointSlices of an import.

use std::collections::BTreeSet;

use causeway::api::labels;
use causeway_tests::{SOON, eventually, pod};
use k8s_openapi::api::discovery::v1::EndpointSlice;

use super::Turn;

fn label<'a>(slice: &'a EndpointSlice, key: &str) -> &'a str {
    let labels = slice.metadata.labels.as_ref();
    labels
        .and_then(|labels| labels.get(key))
        .map_or("", String::as_str)
}

fn addresses(slice: &EndpointSlice) -> Vec<&str> {
    let all = slice
        .endpoints
        .iter()
        .flat_map(|endpoint| &endpoint.addresses);
    all.map(String::as_str).collect()
}

#[tokio::test]
async fn a_slice_has_endpoints_of_one_cluster_and_says_of_which() {
    let turn = Turn::on_three().await;
    let first = turn.exporter("member1").await;
    let second = turn.exporter("member2").await;
    for member in turn.members() {
        turn.reaches(member.name(), &[first.ip(), second.ip()])
            .await;
        let slices = turn.imported_slices(member.name()).await;
        let held: BTreeSet<(&str, Vec<&str>)> = slices
            .iter()
            .map(|slice| (label(slice, labels::SOURCE_CLUSTER), addresses(slice)))
            .collect();
        let expected = [
            ("member1", vec![first.ip()]),
            ("member2", vec![second.ip()]),
        ];
        assert_eq!(held, expected.into(), "{}", member.name());
        assert_eq!(slices.len(), 2, "{slices:?}");
    }
}

#[tokio::test]
async fn slices_belong_to_the_import_and_to_no_controller_of_kubernetes() {
    let turn = Turn::on_three().await;
    let pod = turn.exporter("member1").await;
    for member in turn.members() {
        let import = turn.imported_from(member.name(), &["member1"]).await;
        turn.reaches(member.name(), &[pod.ip()]).await;
        let slices = turn.imported_slices(member.name()).await;
        assert_eq!(slices.len(), 1, "{slices:?}");
        let slice = &slices[0];
        assert_eq!(label(slice, labels::SERVICE_NAME), "derived-foo");
        assert_eq!(label(slice, labels::MULTICLUSTER_SERVICE_NAME), "foo");
        assert_eq!(label(slice, labels::SOURCE_CLUSTER), "member1");
        let managed_by = label(slice, labels::SLICE_MANAGED_BY);
        assert_eq!(managed_by, labels::SLICE_DISPATCHER);
        let owners = slice.metadata.owner_references.as_deref().expect("owners");
        assert_eq!(owners.len(), 1, "{owners:?}");
        assert_eq!(owners[0].kind, "ServiceImport");
        assert_eq!(owners[0].name, "foo");
        assert!(owners[0].api_version.starts_with("multicluster.x-k8s.io/"));
        assert_eq!(Some(&owners[0].uid), import.metadata.uid.as_ref());
        assert_ne!(owners[0].controller, Some(true));
        let ports = slice.ports.as_deref().expect("ports");
        assert_eq!(ports.len(), 1, "{ports:?}");
        assert_eq!(ports[0].name.as_deref(), Some("http"));
        assert_eq!(ports[0].port, Some(8080));
    }
}

#[tokio::test]
async fn the_exporter_has_slices_of_its_own_endpoints_too() {
    let turn = Turn::on_three().await;
    let pod = turn.exporter("member2").await;
    turn.reaches("member2", &[pod.ip()]).await;
    let slices = turn.imported_slices("member2").await;
    assert_eq!(slices.len(), 1, "{slices:?}");
    assert_eq!(label(&slices[0], labels::SOURCE_CLUSTER), "member2");
    // Beside Kubernetes' own, which is as it was.
    let own = turn.slices(turn.member("member2"), "foo").await;
    assert_eq!(own.len(), 1, "{own:?}");
    let managed_by = label(&own[0], labels::SLICE_MANAGED_BY);
    assert_eq!(managed_by, labels::SLICE_CONTROLLER);
}

#[tokio::test]
async fn endpoints_follow_the_exporter_s() {
    let turn = Turn::on_three().await;
    let first = turn.exporter("member1").await;
    turn.reaches("member2", &[first.ip()]).await;
    let second = turn.pod("member1").await;
    turn.reaches("member2", &[first.ip(), second.ip()]).await;
    first.set_ready(false).await;
    turn.reaches("member2", &[second.ip()]).await;
    first.set_ready(true).await;
    second.delete().await;
    turn.reaches("member2", &[first.ip()]).await;
    first.delete().await;
    turn.reaches::<&str>("member2", &[]).await;
    // An import without endpoints is an import still.
    turn.imported_from("member2", &["member1"]).await;
}

#[tokio::test]
async fn what_an_endpoint_is_crosses_with_it() {
    let turn = Turn::on_three().await;
    let ready = turn.exporter("member1").await;
    let member1 = turn.member("member1");
    let unready = pod("foo-unready", "foo").unready();
    let unready = unready.create(member1, &turn).await;
    let found = eventually("both endpoints", SOON, async || {
        let slices = turn.imported_slices("member2").await;
        let endpoints: Vec<_> = slices
            .into_iter()
            .flat_map(|slice| slice.endpoints)
            .collect();
        let find = |ip: &str| {
            let of_ip = |ips: &[String]| ips.iter().any(|address| address == ip);
            endpoints
                .iter()
                .find(|endpoint| of_ip(&endpoint.addresses))
                .cloned()
        };
        match (find(ready.ip()), find(unready.ip())) {
            (Some(ready), Some(unready)) => Ok((ready, unready)),
            _ => Err(format!("{endpoints:?}")),
        }
    })
    .await;
    let (ready, unready) = found;
    let conditions = ready.conditions.expect("conditions");
    assert_eq!(
        (conditions.ready, conditions.serving),
        (Some(true), Some(true))
    );
    assert_eq!(ready.zone, Some(member1.zone()));
    assert_eq!(ready.node_name, None, "a node of another cluster");
    assert_eq!(ready.target_ref, None, "a pod of another cluster");
    let conditions = unready.conditions.expect("conditions");
    assert_eq!(conditions.ready, Some(false));
}
