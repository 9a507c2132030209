//! A Service that a PropagationPolicy of Karmada's propagates, and whose endpoints causeway
//! carries.

use causeway_tests::eventually::throughout;
use causeway_tests::karmada::{ConflictResolution, names};
use causeway_tests::{LONG, SOON, addresses, eventually};
use kube::ResourceExt as _;
use std::time::Duration;

use crate::environment::{HUB, Turn, bears};

#[tokio::test]
async fn service_overwritten_by_a_policy_belongs_to_karmada() {
    let turn = Turn::without_gate("adopted").await;
    turn.expose("foo", ["member1"], ["member2"]).await;
    let pods = turn.pods("foo", "member1", 1).await;

    turn.reaches("member2", "foo", &addresses(&pods)).await;
    let before = turn.service_of("member2").await;
    assert!(bears(&before, HUB));
    let observer = turn.observer(&["member1", "member2"]);
    observer.sees(2).await;

    let overwrite = ConflictResolution::Overwrite;
    turn.karmada
        .propagate(&turn, "foo", &["member2"], overwrite)
        .await;
    eventually(
        "the Service is Karmada's, and causeway's label is off",
        LONG,
        async || {
            let service = turn.service_of("member2").await;
            let (theirs, ours) = (bears(&service, names::MANAGED), bears(&service, HUB));
            (theirs && !ours)
                .then_some(())
                .ok_or(format!("{:?}", service.metadata.labels))
        },
    )
    .await;
    let adopted = turn.service_of("member2").await.resource_version();
    throughout("nobody writes it", Duration::from_secs(3), async || {
        let version = turn.service_of("member2").await.resource_version();
        (version == adopted)
            .then_some(())
            .ok_or(format!("{version:?}"))
    })
    .await;
    turn.reaches("member2", "foo", &addresses(&pods)).await;
    observer.nothing_lacked(&[("member1", &pods), ("member2", &pods)]);

    // What it carries goes with the mcs, the Service stays.
    turn.delete("foo").await;
    eventually("causeway has nothing there", SOON, async || {
        turn.own_objects("member2").await.is_empty()
    })
    .await;
    let after = turn.service_of("member2").await;
    let address = |service: &k8s_openapi::api::core::v1::Service| {
        service
            .spec
            .as_ref()
            .and_then(|spec| spec.cluster_ip.clone())
    };
    assert_eq!(
        (after.uid(), address(&after)),
        (before.uid(), address(&before))
    );
}

/// Karmada's default, Abort, then fails for ever.
#[tokio::test]
async fn later_policy_is_reported_with_its_remedies() {
    let turn = Turn::without_gate("abort").await;
    turn.expose("foo", ["member1"], ["member2"]).await;
    let pods = turn.pods("foo", "member1", 1).await;

    turn.reaches("member2", "foo", &addresses(&pods)).await;
    let abort = ConflictResolution::Abort;
    turn.karmada
        .propagate(&turn, "foo", &["member2"], abort)
        .await;
    eventually("an Event says it", LONG, async || {
        let events = turn.events().await;
        let said = events.contains("PolicyConflict") && events.contains("or leave the Service out");
        said.then_some(()).ok_or(events)
    })
    .await;
    for command in ["status foo", "explain foo"] {
        let reported = turn.mcs(command).await.ok();
        assert!(
            reported.contains("leave Service foo out of the policy"),
            "{command}: {reported}"
        );
    }
    turn.reaches("member2", "foo", &addresses(&pods)).await;
}

#[tokio::test]
async fn a_service_whose_sole_provider_is_drained_is_not_ready() {
    let turn = Turn::without_gate("drained").await;
    turn.expose("foo", ["member3"], ["member2"]).await;
    let pods = turn.pods("foo", "member3", 1).await;
    turn.reaches("member2", "foo", &addresses(&pods)).await;
    turn.says("foo", "Ready", "True|Ready|").await;
    turn.mcs("drain member3").await.ok();
    turn.says("foo", "Ready", "False|").await;
    turn.mcs("drain member3 --undo").await.ok();
    turn.reaches("member2", "foo", &addresses(&pods)).await;
    turn.says("foo", "Ready", "True|Ready|").await;
}
