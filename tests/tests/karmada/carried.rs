//! Services that Karmada's controllers manage, with causeway beside them.

use causeway_tests::karmada::{at_rest, names, works_of};
use causeway_tests::{SOON, eventually};

use crate::environment::Stage;

#[tokio::test]
async fn copies_yield_to_karmada_without_a_gap() {
    let stage = Stage::set("over").await;
    stage.service().await;
    let stayed = stage.pods(1).await;
    stage.carry().await;
    stage.reaches(2, &stayed).await;
    let observer = stage.observer(&[1, 2]);
    observer.sees(2).await;

    stage.karmada.gate(true);
    let mut pods = stage.pods(1).await;
    pods.extend(stayed.iter().cloned());
    stage.is_karmadas(2, &pods).await;
    let added = stage.pods(1).await;
    pods[0].delete().await;
    pods[0] = added[0].clone();
    stage.is_karmadas(2, &pods).await;

    let message = stage.says("False|ManagedByKarmada|").await;
    let remedy = format!("kubectl mcs adopt foo -n {}", stage.space.name());
    assert!(message.contains(&remedy), "{message}");
    assert!(!message.contains("elete"), "{message}");
    assert!(!message.contains("ot every ready endpoint"), "{message}");
    for command in ["status foo", "explain foo"] {
        let reported = stage.mcs(command).await.ok();
        assert!(reported.contains("Karmada"), "{command}: {reported}");
    }
    observer.nothing_lacked(&[("member1", &stayed), ("member2", &stayed)]);
    it_is_deleted_and_nothing_of_either_is_left(&stage).await;
}

async fn it_is_deleted_and_nothing_of_either_is_left(stage: &Stage) {
    let named = ["mcs", "foo", "-n", stage.space.name(), "--timeout=60s"];
    stage
        .hub()
        .kubectl(["delete"].into_iter().chain(named))
        .await
        .ok();
    eventually("nothing of it is left", SOON, async || {
        let works = works_of(stage.hub(), &stage.space, "foo").await.len();
        let ready = stage.space.ready_addresses(stage.member(2), "foo").await;
        (works == 0 && ready.is_empty())
            .then_some(())
            .ok_or(format!("{works} Works, {ready:?}"))
    })
    .await;
    assert_eq!(stage.own_objects(2).await, Vec::<String>::new());
}

/// Deletes a service whose gate was switched off before.
#[tokio::test]
async fn deletion_blocked_by_karmadas_finalizer_ends_by_adoption() {
    let stage = Stage::set("hangs").await;
    stage.karmada.gate(true);
    stage.service().await;
    let pods = stage.pods(1).await;
    stage.carry().await;
    stage.is_karmadas(2, &pods).await;
    let observer = stage.observer(&[1]);
    observer.sees(1).await;
    at_rest(stage.hub(), &stage.space, "foo").await;
    stage.karmada.gate(false);
    let named = ["mcs", "foo", "-n", stage.space.name()];
    let delete = ["delete"].into_iter().chain(named).chain(["--wait=false"]);
    stage.hub().kubectl(delete).await.ok();

    let reported = stage.mcs("explain foo").await.stdout;
    assert!(reported.contains(names::SERVICE_FINALIZER), "{reported}");
    assert!(reported.contains("kubectl mcs adopt foo"), "{reported}");
    stage.mcs("adopt foo --observe=3s").await.ok();
    let gone = ["wait", "--for=delete", "--timeout=60s"]
        .into_iter()
        .chain(named);
    stage.hub().kubectl(gone).await.ok();
    eventually("the consumer has no endpoint left", SOON, async || {
        stage
            .space
            .ready_addresses(stage.member(2), "foo")
            .await
            .is_empty()
    })
    .await;
    observer.nothing_lacked(&[("member1", &pods)]);
    observer.kubernetes_slices_stayed("member1");
}
