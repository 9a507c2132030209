use serde_json::json;

use super::*;
use crate::cluster::karmada::tests::{dispatched_slice, work};
use crate::commands::moving::fixtures::{make_unread, shared};
use crate::observe::fixtures::{BOTH, healthy};

/// State of shop/foo under Karmada, in which only the finalizer of causeway remains.
fn managed_by_karmada() -> Snapshot {
    let mut snapshot = shared();
    snapshot.member("b").slices = vec![dispatched_slice(&BOTH)];
    for name in ["a", "b"] {
        let service = &mut snapshot.member(name).services[0];
        service.metadata.labels =
            Some([(labels::KARMADA_MANAGED.to_owned(), "true".to_owned())].into());
    }
    snapshot
}

#[test]
fn causeways_finalizer_goes_when_nothing_of_causeways_is_left() {
    let plan = plan(&managed_by_karmada());
    let commands: Vec<_> = plan.steps.iter().map(Step::located_command).collect();
    assert_eq!(
        commands,
        ["kubectl -n shop patch mcs foo --type=merge -p \
          '{\"metadata\":{\"finalizers\":[\"karmada.io/multiclusterservice-controller\"],\"resourceVersion\":\"3\"}}'"]
    );
    let mut snapshot = managed_by_karmada();
    snapshot.mcs.as_mut().expect("it").metadata.finalizers = None;
    assert!(super::plan(&snapshot).is_empty());
}

#[test]
fn what_holds_it_up_is_named() {
    type Case = (&'static str, fn(&mut Snapshot), &'static str);
    let cases: &[Case] = &[
        (
            "Karmada does not collect",
            |s| s.works = Some(vec![work("b", "dispatched")]),
            "a: Karmada has no Work with the MultiClusterService there",
        ),
        (
            "a copy without Karmada's slice",
            |s| s.member("b").slices = healthy().member("b").slices.clone(),
            "b: EndpointSlice a-foo-abc-0: causeway's copy still exists, because Karmada has dispatched no slice of a",
        ),
        (
            "a copy beside Karmada's slice",
            |s| {
                s.member("b")
                    .slices
                    .extend(healthy().member("b").slices.clone())
            },
            "causeway's copy still exists, beside Karmada's slices of a",
        ),
        (
            "a Service that Karmada does not take",
            |s| s.member("b").services = healthy().member("b").services.clone(),
            "b: causeway still manages the Service: Karmada has not taken it over (ResourceBinding foo-service)",
        ),
        (
            "a Service with both marks",
            |s| {
                let labels = s.member("b").services[0]
                    .metadata
                    .labels
                    .as_mut()
                    .expect("labels");
                labels.insert(labels::HUB.to_owned(), "hub".to_owned());
            },
            "it still has causeway's label",
        ),
        (
            "a consumer that cannot be read",
            |s| make_unread(s, "b"),
            "b: cannot be read, so objects of causeway may remain there: no answer",
        ),
        (
            "a former consumer that cannot be read",
            |s| make_unread(s, "d"),
            "d: cannot be read, so objects of causeway may remain there: no answer; \
             make it readable to you, or remove its Cluster",
        ),
    ];
    for (what, change, why) in cases {
        let mut snapshot = managed_by_karmada();
        change(&mut snapshot);
        let plan = plan(&snapshot);
        assert!(plan.steps.is_empty(), "{what}: {plan:?}");
        let reported = plan.left.iter().any(|left| left.to_string().contains(why));
        assert!(reported, "{what}: {plan:?}");
    }
}

#[test]
fn skipped_provider_and_clean_member_block_no_hand_over() {
    let mut snapshot = managed_by_karmada();
    snapshot.mcs.as_mut().expect("it").spec = serde_json::from_value(json!({
        "types": ["CrossCluster"],
        "providerClusters": [{ "name": "a" }, { "name": "c" }],
        "consumerClusters": [{ "name": "b" }],
    }))
    .expect("a spec");
    snapshot.clusters_mut().push(crate::fixtures::cluster(
        "c",
        json!([crate::fixtures::ready(
            "False",
            "ClusterNotReachable",
            "down"
        )]),
    ));
    assert_eq!(plan(&snapshot).left, []);
    make_unread(&mut snapshot, "d");
    snapshot.mcs.as_mut().expect("it").metadata.finalizers = None;
    assert_eq!(plan(&snapshot).left, []);
}

#[test]
fn what_is_being_deleted_is_not_handed_over() {
    let mut snapshot = managed_by_karmada();
    assert_eq!(obstacle(&snapshot), None);
    let mcs = snapshot.mcs.as_mut().expect("it");
    mcs.metadata.deletion_timestamp = mcs.metadata.creation_timestamp.clone();
    assert_eq!(
        obstacle(&snapshot).as_deref(),
        Some("the MultiClusterService is being deleted")
    );
    snapshot.mcs = None;
    assert!(obstacle(&snapshot).is_some());
}

#[test]
fn golden_plans_of_a_hand_over_are_kept() {
    crate::golden::check_states("hand_over", |snapshot| {
        crate::commands::moving::outcome::golden(snapshot, &[plan(snapshot)], obstacle)
    });
}
