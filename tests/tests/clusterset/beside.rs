//! A service that has a MultiClusterService and exports too.

use causeway_tests::{SOON, eventually, service};
use kube::api::DeleteParams;

use super::Turn;

#[tokio::test]
async fn the_own_name_and_the_clusterset_s_live_side_by_side() {
    let turn = Turn::on_three().await;
    let hub = turn.fleet().hub();
    let foo = || service("foo").port_to("http", 80, 8080);
    foo().create(hub, &turn).await;
    turn.offer("foo", ["member1"], ["member2"]).await;
    let near = turn.pod("member1").await;
    let reached = async |member: &str, expected: &[&str]| {
        let what = format!("{member} reaches {expected:?} by its own name");
        eventually(&what, SOON, async || {
            let member = turn.member(member);
            let ready = turn.ready_addresses(member, "foo").await;
            if ready == expected {
                Ok(())
            } else {
                Err(format!("{ready:?}"))
            }
        })
        .await;
    };
    reached("member2", &[near.ip()]).await;
    let far = turn.exporter("member3").await;
    turn.export_later("member1").await;
    for member in turn.members() {
        turn.imported_from(member.name(), &["member1", "member3"])
            .await;
        turn.reaches(member.name(), &[near.ip(), far.ip()]).await;
    }
    // The own name reaches the providers alone, as before.
    reached("member2", &[near.ip()]).await;
    reached("member3", &[far.ip()]).await;

    let objects = turn.api::<causeway::api::MultiClusterService>(hub);
    objects
        .delete("foo", &DeleteParams::default())
        .await
        .expect("a deletion");
    eventually("the own name is gone in member2", SOON, async || {
        let get = ["get", "svc", "foo", "--ignore-not-found", "-o", "name"];
        let left = turn.kubectl("member2", get).await;
        if left.is_empty() { Ok(()) } else { Err(left) }
    })
    .await;
    let left = turn.ready_addresses(turn.member("member2"), "derived-foo");
    assert!(left.await.iter().any(|ip| ip == far.ip()));
}
