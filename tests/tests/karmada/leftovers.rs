//! Objects that another party keeps once causeway is done bear nothing of causeway's.

use causeway_tests::karmada::{ConflictResolution, names};
use causeway_tests::write::merge;
use causeway_tests::{LONG, eventually, service};
use k8s_openapi::api::core::v1::{Endpoints, Service};
use serde_json::{Value, json};

use crate::environment::{HUB, Turn, bears};

/// foo without a selector: provided by member1 from a slice that a person made, consumed by
/// member2.
async fn carry_without_selector(turn: &Turn) {
    let shared = service("foo").port("http", 80).without_selector();
    shared.create(turn.hub(), turn).await;
    let by_hand = "{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {name: foo-by-hand, \
        labels: {kubernetes.io/service-name: foo, endpointslice.kubernetes.io/managed-by: staff}}, \
        addressType: IPv4, endpoints: [{addresses: [10.129.200.7]}], ports: [{name: http, port: 80, protocol: TCP}]}";
    let create = ["create", "-n", turn.name(), "-f", "-"];
    turn.member("member1")
        .kubectl_with(create, by_hand)
        .await
        .ok();
    turn.offer("foo", ["member1"], ["member2"]).await;
    is_reached(turn).await;
    kubernetes_copied_labels(turn).await;
}

async fn is_reached(turn: &Turn) {
    eventually("member2 has the endpoint", LONG, async || {
        let ready = turn.ready_addresses(turn.member("member2"), "foo").await;
        (ready == ["10.129.200.7"])
            .then_some(())
            .ok_or(format!("{ready:?}"))
    })
    .await;
}

/// Kubernetes made an EndpointSlice and Endpoints for the consumer's Service, and gave them its
/// labels.
async fn kubernetes_copied_labels(turn: &Turn) {
    let endpoints = turn.api::<Endpoints>(turn.member("member2"));
    eventually("Kubernetes copied the labels", LONG, async || {
        let copied = endpoints.get_opt("foo").await.expect("an answer");
        let slices = turn.slices(turn.member("member2"), "foo").await;
        let slice = slices.iter().any(|slice| {
            let by = slice.metadata.labels.as_ref();
            let by = by.and_then(|labels| labels.get(names::SLICE_MANAGED_BY));
            bears(slice, HUB) && by.is_some_and(|by| by == "endpointslice-controller.k8s.io")
        });
        (slice && copied.is_some_and(|copied| bears(&copied, HUB)))
            .then_some(())
            .ok_or("not yet")
    })
    .await;
}

#[tokio::test]
async fn policy_that_overwrites_a_service_leaves_no_mark_of_causeway() {
    let turn = Turn::without_gate("unmarked").await;
    carry_without_selector(&turn).await;
    let overwrite = ConflictResolution::Overwrite;
    turn.karmada
        .propagate(&turn, "foo", &["member2"], overwrite)
        .await;
    eventually("the Service is Karmada's", LONG, async || {
        let service = turn.service_of("member2").await;
        bears(&service, names::MANAGED)
            .then_some(())
            .ok_or("not yet")
    })
    .await;
    is_reached(&turn).await;
    let delete = ["delete", "mcs", "foo", "-n", turn.name()];
    turn.hub().kubectl(delete).await.ok();
    turn.nothing_is_marked().await;
}

#[tokio::test]
async fn hand_over_and_adopt_leave_no_mark_of_the_other_party() {
    let turn = Turn::set("handed").await;
    carry_without_selector(&turn).await;
    turn.karmada.gate(true);
    let hand_over = "hand-over foo --observe=3s --timeout=180s";
    turn.mcs(hand_over).await.ok();
    for number in [1, 2, 3] {
        let marked = turn.marked(&format!("member{number}")).await;
        assert_eq!(marked, Vec::<String>::new(), "member{number}");
    }
    is_reached(&turn).await;

    turn.karmada.gate(false);
    turn.mcs("adopt foo --observe=3s").await.ok();
    is_reached(&turn).await;
    nothing_of_karmadas_mcs_is_left(&turn).await;
}

/// The Services stay with Karmada, and Kubernetes gives their labels to what it makes for them.
async fn nothing_of_karmadas_mcs_is_left(turn: &Turn) {
    for number in [1, 2, 3] {
        let slices = turn
            .slices(turn.member(&format!("member{number}")), "foo")
            .await;
        for slice in slices.iter().filter(|slice| !bears(*slice, HUB)) {
            let meta = &slice.metadata;
            let annotations = json!(meta.annotations).to_string();
            assert!(
                !annotations.contains("karmada.io"),
                "member{number}: {meta:?}"
            );
            assert_eq!(meta.finalizers, None, "member{number}: {meta:?}");
        }
    }
}

#[tokio::test]
async fn service_that_a_person_takes_over_keeps_no_mark_of_causeway() {
    let turn = Turn::without_gate("person").await;
    carry_without_selector(&turn).await;
    let services = turn.api::<Service>(turn.member("member2"));
    // The remedy that a write conflict names.
    let taken =
        json!({"metadata": {"labels": {HUB: Value::Null}}, "spec": {"selector": Value::Null}});
    let before = merge(&services, "foo", taken).await;
    eventually("causeway's marks go off the Service", LONG, async || {
        let service = turn.service_of("member2").await;
        let meta = json!([service.metadata.labels, service.metadata.annotations]).to_string();
        (!meta.contains("causeway")).then_some(()).ok_or(meta)
    })
    .await;
    is_reached(&turn).await;
    let delete = ["delete", "mcs", "foo", "-n", turn.name()];
    turn.hub().kubectl(delete).await.ok();
    turn.nothing_is_marked().await;
    let after = turn.service_of("member2").await;
    assert_eq!(after.metadata.uid, before.metadata.uid);
}
