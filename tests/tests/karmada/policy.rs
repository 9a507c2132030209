//! A Service that a PropagationPolicy of Karmada's propagates, and whose endpoints causeway carries.

use causeway_tests::eventually::throughout;
use causeway_tests::karmada::{ConflictResolution, names};
use causeway_tests::{SOON, eventually, multi_cluster_service};
use kube::ResourceExt as _;
use std::time::Duration;

use crate::environment::{HUB, NOTICED, Stage, bears};

#[tokio::test]
async fn service_overwritten_by_a_policy_belongs_to_karmada() {
    let stage = Stage::without_gate("adopted").await;
    stage.service().await;
    let pods = stage.pods(1).await;
    stage.carry().await;
    stage.reaches(2, &pods).await;
    let before = stage.service_of(2).await;
    assert!(bears(&before, HUB));
    let observer = stage.observer(&[1, 2]);
    observer.sees(2).await;

    let overwrite = ConflictResolution::Overwrite;
    stage
        .karmada
        .propagate(&stage.space, "foo", &["member2"], overwrite)
        .await;
    eventually(
        "the Service is Karmada's, and causeway's label is off",
        NOTICED,
        async || {
            let service = stage.service_of(2).await;
            let (theirs, ours) = (bears(&service, names::MANAGED), bears(&service, HUB));
            (theirs && !ours)
                .then_some(())
                .ok_or(format!("{:?}", service.metadata.labels))
        },
    )
    .await;
    let adopted = stage.service_of(2).await.resource_version();
    throughout("nobody writes it", Duration::from_secs(3), async || {
        let version = stage.service_of(2).await.resource_version();
        (version == adopted)
            .then_some(())
            .ok_or(format!("{version:?}"))
    })
    .await;
    stage.reaches(2, &pods).await;
    observer.nothing_lacked(&[("member1", &pods), ("member2", &pods)]);

    // What it carries goes with the mcs, the Service stays.
    let delete = [
        "delete",
        "mcs",
        "foo",
        "-n",
        stage.space.name(),
        "--timeout=60s",
    ];
    stage.hub().kubectl(delete).await.ok();
    eventually("causeway has nothing there", SOON, async || {
        stage.own_objects(2).await.is_empty()
    })
    .await;
    let after = stage.service_of(2).await;
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
    let stage = Stage::without_gate("abort").await;
    stage.service().await;
    let pods = stage.pods(1).await;
    stage.carry().await;
    stage.reaches(2, &pods).await;
    let abort = ConflictResolution::Abort;
    stage
        .karmada
        .propagate(&stage.space, "foo", &["member2"], abort)
        .await;
    eventually("an Event says it", NOTICED, async || {
        let events = stage.events().await;
        let said = events.contains("PolicyConflict") && events.contains("or leave the Service out");
        said.then_some(()).ok_or(events)
    })
    .await;
    for command in ["status foo", "explain foo"] {
        let reported = stage.mcs(command).await.ok();
        assert!(
            reported.contains("leave Service foo out of the policy"),
            "{command}: {reported}"
        );
    }
    stage.reaches(2, &pods).await;
}

#[tokio::test]
async fn a_service_whose_sole_provider_is_drained_is_not_ready() {
    let stage = Stage::without_gate("drained").await;
    stage.service().await;
    let mcs = multi_cluster_service("foo")
        .providers(["member3"])
        .consumers(["member2"]);
    mcs.create(&stage.space).await;
    let pods = stage.space.backends("foo").create(stage.member(3)).await;
    stage.reaches(2, &pods).await;
    stage.says("True|Ready|").await;
    stage.mcs("drain member3").await.ok();
    stage.says("False|").await;
    stage.mcs("drain member3 --undo").await.ok();
    stage.reaches(2, &pods).await;
    stage.says("True|Ready|").await;
}
