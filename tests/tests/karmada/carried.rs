//! Services that Karmada's controllers manage, with causeway beside them.

use causeway_tests::karmada::{at_rest, names, works_of};
use causeway_tests::{SOON, addresses, eventually};

use crate::environment::Turn;

#[tokio::test]
async fn copies_yield_to_karmada_without_a_gap() {
    let turn = Turn::set("over").await;
    turn.expose("foo", ["member1"], ["member2"]).await;
    let stayed = turn.pods("foo", "member1", 1).await;

    turn.reaches("member2", "foo", &addresses(&stayed)).await;
    let observer = turn.observer(&["member1", "member2"]);
    observer.sees(2).await;

    turn.karmada.gate(true);
    let mut pods = turn.pods("foo", "member1", 1).await;
    pods.extend(stayed.iter().cloned());
    turn.is_karmadas("member2", &pods).await;
    let added = turn.pods("foo", "member1", 1).await;
    pods[0].delete().await;
    pods[0] = added[0].clone();
    turn.is_karmadas("member2", &pods).await;

    let message = turn.says("foo", "Ready", "False|ManagedByKarmada|").await;
    let remedy = format!("kubectl mcs adopt foo -n {}", turn.name());
    assert!(message.contains(&remedy), "{message}");
    assert!(!message.contains("elete"), "{message}");
    assert!(!message.contains("ot every ready endpoint"), "{message}");
    for command in ["status foo", "explain foo"] {
        let reported = turn.mcs(command).await.ok();
        assert!(reported.contains("Karmada"), "{command}: {reported}");
    }
    observer.nothing_lacked(&[("member1", &stayed), ("member2", &stayed)]);
    it_is_deleted_and_nothing_of_either_is_left(&turn).await;
}

async fn it_is_deleted_and_nothing_of_either_is_left(turn: &Turn) {
    let named = ["mcs", "foo", "-n", turn.name(), "--timeout=180s"];
    turn.hub()
        .kubectl(["delete"].into_iter().chain(named))
        .await
        .ok();
    eventually("nothing of it is left", SOON, async || {
        let works = works_of(turn.hub(), turn, "foo").await.len();
        let ready = turn.ready_addresses(turn.member("member2"), "foo").await;
        (works == 0 && ready.is_empty())
            .then_some(())
            .ok_or(format!("{works} Works, {ready:?}"))
    })
    .await;
    assert_eq!(turn.own_objects("member2").await, Vec::<String>::new());
}

/// Deletes a service whose gate was switched off before.
#[tokio::test]
async fn deletion_blocked_by_karmadas_finalizer_ends_by_adoption() {
    let turn = Turn::set("hangs").await;
    turn.karmada.gate(true);
    turn.expose("foo", ["member1"], ["member2"]).await;
    let pods = turn.pods("foo", "member1", 1).await;

    turn.is_karmadas("member2", &pods).await;
    let observer = turn.observer(&["member1"]);
    observer.sees(1).await;
    at_rest(turn.hub(), &turn, "foo").await;
    turn.karmada.gate(false);
    let named = ["mcs", "foo", "-n", turn.name()];
    let delete = ["delete"].into_iter().chain(named).chain(["--wait=false"]);
    turn.hub().kubectl(delete).await.ok();

    let reported = turn.mcs("explain foo").await.stdout;
    assert!(reported.contains(names::SERVICE_FINALIZER), "{reported}");
    assert!(reported.contains("kubectl mcs adopt foo"), "{reported}");
    turn.mcs("adopt foo --observe=3s").await.ok();
    let gone = ["wait", "--for=delete", "--timeout=180s"]
        .into_iter()
        .chain(named);
    turn.hub().kubectl(gone).await.ok();
    eventually("the consumer has no endpoint left", SOON, async || {
        turn.ready_addresses(turn.member("member2"), "foo")
            .await
            .is_empty()
    })
    .await;
    observer.nothing_lacked(&[("member1", &pods)]);
    observer.kubernetes_slices_stayed("member1");
}
